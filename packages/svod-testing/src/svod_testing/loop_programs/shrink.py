"""Shrinking of failing programs with loops."""

# Trees are nested lists, tuples and dicts of positions.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from svod_testing.loop_programs.meaning import evaluate_program
from svod_testing.loop_programs.program import Block, LoopProgram, LoopStep
from svod_testing.programs.oracle import UnstableError

__all__ = ["shrink"]

_LOOPS: Final = ("scan", "fori", "while")
_INVALID: Final = (
    UnstableError,
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AssertionError,
)


def shrink(
    program: LoopProgram, fails: Callable[[LoopProgram], bool], *, max_tries: int = 400
) -> LoopProgram:
    """Return a shorter program for which `fails` still holds, as it does for `program`."""
    tries, is_shorter = 0, True
    while is_shorter:
        is_shorter = False
        for find in (
            _fewer_roots,
            _without_steps,
            _bypassed,
            _fewer_leaves,
            _taken_branches,
            _fewer_iterations,
            _plain,
        ):
            skipped = 0
            while True:
                for index, candidate in enumerate(find(program)):
                    if index < skipped:
                        continue
                    skipped = index
                    if tries >= max_tries:
                        return program
                    if not _is_valid(candidate):
                        continue
                    tries += 1
                    if fails(candidate):
                        program, is_shorter = candidate, True
                        break
                else:
                    break
    return program


def _is_valid(program: LoopProgram) -> bool:
    if not program.roots:
        return False
    try:
        evaluate_program(program)
        evaluate_program(program, 1)
    except _INVALID:
        return False
    return True


def _fewer_roots(program: LoopProgram) -> Iterator[LoopProgram]:
    if len(program.roots) > 1:
        for root in program.roots:
            yield replace(program, roots=(root,)).without_dead_steps()
        for root in program.roots:
            yield replace(
                program, roots=tuple(r for r in program.roots if r != root)
            ).without_dead_steps()


def _with_step(program: LoopProgram, old: LoopStep, new: Sequence[LoopStep]) -> LoopProgram:
    """Replace a step, which may be in a block of another one."""

    def change(steps: Sequence[LoopStep]) -> Iterator[LoopStep]:
        for step in steps:
            if step is old:
                yield from new
            else:
                blocks = tuple(replace(b, steps=tuple(change(b.steps))) for b in step.blocks)
                yield replace(step, blocks=blocks)

    return replace(program, steps=tuple(change(program.steps))).without_dead_steps()


def _with_args(program: LoopProgram, step: LoopStep, **args: Any) -> LoopProgram:
    """Change arguments of a step."""
    return _with_step(program, step, [replace(step, args={**step.args, **args})])


def _constant(program: LoopProgram, result: int) -> LoopStep:
    kind = program.kinds[result]
    fill: Any = True if kind.dtype == "bool" else 0.5 if kind.is_float else 1
    return LoopStep("full", (), (result,), {"shape": kind.shape, "k": fill, "dtype": kind.dtype})


def _without_steps(program: LoopProgram) -> Iterator[LoopProgram]:
    """Replace a step by constants, or inputs, of the same kinds."""
    outer = [id(step) for step in program.steps]
    for step in reversed(list(program.iter_steps())):
        if step.operation in ("input", "full"):
            continue
        if step.operation.startswith("write"):
            yield _with_step(program, step, ())
            continue
        yield _with_step(program, step, [_constant(program, v) for v in step.results])
        if id(step) in outer:
            inputs = [LoopStep("input", (), (v,), {"seed": 1}) for v in step.results]
            yield _with_step(program, step, inputs)


def _bypassed(program: LoopProgram) -> Iterator[LoopProgram]:
    """Replace the result of a step by an operand of the same kind."""
    for step in reversed(list(program.iter_steps())):
        for operand in step.operands:
            if len(step.results) == 1 and program.kinds[operand] == program.kinds[step.results[0]]:
                yield _renamed(_with_step(program, step, ()), step.results[0], operand)


