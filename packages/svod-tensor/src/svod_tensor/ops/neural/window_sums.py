"""Overlap-add of windows, the transpose of `windows`; and maxima of padded windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_ir import SInt, make_gather
from svod_ir.sizes import normalize_size
from svod_tensor.ops.core.gradient_rules import gradient_rule, with_rule
from svod_tensor.ops.neural.convolution import fit_axis, store_padded
from svod_tensor.ops.neural.window_options import WindowOptions

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "first_max_index",
    "max_pool_gradient",
    "overlap_add",
    "padded_windows",
    "windows_gradient",
]


def padded_windows(x: Tensor, options: WindowOptions, value: float) -> Tensor:
    """Windows of `x` over its last axes, padded with `value`."""
    kernel, stride, pads, dilation = options
    padded = x.pad(*(None,) * (x.ndim - len(kernel)), *pads, constant_values=value)
    return store_padded(padded, pads, kernel, stride).windows(kernel, stride, dilation)


def first_max_index(x: Tensor, value: Tensor, options: WindowOptions) -> Tensor:
    """Index within each window, in row-major order, of the first maximum `value` or NaN; the window
    size for a window of padding only."""
    kernel, stride, pads, dilation = options
    n, count = len(kernel), math.prod(kernel)
    view = padded_windows(x, options, x.dtype.min)
    is_largest = view.eq(value.reshape(*value.shape, *(1,) * n))
    if x.dtype.is_float:
        is_largest = is_largest.logical_or(view.isnan())
    if any(map(any, pads)):
        # The mask of elements inside is fused into its consumer and takes no memory.
        inside = x.ones_like(dtype="bool").pad(*(None,) * (x.ndim - n), *pads)
        is_largest = is_largest.logical_and(inside.windows(kernel, stride, dilation))
    return is_largest.where(x.arange(count).reshape(kernel), count).min(tuple(range(-n, 0)))


def overlap_add(
    x: Tensor, sizes: Sequence[SInt], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> Tensor:
    """Overlap-add, the transpose of `windows`: each element of the result gathers and sums its
    entries in the windows of shape (..., *outputs, *kernel)."""
    n, lead = len(sizes), x.ndim - 2 * len(sizes)
    kernel: tuple[int, ...] = x.shape[x.ndim - n :]  # pyright: ignore[reportAssignmentType]
    total, added = x, list[int]()
    # The last axis is processed first, and remaining kernel axes are moved to the end, so that the
    # indices of the other axes stay valid.
    for i, (size, k, s, d) in reversed(
        list(enumerate(zip(sizes, kernel, stride, dilation, strict=True)))
    ):
        axis = lead + i
        paired = total.moveaxis(lead + n + i, axis + 1)
        if k == 1 or (d == 1 and k <= s):
            # Windows do not overlap: they are interleaved with zeros.
            total = fit_axis(
                fit_axis(paired, axis + 1, 0, s).flatten(axis, axis + 1), axis, 0, size
            )
            continue
        offsets = x.arange(k)
        begin = x.arange(size).unsqueeze(1).sub(offsets.mul(d))
        indices = begin.floor_divide(s).mul(k).add(offsets)
        indices = indices if s == 1 else begin.remainder(s).eq(0).where(indices, -1)
        flat = paired.flatten(axis, axis + 1)
        # An out-of-range index gathers 0; indices of windows before the first one are negative.
        total = flat.from_uop(make_gather(flat.uop, indices.uop, axis)).moveaxis(axis + 1, -1)
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
    return (overlap_add(cotangent, operands[0].shape[-len(kernel) :], stride, dilation),)


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
    """Gradient of max pooling: routed to the first maximum of a window in row-major order, or to its
    first NaN.
    """
    (x,), window_options = operands, WindowOptions(*options)  # pyright: ignore[reportArgumentType]
    n = len(window_options.kernel)
    column = (*value.shape, *(1,) * n)
    window_indices = x.arange(math.prod(window_options.kernel)).reshape(window_options.kernel)
    chosen = window_indices.eq(first_max_index(x, value, window_options).reshape(column)).where(
        cotangent.reshape(column), 0
    )
    sizes = x.shape[x.ndim - n :]
    padded = [
        normalize_size(s + b + a) for s, (b, a) in zip(sizes, window_options.pads, strict=True)
    ]
    total = overlap_add(chosen, padded, window_options.stride, window_options.dilation)
    cuts = [
        (b, normalize_size(b + s)) for s, (b, _) in zip(sizes, window_options.pads, strict=True)
    ]
    return (total.shrink(*(None,) * (x.ndim - n), *cuts),)
