"""Images and signals in another size: what lies between their elements, along one axis after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self, TypeVar

from svod_ir import OperandError, ShapeError
from svod_tensor._shapes import concrete_shape
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.theme import Theme

__all__ = ["Resizing"]

T = TypeVar("T", bound=Theme)


@operations
class Resizing(Theme):
    """Interpolation of tensors of shape (batch, channels, *spatial)."""

    __slots__ = ()

    @rounds_once
    def interpolate(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None, *,
        mode: Literal["nearest", "linear"] = "nearest", align_corners: bool = False,
    ) -> Self:  # fmt: skip
        """The spatial axes, all behind the first two, in another size. Integers become float32 unless the mode is
        `"nearest"`.

        Args:
            size: of each axis; a number is that of all.
            scale_factor: how much longer each becomes, in place of the size.
            mode: `"nearest"` for the element that a place falls into, `"linear"` for straight lines between neighbours
                along each axis (`"bilinear"` of two, in PyTorch's words).
            align_corners: whether the first and last elements stay where they are, for `"linear"`; otherwise an element
                is the middle of its part of the axis.

        Raises:
            ShapeError: if there are no spatial axes, or nothing is left of one.
            OperandError: if there is not one of size and scale for each axis, or the mode is not known.

        Example:
            >>> Tensor([[[1.0, 3.0]]]).interpolate(4, mode="linear").tolist()
            [[[1.0, 1.5, 2.5, 3.0]]]
        """
        n = self.ndim - 2
        if n < 1 or 0 in self.shape[2:]:
            raise ShapeError(operation="interpolate", shape=self.shape, problem="has no spatial axes, or an empty one")
        if (size is None) == (scale_factor is None) or mode not in ("nearest", "linear"):
            found = f"size {size}, scale factor {scale_factor}, mode {mode!r}"
            raise OperandError(
                operation="interpolate", found=found, expected='a size or a scale, "nearest" or "linear"'
            )
        old = concrete_shape("interpolate", self.shape[2:])
        scales = None if scale_factor is None else _each(scale_factor, n)
        new = (
            [int(s) for s in _each(size, n)]
            if scales is None
            else [int(o * s) for o, s in zip(old, scales, strict=True)]
        )
        if min(new) < 1:
            raise ShapeError(operation="interpolate", shape=tuple(new), problem="leaves nothing of an axis")
        x = self if mode == "nearest" else self._to_float()
        for i, (before, after) in enumerate(zip(old, new, strict=True)):
            ratio = before / after if scales is None else 1 / scales[i]
            if mode == "nearest":
                places = [min(int(p * ratio), before - 1) for p in range(after)]
                x = x.take(places, 2 + i)
            elif before != after or scales is not None:
                x = _stretch(x, 2 + i, [_place_between(p, ratio, before, after, align_corners) for p in range(after)])
        return x


def _each(value: float | Sequence[float] | None, n: int) -> tuple[float, ...]:
    values = (value,) * n if isinstance(value, (int, float)) else tuple(value or ())
    if len(values) != n:
        raise OperandError(operation="interpolate", found=value, expected=f"a number for each of {n} axes")
    return values


def _place_between(number: int, ratio: float, before: int, after: int, align_corners: bool) -> float:
    """Where the element of the result lies among those before."""
    if align_corners:
        return number * (before - 1) / (after - 1) if after > 1 else 0.0
    return min(max((number + 0.5) * ratio - 0.5, 0.0), before - 1.0)


def _stretch(x: T, axis: int, places: Sequence[float]) -> T:
    low = [math.floor(p) for p in places]
    high = [math.ceil(p) for p in places]
    column = (-1, *(1,) * (x.ndim - axis - 1))
    weights = type(x)([p - begin for p, begin in zip(places, low, strict=True)], dtype=x.dtype, device=str(x.device))
    below = x.take(low, axis)
    return below.add(x.take(high, axis).sub(below).mul(weights.reshape(column)))
