"""Reductions, running reductions, sorting and products of random programs."""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from svod_testing.programs.operation import Drawable, Drawn, Rounding, common, float_of, sum_of

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw
    from svod_testing.programs.oracle import Value

__all__ = ["REDUCTIONS", "check_products"]


def _draw_reduced(draw: Draw) -> Drawn:
    value = draw.numeric(lambda v: v.size > 0)
    return (value,), {"axis": draw.axes(draw.values[value].ndim), "keepdims": draw.chance(0.5)}


def _draw_reduced_any(draw: Draw) -> Drawn:
    value = draw.value(lambda v: v.size > 0)
    return (value,), {"axis": draw.axes(draw.values[value].ndim), "keepdims": draw.chance(0.5)}


def _draw_position(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0)
    ndim = draw.values[value].ndim
    return (value,), {"axis": draw.axis(ndim), "keepdims": draw.chance(0.4)}


def _draw_scanned(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0 and v.dtype != "bool")
    return (value,), {"axis": draw.axis(draw.values[value].ndim)}


def _draw_row(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0 and v.dtype != "bool")
    return (value,), {"axis": draw.axis(draw.values[value].ndim) if draw.chance(0.5) else -1}


def check_products(a: Any, axis: Any) -> None:
    """In any order, no product of some of the elements overflows or vanishes."""
    if a.dtype.kind == "f" and np.isfinite(a).all():
        size = np.abs(np.where(a == 0, 1, a))
        if (
            np.maximum(size, 1).prod(axis).max(initial=1) > 1e30
            or np.minimum(size, 1).prod(axis).min(initial=1) < 1e-25
        ):
            raise ValueError("too large or small products")


def _product(a: Any, axis: Any, keepdims: bool) -> Any:
    check_products(a, axis)
    return np.prod(a, axis=axis, keepdims=keepdims)


def _cumprod(a: Any, axis: int) -> Any:
    check_products(a, axis)
    return np.cumprod(a, axis)


def _wide(a: Any) -> Any:
    """For sums: as numpy adds up."""
    if a.dtype.kind == "f":
        return a
    return a.astype(np.uint64 if a.dtype.kind == "u" else np.int64)


