"""Resize and Upsample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from svod_onnx._interpolation import (
    Axis,
    Interpolation,
    PeriodicWeights,
    ResizeOptions,
    find_periodic_weights,
    make_interpolation,
)
from svod_onnx._registry import Known, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["ResizeAttributes", "resize", "resize_since_10", "upsample", "upsample_since_1"]

_STAND_IN: Final = 12
"""Size that represents an axis of unknown size while its interpolation is planned."""

_POLICIES: Final = {"not_larger": min, "not_smaller": max}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizeAttributes:
    """Attributes of Resize."""

    antialias: int = 0
    axes: list[int] | None = None
    coordinate_transformation_mode: str = "half_pixel"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    keep_aspect_ratio_policy: str = "stretch"
    mode: str = "nearest"
    nearest_mode: str = "round_prefer_floor"


@operator("Resize", since=11)
def resize(
    node: Call,
    x: Tensor,
    roi: Known | None = None,
    scales: Known | None = None,
    sizes: Known | None = None,
    *,
    attributes: ResizeAttributes,
) -> Tensor:
    """Resize axes by scales or to sizes, with the interpolation of the attributes.

    "align_corners" with a fractional scale aligns the last element of the output, whose size is
    rounded down, as torch and onnxruntime do. ONNX aligns an unrounded length since version 19.
    "tf_crop_and_resize" crops an axis of equal size too, which onnxruntime leaves as it is.
    """
    axes = (
        list(range(x.ndim))
        if attributes.axes is None
        else [axis % x.ndim for axis in attributes.axes]
    )
    options = ResizeOptions(
        attributes.mode,
        attributes.coordinate_transformation_mode,
        attributes.nearest_mode,
        attributes.cubic_coeff_a,
        bool(attributes.exclude_outside),
        bool(attributes.antialias),
    )
    if attributes.antialias and attributes.mode == "nearest":
        raise node.refuse("attribute 'antialias' needs mode linear or cubic")
    # An empty operand counts as omitted, as exporters before version 13 write it.
    has_scales, has_sizes = (
        scales is not None and scales.size > 0,
        sizes is not None and sizes.size > 0,
    )
    if has_scales == has_sizes:
        raise node.refuse("expected either scales or sizes")
    targets = scales if has_scales else sizes
    assert targets is not None
    if targets.size != len(axes):
        raise node.refuse(f"expected {len(axes)} scales or sizes, one per axis, got {targets.size}")
    if has_scales:
        plan = _plan_scales(x, axes, targets)
    else:
        plan = _plan_sizes(
            node, x, axes, [int(size) for size in targets], attributes.keep_aspect_ratio_policy
        )
    if attributes.coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None or roi.size != 2 * len(axes):
            raise node.refuse(
                f"roi: expected {2 * len(axes)} values, got {0 if roi is None else roi.size}"
            )
        bounds = zip(roi[: len(axes)], roi[len(axes) :], strict=True)
        plan = {
            axis_index: Axis(
                axis.input_size, axis.output_size, axis.scale, float(start), float(end)
            )
            for (axis_index, axis), (start, end) in zip(plan.items(), bounds, strict=True)
        }
    return _resize_axes(node, x, plan, options, attributes.extrapolation_value)


def _plan_scales(x: Tensor, axes: Sequence[int], scales: np.ndarray) -> dict[int, Axis]:
    """Resized axes by scales. Output sizes are rounded down from products in float32."""
    plan: dict[int, Axis] = {}
    for axis_index, scale in zip(axes, scales.astype(np.float32), strict=True):
        input_size: Any = x.shape[axis_index]
        if not isinstance(input_size, int):
            # Only results that do not depend on the size are used: periodic weights and
            # repetitions. Other interpolations refuse a symbolic size.
            input_size = _STAND_IN
        # In float32 as onnxruntime: float64 may round a product to another size.
        plan[axis_index] = Axis(
            input_size, int(np.floor(np.float32(input_size) * scale)), float(scale)
        )
    return plan


def _plan_sizes(
    node: Call, x: Tensor, axes: Sequence[int], sizes: Sequence[int], policy: str
) -> dict[int, Axis]:
    """Resized axes by target sizes.

    A policy that keeps the aspect ratio may miss some of the targets.
    """
    old_sizes = [_get_known_size(node, x, axis_index) for axis_index in axes]
    ratios = [new / old if old else 1.0 for old, new in zip(old_sizes, sizes, strict=True)]
    if policy == "stretch":
        rows = zip(axes, old_sizes, sizes, ratios, strict=True)
        return {axis_index: Axis(old, new, ratio) for axis_index, old, new, ratio in rows}
    if policy not in _POLICIES:
        raise node.refuse(
            f"unknown keep_aspect_ratio_policy {policy!r}; expected stretch, not_larger or not_smaller"
        )
    scale = _POLICIES[policy](ratios)
    return {
        axis_index: Axis(old, int(scale * old + 0.5), scale)
        for axis_index, old in zip(axes, old_sizes, strict=True)
    }


def _get_known_size(node: Call, x: Tensor, axis: int) -> int:
    size = x.shape[axis]
    if not isinstance(size, int):
        raise node.refuse(f"the size of axis {axis} must be known to resize it")
    return size


def _resize_axes(
    node: Call,
    x: Tensor,
    plan: dict[int, Axis],
    options: ResizeOptions,
    extrapolation_value: float = 0.0,
) -> Tensor:
    """Resize one axis at a time, in a float dtype that holds the elements, and round once at the
    end.
    """
    resized = {
        a: axis
        for a, axis in plan.items()
        if axis.input_size != axis.output_size
        or (axis.start, axis.end) != (0.0, 1.0)
        # An equal size with another scale still moves the coordinates.
        or abs(axis.scale - 1) > 1e-9
    }
    for a, axis in resized.items():
        if axis.output_size < 0 or (
            axis.output_size > 0 and not (axis.input_size > 0 and axis.scale > 0)
        ):
            raise node.refuse(
                f"cannot resize axis {a} from {axis.input_size} to {axis.output_size} elements"
            )
    if any(axis.output_size == 0 for axis in resized.values()):
        shape = [resized[a].output_size if a in resized else size for a, size in enumerate(x.shape)]
        return Tensor.zeros(*shape, dtype=x.dtype, device=str(x.device))
    result = x if options.mode == "nearest" else _widen(x)
    patterns = {a: find_periodic_weights(axis.scale, options) for a, axis in resized.items()}
    periodic = {a: pattern for a, pattern in patterns.items() if pattern is not None}
    # Periodic axes come first, since they need no gather, and then the other axes one by one.
    result = _upsample_periodic(result, periodic)
    interpolations = {
        a: make_interpolation(axis, options) for a, axis in resized.items() if a not in periodic
    }
    factors = {
        a: factor
        for a, interpolation in interpolations.items()
        if (factor := _count_repeats(resized[a], interpolation))
    }
    result = _repeat_elements(result, factors)
    for a, interpolation in interpolations.items():
        axis = resized[a]
        result = result if a in factors else _interpolate_axis(node, result, a, axis, interpolation)
        if interpolation.outside is not None:
            column = (-1, *(1,) * (x.ndim - a - 1))
            result = (
                _to_constant(interpolation.outside, x)
                .reshape(column)
                .where(extrapolation_value, result)
                .cast(result.dtype)
            )
    return _narrow(result, x)


def _upsample_periodic(x: Tensor, patterns: Mapping[int, PeriodicWeights]) -> Tensor:
    """Upsample axes by integer factors, as weighted sums of shifted neighbors without index
    tables.
    """
    if not patterns:
        return x
    padded = x
    for axis_index, pattern in patterns.items():
        n_leading, n_trailing = -pattern.first, pattern.first + pattern.weights.shape[1] - 1
        size = x.shape[axis_index]
        # Clamped indices are copies of the outermost elements.
        first = _cut(padded, axis_index, 0, 1)
        last = _cut(padded, axis_index, size - 1, size)
        padded = Tensor.concat(
            [*[first] * n_leading, padded, *[last] * n_trailing], axis=axis_index
        )
    # Stored, since each neighbor below reads it and would evaluate the concatenation again.
    padded = padded.contiguous()
    # From the last axis: inserting one does not move the axes before it.
    for axis_index in sorted(patterns, reverse=True):
        size, weights = x.shape[axis_index], patterns[axis_index].weights
        total: Tensor | None = None
        for tap in range(weights.shape[1]):
            factor = _to_constant(weights[:, tap], x).cast(x.dtype.part)
            term = _cut(padded, axis_index, tap, tap + size).unsqueeze(axis_index + 1)
            term = term.mul(factor.reshape(-1, *(1,) * (padded.ndim - axis_index - 1)))
            total = term if total is None else total.add(term)
        assert total is not None
        padded = total
    return _join_axes(
        padded,
        x.shape,
        {axis_index: pattern.weights.shape[0] for axis_index, pattern in patterns.items()},
    )


def _repeat_elements(x: Tensor, factors: Mapping[int, int]) -> Tensor:
    """Repeat each element along axes."""
    if not factors:
        return x
    expanded = x
    for axis_index in sorted(factors, reverse=True):
        expanded = expanded.unsqueeze(axis_index + 1)
    shape = [
        size
        for axis_index, size_ in enumerate(x.shape)
        for size in (size_, *([factors[axis_index]] if axis_index in factors else []))
    ]
    return _join_axes(expanded.expand(*shape), x.shape, factors)


def _join_axes(x: Tensor, sizes: Sequence[Any], factors: Mapping[int, int]) -> Tensor:
    """Merge each upsampled axis with its axis of repetitions.

    The input is stored first. Otherwise each reader would compute from its index the element and
    the repetition."""
    return x.contiguous().reshape(
        *(size * factors.get(axis_index, 1) for axis_index, size in enumerate(sizes))
    )


def _cut(x: Tensor, axis: int, start: Any, end: Any) -> Tensor:
    return x.shrink(*((start, end) if axis_index == axis else None for axis_index in range(x.ndim)))


def _widen(x: Tensor) -> Tensor:
    """Convert to a dtype for weighted sums."""
    if x.dtype.is_float or x.dtype.is_complex:
        return x.cast("float32") if x.dtype.itemsize < 4 else x
    return x.cast("float64" if x.dtype.itemsize > 2 else "float32")


def _narrow(result: Tensor, x: Tensor) -> Tensor:
    """Convert `result` to the dtype of `x`. Integers are rounded and clamped."""
    if not x.dtype.is_int or result.dtype == x.dtype:
        return result.cast(x.dtype)
    # float64 does not represent the largest 64-bit integers; the cast saturates there.
    return result.round().clip(float(x.dtype.min), float(x.dtype.max)).cast(x.dtype)


def _interpolate_axis(
    node: Call, x: Tensor, axis_index: int, axis: Axis, interpolation: Interpolation
) -> Tensor:
    """Weighted sums of elements along an axis."""
    indices, weights = interpolation.indices, interpolation.weights
    if weights is None:
        return _gather_nearest(node, x, axis_index, axis, indices[:, 0])
    _get_known_size(node, x, axis_index)
    dtype = x.dtype.part
    width = indices.shape[1]
    column = (-1, *(1,) * (x.ndim - axis_index - 1))
    # Few taps unroll to separate gathers; many, as for antialiased downsampling, are one gather and
    # a reduction.
    if width > 4:
        factors = _to_constant(weights, x).cast(dtype).reshape(axis.output_size, width, *column[1:])
        return x.take(_to_constant(indices, x), axis_index).mul(factors).sum(axis_index + 1)
    total: Tensor | None = None
    for tap in range(width):
        factor = _to_constant(weights[:, tap], x).cast(dtype).reshape(column)
        term = x.take(_to_constant(indices[:, tap], x), axis_index).mul(factor)
        total = term if total is None else total.add(term)
    assert total is not None
    return total


def _count_repeats(axis: Axis, interpolation: Interpolation) -> int:
    """Number of repetitions of each element, if the result is the input with repeated elements;
    otherwise 0.
    """
    factor = axis.output_size // axis.input_size
    if interpolation.weights is not None or axis.output_size != factor * axis.input_size:
        return 0
    return (
        factor
        if (interpolation.indices[:, 0] == np.arange(axis.output_size) // factor).all()
        else 0
    )


def _gather_nearest(
    node: Call, x: Tensor, axis_index: int, axis: Axis, indices: np.ndarray
) -> Tensor:
    """One element for each index: a strided slice for evenly spaced indices, otherwise a gather."""
    _get_known_size(node, x, axis_index)
    step = axis.input_size // axis.output_size
    # A slice is a view, which needs no kernel and no table of indices.
    if step and (indices == indices[0] + step * np.arange(axis.output_size)).all():
        cut = slice(int(indices[0]), int(indices[-1]) + 1, step)
        return x[(*(slice(None),) * axis_index, cut)]
    return x.take(_to_constant(indices, x), axis_index)


def _to_constant(values: np.ndarray, like: Tensor) -> Tensor:
    """Tensor of constants on the device of `like`.

    Floats become float32, or float64 if `like` is wider.
    """
    # Constants of a wider dtype would make a kernel compute in it.
    wide = like.dtype.part.itemsize > 4 and like.dtype.part.is_float
    elements = (
        values.astype(np.float64 if wide else np.float32) if values.dtype.kind == "f" else values
    )
    return Tensor.from_numpy(np.ascontiguousarray(elements)).to(str(like.device))


def _make_simple_options(mode: str) -> ResizeOptions:
    """Options of versions before 11, which do not define coordinates. They follow onnxruntime.

    Coordinates are asymmetric. Nearest mode rounds down for upsampling and up for downsampling.
    """
    # Early versions named the mode by the number of axes.
    name = "linear" if mode in ("linear", "bilinear", "trilinear") else mode
    return ResizeOptions(name, "asymmetric", "simple")


@operator("Upsample", since=9)
@operator("Resize", since=10)
def resize_since_10(node: Call, x: Tensor, scales: Known, *, mode: str = "nearest") -> Tensor:
    """Resize of version 10 and Upsample of version 9, with scales as an operand."""
    return upsample(node, x, scales=[float(scale) for scale in scales], mode=mode)


@operator("Upsample", since=7)
def upsample(node: Call, x: Tensor, *, scales: list[float], mode: str = "nearest") -> Tensor:
    """Upsample of version 7, with scales as an attribute."""
    if len(scales) != x.ndim:
        raise node.refuse(f"expected {x.ndim} scales, one per axis, got {len(scales)}")
    plan = _plan_scales(x, range(x.ndim), np.array(scales))
    return _resize_axes(node, x, plan, _make_simple_options(mode))


@operator("Upsample")
def upsample_since_1(
    node: Call, x: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest"
) -> Tensor:
    """Upsample of version 1, with a scale for each of height and width."""
    return upsample(node, x, scales=[1.0] * (x.ndim - 2) + [height_scale, width_scale], mode=mode)
