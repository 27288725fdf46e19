"""Measure the constants of the heuristics: kernels with half, the same and twice each constant.

    SVOD_THREADS=1 python benchmarks/heuristics.py            # all that do not need threads, some minutes
    python benchmarks/heuristics.py MIN_THREADED_WORK         # some

A row is a kernel whose opts change near a constant. It has the times with half and with twice the
constant over the time with the constant, so that a value below 1 is an improvement. `model` is the
same for the opts that the cost model predicts to be fastest among the three: a constant is as good
as the model if that is not below 1. Constants that change no kernel here are listed at the end.
Constants of workgroups need a device that has workgroups (`--device OPENCL`).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import exp, log
from typing import Any

import numpy as np

from measure import measure_in_turns
from report import describe_machine, format_machine, format_table, format_time, write_json

HEAD = ("constant", "value", "kernel", "time", "half", "double", "model")
FACTORS = {"half": 0.5, "same": 1.0, "double": 2.0}


@dataclass(frozen=True)
class Row:
    """Seconds of a kernel with half, the same and twice a constant, and the predicted seconds."""

    constant: str
    value: float
    kernel: str
    seconds: dict[str, float]
    predicted: dict[str, float]

    def ratio(self, name: str) -> float:
        return self.seconds[name] / self.seconds["same"]

    @property
    def model(self) -> float:
        return self.ratio(min(FACTORS, key=lambda name: (self.predicted[name], name != "same")))


def main() -> int:
    arguments = _parse_arguments()
    os.environ["SVOD_KERNEL_STORE"] = os.environ["SVOD_OBJECT_CACHE"] = os.environ["SVOD_TUNED"] = (
        "0"
    )
    from svod_schedule.optimize.heuristics import constants

    machine = describe_machine()
    print(format_machine(machine), flush=True)
    scalars = [n for n, v in vars(constants).items() if n.isupper() and isinstance(v, int | float)]
    names = arguments.names or [n for n in scalars if n != "MIN_THREADED_WORK"]
    rows: list[Row] = []
    for title, make in _iter_kernels():
        print(f"{title} ...", end=" ", flush=True, file=sys.stderr)
        rows += measure_kernel(title, make, names, arguments.seconds, arguments.device)
    print(file=sys.stderr)
    order = sorted(rows, key=lambda row: names.index(row.constant))
    print(format_table(HEAD, map(_format_row, order)))
    for name in names:
        kernels = [row for row in rows if row.constant == name]
        if kernels:
            means = [
                _mean([r.ratio("half") for r in kernels]),
                _mean([r.ratio("double") for r in kernels]),
            ]
            print(
                f"{name}: half {means[0]:.2f}, double {means[1]:.2f}, model"
                f" {_mean([r.model for r in kernels]):.2f}"
            )
    print("no kernel differs:", ", ".join(n for n in names if all(r.constant != n for r in rows)))
    print(write_json("heuristics", {"machine": machine, "rows": [vars(row) for row in order]}))
    return 0


def measure_kernel(
    title: str, make: Callable[[], Any], names: list[str], seconds: float, device_name: str
) -> Iterator[Row]:
    """Measure the kernel with each constant that its opts depend on.

    Opts that several constants lead to are measured once.
    """
    from svod_device import get_device
    from svod_schedule.optimize.cost_model.expected_time import estimate_cost
    from svod_schedule.optimize.heuristics import constants
    from svod_schedule.pipeline import run_pipeline
    from svod_tensor import PrepareConfig
    from svod_tensor.engine.kernels import make_context

    target = get_device(device_name).target
    context = make_context(get_device(device_name), PrepareConfig())
    kernel = run_pipeline("optimize", _find_body(make()), context, until="apply-opts")
    same = _choose(kernel, target)
    sinks = {same.opts: same.scheduler.finish()}
    opts_by_constant: dict[str, dict[str, Any]] = {}
    for name in names:
        opts: dict[str, Any] = {"same": same.opts}
        for factor in ("half", "double"):
            with _scaled(name, FACTORS[factor]):
                chosen = _choose(kernel, target)
            opts[factor] = chosen.opts
            sinks.setdefault(chosen.opts, chosen.scheduler.finish())
        if len(set(opts.values())) > 1:
            opts_by_constant[name] = opts
    plans = (
        {opts: make().prepare_with(PrepareConfig(opts=opts)) for opts in sinks}
        if opts_by_constant
        else {}
    )
    times = measure_in_turns(
        {str(opts): plan.execute for opts, plan in plans.items()}, seconds * len(plans)
    )
    predicted = {opts: estimate_cost(sink, target).seconds for opts, sink in sinks.items()}
    for name, opts in opts_by_constant.items():
        yield Row(
            name,
            getattr(constants, name),
            title,
            {f: times[str(opts[f])] for f in FACTORS},
            {f: predicted[opts[f]] for f in FACTORS},
        )


def _choose(kernel: Any, target: Any) -> Any:
    from svod_schedule.optimize import choose

    return choose(kernel, target)


@contextmanager
def _scaled(name: str, factor: float) -> Iterator[None]:
    from svod_schedule.optimize.heuristics import constants

    value = getattr(constants, name)
    setattr(constants, name, type(value)(value * factor))
    try:
        yield
    finally:
        setattr(constants, name, value)


def _find_body(result: Any) -> Any:
    """Body of the only kernel that computes a tensor."""
    from svod_ir import Op, UOp
    from svod_tensor import PrepareConfig
    from svod_tensor.engine.uncached import make_schedule

    sink = UOp.sink(UOp(Op.CONTIGUOUS, result.dtype, (result.uop,)))
    (body,) = {item.ast for item in make_schedule(sink, PrepareConfig()).iter_kernels()}
    return body


def _iter_kernels() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Tensors of one kernel each: common kernels, and kernels near the thresholds of the
    heuristics.
    """
    from svod_tensor import Tensor

    def draw(*shape: int) -> Tensor:
        return Tensor(
            np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)
        ).realize()

    for n in (1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 18):
        yield f"add {n}", partial(lambda x: x + 1.0, draw(n))
    for n in (1 << 11, 1 << 13, 1 << 16):
        yield f"exp {n}", partial(lambda x: x.exp(), draw(n))
    x = draw(512, 1024)
    yield "chain", lambda: (x * x + 1).sqrt() * (-x).exp() + x.tanh()
    yield "softmax", lambda: x.softmax(-1)
    yield "squares of rows", lambda: (x * x).sum(1)
    for m, n in ((512, 1024), (4096, 64), (64, 4096), (100, 1000), (33, 257), (2048, 2048)):
        matrix = draw(m, n)
        yield f"sum of rows, {m} x {n}", partial(lambda x: x.sum(1), matrix)
        yield f"largest of rows, {m} x {n}", partial(lambda x: x.max(1), matrix)
        yield f"sum of columns, {m} x {n}", partial(lambda x: x.sum(0), matrix)
    for m, n in (
        (512, 1024),
        (100, 100),
        (60, 84),
        (1000, 1000),
        (36, 1000),
        (20, 20),
        (250, 250),
        (12, 4096),
        (196, 768),
    ):
        yield f"transposed, {m} x {n}", partial(lambda x: x.T + 1.0, draw(m, n))
    weights = draw(768, 512)
    for rows in (4, 8, 16, 24, 32, 48, 64, 96, 128, 512):
        yield f"{rows} x 512 @ (768 x 512).T", partial(lambda a: a @ weights.T, draw(rows, 512))
    for rows, depth in ((8, 128), (8, 256), (24, 128), (24, 256), (48, 256)):
        deep = draw(768, depth)
        yield (
            f"{rows} x {depth} @ (768 x {depth}).T",
            partial(lambda a, b: a @ b.T, draw(rows, depth), deep),
        )
    for m, k, n in (
        (24, 128, 384),
        (96, 96, 96),
        (200, 64, 1000),
        (512, 512, 512),
        (100, 70, 130),
        (9, 2048, 256),
    ):
        yield f"{m} x {k} @ {k} x {n}", partial(lambda a, b: a @ b, draw(m, k), draw(k, n))
    short = draw(100, 96)
    for depth in (32, 64, 96):
        yield (
            f"100 x {depth} @ (80 x {depth}).T",
            partial(lambda a, b: a @ b.T, short[:, :depth].contiguous().realize(), draw(80, depth)),
        )
    image, filters = draw(1, 32, 28, 28), draw(64, 32, 3, 3)
    yield "convolution", lambda: image.conv2d(filters)
    yield "convolution in steps of two", lambda: image.conv2d(filters, stride=2)


def _mean(ratios: list[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def _format_row(row: Row) -> tuple[str, ...]:
    ratios = (f"{row.ratio('half'):.2f}", f"{row.ratio('double'):.2f}", f"{row.model:.2f}")
    return row.constant, f"{row.value:g}", row.kernel, format_time(row.seconds["same"]), *ratios


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "names", nargs="*", help="constants (default: all except MIN_THREADED_WORK)"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.15, help="seconds for each choice of opts"
    )
    parser.add_argument("--device", default="CPU")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
