"""Images looked at between their elements: GridSample, AffineGrid and DeformConv."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Literal

from svod_onnx._registry import Ints, operator
from svod_onnx._trace import Call
from svod_onnx._windows import expand_attribute, list_pads
from svod_onnx.operators.convolutions import get_kernel
from svod_tensor import Tensor

__all__ = ["DeformConvAttributes", "affine_grid", "deform_conv", "grid_sample"]

_MODES: Final[dict[str, Literal["bilinear", "nearest", "bicubic"]]] = {
    "linear": "bilinear",
    "bilinear": "bilinear",
    "cubic": "bicubic",
    "bicubic": "bicubic",
    "nearest": "nearest",
}


@operator("GridSample")
def grid_sample(
    node: Call,
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
) -> Tensor:
    if mode not in _MODES:
        raise node.refuse(f"attribute 'mode' is {mode!r}")
    found = x.grid_sample(grid, mode=_MODES[mode], padding_mode=padding_mode, align_corners=bool(align_corners))
    return found.cast(x.dtype)


@operator("AffineGrid")
def affine_grid(theta: Tensor, size: Ints, *, align_corners: int = 0) -> Tensor:
    return theta.affine_grid(size, bool(align_corners))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeformConvAttributes:
    """Attributes of DeformConv."""

    dilations: list[int] | None = None
    group: int = 1
    kernel_shape: list[int] | None = None
    offset_group: int = 1
    pads: list[int] | None = None
    strides: list[int] | None = None


@operator("DeformConv")
def deform_conv(
    node: Call,
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    attributes: DeformConvAttributes,
) -> Tensor:
    """A convolution whose windows look between the elements, where `offset` moves their places to."""
    kernel = get_kernel(node, w, attributes.kernel_shape)
    n, count = len(kernel), math.prod(kernel)
    batch, channels, *sizes = x.shape
    outputs: list[Any] = list(offset.shape[2:])
    if n < 1 or x.ndim != n + 2 or offset.shape[1] != attributes.offset_group * count * n:
        raise node.refuse(f"has offsets of shape {offset.shape} for filters of shape {w.shape}")
    if (
        attributes.group < 1
        or attributes.offset_group < 1
        or channels != w.shape[1] * attributes.group
        or channels % attributes.offset_group
    ):  # pyright: ignore[reportOperatorIssue]
        raise node.refuse(
            f"has {channels} channels in {attributes.group} groups, and {attributes.offset_group} groups of offsets"
        )
    wide = "float32" if x.dtype.itemsize < 4 else x.dtype
    moves = offset.cast(wide).reshape(batch, attributes.offset_group, count, n, *outputs)
    steps = zip(
        expand_attribute(node, "strides", attributes.strides, n),
        list_pads(node, attributes.pads, n),
        expand_attribute(node, "dilations", attributes.dilations, n),
        strict=True,
    )
    places: list[Tensor] = []
    for axis, (stride, (before, _), dilation) in enumerate(steps):
        line = Tensor.arange(outputs[axis], dtype=wide, device=str(x.device)).mul(stride).sub(before)
        inside = Tensor.arange(kernel[axis], dtype=wide, device=str(x.device)).mul(dilation)
        numbers = inside.reshape(*(-1 if a == axis else 1 for a in range(n))).expand(*kernel).reshape(count, *(1,) * n)
        places.append(moves[:, :, :, axis].add(line.reshape(-1, *(1,) * (n - 1 - axis))).add(numbers))
    images = x.cast(wide).reshape(
        batch * attributes.offset_group, channels // attributes.offset_group, math.prod(sizes)
    )  # pyright: ignore[reportOperatorIssue,reportArgumentType]
    found = _interpolate(images, [place.flatten(2).flatten(0, 1) for place in places], sizes)
    sampled = found.reshape(batch, attributes.offset_group, images.shape[1], count, *outputs)
    if mask is not None:
        sampled = sampled.mul(mask.cast(wide).reshape(batch, attributes.offset_group, 1, count, *outputs))
    columns = sampled.reshape(batch, attributes.group, w.shape[1] * count, math.prod(outputs))
    filters = w.cast(wide).reshape(1, attributes.group, w.shape[0] // attributes.group, w.shape[1] * count)
    total = filters.matmul(columns).reshape(batch, w.shape[0], *outputs)
    shifted = total if b is None else total.add(b.cast(wide).reshape(-1, *(1,) * n))
    return shifted.cast(x.dtype)


def _interpolate(images: Tensor, places: list[Tensor], sizes: list[Any]) -> Tensor:
    """What is between the elements at places, by straight lines along each axis; outside there are zeros.

    Args:
        images: of shape (images, channels, elements).
        places: for each axis of an image, its coordinates, of shape (images, places).
        sizes: of these axes.

    Returns:
        Of shape (images, channels, places).
    """
    lows = [place.floor() for place in places]
    parts = [place.sub(low) for place, low in zip(places, lows, strict=True)]
    # All channels of an element lie side by side, since they are looked up together.
    elements = images.moveaxis(1, -1).flatten(0, 1).contiguous()
    starts = Tensor.arange(images.shape[0], dtype="int64", device=str(images.device)).mul(images.shape[2]).unsqueeze(1)
    total: Tensor | None = None
    for corner in product((0, 1), repeat=len(sizes)):
        weight: Tensor | None = None
        position: Tensor | None = None
        inside: Tensor | None = None
        for upper, low, part, size in zip(corner, lows, parts, sizes, strict=True):
            share = part if upper else part.neg().add(1)
            place = low.add(upper)
            is_in = place.ge(0).logical_and(place.lt(size))
            # Places far outside are no integers.
            number = place.clip(0, size - 1).cast("int64")
            weight = share if weight is None else weight.mul(share)
            position = number if position is None else position.mul(size).add(number)
            inside = is_in if inside is None else inside.logical_and(is_in)
        assert weight is not None and position is not None and inside is not None
        share = inside.where(weight, 0.0).contiguous().unsqueeze(-1)
        found = elements.take(position.add(starts).contiguous(), 0)
        # What counts nothing may be NaN.
        term = share.ne(0).where(found.mul(share), 0.0)
        total = term if total is None else total.add(term)
    assert total is not None
    return total.moveaxis(-1, 1)
