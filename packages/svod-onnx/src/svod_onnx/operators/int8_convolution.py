"""Convolutions of 8-bit integers, exact in int32, as matrix products of the filters with unfolded
windows (im2col).
"""

from __future__ import annotations

from math import prod
from typing import Final, cast

from svod_onnx._trace import Call
from svod_onnx._windows import Windows
from svod_onnx.operators.int8_matmul import ZeroPoint, matmul_int8
from svod_tensor import Tensor

__all__ = ["can_conv_int8", "conv_int8"]

_LANES: Final = 16
"""Multiple to which a row of windows is padded, so that rows are copied in whole vectors."""


def can_conv_int8(x: Tensor, weight: Tensor, group: int) -> bool:
    """Whether `conv_int8` supports the operands: known nonzero sizes, and a single group."""
    sizes = (*x.shape, *weight.shape)
    return (
        group == 1
        and all(isinstance(size, int) and size > 0 for size in sizes)
        and x.shape[1] == weight.shape[1]
    )


def conv_int8(
    node: Call,
    x: Tensor,
    weight: Tensor,
    x_zero: ZeroPoint,
    weight_zero: ZeroPoint,
    windows: Windows,
) -> Tensor:
    """Convolution of integers with zero points. Padding has the value of the zero point.

    Args:
        node: node whose weights are prepared once.
        x: 8-bit integers of shape (batch, channels, ...).
        weight: 8-bit integers of shape (filters, channels, ...).
        x_zero: a scalar.
        weight_zero: a scalar, or one per filter.
        windows: windows of the convolution.
    """
    kernel, image = (cast("list[int]", list(tensor.shape[2:])) for tensor in (weight, x))
    n_filters = weight.shape[0]
    spans = [d * (k - 1) + 1 for d, k in zip(windows.dilation, kernel, strict=True)]
    output_sizes = [
        (size + sum(pad) - span) // step + 1
        for size, pad, span, step in zip(image, windows.padding, spans, windows.stride, strict=True)
    ]
    rows = weight.reshape(n_filters, -1)
    # A pointwise convolution needs no unfolding.
    if (
        prod(kernel) == 1
        and windows.stride == [1] * len(kernel)
        and not any(map(sum, windows.padding))
    ):
        sums = matmul_int8(node, rows, x.reshape(*x.shape[:2], -1), weight_zero, x_zero)
        return sums.reshape(x.shape[0], n_filters, *image)
    padded_sizes = [*output_sizes[:-1], -(-output_sizes[-1] // _LANES) * _LANES]
    extra = (
        (padded_sizes[-1] - 1) * windows.stride[-1]
        + spans[-1]
        - image[-1]
        - sum(windows.padding[-1])
    )
    padding = [
        *windows.padding[:-1],
        (windows.padding[-1][0], windows.padding[-1][1] + max(extra, 0)),
    ]
    columns = (
        _pad(x, padding, x_zero)
        .contiguous()
        .unfold(kernel, stride=windows.stride, dilation=windows.dilation)
    )
    # Materialized with separate axes, so that the innermost loop copies whole rows in vectors.
    columns = (
        columns.reshape(*x.shape[:2], *kernel, *padded_sizes)
        .contiguous()
        .reshape(x.shape[0], rows.shape[1], -1)
    )
    sums = matmul_int8(node, rows, columns, weight_zero, x_zero)
    return sums.reshape(x.shape[0], n_filters, *padded_sizes)[..., : output_sizes[-1]]


def _pad(x: Tensor, padding: list[tuple[int, int]], zero: ZeroPoint) -> Tensor:
    pairs = [(0, 0), (0, 0), *padding]
    if isinstance(zero, int):
        return x.pad(*pairs, constant_values=zero)
    # A zero point that is not known cannot be a constant of the padding.
    is_inside = Tensor.ones(*x.shape, dtype="bool").pad(*pairs)
    return is_inside.where(x.pad(*pairs), zero.cast(x.dtype))