def _renamed(program: LoopProgram, old: int, new: int) -> LoopProgram:
    def rename(numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(new if v == old else v for v in numbers)

    def change(steps: Sequence[LoopStep]) -> tuple[LoopStep, ...]:
        return tuple(
            replace(
                step,
                operands=rename(step.operands),
                blocks=tuple(
                    Block(b.params, change(b.steps), rename(b.results)) for b in step.blocks
                ),
            )
            for step in steps
        )

    return replace(
        program, steps=change(program.steps), roots=rename(program.roots)
    ).without_dead_steps()


def _fewer_leaves(program: LoopProgram) -> Iterator[LoopProgram]:
    """Remove a carried, sliced or stacked value, and replace its uses by constants."""
    for step in program.iter_steps():
        if step.operation not in _LOOPS:
            continue
        n_carried = step.args.get("n_carried", len(step.operands))
        first = 1 if step.operation == "while" else 0
        for index in range(first, n_carried):
            if n_carried > 1 or step.operation == "scan":
                yield _with_step(program, step, _drop_carried(program, step, index, n_carried))
        if step.operation == "scan":
            for index in range(n_carried, len(step.operands)):
                yield _with_step(program, step, _drop_sliced(program, step, index, n_carried))
            for index in range(n_carried, len(step.results)):
                yield _with_step(program, step, _drop_stacked(program, step, index, n_carried))


def _without(values: Sequence[Any], index: int) -> tuple[Any, ...]:
    return (*values[:index], *values[index + 1 :])


def _drop_carried(
    program: LoopProgram, step: LoopStep, index: int, n_carried: int
) -> list[LoopStep]:
    blocks: list[Block] = []
    for block_index, block in enumerate(step.blocks):
        param = index + 1 if step.operation == "fori" else index
        is_condition = step.operation == "while" and block_index == 0
        results = block.results if is_condition else _without(block.results, index)
        steps = (_constant(program, block.params[param]), *block.steps)
        blocks.append(Block(_without(block.params, param), steps, results))
    args = {**step.args, "carried": _flat(n_carried - 1)}
    if "n_carried" in args:
        args["n_carried"] = n_carried - 1
    if step.operation == "scan" and args["length"] is None and not step.operands[n_carried:]:
        return [step]
    changed = LoopStep(
        step.operation,
        _without(step.operands, index),
        _without(step.results, index),
        args,
        tuple(blocks),
    )
    return [changed, _constant(program, step.results[index])]


def _drop_sliced(
    program: LoopProgram, step: LoopStep, index: int, n_carried: int
) -> list[LoopStep]:
    (block,) = step.blocks
    steps = (_constant(program, block.params[index]), *block.steps)
    n_sliced = len(step.operands) - n_carried - 1
    args = {**step.args, "sliced": _flat(n_sliced) if n_sliced else None}
    args["length"] = program.kinds[step.operands[index]].shape[0]
    inner = Block(_without(block.params, index), steps, block.results)
    return [LoopStep("scan", _without(step.operands, index), step.results, args, (inner,))]


def _drop_stacked(
    program: LoopProgram, step: LoopStep, index: int, n_carried: int
) -> list[LoopStep]:
    (block,) = step.blocks
    n_stacked = len(step.results) - n_carried - 1
    args = {**step.args, "stacked": _flat(n_stacked) if n_stacked else None}
    inner = replace(block, results=_without(block.results, index))
    changed = LoopStep("scan", step.operands, _without(step.results, index), args, (inner,))
    return [changed, _constant(program, step.results[index])]


def _flat(n_leaves: int) -> Any:
    return 0 if n_leaves == 1 else list(range(n_leaves))


def _taken_branches(program: LoopProgram) -> Iterator[LoopProgram]:
    """Replace a branch by the steps of one of its blocks."""
    for step in program.iter_steps():
        if step.operation in ("input", *_LOOPS) or not step.blocks:
            continue
        for block in step.blocks:
            kept = _with_step(program, step, block.steps)
            for param, operand in zip(block.params, step.operands[1:], strict=True):
                kept = _renamed(kept, param, operand)
            for result, value in zip(step.results, block.results, strict=True):
                operands = dict(zip(block.params, step.operands[1:], strict=True))
                kept = _renamed(kept, result, operands.get(value, value))
            yield kept


def _fewer_iterations(program: LoopProgram) -> Iterator[LoopProgram]:
    for step in program.iter_steps():
        args = step.args
        if step.operation == "fori":
            if not isinstance(args["upper"], int):
                counted = replace(step, operands=step.operands[: args["n_carried"]])
                changed = replace(counted, args={**args, "upper": 3})
                yield _with_step(program, step, [changed])
            elif args["lower"]:
                yield _with_args(program, step, lower=0, upper=args["upper"] - args["lower"])
            else:
                for count in range(1, min(args["upper"], 4)):
                    yield _with_args(program, step, upper=count)
        elif step.operation == "scan":
            yield from _shorter_scans(program, step)
    for name, (low, high, first, second) in program.variables.items():
        for values in ((1, 2), (2, 3), (2, 2)):
            if values < (first, second):
                yield replace(program, variables={**program.variables, name: (low, high, *values)})


def _shorter_scans(program: LoopProgram, step: LoopStep) -> Iterator[LoopProgram]:
    if step.args["reverse"]:
        yield _with_args(program, step, reverse=False)
    n_carried, length = step.args["n_carried"], step.args["length"]
    if len(step.operands) == len(step.results) == n_carried and isinstance(length, int):
        for count in range(1, min(length, 4)):
            yield _with_args(program, step, length=count)


def _plain(program: LoopProgram) -> Iterator[LoopProgram]:
    """Replace structures by lists, and use one seed for all inputs."""
    for step in program.iter_steps():
        for name in ("carried", "sliced", "stacked", "made"):
            tree = step.args.get(name)
            n_leaves = _count_leaves(tree)
            if n_leaves and tree != _flat(n_leaves):
                yield _with_args(program, step, **{name: _flat(n_leaves)})
    for step in program.inputs:
        if step.args["seed"] != 1:
            yield _with_step(program, step, [replace(step, args={"seed": 1})])


def _count_leaves(tree: Any) -> int:
    if isinstance(tree, dict):
        return sum(map(_count_leaves, tree.values()))
    if isinstance(tree, (list, tuple)):
        return sum(map(_count_leaves, tree))
    return 0 if tree is None else 1
