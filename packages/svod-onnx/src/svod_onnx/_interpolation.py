"""Interpolation along a resized axis: input indices and weights of each output element, computed
with numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = [
    "Axis",
    "Interpolation",
    "PeriodicWeights",
    "ResizeOptions",
    "find_periodic_weights",
    "make_interpolation",
]


@dataclass(frozen=True, slots=True)
class Axis:
    """A resized axis.

    Attributes:
        input_size: number of input elements.
        output_size: number of output elements.
        scale: scale factor before `output_size` was rounded.
        start: start of the region as a fraction of the axis, for "tf_crop_and_resize".
        end: end of the region.
    """

    input_size: int
    output_size: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True, slots=True)
class ResizeOptions:
    """Attributes of Resize that select the interpolation.

    Attributes:
        mode: "nearest", "linear" or "cubic".
        coordinates: coordinate transformation mode.
        rounding: mode that rounds a coordinate to the nearest index; "simple" is the rounding of
            versions before 11.
        steepness: coefficient `a` of the cubic polynomials.
        exclude_outside: whether indices outside of the axis have weight 0 instead of being clamped.
        antialias: whether downsampling widens the filter.
    """

    mode: str
    coordinates: str
    rounding: str = "round_prefer_floor"
    steepness: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@dataclass(frozen=True, slots=True)
class Interpolation:
    """Weighted sum of input elements for each output element.

    Attributes:
        indices: input indices, of shape (output_size, n).
        weights: weights of the same shape; None if each output is an input element.
        outside: mask of the outputs outside of the axis, of shape (output_size,); None unless these
            get the extrapolation value.
    """

    indices: np.ndarray
    weights: np.ndarray | None
    outside: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class PeriodicWeights:
    """Weights of an axis with an integer scale factor: every input element yields the same pattern
    of outputs.

    Attributes:
        first: offset of the first weighted neighbor from the element, 0 or less.
        weights: weights of the neighbors for each of the element's outputs, of shape (scale, n).
    """

    first: int
    weights: np.ndarray


def find_periodic_weights(scale: float, options: ResizeOptions) -> PeriodicWeights | None:
    """Periodic weights of linear or cubic upsampling by an integer factor; None for any other
    resize.
    """
    factor = int(scale)
    if (
        factor != scale
        or factor < 2
        or options.mode not in ("linear", "cubic")
        or options.exclude_outside
    ):
        return None
    if options.coordinates not in _PERIODIC:
        return None
    # One input element represents all of them; indices may lie outside, since weights are not
    # clamped here.
    axis = Axis(1, factor, scale)
    indices, weights = _weigh(_list_coordinates(axis, options, np.dtype(np.float64)), axis, options)
    first = int(indices.min())
    table = np.zeros((factor, int(indices.max()) - first + 1))
    np.put_along_axis(table, indices - first, weights, 1)
    # Cubic mode may have weights of 0 at its ends; fewer neighbors mean fewer products.
    used = np.flatnonzero(table.any(0))
    return PeriodicWeights(first + int(used[0]), table[:, used[0] : used[-1] + 1])


_PERIODIC: Final = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric")
"""Coordinate transformation modes with periodic coordinates for an integer scale factor."""


def make_interpolation(axis: Axis, options: ResizeOptions) -> Interpolation:
    """Return the interpolation along `axis`.

    Raises:
        ValueError: if an option has a value that ONNX does not define.
    """
    # Rounding decides ties between neighbors, so "nearest" computes coordinates in float32 like
    # other runtimes.
    coordinates = _list_coordinates(
        axis, options, np.dtype(np.float32 if options.mode == "nearest" else np.float64)
    )
    outside = None
    if options.coordinates == "tf_crop_and_resize":
        outside = (coordinates < 0) | (coordinates > axis.input_size - 1)
        outside = outside if outside.any() else None
    if options.mode == "nearest":
        # As onnxruntime does: "simple" upsampling rounds down, and downsampling rounds up.
        rounding = (
            ("ceil" if axis.scale < 1 else "floor")
            if options.rounding == "simple"
            else options.rounding
        )
        if rounding not in _ROUNDINGS:
            raise ValueError(
                f"unknown nearest_mode {rounding!r}; expected one of {', '.join(_ROUNDINGS)}"
            )
        nearest = _ROUNDINGS[rounding](coordinates).astype(np.int64)
        return Interpolation(np.clip(nearest, 0, axis.input_size - 1)[:, None], None, outside)
    if options.mode not in ("linear", "cubic"):
        raise ValueError(f"unknown mode {options.mode!r}; expected nearest, linear or cubic")
    indices, weights = _weigh(coordinates, axis, options)
    if options.exclude_outside:
        weights = np.where((indices < 0) | (indices >= axis.input_size), 0.0, weights)
        # The remaining weights are normalized to a sum of 1.
        total = weights.sum(1, keepdims=True)
        weights /= np.where(total == 0, 1.0, total)
    used = weights.any(0)
    return Interpolation(
        np.clip(indices, 0, axis.input_size - 1)[:, used], weights[:, used], outside
    )


_TIE: Final = 1e-6
"""Largest distance of a coordinate from the middle between two elements that counts as a tie, as in
onnxruntime. A product with a float32 scale may miss the middle by a rounding error.
"""


def _round(coordinates: np.ndarray, tie: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Nearest integers; `tie` rounds coordinates in the middle between two."""
    # In float64, since a sum with 0.5 would be rounded once more in float32.
    wide = coordinates.astype(np.float64)
    lower = np.floor(wide)
    is_tie = np.abs(wide - lower - 0.5) <= _TIE
    return np.where(is_tie, tie(lower + 0.5), np.round(wide))


