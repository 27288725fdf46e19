"""The stages of a PROGRAM node: a lowered kernel is linearized, rendered, compiled and loaded.

    PROGRAM(SINK)  ->  PROGRAM(SINK, LINEAR)  ->  PROGRAM(SINK, LINEAR, SOURCE)
                   ->  PROGRAM(SINK, LINEAR, SOURCE, PROGRAM_BINARY)  ->  a `Program` to call

Each function fills one stage and leaves a node that has it as it is, so that a program can be
handed on at any stage: written to a file as text, rendered elsewhere, compiled again for another
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
"""The operands of a complete PROGRAM, in the order in which they are made."""


def make_program(sink: UOp, device: str) -> UOp:
    """The PROGRAM of a lowered kernel's SINK, with no stage filled yet.

    Raises:
        ProgramStageError: if `sink` is something else.
    """
    if sink.op is not Op.SINK:
        raise ProgramStageError(stage="SINK", expected="SINK", found=sink.op.name)
    return UOp(Op.PROGRAM, void, (sink,), device)


def linearize_program(program: UOp) -> UOp:
    """`program` with its LINEAR: the nodes in the order in which they run."""
    if _count_stages(program) >= 2:
        return program
    return _fill(program, UOp(Op.LINEAR, void, linearize(program.kernel)))


def render_program(program: UOp, renderer: Renderer) -> UOp:
    """`program` with its SOURCE. The renderer is given the LINEAR alone.

    Raises:
        ProgramStageError: if the program is not linearized.
    """
    if _count_stages(program, at_least=2) >= 3:
        return program
    sink, linear = program.src
    source = renderer.render(linear.src, getattr(sink.arg, "name", "kernel"))
    return _fill(program, UOp(Op.SOURCE, void, (), source))


def compile_program(program: UOp, compiler: Compiler) -> UOp:
    """`program` with its PROGRAM_BINARY: the compiler's bytes, none where it compiles at load time.

    Raises:
        ProgramStageError: if the program is not rendered.
    """
    if _count_stages(program, at_least=3) >= 4:
        return program
    compiled = compiler.compile(ProgramSpec.from_program(program))
    return _fill(program, UOp(Op.PROGRAM_BINARY, void, (), compiled.binary))


def load_program(program: UOp, loader: Loader) -> Program:
    """The callable of a compiled program.

    Raises:
        ProgramStageError: if the program is not compiled.
    """
    _count_stages(program, at_least=4)
    spec, binary = ProgramSpec.from_program(program), program.binary.arg
    return loader(
        CompiledSpec.from_bytes(spec, binary) if binary else CompiledSpec.from_source(spec)
    )


def _fill(program: UOp, stage: UOp) -> UOp:
    return program.with_src((*program.src, stage))


def _count_stages(program: UOp, at_least: int = 1) -> int:
    """How many stages the program has, checked to be the right ones."""
    if program.op is not Op.PROGRAM:
        raise ProgramStageError(stage="root", expected="PROGRAM", found=program.op.name)
    if len(program.src) > len(STAGES):
        raise ProgramStageError(
            stage="end", expected="nothing", found=program.src[len(STAGES)].op.name
        )
    for expected, found in zip(STAGES, program.src, strict=False):
        if found.op is not expected:
            raise ProgramStageError(
                stage=expected.name, expected=expected.name, found=found.op.name
            )
    if len(program.src) < at_least:
        missing = STAGES[len(program.src)].name
        raise ProgramStageError(stage=missing, expected=missing, found="nothing")
    return len(program.src)
