"""Quantiles, statistics without NaNs, and functions of samples of random programs."""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from svod_testing.programs.operation import Drawable, Drawn, common, float_of

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw
    from svod_testing.programs.oracle import Value

__all__ = ["SAMPLES"]


def _draw_reduced(draw: Draw) -> Drawn:
    value = draw.numeric(lambda v: v.size > 0)
    return (value,), {"axis": draw.axes(draw.values[value].ndim), "keepdims": draw.chance(0.4)}


def _draw_quantile(draw: Draw) -> Drawn:
    operands, args = _draw_reduced(draw)
    return operands, {"q": draw.choose((0.0, 0.25, 0.5, 0.9, 1.0)), **args}


def _draw_percentile(draw: Draw) -> Drawn:
    operands, args = _draw_reduced(draw)
    return operands, {"q": draw.choose((0, 25, 50, 90, 100)), **args}


def _draw_row(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0 and v.dtype != "bool")
    return (value,), {"axis": draw.axis(draw.values[value].ndim)}


def _draw_long_row(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0 and v.dtype != "bool" and min(v.shape) > 1)
    return (value,), {"axis": draw.axis(draw.values[value].ndim)}


def _draw_matrix(draw: Draw) -> Drawn:
    return (
        draw.value(
            lambda v: v.ndim == 2 and v.dtype != "bool" and min(v.shape) > 1 and v.size < 200
        ),
    ), {}


def _draw_number(draw: Draw) -> Drawn:
    return (draw.numeric(),), {}


def _draw_lines(draw: Draw) -> Drawn:
    def is_line(value: Value) -> bool:
        return value.ndim == 1 and value.size > 0 and value.dtype != "bool"

    first = draw.value_or_input(is_line, (draw.number(1, 9),))
    second = draw.value_or_input(is_line, (draw.number(1, 5),))
    return (first, second), {"mode": draw.choose(("full", "same", "valid"))}


def _draw_factors(draw: Draw) -> Drawn:
    def fits(value: Value) -> bool:
        return 0 < value.size <= 40 and value.dtype != "bool"

    return tuple(draw.value(fits) for _ in range(2)), {}


def _draw_diagonal(draw: Draw) -> Drawn:
    value = draw.value(lambda v: v.ndim == 2 or (v.ndim == 1 and v.size <= 20))
    return (value,), {"k": draw.choose((-1, 0, 0, 1))}


def _draw_padded(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: 0 < v.size <= 200)
    return (value,), {
        "n": draw.choose((0, 1, 2)),
        "mode": draw.choose(("edge", "reflect", "symmetric", "wrap")),
    }


def _draw_integer(draw: Draw) -> Drawn:
    return (draw.integer(),), {}


def _draw_whole(draw: Draw) -> Drawn:
    """Integers as floats: rounding does not move them over a power of two."""
    return (draw.integer(),), {}


def _draw_polynomial(draw: Draw) -> Drawn:
    first = draw.value_or_input(
        lambda v: v.ndim == 1 and 0 < v.size < 5 and v.dtype != "bool", (draw.number(1, 4),)
    )
    return (first, draw.numeric()), {}


def _with_nan(a: Any) -> Any:
    """Replace elements that are not positive by NaN, as the line of the program does."""
    return np.where(a <= 0, np.nan, a)


