"""Measure how compile time grows with the size of a graph, and fit the exponent: 1 is linear.

    python benchmarks/compile_growth.py                     # every shape with the default operations
    python benchmarks/compile_growth.py chain grid          # some shapes
    python benchmarks/compile_growth.py --ops sin,gelu      # other operations
    python benchmarks/compile_growth.py --all               # every unary operation, only chains
    python benchmarks/compile_growth.py --nodes 10000       # the largest graph, 2,000 by default

Shapes of graphs of n operations: `chain` applies them sequentially, `fan` applies each to the same
input and adds the results, `grid` is rows of operations on the sums of two neighbours, `stack`
joins n pieces along an axis, `sums` feeds the sum of all elements back, and `rows` subtracts the
mean of each row repeatedly. `forward` compiles the value, `backward` the gradient of its sum. Every
time is a cold one: no cache holds a graph or a kernel of it. The exponent is the slope of log(time)
over log(n), fitted to the larger half of the sizes, where the fixed cost of a compilation counts
little. jax, where it is installed, compiles the same chains."""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from report import describe_machine, format_machine, format_table, format_time, write_json

OPS = ("sin", "exp", "tanh", "gelu", "sqrt")
UNARY = (
    *(
        "sin",
        "cos",
        "tan",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log1p",
        "sqrt",
        "rsqrt",
        "abs",
        "neg",
        "square",
    ),
    *(
        "reciprocal",
        "tanh",
        "sinh",
        "cosh",
        "asin",
        "acos",
        "atan",
        "asinh",
        "acosh",
        "atanh",
        "sigmoid",
        "silu",
    ),
    *("gelu", "mish", "softplus", "relu", "erf", "floor", "round", "sign"),
)
N_ELEMENTS = 120
LIMIT_SECONDS = 120.0
"""Compile time in seconds after which a series stops."""


