"""Resizing of tensors of shape (batch, channels, *spatial) by interpolation along each axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from svod_ir import OperandError, ShapeError, format_shape
from svod_tensor._shapes import concrete_shape
from svod_tensor.ops.core.operands import move_beside, to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.neural import cubic_convolution

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "ResizingMode",
    "interpolate",
]


ResizingMode: TypeAlias = Literal[
    "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "cubic", "bicubic", "area"
]
"""Interpolation modes."""

_KINDS: Final = ("nearest", "nearest-exact", "linear", "cubic", "area")
_ALIASES: Final[Mapping[str, tuple[str, int]]] = {
    "bilinear": ("linear", 2),
    "trilinear": ("linear", 3),
    "bicubic": ("cubic", 2),
}
"""PyTorch's names of modes -> the mode along each axis, and the number of axes."""


@operation(test="test_resizing.py::test_linear_interpolation_agrees_with_its_formula")
@reuse_graph
@rounds_once
def interpolate(
    x: Tensor,
    /,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    *,
    mode: ResizingMode = "nearest",
    align_corners: bool = False,
    antialias: bool = False,
) -> Tensor:
    """Resize the spatial axes of `x`, of shape (batch, channels, *spatial), by interpolation. Integers
    become float32 except for nearest modes.

    Args:
        size: output size of each axis; an integer applies to all axes.
        scale_factor: multiplier of each axis, instead of `size`.
        mode: `"nearest"` for the element that contains the start of an output element, or
            `"nearest-exact"` for its center; `"linear"` or `"cubic"` along each axis (PyTorch's names
            `"bilinear"`, `"trilinear"` and `"bicubic"` require that number of axes); `"area"` for
            the mean of all elements that overlap an output element.
        align_corners: whether the centers of the corner elements are aligned, for linear and cubic
            modes; otherwise the outer edges are.
        antialias: whether linear and cubic filters are widened when downsampling.

    Returns:
        A tensor of shape (batch, channels, *size): each size is `size`, or
        `floor(spatial * scale_factor)`.

    Raises:
        ShapeError: if there are no spatial axes, or an output axis is empty.
        OperandError: if not exactly one of `size` and `scale_factor` is given, their length differs
            from the number of spatial axes, or the mode is unknown.

    Example:
        >>> import svod_tensor as sv
        >>> sv.interpolate(sv.Tensor([[[1.0, 3.0]]]), 4, mode="linear").tolist()
        [[[1.0, 1.5, 2.5, 3.0]]]
    """
    n = x.ndim - 2
    if n < 1 or 0 in x.shape[2:]:
        raise ShapeError(
            operation="interpolate",
            shape=x.shape,
            problem=f"expected spatial axes that are not empty, got {format_shape(x.shape)}",
        )
    kind = _resolve_mode(mode, n)
    if (size is None) == (scale_factor is None) or (antialias and kind not in ("linear", "cubic")):
        arguments = f"{size=}, {scale_factor=}, {mode=}, {antialias=}"
        expected = "one of size and scale_factor, and a linear or cubic mode for antialias"
        raise OperandError(operation="interpolate", found=arguments, expected=expected)
    old = concrete_shape("interpolate", x.shape[2:])
    scales = None if scale_factor is None else _each(scale_factor, n)
    new = (
        [int(s) for s in _each(size, n)]
        if scales is None
        else [int(o * s) for o, s in zip(old, scales, strict=True)]
    )
    if min(new) < 1:
        raise ShapeError(
            operation="interpolate",
            shape=tuple(new),
            problem=f"output sizes must be positive: {tuple(new)}",
        )
    x = x if kind.startswith("nearest") else to_float(x)
    for i, (before, after) in enumerate(zip(old, new, strict=True)):
        # As in PyTorch: a scale that was passed is used itself, although the rounded size has
        # another ratio.
        ratio = before / after if scales is None else 1 / scales[i]
        if before != after or ratio != 1:
            x = _resize(
                x, 2 + i, after, ratio, kind, align_corners=align_corners, antialias=antialias
            )
    return x


def _resolve_mode(mode: object, n: int) -> str:
    """Resolve the mode along each axis.

    Raises:
        OperandError: if it is unknown, or requires a different number of axes.
    """
    kind, n_axes = _ALIASES.get(mode, (mode, n)) if isinstance(mode, str) else (mode, n)
    if kind not in _KINDS or n_axes != n:
        expected = ", ".join((*_KINDS, *_ALIASES))
        raise OperandError(
            operation="interpolate",
            found=f"mode={mode!r} for {n} spatial axes",
            expected=f"one of the modes {expected}",
        )
    return cast("str", kind)


