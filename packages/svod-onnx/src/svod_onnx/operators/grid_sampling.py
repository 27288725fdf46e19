"""Sampling of images between their elements: GridSample, AffineGrid and DeformConv."""

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
    """Samples of `x` at the normalized coordinates in `grid`, in the dtype of `x`."""
    if mode not in _MODES:
        raise node.refuse(f"unknown mode {mode!r}; expected one of {', '.join(_MODES)}")
    samples = x.grid_sample(
        grid, mode=_MODES[mode], padding_mode=padding_mode, align_corners=bool(align_corners)
    )
    return samples.cast(x.dtype)


@operator("AffineGrid")
def affine_grid(theta: Tensor, size: Ints, *, align_corners: int = 0) -> Tensor:
    """Sampling grid of shape (batch, *sizes, axes) for affine transforms `theta`."""
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
    """Convolution whose windows sample the input at fractional positions, displaced by `offset`."""
    kernel = get_kernel(node, w, attributes.kernel_shape)
    n, n_taps = len(kernel), math.prod(kernel)
    batch, channels, *sizes = x.shape
    output_sizes: list[Any] = list(offset.shape[2:])
    if n < 1 or x.ndim != n + 2 or offset.shape[1] != attributes.offset_group * n_taps * n:
        raise node.refuse(
            f"offset of shape {offset.shape} does not fit filters of shape {w.shape} and {attributes.offset_group} offset groups"
        )
    if (
        attributes.group < 1
        or attributes.offset_group < 1
        or channels != w.shape[1] * attributes.group
        or channels % attributes.offset_group
    ):  # pyright: ignore[reportOperatorIssue]
        raise node.refuse(
            f"{channels} channels must be divisible into {attributes.group} groups of {w.shape[1]}, "
            f"and by {attributes.offset_group} offset groups"
        )
    # Half-precision coordinates would be off by whole elements in large images.
    dtype = "float32" if x.dtype.itemsize < 4 else x.dtype
    displacements = offset.cast(dtype).reshape(
        batch, attributes.offset_group, n_taps, n, *output_sizes
    )
    steps = zip(
        expand_attribute(node, "strides", attributes.strides, n),
        list_pads(node, attributes.pads, n),
        expand_attribute(node, "dilations", attributes.dilations, n),
        strict=True,
    )
    coordinates: list[Tensor] = []
    for axis, (stride, (pad_start, _), dilation) in enumerate(steps):
        starts = (
            Tensor.arange(output_sizes[axis], dtype=dtype, device=str(x.device))
            .mul(stride)
            .sub(pad_start)
        )
        taps = Tensor.arange(kernel[axis], dtype=dtype, device=str(x.device)).mul(dilation)
        tap_offsets = (
            taps.reshape(*(-1 if a == axis else 1 for a in range(n)))
            .expand(*kernel)
            .reshape(n_taps, *(1,) * n)
        )
        coordinates.append(
            displacements[:, :, :, axis]
            .add(starts.reshape(-1, *(1,) * (n - 1 - axis)))
            .add(tap_offsets)
        )
    images = x.cast(dtype).reshape(
        batch * attributes.offset_group, channels // attributes.offset_group, math.prod(sizes)
    )  # pyright: ignore[reportOperatorIssue,reportArgumentType]
    samples = _interpolate(images, [axis.flatten(2).flatten(0, 1) for axis in coordinates], sizes)
    sampled = samples.reshape(
        batch, attributes.offset_group, images.shape[1], n_taps, *output_sizes
    )
    if mask is not None:
        sampled = sampled.mul(
            mask.cast(dtype).reshape(batch, attributes.offset_group, 1, n_taps, *output_sizes)
        )
    # The samples are the unfolded windows (im2col), so the convolution is a matrix product.
    columns = sampled.reshape(batch, attributes.group, w.shape[1] * n_taps, math.prod(output_sizes))
    filters = w.cast(dtype).reshape(
        1, attributes.group, w.shape[0] // attributes.group, w.shape[1] * n_taps
    )
    products = filters.matmul(columns).reshape(batch, w.shape[0], *output_sizes)
    shifted = products if b is None else products.add(b.cast(dtype).reshape(-1, *(1,) * n))
    return shifted.cast(x.dtype)


def _interpolate(images: Tensor, coordinates: list[Tensor], sizes: list[Any]) -> Tensor:
    """Multilinear interpolation of images at coordinates, with zeros outside.

    Args:
        images: of shape (images, channels, elements).
        coordinates: for each spatial axis, coordinates of shape (images, samples).
        sizes: sizes of the spatial axes.

    Returns:
        samples of shape (images, channels, samples).
    """
    floors = [axis.floor() for axis in coordinates]
    fractions = [axis.sub(floor) for axis, floor in zip(coordinates, floors, strict=True)]
    # Channels last, so that a gather reads all channels of an element contiguously.
    elements = images.moveaxis(1, -1).flatten(0, 1).contiguous()
    # Flat offset of each image.
    starts = (
        Tensor.arange(images.shape[0], dtype="int64", device=str(images.device))
        .mul(images.shape[2])
        .unsqueeze(1)
    )
    total: Tensor | None = None
    for corner in product((0, 1), repeat=len(sizes)):
        weight: Tensor | None = None
        index: Tensor | None = None
        inside: Tensor | None = None
        for upper, floor, fraction, size in zip(corner, floors, fractions, sizes, strict=True):
            axis_weight = fraction if upper else fraction.neg().add(1)
            coordinate = floor.add(upper)
            is_inside = coordinate.ge(0).logical_and(coordinate.lt(size))
            # Clipped before the cast, since distant coordinates exceed int64.
            axis_index = coordinate.clip(0, size - 1).cast("int64")
            weight = axis_weight if weight is None else weight.mul(axis_weight)
            index = axis_index if index is None else index.mul(size).add(axis_index)
            inside = is_inside if inside is None else inside.logical_and(is_inside)
        assert weight is not None and index is not None and inside is not None
        factor = inside.where(weight, 0.0).contiguous().unsqueeze(-1)
        corner_values = elements.take(index.add(starts).contiguous(), 0)
        # A corner of weight 0 may be NaN.
        term = factor.ne(0).where(corner_values.mul(factor), 0.0)
        total = term if total is None else total.add(term)
    assert total is not None
    return total.moveaxis(-1, 1)