def _logsumexp(a: Any, axis: Any, keepdims: bool) -> Any:
    a = a.astype(np.float64)
    peak = a.max(axis, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    total = np.log(np.exp(a - peak).sum(axis, keepdims=True)) + peak
    return total if keepdims else total.reshape(np.exp(a).sum(axis).shape)


def _norm(a: Any, axis: Any, keepdims: bool) -> Any:
    return np.sqrt(np.square(a.astype(np.float64)).sum(axis, keepdims=keepdims))


def _softmax(a: Any, axis: int) -> Any:
    power = np.exp(a - a.max(axis, keepdims=True))
    return power / power.sum(axis, keepdims=True)


def _log_softmax(a: Any, axis: int) -> Any:
    shifted = a - a.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _layernorm(a: Any, axis: Any) -> Any:
    centred = a - a.mean(axis, keepdims=True)
    return centred / np.sqrt(np.square(centred).mean(axis, keepdims=True) + 0.1)


def _rms_norm(a: Any, axis: Any) -> Any:
    return a / np.sqrt(np.square(a).mean(axis, keepdims=True) + 0.1)


def _group_norm(a: Any, n: int) -> Any:
    return _layernorm(a.reshape(a.shape[0], n, -1), -1).reshape(a.shape)


def _make_running(find: Callable[..., Any], a: Any, axis: int) -> Any:
    """Return the index of the extremum of each prefix along an axis."""
    if a.size == 0:
        return np.zeros(a.shape, np.int64)
    ends = range(1, a.shape[axis] + 1)
    return np.stack([find(np.take(a, range(end), axis), axis) for end in ends], axis)


_MEAN_ROUNDING: Final[dict[str, Rounding]] = {"mean": "rarely", "logsumexp": "absolutely"}


def _iter_reductions() -> Iterator[Drawable]:
    for name, function, weight in (("sum", np.sum, 4), ("prod", _product, 0.8)):
        yield Drawable(
            name,
            f"{{0}}.{name}({{axis}}, keepdims={{keepdims}})",
            lambda a, axis, keepdims, f=function: f(_wide(a), axis=axis, keepdims=keepdims),
            lambda d, **n: sum_of(d),
            _draw_reduced_any,
            "rarely",
            weight=weight,
        )
    for name, function in (("max", np.max), ("min", np.min)):
        yield Drawable(
            name,
            f"{{0}}.{name}({{axis}}, keepdims={{keepdims}})",
            function,
            lambda d, **n: d,
            _draw_reduced_any,
            weight=3,
        )
    for name, function in (("any", np.any), ("all", np.all)):
        yield Drawable(
            name,
            f"{{0}}.{name}({{axis}}, keepdims={{keepdims}})",
            function,
            lambda d, **n: "bool",
            _draw_reduced_any,
            orders=True,
        )
    yield Drawable(
        "count_nonzero",
        "{0}.count_nonzero({axis}, keepdims={keepdims})",
        np.count_nonzero,
        lambda d, **n: "int64",
        _draw_reduced_any,
        orders=True,
        weight=0.5,
    )
    means: tuple[tuple[str, Callable[..., Any], float], ...] = (
        ("mean", np.mean, 4),
        ("var", np.var, 1.5),
        ("std", np.std, 0.7),
        ("logsumexp", _logsumexp, 0.7),
        ("norm", _norm, 1),
    )
    for name, function, weight in means:
        yield Drawable(
            name,
            f"{{0}}.{name}({{axis}}, keepdims={{keepdims}})",
            lambda a, axis, keepdims, f=function: f(
                a.astype(np.float64), axis=axis, keepdims=keepdims
            ),
            lambda d, **n: float_of(d),
            _draw_reduced,
            _MEAN_ROUNDING.get(name, "always"),
            weight=weight,
        )
    for name, function in (("argmax", np.argmax), ("argmin", np.argmin)):
        yield Drawable(
            name,
            f"{{0}}.{name}({{axis}}, keepdims={{keepdims}})",
            function,
            lambda d, **n: "int64",
            _draw_position,
            orders=True,
            weight=1.5,
        )


def _iter_scans() -> Iterator[Drawable]:
    for name, function in (("cumsum", np.cumsum), ("cumprod", _cumprod)):
        yield Drawable(
            name,
            f"{{0}}.{name}({{axis}})",
            lambda a, axis, f=function: f(_wide(a), axis),
            lambda d, axis: sum_of(d),
            _draw_scanned,
            "rarely",
            weight=2 if name == "cumsum" else 0.7,
        )
    for name, function in (("cummax", np.maximum), ("cummin", np.minimum)):
        yield Drawable(
            name,
            f"{{0}}.{name}({{axis}})",
            lambda a, axis, f=function: f.accumulate(a, axis),
            lambda d, axis: d,
            _draw_scanned,
            weight=0.6,
        )
    for name, function in (("cumargmax", np.argmax), ("cumargmin", np.argmin)):
        yield Drawable(
            name,
            f"{{0}}.{name}({{axis}})",
            lambda a, axis, f=function: _make_running(f, a, axis),
            lambda d, axis: "int64",
            _draw_scanned,
            orders=True,
            weight=0.4,
        )
    yield Drawable(
        "diff",
        "{0}.diff(1, {axis})",
        lambda a, axis: np.diff(a, 1, axis),
        lambda d, axis: d,
        _draw_scanned,
        "rarely",
        weight=0.5,
    )


def _iter_norms() -> Iterator[Drawable]:
    rows: tuple[tuple[str, str, Callable[..., Any], float], ...] = (
        ("softmax", "{0}.softmax({axis})", _softmax, 3),
        ("log_softmax", "{0}.log_softmax({axis})", _log_softmax, 1),
    )
    for name, code, function, weight in rows:
        yield Drawable(
            name,
            code,
            lambda a, axis, f=function: f(a.astype(np.float64), axis),
            lambda d, axis: float_of(d),
            _draw_row,
            "absolutely" if name == "log_softmax" else "always",
            weight=weight,
        )
    for name, function in (("layernorm", _layernorm), ("rms_norm", _rms_norm)):
        yield Drawable(
            name,
            f"{{0}}.{name}({{axis}}, eps=0.1)",
            lambda a, axis, f=function: f(a.astype(np.float64), axis),
            lambda d, axis: float_of(d),
            _draw_norm_axes,
            "always",
        )
    yield Drawable(
        "group_norm",
        "{0}.group_norm({n}, eps=0.1)",
        lambda a, n: _group_norm(a.astype(np.float64), n),
        lambda d, n: float_of(d),
        _draw_groups,
        "always",
        weight=0.6,
    )


def _draw_norm_axes(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0 and v.dtype != "bool")
    return (value,), {"axis": draw.axes(draw.values[value].ndim)}


def _draw_groups(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0 and v.ndim > 1 and v.dtype != "bool")
    return (value,), {"n": draw.choose(draw.factors(draw.values[value].shape[1]))}


def _sorted(a: Any, axis: int, descending: bool) -> Any:
    order = _order(a, axis, descending)
    return np.take_along_axis(a, order, axis)


def _order(a: Any, axis: int, descending: bool) -> Any:
    if not descending:
        return np.argsort(a, axis, kind="stable")
    flipped = np.flip(np.argsort(np.flip(a, axis), axis, kind="stable"), axis)
    return a.shape[axis] - 1 - flipped


def _topk(a: Any, k: int, axis: int, largest: bool) -> tuple[Any, Any]:
    order = np.take(_order(a, axis, largest), np.arange(k), axis)
    return np.take_along_axis(a, order, axis), order


def _draw_sort(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0 and v.dtype != "bool")
    return (value,), {"axis": draw.axis(draw.values[value].ndim), "descending": draw.chance(0.4)}


def _draw_topk(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0 and v.dtype != "bool")
    axis = draw.axis(draw.values[value].ndim)
    k = draw.number(1, min(draw.values[value].shape[axis], 4))
    return (value,), {"k": k, "axis": axis, "largest": draw.chance(0.8)}


def _iter_sorting() -> Iterator[Drawable]:
    yield Drawable(
        "sort",
        "{0}.sort({axis}, descending={descending})",
        _sorted,
        lambda d, **n: d,
        _draw_sort,
        orders=True,
        weight=0.8,
    )
    yield Drawable(
        "argsort",
        "{0}.argsort({axis}, descending={descending})",
        _order,
        lambda d, **n: "int64",
        _draw_sort,
        weight=0.4,
    )
    yield Drawable(
        "topk",
        "{0}.topk({k}, {axis}, largest={largest})",
        _topk,
        lambda d, **n: (d, "int64"),
        _draw_topk,
        orders=True,
        gives_tuple=True,
        weight=2,
    )


def _draw_matmul(draw: Draw) -> Drawn:
    first = draw.with_axes(lambda v: v.dtype != "bool" and v.size <= 600)
    shape = draw.values[first].shape

    def fits(value: Value) -> bool:
        if not value.ndim or value.dtype == "bool" or value.size > 600:
            return False
        inner = value.shape[-2] if value.ndim > 1 else value.shape[-1]
        pairs = zip(reversed(shape[:-2]), reversed(value.shape[:-2]), strict=False)
        return inner == shape[-1] and all(a == b or 1 in (a, b) for a, b in pairs)

    return (first, draw.value_or_input(fits, (shape[-1], draw.number(1, 6)))), {}


def _draw_transposed(draw: Draw) -> Drawn:
    """Two values with the same last axis."""
    first = draw.value(lambda v: v.ndim > 1 and v.dtype != "bool" and v.size <= 600)
    shape = draw.values[first].shape

    def fits(value: Value) -> bool:
        return (
            value.ndim == len(shape)
            and value.shape[-1] == shape[-1]
            and value.shape[:-2] == shape[:-2]
            and value.dtype != "bool"
        )

    return (first, draw.value_or_input(fits, (*shape[:-2], draw.number(1, 6), shape[-1]))), {}


def _draw_outer(draw: Draw) -> Drawn:
    return tuple(draw.numeric(lambda v: v.size <= 40) for _ in range(2)), {}


def _draw_vecdot(draw: Draw) -> Drawn:
    first = draw.with_axes(lambda v: v.dtype != "bool")
    shape = draw.values[first].shape
    return (first, draw.value(lambda v: v.shape == shape and v.dtype != "bool")), {
        "axis": draw.axis(len(shape))
    }


def _draw_tensordot(draw: Draw) -> Drawn:
    first = draw.value(lambda v: v.ndim > 1 and v.dtype != "bool" and v.size <= 300)
    end = draw.values[first].shape[-1]

    def fits(value: Value) -> bool:
        return (
            value.ndim > 0 and value.shape[0] == end and value.dtype != "bool" and value.size <= 300
        )

    return (first, draw.value_or_input(fits, (end, draw.number(1, 5)))), {}


def _vecdot(a: Any, b: Any, axis: int) -> Any:
    return (a * b).sum(axis, dtype=a.dtype)


def _attention(q: Any, k: Any, v: Any, is_causal: bool) -> Any:
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])
    if is_causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    return _softmax(scores, -1) @ v


