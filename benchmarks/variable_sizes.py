"""Compare kernels that take a size as a variable with kernels that know it.

    python benchmarks/variable_sizes.py
    python benchmarks/variable_sizes.py --sizes 100 1000 100000 --seconds 1

`known` is the minimum time of a plan for one size; the other columns are the time of a plan with a
variable over that. The variable has the bounds that `realize` chooses when a graph has a third
size, and the same memory layout. Results are compared.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from measure import measure_in_turns
from report import describe_machine, format_machine, format_table, format_time, write_json
from svod_ir.sizes import max_size, product
from svod_tensor import Tensor, Variable

MAX_ELEMENTS = 1 << 23


class Program(NamedTuple):
    """Program on a tensor of a shape in which one size varies."""

    name: str
    make_shape: Callable[[object], tuple[object, ...]]
    compute: Callable[[Tensor], Tensor]


PROGRAMS = (
    Program("x + x * 2, (n,)", lambda n: (n,), lambda x: x + x * 2),
    Program("exp, (n,)", lambda n: (n,), lambda x: x.exp()),
    Program("sum, (n,)", lambda n: (n,), lambda x: x.sum()),
    Program("mean of columns, (n, 64)", lambda n: (n, 64), lambda x: x.mean(0)),
    Program("mean of rows, (n, 64)", lambda n: (n, 64), lambda x: x.mean(1)),
    Program("mean of rows, (64, n)", lambda n: (64, n), lambda x: x.mean(1)),
    Program("softmax of rows, (n, 64)", lambda n: (n, 64), lambda x: x.softmax(1)),
    Program("softmax of rows, (64, n)", lambda n: (64, n), lambda x: x.softmax(1)),
    Program(
        "layer norm, (n, 64)",
        lambda n: (n, 64),
        lambda x: (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1),
    ),
    Program("transpose, (n, 64)", lambda n: (n, 64), lambda x: x.permute(1, 0) + 1),
)


def main() -> None:
    arguments = _parse_arguments()
    machine = describe_machine()
    print(format_machine(machine))
    rows: list[dict[str, object]] = []
    for program in PROGRAMS:
        for n in arguments.sizes:
            if math.prod(program.make_shape(n)) <= MAX_ELEMENTS:
                known, variable = _measure(program, n, arguments.seconds)
                rows.append(
                    {"program": program.name, "size": n, "known": known, "variable": variable}
                )
    print(_format(rows, arguments.sizes))
    print(write_json("variable_sizes", {"machine": machine, "rows": rows}))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[17, 100, 301, 1000, 10_007, 100_003, 1_000_000]
    )
    parser.add_argument(
        "--seconds", type=float, default=0.3, help="seconds per size of each program (default: 0.3)"
    )
    return parser.parse_args()


def _measure(program: Program, n: int, seconds: float) -> tuple[float, float]:
    """Seconds of a plan that knows the size, and of a plan with a variable."""
    low, high = 2, 256
    while high < n:
        low, high = high + 1, high * 8
    bound = Variable("n", low, high).bind(n)
    shape = program.make_shape(bound)
    array = np.random.default_rng(n).standard_normal(max_size(product(shape)), dtype=np.float32)
    prefix = array[: math.prod(program.make_shape(n))].copy()
    results = [
        program.compute(Tensor(prefix).realize().reshape(*program.make_shape(n))),
        program.compute(Tensor(array).realize()[: product(shape)].reshape(*shape)),
    ]
    plans = [result.prepare() for result in results]
    for plan in plans:
        plan.execute()
    np.testing.assert_allclose(results[1].numpy(), results[0].numpy(), rtol=1e-4, atol=1e-5)
    known, variable = measure_in_turns(
        {"known": plans[0].execute, "variable": plans[1].execute}, seconds
    ).values()
    return known, variable


def _format(rows: Sequence[dict[str, object]], sizes: Sequence[int]) -> str:
    times = {(row["program"], row["size"]): (row["known"], row["variable"]) for row in rows}
    lines: list[list[str]] = []
    for program in PROGRAMS:
        cells = [times.get((program.name, n)) for n in sizes]
        lines.append(
            [
                program.name,
                *("" if c is None else f"{format_time(c[0])}, {c[1] / c[0]:.2f}" for c in cells),
            ]
        )
    return format_table(["known, and variable over it", *map(str, sizes)], lines)


if __name__ == "__main__":
    main()
