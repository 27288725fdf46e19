"""Regions of interest at a fixed size: RoiAlign and MaxRoiPool."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = [
    "RoiAlignAttributes",
    "RoiAlignSince10Attributes",
    "max_roi_pool",
    "roi_align",
    "roi_align_since_10",
]


class _Samples(NamedTuple):
    """Sampled elements along an axis, for each region and bin.

    Attributes:
        indices: element indices, of shape (regions, bins, samples).
        weights: weights of the elements.
        is_counted: whether the sample is within the region's number of samples.
    """

    indices: Tensor
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
    node: Call, x: Tensor, rois: Tensor, batch_indices: Tensor, *, attributes: RoiAlignAttributes
) -> Tensor:
    """Mean or maximum of samples between elements, for each bin of a region.

    A bin has `sampling_ratio` samples along each axis, or as many as its size in elements.
    """
    if attributes.mode.lower() not in ("avg", "max"):
        raise node.refuse(f"unknown mode {attributes.mode!r}; expected avg or max")
    is_shifted = attributes.coordinate_transformation_mode.lower() == "half_pixel"
    wide = x.cast("float32") if x.dtype.itemsize < 4 else x
    corners = rois.cast(wide.dtype).mul(attributes.spatial_scale).sub(0.5 if is_shifted else 0.0)
    sizes = corners[:, 2:].sub(corners[:, :2])
    sizes = sizes if is_shifted else sizes.maximum(1.0)
    axes: list[_Samples] = []
    counts: list[Tensor] = []
    for axis, (n_bins, column) in enumerate(
        ((attributes.output_height, 1), (attributes.output_width, 0))
    ):
        bin_size = sizes[:, column].div(n_bins)
        count = (
            bin_size.full_like(attributes.sampling_ratio)
            if attributes.sampling_ratio > 0
            else bin_size.ceil().maximum(0)
        )
        max_count = (
            attributes.sampling_ratio
            if attributes.sampling_ratio > 0
            else _get_bucketed_max(node, f"samples along axis {axis}", count)
        )
        counts.append(count)
        size: Any = x.shape[2 + axis]
        axes.append(_sample_axis(corners[:, column], bin_size, count, n_bins, max_count, size))
    rows, columns = axes
    # Axes: regions, bins and samples along the height, bins and samples along the width, channels.
    elements = _gather_elements(wide, batch_indices, rows.indices, columns.indices)
    weights = (
        rows.weights.unsqueeze(-1).unsqueeze(-1).mul(columns.weights.unsqueeze(1).unsqueeze(1))
    )
    total = counts[0].mul(counts[1]).reshape(-1, 1, 1, 1)
    counted = (
        rows.is_counted.unsqueeze(-1)
        .unsqueeze(-1)
        .logical_and(columns.is_counted.unsqueeze(1).unsqueeze(1))
    )
    if attributes.mode.lower() == "avg":
        factors = counted.where(weights, 0.0).contiguous().unsqueeze(-1)
        value = elements.mul(factors).sum((2, 4)).div(total.maximum(1))
    else:
        samples = counted.unsqueeze(-1).where(elements.mul(weights.unsqueeze(-1)), -math.inf)
        value = total.gt(0).where(samples.max((2, 4)), 0.0)
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
    """RoiAlign of version 10, whose coordinates refer to the corners of elements."""
    shifted = RoiAlignAttributes(
        **asdict(attributes), coordinate_transformation_mode="output_half_pixel"
    )
    return roi_align(node, x, rois, batch_indices, attributes=shifted)


def _get_bucketed_max(node: Call, label: str, counts: Tensor) -> int:
    """Largest count, rounded up to a number with three significant bits.

    Each value that is read has its own stage, so rounding lets other regions reuse a stage.
    """
    size = counts.size
    largest_count = counts.max() if not isinstance(size, int) or size else counts.sum()
    max_count = largest_count.maximum(1).cast("int64")
    bits = Tensor.arange(31, dtype="int64", device=str(counts.device))
    n_dropped = max_count.rshift(bits).gt(0).cast("int64").sum().sub(3).maximum(0)
    unit = max_count.ones_like().lshift(n_dropped)
    return int(node.concretize(label, max_count.add(unit).sub(1).floor_divide(unit).mul(unit)))


def _sample_axis(
    start: Tensor, bin_size: Tensor, count: Tensor, n_bins: int, max_count: int, size: int
) -> _Samples:
    """The two elements around each sample. Samples far outside have weight 0.

    Args:
        start: start of each region along the axis, of shape (regions,).
        bin_size: size of a region's bins.
        count: number of samples per bin.
        n_bins: number of bins per region.
        max_count: largest number of samples of a bin.
        size: size of the axis.
    """
    dtype, device = start.dtype, str(start.device)
    bin_index = Tensor.arange(n_bins, dtype=dtype, device=device).unsqueeze(1)
    sample = Tensor.arange(max_count, dtype=dtype, device=device)
    length, counts = bin_size.reshape(-1, 1, 1), count.reshape(-1, 1, 1)
    coordinate = (
        start.reshape(-1, 1, 1)
        .add(bin_index.mul(length))
        .add(sample.add(0.5).mul(length).div(counts.maximum(1)))
    )
    # ONNX clamps samples within one element outside of the image, and drops samples farther away.
    is_near = coordinate.ge(-1).logical_and(coordinate.le(size))
    inner = coordinate.maximum(0).minimum(size - 1)
    floor = inner.floor()
    fraction = inner.sub(floor)
    weights = is_near.unsqueeze(-1).where(
        Tensor.stack([fraction.neg().add(1), fraction], axis=-1), 0.0
    )
    indices = Tensor.stack([floor, floor.add(1).minimum(size - 1)], axis=-1).cast("int64")
    is_counted = sample.lt(counts).unsqueeze(-1).expand(coordinate.shape[0], n_bins, max_count, 2)
    return _Samples(indices.flatten(2), weights.flatten(2), is_counted.flatten(2))


def _gather_elements(x: Tensor, batch_indices: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Elements of images (batch, channels, height, width) at row and column indices of shape
    (regions, bins, samples).

    The result has the shape (regions, bins, samples, bins, samples, channels).
    """
    height, width = x.shape[2:]
    image = batch_indices.cast("int64").reshape(-1, 1, 1)
    row_offsets = image.mul(height).add(rows).mul(width)  # pyright: ignore[reportArgumentType]
    indices = row_offsets.unsqueeze(-1).unsqueeze(-1).add(columns.unsqueeze(1).unsqueeze(1))
    # Channels last, so that a gather reads all channels of an element contiguously.
    return x.moveaxis(1, -1).flatten(0, 2).contiguous().take(indices, 0)