def _draw_attention(draw: Draw) -> Drawn:
    query = draw.value(
        lambda v: v.ndim in (2, 3, 4) and v.dtype in ("float32", "float64") and 0 < v.size <= 400
    )
    shape, dtype = draw.values[query].shape, draw.values[query].dtype
    key = draw.value(
        lambda v: (
            v.ndim == len(shape)
            and v.dtype == dtype
            and v.shape[:-2] == shape[:-2]
            and v.shape[-1] == shape[-1]
            and v.size > 0
        )
    )
    keys = draw.values[key].shape
    value = draw.value(
        lambda v: (
            v.ndim == len(shape) and v.dtype == dtype and v.shape[:-1] == keys[:-1] and v.size > 0
        )
    )
    return (query, key, value), {"is_causal": draw.chance(0.5)}


def _iter_products() -> Iterator[Drawable]:
    def product(
        name: str,
        code: str,
        meaning: Callable[..., Any],
        draw: Callable[[Draw], Drawn],
        weight: float = 1.0,
    ):
        return Drawable(
            name,
            code,
            meaning,
            lambda *d, **n: common(*d),
            draw,
            "rarely",
            converts=True,
            weight=weight,
        )

    yield product("matmul", "{0} @ {1}", np.matmul, _draw_matmul, 2)
    yield product(
        "matmul_transposed",
        "{0} @ {1}.mT",
        lambda a, b: a @ np.swapaxes(b, -1, -2),
        _draw_transposed,
        1,
    )
    yield product("outer", "{0}.outer({1})", np.outer, _draw_outer, 0.5)
    yield product("vecdot", "{0}.vecdot({1}, {axis})", _vecdot, _draw_vecdot, 0.5)
    yield product(
        "tensordot",
        "{0}.tensordot({1}, 1)",
        lambda a, b: np.tensordot(a, b, 1),
        _draw_tensordot,
        0.5,
    )
    yield product(
        "einsum",
        'Tensor.einsum("...ij,...kj->...i", {0}, {1})',
        lambda a, b: np.einsum("...ij,...kj->...i", a, b),
        _draw_transposed,
        0.5,
    )
    yield Drawable(
        "attention",
        "{0}.scaled_dot_product_attention({1}, {2}, is_causal={is_causal})",
        _attention,
        lambda *d, is_causal: d[0],
        _draw_attention,
        "always",
        weight=1.5,
    )


REDUCTIONS: Final = (
    *_iter_reductions(),
    *_iter_scans(),
    *_iter_norms(),
    *_iter_sorting(),
    *_iter_products(),
)
