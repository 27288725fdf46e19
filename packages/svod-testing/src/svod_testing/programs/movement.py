"""Movement operations of random programs, and the leaves: inputs and constants."""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from svod_testing.programs.operation import Drawable, Drawn, common

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw
    from svod_testing.programs.oracle import Value

__all__ = ["LEAVES", "MOVEMENT", "make_data"]

_LARGEST = 2048


def make_data(
    shape: tuple[int, ...], dtype: str, low: int = 0, high: int = 5, seed: int = 0, shift: int = 0
) -> Any:
    """The data of an input.

    Integers lie from `low` up to `high`. Floats are different multiples of 1/8: with `low` 0 none
    is negative, with 1 half of them, with 2 all."""
    rng = np.random.default_rng(seed + 1000 * shift)
    if dtype.startswith("float"):
        count = math.prod(shape)
        return ((rng.permutation(count) - low * count // 2) / 8).reshape(shape).astype(dtype)
    return rng.integers(low, high, shape).astype(dtype)


def _draw_input(draw: Draw) -> Drawn:
    shape, dtype = draw.sizes(), draw.dtype()
    if dtype.startswith("float"):
        low, high = draw.choose((0, 1, 1, 1, 2)), 0
    else:
        low, high = {"bool": (0, 2), "uint8": (0, 9)}.get(
            dtype, draw.choose(((-4, 5), (0, 3), (-20, 20), (-7, -1)))
        )
    return (), {
        "shape": shape,
        "dtype": dtype,
        "low": low,
        "high": high,
        "seed": draw.number(0, 99),
    }


def _draw_shape(draw: Draw) -> tuple[int, ...]:
    """A shape of earlier values, with some axes made 1, or the last ones of it."""
    shape = draw.sizes()
    shape = shape[draw.number(0, len(shape)) :] if draw.chance(0.3) else shape
    return tuple(1 if draw.chance(0.15) else s for s in shape)


def _draw_iota(draw: Draw) -> Drawn:
    shape = draw.sizes()
    axis = draw.axis(len(shape)) % len(shape)
    size = shape[axis]
    return (), {"n": size, "shape": (size, *(1 for _ in shape[axis + 1 :]))}


def _iter_leaves() -> Iterator[Drawable]:
    yield Drawable(
        "input",
        "Tensor({data})",
        lambda **named: make_data(**named),
        lambda shape, dtype, **rest: dtype,
        _draw_input,
        weight=1.5,
    )
    yield Drawable(
        "arange",
        "Tensor.arange({n})",
        lambda n: np.arange(n),
        lambda n: "int32",
        lambda d: ((), {"n": d.number(1, 17)}),
        weight=0.3,
    )
    yield Drawable(
        "iota",
        "Tensor.arange({n}).reshape({shape})",
        lambda n, shape: np.arange(n).reshape(shape),
        lambda n, shape: "int32",
        _draw_iota,
        weight=1,
    )
    yield Drawable(
        "full",
        "Tensor.full({shape}, {c})",
        lambda shape, c: np.full(shape, c),
        lambda shape, c: "float32",
        lambda d: ((), {"shape": _draw_shape(d), "c": d.choose((0.0, 1.0, -2.5))}),
        weight=0.4,
    )
    yield Drawable(
        "eye",
        "Tensor.eye({n}, {m})",
        lambda n, m: np.eye(n, m),
        lambda n, m: "float32",
        lambda d: ((), {"n": d.number(1, 8), "m": d.number(1, 8)}),
        weight=0.2,
    )
    yield Drawable(
        "linspace",
        "Tensor.linspace(-1, 2, {n})",
        lambda n: np.linspace(-1, 2, n),
        lambda n: "float32",
        lambda d: ((), {"n": d.number(1, 9)}),
        "always",
        weight=0.1,
    )
    yield Drawable(
        "ones_like",
        "{0}.ones_like()",
        np.ones_like,
        lambda d: d,
        lambda d: ((d.value(),), {}),
        weight=0.1,
    )


def _same(dtype: str, *_: object, **named: object) -> str:
    return dtype


def _move(
    name: str,
    code: str,
    meaning: Callable[..., Any],
    draw: Callable[[Draw], Drawn],
    weight: float = 1.0,
) -> Drawable:
    return Drawable(name, code, meaning, _same, draw, weight=weight)


def _draw_reshape(draw: Draw) -> Drawn:
    value = draw.value(lambda v: v.size > 0)
    remaining, shape = draw.values[value].size, list[int]()
    for _ in range(draw.number(0, 3)):
        size = draw.choose(draw.factors(remaining))
        shape.append(size)
        remaining //= size
    if remaining > 1 or not shape:
        shape.insert(draw.number(0, len(shape)), remaining)
    return (value,), {"shape": tuple(shape)}


def _draw_merge(draw: Draw) -> Drawn:
    value = draw.value(lambda v: v.ndim > 1)
    start = draw.number(0, draw.values[value].ndim - 2)
    return (value,), {"start": start, "end": draw.number(start + 1, draw.values[value].ndim - 1)}


def _flatten(a: Any, start: int, end: int) -> Any:
    return a.reshape(*a.shape[:start], math.prod(a.shape[start : end + 1]), *a.shape[end + 1 :])


def _draw_permute(draw: Draw) -> Drawn:
    value = draw.value(lambda v: v.ndim > 1)
    axes = list(range(draw.values[value].ndim))
    draw.rng.shuffle(axes)
    return (value,), {"axes": tuple(axes)}


def _draw_flip(draw: Draw) -> Drawn:
    value = draw.with_axes()
    return (value,), {"axis": draw.axis(draw.values[value].ndim)}


def _draw_unsqueeze(draw: Draw) -> Drawn:
    value = draw.value(lambda v: v.ndim < 5)
    return (value,), {"axis": draw.number(0, draw.values[value].ndim)}


def _draw_squeeze(draw: Draw) -> Drawn:
    value = draw.value(lambda v: 1 in v.shape)
    return (value,), {
        "axis": draw.choose([a for a, s in enumerate(draw.values[value].shape) if s == 1])
    }


def _draw_expand(draw: Draw) -> Drawn:
    value = draw.value(lambda v: v.size <= 300 and v.ndim < 5)
    shape = tuple(draw.number(1, 4) if s == 1 else s for s in draw.values[value].shape)
    lead = (draw.number(1, 4),) if draw.chance(0.6) else ()
    return (value,), {"shape": (*lead, *shape)}


def _draw_pad(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size <= 500)
    pairs = tuple(
        (draw.choose((0, 0, 1, 2)), draw.choose((0, 0, 1, 3)))
        for _ in range(draw.values[value].ndim)
    )
    return (value,), {"pairs": pairs, "c": draw.choose((0, 0, 0, 1))}


def _draw_shrink(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0)
    bounds: list[tuple[int, int]] = []
    for size in draw.values[value].shape:
        begin = draw.number(0, size - 1) if draw.chance(0.5) else 0
        bounds.append((begin, draw.number(begin + 1, size) if draw.chance(0.5) else size))
    return (value,), {"bounds": tuple(bounds)}


def _draw_slice(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0)
    ndim, shape = draw.values[value].ndim, draw.values[value].shape
    items = ["slice(None)"] * ndim
    for axis in range(ndim):
        size, kind = shape[axis], draw.rng.random()
        if kind < 0.2:
            items[axis] = str(draw.number(-size, size - 1))
        elif kind < 0.35:
            items[axis] = f"slice({draw.number(0, size - 1)}, None, {draw.number(1, 3)})"
        elif kind < 0.45:
            items[axis] = f"slice(None, None, -{draw.number(1, 2)})"
        elif kind < 0.5:
            items[axis] = "None, slice(None)"
    return (value,), {"index": f"({', '.join(items)},)"}


def _draw_roll(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0)
    return (value,), {"shift": draw.number(-3, 5), "axis": draw.axis(draw.values[value].ndim)}


def _draw_repeat(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size <= 200)
    return (value,), {
        "n": draw.number(1, 3),
        "axis": draw.axis(draw.values[value].ndim) % draw.values[value].ndim,
    }


def _draw_tile(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size <= 150 and v.ndim < 4)
    return (value,), {"counts": tuple(draw.number(1, 2) for _ in range(draw.values[value].ndim))}


def _draw_triangle(draw: Draw) -> Drawn:
    return (draw.value(lambda v: v.ndim > 1),), {"k": draw.number(-2, 2)}


def _draw_alike(draw: Draw) -> tuple[list[int], tuple[int, ...]]:
    """Two to four values of one shape."""
    first = draw.value(lambda v: v.size <= _LARGEST // 4)
    shape = draw.values[first].shape
    return [
        first,
        *(draw.value(lambda v: v.shape == shape) for _ in range(draw.number(1, 3))),
    ], shape


def _draw_stack(draw: Draw) -> Drawn:
    operands, shape = _draw_alike(draw)
    if len(shape) > 4:
        return operands, {"axis": 0}
    return operands, {"axis": draw.number(-len(shape) - 1, len(shape))}


def _draw_concat(draw: Draw) -> Drawn:
    first = draw.with_axes(lambda v: v.size <= _LARGEST // 4)
    shape = draw.values[first].shape
    axis = draw.axis(len(shape))
    position = axis % len(shape)

    def fits(value: Value) -> bool:
        return value.ndim == len(shape) and all(
            a == b for i, (a, b) in enumerate(zip(shape, value.shape, strict=True)) if i != position
        )

    return [first, *(draw.value(fits) for _ in range(draw.number(1, 2)))], {"axis": axis}


def _join(function: Callable[..., Any], arrays: tuple[Any, ...], axis: int) -> Any:
    dtype = (
        "float64"
        if any(a.dtype.kind == "f" for a in arrays)
        else common(*(a.dtype.name for a in arrays))
    )
    return function([a.astype(dtype) for a in arrays], axis)


def _draw_part(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: any(s in (2, 3, 4) for s in v.shape))
    shape = draw.values[value].shape
    return (value,), {"axis": draw.choose([a for a, s in enumerate(shape) if s in (2, 3, 4)])}


def _draw_split(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: any(s > 1 for s in v.shape))
    shape = draw.values[value].shape
    axis = draw.choose([a for a, s in enumerate(shape) if s > 1])
    cut = draw.number(1, shape[axis] - 1)
    return (value,), {"sizes": (cut, shape[axis] - cut), "axis": axis}


def _unbind(a: Any, axis: int) -> tuple[Any, ...]:
    return tuple(np.moveaxis(a, axis, 0))


def _split(a: Any, sizes: tuple[int, ...], axis: int) -> Any:
    if sum(sizes) != a.shape[axis]:
        raise ValueError("sizes")
    return np.split(a, np.cumsum(sizes)[:-1], axis)


def _iter_movement() -> Iterator[Drawable]:
    yield _move(
        "reshape", "{0}.reshape({shape})", lambda a, shape: a.reshape(shape), _draw_reshape, 1.5
    )
    yield _move("flatten", "{0}.flatten({start}, {end})", _flatten, _draw_merge, 0.5)
    yield _move(
        "permute", "{0}.permute({axes})", lambda a, axes: a.transpose(axes), _draw_permute, 1.5
    )
    yield _move(
        "transpose", "{0}.T", lambda a: a.T, lambda d: ((d.value(lambda v: v.ndim > 1),), {}), 0.5
    )
    yield _move("flip", "{0}.flip({axis})", np.flip, _draw_flip)
    yield _move("unsqueeze", "{0}.unsqueeze({axis})", np.expand_dims, _draw_unsqueeze)
    yield _move("squeeze", "{0}.squeeze({axis})", np.squeeze, _draw_squeeze)
    yield _move("broadcast_to", "{0}.broadcast_to({shape})", np.broadcast_to, _draw_expand, 1.2)
    yield _move("expand", "{0}.expand({shape})", np.broadcast_to, _draw_expand, 0.3)
    yield _move(
        "pad",
        "{0}.pad(*{pairs}, constant_values={c})",
        lambda a, pairs, c: np.pad(a, pairs, constant_values=c),
        _draw_pad,
    )
    yield _move(
        "shrink",
        "{0}.shrink(*{bounds})",
        lambda a, bounds: a[
            tuple(slice(*_inside(b, s)) for b, s in zip(bounds, a.shape, strict=True))
        ],
        _draw_shrink,
    )
    yield _move("slice", "{0}[{index}]", lambda a, index: a[eval(index)], _draw_slice, 1.5)
    yield _move("roll", "{0}.roll({shift}, {axis})", np.roll, _draw_roll)
    yield _move(
        "repeat_interleave",
        "{0}.repeat_interleave({n}, {axis})",
        lambda a, n, axis: np.repeat(a, n, axis),
        _draw_repeat,
    )
    yield _move("tile", "{0}.tile({counts})", lambda a, counts: np.tile(a, counts), _draw_tile)
    yield _move("tril", "{0}.tril({k})", np.tril, _draw_triangle)
    yield _move("triu", "{0}.triu({k})", np.triu, _draw_triangle)
    yield _move(
        "diagonal",
        "{0}.diagonal()",
        lambda a: np.diagonal(a, axis1=-2, axis2=-1),
        lambda d: ((d.value(lambda v: v.ndim > 1),), {}),
        0.4,
    )
    yield _move("contiguous", "{0}.contiguous()", lambda a: a, lambda d: ((d.value(),), {}), 0.6)
    yield _move("clone", "{0}.clone()", lambda a: a, lambda d: ((d.value(),), {}), 0.3)
    yield Drawable(
        "stack",
        "Tensor.stack([{all}], {axis})",
        lambda *a, axis: _join(np.stack, a, axis),
        lambda *d, axis: common(*d),
        _draw_stack,
        weight=2,
    )
    yield Drawable(
        "concat",
        "Tensor.concat([{all}], {axis})",
        lambda *a, axis: _join(np.concatenate, a, axis),
        lambda *d, axis: common(*d),
        _draw_concat,
        weight=2,
    )
    yield Drawable(
        "unbind",
        "{0}.unbind({axis})",
        _unbind,
        lambda d, axis: d,
        _draw_part,
        gives_tuple=True,
        weight=1.5,
    )
    yield Drawable(
        "split",
        "{0}.split({sizes}, {axis})",
        _split,
        lambda d, sizes, axis: (d,) * len(sizes),
        _draw_split,
        gives_tuple=True,
        weight=1,
    )


def _inside(bounds: tuple[int, int], size: int) -> tuple[int, int]:
    if not 0 <= bounds[0] <= bounds[1] <= size:
        raise ValueError("bounds")
    return bounds


LEAVES: Final = tuple(_iter_leaves())
MOVEMENT: Final = tuple(_iter_movement())
