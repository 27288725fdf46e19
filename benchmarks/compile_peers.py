"""Measure the processor time to compile programs in svod and jax, each in a new process without
caches.

    python benchmarks/compile_peers.py                 # every case
    python benchmarks/compile_peers.py sin concat      # cases whose names begin so
    python benchmarks/compile_peers.py --without jax   # svod only

`sin 100` is the gradient of the sum of 100 chained sines; `gelu` and `tanh` are chains too. `sums
100` feeds the sum of all elements back 100 times, and `concat 1000` joins 1,000 pieces of a vector.
`transformer` and `resnet18` are the training steps of `training.py`. The time is the processor time
of all threads, since libraries compile kernels on several cores and share them with other programs.
It is the time of the first call minus the time of a later call, which does the same work without
compiling. Imports and the first compilation of a process, of another small program, are excluded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from time import process_time
from typing import Any

from report import describe_machine, format_machine, format_table, format_time, write_json

SIDES = ("svod", "jax")
N_ELEMENTS = 1000
N_LATER_CALLS = 2
NETWORKS = ("transformer", "resnet18")

Graph = Callable[[Any, Any], Any]
"""Function of a library and a vector."""


class Case:
    """Function of a vector, which is compiled directly or through its gradient."""

    def __init__(self, graph: Graph, *, is_gradient: bool) -> None:
        self.graph, self.is_gradient = graph, is_gradient


def _chain(op: str, n: int, side: Any, x: Any) -> Any:
    for _ in range(n):
        x = getattr(side, op)(x)
    return x


def _feed_sums_back(n: int, side: Any, x: Any) -> Any:
    del side
    for _ in range(n):
        x = (x.sum() / N_ELEMENTS + x) * 0.5
    return x


def _concat(n: int, side: Any, x: Any) -> Any:
    return side.concat([x[i % 900 : i % 900 + 4] * float(i) for i in range(n)])


CASES: dict[str, Case] = {
    **{f"sin {n}": Case(partial(_chain, "sin", n), is_gradient=True) for n in (25, 50, 100)},
    "gelu 24": Case(partial(_chain, "gelu", 24), is_gradient=True),
    "tanh 50": Case(partial(_chain, "tanh", 50), is_gradient=True),
    "sums 100": Case(partial(_feed_sums_back, 100), is_gradient=False),
    "sums 100, gradient": Case(partial(_feed_sums_back, 100), is_gradient=True),
    "concat 1000": Case(partial(_concat, 1000), is_gradient=False),
}


class _Svod:
    def __init__(self) -> None:
        from svod_tensor import Tensor, grad, jit

        self.jit, self.grad, self.concat = jit, grad, Tensor.concat

    def sin(self, x: Any) -> Any:
        return x.sin()

    def tanh(self, x: Any) -> Any:
        return x.tanh()

    def gelu(self, x: Any) -> Any:
        return x.gelu("tanh")

    def make_vector(self, values: Any) -> Any:
        from svod_tensor import Tensor

        return Tensor(values).realize()

    def wait(self, result: Any) -> None:
        result.numpy()


class _Jax:
    def __init__(self) -> None:
        import jax
        from jax import numpy as jnp

        self.jit, self.grad, self.concat, self.wait = (
            jax.jit,
            jax.grad,
            jnp.concatenate,
            jax.block_until_ready,
        )
        # The default of jax.nn.gelu is the tanh approximation, too.
        self.sin, self.tanh, self.gelu, self.make_vector = (
            jnp.sin,
            jnp.tanh,
            jax.nn.gelu,
            jnp.asarray,
        )


def main() -> int:
    arguments = _parse_arguments()
    if arguments.child:
        print(json.dumps(_measure(*arguments.child)))
        return 0
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    names = [
        n
        for n in (*CASES, *NETWORKS)
        if not arguments.names or any(map(n.startswith, arguments.names))
    ]
    sides = [side for side in SIDES if side not in arguments.without]
    rows: list[dict[str, Any]] = []
    for name in names:
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(arguments.repeats):
            for side in sides:
                seconds[side].append(_measure_apart(side, name))
        rows.append({"case": name, **{side: min(values) for side, values in seconds.items()}})
        print(_format_rows(rows[-1:], sides), flush=True)
    print(f"\n{_format_rows(rows, sides)}\n")
    print(write_json("compile-peers", {"machine": machine, "rows": rows}))
    return 0


def _measure_apart(side: str, name: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "SVOD_CACHE_DIR": cache, "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, __file__, "--child", side, name]
        output = subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout
    return json.loads(output.splitlines()[-1])


def _measure(side_name: str, name: str) -> float:
    """Processor seconds of the first call minus those of a later call."""
    import numpy as np

    side: Any = _Svod() if side_name == "svod" else _Jax()
    x = side.make_vector(np.linspace(0.1, 0.9, N_ELEMENTS, dtype=np.float32))
    side.wait(side.jit(lambda x: (x * x).sum())(x))
    call = (
        _make_training_step(side_name, name)
        if name in NETWORKS
        else _make_call(side, CASES[name], x)
    )
    first, *later = [_time(call) for _ in range(1 + N_LATER_CALLS)]
    return first - min(later)


def _make_call(side: Any, case: Case, x: Any) -> Callable[[], Any]:
    graph = partial(case.graph, side)
    function = side.jit(side.grad(lambda x: graph(x).sum()) if case.is_gradient else graph)
    return lambda: side.wait(function(x))


def _make_training_step(side_name: str, name: str) -> Callable[[], Any]:
    from training_libraries import find_libraries
    from training_models import iter_networks

    (library,) = find_libraries([side_name])
    step = library.make_step(next(n for n in iter_networks() if n.name == name))
    return lambda: float(step())


def _time(call: Callable[[], Any]) -> float:
    started = process_time()
    call()
    return process_time() - started


def _format_rows(rows: Sequence[dict[str, Any]], sides: Sequence[str]) -> str:
    peers = [side for side in sides if side != "svod" and "svod" in sides]
    return format_table(
        ["case", *sides, *(f"{peer} / svod" for peer in peers)],
        [
            [
                row["case"],
                *(format_time(row[side]) for side in sides),
                *(f"{row[peer] / row['svod']:.2f}" for peer in peers),
            ]
            for row in rows
        ],
    )


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="prefixes of case names (default: all)")
    parser.add_argument("--without", nargs="*", choices=SIDES, default=(), help="libraries to skip")
    parser.add_argument(
        "--repeats", type=int, default=1, help="processes for each case; the minimum counts"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