_ROUNDINGS: Final[dict[str, Callable[[np.ndarray], np.ndarray]]] = {
    "round_prefer_floor": lambda coordinates: _round(coordinates, np.floor),
    "round_prefer_ceil": lambda coordinates: _round(coordinates, np.ceil),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _list_coordinates(axis: Axis, options: ResizeOptions, dtype: np.dtype) -> np.ndarray:
    """Coordinates of the output elements on the input axis.

    "align_corners" maps the last output element to the last input element, as in torch and
    onnxruntime. Since version 19 ONNX has `scale * input_size` instead of the output size, which
    misses the last element if the scale is fractional.

    Source: the ONNX specification, Resize, attribute coordinate_transformation_mode.
    """
    indices, last = np.arange(axis.output_size, dtype=dtype), axis.input_size - 1
    scale = dtype.type(axis.scale)
    length = scale * axis.input_size
    match options.coordinates:
        case "half_pixel":
            return (indices + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            return (
                axis.input_size / 2 * (1 - axis.output_size / length)
                + (indices + 0.5) / scale
                - 0.5
            )
        case "pytorch_half_pixel":
            return (indices + 0.5) / scale - 0.5 if axis.output_size > 1 else indices
        case "tf_half_pixel_for_nn":
            return (indices + 0.5) / scale
        case "asymmetric":
            return indices / scale
        case "align_corners":
            span = axis.output_size - 1
            return indices * last / span if span else np.zeros_like(indices)
        case "tf_crop_and_resize":
            start, end = dtype.type(axis.start), dtype.type(axis.end)
            if axis.output_size > 1:
                return start * last + indices * (end - start) * last / (axis.output_size - 1)
            return np.full_like(indices, 0.5 * (start + end) * last)
        case _:
            raise ValueError(f"unknown coordinate_transformation_mode {options.coordinates!r}")


def _weigh(
    coordinates: np.ndarray, axis: Axis, options: ResizeOptions
) -> tuple[np.ndarray, np.ndarray]:
    """Indices around each coordinate, which may lie outside of the axis, and their weights.

    The window is symmetric: half of the indices lie below the coordinate. An index equal to the
    coordinate counts as above it."""
    is_cubic = options.mode == "cubic"
    # Antialiasing stretches the filter by the factor of the downsampling.
    squeeze = min(axis.scale, 1.0) if options.antialias else 1.0
    lowest = math.floor((-2 if is_cubic else -1) / squeeze) + 1
    offsets = np.arange(lowest, 2 - lowest)
    floor = np.ceil(coordinates) - 1
    distances = np.abs(offsets[None, :] - (coordinates - floor)[:, None]) * squeeze
    weights = (
        _weigh_cubic(distances, options.steepness) if is_cubic else np.clip(1 - distances, 0, 1)
    )
    if options.antialias:
        weights /= weights.sum(1, keepdims=True)
    return floor.astype(np.int64)[:, None] + offsets[None, :], weights


def _weigh_cubic(t: np.ndarray, a: float) -> np.ndarray:
    """Weights of cubic interpolation at distances `t`.

    Source: R. Keys, Cubic convolution interpolation for digital image processing, 1981.
    """
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = (((t - 5) * t + 8) * t - 4) * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))