def _resize(
    x: Tensor,
    axis: int,
    after: int,
    ratio: float,
    kind: str,
    *,
    align_corners: bool,
    antialias: bool,
) -> Tensor:
    (before,) = concrete_shape("interpolate", (x.shape[axis],))
    if kind.startswith("nearest"):
        shift = 0.5 if kind == "nearest-exact" else 0.0
        return _take_nearest(
            # The rounded product may be the size itself.
            x,
            axis,
            [min(int((p + shift) * ratio), before - 1) for p in range(after)],
        )
    if kind == "area":
        # From the floor to the ceiling: all elements that overlap the output element.
        ranges = [range(p * before // after, -((p + 1) * before // -after)) for p in range(after)]
        return _add_weighted(x, axis, [[(q, 1 / len(span)) for q in span] for span in ranges])
    if antialias:
        step = (
            (before - 1) / (after - 1)
            if align_corners and after > 1
            else 0.0
            if align_corners
            else ratio
        )
        return _add_weighted(
            x, axis, [_antialias_weights(p, step, before, kind) for p in range(after)]
        )
    coordinates = [_source_coordinate(p, ratio, before, after, align_corners) for p in range(after)]
    if kind == "cubic":
        return _add_weighted(x, axis, [_cubic_neighbors(p, before) for p in coordinates])
    return _interpolate_linear(x, axis, [min(max(p, 0.0), before - 1.0) for p in coordinates])


def _each(value: float | Sequence[float] | None, n: int) -> tuple[float, ...]:
    values = (value,) * n if isinstance(value, (int, float)) else tuple(value or ())
    if len(values) != n:
        raise OperandError(
            operation="interpolate", found=value, expected=f"a number or a sequence of {n} numbers"
        )
    return values


def _source_coordinate(
    index: int, ratio: float, before: int, after: int, align_corners: bool
) -> float:
    """Coordinate of an output element in the input, which may be outside of it."""
    if align_corners:
        return index * (before - 1) / (after - 1) if after > 1 else 0.0
    return (index + 0.5) * ratio - 0.5


def _interpolate_linear(x: Tensor, axis: int, coordinates: Sequence[float]) -> Tensor:
    low = [math.floor(coordinate) for coordinate in coordinates]
    high = [math.ceil(coordinate) for coordinate in coordinates]
    column = (-1, *(1,) * (x.ndim - axis - 1))
    distances = [coordinate - begin for coordinate, begin in zip(coordinates, low, strict=True)]
    weights = move_beside(type(x)(distances, dtype=x.dtype.part), x)
    below = x.take(low, axis)
    return below.add(x.take(high, axis).sub(below).mul(weights.reshape(column)))


def _cubic_neighbors(coordinate: float, size: int) -> list[tuple[int, float]]:
    """Indices of the four elements around a coordinate, clamped to the border, and their weights."""
    low = math.floor(coordinate)
    return [
        (
            min(max(low + k, 0), size - 1),
            _cubic_weight(coordinate - low - k, cubic_convolution.SLOPE),
        )
        for k in range(-1, 3)
    ]


def _take_nearest(x: Tensor, axis: int, indices: Sequence[int]) -> Tensor:
    """Take elements along an axis; an integer scale repeats them instead of gathering."""
    (before,) = concrete_shape("interpolate", (x.shape[axis],))
    factor = len(indices) // before
    if factor and list(indices) == [index // factor for index in range(before * factor)]:
        return x.repeat(factor, axis)
    return x.take(indices, axis)


def _antialias_weights(index: int, step: float, size: int, kind: str) -> list[tuple[int, float]]:
    """Indices and weights of an antialiased output element, for a scale of `step` input elements.

    Source: PyTorch, `aten/src/ATen/native/cpu/UpSampleKernel.cpp`, as Pillow's `resize`.
    """
    stretch = max(step, 1.0)
    reach = (2.0 if kind == "cubic" else 1.0) * stretch
    center = step * (index + 0.5)
    begin, end = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), size)
    distances = [(q - center + 0.5) / stretch for q in range(begin, end)]
    weights = [
        _cubic_weight(d, cubic_convolution.ANTIALIAS_SLOPE)
        if kind == "cubic"
        else max(1 - abs(d), 0.0)
        for d in distances
    ]
    return [(q, w / sum(weights)) for q, w in zip(range(begin, end), weights, strict=True)]


def _cubic_weight(distance: float, slope: float) -> float:
    near, far = cubic_convolution.get_pieces(abs(distance), slope)
    return near if abs(distance) <= 1 else far if abs(distance) < 2 else 0.0


def _add_weighted(x: Tensor, axis: int, rows: Sequence[Sequence[tuple[int, float]]]) -> Tensor:
    """For each row of (index, weight) pairs, the weighted sum of elements along an axis."""
    width = max(map(len, rows))
    # Rows at the border have fewer elements: fill with weight 0, so that one gather serves all.
    filled = [[*row, *[(row[-1][0], 0.0)] * (width - len(row))] for row in rows]
    column = (len(rows), width, *(1,) * (x.ndim - axis - 1))
    weights = move_beside(type(x)([[w for _, w in row] for row in filled], dtype=x.dtype.part), x)
    indices = move_beside(type(x)([[q for q, _ in row] for row in filled]), x)
    gathered = x.take(indices, axis)
    return gathered.mul(weights.reshape(column)).sum(axis + 1)
