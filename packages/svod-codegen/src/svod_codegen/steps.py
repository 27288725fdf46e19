"""From a lowered kernel to its source: the words between the compiler and a device.

    linearize  LoweredKernel → LinearProgram   the nodes in the order in which they run
    render     LinearProgram → ProgramSpec     the language of a device, with what a launch must know

What follows is the device's: its compiler makes a `CompiledSpec` of a `ProgramSpec`, and its loader
a `Program` of that.

Example:
    >>> from svod_dtype import float32, void
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> from svod_schedule.pipeline import Context
    >>> from svod_schedule.steps import lower, optimize
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 8)) for slot in range(2))
    >>> i = UOp.range(8, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))
    >>> context = Context(target=Target.generic(cores=1), opts=())
    >>> lowered = lower(optimize(kernel, context), context)
    >>> from svod_codegen.c import CRenderer
    >>> from svod_codegen.steps import linearize, render
    >>> spec = render(linearize(lowered, "CPU"), CRenderer())
    >>> spec.globals, spec.outs, spec.ins
    ((0, 1), (0,), (1,))
    >>> print(spec.source[spec.source.index("  for") :].rstrip())
      for (int32_t i1 = 0; i1 < 8; i1++) {
        const float v2 = data1[i1];
        const float v3 = v2 * 0x1.0000000000000p+1f;
        data0[i1] = v3;
      }
    }
"""

from __future__ import annotations

from typing import NewType

from svod_codegen._program import linearize_program, make_program, render_program
from svod_device import ProgramSpec, Renderer
from svod_ir import UOp
from svod_schedule.steps import LoweredKernel

__all__ = ["LinearProgram", "linearize", "render"]

LinearProgram = NewType("LinearProgram", UOp)


def linearize(kernel: LoweredKernel, device: str) -> LinearProgram:
    """The PROGRAM of a kernel for `device`, with its nodes in order."""
    return LinearProgram(linearize_program(make_program(kernel, device)))


def render(program: LinearProgram, renderer: Renderer) -> ProgramSpec:
    """A kernel in the renderer's language."""
    return ProgramSpec.from_program(render_program(program, renderer))
