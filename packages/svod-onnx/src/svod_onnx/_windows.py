"""Strides, padding and dilation of convolutions and pools, from node attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "ConvAttributes",
    "PoolAttributes",
    "WindowAttributes",
    "Windows",
    "expand_attribute",
    "list_pads",
    "make_windows",
    "split_pad",
    "with_channels_first",
]

Pads = list[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAttributes:
    """Attributes of all operators with windows."""

    auto_pad: str = "NOTSET"
    dilations: list[int] | None = None
    pads: list[int] | None = None
    strides: list[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvAttributes(WindowAttributes):
    """Attributes of convolutions."""

    group: int = 1
    kernel_shape: list[int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAttributes(WindowAttributes):
    """Attributes of pools."""

    kernel_shape: list[int]
    ceil_mode: int = 0


class Windows(NamedTuple):
    """Windows over the spatial axes of a tensor, with one value for each axis.

    Attributes:
        stride: distance between the starts of adjacent windows.
        padding: number of elements added before and after the axis.
        dilation: distance between the elements of a window.
        is_open: whether the last window may end in the trailing padding.
    """

    stride: list[int]
    padding: Pads
    dilation: list[int]
    is_open: bool = False


def expand_attribute(
    node: Call, name: str, attribute: Sequence[int] | None, n: int, default: int = 1
) -> list[int]:
    """Value of an optional attribute with an element for each of `n` axes."""
    values = [default] * n if attribute is None else list(attribute)
    if len(values) != n:
        raise node.refuse(f"attribute {name!r}: expected {n} values, got {values}")
    return values


def list_pads(node: Call, pads: Sequence[int] | None, n: int) -> Pads:
    """Padding before and after each of `n` axes. The attribute lists all starts, then all ends."""
    values = [0] * (2 * n) if pads is None else list(pads)
    if len(values) != 2 * n:
        raise node.refuse(f"attribute 'pads': expected {2 * n} values, got {values}")
    return list(zip(values[:n], values[n:], strict=True))


def make_windows(
    node: Call,
    x: Tensor,
    kernel: Sequence[int],
    attributes: WindowAttributes,
    *,
    ceil_mode: int = 0,
) -> Windows:
    """Return the windows of size `kernel` over the spatial axes of `x`, which follow the first two.

    Raises:
        NodeError: if the attributes do not fit the tensor, or each other.
    """
    n = x.ndim - 2
    if n < 1 or len(kernel) != n:
        raise node.refuse(
            f"a kernel of shape {list(kernel)} needs an input of rank {len(kernel) + 2}, got {x.shape}"
        )
    stride = expand_attribute(node, "strides", attributes.strides, n)
    dilation = expand_attribute(node, "dilations", attributes.dilations, n)
    # Before any division by a stride.
    if min(*stride, *dilation, *kernel) < 1:
        raise node.refuse(
            f"kernel {list(kernel)}, strides {stride} and dilations {dilation} must be positive on every axis"
        )
    match attributes.auto_pad:
        # Some exporters write an empty attribute for the default.
        case "NOTSET" | "":
            return Windows(stride, list_pads(node, attributes.pads, n), dilation, bool(ceil_mode))
        case "VALID":
            # `ceil_mode` only matters without auto_pad, which determines the number of windows.
            return Windows(stride, [(0, 0)] * n, dilation)
        case "SAME_UPPER" | "SAME_LOWER":
            missing = [
                _count_missing(node, *axis)
                for axis in zip(x.shape[2:], kernel, stride, dilation, strict=True)
            ]
            return Windows(
                stride, [split_pad(total, attributes.auto_pad) for total in missing], dilation
            )
        case _:
            raise node.refuse(
                f"unknown auto_pad {attributes.auto_pad!r}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER"
            )


def split_pad(total: int, auto_pad: str) -> tuple[int, int]:
    """Split padding into start and end.

    An odd element goes to the end for SAME_UPPER, and to the start for SAME_LOWER.
    """
    less, more = total // 2, total - total // 2
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)


def _count_missing(node: Call, size: Any, kernel: int, stride: int, dilation: int) -> int:
    """Total padding of an axis so that the number of windows is `ceil(size / stride)`."""
    span = dilation * (kernel - 1) + 1
    # Independent of the size, which may be symbolic.
    if stride == 1:
        return span - 1
    if not isinstance(size, int):
        raise node.refuse("auto_pad with a stride above 1 needs known spatial sizes")
    # Windows that lie apart may end before the axis does, and then need no padding.
    return max((-(-size // stride) - 1) * stride + span - size, 0)


def with_channels_first(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function of an image with the channels on axis 1 to an image with trailing
    channels.
    """
    return function(x.moveaxis(-1, 1)).moveaxis(1, -1)
