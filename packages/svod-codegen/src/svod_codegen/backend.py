"""Backend `CPU.llvm`: LLVM IR, compiled in the process and run by the native launcher.

Example:
    >>> import numpy as np
    >>> from svod_dtype import float32, void
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> from svod_schedule.pipeline import Context
    >>> from svod_schedule.steps import lower, optimize
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 8)) for slot in range(2))
    >>> i = UOp.range(8, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))
    >>> context = Context(target=Target.generic(cores=1), opts=())
    >>> lowered = lower(optimize(kernel, context), context)
    >>> from svod_codegen.backend import make_llvm_backend
    >>> from svod_codegen.steps import linearize, render
    >>> from svod_device import Buffer, get_allocator
    >>> backend = make_llvm_backend("CPU")
    >>> spec = render(linearize(lowered, "CPU"), backend.renderer)
    >>> program = backend.loader(backend.compiler.compile(spec))
    >>> result, operand = (Buffer(get_allocator("CPU"), float32, 8) for _ in range(2))
    >>> operand.copyin(np.arange(8, dtype="float32"))
    >>> program([result.locate(), operand.locate()], [], (1, 1, 1))
    >>> result.as_numpy().tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svod_codegen.launcher import CPU_LAUNCHER, CpuProgram
from svod_codegen.llvm.cached import default_compiler
from svod_codegen.llvm.renderer import render
from svod_codegen.llvm.target import host_target
from svod_device import Backend
from svod_ir import Target, UOp

__all__ = ["make_llvm_backend"]


def make_llvm_backend(device: str) -> Backend:
    """Factory of the entry point `CPU.llvm`; all CPU devices share one compiler, one launcher and
    one thread pool.
    """
    del device
    target = host_target()
    return Backend(
        renderer=_LlvmRenderer(target),
        compiler=default_compiler(),
        loader=CpuProgram.load,
        target=target,
        launcher=CPU_LAUNCHER,
        is_host_parallel_safe=True,
    )


@dataclass(frozen=True, slots=True)
class _LlvmRenderer:
    """Renderer of kernels for one target."""

    target: Target

    def render(self, linear: Sequence[UOp], name: str) -> str:
        return render(tuple(linear), name, self.target)
