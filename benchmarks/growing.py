"""Compare Python loops that read values rarely with the same loops reading in each step.

    python benchmarks/growing.py
    python benchmarks/growing.py --quick          # a tenth of the steps
    python benchmarks/growing.py --without        # also with the rules of `svod_tensor.cells.growth` disabled
    python benchmarks/growing.py relaxation adam  # loops whose names begin so

Each loop runs once in each mode, in a new process without kernels on disk, so that compilation
counts. The figures are processor seconds of the process and its children, which other programs
disturb least. The ratio compares svod's automatic choice of when to compute with a loop that reads
in each step, as a user would write who knows about graphs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable

import numpy as np

from report import describe_machine, format_machine, format_table, format_time, write_json

Loop = Callable[[int, bool], float]


def main() -> int:
    arguments = _parse_arguments()
    if arguments.one:
        name, steps, kind = arguments.one
        print(_run(name, int(steps), kind))
        return 0
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    report: dict[str, dict[str, float]] = {}
    for name, (_, steps, n_without) in LOOPS.items():
        if arguments.names and not any(map(name.startswith, arguments.names)):
            continue
        n = steps // 10 if arguments.quick else steps
        written, reading = (_measure(name, n, kind) for kind in ("written", "reads"))
        row = report[name] = {
            "steps": n,
            "written": written,
            "reads": reading,
            "ratio": written / reading,
        }
        if arguments.without:
            n = min(n, n_without)
            row |= {"steps_without": n, "without": _measure(name, n, "without")}
    rows = [
        [
            name,
            str(row["steps"]),
            format_time(row["written"]),
            format_time(row["reads"]),
            f"{row['ratio']:.2f}",
            *(
                [f"{format_time(row['without'])} ({row['steps_without']} steps)"]
                if "without" in row
                else []
            ),
        ]
        for name, row in report.items()
    ]
    head = ["loop", "steps", "as written", "with a read in each step", "ratio"]
    print(format_table([*head, "without the rules"] if arguments.without else head, rows))
    print(write_json("growing", {"machine": machine, "loops": report}))
    return 0


def _run(name: str, steps: int, kind: str) -> float:
    import svod_nn  # noqa: F401  # the seconds are those of the loop
    from svod_tensor import _realize
    from svod_tensor.cells import tables

    if kind == "without":
        tables.next_check = 1 << 60
        _realize.compute_repeated = lambda *_: None
        _realize.list_kept = lambda _: []
    before = sum(os.times()[:4])
    LOOPS[name][0](steps, kind == "reads")
    return sum(os.times()[:4]) - before


def _measure(name: str, steps: int, kind: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--one", name, str(steps), kind]
        environment = {**os.environ, "SVOD_CACHE_DIR": folder}
        output = subprocess.run(
            command, env=environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    return float(output)


def relax(steps: int, reads: bool, *, watches: bool = False) -> float:
    """Relaxation: each element becomes the mean of its neighbours; reads the largest change if
    `watches`.
    """
    from svod_tensor import Tensor

    z = Tensor.rand(512, 512)
    for _ in range(steps):
        new = (z.roll(1, 0) + z.roll(-1, 0) + z.roll(1, 1) + z.roll(-1, 1)) / 4
        if reads:
            new.realize()
        if watches:
            _ = (new - z).abs().max().item()
        z = new
    return z.sum().item()


def watch(steps: int, reads: bool) -> float:
    return relax(steps, reads, watches=True)


def recur(steps: int, reads: bool) -> float:
    """Scalar recurrence."""
    from svod_tensor import Tensor

    a, b, c = (Tensor(value).realize() for value in (0.999, 0.5, 1.0))
    for _ in range(steps):
        c = c * a + b
        if reads:
            c.realize()
    return c.item()


def run_cell(steps: int, reads: bool) -> float:
    """Recurrent network on slices of one array."""
    from svod_tensor import Tensor

    rng = np.random.default_rng(0)
    first, second = (Tensor(rng.standard_normal((32, 32), np.float32) * 0.1) for _ in range(2))
    x, h = Tensor(rng.standard_normal((steps, 4, 32), np.float32)), Tensor.zeros(4, 32)
    for step in range(steps):
        h = (x[step] @ first + h @ second).tanh()
        if reads:
            h.realize()
    return h.sum().item()


def train(steps: int, reads: bool) -> float:
    """Eager Adam steps of a network with two layers."""
    import svod_nn as nn
    from svod_tensor import Tensor

    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = nn.Adam(model, 1e-3)
    x, y = (Tensor(rng.standard_normal((64, size), np.float32)) for size in (16, 4))
    compute = nn.value_and_grad(model, lambda model, x, y: (model(x) - y).square().mean())
    value = Tensor(0.0)
    for _ in range(steps):
        value, gradients = compute(x, y)
        optimizer.update(gradients)
        if reads:
            _ = value.item()
    return value.item()


LOOPS: dict[str, tuple[Loop, int, int]] = {
    "relaxation, watched": (watch, 200, 60),
    "relaxation": (relax, 200, 100),
    "scalar": (recur, 10_000, 1000),
    "recurrent": (run_cell, 100, 100),
    "adam": (train, 200, 25),
}
"""Loops by name, with the number of steps, and the largest number that finishes soon without the
rules.
"""


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Python loops that read values rarely.")
    parser.add_argument("names", nargs="*", help="prefixes of loop names")
    parser.add_argument("--quick", action="store_true", help="a tenth of the steps")
    parser.add_argument("--without", action="store_true", help="also with the rules disabled")
    parser.add_argument(
        "--one", nargs=3, metavar=("LOOP", "STEPS", "KIND"), help="run one loop, in this process"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
