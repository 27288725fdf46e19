"""Operations of random programs on NaN and infinite numbers, where their results are defined."""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from svod_testing.programs.operation import Drawable, Drawn, Rounding
from svod_testing.programs.reductions import check_products

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw

__all__ = ["NANS"]


def _draw_holes(draw: Draw) -> Drawn:
    value = draw.floating(lambda v: v.size > 0)
    shape = draw.values[value].shape
    mask = draw.value_or_input(
        lambda v: v.dtype == "bool" and v.shape in (shape, shape[-1:]), shape, "bool", 0
    )
    return (value, mask), {}


def _draw_special(draw: Draw) -> Drawn:
    operands, args = _draw_holes(draw)
    return operands, {**args, "c": draw.choose((math.nan, math.nan, math.inf, -math.inf))}


def _draw_reduced(draw: Draw) -> Drawn:
    operands, _ = _draw_holes(draw)
    return operands, {
        "axis": draw.axes(draw.values[operands[0]].ndim),
        "keepdims": draw.chance(0.5),
    }


def _draw_scanned(draw: Draw) -> Drawn:
    operands, _ = _draw_holes(draw)
    return operands, {"axis": draw.axis(draw.values[operands[0]].ndim)}


def _sum(a: Any, hole: Any, axis: Any, keepdims: bool) -> Any:
    return np.where(hole | np.isnan(a), 0, a).sum(axis, keepdims=keepdims)


def _product(a: Any, hole: Any, axis: Any, keepdims: bool) -> Any:
    factors = np.where(hole | np.isnan(a), 1, a)
    check_products(factors, axis)
    return factors.prod(axis, keepdims=keepdims)


def _mean(a: Any, hole: Any, axis: Any, keepdims: bool) -> Any:
    n = np.logical_not(hole | np.isnan(a)).sum(axis, keepdims=keepdims)
    return _sum(a, hole, axis, keepdims) / n


def _largest(a: Any, hole: Any, axis: Any, keepdims: bool) -> Any:
    missing = np.broadcast_to(hole, a.shape) | np.isnan(a)
    maximum = np.where(missing, -np.inf, a).max(axis, keepdims=keepdims)
    return np.where(missing.all(axis, keepdims=keepdims), np.nan, maximum)


def _smallest(a: Any, hole: Any, axis: Any, keepdims: bool) -> Any:
    return -_largest(-a, hole, axis, keepdims)


def _fill(a: Any, mask: Any, c: float) -> Any:
    return np.where(mask, c, a)


def _same(dtype: str, *_: object, **named: object) -> str:
    return dtype


def _iter_nans() -> Iterator[Drawable]:
    yield Drawable(
        "put_special", "{0}.masked_fill({1}, {c})", _fill, _same, _draw_special, weight=0.3
    )
    rows: tuple[tuple[str, Callable[..., Any], Rounding], ...] = (
        ("nansum", _sum, "rarely"),
        ("nanprod", _product, "rarely"),
        ("nanmean", _mean, "rarely"),
        ("nanmax", _largest, "never"),
        ("nanmin", _smallest, "never"),
    )
    for name, meaning, rounding in rows:
        yield Drawable(
            name,
            f'{{0}}.masked_fill({{1}}, float("nan")).{name}({{axis}}, keepdims={{keepdims}})',
            meaning,
            _same,
            _draw_reduced,
            rounding,
            weight=0.4,
        )
    for name, code, meaning in (
        (
            "sum_without_infinities",
            "{0}.masked_fill({1}, float('inf')).isfinite().where({0}, 0.0).sum({axis})",
            _sum_finite,
        ),
        ("max_of_infinities", "{0}.masked_fill({1}, float('-inf')).max({axis})", _max_filled),
    ):
        yield Drawable(
            name,
            code,
            meaning,
            _same,
            _draw_scanned,
            "rarely" if name.startswith("sum") else "never",
            weight=0.3,
        )


def _sum_finite(a: Any, hole: Any, axis: int) -> Any:
    return np.where(hole | ~np.isfinite(a), 0, a).sum(axis)


def _max_filled(a: Any, hole: Any, axis: int) -> Any:
    return np.where(hole, -np.inf, a).max(axis)


NANS: Final = tuple(_iter_nans())
