"""Convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_onnx._windows import ConvAttributes, expand_attribute, list_pads, make_windows, split_pad
from svod_tensor import Tensor

__all__ = ["ConvTransposeAttributes", "conv", "conv_transpose", "get_kernel"]


@operator("Conv")
def conv(
    node: Call, x: Tensor, w: Tensor, b: Tensor | None = None, *, attributes: ConvAttributes
) -> Tensor:
    """Convolution of `x` with filters `w`, plus the bias `b`."""
    kernel = get_kernel(node, w, attributes.kernel_shape)
    windows = make_windows(node, x, kernel, attributes)
    return x.conv2d(
        w,
        b,
        stride=windows.stride,
        padding=windows.padding,
        dilation=windows.dilation,
        groups=attributes.group,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvTransposeAttributes(ConvAttributes):
    """Attributes of ConvTranspose."""

    output_padding: list[int] | None = None
    output_shape: list[int] | None = None


@operator("ConvTranspose")
def conv_transpose(
    node: Call,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    attributes: ConvTransposeAttributes,
) -> Tensor:
    """Transposed convolution. `output_shape` or `auto_pad` determines the padding that is removed
    from the full result.

    `SAME_UPPER` and `SAME_LOWER` give an output of `strides` times the input size.
    """
    kernel = get_kernel(node, w, attributes.kernel_shape)
    n = len(kernel)
    stride = expand_attribute(node, "strides", attributes.strides, n)
    dilation = expand_attribute(node, "dilations", attributes.dilations, n)
    output_padding = expand_attribute(
        node, "output_padding", attributes.output_padding, n, default=0
    )
    # Size of the full result in excess of `strides` times the input size.
    excess = [
        extra + d * (k - 1) + 1 - step
        for extra, d, k, step in zip(output_padding, dilation, kernel, stride, strict=True)
    ]
    if attributes.output_shape:
        sizes: list[Any] = [size * step for size, step in zip(x.shape[2:], stride, strict=True)]
        if not all(isinstance(size, int) for size in sizes):
            raise node.refuse("attribute 'output_shape' needs known spatial sizes")
        # Some models list the batch and the channels, too.
        output_shape = attributes.output_shape[-n:]
        excess = [
            size + extra - target
            for size, extra, target in zip(sizes, excess, output_shape, strict=True)
        ]
    if attributes.output_shape or attributes.auto_pad.startswith("SAME"):
        # A negative excess extends the result by zeros at its end.
        pads = [
            split_pad(extra, attributes.auto_pad) if extra > 0 else (0, extra) for extra in excess
        ]
    else:
        pads = (
            [(0, 0)] * n if attributes.auto_pad == "VALID" else list_pads(node, attributes.pads, n)
        )
    # `padding` removes elements symmetrically, so an asymmetric end becomes output padding or a
    # final crop.
    end_padding: list[int] = [
        extra + start - end for extra, (start, end) in zip(output_padding, pads, strict=True)
    ]
    result = x.conv_transpose2d(
        w,
        b,
        stride=stride,
        padding=[start for start, _ in pads],
        output_padding=[max(extra, 0) for extra in end_padding],
        dilation=dilation,
        groups=attributes.group,
    )
    bounds: list[Any] = [
        (0, size + min(extra, 0)) for size, extra in zip(result.shape[2:], end_padding, strict=True)
    ]
    return result.shrink(None, None, *bounds)


def get_kernel(node: Call, weight: Tensor, kernel_shape: Sequence[int] | None) -> list[int]:
    """Spatial shape of the filters, which the attribute may repeat."""
    sizes: list[Any] = list(weight.shape[2:])
    if kernel_shape is not None and list(kernel_shape) != sizes:
        raise node.refuse(
            f"kernel_shape {list(kernel_shape)} does not match filters of shape {weight.shape}"
        )
    return sizes
