"""Draw when each kernel of a plan runs: `python docs/pictures/timeline.py`.

The plan is the encoder of `benchmarks/encoder.py`; the times are those of the fastest of several
profiled runs, as `plan.profile()` reports them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from svg import COLOURS, Picture

from svod_runtime import KernelProfile, ProfileReport
from svod_tensor import Tensor, scope, track_origins

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import encoder

LAYERS, HEADS, WIDTH, INNER, BATCH, LENGTH, RUNS = 3, 12, 384, 1536, 8, 128, 40
LEFT, RIGHT, TOP, ROW = 150, 810, 84, 34
BAR = 22  # height of a bar in its row


def main() -> None:
    report = _profile()
    profiles = sorted(report.profiles, key=lambda profile: profile.start_ns)
    first = profiles[0].start_ns
    end = max(profile.start_ns + profile.elapsed_ns for profile in profiles)
    # In order of first launch, like the rows of a trace viewer.
    rows = list(dict.fromkeys(map(_name_operation, profiles)))
    bottom = TOP + ROW * len(rows)

    def place(ns: int) -> float:
        return LEFT + (RIGHT - LEFT) * (ns - first) / (end - first)

    picture = Picture(840, bottom + 62, "Timeline of a plan")
    says = f"One run of {LAYERS} encoder layers: {len(profiles)} kernels in {(end - first) / 1e6:.2f} ms"
    picture.text(24, 32, says, 16, kind="bold")
    _draw_layers(picture, profiles, place, bottom)
    _draw_axis(picture, (end - first) / 1e6, bottom)
    for index, row in enumerate(rows):
        y = TOP + ROW * index
        picture.text(LEFT - 10, y + ROW / 2 + 4, row, 13, "end")
        for profile in profiles:
            if _name_operation(profile) == row:
                x, x_end = place(profile.start_ns), place(profile.start_ns + profile.elapsed_ns)
                picture.rect(
                    x,
                    y + (ROW - BAR) / 2,
                    max(x_end - x, 1),
                    BAR,
                    COLOURS[index % len(COLOURS)],
                    hint=f"{profile.name}: {profile.elapsed_us:.0f} us, {profile.gflops:.0f} GFLOP/s",
                    opacity=0.9,
                )
    picture.line((LEFT, TOP), (LEFT, bottom), (RIGHT, bottom), kind="ink")
    picture.text(
        (LEFT + RIGHT) / 2, bottom + 46, "milliseconds since the first launch", 13, "middle"
    )
    picture.save(Path(__file__).with_name("timeline.svg"))


def _profile() -> ProfileReport:
    x = Tensor(np.random.default_rng(0).standard_normal((BATCH, LENGTH, WIDTH), dtype=np.float32))
    weights = tuple(map(Tensor, encoder.make_weights(LAYERS, WIDTH, INNER)))
    with track_origins():
        for index, layer in enumerate(encoder.iter_layers(weights)):
            with scope(f"layer {index}"):
                x = encoder.svod_layer(x, layer, HEADS)
    plan = x.prepare()
    reports = [plan.profile(n_runs=1) for _ in range(RUNS)]
    return min(reports, key=lambda report: report.elapsed_ns)


def _name_operation(profile: KernelProfile) -> str:
    """Name of the first operation that the kernel computes."""
    return (
        profile.origins[0].operation.replace("scaled_dot_product_", "")
        if profile.origins
        else "other"
    )


def _draw_layers(
    picture: Picture,
    profiles: Sequence[KernelProfile],
    place: Callable[[int], float],
    bottom: float,
) -> None:
    """Mark the time in which each layer's kernels run."""
    for index in range(LAYERS):
        starts = [
            p.start_ns for p in profiles if any(o.scope == f"layer {index}" for o in p.origins)
        ]
        x = place(min(starts))
        picture.line((x, TOP - 14), (x, bottom))
        picture.text(x + 5, TOP - 8, f"layer {index}", 12, kind="faint")


def _draw_axis(picture: Picture, length_ms: float, bottom: float) -> None:
    step = next(step for step in (0.2, 0.5, 1, 2, 5, 10, 20) if length_ms / step <= 10)
    for tick in range(int(length_ms / step) + 1):
        x = LEFT + (RIGHT - LEFT) * tick * step / length_ms
        picture.line((x, bottom), (x, bottom + 5), kind="ink")
        picture.text(x, bottom + 20, f"{tick * step:g}", 12, "middle", "faint")


if __name__ == "__main__":
    main()
