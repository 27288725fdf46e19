"""Measure how compile time grows with the length of chains of elementwise operations.

    python benchmarks/scaling.py
    python benchmarks/scaling.py sin --sizes 25 50 100

`schedule` is rangeify to preschedule, `passes` is optimize to linearize, `llvm` is rendering,
compiling and loading. The slope is fitted to the times on logarithmic axes over the larger sizes: 1
is linear, 2 is quadratic. A long chain may be split into several kernels; equal kernels are
compiled once, and `kernels` counts the distinct ones.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from math import log

from breakdown import break_down
from programs import CHAINS, make_chain
from report import describe_machine, format_machine, format_table, format_time, write_json

SIZES = (25, 50, 100, 200, 400, 800)
PARTS = {
    "schedule": ("normalize", "rangeify", "kernelize", "preschedule"),
    "passes": ("optimize", "lower", "linearize"),
    "llvm": ("render", "compile", "load"),
}


def main() -> int:
    arguments = _parse_arguments()
    os.environ["SVOD_OBJECT_CACHE"] = "0"
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    # Exclude imports and one-time initialization.
    for name in CHAINS:
        break_down(make_chain(name, 3))
    report: dict[str, object] = {}
    for name in arguments.names or CHAINS:
        times = {size: measure_parts(name, size) for size in sorted(arguments.sizes)}
        slopes = {
            phase: find_slope({size: phases[phase] for size, phases in times.items()})
            for phase in (*PARTS, "total")
        }
        print(f"\n{_format_chain(name, times, slopes)}", flush=True)
        report[name] = {"seconds": times, "slopes": slopes}
    print(write_json("scaling", {"machine": machine, "chains": report}))
    return 0


def measure_parts(name: str, n: int) -> dict[str, float]:
    """Seconds of each phase of compiling a chain of `n` operations, and the number of distinct
    kernels.
    """
    breakdown = break_down(make_chain(name, n))
    phases = {phase: sum(breakdown.steps[step] for step in names) for phase, names in PARTS.items()}
    return {**phases, "total": sum(phases.values()), "kernels": breakdown.n_kernels}


def find_slope(times: Mapping[int, float]) -> float:
    """Least-squares slope of the times on logarithmic axes, over the larger sizes."""
    sizes = sorted(times)[len(times) // 2 - 1 if len(times) > 3 else 0 :]
    points = [(log(size), log(times[size])) for size in sizes]
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def _format_chain(
    name: str, times: Mapping[int, Mapping[str, float]], slopes: Mapping[str, float]
) -> str:
    rows: list[Sequence[str]] = [
        [
            str(size),
            *(format_time(phases[phase]) for phase in slopes),
            format_time(phases["total"] / size),
            f"{phases['kernels']:.0f}",
        ]
        for size, phases in times.items()
    ]
    rows.append(["slope", *(f"{slope:.2f}" for slope in slopes.values()), "", ""])
    return format_table([name, *slopes, "per op", "kernels"], rows)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"chains (default: all of {', '.join(CHAINS)})")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="numbers of operations in the chain"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
