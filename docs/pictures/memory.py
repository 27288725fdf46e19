"""Draw which memory a plan needs when: `python docs/pictures/memory.py`.

The plan is that of the encoder of `benchmarks/encoder.py`; the places are those of its buffers.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from svg import COLOURS, Picture

from svod_runtime import ExecutionPlan, PreparedKernel
from svod_tensor import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import encoder

LAYERS, HEADS, WIDTH, INNER, BATCH, LENGTH = 3, 12, 384, 1536, 8, 128
LEFT, RIGHT, TOP, BOTTOM = 70, 800, 64, 350


def main() -> None:
    x = Tensor(np.random.default_rng(0).standard_normal((BATCH, LENGTH, WIDTH), dtype=np.float32))
    for layer in encoder.iter_layers(
        tuple(map(Tensor, encoder.make_weights(LAYERS, WIDTH, INNER)))
    ):
        x = encoder.svod_layer(x, layer, HEADS)
    plan = x.prepare()
    lives = _list_lives(plan)
    n_levels, size = len(plan.levels), max(offset + nbytes for _, _, offset, nbytes in lives)
    report = plan.memory_report
    picture = Picture(840, 420, "The memory of a plan over time")
    says = (
        f"Intermediates of {LAYERS} encoder layers: {_to_mb(report.bytes_before)} in"
        f" {_to_mb(report.bytes_after)} of memory"
    )
    picture.text(LEFT, 32, says, 16, kind="bold")
    for number, (first, last, offset, nbytes) in enumerate(lives):
        x0, x1 = (LEFT + (RIGHT - LEFT) * level / n_levels for level in (first, last + 1))
        y = BOTTOM - (BOTTOM - TOP) * (offset + nbytes) / size
        hint = f"{_to_mb(nbytes)}, levels {first} to {last}"
        picture.rect(
            x0 + 1,
            y + 1,
            x1 - x0 - 2,
            (BOTTOM - TOP) * nbytes / size - 2,
            COLOURS[number % len(COLOURS)],
            hint=hint,
            opacity=0.85,
        )
    picture.line((LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM), kind="ink")
    for level in range(0, n_levels, max(1, n_levels // 10)):
        picture.text(
            LEFT + (RIGHT - LEFT) * (level + 0.5) / n_levels,
            BOTTOM + 18,
            str(level),
            12,
            "middle",
            "faint",
        )
    picture.text(
        (LEFT + RIGHT) / 2,
        BOTTOM + 42,
        "level of the plan: kernels of one level may run at once",
        13,
        "middle",
    )
    picture.text(LEFT - 8, TOP + 8, _to_mb(size), 12, "end", "faint")
    picture.text(LEFT - 8, BOTTOM, "0", 12, "end", "faint")
    picture.save(Path(__file__).with_name("memory.svg"))


def _list_lives(plan: ExecutionPlan) -> list[tuple[int, int, int, int]]:
    """(first level, last level, offset, bytes) of each value in the memory that intermediates
    share.

    Values of the same place and size have one buffer: a kernel that writes it begins the next
    value's life."""
    level_of = {op: number for number, level in enumerate(plan.levels) for op in level}
    current: dict[int, list[int]] = {}
    lives: list[tuple[int, int, int, int]] = []
    for number in sorted(level_of, key=lambda op: level_of[op]):
        op = plan.prepared_ops[number]
        written = (
            [op.buffer_indices[i] for i in op.output_indices]
            if isinstance(op, PreparedKernel)
            else []
        )
        for index in dict.fromkeys(op.buffer_indices):
            if index in written:
                lives += _end_life(plan, index, current.pop(index, []))
            current.setdefault(index, []).append(level_of[number])
    for index, used in current.items():
        lives += _end_life(plan, index, used)
    return sorted(lives)


def _end_life(plan: ExecutionPlan, index: int, used: list[int]) -> list[tuple[int, int, int, int]]:
    buffer = plan.buffers[index]
    is_shared = buffer.storage_nbytes > buffer.nbytes
    return [(min(used), max(used), buffer.offset, buffer.nbytes)] if used and is_shared else []


def _to_mb(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB"


if __name__ == "__main__":
    main()
