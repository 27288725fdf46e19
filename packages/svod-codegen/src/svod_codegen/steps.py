"""From a lowered kernel to its source: the words between the compiler and a device.

    linearize  LoweredKernel → LinearProgram   the nodes in the order in which they run
    render     LinearProgram → ProgramSpec     the language of a device, with what a launch must know

What follows is the device's: its compiler makes a `CompiledSpec` of a `ProgramSpec`, and its loader a `Program` of that.
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
