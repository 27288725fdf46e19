"""More movement operations of random programs: parts, grids and windows."""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from svod_testing.programs.operation import Drawable, Drawn

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw

__all__ = ["ARRANGEMENT"]


def _draw_two_axes(draw: Draw) -> Drawn:
    value = draw.value(lambda v: v.ndim > 1)
    ndim = draw.values[value].ndim
    return (value,), {"first": draw.axis(ndim), "second": draw.axis(ndim)}


def _draw_chunk(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: any(s > 1 for s in v.shape))
    shape = draw.values[value].shape
    axis = draw.choose([a for a, s in enumerate(shape) if s > 1])
    return (value,), {"n": draw.number(2, 3), "axis": axis}


def _chunk(a: Any, n: int, axis: int) -> tuple[Any, ...]:
    size = -(-a.shape[axis] // n)
    return tuple(np.split(a, range(size, a.shape[axis], size), axis))


def _draw_unflatten(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0)
    axis = draw.axis(draw.values[value].ndim)
    size = draw.values[value].shape[axis]
    factor = draw.choose(draw.factors(size))
    return (value,), {"axis": axis, "sizes": draw.choose(((factor, size // factor), (-1, factor)))}


def _unflatten(a: Any, axis: int, sizes: tuple[int, ...]) -> Any:
    position = axis % a.ndim
    return a.reshape(*a.shape[:position], *sizes, *a.shape[position + 1 :])


def _draw_grid(draw: Draw) -> Drawn:
    axes = [draw.value(lambda v: v.ndim == 1 and v.size <= 12) for _ in range(draw.number(1, 3))]
    return axes, {"indexing": draw.choose(("xy", "ij"))}


def _draw_broadcast(draw: Draw) -> Drawn:
    first = draw.value(lambda v: v.size <= 400)
    return (first, draw.partner(first)), {}


def _draw_windows(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: 0 < v.size <= 400 and v.ndim < 4)
    size = draw.number(1, min(draw.values[value].shape[-1], 3))
    return (value,), {"size": size, "stride": draw.number(1, 2)}


def _windows(a: Any, size: int, stride: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(a, size, -1)[..., ::stride, :]


def _draw_selected(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0)
    return (value,), {"n": draw.values[value].shape[0], "step": draw.number(1, 3)}


def _same(dtype: str, *_: object, **named: object) -> str:
    return dtype


def _iter_arrangement() -> Iterator[Drawable]:
    yield Drawable(
        "moveaxis",
        "{0}.moveaxis({first}, {second})",
        lambda a, first, second: np.moveaxis(a, first, second),
        _same,
        _draw_two_axes,
        weight=0.3,
    )
    yield Drawable(
        "swapaxes",
        "{0}.swapaxes({first}, {second})",
        lambda a, first, second: np.swapaxes(a, first, second),
        _same,
        _draw_two_axes,
        weight=0.15,
    )
    yield Drawable(
        "transpose_two",
        "{0}.transpose({first}, {second})",
        lambda a, first, second: np.swapaxes(a, first, second),
        _same,
        _draw_two_axes,
        weight=0.15,
    )
    yield Drawable(
        "matrix_transpose",
        "{0}.matrix_transpose()",
        lambda a: np.swapaxes(a, -1, -2),
        _same,
        lambda d: ((d.value(lambda v: v.ndim > 1),), {}),
        weight=0.2,
    )
    yield Drawable(
        "chunk", "{0}.chunk({n}, {axis})", _chunk, _same, _draw_chunk, gives_tuple=True, weight=0.4
    )
    yield Drawable(
        "unflatten",
        "{0}.unflatten({axis}, {sizes})",
        _unflatten,
        _same,
        _draw_unflatten,
        weight=0.4,
    )
    yield Drawable(
        "meshgrid",
        "Tensor.meshgrid({all}, indexing={indexing})",
        lambda *a, indexing: tuple(np.meshgrid(*a, indexing=indexing)),
        lambda *d, indexing: d,
        _draw_grid,
        gives_tuple=True,
        weight=0.3,
    )
    yield Drawable(
        "broadcast_arrays",
        "Tensor.broadcast_arrays({all})",
        lambda *a: tuple(np.broadcast_arrays(*a)),
        lambda *d: d,
        _draw_broadcast,
        gives_tuple=True,
        weight=0.3,
    )
    yield Drawable(
        "windows",
        "{0}.windows(({size},), ({stride},), (1,))",
        _windows,
        _same,
        _draw_windows,
        weight=0.3,
    )
    yield Drawable(
        "masked_select",
        "{0}.masked_select(np.arange({n}) % {step} == 0)",
        lambda a, n, step: a[np.arange(n) % step == 0],
        _same,
        _draw_selected,
        weight=0.3,
    )
    yield Drawable(
        "zeros",
        "Tensor.zeros({shape})",
        lambda shape: np.zeros(shape),
        lambda shape: "float32",
        lambda d: ((), {"shape": d.sizes()}),
        weight=0.1,
    )
    yield Drawable(
        "zeros_like",
        "{0}.zeros_like()",
        np.zeros_like,
        _same,
        lambda d: ((d.value(),), {}),
        weight=0.1,
    )
    yield Drawable(
        "full_like",
        "{0}.full_like({c})",
        lambda a, c: np.full_like(a, c),
        _same,
        lambda d: ((d.value(),), {"c": d.number(0, 1)}),
        weight=0.1,
    )


ARRANGEMENT: Final = tuple(_iter_arrangement())
