"""Convolutions and their transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_onnx._window_places import list_pads, place_windows, split_pad, spread
from svod_tensor import Tensor

__all__ = ["conv", "get_kernel", "conv_transpose"]


@operator("Conv")
def conv(
    node: Call, x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    kernel = get_kernel(node, w, kernel_shape)
    places = place_windows(node, x, kernel, strides=strides, pads=pads, dilations=dilations, auto_pad=auto_pad)
    return x.conv2d(w, b, stride=places.stride, padding=places.padding, dilation=places.dilation, groups=group)


@operator("ConvTranspose")
def conv_transpose(
    node: Call, x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None, output_shape: list[int] | None = None, pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:  # fmt: skip
    """The wanted size of a result says what is cut off of it, as does `auto_pad`: `SAME_...` for `strides` times the size."""
    kernel = get_kernel(node, w, kernel_shape)
    n = len(kernel)
    stride, dilation = spread(node, "strides", strides, n), spread(node, "dilations", dilations, n)
    extra = spread(node, "output_padding", output_padding, n, default=0)
    # How much longer the whole result is than `strides` times the tensor.
    beyond = [more + d * (k - 1) + 1 - step for more, d, k, step in zip(extra, dilation, kernel, stride, strict=True)]
    if output_shape:
        sizes: list[Any] = [size * step for size, step in zip(x.shape[2:], stride, strict=True)]
        if not all(isinstance(size, int) for size in sizes):
            raise node.refuse("cuts by the size of an axis, which is not known yet")
        wanted = output_shape[-n:]
        beyond = [size + more - kept for size, more, kept in zip(sizes, beyond, wanted, strict=True)]
    if output_shape or auto_pad.startswith("SAME"):
        # What is wanted beyond the whole result is zeros behind it.
        cuts = [split_pad(more, auto_pad) if more > 0 else (0, more) for more in beyond]
    else:
        cuts = [(0, 0)] * n if auto_pad == "VALID" else list_pads(node, pads, n)
    # As much as is cut off before is cut off after too, unless more is added there.
    behind: list[int] = [more + begin - end for more, (begin, end) in zip(extra, cuts, strict=True)]
    total = x.conv_transpose2d(
        w, b, stride=stride, padding=[begin for begin, _ in cuts],
        output_padding=[max(more, 0) for more in behind], dilation=dilation, groups=group,
    )  # fmt: skip
    ends: list[Any] = [(0, size + min(more, 0)) for size, more in zip(total.shape[2:], behind, strict=True)]
    return total.shrink(None, None, *ends)


def get_kernel(node: Call, weight: Tensor, kernel_shape: Sequence[int] | None) -> list[int]:
    """The size of the filters, which the attribute may say once more."""
    sizes: list[Any] = list(weight.shape[2:])
    if kernel_shape is not None and list(kernel_shape) != sizes:
        raise node.refuse(f"has filters of shape {weight.shape}, and attribute 'kernel_shape' is {list(kernel_shape)}")
    return sizes
