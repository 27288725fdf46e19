"""Stages of a PROGRAM node: a lowered kernel is linearized, rendered, compiled and loaded.

    PROGRAM(SINK)  ->  PROGRAM(SINK, LINEAR)  ->  PROGRAM(SINK, LINEAR, SOURCE)
                   ->  PROGRAM(SINK, LINEAR, SOURCE, PROGRAM_BINARY)  ->  a `Program` to call

Each function adds one stage, and returns a node that already has it unchanged. So a program can be
passed on at any stage: written to a file as text, rendered elsewhere, or compiled again for another
machine."""

from __future__ import annotations

from typing import Final

from svod_device import (
    CompiledSpec,
    Compiler,
    Loader,
    Program,
    ProgramSpec,
    ProgramStageError,
    Renderer,
)
from svod_dtype import void
from svod_ir import Op, UOp
from svod_schedule.linearize import linearize

__all__ = [
    "STAGES",
    "compile_program",
    "linearize_program",
    "load_program",
    "make_program",
    "render_program",
]

STAGES: Final = (Op.SINK, Op.LINEAR, Op.SOURCE, Op.PROGRAM_BINARY)
"""Operands of a complete PROGRAM, in the order of the stages."""


def make_program(sink: UOp, device: str) -> UOp:
    """Make the PROGRAM of a lowered kernel's SINK, without further stages.

    Raises:
        ProgramStageError: if `sink` is no SINK.
    """
    if sink.op is not Op.SINK:
        raise ProgramStageError(stage="SINK", expected="SINK", found=sink.op.name)
    return UOp(Op.PROGRAM, void, (sink,), device)


def linearize_program(program: UOp) -> UOp:
    """Add the LINEAR stage: the nodes in execution order."""
    if _count_stages(program) >= 2:
        return program
    return _fill(program, UOp(Op.LINEAR, void, linearize(program.kernel)))


def render_program(program: UOp, renderer: Renderer) -> UOp:
    """Add the SOURCE stage, rendered from the LINEAR.

    Raises:
        ProgramStageError: if the program is not linearized.
    """
    if _count_stages(program, at_least=2) >= 3:
        return program
    sink, linear = program.src
    # A SINK that was built by hand has no KernelInfo, and so no name.
    source = renderer.render(linear.src, getattr(sink.arg, "name", "kernel"))
    return _fill(program, UOp(Op.SOURCE, void, (), source))


def compile_program(program: UOp, compiler: Compiler) -> UOp:
    """Add the PROGRAM_BINARY stage: the compiler's output, empty if it compiles at load time.

    Raises:
        ProgramStageError: if the program is not rendered.
    """
    if _count_stages(program, at_least=3) >= 4:
        return program
    compiled = compiler.compile(ProgramSpec.from_program(program))
    return _fill(program, UOp(Op.PROGRAM_BINARY, void, (), compiled.binary))


def load_program(program: UOp, loader: Loader) -> Program:
    """Load a compiled program as a callable.

    Raises:
        ProgramStageError: if the program is not compiled.
    """
    _count_stages(program, at_least=4)
    spec, binary = ProgramSpec.from_program(program), program.binary.arg
    return loader(
        # No binary: the driver of the device compiles the source when it is loaded.
        CompiledSpec.from_bytes(spec, binary) if binary else CompiledSpec.from_source(spec)
    )


def _fill(program: UOp, stage: UOp) -> UOp:
    return program.with_src((*program.src, stage))


def _count_stages(program: UOp, at_least: int = 1) -> int:
    """Count and check the stages of a program."""
    if program.op is not Op.PROGRAM:
        raise ProgramStageError(stage="root", expected="PROGRAM", found=program.op.name)
    if len(program.src) > len(STAGES):
        raise ProgramStageError(
            stage="end", expected="nothing", found=program.src[len(STAGES)].op.name
        )
    # Checked before the number of stages, so that a wrong stage is named and not a missing one.
    for expected, stage in zip(STAGES, program.src, strict=False):
        if stage.op is not expected:
            raise ProgramStageError(
                stage=expected.name, expected=expected.name, found=stage.op.name
            )
    if len(program.src) < at_least:
        missing = STAGES[len(program.src)].name
        raise ProgramStageError(stage=missing, expected=missing, found="nothing")
    return len(program.src)
