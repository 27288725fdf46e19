"""Measure programs over rows of many widths, to find widths slower than their neighbours.

    python benchmarks/widths.py                      # widths from 16 to 130
    python benchmarks/widths.py --widths 64 65 68    # some

Kernels process each row separately, since the rows are not contiguous in all operands or are reduced,
in vectors whose last one overlaps the previous one. Each cell is picoseconds per element of the result, the
minimum of many executions of a plan on one thread; `step` is the largest time per element over the
time of the faster neighbour.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from measure import measure_in_turns, restart_with_threads
from report import describe_machine, format_machine, format_table, write_json
from svod_tensor import Tensor

Program = tuple[Callable[..., Tensor], Callable[[int], tuple[tuple[int, ...], ...]]]

PROGRAMS: Mapping[str, Program] = {
    "a part of each row": (lambda x: x[:, :-5] * 2 + 1, lambda n: ((700, n + 5),)),
    "a column and a row": (lambda x, y: (x * y).tanh() + y, lambda n: ((700, 1), (1, n))),
    "pad": (lambda x: x.pad((0, 0), (1, 1), (1, 1)).contiguous(), lambda n: ((13, 41, n - 2),)),
    "sum over the middle": (lambda x: x.sum(1), lambda n: ((40, 30, n),)),
    "softmax": (lambda x: x.softmax(-1), lambda n: ((700, n),)),
    "max-pool": (lambda x: x.max_pool2d(3, stride=1), lambda n: ((26, 41, n + 2),)),
}


def main() -> None:
    arguments = _parse_arguments()
    restart_with_threads(1)
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    rows = {name: _measure(name, arguments.widths, arguments.seconds) for name in PROGRAMS}
    lines = [
        [str(n), *(f"{rows[name][n] * 1e12:.0f}" for name in PROGRAMS)] for n in arguments.widths
    ]
    steps = ["step", *(f"{_find_step(list(times.values())):.2f}" for times in rows.values())]
    print(format_table(["width", *PROGRAMS], [*lines, steps]))
    print(write_json("widths", {"machine": machine, "rows": rows}))


def _measure(name: str, widths: list[int], seconds: float) -> dict[int, float]:
    """Seconds per element of the result by width; widths are interleaved."""
    compute, make_shapes = PROGRAMS[name]
    plans: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for n in widths:
        draw = np.random.default_rng(n).standard_normal
        result = compute(
            *(Tensor(draw(shape, dtype=np.float32)).realize() for shape in make_shapes(n))
        )
        sizes[str(n)] = int(np.prod(result.shape))
        plans[str(n)] = result.prepare()
    times = measure_in_turns({n: plan.execute for n, plan in plans.items()}, seconds * len(widths))
    return {n: times[str(n)] / sizes[str(n)] for n in widths}


def _find_step(times: list[float]) -> float:
    steps = [
        time / min(times[max(i - 1, 0) : i] + times[i + 1 : i + 2], default=time)
        for i, time in enumerate(times)
    ]
    return max(steps)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--widths",
        type=int,
        nargs="*",
        default=[*range(16, 131, 3)],
        help="(default: 16, 19, ... to 130)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.1,
        help="seconds per width of each program (default: 0.1)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
