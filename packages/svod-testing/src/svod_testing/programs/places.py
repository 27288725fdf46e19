"""Lookups at computed positions, updates and windows of random programs."""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from svod_testing.programs.operation import Drawable, Drawn, common, float_of

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw
    from svod_testing.programs.oracle import Value

__all__ = ["PLACES"]


def _is_index(value: Value) -> bool:
    return value.dtype in ("int32", "int64", "uint32")


def _draw_index(draw: Draw) -> int:
    shape = draw.choose(((), (3,), (5,), (2, 3)))
    return draw.value_or_input(
        lambda v: _is_index(v) and v.ndim < 3 and v.size <= 20, shape, "int32", -4
    )


def _draw_index_of(draw: Draw, shape: tuple[int, ...]) -> int:
    return draw.value_or_input(
        lambda v: _is_index(v) and v.shape == shape, shape, draw.choose(("int32", "int64")), -4
    )


def _draw_lookup(draw: Draw) -> Drawn:
    """A tensor, and positions of any shape for one of its axes."""
    value = draw.with_axes(lambda v: 0 < v.size <= 400)
    axis = draw.axis(draw.values[value].ndim)
    return (value, _draw_index(draw)), {"n": draw.values[value].shape[axis], "axis": axis}


def _draw_pair_lookup(draw: Draw) -> Drawn:
    value = draw.value(lambda v: v.ndim > 1 and 0 < v.size <= 400)
    shape = draw.values[value].shape
    return (value, _draw_index(draw)), {"n": shape[0], "m": shape[1]}


def _draw_along(draw: Draw) -> Drawn:
    """A tensor, and positions of its shape."""
    value = draw.with_axes(lambda v: v.size > 0)
    shape = draw.values[value].shape
    axis = draw.axis(len(shape))
    index = _draw_index_of(draw, shape)
    return (value, index), {"n": shape[axis], "axis": axis}


def _draw_update(draw: Draw) -> Drawn:
    """A tensor, one position of its first axis for each slice of the other."""
    value = draw.with_axes(lambda v: v.size > 0 and v.dtype != "bool")
    shape, dtype = draw.values[value].shape, draw.values[value].dtype
    source = draw.with_axes(lambda v: v.shape[1:] == shape[1:] and v.dtype == dtype and v.size > 0)
    count = draw.values[source].shape[0]
    index = _draw_index_of(draw, (count,))
    return (value, index, source), {"n": shape[0]}


def _draw_scatter(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0 and v.dtype != "bool")
    shape, dtype = draw.values[value].shape, draw.values[value].dtype
    axis = draw.axis(len(shape))
    index = _draw_index_of(draw, shape)
    source = draw.value_or_input(lambda v: v.shape == shape and v.dtype == dtype, shape, dtype)
    return (value, index, source), {"n": shape[axis], "axis": axis}


def _draw_extremes(draw: Draw) -> Drawn:
    operands, args = _draw_scatter(draw)
    return operands, {**args, "reduction": draw.choose(("amax", "amin"))}


def _draw_put(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0)
    shape, dtype = draw.values[value].shape, draw.values[value].dtype
    source = draw.value_or_input(
        lambda v: v.dtype == dtype and v.shape in (shape[1:], ()), shape[1:], dtype
    )
    return (value, source), {"place": draw.number(-shape[0], shape[0] - 1)}


def _draw_put_slice(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0)
    shape = draw.values[value].shape
    begin, step = draw.number(0, shape[-1] - 1), draw.number(1, 3)
    return (value,), {"index": f"(..., slice({begin}, None, {step}))", "c": draw.number(0, 1)}


def _draw_one_hot(draw: Draw) -> Drawn:
    return (draw.integer(lambda v: v.size <= 100 and v.ndim < 4 and v.dtype != "int8"),), {
        "n": draw.number(1, 6)
    }


def _draw_iota_compare(draw: Draw) -> Drawn:
    value = draw.integer(lambda v: v.size <= 150 and v.ndim < 4)
    return (value,), {"n": draw.number(1, 8)}


def _draw_mask(draw: Draw) -> Drawn:
    value = draw.value(lambda v: v.ndim > 1 and v.is_float and v.size > 0)
    n, m = draw.values[value].shape[-2:]
    return (value,), {"n": n, "m": m, "c": draw.choose((-100.0, 0.0, -1.0))}


def _with(a: Any, index: Any, value: Any) -> Any:
    result = a.copy()
    result[index] = value
    return result