def _call_silently(function: Callable[..., Any], a: Any, **args: Any) -> Any:
    """Call a function of NumPy that warns about slices of NaN only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(_with_nan(a.astype(np.float64)), **args)


def _iter_samples() -> Iterator[Drawable]:
    hole = '{0}.masked_fill({0} <= 0, float("nan"))'
    reductions: tuple[tuple[str, str, Callable[..., Any], Callable[[Draw], Drawn]], ...] = (
        ("quantile", "{0}.quantile({q}, {axis}, keepdims={keepdims})", np.quantile, _draw_quantile),
        (
            "percentile",
            "{0}.percentile({q}, {axis}, keepdims={keepdims})",
            np.percentile,
            _draw_percentile,
        ),
        ("median", "{0}.median({axis}, keepdims={keepdims})", np.median, _draw_reduced),
    )
    for name, code, function, draw in reductions:
        yield Drawable(
            name,
            code,
            lambda a, f=function, **n: f(a.astype(np.float64), **n),
            lambda d, **n: float_of(d),
            draw,
            "always",
            weight=0.2,
        )
    without: tuple[tuple[str, str, Callable[..., Any], Callable[[Draw], Drawn]], ...] = (
        (
            "nanquantile",
            f"{hole}.nanquantile({{q}}, {{axis}}, keepdims={{keepdims}})",
            np.nanquantile,
            _draw_quantile,
        ),
        (
            "nanpercentile",
            f"{hole}.nanpercentile({{q}}, {{axis}}, keepdims={{keepdims}})",
            np.nanpercentile,
            _draw_percentile,
        ),
        (
            "nanmedian",
            f"{hole}.nanmedian({{axis}}, keepdims={{keepdims}})",
            np.nanmedian,
            _draw_reduced,
        ),
        ("nanvar", f"{hole}.nanvar({{axis}}, keepdims={{keepdims}})", np.nanvar, _draw_reduced),
        ("nanstd", f"{hole}.nanstd({{axis}}, keepdims={{keepdims}})", np.nanstd, _draw_reduced),
    )
    for name, code, function, draw in without:
        yield Drawable(
            name,
            code,
            partial(_call_silently, function),
            lambda d, **n: float_of(d),
            draw,
            "always",
            orders=True,
            weight=0.1,
        )
    rows: tuple[tuple[str, Callable[..., Any], str], ...] = (
        ("nancumsum", np.nancumsum, "rarely"),
        ("nancumprod", np.nancumprod, "rarely"),
    )
    for name, function, rounding in rows:
        yield Drawable(
            name,
            f"{hole}.{name}({{axis}})",
            lambda a, axis, f=function: f(_with_nan(a.astype(np.float64)), axis),
            lambda d, axis: float_of(d),
            _draw_row,
            rounding,
            orders=True,
            weight=0.1,
        )
    for name, function in (("nanargmax", np.argmax), ("nanargmin", np.argmin)):
        worst = -np.inf if name == "nanargmax" else np.inf
        yield Drawable(
            name,
            f"{hole}.{name}({{axis}})",
            lambda a, axis, f=function, w=worst: f(np.where(a <= 0, w, a.astype(np.float64)), axis),
            lambda d, axis: "int64",
            _draw_row,
            orders=True,
            weight=0.1,
        )
    yield Drawable(
        "nan_to_num",
        f"{hole}.nan_to_num(0.5)",
        lambda a: np.where(a <= 0, 0.5, a.astype(np.float64)),
        float_of,
        _draw_number,
        orders=True,
        weight=0.1,
    )
    for name, function in (("convolve", np.convolve), ("correlate", np.correlate)):
        yield Drawable(
            name,
            f"{{0}}.{name}({{1}}, {{mode}})",
            lambda a, b, mode, f=function: f(a, b, mode),
            lambda *d, mode: common(*d),
            _draw_lines,
            "always",
            converts=True,
            weight=0.2,
        )
    yield Drawable(
        "trapezoid",
        "{0}.trapezoid(axis={axis})",
        lambda a, axis: np.trapezoid(a.astype(np.float64), axis=axis),
        lambda d, axis: float_of(d),
        _draw_row,
        "always",
        weight=0.2,
    )
    yield Drawable(
        "central_differences",
        "{0}.central_differences(axis={axis})",
        lambda a, axis: np.gradient(a.astype(np.float64), axis=axis),
        lambda d, axis: float_of(d),
        _draw_long_row,
        "always",
        weight=0.2,
    )
    yield Drawable(
        "cov",
        "{0}.cov()",
        lambda a: np.cov(a.astype(np.float64)),
        lambda d: float_of(d),
        _draw_matrix,
        "always",
        weight=0.2,
    )
    yield Drawable(
        "corrcoef",
        "{0}.corrcoef(Tensor(np.arange({0}.shape[1]) % 3, dtype={0}.dtype))",
        lambda a: np.corrcoef(a.astype(np.float64), np.arange(a.shape[1]) % 3),
        lambda d: float_of(d),
        _draw_matrix,
        "always",
        weight=0.3,
    )
    yield Drawable(
        "kron", "{0}.kron({1})", np.kron, common, _draw_factors, "rarely", converts=True, weight=0.2
    )
    yield Drawable("diag", "{0}.diag({k})", np.diag, lambda d, k: d, _draw_diagonal, weight=0.2)
    yield Drawable(
        "padded",
        "{0}.pad(({n}, 1), mode={mode})",
        lambda a, n, mode: np.pad(a, (n, 1), mode),
        lambda d, **n: d,
        _draw_padded,
        weight=0.2,
    )
    yield Drawable(
        "ldexp",
        "{0}.ldexp(3)",
        lambda a: np.ldexp(a.astype(np.float64), 3),
        float_of,
        _draw_number,
        "rarely",
        weight=0.1,
    )
    yield Drawable(
        "frexp",
        "{0}.frexp()",
        lambda a: np.frexp(a.astype(np.float64)),
        lambda d: (float_of(d), "int32"),
        _draw_whole,
        gives_tuple=True,
        weight=0.2,
    )
    yield Drawable(
        "bitwise_count",
        "{0}.bitwise_count()",
        np.bitwise_count,
        lambda d: "uint8",
        _draw_integer,
        weight=0.2,
    )
    yield Drawable(
        "polyval",
        "{0}.polyval({1})",
        np.polyval,
        common,
        _draw_polynomial,
        "always",
        converts=True,
        weight=0.2,
    )
    yield Drawable(
        "digitize",
        "{0}.digitize([-1.5, 0.5, 2.5])",
        lambda a: np.digitize(a, [-1.5, 0.5, 2.5]),
        lambda d: "int64",
        _draw_number,
        weight=0.2,
    )
    yield Drawable(
        "interp",
        "{0}.interp([-1.0, 0.0, 2.0], [3.0, -1.0, 2.0])",
        lambda a: np.interp(a, [-1, 0, 2], [3, -1, 2]),
        float_of,
        _draw_number,
        "absolutely",
        weight=0.2,
    )
    yield Drawable(
        "histogram",
        "{0}.histogram(4, (-3.0, 5.0))[0]",
        lambda a: np.histogram(a, 4, (-3, 5))[0],
        lambda d: "int64",
        _draw_number,
        weight=0.1,
    )


SAMPLES: Final = tuple(_iter_samples())
