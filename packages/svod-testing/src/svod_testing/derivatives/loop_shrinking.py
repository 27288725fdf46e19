"""Shorter programs of `loop_programs` that fail in the same way as a long one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from svod_testing.derivatives.loop_programs import (
    DerivativeBlock,
    LoopDerivativeProgram,
    LoopDerivativeStep,
)
from svod_testing.derivatives.shrinking import shrink_program

__all__ = ["shrink_loop_derivative_program"]


def shrink_loop_derivative_program(
    program: LoopDerivativeProgram, fails: Callable[[LoopDerivativeProgram], bool]
) -> LoopDerivativeProgram:
    """The shortest program that is found of which `fails` still holds."""
    return shrink_program(program, lambda longer: _iter_shorter(longer.block, longer), fails)


def _iter_shorter(
    block: DerivativeBlock, program: LoopDerivativeProgram
) -> Iterator[DerivativeBlock]:
    if block is program.block:
        yield from (
            replace(block, results=(result,)) for result in block.results if len(block.results) > 1
        )
    for position, step in enumerate(block.steps):
        remaining = replace(block, steps=(*block.steps[:position], *block.steps[position + 1 :]))
        same = [n for n in step.operands if program.shapes[n] == program.shapes[step.results[0]]]
        if same and len(step.results) == 1:
            yield _rename(remaining, {step.results[0]: same[0]})
        for replacement in _iter_instead(step, program):
            yield replace(
                block, steps=(*block.steps[:position], *replacement, *block.steps[position + 1 :])
            )


def _iter_instead(
    step: LoopDerivativeStep, program: LoopDerivativeProgram
) -> Iterator[Sequence[LoopDerivativeStep]]:
    """Yield replacements of a step, the simplest first."""
    matrices = [n for n in step.operands if program.shapes[n] is not None]
    if step.name not in ("squash", "spread"):
        yield [_stand_in(index, matrices, program) for index in step.results]
    plain = {"every": None, "reverse": False, "bound": "number", "structure": "list"}
    for name, value in plain.items():
        # The sum of stacked results of symbolic size has another shape.
        if step.arguments.get(name, value) != value and not (
            name == "bound" and step.name == "scan"
        ):
            yield [step._replace(arguments={**step.arguments, name: value})]
    if step.name == "checkpoint":
        yield from _inline(step)
    if step.name in ("scan", "fori", "while"):
        yield from _carry_less(step)
    for index, inner in enumerate(step.blocks):
        for shorter in _iter_shorter(inner, program):
            yield [step._replace(blocks=(*step.blocks[:index], shorter, *step.blocks[index + 1 :]))]


def _stand_in(
    result: int, matrices: Sequence[int], program: LoopDerivativeProgram
) -> LoopDerivativeStep:
    shape = program.shapes[result]
    same = [n for n in matrices if program.shapes[n] == shape]
    if same:
        return LoopDerivativeStep("squash", (same[0],), (result,), {})
    return LoopDerivativeStep("spread", (matrices[0],), (result,), {"shape": shape})


def _inline(step: LoopDerivativeStep) -> Iterator[Sequence[LoopDerivativeStep]]:
    (block,) = step.blocks
    if len({*block.results}) == len(block.results) and not {*block.results} & {*block.params}:
        names = {
            **dict(zip(block.params, step.operands, strict=True)),
            **dict(zip(block.results, step.results, strict=True)),
        }
        yield [_rename_step(s, names) for s in block.steps]


def _carry_less(step: LoopDerivativeStep) -> Iterator[Sequence[LoopDerivativeStep]]:
    """Yield the loop without one of its carried values, which becomes its initial value."""
    (block,), shift = step.blocks, int(step.name != "scan")
    n_carried = step.arguments.get("n_carried", len(step.results))
    if n_carried < 2:
        return
    for k in range(n_carried):
        names = {step.results[k]: step.operands[k], block.params[k + shift]: step.operands[k]}
        params = (*block.params[: k + shift], *block.params[k + shift + 1 :])
        inner = DerivativeBlock(params, block.steps, (*block.results[:k], *block.results[k + 1 :]))
        arguments = {
            **step.arguments,
            **({"n_carried": n_carried - 1} if step.name == "scan" else {}),
        }
        shorter = LoopDerivativeStep(
            step.name,
            (*step.operands[:k], *step.operands[k + 1 :]),
            (*step.results[:k], *step.results[k + 1 :]),
            arguments,
            (_rename(inner, names),),
        )
        yield [shorter, LoopDerivativeStep("squash", (step.operands[k],), (step.results[k],), {})]


def _rename_step(step: LoopDerivativeStep, names: Mapping[int, int]) -> LoopDerivativeStep:
    return step._replace(
        operands=tuple(names.get(n, n) for n in step.operands),
        results=tuple(names.get(n, n) for n in step.results),
        blocks=tuple(_rename(block, names) for block in step.blocks),
    )


def _rename(block: DerivativeBlock, names: Mapping[int, int]) -> DerivativeBlock:
    steps = tuple(_rename_step(step, names) for step in block.steps)
    return DerivativeBlock(block.params, steps, tuple(names.get(n, n) for n in block.results))