class Series(NamedTuple):
    """Compile times of one graph shape by number of operations."""

    shape: str
    op: str
    mode: str
    seconds: dict[int, float]
    jax: dict[int, float]

    @property
    def exponent(self) -> float:
        sizes = (
            sorted(self.seconds)[len(self.seconds) // 2 - 1 :]
            if len(self.seconds) > 2
            else sorted(self.seconds)
        )
        return float(np.polyfit(np.log(sizes), np.log([self.seconds[n] for n in sizes]), 1)[0])


def main() -> int:
    arguments = _parse_arguments()
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    sizes = [n for n in (25, 50, 100, 200, 400, 1000, 2000, 5000, 10_000) if n <= arguments.nodes]
    series: list[Series] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SVOD_CACHE_DIR"] = folder
        os.environ["SVOD_KERNEL_STORE"] = os.environ["SVOD_OBJECT_CACHE"] = "0"
        _warm_up()
        for shape, op, mode in _iter_series(arguments):
            series.append(_measure(shape, op, mode, sizes))
            print(_format_row(series[-1], sizes), flush=True)
    print()
    head = ("shape", "op", "mode", *map(str, sizes), "exponent")
    print(format_table(head, (_format_row(s, sizes) for s in series)))
    print(
        write_json(
            "compile_growth",
            {
                "machine": machine,
                "series": [s._asdict() | {"exponent": s.exponent} for s in series],
            },
        )
    )
    return 0


def _iter_series(arguments: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    shapes = arguments.shapes or (["chain"] if arguments.all else list(SHAPES))
    for shape in shapes:
        ops = UNARY if arguments.all else arguments.ops.split(",")
        for op in ops if shape in ("chain", "fan", "grid") else ("",):
            yield from ((shape, op, mode) for mode in ("forward", "backward"))


def _measure(shape: str, op: str, mode: str, sizes: list[int]) -> Series:
    from svod_tensor import Tensor, grad

    series = Series(shape, op, mode, {}, {})
    x = Tensor(np.linspace(0.1, 0.9, N_ELEMENTS, dtype="f4")).realize()
    for n in sizes:
        function = SHAPES[shape](op, n)
        started = perf_counter()
        value = grad(lambda x: function(x).sum())(x) if mode == "backward" else function(x)  # noqa: B023
        value.prepare()
        series.seconds[n] = perf_counter() - started
        if shape == "chain":
            _measure_jax(series, op, mode, n)
        if series.seconds[n] > LIMIT_SECONDS:
            break
    return series


def _measure_jax(series: Series, op: str, mode: str, n: int) -> None:
    try:
        import jax
        from jax import numpy as jnp
    except ImportError:
        return
    step = getattr(jnp, op, None) or getattr(jax.nn, op, None) or getattr(jax.lax, op, None)
    if step is None or max(series.jax.values(), default=0.0) > LIMIT_SECONDS / 4:
        return

    def chain(x: Any) -> Any:
        for _ in range(n):
            x = step(x)
        return x

    call = jax.grad(lambda x: chain(x).sum()) if mode == "backward" else chain
    x = jnp.linspace(0.1, 0.9, N_ELEMENTS)
    started = perf_counter()
    try:
        jax.jit(call).lower(x).compile()
    except jax.errors.JaxRuntimeError:
        # Chains of 2,000 sines overflow the stack of its compiler.
        series.jax[n] = math.inf
    else:
        series.jax[n] = perf_counter() - started


Graph = Callable[[Any], Any]


def _chain(op: str, n: int) -> Graph:
    def run(x: Any) -> Any:
        for _ in range(n):
            x = getattr(x, op)()
        return x

    return run


def _fan(op: str, n: int) -> Graph:
    def run(x: Any) -> Any:
        total = x
        for i in range(n):
            total = total + getattr(x * (1 + i / n), op)()
        return total

    return run


def _grid(op: str, n: int) -> Graph:
    """Rows of eight elements; each element combines two neighbours of the previous row."""
    width = 8

    def run(x: Any) -> Any:
        row = [x * (1 + i / width) for i in range(width)]
        for _ in range(n // width):
            row = [getattr((row[i] + row[(i + 1) % width]) * 0.5, op)() for i in range(width)]
        total = row[0]
        for value in row[1:]:
            total = total + value
        return total

    return run


def _stack(op: str, n: int) -> Graph:
    del op

    def run(x: Any) -> Any:
        return type(x).concat([x[:1] * float(i) for i in range(n)])

    return run


def _sums(op: str, n: int) -> Graph:
    del op

    def run(x: Any) -> Any:
        for _ in range(n):
            x = (x.sum() / N_ELEMENTS + x) * 0.5
        return x

    return run


def _rows(op: str, n: int) -> Graph:
    del op

    def run(x: Any) -> Any:
        rows = x.reshape(12, N_ELEMENTS // 12)
        for i in range(n):
            rows = (rows - rows.mean(-1, keepdims=True)) * (1 + i / n)
        return rows

    return run


SHAPES: dict[str, Callable[[str, int], Graph]] = {
    "chain": _chain,
    "fan": _fan,
    "grid": _grid,
    "stack": _stack,
    "sums": _sums,
    "rows": _rows,
}


def _warm_up() -> None:
    """Compile once, so that imports do not count in the first measurement."""
    from svod_tensor import Tensor, grad

    Tensor([1.0, 2.0]).exp().sum().item()
    grad(lambda x: x.exp().sum())(Tensor([1.0, 2.0])).realize()


def _format_row(series: Series, sizes: list[int]) -> tuple[str, ...]:
    def tell(n: int) -> str:
        if n not in series.seconds:
            return ""
        seconds = series.jax.get(n)
        if seconds is None:
            return format_time(series.seconds[n])
        peer = "fails" if math.isinf(seconds) else format_time(seconds)
        return f"{format_time(series.seconds[n])} (jax {peer})"

    return (series.shape, series.op, series.mode, *map(tell, sizes), f"{series.exponent:.2f}")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "shapes", nargs="*", metavar="SHAPE", help=f"shapes (default: all of {', '.join(SHAPES)})"
    )
    parser.add_argument("--ops", default=",".join(OPS), help="operations of chains, fans and grids")
    parser.add_argument("--all", action="store_true", help="every unary operation, in chains")
    parser.add_argument("--nodes", type=int, default=2000, help="operations of the largest graph")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.shapes if name not in SHAPES]
    if unknown:
        parser.error(f"unknown shape: {', '.join(unknown)}; known are {', '.join(SHAPES)}")
    return arguments


if __name__ == "__main__":
    raise SystemExit(main())
