"""Searching and counting in random programs: positions of values, and rows of a table."""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from svod_testing.programs.operation import Drawable, Drawn

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw
    from svod_testing.programs.oracle import Value

__all__ = ["SEARCHING"]

_SEARCHED: Final = ("float32", "float64", "int32", "int64")


def _is_searched(value: Value) -> bool:
    return value.dtype in _SEARCHED and value.size <= 150


def _is_index(value: Value) -> bool:
    return value.dtype in ("int32", "int64")


def _check_apart(a: Any, b: Any) -> None:
    """Refuse numbers that rounding may make equal or different."""
    left, right = a.reshape(-1, 1).astype(np.float64), b.reshape(-1).astype(np.float64)
    away = np.abs(left - right)
    if ((away > 0) & (away <= 1e-4 * (np.abs(left) + np.abs(right)) + 1e-30)).any():
        raise ValueError("nearly equal numbers")


def _draw_search(draw: Draw) -> Drawn:
    keys = draw.value(lambda v: v.ndim == 1 and _is_searched(v))
    return (keys, draw.value(_is_searched)), {"side": draw.choose(("left", "right"))}


def _search(keys: Any, sought: Any, side: Literal["left", "right"]) -> Any:
    _check_apart(keys, sought)
    return np.searchsorted(np.sort(keys), sought, side)


def _draw_member(draw: Draw) -> Drawn:
    return (draw.value(_is_searched), draw.value(lambda v: _is_searched(v) and v.size <= 20)), {
        "invert": draw.chance(0.3)
    }


def _isin(a: Any, values: Any, invert: bool) -> Any:
    _check_apart(a, values)
    # Compared elementwise: numpy.isin sorts, and treats NaN differently.
    is_equal = (a[..., None] == values.reshape(-1)).any(-1)
    return ~is_equal if invert else is_equal


def _draw_counted(draw: Draw) -> Drawn:
    value = draw.value_or_input(lambda v: _is_index(v) and v.size <= 400, draw.sizes(), "int32", -2)
    return (value,), {"n": draw.number(1, 7)}


def _draw_weighted(draw: Draw) -> Drawn:
    operands, args = _draw_counted(draw)
    shape = draw.values[operands[0]].shape
    weights = draw.value_or_input(
        lambda v: v.shape == shape and v.dtype in ("float32", "int32"), shape
    )
    return (*operands, weights), args


def _count(a: Any, n: int) -> Any:
    return np.bincount(a[(a >= 0) & (a < n)].astype(np.int64), minlength=n)


def _count_weights(a: Any, weights: Any, n: int) -> Any:
    result = np.zeros(n, weights.dtype)
    inside = (a >= 0) & (a < n)
    np.add.at(result, a[inside], weights[inside])
    return result


def _draw_table(draw: Draw) -> Drawn:
    table = draw.with_axes(lambda v: 0 < v.size <= 200)
    index = draw.value_or_input(
        lambda v: _is_index(v) and v.ndim < 3 and v.size <= 12, (3,), "int64", -4
    )
    return (index, table), {"n": draw.values[table].shape[0]}


def _draw_along(draw: Draw) -> Drawn:
    """Pick a tensor and indices along an axis, whose shapes agree on the other axes."""
    value = draw.with_axes(lambda v: 0 < v.size <= 300)
    shape = draw.values[value].shape
    axis = draw.number(0, len(shape) - 1)
    index_shape = (*shape[:axis], draw.number(1, 4), *shape[axis + 1 :])

    def fits(candidate: Value) -> bool:
        return (
            _is_index(candidate)
            and candidate.ndim == len(shape)
            and (
                candidate.shape[:axis] == shape[:axis]
                and candidate.shape[axis + 1 :] == shape[axis + 1 :]
            )
        )

    index = draw.value_or_input(fits, index_shape, draw.choose(("int32", "int64")), -4)
    return (value, index), {"n": shape[axis], "axis": axis}


def _draw_put(draw: Draw) -> Drawn:
    (value, index), args = _draw_along(draw)
    shape, dtype = draw.values[index].shape, draw.values[value].dtype
    source = draw.value_or_input(
        lambda v: v.shape == shape and v.dtype == dtype,
        shape,
        dtype,
        0 if dtype == "bool" else None,
    )
    return (value, index, source), args


def _put(a: Any, i: Any, value: Any, n: int, axis: int) -> Any:
    result = a.copy()
    for at in np.ndindex(*i.shape):
        target = (*at[:axis], int(i[at] % n), *at[axis + 1 :])
        result[target] = value[at]
    return result


def _iter_searching() -> Iterator[Drawable]:
    yield Drawable(
        "searchsorted",
        "{0}.sort().searchsorted({1}, {side})",
        _search,
        lambda *d, side: "int64",
        _draw_search,
        converts=True,
        orders=True,
        weight=0.6,
    )
    yield Drawable(
        "isin",
        "{0}.isin({1}, invert={invert})",
        _isin,
        lambda *d, invert: "bool",
        _draw_member,
        converts=True,
        orders=True,
        weight=0.5,
    )
    yield Drawable(
        "bincount",
        "{0}.bincount(n_bins={n})",
        _count,
        lambda d, n: "int64",
        _draw_counted,
        weight=0.4,
    )
    yield Drawable(
        "bincount_weights",
        "{0}.bincount({1}, n_bins={n})",
        _count_weights,
        lambda d, w, n: w,
        _draw_weighted,
        "rarely",
        weight=0.4,
    )
    yield Drawable(
        "embedding",
        "({0} % {n}).embedding({1})",
        lambda i, a, n: a[i % n],
        lambda i, d, n: d,
        _draw_table,
        weight=0.5,
    )
    yield Drawable(
        "gather",
        "{0}.gather({axis}, {1} % {n})",
        lambda a, i, n, axis: np.take_along_axis(a, i % n, axis),
        lambda d, i, **named: d,
        _draw_along,
        weight=0.4,
    )
    yield Drawable(
        "put_along_axis",
        "{0}.put_along_axis({1} % {n}, {2}, {axis})",
        _put,
        lambda d, *rest, **named: d,
        _draw_put,
        weight=0.5,
    )


SEARCHING: Final = tuple(_iter_searching())
