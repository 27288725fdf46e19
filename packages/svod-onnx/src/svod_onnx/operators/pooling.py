"""Pooling over windows, global pooling, and the inverse of max pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from svod_onnx._registry import Ints, operator
from svod_onnx._trace import Call
from svod_onnx._windows import PoolAttributes, expand_attribute, list_pads, make_windows
from svod_tensor import Tensor, arange

__all__ = [
    "AveragePoolAttributes",
    "LpPoolAttributes",
    "MaxPoolAttributes",
    "average_pool",
    "global_average_pool",
    "global_lp_pool",
    "global_max_pool",
    "lp_pool",
    "max_pool",
    "max_unpool",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragePoolAttributes(PoolAttributes):
    """Attributes of AveragePool."""

    count_include_pad: int = 0


@operator("AveragePool")
def average_pool(node: Call, x: Tensor, *, attributes: AveragePoolAttributes) -> Tensor:
    """Mean of each window."""
    windows = make_windows(
        node, x, attributes.kernel_shape, attributes, ceil_mode=attributes.ceil_mode
    )
    # Padding counts as elements of a window only on request, also where the last window ends beyond
    # it.
    return x.avg_pool2d(
        attributes.kernel_shape,
        stride=windows.stride,
        padding=windows.padding,
        dilation=windows.dilation,
        count_include_pad=bool(attributes.count_include_pad),
        ceil_mode=windows.is_open,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxPoolAttributes(PoolAttributes):
    """Attributes of MaxPool."""

    storage_order: int = 0


@operator("MaxPool")
def max_pool(
    node: Call, x: Tensor, *, attributes: MaxPoolAttributes
) -> Tensor | tuple[Tensor, Tensor]:
    """Maximum of each window, and its index in the flattened tensor.

    `storage_order` 1 flattens the spatial axes in column-major order.
    """
    stride, padding, dilation, is_open = make_windows(
        node, x, attributes.kernel_shape, attributes, ceil_mode=attributes.ceil_mode
    )
    # Without indices the pool is a plain reduction.
    if not node.has_output(1):
        return x.max_pool2d(
            attributes.kernel_shape,
            stride=stride,
            padding=padding,
            dilation=dilation,
            ceil_mode=is_open,
        )
    value, indices = x.max_pool2d(
        attributes.kernel_shape,
        stride=stride,
        padding=padding,
        dilation=dilation,
        ceil_mode=is_open,
        return_indices=True,
    )
    # The pool's indices are relative to each channel; ONNX counts over the whole tensor.
    sizes: tuple[Any, ...] = x.shape[2:]
    plane_size = math.prod(sizes)
    offsets = _to_column_major(indices, sizes) if attributes.storage_order else indices
    plane_starts = arange(x.shape[0] * x.shape[1], dtype="int64").mul(plane_size)
    return value, plane_starts.reshape(*x.shape[:2], *(1,) * len(sizes)).add(offsets)


def _to_column_major(indices: Tensor, sizes: Sequence[Any]) -> Tensor:
    """Convert row-major flat indices to column-major flat indices."""
    result, quotient = indices.zeros_like(), indices
    # From the innermost axis, whose index is the remainder of the flat one.
    for axis in reversed(range(len(sizes))):
        result = result.add(quotient.remainder(sizes[axis]).mul(math.prod(sizes[:axis])))
        quotient = quotient.floor_divide(sizes[axis])
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class LpPoolAttributes(PoolAttributes):
    """Attributes of LpPool."""

    p: float = 2


@operator("LpPool")
def lp_pool(node: Call, x: Tensor, *, attributes: LpPoolAttributes) -> Tensor:
    """Lp norm of each window."""
    windows = make_windows(
        node, x, attributes.kernel_shape, attributes, ceil_mode=attributes.ceil_mode
    )
    return x.lp_pool2d(
        attributes.p,
        attributes.kernel_shape,
        stride=windows.stride,
        padding=windows.padding,
        dilation=windows.dilation,
        ceil_mode=windows.is_open,
    )


def _list_spatial(x: Tensor) -> tuple[int, ...]:
    """Axes after batch and channels."""
    return tuple(range(2, x.ndim))


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """Mean over the spatial axes."""
    return x.mean(_list_spatial(x), keepdims=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """Maximum over the spatial axes."""
    return x.max(_list_spatial(x), keepdims=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Tensor:
    """Lp norm over the spatial axes."""
    return x.norm(_list_spatial(x), ord=p, keepdims=True)


@operator("MaxUnpool")
def max_unpool(
    node: Call,
    x: Tensor,
    indices: Tensor,
    output_shape: Ints | None = None,
    *,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Scatter `x` to the indices that MaxPool returned, in zeros of the unpooled size.

    If `output_shape` is larger, zeros are appended to each axis.
    """
    n = len(kernel_shape)
    stride, padding = (
        expand_attribute(node, "strides", strides, n),
        # With `output_shape`, pads remove no elements.
        list_pads(node, None if output_shape else pads, n),
    )
    sizes = [
        (size - 1) * step + k - pad_start - pad_end
        for size, step, k, (pad_start, pad_end) in zip(
            x.shape[2:], stride, kernel_shape, padding, strict=True
        )
    ]
    shape = (*x.shape[:2], *sizes)
    # Indices count over the whole tensor, so the scatter is one-dimensional.
    flat = Tensor.zeros(math.prod(shape), dtype=x.dtype, device=str(x.device))
    # In the shape that the indices refer to, before zeros are appended.
    unpooled = flat.put_along_axis(indices.reshape(-1), x.reshape(-1), 0).reshape(shape)
    if not output_shape:
        return unpooled
    return unpooled.pad(
        *((0, target - size) for target, size in zip(output_shape, shape, strict=True))
    )
