"""Interpolation of tensors of shape (batch, channels, *spatial) to another size, axis by axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from svod_ir import OperandError, ShapeError, format_shape
from svod_tensor._shapes import concrete_shape
from svod_tensor.ops.core.operands import to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.rounding import rounds_once

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "ResizingMode",
    "interpolate",
]


ResizingMode: TypeAlias = Literal[
    "nearest", "nearest-exact", "linear", "bilinear", "trilinear", "cubic", "bicubic", "area"
]
"""What stands between elements."""

_KINDS: Final = ("nearest", "nearest-exact", "linear", "cubic", "area")
_ALIASES: Final[Mapping[str, tuple[str, int]]] = {
    "bilinear": ("linear", 2),
    "trilinear": ("linear", 3),
    "bicubic": ("cubic", 2),
}
"""PyTorch's name of a mode -> the mode along each axis, and of how many axes."""


@operation(test="test_resizing.py::test_straight_lines_between_neighbours_agree_with_their_formula")
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
    """`x`, resized along its spatial axes, all but the first two. Integers become float32 unless
    the mode copies elements.

    Args:
        size: of each axis; a number is that of all.
        scale_factor: how much longer each becomes, in place of the size.
        mode: `"nearest"` for the element that a place falls into, or `"nearest-exact"` for that
            which its middle falls into; `"linear"` for straight lines between neighbours along each
            axis, `"cubic"` for polynomials through four (PyTorch's names `"bilinear"`,
            `"trilinear"` and `"bicubic"` are for so many axes); `"area"` for means of the elements
            that fall into each place, wholly or not.
        align_corners: whether the first and last elements stay where they are, for lines and
            polynomials; otherwise an element is the middle of its part of the axis.
        antialias: whether lines and polynomials stretch over what an axis loses, where it becomes
            shorter.

    Raises:
        ShapeError: if there are no spatial axes, or nothing is left of one.
        OperandError: if there is not one of size and scale for each axis, or the mode is not known.

    Example:
        >>> import svod_tensor as sv
        >>> sv.interpolate(Tensor([[[1.0, 3.0]]]), 4, mode="linear").tolist()
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
        found = f"size {size}, scale factor {scale_factor}, mode {mode!r}, antialias {antialias}"
        expected = "a size or a scale, and lines or polynomials to antialias"
        raise OperandError(operation="interpolate", found=found, expected=expected)
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
        ratio = before / after if scales is None else 1 / scales[i]
        if before != after or ratio != 1:
            x = _resize(
                x, 2 + i, after, ratio, kind, align_corners=align_corners, antialias=antialias
            )
    return x


def _resolve_mode(mode: object, n: int) -> str:
    """The mode along each axis.

    Raises:
        OperandError: if it is not known, or for another number of axes.
    """
    kind, n_axes = _ALIASES.get(mode, (mode, n)) if isinstance(mode, str) else (mode, n)
    if kind not in _KINDS or n_axes != n:
        expected = ", ".join((*_KINDS, *_ALIASES))
        raise OperandError(
            operation="interpolate",
            found=f"mode {mode!r} for {n} axes",
            expected=f"one of {expected}",
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
            x, axis, [min(int((p + shift) * ratio), before - 1) for p in range(after)]
        )
    if kind == "area":
        parts = [range(p * before // after, -((p + 1) * before // -after)) for p in range(after)]
        return _add_weighted(x, axis, [[(q, 1 / len(part)) for q in part] for part in parts])
    if antialias:
        step = (
            (before - 1) / (after - 1)
            if align_corners and after > 1
            else 0.0
            if align_corners
            else ratio
        )
        return _add_weighted(x, axis, [_spread(p, step, before, kind) for p in range(after)])
    places = [_place_between(p, ratio, before, after, align_corners) for p in range(after)]
    if kind == "cubic":
        return _add_weighted(x, axis, [_list_four(p, before) for p in places])
    return _stretch(x, axis, [min(max(p, 0.0), before - 1.0) for p in places])


def _each(value: float | Sequence[float] | None, n: int) -> tuple[float, ...]:
    values = (value,) * n if isinstance(value, (int, float)) else tuple(value or ())
    if len(values) != n:
        raise OperandError(
            operation="interpolate", found=value, expected=f"a number for each of {n} axes"
        )
    return values


def _place_between(
    number: int, ratio: float, before: int, after: int, align_corners: bool
) -> float:
    """Where the element of the result lies among those before, or before and behind them."""
    if align_corners:
        return number * (before - 1) / (after - 1) if after > 1 else 0.0
    return (number + 0.5) * ratio - 0.5


def _stretch(x: Tensor, axis: int, places: Sequence[float]) -> Tensor:
    low = [math.floor(p) for p in places]
    high = [math.ceil(p) for p in places]
    column = (-1, *(1,) * (x.ndim - axis - 1))
    weights = type(x)(
        [p - begin for p, begin in zip(places, low, strict=True)],
        dtype=x.dtype.part,
        device=str(x.device),
    )
    below = x.take(low, axis)
    return below.add(x.take(high, axis).sub(below).mul(weights.reshape(column)))


def _list_four(place: float, size: int) -> list[tuple[int, float]]:
    """The four elements around a place, of which those behind the borders are the outermost ones,
    and their weights.
    """
    low = math.floor(place)
    return [
        (min(max(low + k, 0), size - 1), _weigh_cubic(place - low - k, -0.75)) for k in range(-1, 3)
    ]


def _take_nearest(x: Tensor, axis: int, places: Sequence[int]) -> Tensor:
    """The elements at `places` along an axis; where each is taken equally often, they are repeated,
    and no position is looked up.
    """
    (before,) = concrete_shape("interpolate", (x.shape[axis],))
    times = len(places) // before
    if times and list(places) == [p // times for p in range(before * times)]:
        return x.repeat(times, axis)
    return x.take(places, axis)


def _spread(number: int, step: float, size: int, kind: str) -> list[tuple[int, float]]:
    """The elements that one of the result is made of where `step` of them come to one, and their
    weights.

    Source: PyTorch, `aten/src/ATen/native/cpu/UpSampleKernel.cpp`, as Pillow's `resize`.
    """
    stretch = max(step, 1.0)
    reach = (2.0 if kind == "cubic" else 1.0) * stretch
    middle = step * (number + 0.5)
    begin, end = max(int(middle - reach + 0.5), 0), min(int(middle + reach + 0.5), size)
    distances = [(q - middle + 0.5) / stretch for q in range(begin, end)]
    weights = [
        _weigh_cubic(d, -0.5) if kind == "cubic" else max(1 - abs(d), 0.0) for d in distances
    ]
    return [(q, w / sum(weights)) for q, w in zip(range(begin, end), weights, strict=True)]


def _weigh_cubic(distance: float, a: float) -> float:
    """Source: R. Keys, Cubic convolution interpolation for digital image processing, 1981."""
    t = abs(distance)
    if t <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return (((t - 5) * t + 8) * t - 4) * a if t < 2 else 0.0


def _add_weighted(x: Tensor, axis: int, rows: Sequence[Sequence[tuple[int, float]]]) -> Tensor:
    """For each row, the sum of the elements along an axis that it names, times their weights."""
    width = max(map(len, rows))
    filled = [[*row, *[(row[-1][0], 0.0)] * (width - len(row))] for row in rows]
    column = (len(rows), width, *(1,) * (x.ndim - axis - 1))
    weights = type(x)(
        [[w for _, w in row] for row in filled], dtype=x.dtype.part, device=str(x.device)
    )
    positions = type(x)([[q for q, _ in row] for row in filled], device=str(x.device))
    found = x.take(positions, axis)
    return found.mul(weights.reshape(column)).sum(axis + 1)
