"""Measure products over a range of sizes, compared with torch, to find sizes slower than their
neighbours.

    python benchmarks/sizes.py                           (m, 1024) by 1024 x 1024, m from 1 to 130
    python benchmarks/sizes.py --depth 4096 --columns 4096 --rows 8 16 24 32 33 48 64 65 96 128
    python benchmarks/sizes.py --batch 32 --depth 64 --columns 16

`GFLOP/s` is the rate of the fastest of many interleaved runs; `ratio` is torch's time over svod's.
`step` is the time per row over the time per row of the faster neighbour: a value much above 1 is a
cliff. Every result is compared with float64.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from report import describe_machine, format_machine, format_table, format_time, write_json
from svod_tensor import Tensor, jit

HEAD = ("rows", "svod", "torch", "svod GFLOP/s", "torch GFLOP/s", "ratio", "step")


class Measured(NamedTuple):
    rows: int
    svod: float
    torch: float
    work: int


def main() -> None:
    arguments = _parse_arguments()
    for name in ("OMP_NUM_THREADS", "SVOD_THREADS"):
        os.environ[name] = str(arguments.threads)
    machine = describe_machine()
    print(format_machine(machine))
    measurements = [_measure(rows, arguments) for rows in arguments.rows]
    steps = _compare_neighbours(measurements)
    print(
        format_table(HEAD, [_format(m, step) for m, step in zip(measurements, steps, strict=True)])
    )
    print(f"largest step: {max(steps):.2f}")
    rows = [{**m._asdict(), "step": step} for m, step in zip(measurements, steps, strict=True)]
    print(write_json("sizes", {"machine": machine, "arguments": vars(arguments), "rows": rows}))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, nargs="*", default=[*range(1, 131)], help="(default: 1 to 130)"
    )
    parser.add_argument("--depth", type=int, default=1024, help="(default: 1024)")
    parser.add_argument("--columns", type=int, default=1024, help="(default: 1024)")
    parser.add_argument("--batch", type=int, default=1, help="batch size (default: 1)")
    parser.add_argument(
        "--seconds", type=float, default=0.2, help="seconds per number of rows (default: 0.2)"
    )
    parser.add_argument(
        "--threads", type=int, default=2, help="threads of each library (default: 2)"
    )
    return parser.parse_args()


def _measure(rows: int, arguments: argparse.Namespace) -> Measured:
    import torch

    torch.set_num_threads(arguments.threads)
    draw = np.random.default_rng(rows).standard_normal
    x = draw((arguments.batch, rows, arguments.depth), dtype=np.float32)
    w = draw((arguments.batch, arguments.depth, arguments.columns), dtype=np.float32)
    product = jit(lambda x, w: x @ w)
    result = product(Tensor(x), Tensor(w)).numpy()
    np.testing.assert_allclose(
        result, x.astype(np.float64) @ w, rtol=1e-4, atol=1e-6 * arguments.depth
    )
    # A plan keeps the memory of its inputs alive.
    plan, x_torch, w_torch = product.plans()[0], torch.from_numpy(x), torch.from_numpy(w)
    svod, theirs = _time_in_turns([plan.execute, lambda: x_torch @ w_torch], arguments.seconds)
    return Measured(rows, svod, theirs, 2 * x.size * arguments.columns)


def _time_in_turns(runs: Sequence[Callable[[], Any]], seconds: float) -> list[float]:
    """Minimum seconds of each library."""
    least = [float("inf")] * len(runs)
    end = perf_counter() + seconds
    while perf_counter() < end:
        for i, run in enumerate(runs):
            started = perf_counter()
            run()
            least[i] = min(least[i], perf_counter() - started)
    return least


def _compare_neighbours(measurements: Sequence[Measured]) -> list[float]:
    speeds = [m.work / m.svod for m in measurements]
    steps: list[float] = []
    for i, speed in enumerate(speeds):
        neighbours = speeds[max(i - 1, 0) : i] + speeds[i + 1 : i + 2]
        steps.append(max(neighbours, default=speed) / speed)
    return steps


def _format(one: Measured, step: float) -> tuple[str, ...]:
    speeds = (f"{one.work / seconds / 1e9:.0f}" for seconds in (one.svod, one.torch))
    return (
        str(one.rows),
        format_time(one.svod),
        format_time(one.torch),
        *speeds,
        f"{one.torch / one.svod:.2f}",
        f"{step:.2f}",
    )


if __name__ == "__main__":
    main()
