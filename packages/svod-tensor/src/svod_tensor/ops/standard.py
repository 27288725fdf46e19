"""What the array API standard and numpy have besides: their other names, and what is made of other operations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Self

from svod_dtype import bool_, float64, int16, int32, int64, promote_types
from svod_ir.build import make_gather
from svod_ir.errors import OperandError, ShapeError
from svod_ir.sizes import max_size, product
from svod_ir.uop import SInt
from svod_tensor.ops.distributions import Distributions
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.sorting import ordered_key
from svod_tensor.shapes import broadcast_shapes, concrete_shape, normalize_axes, normalize_axis

if TYPE_CHECKING:
    from svod_tensor.ops.base import DTypeLike
    from svod_tensor.ops.elementwise import Operand
    from svod_tensor.shapes import Axes

__all__ = ["Standard"]


@operations
class Standard(Distributions):
    """Names and compositions of the array API standard and of numpy."""

    __slots__ = ()

    subtract, multiply, divide, true_divide, negative, power = (
        Distributions.sub, Distributions.mul, Distributions.div, Distributions.div, Distributions.neg, Distributions.pow,
    )  # fmt: skip
    mod, rint, invert, left_shift, right_shift = (
        Distributions.remainder, Distributions.round, Distributions.bitwise_not, Distributions.lshift, Distributions.rshift,
    )  # fmt: skip
    bitwise_invert, bitwise_left_shift, bitwise_right_shift = (
        Distributions.bitwise_not,
        Distributions.lshift,
        Distributions.rshift,
    )
    ravel, permute_dims, unstack = Distributions.flatten, Distributions.permute, Distributions.unbind

    def positive(self) -> Self:
        return self._refuse("positive", bool_).clone()

    def matrix_transpose(self) -> Self:
        """The last two axes exchanged."""
        return self.swapaxes(-1, -2)

    def cbrt(self) -> Self:
        """The cube root, of negative numbers too."""
        x = self._to_float()
        wide = x.cast(float64)
        size = wide.abs()
        # Scaled by a cube, so that the cube of the root is a normal number.
        is_small = size.lt(2.0**-960)
        size = is_small.where(size.mul(2.0**99), size)
        root = size.pow(1.0 / 3.0)
        root = root.sub(root.mul(root).mul(root).sub(size).div(root.mul(root).mul(3.0)))
        root = is_small.where(root.mul(2.0**-33), root)
        has_none = wide.eq(0).logical_or(wide.isfinite().logical_not())
        return has_none.where(wide, wide.lt(0).where(root.neg(), root)).cast(x.dtype)

    def fmod(self, other: Operand) -> Self:
        """The remainder of division rounded toward zero: it has the sign of this tensor, and is 0 for an integer divided by zero."""
        x, y = self._pair(other)
        if x.dtype.is_float:
            return x.abs().remainder(y.abs()).copysign(x)
        # The size of the smallest integer is none of the dtype.
        rest = x.remainder(y)
        return rest.ne(0).logical_and(rest.lt(0).ne(x.lt(0))).where(rest.sub(y), rest) if x.dtype.is_signed else rest

    def fmax(self, other: Operand) -> Self:
        """The larger of each pair; where one is NaN, the other."""
        x, y = self._pair(other)
        return x.isnan().where(y, y.isnan().where(x, x.maximum(y)))

    def fmin(self, other: Operand) -> Self:
        """The smaller of each pair; where one is NaN, the other."""
        x, y = self._pair(other)
        return x.isnan().where(y, y.isnan().where(x, x.minimum(y)))

    def heaviside(self, at_zero: Operand) -> Self:
        """0 for negative numbers, 1 for positive ones, and `at_zero` for zeros."""
        x, y = self._pair(at_zero)
        x, y = x._to_float(), y._to_float()
        return x.isnan().where(x, x.eq(0).where(y, x.gt(0).cast(x.dtype)))

    @rounds_once
    def deg2rad(self) -> Self:
        """Degrees as radians."""
        return self._to_float().mul(math.pi / 180.0)

    @rounds_once
    def rad2deg(self) -> Self:
        """Radians as degrees."""
        return self._to_float().mul(180.0 / math.pi)

    radians, degrees = deg2rad, rad2deg

    def nextafter(self, other: Operand) -> Self:
        """The next number of the dtype in the direction of `other`."""
        x, y = self._pair(other)
        x, y = x._to_float(), y._to_float()
        signed = {2: int16, 4: int32, 8: int64}.get(x.dtype.itemsize)
        if signed is None:
            raise OperandError(operation="nextafter", found=x.dtype, expected="floats of at least 16 bits")
        bits = x.bitcast(signed)
        # Away from zero, the pattern of a number grows by one; the smallest number has the pattern 1.
        is_away = x.lt(y).eq(x.gt(0))
        stepped = is_away.where(bits.add(1), bits.sub(1)).bitcast(x.dtype)
        smallest = y.bitcast(signed).bitwise_and(signed.min).bitwise_or(1).bitcast(x.dtype)
        moved = x.eq(0).where(smallest, stepped)
        return x.eq(y).where(y, x.isnan().where(x, y.isnan().where(y, moved)))

    @rounds_once
    def diff(self, n: int = 1, axis: int = -1, *, prepend: Self | None = None, append: Self | None = None) -> Self:
        """The differences of neighbours along `axis`, taken `n` times; `prepend` and `append` are joined to it before."""
        axis = normalize_axis("diff", axis, self.ndim)
        if n < 0:
            raise OperandError(operation="diff", found=n, expected="a number of times")
        if n == 0:
            return self.clone()
        parts = [part for part in (prepend, self, append) if part is not None]
        x = type(self).concat(parts, axis) if len(parts) > 1 else self
        (size,) = concrete_shape("diff", (x.shape[axis],))
        for _ in range(min(n, size)):
            (size,) = concrete_shape("diff", (x.shape[axis],))
            last, first = x._slice_axis(axis, min(1, size), size), x._slice_axis(axis, 0, max(size - 1, 0))
            x = last.ne(first) if x.dtype.is_bool else last.sub(first)
        return x.clone() if x is self else x

    def cumulative_sum(
        self, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False
    ) -> Self:
        """`cumsum`, with a 0 before it if `include_initial` holds."""
        return self._with_initial(
            self.cumsum(self._only_axis("cumulative_sum", axis), dtype=dtype), axis, 0, include_initial
        )

    def cumulative_prod(
        self, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False
    ) -> Self:
        """`cumprod`, with a 1 before it if `include_initial` holds."""
        return self._with_initial(
            self.cumprod(self._only_axis("cumulative_prod", axis), dtype=dtype), axis, 1, include_initial
        )

    def _only_axis(self, operation: str, axis: int | None) -> int:
        if axis is None and self.ndim != 1:
            raise ShapeError(operation=operation, shape=self.shape, problem="has not one axis: say which one is meant")
        return normalize_axis(operation, 0 if axis is None else axis, self.ndim)

    def _with_initial(self, x: Self, axis: int | None, value: int, is_wanted: bool) -> Self:
        if not is_wanted:
            return x
        place = normalize_axis("cumulative", 0 if axis is None else axis, x.ndim)
        return x.pad(*((1, 0) if a == place else (0, 0) for a in range(x.ndim)), value=value)

    def trace(self, *, dtype: DTypeLike | None = None) -> Self:
        """The sum of the diagonal of the last two axes."""
        return self.diagonal().sum(-1, dtype=dtype)

    def tensordot(self, other: Self, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Self:
        """The sum of products over `axes`: the last ones of this tensor and the first of `other`, or those of two lists."""
        if isinstance(axes, int):
            if not 0 <= axes <= min(self.ndim, other.ndim):
                raise ShapeError(operation="tensordot", shape=self.shape, problem=f"has no {axes} axes to share")
            axes = tuple(range(self.ndim - axes, self.ndim)), tuple(range(axes))
        left, right = normalize_axes("tensordot", axes[0], self.ndim), normalize_axes("tensordot", axes[1], other.ndim)
        rows, columns = ([a for a in range(t.ndim) if a not in used] for t, used in ((self, left), (other, right)))
        shape = (*(self.shape[a] for a in rows), *(other.shape[a] for a in columns))
        if tuple(self.shape[a] for a in left) != tuple(other.shape[a] for a in right):
            raise ShapeError(
                operation="tensordot", shape=self.shape, problem=f"does not fit {other.shape} along {axes}"
            )
        x = self.permute(*rows, *left).reshape(_count(self, rows), _count(self, left))
        y = other.permute(*right, *columns).reshape(_count(other, right), _count(other, columns))
        return x.matmul(y).reshape(shape)

    def nansum(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The sum without NaNs."""
        return self.isnan().where(0, self).sum(axis, keepdims=keepdims)

    def nanprod(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The product without NaNs."""
        return self.isnan().where(1, self).prod(axis, keepdims=keepdims)

    @rounds_once
    def nanmean(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The mean without NaNs; NaN where there is nothing else."""
        if not self.dtype.is_float:
            return self.mean(axis, keepdims=keepdims)
        count = self.isnan().logical_not().count_nonzero(axis, keepdims=keepdims)
        return self.nansum(axis, keepdims=keepdims).div(count.cast(self.dtype))

    def nanmax(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest element that is no NaN; NaN where there is none."""
        return self._without_nans("max", self.dtype.min, axis, keepdims)

    def nanmin(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest element that is no NaN; NaN where there is none."""
        return self._without_nans("min", self.dtype.max, axis, keepdims)

    def _without_nans(self, operation: Literal["max", "min"], neutral: float, axis: Axes, keepdims: bool) -> Self:
        if not self.dtype.is_float:
            return getattr(self, operation)(axis, keepdims=keepdims)
        found: Self = getattr(self.isnan().where(neutral, self), operation)(axis, keepdims=keepdims)
        return self.isnan().all(axis, keepdims=keepdims).where(math.nan, found)

    def searchsorted(self, values: Operand, side: Literal["left", "right"] = "left") -> Self:
        """Where in this sorted 1-d tensor each of `values` can be inserted: before equal elements, or behind them (`right`)."""
        if self.ndim != 1:
            raise ShapeError(operation="searchsorted", shape=self.shape, problem="is no sorted tensor of one axis")
        wanted = self._wrap(values)
        dtype = promote_types(self.dtype, wanted.dtype)
        (size,) = self.shape
        # Keys compare NaNs too, which come last.
        keys, sought = ordered_key(self.cast(dtype)), ordered_key(wanted.cast(dtype))
        place = sought.zeros_like(dtype=int64)
        step = 1 << max_size(size).bit_length()
        while step := step // 2:
            end = place.add(step)
            key = keys._make(make_gather(keys.uop, end.sub(1).uop, 0), sought)
            is_before = key.lt(sought) if side == "left" else key.le(sought)
            is_inside = end.le(size if isinstance(size, int) else self._make(size.cast(int64)))
            place = is_before.logical_and(is_inside).where(end, place)
        return place

    def isin(self, values: Operand, *, invert: bool = False) -> Self:
        """Whether each element is among `values`."""
        x, y = self._pair(values)
        found = x.unsqueeze(-1).eq(y.flatten()).any(-1)
        return found.logical_not() if invert else found

    @classmethod
    def broadcast_arrays(cls, *tensors: Self) -> tuple[Self, ...]:
        """The tensors, all with the shape that they broadcast to."""
        shape = broadcast_shapes(*(t.shape for t in tensors))
        return tuple(t.broadcast_to(shape) for t in tensors)


def _count(x: Standard, axes: Sequence[int]) -> SInt:
    return product(tuple(x.shape[a] for a in axes))
