"""Convolutions and their transposes."""

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
    node: Call,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    attributes: ConvAttributes,
) -> Tensor:
    kernel = get_kernel(node, w, attributes.kernel_shape)
    windows = make_windows(node, x, kernel, attributes)
    return x.conv2d(
        w, b, stride=windows.stride, padding=windows.padding, dilation=windows.dilation, groups=attributes.group
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
    """The wanted size of a result says what is cut off of it, as does `auto_pad`: `SAME_...` for `strides` times the size."""
    kernel = get_kernel(node, w, attributes.kernel_shape)
    n = len(kernel)
    stride = expand_attribute(node, "strides", attributes.strides, n)
    dilation = expand_attribute(node, "dilations", attributes.dilations, n)
    extra = expand_attribute(node, "output_padding", attributes.output_padding, n, default=0)
    # How much longer the whole result is than `strides` times the tensor.
    beyond = [more + d * (k - 1) + 1 - step for more, d, k, step in zip(extra, dilation, kernel, stride, strict=True)]
    if attributes.output_shape:
        sizes: list[Any] = [size * step for size, step in zip(x.shape[2:], stride, strict=True)]
        if not all(isinstance(size, int) for size in sizes):
            raise node.refuse("cuts by the size of an axis, which is not known yet")
        wanted = attributes.output_shape[-n:]
        beyond = [size + more - kept for size, more, kept in zip(sizes, beyond, wanted, strict=True)]
    if attributes.output_shape or attributes.auto_pad.startswith("SAME"):
        # What is wanted beyond the whole result is zeros behind it.
        cuts = [split_pad(more, attributes.auto_pad) if more > 0 else (0, more) for more in beyond]
    else:
        cuts = [(0, 0)] * n if attributes.auto_pad == "VALID" else list_pads(node, attributes.pads, n)
    # As much as is cut off before is cut off after too, unless more is added there.
    behind: list[int] = [more + begin - end for more, (begin, end) in zip(extra, cuts, strict=True)]
    total = x.conv_transpose2d(
        w,
        b,
        stride=stride,
        padding=[begin for begin, _ in cuts],
        output_padding=[max(more, 0) for more in behind],
        dilation=dilation,
        groups=attributes.group,
    )
    ends: list[Any] = [(0, size + min(more, 0)) for size, more in zip(total.shape[2:], behind, strict=True)]
    return total.shrink(None, None, *ends)


def get_kernel(node: Call, weight: Tensor, kernel_shape: Sequence[int] | None) -> list[int]:
    """The size of the filters, which the attribute may say once more."""
    sizes: list[Any] = list(weight.shape[2:])
    if kernel_shape is not None and list(kernel_shape) != sizes:
        raise node.refuse(f"has filters of shape {weight.shape}, and attribute 'kernel_shape' is {list(kernel_shape)}")
    return sizes
