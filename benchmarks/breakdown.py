"""Compile times of a tensor by step and by pass, without caches and with one kernel at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

__all__ = ["Breakdown", "break_down"]

STEPS = (
    "normalize",
    "rangeify",
    "kernelize",
    "preschedule",
    "optimize",
    "lower",
    "linearize",
    "render",
    "compile",
    "load",
)


@dataclass
class Breakdown:
    """Seconds by step and by `pipeline:pass`, and the number of kernels."""

    steps: Counter[str] = field(default_factory=Counter)
    passes: Counter[str] = field(default_factory=Counter)
    n_kernels: int = 0
    source_bytes: int = 0

    @contextmanager
    def measure(self, step: str) -> Iterator[None]:
        start = perf_counter()
        yield
        self.steps[step] += perf_counter() - start

    def observe(self, pipeline: str, name: str, graph: object, seconds: float) -> None:
        """Record the time of a pass; called by `Context.observe` after each pass."""
        self.passes[f"{pipeline}:{name}"] += seconds

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": {step: self.steps[step] for step in STEPS},
            "passes": dict(self.passes),
            "kernels": self.n_kernels,
            "source_bytes": self.source_bytes,
        }


def break_down(tensor: Any) -> Breakdown:
    """Compile the kernels of `tensor` as `prepare` does, and discard them."""
    from svod_device import get_device
    from svod_ir import Op, UOp
    from svod_schedule.pipeline import Context
    from svod_schedule.steps import kernelize, rangeify
    from svod_tensor.engine.build import normalize_graph
    from svod_tensor.engine.preschedule import preschedule

    breakdown = Breakdown()
    device = get_device("CPU")
    sink = UOp.sink(UOp(Op.CONTIGUOUS, tensor.dtype, (tensor.uop,)))
    with breakdown.measure("normalize"):
        sink = normalize_graph(sink).sink
    context = Context(device=device.name, observe=breakdown.observe)
    with breakdown.measure("rangeify"):
        ranged = rangeify(sink, context)
    with breakdown.measure("kernelize"):
        kernels = kernelize(ranged, context)
    with breakdown.measure("preschedule"):
        schedule = preschedule(kernels, sink)
    compiling = Context(target=device.target, device=device.name, observe=breakdown.observe)
    for body in dict.fromkeys(item.ast for item in schedule.items):
        _compile_kernel(body, device, compiling, breakdown)
    return breakdown


def _compile_kernel(body: Any, device: Any, context: Any, breakdown: Breakdown) -> None:
    from svod_codegen.steps import linearize, render
    from svod_schedule.steps import lower, optimize

    with breakdown.measure("optimize"):
        optimized = optimize(body, context)
    with breakdown.measure("lower"):
        lowered = lower(optimized, context)
    with breakdown.measure("linearize"):
        linear = linearize(lowered, device.name)
    with breakdown.measure("render"):
        source = render(linear, device.renderer)
    with breakdown.measure("compile"):
        compiled = device.compiler.compile(source)
    with breakdown.measure("load"):
        device.loader(compiled)
    breakdown.n_kernels += 1
    breakdown.source_bytes += len(source.source)
