"""What windows have of each element, added up: the transpose of `windows`; and windows of padded
tensors, with the first of the largest elements of each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_ir import SInt, make_gather
from svod_ir.sizes import normalize_size
from svod_tensor.ops.core.gradient_rules import gradient_rule, with_rule
from svod_tensor.ops.neural.convolution import fit_axis, store_padded
from svod_tensor.ops.neural.window_options import WindowPlaces

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["add_windows", "list_places", "max_pool_gradient", "number_first", "windows_gradient"]


def list_places(x: Tensor, places: WindowPlaces, value: float) -> Tensor:
    """The windows of `x` over its last axes, padded with a value."""
    kernel, stride, pads, dilation = places
    padded = x.pad(*(None,) * (x.ndim - len(kernel)), *pads, constant_values=value)
    return store_padded(padded, pads, kernel, stride).windows(kernel, stride, dilation)


def number_first(x: Tensor, value: Tensor, places: WindowPlaces) -> Tensor:
    """The number in its window, in row-major order, of the first element that is the largest,
    `value`, or NaN; of a window with nothing but padding, how large it is."""
    kernel, stride, pads, dilation = places
    n, count = len(kernel), math.prod(kernel)
    view = list_places(x, places, x.dtype.min)
    is_largest = view.eq(value.reshape(*value.shape, *(1,) * n))
    if x.dtype.is_float:
        is_largest = is_largest.logical_or(view.isnan())
    if any(map(any, pads)):
        # Which places are inside is computed where it is asked for: it takes no memory.
        inside = x.ones_like(dtype="bool").pad(*(None,) * (x.ndim - n), *pads)
        is_largest = is_largest.logical_and(inside.windows(kernel, stride, dilation))
    return is_largest.where(x.arange(count).reshape(kernel), count).min(tuple(range(-n, 0)))


def add_windows(
    x: Tensor, sizes: Sequence[SInt], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> Tensor:
    """The transpose of `windows`: each element of the result adds up what the windows of shape
    (..., *outputs, *kernel) have of it, which it looks up."""
    n, lead = len(sizes), x.ndim - 2 * len(sizes)
    kernel: tuple[int, ...] = x.shape[x.ndim - n :]  # pyright: ignore[reportAssignmentType]
    total, added = x, list[int]()
    # What is left of the places' axes is behind all others, the last one first, so that a sum
    # leaves the axes before it.
    for i, (size, k, s, d) in reversed(
        list(enumerate(zip(sizes, kernel, stride, dilation, strict=True)))
    ):
        axis = lead + i
        paired = total.moveaxis(lead + n + i, axis + 1)
        if k == 1 or (d == 1 and k <= s):
            # No two windows meet: they lie side by side, with zeros between them.
            total = fit_axis(
                fit_axis(paired, axis + 1, 0, s).flatten(axis, axis + 1), axis, 0, size
            )
            continue
        places = x.arange(k)
        begin = x.arange(size).unsqueeze(1).sub(places.mul(d))
        found = begin.floor_divide(s).mul(k).add(places)
        found = found if s == 1 else begin.remainder(s).eq(0).where(found, -1)
        flat = paired.flatten(axis, axis + 1)
        # A position that is none gives 0; those of windows before the first one are negative.
        total = flat.from_uop(make_gather(flat.uop, found.uop, axis)).moveaxis(axis + 1, -1)
        added.append(-1 - len(added))
    value = total.sum(tuple(added)) if added else total
    return with_rule(_sum_gradient, value, (x,), stride, dilation)


@gradient_rule("windows")
def windows_gradient(
    cotangent: Tensor,
    _: Tensor,
    operands: tuple[Tensor],
    __: object,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[Tensor]:
    return (add_windows(cotangent, operands[0].shape[-len(kernel) :], stride, dilation),)


@gradient_rule("sum-of-windows")
def _sum_gradient(
    cotangent: Tensor,
    _: Tensor,
    operands: tuple[Tensor],
    __: object,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[Tensor]:
    kernel: tuple[int, ...] = operands[0].shape[-len(stride) :]  # pyright: ignore[reportAssignmentType]
    return (cotangent.windows(kernel, stride, dilation),)


@gradient_rule("max-pooling")
def max_pool_gradient(
    cotangent: Tensor, value: Tensor, operands: tuple[Tensor], __: object, *options: object
) -> tuple[Tensor]:
    """All to the first of a window's largest elements in row-major order, which is the first NaN
    where it has one.
    """
    (x,), places = operands, WindowPlaces(*options)  # pyright: ignore[reportArgumentType]
    n = len(places.kernel)
    column = (*value.shape, *(1,) * n)
    numbers = x.arange(math.prod(places.kernel)).reshape(places.kernel)
    chosen = numbers.eq(number_first(x, value, places).reshape(column)).where(
        cotangent.reshape(column), 0
    )
    sizes = x.shape[x.ndim - n :]
    padded = [normalize_size(s + b + a) for s, (b, a) in zip(sizes, places.pads, strict=True)]
    total = add_windows(chosen, padded, places.stride, places.dilation)
    cuts = [(b, normalize_size(b + s)) for s, (b, _) in zip(sizes, places.pads, strict=True)]
    return (total.shrink(*(None,) * (x.ndim - n), *cuts),)
