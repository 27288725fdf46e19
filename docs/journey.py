"""The page that follows one program through the fourteen steps, with the real artifact after each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

__all__ = ["journey_page"]

PROGRAM = """\
x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
y = (x.transpose() + 1).sum(1)
y.numpy()"""


def journey_page() -> str:
    """The page: for each step, what it does and what it made."""
    lines = [
        "# The journey of a program",
        "",
        "Three lines, and what each of the fourteen steps makes of them:",
        "",
        *_block(PROGRAM, "python"),
        "",
        "The graphs are in text form: `svod_ir.parse_graph` reads them back. The target is `Target.generic(cores=2)`, so",
        "that this page is the same on every machine; yours may get wider vectors.",
    ]
    for number, (word, says, artifact, language) in enumerate(_iter_steps(), 1):
        lines += ["", f"## {number}. {word}", "", says, "", *_block(artifact, language)]
    return "\n".join(lines)


def _iter_steps() -> Iterator[tuple[str, str, str, str]]:
    """(word, what it does, artifact, language of the artifact) for each step."""
    _use_generic_target()
    import numpy as np

    from svod_device import get_device
    from svod_dtype import void
    from svod_ir import Op, UOp, print_graph
    from svod_ir.text import format_expression
    from svod_runtime import PreparedKernel
    from svod_schedule.pipeline import run_pipeline
    from svod_tensor import Tensor
    from svod_tensor.options import PrepareConfig
    from svod_tensor.prepare import make_context, prepare_plan, render_kernel
    from svod_tensor.preschedule import create_pre_schedule
    from svod_tensor.realize import make_schedule

    config, device = PrepareConfig(), get_device("CPU")
    context = make_context(device, config)

    x = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
    y = (x.transpose() + 1).sum(1)
    sink = UOp.sink(UOp(Op.CONTIGUOUS, y.uop.dtype, (y.uop,)))
    yield "build", "Each call adds nodes to a graph; nothing is computed.", print_graph(y.uop), ""

    ranged = run_pipeline("rangeify", sink, context)
    yield (
        "rangeify",
        "The transpose is gone: it was a way to count. What must be stored is a BUFFERIZE.",
        print_graph(ranged),
        "",
    )

    kernels = run_pipeline("kernelize", ranged, context)
    yield "kernelize", "Each stored value has a buffer, and a kernel that fills it: a CALL.", print_graph(kernels), ""

    pre = create_pre_schedule(kernels)
    items = "\n".join(
        f"item {item.id}: {len(item.memory)} memory arguments, after {list(item.dependencies)}\n"
        f"    {format_expression(item.ast)}"
        for item in pre.items
    )
    says = "Kernels in order, and no buffer yet: equal programs share this through the schedule cache."
    yield "preschedule", says, f"{items}\ninvocations: {[run.kernel_id for run in pre.invocations]}", ""

    schedule = make_schedule(sink, config)
    items = "\n".join(
        f"kernel {item.kernel_id}: "
        + ", ".join(f"{buffer.size} x {buffer.dtype} on {buffer.device}" for buffer in item.buffers)
        for item in schedule.items
    )
    yield "instantiate", "Buffers and variables of this run; the first buffer of an item is written.", items, ""

    source = render_kernel(schedule.items[0].ast, device, context)
    opts = ", ".join(map(str, source.optimized.arg.applied_opts)) or "none"
    yield "optimize", f"The opts that the heuristics chose: {opts}.", print_graph(source.optimized), ""
    says = "Vectors, accumulators in registers, explicit loads, and indices of 32 bits."
    yield "lower", says, print_graph(source.lowered), ""
    listing = print_graph(UOp(Op.LINEAR, void, source.linear))
    yield "linearize", "The order of execution; RANGE and END nest.", listing, ""
    yield "render", "LLVM assembly.", source.spec.source, "llvm"

    compiled = device.compile(source.spec)
    assert compiled.binary
    yield "compile", "In the process, or from the cache on disk.", f"an object file that defines {compiled.name}", ""
    program = device.loader(compiled)
    yield "load", "Linked into the process.", f"{type(program).__name__} {program.name}", ""

    plan = prepare_plan(schedule, config)
    ops = "\n".join(
        f"{op.kernel.name}: buffers {list(op.buffer_indices)}, writes {[op.buffer_indices[i] for i in op.output_indices]}"
        for op in plan.prepared_ops
        if isinstance(op, PreparedKernel)
    )
    yield "prepare", "Steps 6 to 11 behind one cache: kernels with the indices of their buffers.", ops, ""
    yield "plan", "Addresses laid out once, and runs of kernels joined into single calls.", repr(plan), ""
    plan.execute()
    buffer = plan.output_buffer
    assert buffer is not None
    yield "execute", "One foreign call.", str(buffer.as_numpy()), ""


def _use_generic_target() -> None:
    """Make the CPU's default backend one for a target that is the same everywhere."""
    from dataclasses import replace

    from svod_codegen.backend import make_llvm_backend
    from svod_codegen.llvm.renderer import render
    from svod_device import Backend, register_backend
    from svod_ir import Target, UOp

    class Renderer:
        def render(self, linear: Sequence[UOp], name: str) -> str:
            return render(tuple(linear), name, target)

    target = Target.generic(cores=2)

    def make_backend(device: str) -> Backend:
        return replace(make_llvm_backend(device), renderer=Renderer(), target=target)

    os.environ["SVOD_CPU_BACKEND"] = "generic"
    register_backend("CPU.generic", make_backend)


def _block(text: str, language: str) -> list[str]:
    return [f"```{language}", *text.rstrip().splitlines(), "```"]