def _with_sums(a: Any, index: Any, value: Any) -> Any:
    result = a.copy()
    np.add.at(result, index, value)
    return result


def _put_along(a: Any, i: Any, axis: int, value: Any) -> Any:
    result = a.copy()
    _each_place(a, i, axis, lambda place, at: result.__setitem__(place, value[at]))
    return result


def _add_along(a: Any, i: Any, axis: int, value: Any) -> Any:
    result = a.copy()
    _each_place(a, i, axis, lambda place, at: result.__setitem__(place, result[place] + value[at]))
    return result


def _reduce_along(a: Any, i: Any, axis: int, value: Any, reduction: str) -> Any:
    function, result = np.maximum if reduction == "amax" else np.minimum, a.copy()
    _each_place(
        a, i, axis, lambda place, at: result.__setitem__(place, function(result[place], value[at]))
    )
    return result


def _each_place(a: Any, i: Any, axis: int, take: Any) -> None:
    for at in np.ndindex(*i.shape):
        target = list(at)
        target[axis] = int(i[at])
        take(tuple(target), at)


def _iter_lookups() -> Iterator[Drawable]:
    def first(dtype: str, *_: str, **named: object) -> str:
        return dtype

    yield Drawable(
        "take",
        "{0}.take({1} % {n}, {axis})",
        lambda a, i, n, axis: np.take(a, i % n, axis),
        first,
        _draw_lookup,
        weight=2,
    )
    yield Drawable(
        "index", "{0}[{1} % {n}]", lambda a, i, n: a[i % n], first, _draw_first_lookup, weight=1
    )
    yield Drawable(
        "index_pair",
        "{0}[{1} % {n}, {1} % {m}]",
        lambda a, i, n, m: a[i % n, i % m],
        first,
        _draw_pair_lookup,
        weight=0.7,
    )
    yield Drawable(
        "take_along_axis",
        "{0}.take_along_axis({1} % {n}, {axis})",
        lambda a, i, n, axis: np.take_along_axis(a, i % n, axis),
        first,
        _draw_along,
        weight=1.5,
    )
    yield Drawable(
        "index_add",
        "{0}.index_add(0, {1} % {n}, {2})",
        lambda a, i, v, n: _with_sums(a, i % n, v),
        first,
        _draw_update,
        "rarely",
        weight=1.5,
    )
    yield Drawable(
        "add_at",
        "{0}.add_at({1} % {n}, {2})",
        lambda a, i, v, n: _with_sums(a, i % n, v),
        first,
        _draw_update,
        "rarely",
        weight=0.5,
    )
    yield Drawable(
        "with_items",
        "{0}.with_items({1} % {n}, {2})",
        lambda a, i, v, n: _with(a, i % n, v),
        first,
        _draw_update,
        weight=1,
    )
    yield Drawable(
        "scatter_add",
        "{0}.scatter_add({axis}, {1} % {n}, {2})",
        lambda a, i, v, n, axis: _add_along(a, i % n, axis, v),
        first,
        _draw_scatter,
        "rarely",
        weight=1,
    )
    yield Drawable(
        "scatter_reduce",
        "{0}.scatter_reduce({axis}, {1} % {n}, {2}, {reduction})",
        lambda a, i, v, n, axis, reduction: _reduce_along(a, i % n, axis, v, reduction),
        first,
        _draw_extremes,
        weight=0.4,
    )
    yield Drawable(
        "scatter",
        "{0}.scatter({axis}, {1} % {n}, {2})",
        lambda a, i, v, n, axis: _put_along(a, i % n, axis, v),
        first,
        _draw_scatter,
        weight=0.7,
    )
    yield Drawable(
        "setitem",
        "{result} = {0}.clone(); {result}[{place}] = {1}",
        lambda a, v, place: _with(a, place, v),
        first,
        _draw_put,
        weight=1,
    )
    yield Drawable(
        "with_slice",
        "{0}.with_items({index}, {c})",
        lambda a, index, c: _with(a, eval(index), c),
        first,
        _draw_put_slice,
        weight=0.7,
    )
    yield Drawable(
        "one_hot",
        "({0} % {n}).one_hot({n})",
        lambda a, n: (a % n)[..., None] == np.arange(n),
        lambda d, n: "int64",
        _draw_one_hot,
        weight=1.5,
    )
    yield Drawable(
        "is_place",
        "{0}.unsqueeze(-1) == Tensor.arange({n})",
        lambda a, n: a[..., None] == np.arange(n),
        lambda d, n: "bool",
        _draw_iota_compare,
        weight=1.5,
    )


