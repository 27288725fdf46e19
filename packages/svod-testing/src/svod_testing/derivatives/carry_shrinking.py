"""Shrinking of the programs of `carry_programs` that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from svod_testing.derivatives.carry_programs import CarryKind, CarryProgram
from svod_testing.derivatives.loop_programs import DerivativeBlock, LoopDerivativeStep

__all__ = ["shrink_carry_program"]


def shrink_carry_program(
    program: CarryProgram, fails: Callable[[CarryProgram], bool]
) -> CarryProgram:
    """Return a shorter program of which `fails` still holds, as it does of `program`."""
    while True:
        for block in _iter_shorter(program.block, program.kinds, (0,)):
            candidate = replace(program, block=_drop_unused(block))
            if candidate.block != program.block and fails(candidate):
                program = candidate
                break
        else:
            return program


def _iter_shorter(
    block: DerivativeBlock, kinds: Mapping[int, CarryKind], readable: Sequence[int]
) -> Iterator[DerivativeBlock]:
    """Yield the block with fewer results, or with a simpler step."""
    if readable == (0,):
        yield from (
            replace(block, results=(result,)) for result in block.results if len(block.results) > 1
        )
    readable = (*readable, *block.params)
    for index, step in enumerate(block.steps):
        for instead in _iter_instead(step, kinds, readable):
            yield replace(block, steps=(*block.steps[:index], *instead, *block.steps[index + 1 :]))
        readable = (*readable, *step.results)


def _iter_instead(
    step: LoopDerivativeStep, kinds: Mapping[int, CarryKind], readable: Sequence[int]
) -> Iterator[Sequence[LoopDerivativeStep]]:
    if step.name != "const":
        yield [
            LoopDerivativeStep("const", (), (n,), {"kind": kinds[n], "seed": n})
            for n in step.results
        ]
    if step.blocks or step.name not in ("const", "fit"):
        for operand in dict.fromkeys((0, *step.operands)):
            yield [
                LoopDerivativeStep("fit", (operand,), (n,), {"kind": kinds[n]})
                for n in step.results
            ]
    if step.name in ("jit", "checkpoint"):
        (block,) = step.blocks
        names = [*zip(block.params, step.operands, strict=True)]
        enter = [LoopDerivativeStep("fit", (o,), (p,), {"kind": kinds[p]}) for p, o in names]
        leave = [
            LoopDerivativeStep("fit", (v,), (n,), {"kind": kinds[n]})
            for v, n in zip(block.results, step.results, strict=True)
        ]
        yield [*enter, *block.steps, *leave]
    for index, inner in enumerate(step.blocks):
        for shorter in _iter_shorter(inner, kinds, readable):
            yield [step._replace(blocks=(*step.blocks[:index], shorter, *step.blocks[index + 1 :]))]


def _drop_unused(block: DerivativeBlock) -> DerivativeBlock:
    """Remove steps whose results are not read."""
    read = {*block.results}
    steps: list[LoopDerivativeStep] = []
    for step in reversed(block.steps):
        if read.isdisjoint(step.results):
            continue
        shorter = step._replace(blocks=tuple(map(_drop_unused, step.blocks)))
        steps.append(shorter)
        read.update(_iter_read(shorter))
    return replace(block, steps=tuple(reversed(steps)))


def _iter_read(step: LoopDerivativeStep) -> Iterator[int]:
    yield from step.operands
    for block in step.blocks:
        yield from block.results
        for inner in block.steps:
            yield from _iter_read(inner)
