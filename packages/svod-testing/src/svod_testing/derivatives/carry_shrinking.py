"""Shrinking of the programs of `carry_programs` that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from svod_testing.derivatives.carry_programs import CarryKind, CarryProgram
from svod_testing.derivatives.loop_programs import DerivativeBlock, LoopDerivativeStep
from svod_testing.derivatives.shrinking import shrink_program

__all__ = ["shrink_carry_program"]


def shrink_carry_program(
    program: CarryProgram, fails: Callable[[CarryProgram], bool]
) -> CarryProgram:
    """Return a shorter program of which `fails` still holds, as it does of `program`."""
    return shrink_program(
        program, lambda longer: _iter_shorter(longer.block, longer.kinds, (0,)), fails
    )


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
    if step.name in ("jit", "checkpoint", "cond", "switch"):
        operands = step.operands[step.name in ("cond", "switch") :]
        for block in step.blocks:
            enter = _copy(operands, block.params, kinds)
            yield [*enter, *block.steps, *_copy(block.results, step.results, kinds)]
    if step.name in ("fori", "scan", "while"):
        yield from _iter_with_fewer_results(step, kinds)
    for index, inner in enumerate(step.blocks):
        for shorter in _iter_shorter(inner, kinds, readable):
            yield [step._replace(blocks=(*step.blocks[:index], shorter, *step.blocks[index + 1 :]))]


def _copy(
    sources: Sequence[int], results: Sequence[int], kinds: Mapping[int, CarryKind]
) -> list[LoopDerivativeStep]:
    return [
        LoopDerivativeStep("fit", (source,), (n,), {"kind": kinds[n]})
        for source, n in zip(sources, results, strict=True)
    ]


def _iter_with_fewer_results(
    step: LoopDerivativeStep, kinds: Mapping[int, CarryKind]
) -> Iterator[Sequence[LoopDerivativeStep]]:
    """Yield the loop without one of its carries or stacked results."""
    (block,), n_carried = step.blocks, step.arguments.get("n_carried", len(step.results))
    least = 0 if step.name == "scan" else 1
    for k, result in enumerate(step.results):
        results = (*step.results[:k], *step.results[k + 1 :])
        values = (*block.results[:k], *block.results[k + 1 :])
        if k >= n_carried:
            shorter = step._replace(results=results, blocks=(replace(block, results=values),))
            yield [shorter, *_copy((0,), (result,), kinds)]
        elif n_carried > least and len(step.results) > 1:
            # Parameter 0 is the counter.
            steps = (*_copy((step.operands[k],), (block.params[k + 1],), kinds), *block.steps)
            params = (*block.params[: k + 1], *block.params[k + 2 :])
            arguments = dict(step.arguments)
            if step.name == "scan":
                arguments["n_carried"] = n_carried - 1
            shorter = step._replace(
                operands=(*step.operands[:k], *step.operands[k + 1 :]),
                results=results,
                arguments=arguments,
                blocks=(DerivativeBlock(params, steps, values),),
            )
            yield [shorter, *_copy((step.operands[k],), (result,), kinds)]