def _draw_first_lookup(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: 0 < v.size <= 400)
    return (value, _draw_index(draw)), {"n": draw.values[value].shape[0]}


def _iter_masks() -> Iterator[Drawable]:
    yield Drawable(
        "causal_mask",
        'Tensor.ones({n}, {m}, dtype="bool").tril().where({0}, {c})',
        lambda a, n, m, c: np.where(np.tril(np.ones((n, m), bool)), a, c),
        lambda d, **n: d,
        _draw_mask,
        weight=1.5,
    )
    yield Drawable(
        "position_mask",
        "(Tensor.arange({m})[None] <= Tensor.arange({n})[:, None]).where({0}, {c})",
        lambda a, n, m, c: np.where(np.arange(m)[None] <= np.arange(n)[:, None], a, c),
        lambda d, **n: d,
        _draw_mask,
        weight=1.5,
    )


def _draw_conv(draw: Draw) -> Drawn:
    value = draw.floating(lambda v: v.ndim == 4 and 0 < v.size <= 600)
    channels, *sizes = draw.values[value].shape[1:]

    def fits(other: Any) -> bool:
        return (
            other.is_float
            and other.ndim == 4
            and other.shape[1] == channels
            and 0 < other.size <= 200
            and all(k <= s for k, s in zip(other.shape[2:], sizes, strict=True))
        )

    kernel = (draw.number(1, 3), channels, *(draw.number(1, min(s, 3)) for s in sizes))
    return (value, draw.value_or_input(fits, kernel)), {
        "padding": draw.number(0, 1),
        "stride": draw.number(1, 2),
    }


def _convolve(a: Any, w: Any, padding: int, stride: int) -> Any:
    a = np.pad(a, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(a, w.shape[2:], (2, 3))[
        :, :, ::stride, ::stride
    ]
    return np.einsum("nchwij,ocij->nohw", windows, w)


def _draw_pool(draw: Draw) -> Drawn:
    value = draw.value(
        lambda v: v.ndim == 4 and v.dtype != "bool" and min(v.shape[2:]) > 1 and v.size > 0
    )
    return (value,), {"stride": draw.choose((None, 1, 2))}


def _pool(a: Any, stride: int | None) -> Any:
    step = stride or 2
    return np.lib.stride_tricks.sliding_window_view(a, (2, 2), (2, 3))[:, :, ::step, ::step]


def _batchnorm(a: Any, mean: Any, variance: Any) -> Any:
    shape = (1, -1, *(1,) * (a.ndim - 2))
    return (a - mean.reshape(shape)) / np.sqrt(np.abs(variance.reshape(shape)) + 0.1)


def _draw_batchnorm(draw: Draw) -> Drawn:
    value = draw.floating(lambda v: v.ndim > 1 and v.size > 0)
    channels = draw.values[value].shape[1]
    mean, variance = (
        draw.value_or_input(lambda v: v.is_float and v.shape == (channels,), (channels,))
        for _ in range(2)
    )
    return (value, mean, variance), {}


def _iter_windows() -> Iterator[Drawable]:
    yield Drawable(
        "conv2d",
        "{0}.conv2d({1}, padding={padding}, stride={stride})",
        _convolve,
        lambda *d, **n: common(*d),
        _draw_conv,
        "rarely",
        converts=True,
        weight=1,
    )
    yield Drawable(
        "max_pool2d",
        "{0}.max_pool2d(2, stride={stride})",
        lambda a, stride: _pool(a, stride).max((-1, -2)),
        lambda d, **n: d,
        _draw_pool,
        weight=0.8,
    )
    yield Drawable(
        "avg_pool2d",
        "{0}.avg_pool2d(2, stride={stride})",
        lambda a, stride: _pool(a, stride).mean((-1, -2)),
        lambda d, **n: float_of(d),
        _draw_pool,
        "rarely",
        weight=1,
    )
    yield Drawable(
        "batchnorm",
        "{0}.batchnorm({1}, {2}.abs(), eps=0.1)",
        _batchnorm,
        lambda *d: common(*d),
        _draw_batchnorm,
        "always",
        weight=0.5,
    )


PLACES: Final = (*_iter_lookups(), *_iter_masks(), *_iter_windows())
