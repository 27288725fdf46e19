"""Regions of images in one size: RoiAlign and MaxRoiPool."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import NamedTuple

from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["RoiAlignAttributes", "RoiAlignSince10Attributes", "max_roi_pool", "roi_align", "roi_align_since_10"]


class _Samples(NamedTuple):
    """Places along an axis of an image, for each region and each part of it.

    Attributes:
        positions: of elements, of shape (regions, parts, samples).
        weights: of these.
        is_counted: whether the region has so many.
    """

    positions: Tensor
    weights: Tensor
    is_counted: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class RoiAlignSince10Attributes:
    """Attributes of RoiAlign, version 10."""

    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoiAlignAttributes(RoiAlignSince10Attributes):
    """Attributes of RoiAlign."""

    coordinate_transformation_mode: str = "half_pixel"


@operator("RoiAlign", since=16)
def roi_align(
    node: Call,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    attributes: RoiAlignAttributes,
) -> Tensor:
    """The mean, or the largest part, of samples between elements: `sampling_ratio` of them along each axis of a part of a
    region, or one for each element that it is long."""
    if attributes.mode.lower() not in ("avg", "max"):
        raise node.refuse(f"attribute 'mode' is {attributes.mode!r}")
    is_shifted = attributes.coordinate_transformation_mode.lower() == "half_pixel"
    wide = x.cast("float32") if x.dtype.itemsize < 4 else x
    corners = rois.cast(wide.dtype).mul(attributes.spatial_scale).sub(0.5 if is_shifted else 0.0)
    sizes = corners[:, 2:].sub(corners[:, :2])
    sizes = sizes if is_shifted else sizes.maximum(1.0)
    axes: list[_Samples] = []
    counts: list[Tensor] = []
    for axis, (n_parts, place) in enumerate(((attributes.output_height, 1), (attributes.output_width, 0))):
        each = sizes[:, place].div(n_parts)
        count = each.full_like(attributes.sampling_ratio) if attributes.sampling_ratio > 0 else each.ceil().maximum(0)
        most = (
            attributes.sampling_ratio
            if attributes.sampling_ratio > 0
            else _get_bucketed_max(node, f"samples along axis {axis}", count)
        )
        counts.append(count)
        axes.append(_sample_axis(corners[:, place], each, count, n_parts, most, x.shape[2 + axis]))  # pyright: ignore[reportArgumentType]
    rows, columns = axes
    # Regions, parts and samples along the height, parts and samples along the width, channels.
    found = _look_up(wide, batch_indices, rows.positions, columns.positions)
    weights = rows.weights.unsqueeze(-1).unsqueeze(-1).mul(columns.weights.unsqueeze(1).unsqueeze(1))
    total = counts[0].mul(counts[1]).reshape(-1, 1, 1, 1)
    counted = rows.is_counted.unsqueeze(-1).unsqueeze(-1).logical_and(columns.is_counted.unsqueeze(1).unsqueeze(1))
    if attributes.mode.lower() == "avg":
        shares = counted.where(weights, 0.0).contiguous().unsqueeze(-1)
        value = found.mul(shares).sum((2, 4)).div(total.maximum(1))
    else:
        parts = counted.unsqueeze(-1).where(found.mul(weights.unsqueeze(-1)), -math.inf)
        value = total.gt(0).where(parts.max((2, 4)), 0.0)
    return value.moveaxis(-1, 1).cast(x.dtype)


@operator("RoiAlign", since=10)
def roi_align_since_10(
    node: Call,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    attributes: RoiAlignSince10Attributes,
) -> Tensor:
    """Version 10: an element is where it begins."""
    shifted = RoiAlignAttributes(**asdict(attributes), coordinate_transformation_mode="output_half_pixel")
    return roi_align(node, x, rois, batch_indices, attributes=shifted)


def _get_bucketed_max(node: Call, label: str, counts: Tensor) -> int:
    """A number of three binary digits and zeros that none of the counts exceeds, so that other regions mostly need no other
    program: each number that is read has one of its own."""
    size = counts.size
    largest = counts.max() if not isinstance(size, int) or size else counts.sum()
    number = largest.maximum(1).cast("int64")
    places = Tensor.arange(31, dtype="int64", device=str(counts.device))
    n_dropped = number.rshift(places).gt(0).cast("int64").sum().sub(3).maximum(0)
    unit = number.ones_like().lshift(n_dropped)
    return int(node.concretize(label, number.add(unit).sub(1).floor_divide(unit).mul(unit)))


def _sample_axis(begin: Tensor, each: Tensor, count: Tensor, n_parts: int, most: int, size: int) -> _Samples:
    """The two elements around each sample, of which those far outside count nothing.

    Args:
        begin: where each region begins along the axis, of shape (regions,).
        each: how long a part of it is.
        count: how many samples it has.
        n_parts: into how many parts a region falls.
        most: how many samples there are at most.
        size: of the axis.
    """
    kind, device = begin.dtype, str(begin.device)
    part = Tensor.arange(n_parts, dtype=kind, device=device).unsqueeze(1)
    number = Tensor.arange(most, dtype=kind, device=device)
    length, steps = each.reshape(-1, 1, 1), count.reshape(-1, 1, 1)
    place = begin.reshape(-1, 1, 1).add(part.mul(length)).add(number.add(0.5).mul(length).div(steps.maximum(1)))
    is_near = place.ge(-1).logical_and(place.le(size))
    inner = place.maximum(0).minimum(size - 1)
    low = inner.floor()
    above = inner.sub(low)
    weights = is_near.unsqueeze(-1).where(Tensor.stack([above.neg().add(1), above], axis=-1), 0.0)
    positions = Tensor.stack([low, low.add(1).minimum(size - 1)], axis=-1).cast("int64")
    is_counted = number.lt(steps).unsqueeze(-1).expand(place.shape[0], n_parts, most, 2)
    return _Samples(positions.flatten(2), weights.flatten(2), is_counted.flatten(2))


def _look_up(x: Tensor, batch_indices: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The elements of images (batch, channels, height, width) in rows and columns of the shape (regions, parts, samples): shape
    (regions, parts, samples, parts, samples, channels)."""
    height, width = x.shape[2:]
    image = batch_indices.cast("int64").reshape(-1, 1, 1)
    lines = image.mul(height).add(rows).mul(width)  # pyright: ignore[reportArgumentType]
    positions = lines.unsqueeze(-1).unsqueeze(-1).add(columns.unsqueeze(1).unsqueeze(1))
    # All channels of an element lie side by side, since they are looked up together.
    return x.moveaxis(1, -1).flatten(0, 2).contiguous().take(positions, 0)