@operator("MaxRoiPool")
def max_roi_pool(
    node: Call, x: Tensor, rois: Tensor, *, pooled_shape: list[int], spatial_scale: float = 1.0
) -> Tensor:
    """Maximum of each bin of a region, whose corners are rounded to elements; 0 for an
    empty bin.
    """
    scaled = rois[:, 1:].cast("float32").mul(spatial_scale)
    # Halves round away from 0, as C's round does; `Tensor.round` rounds halves to even.
    corners = scaled.abs().add(0.5).floor().mul(scaled.sign())
    axes: list[tuple[Tensor, Tensor]] = []
    for axis, n_bins in enumerate(pooled_shape):
        size = x.shape[2 + axis]
        start, last = corners[:, 1 - axis].unsqueeze(1), corners[:, 3 - axis].unsqueeze(1)
        bin_size = last.sub(start).add(1).maximum(1).div(n_bins)
        bin_index = Tensor.arange(n_bins, dtype="float32", device=str(x.device))
        first = bin_index.mul(bin_size).floor().add(start).clip(0, size)  # pyright: ignore[reportArgumentType]
        end = bin_index.add(1).mul(bin_size).ceil().add(start).clip(0, size)  # pyright: ignore[reportArgumentType]
        max_count = _get_bucketed_max(node, f"elements along axis {axis}", end.sub(first))
        position = first.unsqueeze(-1).add(
            Tensor.arange(max_count, dtype="float32", device=str(x.device))
        )
        axes.append((position.clip(0, size - 1).cast("int64"), position.lt(end.unsqueeze(-1))))  # pyright: ignore[reportArgumentType]
    (rows, has_row), (columns, has_column) = axes
    elements = _gather_elements(x, rois[:, 0], rows, columns)
    inside = (
        has_row.unsqueeze(-1)
        .unsqueeze(-1)
        .logical_and(has_column.unsqueeze(1).unsqueeze(1))
        .unsqueeze(-1)
    )
    largest = inside.where(elements, -math.inf).max((2, 4))
    return inside.any((2, 4)).where(largest, 0.0).moveaxis(-1, 1).cast(x.dtype)
