"""Where the time of compiling a tensor goes: by step and by pass, with no cache and one kernel
after the other.
"""

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
    """Seconds by step and by `pipeline:pass`, and how much there was to compile."""

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
        """What `Context.observe` calls after each pass."""
        self.passes[f"{pipeline}:{name}"] += seconds

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": {step: self.steps[step] for step in STEPS},
            "passes": dict(self.passes),
            "kernels": self.n_kernels,
            "source_bytes": self.source_bytes,
        }


def break_down(tensor: Any) -> Breakdown:
    """Compile what `tensor` needs as `prepare` would, and drop it."""
    from svod_device import get_device
    from svod_ir import Op, UOp
    from svod_schedule.pipeline import Context
    from svod_schedule.steps import kernelize, rangeify
    from svod_tensor.engine.build import normalize_graph
    from svod_tensor.engine.preschedule import preschedule

    found = Breakdown()
    device = get_device("CPU")
    sink = UOp.sink(UOp(Op.CONTIGUOUS, tensor.dtype, (tensor.uop,)))
    with found.measure("normalize"):
        sink = normalize_graph(sink).sink
    context = Context(device=device.name, observe=found.observe)
    with found.measure("rangeify"):
        ranged = rangeify(sink, context)
    with found.measure("kernelize"):
        kernels = kernelize(ranged, context)
    with found.measure("preschedule"):
        schedule = preschedule(kernels, sink)
    compiling = Context(target=device.target, device=device.name, observe=found.observe)
    for body in dict.fromkeys(item.ast for item in schedule.items):
        _compile_kernel(body, device, compiling, found)
    return found


def _compile_kernel(body: Any, device: Any, context: Any, found: Breakdown) -> None:
    from svod_codegen.steps import linearize, render
    from svod_schedule.steps import lower, optimize

    with found.measure("optimize"):
        optimized = optimize(body, context)
    with found.measure("lower"):
        lowered = lower(optimized, context)
    with found.measure("linearize"):
        linear = linearize(lowered, device.name)
    with found.measure("render"):
        source = render(linear, device.renderer)
    with found.measure("compile"):
        compiled = device.compiler.compile(source)
    with found.measure("load"):
        device.loader(compiled)
    found.n_kernels += 1
    found.source_bytes += len(source.source)
