"""Where the elements of a resized axis lie among those before, and what they are made of: numbers, before any tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = ["Axis", "Filter", "Interpolation", "PeriodicWeights", "find_periodic_weights", "make_interpolation"]


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis that is resized.

    Attributes:
        before: how many elements it has.
        after: how many it gets.
        scale: how much longer it becomes, which rounding of `after` keeps.
        begin: where what is shown begins, as a part of the axis: of "tf_crop_and_resize".
        end: where it ends.
    """

    before: int
    after: int
    scale: float
    begin: float = 0.0
    end: float = 1.0


@dataclass(frozen=True, slots=True)
class Filter:
    """How elements are made, by the attributes of a Resize.

    Attributes:
        mode: "nearest", "linear" or "cubic".
        coordinates: the mode of coordinate transformation.
        rounding: which element is the nearest: the name of a mode; or of "simple" what the versions before 11 meant.
        steepness: of the cubic polynomials.
        only_inside: whether what is outside has no weight, in place of that of the outermost element.
        antialias: whether an element is made of all that an axis loses.
        keeps_fraction: whether "align_corners" counts what rounding took of the size: since version 19.
    """

    mode: str
    coordinates: str
    rounding: str = "round_prefer_floor"
    steepness: float = -0.75
    only_inside: bool = False
    antialias: bool = False
    keeps_fraction: bool = False


@dataclass(frozen=True, slots=True)
class Interpolation:
    """What the elements of an axis are made of.

    Attributes:
        positions: of the elements before, of shape (after, n).
        weights: of these, of the same shape; None where each is one element.
        outside: which elements are outside of the axis, of shape (after,), where those have a value of their own.
    """

    positions: np.ndarray
    weights: np.ndarray | None
    outside: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class PeriodicWeights:
    """What the elements of an axis that becomes a whole number of times as long are made of, which is the same for each element
    before: of those around it.

    Attributes:
        first: the place of the first of these, beside the element: 0 or less.
        weights: of all of them for each element of the result that stands in its place, of shape (elements, n).
    """

    first: int
    weights: np.ndarray


def find_periodic_weights(scale: float, how: Filter) -> PeriodicWeights | None:
    """The pattern that is repeated where straight lines or polynomials make an axis longer; None where none is."""
    n_each = int(scale)
    if n_each != scale or n_each < 2 or how.mode not in ("linear", "cubic") or how.only_inside:
        return None
    if how.coordinates not in _EVEN:
        return None
    axis = Axis(1, n_each, scale)
    positions, weights = _weigh(_list_places(axis, how, np.dtype(np.float64)), axis, how)
    first = int(positions.min())
    table = np.zeros((n_each, int(positions.max()) - first + 1))
    np.put_along_axis(table, positions - first, weights, 1)
    used = np.flatnonzero(table.any(0))
    return PeriodicWeights(first + int(used[0]), table[:, used[0] : used[-1] + 1])


_EVEN: Final = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric")
"""The modes of coordinate transformation in which places of a longer axis repeat."""


def make_interpolation(axis: Axis, how: Filter) -> Interpolation:
    """What the elements of `axis` are made of.

    Raises:
        ValueError: if an attribute has a value that ONNX does not name.
    """
    # The nearest of two that are equally far is decided by rounding: in float32, as in other runtimes.
    places = _list_places(axis, how, np.dtype(np.float32 if how.mode == "nearest" else np.float64))
    outside = None
    if how.coordinates == "tf_crop_and_resize":
        outside = (places < 0) | (places > axis.before - 1)
        outside = outside if outside.any() else None
    if how.mode == "nearest":
        rounding = ("ceil" if axis.scale < 1 else "floor") if how.rounding == "simple" else how.rounding
        if rounding not in _ROUNDINGS:
            raise ValueError(f"attribute 'nearest_mode' is {rounding!r}")
        nearest = _ROUNDINGS[rounding](places).astype(np.int64)
        return Interpolation(np.clip(nearest, 0, axis.before - 1)[:, None], None, outside)
    if how.mode not in ("linear", "cubic"):
        raise ValueError(f"attribute 'mode' is {how.mode!r}")
    positions, weights = _weigh(places, axis, how)
    if how.only_inside:
        weights = np.where((positions < 0) | (positions >= axis.before), 0.0, weights)
        total = weights.sum(1, keepdims=True)
        weights /= np.where(total == 0, 1.0, total)
    used = weights.any(0)
    return Interpolation(np.clip(positions, 0, axis.before - 1)[:, used], weights[:, used], outside)


_ROUNDINGS: Final[dict[str, Callable[[np.ndarray], np.ndarray]]] = {
    "round_prefer_floor": lambda places: np.ceil(places - 0.5),
    "round_prefer_ceil": lambda places: np.floor(places + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _list_places(axis: Axis, how: Filter, dtype: np.dtype) -> np.ndarray:
    """Where the elements of the result lie among those before.

    Source: the ONNX specification, Resize, attribute coordinate_transformation_mode.
    """
    numbers, last = np.arange(axis.after, dtype=dtype), axis.before - 1
    scale = dtype.type(axis.scale)
    length = scale * axis.before
    match how.coordinates:
        case "half_pixel":
            return (numbers + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            return axis.before / 2 * (1 - axis.after / length) + (numbers + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (numbers + 0.5) / scale - 0.5 if axis.after > 1 else numbers
        case "tf_half_pixel_for_nn":
            return (numbers + 0.5) / scale
        case "asymmetric":
            return numbers / scale
        case "align_corners":
            span = (length if how.keeps_fraction else axis.after) - 1
            return numbers * last / span if span else np.zeros_like(numbers)
        case "tf_crop_and_resize":
            begin, end = dtype.type(axis.begin), dtype.type(axis.end)
            if axis.after > 1:
                return begin * last + numbers * (end - begin) * last / (axis.after - 1)
            return np.full_like(numbers, 0.5 * (begin + end) * last)
        case _:
            raise ValueError(f"attribute 'coordinate_transformation_mode' is {how.coordinates!r}")


def _weigh(places: np.ndarray, axis: Axis, how: Filter) -> tuple[np.ndarray, np.ndarray]:
    """The elements around each place, which may be outside, and their weights. Of neighbours at the same distance, as many are
    before the place as behind it, and the place itself counts as behind."""
    is_cubic = how.mode == "cubic"
    squeeze = min(axis.scale, 1.0) if how.antialias else 1.0
    reach = math.floor((-2 if is_cubic else -1) / squeeze) + 1
    offsets = np.arange(reach, 2 - reach)
    low = np.ceil(places) - 1
    distances = np.abs(offsets[None, :] - (places - low)[:, None]) * squeeze
    weights = _weigh_cubic(distances, how.steepness) if is_cubic else np.clip(1 - distances, 0, 1)
    if how.antialias:
        weights /= weights.sum(1, keepdims=True)
    return low.astype(np.int64)[:, None] + offsets[None, :], weights


def _weigh_cubic(t: np.ndarray, a: float) -> np.ndarray:
    """Source: R. Keys, Cubic convolution interpolation for digital image processing, 1981."""
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = (((t - 5) * t + 8) * t - 4) * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))