@operator("MaxRoiPool")
def max_roi_pool(node: Call, x: Tensor, rois: Tensor, *, pooled_shape: list[int], spatial_scale: float = 1.0) -> Tensor:
    """The largest element of each part of a region, whose ends are rounded to elements; 0 of a part that has none."""
    places = rois[:, 1:].cast("float32").mul(spatial_scale)
    # Halves are rounded away from 0.
    corners = places.abs().add(0.5).floor().mul(places.sign())
    axes: list[tuple[Tensor, Tensor]] = []
    for axis, n_parts in enumerate(pooled_shape):
        size = x.shape[2 + axis]
        begin, end = corners[:, 1 - axis].unsqueeze(1), corners[:, 3 - axis].unsqueeze(1)
        each = end.sub(begin).add(1).maximum(1).div(n_parts)
        part = Tensor.arange(n_parts, dtype="float32", device=str(x.device))
        first = part.mul(each).floor().add(begin).clip(0, size)  # pyright: ignore[reportArgumentType]
        behind = part.add(1).mul(each).ceil().add(begin).clip(0, size)  # pyright: ignore[reportArgumentType]
        most = _get_bucketed_max(node, f"elements along axis {axis}", behind.sub(first))
        position = first.unsqueeze(-1).add(Tensor.arange(most, dtype="float32", device=str(x.device)))
        axes.append((position.clip(0, size - 1).cast("int64"), position.lt(behind.unsqueeze(-1))))  # pyright: ignore[reportArgumentType]
    (rows, has_row), (columns, has_column) = axes
    found = _look_up(x, rois[:, 0], rows, columns)
    inside = has_row.unsqueeze(-1).unsqueeze(-1).logical_and(has_column.unsqueeze(1).unsqueeze(1)).unsqueeze(-1)
    largest = inside.where(found, -math.inf).max((2, 4))
    return inside.any((2, 4)).where(largest, 0.0).moveaxis(-1, 1).cast(x.dtype)
