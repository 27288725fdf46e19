"""How the windows of convolutions and pools lie, as their nodes say it: padding by numbers, or by what the result is to have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["Places", "list_pads", "place_windows", "split_pad", "spread"]

Pads = list[tuple[int, int]]


class Places(NamedTuple):
    """How windows lie, for each spatial axis.

    Attributes:
        stride: how far a window moves.
        padding: what is added before and after it.
        dilation: the distance of a window's elements.
        is_open: whether the last window may end behind the padding.
    """

    stride: list[int]
    padding: Pads
    dilation: list[int]
    is_open: bool = False


def spread(node: Call, name: str, given: Sequence[int] | None, n: int, default: int = 1) -> list[int]:
    """The attribute `name`, which has a number for each of `n` axes, or is left out."""
    values = [default] * n if given is None else list(given)
    if len(values) != n:
        raise node.refuse(f"attribute {name!r} has {len(values)} numbers for {n} axes")
    return values


def list_pads(node: Call, pads: Sequence[int] | None, n: int) -> Pads:
    """What is added before and after each of `n` axes, from the attribute: all that is before, then all that is after."""
    values = [0] * (2 * n) if pads is None else list(pads)
    if len(values) != 2 * n:
        raise node.refuse(f"attribute 'pads' has {len(values)} numbers for {n} axes")
    return list(zip(values[:n], values[n:], strict=True))


def place_windows(
    node: Call, x: Tensor, kernel: Sequence[int], *, strides: Sequence[int] | None, pads: Sequence[int] | None,
    dilations: Sequence[int] | None, auto_pad: str, ceil_mode: int = 0,
) -> Places:  # fmt: skip
    """Where the windows of the size `kernel` lie over the axes of `x` behind the first two, by a node's attributes.

    Raises:
        NodeError: if they do not fit the tensor, or each other.
    """
    n = x.ndim - 2
    if n < 1 or len(kernel) != n:
        raise node.refuse(f"has windows of {len(kernel)} axes over a tensor of shape {x.shape}")
    stride, dilation = spread(node, "strides", strides, n), spread(node, "dilations", dilations, n)
    if min(*stride, *dilation, *kernel) < 1:
        raise node.refuse(f"has windows of size {list(kernel)}, strides {stride} and dilations {dilation}")
    match auto_pad:
        case "NOTSET" | "":
            return Places(stride, list_pads(node, pads, n), dilation, bool(ceil_mode))
        case "VALID":
            return Places(stride, [(0, 0)] * n, dilation)
        case "SAME_UPPER" | "SAME_LOWER":
            missing = [_count_missing(node, *axis) for axis in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
            return Places(stride, [split_pad(total, auto_pad) for total in missing], dilation)
        case _:
            raise node.refuse(f"attribute 'auto_pad' is {auto_pad!r}")


def split_pad(total: int, auto_pad: str) -> tuple[int, int]:
    """What is added before and after; SAME_UPPER puts the odd one after."""
    less, more = total // 2, total - total // 2
    return (less, more) if auto_pad == "SAME_UPPER" else (more, less)


def _count_missing(node: Call, size: Any, kernel: int, stride: int, dilation: int) -> int:
    """What an axis lacks for as many windows as it has every `stride`-th element."""
    span = dilation * (kernel - 1) + 1
    if stride == 1:
        return span - 1
    if not isinstance(size, int):
        raise node.refuse("pads by the size of an axis, which is not known yet")
    return max((-(-size // stride) - 1) * stride + span - size, 0)
