"""Generators of the single operations of random programs with loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from svod_testing.loop_programs.draw import (
    BOOL,
    DTYPES,
    SCALAR,
    SIZES,
    ValueDraw,
    find_broadcast,
    get_row,
)
from svod_testing.loop_programs.program import Kind, LoopStep
from svod_testing.programs.draw import RejectedError

__all__ = ["draw_step"]


def draw_step(draw: ValueDraw) -> int:
    """Add a step with a random operation, and return its result.

    Raises:
        RejectedError: if no operation fits after several tries.
    """
    for _ in range(20):
        n_steps, n_scope = len(draw.steps), len(draw.scope)
        try:
            return draw.rng.choices(_STEPS, _WEIGHTS)[0](draw)
        except RejectedError:
            del draw.steps[n_steps:], draw.scope[n_scope:]
    raise RejectedError


def _draw_unary(draw: ValueDraw) -> int:
    value = draw.value()
    kind = draw.kinds[value]
    if kind.is_float:
        name = draw.choose(
            (
                "sin",
                "cos",
                "tanh",
                "root",
                "exp",
                "sigmoid",
                "relu",
                "clip",
                "neg",
                "abs",
                "scale",
                "shift",
            )
        )
        k = {"k": draw.choose((0.5, -0.5, 0.25))} if name in ("scale", "shift") else {}
        return draw.add(name, (value,), kind, **k)
    if kind.dtype == BOOL:
        return draw.add("not", (value,), kind)
    name = draw.choose(("scale", "shift", "mod", "quotient", "not", "lshift", "rshift", "mod"))
    return draw.add(name, (value,), kind, k=draw.number(1, 3 if "shift" in name else 7))


def _draw_partner(draw: ValueDraw, value: int) -> tuple[int, tuple[int, ...]]:
    kind = draw.kinds[value]
    if draw.chance(0.15):
        return draw.constant(replace(kind, shape=())), kind.shape
    partner = draw.value(
        lambda k: k.dtype == kind.dtype and find_broadcast(kind.shape, k.shape) is not None
    )
    shape = find_broadcast(kind.shape, draw.kinds[partner].shape)
    assert shape is not None
    return partner, shape


def _draw_binary(draw: ValueDraw) -> int:
    value = draw.value()
    kind = draw.kinds[value]
    partner, shape = _draw_partner(draw, value)
    if kind.is_float:
        name = draw.choose(("add", "sub", "mul", "div", "mix", "max", "min", "add", "mul"))
    elif kind.dtype == BOOL:
        name = draw.choose(("and", "or", "xor"))
    else:
        name = draw.choose(("add", "sub", "mul", "max", "min", "and", "or", "xor"))
    return draw.add(name, (value, partner), Kind(shape, kind.dtype))


def _draw_comparison(draw: ValueDraw) -> int:
    value = draw.value(lambda k: k.dtype != BOOL)
    partner, shape = _draw_partner(draw, value)
    if partner == value:
        raise RejectedError
    name = "lt" if draw.kinds[value].is_float else draw.choose(("lt", "ge", "eq"))
    return draw.add(name, (value, partner), Kind(shape, BOOL))


def _draw_where(draw: ValueDraw) -> int:
    mask = draw.value(lambda k: k.dtype == BOOL)
    value = draw.value(lambda k: find_broadcast(k.shape, draw.kinds[mask].shape) is not None)
    partner, shape = _draw_partner(draw, value)
    wide = find_broadcast(shape, draw.kinds[mask].shape)
    if wide is None:
        raise RejectedError
    return draw.add("where", (mask, value, partner), Kind(wide, draw.kinds[value].dtype))


def _draw_conversion(draw: ValueDraw) -> int:
    return draw.convert(draw.value(), draw.choose(DTYPES))


def _draw_reduction(draw: ValueDraw) -> int:
    value = draw.value(lambda k: k.ndim > 0 and k.size > 0)
    kind = draw.kinds[value]
    axis = draw.choose((None, *range(kind.ndim)))
    keepdims = draw.chance(0.3)
    shape = tuple(
        1 if axis in (None, n) else size
        for n, size in enumerate(kind.shape)
        if keepdims or axis not in (None, n)
    )
    if kind.dtype == BOOL:
        return draw.add(
            draw.choose(("any", "all")), (value,), Kind(shape, BOOL), axis=axis, keepdims=keepdims
        )
    name = draw.choose(
        ("sum", "amax", "amin", *(("mean", "mean") if kind.is_float else ("argmax",)))
    )
    if name == "argmax":
        if axis is None:
            raise RejectedError
        shape = kind.shape[:axis] + kind.shape[axis + 1 :]
        return draw.add(name, (value,), Kind(shape, "int32"), axis=axis, dtype="int32")
    named = {"dtype": kind.dtype} if name == "sum" else {}
    return draw.add(name, (value,), Kind(shape, kind.dtype), axis=axis, keepdims=keepdims, **named)


def _draw_along_axis(draw: ValueDraw) -> int:
    value = draw.value(lambda k: k.ndim > 0 and k.size > 0 and k.dtype != BOOL)
    kind = draw.kinds[value]
    axis = draw.number(0, kind.ndim - 1)
    if draw.chance(0.3):
        return draw.add("sort", (value,), kind, axis=axis)
    if kind.is_float and draw.chance(0.5):
        return draw.add("softmax", (value,), kind)
    return draw.add("cumsum", (value,), kind, axis=axis, dtype=kind.dtype)


def _draw_product(draw: ValueDraw) -> int:
    value = draw.value(lambda k: k.ndim == 2 and k.is_float and k.size > 0)
    kind = draw.kinds[value]
    fitting = [
        v
        for v in draw.scope
        if (k := draw.kinds[v]).dtype == kind.dtype
        and k.ndim in (1, 2)
        and k.shape[0] == kind.shape[1]
    ]
    if not fitting:
        fitting = [draw.add("permute", (value,), Kind(kind.shape[::-1], kind.dtype), axes=(1, 0))]
    right = draw.choose(fitting)
    shape = (kind.shape[0], *draw.kinds[right].shape[1:])
    return draw.add("matmul", (value, right), Kind(shape, kind.dtype), k=0.25)


def _draw_movement(draw: ValueDraw) -> int:
    value = draw.value(lambda k: k.ndim > 0 and k.size > 0)
    kind = draw.kinds[value]
    axis = draw.number(0, kind.ndim - 1)
    match draw.number(0, 6):
        case 0:
            shape = draw.choose(
                (
                    (kind.size,),
                    (1, *kind.shape),
                    (*kind.shape, 1),
                    (kind.shape[0], kind.size // kind.shape[0]),
                )
            )
            return draw.add("reshape", (value,), replace(kind, shape=shape), shape=shape)
        case 1:
            axes = tuple(draw.rng.sample(range(kind.ndim), kind.ndim))
            return draw.add(
                "permute",
                (value,),
                replace(kind, shape=tuple(kind.shape[a] for a in axes)),
                axes=axes,
            )
        case 2:
            return draw.add("flip", (value,), kind, axis=axis)
        case 3 | 4:
            index, shape = draw.part(kind)
            return draw.add("slice", (value,), replace(kind, shape=shape), index=index)
        case 5:
            padding = tuple((draw.number(0, 2), draw.number(0, 2)) for _ in kind.shape)
            shape = tuple(a + n + b for n, (a, b) in zip(kind.shape, padding, strict=True))
            return draw.add("pad", (value,), replace(kind, shape=shape), padding=padding)
        case _:
            second = draw.value(lambda k: k == kind)
            if draw.chance(0.5):
                shape = (*kind.shape[:axis], 2 * kind.shape[axis], *kind.shape[axis + 1 :])
                return draw.add("concat", (value, second), replace(kind, shape=shape), axis=axis)
            shape = (*kind.shape[:axis], 2, *kind.shape[axis:])
            return draw.add("stack", (value, second), replace(kind, shape=shape), axis=axis)


def _draw_gather(draw: ValueDraw) -> int:
    value = draw.value(lambda k: k.ndim > 0 and k.size > 0)
    kind = draw.kinds[value]
    indices = draw.value(lambda k: k.dtype == "int32" and k.ndim < 2 and 0 < k.size < 20)
    shape = (*draw.kinds[indices].shape, *kind.shape[1:])
    return draw.add("gather", (value, indices), replace(kind, shape=shape), n=kind.shape[0])


def _draw_source(draw: ValueDraw) -> int:
    match draw.number(0, 2):
        case 0:
            n = draw.choose(SIZES)
            return draw.add("iota", (), Kind((n,), "int32"), n=n, dtype="int32")
        case 1:
            return draw.constant(draw.kind())
        case _:
            kind = replace(draw.kind(), dtype="float32")
            return draw.add("random_ones", (), kind, shape=kind.shape, dtype=kind.dtype)


def _draw_access(draw: ValueDraw) -> int:
    """Add a read of memory that blocks write to, usually after a write."""
    memory = draw.choose(draw.memory)
    kind = draw.kinds[memory]
    if draw.chance(0.7):
        if draw.chance(0.6):
            row = draw.fit(draw.value(), get_row(kind))
            row = draw.add("sin", (row,), get_row(kind)) if kind.is_float else row
            index_value = draw.fit(draw.value(lambda k: k.dtype == "int32" and k.size > 0), SCALAR)
            name, operands, args = "write_row", (memory, index_value, row), {"n": kind.shape[0]}
        else:
            index, shape = draw.part(kind)
            value = draw.fit(draw.value(), replace(kind, shape=shape))
            value = draw.add("sin", (value,), draw.kinds[value]) if kind.is_float else value
            name, operands, args = "write_part", (memory, value), {"index": index}
        draw.steps.append(LoopStep(name, operands, (draw.new(kind),), args))
        if draw.chance(0.5):
            return memory
    return draw.add("read_memory", (memory,), kind)


_TABLE: Final[tuple[tuple[Callable[[ValueDraw], int], float], ...]] = (
    (_draw_unary, 4),
    (_draw_binary, 6),
    (_draw_comparison, 1),
    (_draw_where, 2),
    (_draw_conversion, 1.5),
    (_draw_reduction, 2.5),
    (_draw_along_axis, 0.7),
    (_draw_product, 2),
    (_draw_movement, 3),
    (_draw_gather, 1.5),
    (_draw_source, 0.7),
    (_draw_access, 2),
)
_STEPS: Final = tuple(step for step, _ in _TABLE)
_WEIGHTS: Final = tuple(weight for _, weight in _TABLE)
