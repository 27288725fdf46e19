"""Measure what a call of a captured function pays for values outside of its arguments and for trees,
what it costs to record source lines while a graph is built, and what reusing the graphs of composed
operations saves.

    python benchmarks/overheads.py
    python benchmarks/overheads.py --seconds 1     # per table; the minimum counts

Every captured function adds two tensors of 16 elements, and reads in addition what its row says. The
column `more` is the time beyond the first row. A network of 100 parameters is an argument of its
function in the row of trees: the first four networks are compared by identity, so it is the fifth.
In the last table `function` builds the graph of one operation anew, and `reused` calls it as programs
do, from the second call on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from inspect import unwrap
from types import SimpleNamespace

import numpy as np

import svod_nn as nn
from measure import measure_in_turns, restart_with_threads
from report import describe_machine, format_machine, format_table, format_time, write_json
from svod_tensor import Tensor, jit, track_origins

Calls = dict[str, Callable[[], object]]

N_LAYERS = 50  # each with a weight and a bias
N_BUILT = 100  # operations of a graph that is built
OPERATIONS: dict[str, tuple[object, ...]] = {
    "matmul": (),
    "softmax": (-1,),
    "layernorm": (-1,),
    "gelu": (),
    "lgamma": (),
}

A, B, C, D, E = 1.0, 2.0, 3.0, 4.0, 5.0


class Network(nn.Module):
    """A network of which a function reads one parameter."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(4, 4) for _ in range(N_LAYERS)]


def main() -> None:
    arguments = _parse_arguments()
    restart_with_threads(1)
    machine = describe_machine()
    print(format_machine(machine))
    calls = measure_in_turns(_make_calls(), arguments.seconds)
    first = next(iter(calls.values()))
    rows = [[name, format_time(t), format_time(t - first)] for name, t in calls.items()]
    print(format_table(["the function reads", "a call", "more"], rows))
    built = measure_in_turns(_make_builders(), arguments.seconds)
    first = next(iter(built.values()))
    rows = [[name, format_time(t), f"{t / first:.2f}"] for name, t in built.items()]
    print(format_table([f"building {N_BUILT} operations", "time", "factor"], rows))
    operations = measure_in_turns(_make_operations(), arguments.seconds)
    rows = [
        [name, format_time(anew), format_time(reused), f"{anew / reused:.1f}"]
        for name in OPERATIONS
        for anew, reused in [(operations[f"{name}, anew"], operations[name])]
    ]
    print(format_table(["building an operation", "function", "reused", "factor"], rows))
    report = {"calls": calls, "building": built, "operations": operations}
    print(write_json("overheads", {"machine": machine, **report}))


def _make_calls() -> Calls:
    x, y = (Tensor(np.ones(16, np.float32)).realize() for _ in range(2))
    settings = SimpleNamespace(a=1.0, b=2.0, c=3.0, d=4.0, e=5.0)
    network, trees = Network(), [Network() for _ in range(5)]
    plain = jit(lambda x, y: x + y)
    read_globals = jit(lambda x, y: x + y if A + B + C + D + E else x)

    def read_settings(x: Tensor, y: Tensor) -> Tensor:
        s = settings
        return x + y if s.a + s.b + s.c + s.d + s.e else x

    read_attributes = jit(read_settings)
    read_network = jit(lambda x, y: x + y if network.layers[0].bias is not None else x)
    read_tree = jit(lambda tree, x, y: x + y if len(tree) == N_LAYERS else x)
    tree = [Tensor(np.ones(4, np.float32)).realize() for _ in range(N_LAYERS)]
    read_networks = jit(lambda network, x, y: x + y if len(network.layers) else x)
    for other in trees:
        read_networks(other, x, y)
    return {
        "no outside value": lambda: plain(x, y),
        "five globals": lambda: read_globals(x, y),
        "five attributes of an object": lambda: read_attributes(x, y),
        f"a network of {2 * N_LAYERS} parameters": lambda: read_network(x, y),
        f"a list of {N_LAYERS} tensors, as an argument": lambda: read_tree(tree, x, y),
        f"a fifth network of {2 * N_LAYERS} parameters, as an argument": lambda: read_networks(
            trees[-1], x, y
        ),
    }


def _make_builders() -> Calls:
    x = Tensor(np.ones(16, np.float32)).realize()

    def build() -> Tensor:
        y = x
        for _ in range(N_BUILT // 2):
            y = y * 1.5 + 1
        return y

    def build_with_origins() -> Tensor:
        with track_origins():
            return build()

    return {"plainly": build, "with `track_origins()`": build_with_origins}


def _make_operations() -> Calls:
    x = Tensor(np.ones((4, 16), np.float32)).realize()
    calls: Calls = {}
    for name, arguments in OPERATIONS.items():
        operation = getattr(Tensor, name)
        operands = (x, *([x.T] if name == "matmul" else []), *arguments)
        calls[name] = partial(operation, *operands)
        calls[f"{name}, anew"] = partial(unwrap(operation), *operands)
    return calls


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="time for each table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
