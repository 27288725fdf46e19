"""Tensors in another size: Resize, and Upsample before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from svod_onnx._interpolation import (
    Axis,
    Filter,
    Interpolation,
    PeriodicWeights,
    find_periodic_weights,
    make_interpolation,
)
from svod_onnx._registry import Known, operator
from svod_onnx._trace import Call
from svod_tensor import Tensor

__all__ = ["ResizeAttributes", "resize", "resize_since_10", "upsample", "upsample_since_1"]

_STAND_IN: Final = 12
"""A size by which it is seen what becomes of an axis whose size is not known yet."""

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
    numbers = list(range(x.ndim)) if attributes.axes is None else [axis % x.ndim for axis in attributes.axes]
    how = Filter(
        attributes.mode,
        attributes.coordinate_transformation_mode,
        attributes.nearest_mode,
        attributes.cubic_coeff_a,
        bool(attributes.exclude_outside),
        bool(attributes.antialias),
        keeps_fraction=node.version >= 19,
    )
    if attributes.antialias and attributes.mode == "nearest":
        raise node.refuse("has attribute 'antialias', and takes the nearest elements")
    has_scales, has_sizes = scales is not None and scales.size > 0, sizes is not None and sizes.size > 0
    if has_scales == has_sizes:
        raise node.refuse("has_output either scales or sizes")
    given = scales if has_scales else sizes
    assert given is not None
    if given.size != len(numbers):
        raise node.refuse(f"has {given.size} scales or sizes for {len(numbers)} axes")
    if has_scales:
        plan = _plan_scales(x, numbers, given)
    else:
        plan = _plan_sizes(node, x, numbers, [int(size) for size in given], attributes.keep_aspect_ratio_policy)
    if attributes.coordinate_transformation_mode == "tf_crop_and_resize":
        if roi is None or roi.size != 2 * len(numbers):
            raise node.refuse(f"has_output a region of {2 * len(numbers)} numbers")
        bounds = zip(roi[: len(numbers)], roi[len(numbers) :], strict=True)
        plan = {
            number: Axis(axis.before, axis.after, axis.scale, float(begin), float(end))
            for (number, axis), (begin, end) in zip(plan.items(), bounds, strict=True)
        }
    return _resize_axes(node, x, plan, how, attributes.extrapolation_value)


def _plan_scales(x: Tensor, axes: Sequence[int], scales: np.ndarray) -> dict[int, Axis]:
    """What becomes of each axis: the sizes are rounded down from products in float32."""
    plan: dict[int, Axis] = {}
    for number, scale in zip(axes, scales.astype(np.float32), strict=True):
        before: Any = x.shape[number]
        if not isinstance(before, int):
            before = _STAND_IN
        plan[number] = Axis(before, int(np.floor(np.float32(before) * scale)), float(scale))
    return plan


def _plan_sizes(node: Call, x: Tensor, axes: Sequence[int], sizes: Sequence[int], policy: str) -> dict[int, Axis]:
    """What becomes of each axis by the wanted sizes, of which some are not reached where the proportions stay."""
    before = [_get_size(node, x, number) for number in axes]
    ratios = [after / old if old else 1.0 for old, after in zip(before, sizes, strict=True)]
    if policy == "stretch":
        rows = zip(axes, before, sizes, ratios, strict=True)
        return {number: Axis(old, after, ratio) for number, old, after, ratio in rows}
    if policy not in _POLICIES:
        raise node.refuse(f"attribute 'keep_aspect_ratio_policy' is {policy!r}")
    scale = _POLICIES[policy](ratios)
    return {number: Axis(old, int(scale * old + 0.5), scale) for number, old in zip(axes, before, strict=True)}


def _get_size(node: Call, x: Tensor, axis: int) -> int:
    size = x.shape[axis]
    if not isinstance(size, int):
        raise node.refuse(f"resizes axis {axis}, whose size is not known yet")
    return size


def _resize_axes(node: Call, x: Tensor, plan: dict[int, Axis], how: Filter, beyond: float = 0.0) -> Tensor:
    """One axis after the other, in floats that hold the elements, and rounded once."""
    kept = {
        number: axis
        for number, axis in plan.items()
        if axis.before != axis.after or (axis.begin, axis.end) != (0.0, 1.0) or abs(axis.scale - 1) > 1e-9
    }
    for number, axis in kept.items():
        if axis.after < 0 or (axis.after > 0 and not (axis.before > 0 and axis.scale > 0)):
            raise node.refuse(f"makes {axis.after} elements of {axis.before} along axis {number}")
    if any(axis.after == 0 for axis in kept.values()):
        shape = [kept[number].after if number in kept else size for number, size in enumerate(x.shape)]
        return Tensor.zeros(*shape, dtype=x.dtype, device=str(x.device))
    result = x if how.mode == "nearest" else _widen(x)
    patterns = {number: find_periodic_weights(axis.scale, how) for number, axis in kept.items()}
    even = {number: pattern for number, pattern in patterns.items() if pattern is not None}
    result = _repeat_patterns(result, even)
    mixtures = {number: make_interpolation(axis, how) for number, axis in kept.items() if number not in even}
    times = {number: n for number, mixture in mixtures.items() if (n := _count_repeats(kept[number], mixture))}
    result = _repeat_elements(result, times)
    for number, mixture in mixtures.items():
        axis = kept[number]
        result = result if number in times else _mix(node, result, number, axis, mixture)
        if mixture.outside is not None:
            column = (-1, *(1,) * (x.ndim - number - 1))
            result = _to_constant(mixture.outside, x).reshape(column).where(beyond, result).cast(result.dtype)
    return _narrow(result, x)


def _repeat_patterns(x: Tensor, patterns: Mapping[int, PeriodicWeights]) -> Tensor:
    """Axes that become a whole number of times as long: sums of weighted neighbours, which need no table of positions."""
    if not patterns:
        return x
    padded = x
    for number, pattern in patterns.items():
        before, behind = -pattern.first, pattern.first + pattern.weights.shape[1] - 1
        size = x.shape[number]
        first = _cut(padded, number, 0, 1)
        last = _cut(padded, number, size - 1, size)
        padded = Tensor.concat([*[first] * before, padded, *[last] * behind], axis=number)
    padded = padded.contiguous()
    for number in sorted(patterns, reverse=True):
        size, weights = x.shape[number], patterns[number].weights
        total: Tensor | None = None
        for place in range(weights.shape[1]):
            share = _to_constant(weights[:, place], x).cast(x.dtype.part)
            term = _cut(padded, number, place, place + size).unsqueeze(number + 1)
            term = term.mul(share.reshape(-1, *(1,) * (padded.ndim - number - 1)))
            total = term if total is None else total.add(term)
        assert total is not None
        padded = total
    return _join_axes(padded, x.shape, {number: pattern.weights.shape[0] for number, pattern in patterns.items()})


def _repeat_elements(x: Tensor, times: Mapping[int, int]) -> Tensor:
    """Each element so many times along axes."""
    if not times:
        return x
    wide = x
    for number in sorted(times, reverse=True):
        wide = wide.unsqueeze(number + 1)
    shape = [
        size for number, each in enumerate(x.shape) for size in (each, *([times[number]] if number in times else []))
    ]
    return _join_axes(wide.expand(*shape), x.shape, times)


def _join_axes(x: Tensor, before: Sequence[Any], times: Mapping[int, int]) -> Tensor:
    """Axes that have become longer, of which each element has an axis of its own. Stored before they are one: what reads the
    result would compute from each position to which element it belongs."""
    return x.contiguous().reshape(*(size * times.get(number, 1) for number, size in enumerate(before)))


def _cut(x: Tensor, axis: int, begin: Any, end: Any) -> Tensor:
    return x.shrink(*((begin, end) if number == axis else None for number in range(x.ndim)))


def _widen(x: Tensor) -> Tensor:
    """`x` in a dtype that sums of weighted elements are computed in."""
    if x.dtype.is_float or x.dtype.is_complex:
        return x.cast("float32") if x.dtype.itemsize < 4 else x
    return x.cast("float64" if x.dtype.itemsize > 2 else "float32")


def _narrow(result: Tensor, x: Tensor) -> Tensor:
    """`result` in the dtype of `x`; to integers it is rounded, and brought into their range."""
    if not x.dtype.is_int or result.dtype == x.dtype:
        return result.cast(x.dtype)
    # The largest numbers of 64 bits are no float64; those above it are cut off by the cast.
    return result.round().clip(float(x.dtype.min), float(x.dtype.max)).cast(x.dtype)


def _mix(node: Call, x: Tensor, number: int, axis: Axis, mixture: Interpolation) -> Tensor:
    """The sums of weighted elements along an axis."""
    positions, weights = mixture.positions, mixture.weights
    if weights is None:
        return _choose(node, x, number, axis, positions[:, 0])
    _get_size(node, x, number)
    part = x.dtype.part
    width = positions.shape[1]
    column = (-1, *(1,) * (x.ndim - number - 1))
    if width > 4:
        shares = _to_constant(weights, x).cast(part).reshape(axis.after, width, *column[1:])
        return x.take(_to_constant(positions, x), number).mul(shares).sum(number + 1)
    total: Tensor | None = None
    for place in range(width):
        share = _to_constant(weights[:, place], x).cast(part).reshape(column)
        term = x.take(_to_constant(positions[:, place], x), number).mul(share)
        total = term if total is None else total.add(term)
    assert total is not None
    return total


def _count_repeats(axis: Axis, mixture: Interpolation) -> int:
    """How often each element is repeated, in their order; 0 where the result is not made so."""
    n_each = axis.after // axis.before
    if mixture.weights is not None or axis.after != n_each * axis.before:
        return 0
    return n_each if (mixture.positions[:, 0] == np.arange(axis.after) // n_each).all() else 0


def _choose(node: Call, x: Tensor, number: int, axis: Axis, positions: np.ndarray) -> Tensor:
    """One element for each position: by steps of one size where they are even, which needs no table of them."""
    _get_size(node, x, number)
    step = axis.before // axis.after
    if step and (positions == positions[0] + step * np.arange(axis.after)).all():
        cut = slice(int(positions[0]), int(positions[-1]) + 1, step)
        return x[(*(slice(None),) * number, cut)]
    return x.take(_to_constant(positions, x), number)


def _to_constant(values: np.ndarray, like: Tensor) -> Tensor:
    """A tensor of these numbers, where `like` is; of floats in float32 unless it has more."""
    wide = like.dtype.part.itemsize > 4 and like.dtype.part.is_float
    kept = values.astype(np.float64 if wide else np.float32) if values.dtype.kind == "f" else values
    return Tensor.from_numpy(np.ascontiguousarray(kept)).to(str(like.device))


def _make_simple_filter(mode: str) -> Filter:
    """What the versions before 11 mean, which say nothing of places: an element stays where it begins, and where an axis loses
    elements the nearest is the next one, as in onnxruntime."""
    name = "linear" if mode in ("linear", "bilinear", "trilinear") else mode
    return Filter(name, "asymmetric", "simple")


@operator("Upsample", since=9)
@operator("Resize", since=10)
def resize_since_10(node: Call, x: Tensor, scales: Known, *, mode: str = "nearest") -> Tensor:
    return upsample(node, x, scales=[float(scale) for scale in scales], mode=mode)


@operator("Upsample", since=7)
def upsample(node: Call, x: Tensor, *, scales: list[float], mode: str = "nearest") -> Tensor:
    if len(scales) != x.ndim:
        raise node.refuse(f"has {len(scales)} scales for a tensor of shape {x.shape}")
    plan = _plan_scales(x, range(x.ndim), np.array(scales))
    return _resize_axes(node, x, plan, _make_simple_filter(mode))


@operator("Upsample")
def upsample_since_1(
    node: Call, x: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest"
) -> Tensor:
    return upsample(node, x, scales=[1.0] * (x.ndim - 2) + [height_scale, width_scale], mode=mode)
