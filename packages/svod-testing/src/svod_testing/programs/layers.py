"""More sums and products of random programs: layers of neural networks, norms of matrices and
running sums from an initial one.
"""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from svod_testing.programs.operation import Drawable, Drawn, common, float_of, sum_of

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw

__all__ = ["LAYERS"]


def _draw_linear(draw: Draw) -> Drawn:
    value = draw.floating(lambda v: v.ndim > 0 and 0 < v.size <= 400)
    size, n = draw.values[value].shape[-1], draw.number(1, 6)
    weight = draw.value_or_input(
        lambda v: v.is_float and v.ndim == 2 and v.shape[1] == size and v.size > 0, (n, size)
    )
    n = draw.values[weight].shape[0]
    return (value, weight, draw.value_or_input(lambda v: v.is_float and v.shape == (n,), (n,))), {}


def _draw_glu(draw: Draw) -> Drawn:
    value = draw.floating(lambda v: v.size > 0 and any(s % 2 == 0 for s in v.shape))
    shape = draw.values[value].shape
    return (value,), {"axis": draw.choose([a for a, s in enumerate(shape) if s % 2 == 0])}


def _glu(a: Any, axis: int) -> Any:
    left, right = np.split(a, 2, axis)
    return left / (1 + np.exp(-right))


def _draw_transposed(draw: Draw) -> Drawn:
    value = draw.floating(lambda v: v.ndim == 4 and 0 < v.size <= 200)
    channels = draw.values[value].shape[1]
    kernel = (channels, draw.number(1, 3), draw.number(1, 3), draw.number(1, 3))
    weight = draw.value_or_input(
        lambda v: v.is_float and v.ndim == 4 and v.shape[0] == channels and 0 < v.size <= 100,
        kernel,
    )
    return (value, weight), {
        "stride": draw.number(1, 2),
        "padding": 0 if min(kernel[2:]) < 2 else draw.number(0, 1),
    }


def _convolve_transposed(a: Any, w: Any, stride: int, padding: int) -> Any:
    (batch, _, *sizes), (_, outputs, *kernel) = a.shape, w.shape
    height, width = ((s - 1) * stride + k for s, k in zip(sizes, kernel, strict=True))
    result = np.zeros((batch, outputs, height, width))
    for i, j in np.ndindex(*sizes):
        update = np.einsum("nc,cohw->nohw", a[:, :, i, j], w)
        result[:, :, i * stride : i * stride + kernel[0], j * stride : j * stride + kernel[1]] += (
            update
        )
    cut = result[:, :, padding : height - padding, padding : width - padding]
    if 0 in cut.shape:
        raise ValueError("nothing is left")
    return cut


def _draw_matrices(draw: Draw) -> Drawn:
    return (draw.numeric(lambda v: v.ndim > 1 and v.size > 0),), {}


def _draw_norm(draw: Draw) -> Drawn:
    return (draw.floating(lambda v: v.ndim > 1 and v.size > 0),), {
        "order": draw.choose(("fro", 1, -1))
    }


def _matrix_norm(a: Any, order: Any) -> Any:
    if order == "fro":
        return np.sqrt(np.square(a).sum((-1, -2)))
    sums = np.abs(a).sum(-2)
    return sums.max(-1) if order == 1 else sums.min(-1)


def _draw_scanned(draw: Draw) -> Drawn:
    value = draw.with_axes(lambda v: v.size > 0 and v.dtype != "bool")
    return (value,), {"axis": draw.axis(draw.values[value].ndim), "initial": draw.chance(0.6)}


def _scan(function: Any, start: int, a: Any, axis: int, initial: bool) -> Any:
    a = _wide(a)
    result = function(a, axis)
    if not initial:
        return result
    first = np.full_like(np.take(a, [0], axis), start)
    return np.concatenate([first.astype(result.dtype), result], axis)


def _check_factors(a: Any, axis: int) -> Any:
    if not (np.abs(np.cumprod(np.maximum(np.abs(a.astype(np.float64)), 1), axis)) < 1e20).all():
        raise ValueError("large products")
    return np.cumprod(a, axis)


def _iter_layers() -> Iterator[Drawable]:
    yield Drawable(
        "linear",
        "{0}.linear({1}, {2})",
        lambda a, w, b: a @ w.T + b,
        lambda *d: common(*d),
        _draw_linear,
        "rarely",
        converts=True,
        weight=0.6,
    )
    yield Drawable(
        "glu", "{0}.glu({axis})", _glu, lambda d, axis: d, _draw_glu, "always", weight=0.4
    )
    yield Drawable(
        "conv_transpose2d",
        "{0}.conv_transpose2d({1}, stride={stride}, padding={padding})",
        _convolve_transposed,
        lambda *d, **named: common(*d),
        _draw_transposed,
        "rarely",
        converts=True,
        weight=0.6,
    )
    yield Drawable(
        "trace",
        "{0}.trace()",
        lambda a: np.trace(_wide(a), axis1=-2, axis2=-1),
        sum_of,
        _draw_matrices,
        "rarely",
        weight=0.4,
    )
    yield Drawable(
        "matrix_norm",
        "{0}.matrix_norm(ord={order})",
        _matrix_norm,
        lambda d, order: float_of(d),
        _draw_norm,
        "always",
        weight=0.3,
    )
    for name, function, start in (
        ("cumulative_sum", np.cumsum, 0),
        ("cumulative_prod", _check_factors, 1),
    ):
        yield Drawable(
            name,
            f"{{0}}.{name}({{axis}}, include_initial={{initial}})",
            lambda a, axis, initial, f=function, s=start: _scan(f, s, a, axis, initial),
            lambda d, **named: sum_of(d),
            _draw_scanned,
            "rarely",
            weight=0.3,
        )


def _wide(a: Any) -> Any:
    return a if a.dtype.kind == "f" else a.astype(np.uint64 if a.dtype.kind == "u" else np.int64)


LAYERS: Final = tuple(_iter_layers())
