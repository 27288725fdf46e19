"""Search for shorter programs of blocks that fail in the same way as a long one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from svod_testing.derivatives.carry_programs import CarryProgram
from svod_testing.derivatives.loop_programs import (
    DerivativeBlock,
    LoopDerivativeProgram,
    LoopDerivativeStep,
)

__all__ = ["shrink_program"]

P = TypeVar("P", CarryProgram, LoopDerivativeProgram)


def shrink_program(
    program: P, iter_shorter: Callable[[P], Iterable[DerivativeBlock]], fails: Callable[[P], bool]
) -> P:
    """Shorten a program repeatedly, as long as `fails` holds.

    Args:
        program: program that fails.
        iter_shorter: yields shorter blocks for a program, the simplest first.
        fails: whether a program fails.
    """
    while True:
        for block in iter_shorter(program):
            candidate = replace(program, block=_drop_unused(block))
            if candidate.block != program.block and fails(candidate):
                program = candidate
                break
        else:
            return program


def _drop_unused(block: DerivativeBlock) -> DerivativeBlock:
    """Remove steps whose results are not read."""
    read = {*block.results}
    steps: list[LoopDerivativeStep] = []
    for step in reversed(block.steps):
        if read.isdisjoint(step.results):
            continue
        shorter = step._replace(blocks=tuple(map(_drop_unused, step.blocks)))
        steps.append(shorter)
        read.update(shorter.operands)
        for inner in shorter.blocks:
            read.update(_iter_read(inner))
    return replace(block, steps=tuple(reversed(steps)))


def _iter_read(block: DerivativeBlock) -> Iterator[int]:
    yield from block.results
    for step in block.steps:
        yield from step.operands
        for inner in step.blocks:
            yield from _iter_read(inner)
