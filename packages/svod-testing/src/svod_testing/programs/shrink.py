"""Shrinking of failing programs.

Example:
    If all programs with a logarithm failed, one would be shrunk to:

    >>> from svod_testing.programs import Program, Step, shrink, write_program
    >>> full = Step("full", (), (0,), (("shape", (16,)), ("c", 3.0)))
    >>> steps = [full, Step("sqrt", (0,), (1,)), Step("log1p", (1,), (2,)), Step("neg", (2,), (3,))]
    >>> def fails(program):
    ...     return any(step.operation == "log1p" for step in program.steps)
    >>> print(write_program(shrink(Program(tuple(steps), roots=(3, 1)), fails)))
    x1 = Tensor(((np.random.default_rng(0).permutation(1) - 0) / 8).reshape((1,)).astype("float32"))
    x2 = x1.abs().log1p()
    results = [x2]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Final

from svod_testing.programs.meaning import evaluate_program
from svod_testing.programs.oracle import UnstableError, Value
from svod_testing.programs.program import Argument, Program, Step

__all__ = ["shrink"]

_ROUNDS: Final = 12
_INVALID: Final = (
    UnstableError,
    ValueError,
    IndexError,
    TypeError,
    OverflowError,
    ZeroDivisionError,
    KeyError,
)


def shrink(program: Program, fails: Callable[[Program], bool], *, max_tries: int = 300) -> Program:
    """Return a shorter program for which `fails` still holds, as it does for `program`."""
    tries = 0
    for _ in range(_ROUNDS):
        before = program
        for find in (
            _fewer_roots,
            _moved_roots,
            _replaced_steps,
            _bypassed_steps,
            _smaller_sizes,
            _simpler_arguments,
        ):
            done = False
            while not done:
                done = True
                for candidate in find(program):
                    if tries >= max_tries:
                        return program
                    if not _is_valid(candidate):
                        continue
                    tries += 1
                    if fails(candidate):
                        program, done = candidate, False
                        break
        if program == before:
            break
    return program


def _is_valid(program: Program) -> bool:
    if not program.roots:
        return False
    try:
        evaluate_program(program)
    except _INVALID:
        return False
    return True


def _clean(steps: tuple[Step, ...], roots: tuple[int, ...]) -> Program:
    return Program(steps, roots).without_dead_steps()


def _fewer_roots(program: Program) -> Iterator[Program]:
    roots = program.roots
    if len(roots) > 1:
        if len(roots) > 2:
            for root in roots:
                yield _clean(program.steps, (root,))
        count = len(roots) // 2
        while count:
            for index in range(0, len(roots), count):
                yield _clean(program.steps, roots[:index] + roots[index + count :])
            count //= 2


def _moved_roots(program: Program) -> Iterator[Program]:
    """Replace a result by an operand of its step."""
    makers = {v: s for s in program.steps for v in s.results}
    for index, root in enumerate(program.roots):
        for operand in makers[root].operands:
            roots = (*program.roots[:index], operand, *program.roots[index + 1 :])
            if makers[operand].operation != "input":
                yield _clean(program.steps, roots)


def _replaced_steps(program: Program) -> Iterator[Program]:
    """Replace a step by inputs of the same shapes and dtypes."""
    values = evaluate_program(program)
    for index in reversed(range(len(program.steps))):
        step = program.steps[index]
        if step.operation == "input" or (
            len(program.roots) == 1 and program.roots[0] in step.results
        ):
            continue
        for low, high in _ranges(values[step.results[0]]):
            inputs = tuple(_input_like(v, values[v], low, high) for v in step.results)
            yield _clean(
                (*program.steps[:index], *inputs, *program.steps[index + 1 :]), program.roots
            )


def _ranges(value: Value) -> tuple[tuple[int, int], ...]:
    if value.is_float:
        return ((1, 0), (2, 0))
    return ((0, 2),) if value.dtype == "bool" else ((0, 5), (0, 2))


def _input_like(value_id: int, value: Value, low: int, high: int) -> Step:
    named: dict[str, Argument] = {
        "shape": value.shape,
        "dtype": value.dtype,
        "low": low,
        "high": high,
        "seed": value_id,
    }
    if value.dtype == "bfloat16":
        named["dtype"] = "float32"
    return Step("input", (), (value_id,), tuple(named.items()))


def _bypassed_steps(program: Program) -> Iterator[Program]:
    """Replace the result of a step by an operand of the same shape and dtype."""
    values = evaluate_program(program)
    for index in reversed(range(len(program.steps))):
        step = program.steps[index]
        for operand in step.operands:
            for result in step.results:
                alike = (
                    values[operand].shape == values[result].shape
                    and values[operand].dtype == values[result].dtype
                )
                if not alike or len(step.results) > 1:
                    continue
                following = tuple(
                    _with_operand(s, result, operand) for s in program.steps[index + 1 :]
                )
                roots = tuple(operand if r == result else r for r in program.roots)
                yield _clean((*program.steps[:index], *following), roots)


def _with_operand(step: Step, old: int, new: int) -> Step:
    return Step(
        step.operation,
        tuple(new if v == old else v for v in step.operands),
        step.results,
        step.args,
    )


def _smaller_sizes(program: Program) -> Iterator[Program]:
    """Reduce a size everywhere, or in one axis of the inputs."""
    sizes = sorted({n for s in program.steps for n in _numbers(s.args) if n > 1}, reverse=True)
    for size in sizes:
        for smaller in dict.fromkeys((1, 2, size // 2, size - 1)):
            if smaller < size:
                yield Program(
                    tuple(
                        Step(s.operation, s.operands, s.results, _replace(s.args, size, smaller))
                        for s in program.steps
                    ),
                    program.roots,
                )


def _numbers(value: object) -> Iterator[int]:
    if isinstance(value, tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _numbers(item)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def _replace(
    args: tuple[tuple[str, Argument], ...], old: int, new: int
) -> tuple[tuple[str, Argument], ...]:
    kept = ("axis", "low", "high", "seed", "c", "start", "end")
    return tuple(
        (name, value if name in kept else _replace_number(value, old, new)) for name, value in args
    )


def _replace_number(value: Argument, old: int, new: int) -> Argument:
    if isinstance(value, tuple):
        return tuple(_replace_number(item, old, new) for item in value)
    return new if value == old and not isinstance(value, bool) else value


def _simpler_arguments(program: Program) -> Iterator[Program]:
    for index, step in enumerate(program.steps):
        for position, (name, value) in enumerate(step.args):
            for simpler in _simplify(step.operation, name, value):
                args = (*step.args[:position], (name, simpler), *step.args[position + 1 :])
                changed = Step(step.operation, step.operands, step.results, args)
                yield Program(
                    (*program.steps[:index], changed, *program.steps[index + 1 :]), program.roots
                )


def _simplify(operation: str, name: str, value: Argument) -> Iterator[Argument]:
    if operation == "input":
        if name == "dtype" and value not in ("float32", "int32", "bool"):
            yield from ("float32", "int32")
        elif name == "seed" and value != 0:
            yield 0
        elif name == "shape" and isinstance(value, tuple) and value:
            yield from _smaller_shapes(value)
    elif name == "axis" and isinstance(value, tuple):
        yield from value
    elif name == "descending" and value:
        yield False


def _smaller_shapes(shape: tuple[Argument, ...]) -> Iterator[Argument]:
    for axis, size in enumerate(shape):
        if isinstance(size, int) and size > 1:
            for smaller in (1, math.ceil(size / 2), size - 1):
                if smaller < size:
                    yield (*shape[:axis], smaller, *shape[axis + 1 :])
