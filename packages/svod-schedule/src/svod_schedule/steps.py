"""The four steps of the compiler, each a function from one artifact to the next.

    rangeify   graph           → RangedGraph       chooses the values to materialize, as expressions over loops
    kernelize  RangedGraph     → KernelGraph       cuts at materialized values: each kernel is the body of a CALL
    optimize   kernel          → OptimizedKernel   applies the opts of the context, or chooses opts
    lower      OptimizedKernel → LoweredKernel     rewrites a kernel in the ops of its target

Each runs the passes of the pipeline of its name; `python -m svod_schedule.pipeline` prints them.

Example:
    >>> from svod_dtype import float32
    >>> from svod_ir import BufferArg, Op, Target, UOp, make_reduce_axis, make_reshape
    >>> from svod_schedule.pipeline import Context
    >>> from svod_schedule.steps import KernelGraph, LoweredKernel, OptimizedKernel, RangedGraph, kernelize, lower, optimize, rangeify
    >>> x = make_reshape(UOp(Op.BUFFER, float32, (), BufferArg(1, 12, "CPU")), (3, 4))
    >>> context = Context(target=Target.generic(cores=1))
    >>> ranged: RangedGraph = rangeify(UOp.sink(make_reduce_axis(x + 1.0, Op.ADD, (1,))), context)
    >>> kernels: KernelGraph = kernelize(ranged, context)
    >>> (call,) = kernels.iter_ops(Op.CALL)
    >>> optimized = optimize(call.body, context)
    >>> isinstance(optimized, OptimizedKernel), optimized.sink.op
    (True, SINK)
    >>> lowered: LoweredKernel = lower(optimized, context)
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
"""A graph of RANGE and INDEX instead of movement ops."""
KernelGraph = NewType("KernelGraph", UOp)
"""A SINK of memory, each AFTER the CALLs that fill it."""
LoweredKernel = NewType("LoweredKernel", UOp)
"""A kernel in the ops of its target."""


@dataclass(frozen=True, slots=True)
class OptimizedKernel:
    """An optimized kernel.

    Attributes:
        sink: the kernel, whose SINK names the applied opts.
        reasons: the reasons for the opts.
    """

    sink: UOp
    reasons: tuple[Reason, ...] = ()


def rangeify(graph: UOp, context: Context) -> RangedGraph:
    """Rewrite a SINK of tensors with RANGE and INDEX instead of movement ops, and BUFFERIZE around
    materialized values.
    """
    return RangedGraph(run_pipeline("rangeify", graph, context))


def kernelize(graph: RangedGraph, context: Context) -> KernelGraph:
    """Cut a ranged graph into a SINK of memory, each AFTER the CALLs that fill it."""
    return KernelGraph(run_pipeline("kernelize", graph, context))


def optimize(kernel: UOp, context: Context) -> OptimizedKernel:
    """Choose and apply the opts of a kernel, the body of a CALL."""
    reasons: list[Reason] = []
    sink = run_pipeline("optimize", kernel, replace(context, note_reasons=reasons.extend))
    return OptimizedKernel(sink, tuple(reasons))


def lower(kernel: OptimizedKernel, context: Context) -> LoweredKernel:
    """Lower a kernel to vectors, loads, stores and loops, as renderers accept it."""
    return LoweredKernel(run_pipeline("lower", kernel.sink, context))
