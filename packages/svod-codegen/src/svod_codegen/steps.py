"""Steps from a lowered kernel to source code, between the compiler and a device.

    linearize  LoweredKernel → LinearProgram   the nodes in execution order
    render     LinearProgram → ProgramSpec     source code for a device, with the data of a launch

The device does the remaining steps: its compiler makes a `CompiledSpec` from a `ProgramSpec`, and
its loader makes a `Program` from the `CompiledSpec`.

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
    >>> from svod_codegen.steps import LinearProgram, linearize, render
    >>> program: LinearProgram = linearize(lowered, "CPU")
    >>> spec = render(program, CRenderer())
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
"""A PROGRAM with the nodes of a kernel in execution order."""


def linearize(kernel: LoweredKernel, device: str) -> LinearProgram:
    """Make the PROGRAM of a kernel for `device`, with its nodes in execution order."""
    return LinearProgram(linearize_program(make_program(kernel, device)))


def render(program: LinearProgram, renderer: Renderer) -> ProgramSpec:
    """Render a kernel to source code."""
    return ProgramSpec.from_program(render_program(program, renderer))
