"""The compiler's part of the way from tensors to results: four words, each a function from one
artifact to the next.

    rangeify   graph           → RangedGraph       decides what is stored, and writes it as expressions over loops
    kernelize  RangedGraph     → KernelGraph       cuts at what is stored: each kernel is the body of a CALL
    optimize   kernel          → OptimizedKernel   chooses opts, or takes those of the context, and applies them
    lower      OptimizedKernel → LoweredKernel     writes a kernel in what its target has

Each runs the passes of one pipeline, whose table `python -m svod_schedule.pipeline` prints.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, Target, UOp, make_reduce_axis, make_reshape
    >>> from svod_schedule.pipeline import Context
    >>> from svod_schedule.steps import OptimizedKernel, kernelize, lower, optimize, rangeify
    >>> x = make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(1, 12, "CPU")), (3, 4))
    >>> context = Context(target=Target.generic(cores=1))
    >>> kernels = kernelize(rangeify(UOp.sink(make_reduce_axis(x + 1.0, Op.ADD, (1,))), context), context)
    >>> (call,) = kernels.iter_ops(Op.CALL)
    >>> optimized = optimize(call.body, context)
    >>> isinstance(optimized, OptimizedKernel), optimized.sink.op
    (True, SINK)
    >>> lowered = lower(optimized, context)
    >>> from svod_schedule.linearize import linearize
    >>> len(linearize(lowered)) > 5
    True
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NewType

from svod_ir import UOp
from svod_schedule.optimize.heuristics.proposals import Reason
from svod_schedule.pipeline import Context, run_pipeline

__all__ = [
    "KernelGraph",
    "LoweredKernel",
    "OptimizedKernel",
    "RangedGraph",
    "kernelize",
    "lower",
    "optimize",
    "rangeify",
]

RangedGraph = NewType("RangedGraph", UOp)
KernelGraph = NewType("KernelGraph", UOp)
LoweredKernel = NewType("LoweredKernel", UOp)


@dataclass(frozen=True, slots=True)
class OptimizedKernel:
    """A kernel with its opts, which stand in the SINK, and why it has them, which does not."""

    sink: UOp
    reasons: tuple[Reason, ...] = ()


def rangeify(graph: UOp, context: Context) -> RangedGraph:
    """A SINK of tensors, with RANGE and INDEX instead of movement, and BUFFERIZE around what is
    stored.
    """
    return RangedGraph(run_pipeline("rangeify", graph, context))


def kernelize(graph: RangedGraph, context: Context) -> KernelGraph:
    """A SINK of memory, each AFTER the CALLs that fill it."""
    return KernelGraph(run_pipeline("kernelize", graph, context))


def optimize(kernel: UOp, context: Context) -> OptimizedKernel:
    """The body of a CALL, with its opts applied and noted in the SINK."""
    reasons: list[Reason] = []
    sink = run_pipeline("optimize", kernel, replace(context, note_reasons=reasons.extend))
    return OptimizedKernel(sink, tuple(reasons))


def lower(kernel: OptimizedKernel, context: Context) -> LoweredKernel:
    """A kernel of vectors, loads, stores and loops, which renderers accept."""
    return LoweredKernel(run_pipeline("lower", kernel.sink, context))
