"""Draw how close the kernels of a model come to what the machine can do: `python
docs/pictures/roofline.py`.

The model is the encoder of `benchmarks/encoder.py`. Operations, bytes, times and limits are those
of `plan.profile()`."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from svg import COLOURS, Picture

from svod_runtime import KernelSummary, Limits
from svod_tensor import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import encoder

LAYERS, HEADS, WIDTH, INNER, BATCH, LENGTH, RUNS = 6, 12, 384, 1536, 8, 128, 40
LEFT, RIGHT, TOP, BOTTOM = 70, 800, 60, 380
X_RANGE, Y_RANGE = (0.1, 1000.0), (0.5, 500.0)
KINDS = {"compute": COLOURS[0], "memory": COLOURS[1]}


def main() -> None:
    x = Tensor(np.random.default_rng(0).standard_normal((BATCH, LENGTH, WIDTH), dtype=np.float32))
    for layer in encoder.iter_layers(
        tuple(map(Tensor, encoder.make_weights(LAYERS, WIDTH, INNER)))
    ):
        x = encoder.svod_layer(x, layer, HEADS)
    report = x.prepare().profile(n_runs=RUNS)
    (limits,) = report.limits.values()
    picture = Picture(840, 440, "Roofline of an encoder of six layers")
    says = (
        f"An encoder of {LAYERS} layers, {BATCH}×{LENGTH} tokens: {report.n_launches // RUNS}"
        " kernels"
    )
    picture.text(LEFT, 32, says, 16, kind="bold")
    _draw_axes(picture)
    _draw_roof(picture, limits)
    _draw_kernels(picture, report.summaries(), report.elapsed_ns)
    picture.save(Path(__file__).with_name("roofline.svg"))


def _draw_axes(picture: Picture) -> None:
    for power in range(-1, 4):
        x = _place_x(10.0**power)
        picture.line((x, TOP), (x, BOTTOM))
        picture.text(x, BOTTOM + 18, f"{10.0**power:g}", 12, "middle", "faint")
    for value in (1, 10, 100):
        y = _place_y(value)
        picture.line((LEFT, y), (RIGHT, y))
        picture.text(LEFT - 8, y + 4, str(value), 12, "end", "faint")
    picture.text((LEFT + RIGHT) / 2, BOTTOM + 40, "operations per byte of memory", 13, "middle")
    picture.text(LEFT, TOP - 8, "GFLOP/s", 13)


def _draw_roof(picture: Picture, limits: Limits) -> None:
    """What the machine can do: limited by its memory on the left, by its arithmetic on the
    right.
    """
    peak, bandwidth = limits.operations / 1e9, limits.get_bandwidth(2**40) / 1e9
    ridge = peak / bandwidth
    points = [(Y_RANGE[0] / bandwidth, Y_RANGE[0]), (ridge, peak), (X_RANGE[1], peak)]
    if points[0][0] < X_RANGE[0]:
        points[0] = (X_RANGE[0], X_RANGE[0] * bandwidth)
    picture.line(*((_place_x(x), _place_y(y)) for x, y in points), kind="ink", width=2)
    picture.text(RIGHT - 6, _place_y(peak) - 8, f"arithmetic: {peak:.0f} GFLOP/s", 12, "end")
    picture.text(
        _place_x(2.2) + 14, _place_y(2.2 * bandwidth) + 14, f"memory: {bandwidth:.0f} GB/s", 12
    )


def _draw_kernels(picture: Picture, summaries: Sequence[KernelSummary], elapsed_ns: int) -> None:
    """One circle for each kernel, its area the share of time."""
    for row in sorted(summaries, key=lambda row: -row.elapsed_ns):
        if not row.n_operations or not row.n_bytes:
            continue
        share = row.elapsed_ns / elapsed_ns
        # The fastest launch, since the others shared the machine with something else.
        rate = row.n_operations / row.n_launches / row.fastest_ns
        hint = f"{row.name}: {share:.1%} of the time, {rate:.1f} GFLOP/s, limited by {row.bound}"
        x, y = _place_x(row.n_operations / row.n_bytes), _place_y(rate)
        picture.circle(
            x, y, 4 + 46 * math.sqrt(share / math.pi), KINDS.get(row.bound, COLOURS[2]), hint=hint
        )
    for number, (kind, colour) in enumerate(KINDS.items()):
        picture.circle(LEFT + 16, TOP + 18 + 20 * number, 6, colour)
        picture.text(
            LEFT + 28, TOP + 22 + 20 * number, f"kernel limited by {kind}; area: share of time", 12
        )


def _place_x(value: float) -> float:
    return LEFT + (RIGHT - LEFT) * math.log(value / X_RANGE[0]) / math.log(X_RANGE[1] / X_RANGE[0])


def _place_y(value: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * math.log(value / Y_RANGE[0]) / math.log(
        Y_RANGE[1] / Y_RANGE[0]
    )


if __name__ == "__main__":
    main()
