"""Reductions over axes.

Sums and products of integers have the default dtype of integers, int32 (uint32 of unsigned ones), or int64 (uint64) where
they have it already; `sum(dtype="int64")` adds in a wider one. float16, bfloat16 and float8 accumulate in float32 and are
rounded once, at the end. Positions (argmax and argmin) are int64; they give the first occurrence, and a NaN counts as the
extremum.
"""

from __future__ import annotations

import math
from typing import Literal, Self

from svod_dtype import DType, bool_, int32, int64, to_dtype, uint32
from svod_ir.build import make_alu, make_reduce_axis
from svod_ir.concat import make_positions
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor.errors import EmptyReductionError
from svod_tensor.ops.base import DTypeLike
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import accumulation_dtype
from svod_tensor.ops.theme import Theme
from svod_tensor.shapes import Axes, broadcast_node, normalize_axes, normalize_axis

__all__ = ["Reduction", "sum_dtype"]


@operations
class Reduction(Theme):
    """Sums, products, extrema, and where these are.

    Everywhere: `axis` is one axis, several, or None for all; `keepdims` leaves reduced axes with size 1.
    """

    __slots__ = ()

    def sum(self, axis: Axes = None, *, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The sum, 0 over no elements; `dtype` is that of the result and of the additions."""
        return self._accumulate("sum", Op.ADD, axis, keepdims, dtype)

    def prod(self, axis: Axes = None, *, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The product, 1 over no elements."""
        return self._accumulate("prod", Op.MUL, axis, keepdims, dtype)

    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest element; NaN if there is a NaN."""
        return self._extremum("max", Op.MAX, axis, keepdims)

    amax = max

    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest element; NaN if there is a NaN."""
        return self._extremum("min", Op.MIN, axis, keepdims)

    amin = min

    def any(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Whether an element is not zero; False over no elements."""
        return self.cast(bool_)._reduce("any", Op.MAX, axis, keepdims, empty=False)

    def all(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Whether no element is zero; True over no elements."""
        return self.cast(bool_)._reduce("all", Op.MIN, axis, keepdims, empty=True)

    def count_nonzero(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """How many elements are not zero (int64)."""
        return self.cast(bool_).sum(axis, keepdims=keepdims, dtype=int64)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position of the largest element along `axis`, or among all elements in row-major order."""
        return self._arg_extremum("argmax", Op.MAX, axis, keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position of the smallest element along `axis`, or among all elements in row-major order."""
        return self._arg_extremum("argmin", Op.MIN, axis, keepdims)

    def nansum(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The sum without NaNs."""
        return self.isnan().where(0, self).sum(axis, keepdims=keepdims)

    def nanprod(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The product without NaNs."""
        return self.isnan().where(1, self).prod(axis, keepdims=keepdims)

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

    def _accumulate(self, operation: str, op: Op, axis: Axes, keepdims: bool, dtype: DTypeLike | None) -> Self:
        result = sum_dtype(self.dtype) if dtype is None else to_dtype(dtype)
        wide = self.cast(accumulation_dtype(result))
        return wide._reduce(operation, op, axis, keepdims, empty=int(op is Op.MUL)).cast(result)

    def _extremum(self, operation: str, op: Op, axis: Axes, keepdims: bool) -> Self:
        for a in normalize_axes(operation, axis, self.ndim):
            if self.shape[a] == 0:
                raise EmptyReductionError(operation=operation, shape=self.shape, axis=a)
        return self._reduce(operation, op, axis, keepdims, empty=0)

    def _reduce(self, operation: str, op: Op, axis: Axes, keepdims: bool, *, empty: int) -> Self:
        axes = normalize_axes(operation, axis, self.ndim)
        kept = tuple(1 if a in axes else s for a, s in enumerate(self.shape))
        if any(isinstance(s, int) and s == 0 for s in self.shape):
            reduced = self._make(broadcast_node(UOp.const(self.dtype, empty), kept))
        else:
            reduced = self._make(make_reduce_axis(self.uop, op, axes))
        return reduced if keepdims else reduced.squeeze(axis)

    def _arg_extremum(self, operation: str, op: Op, axis: int | None, keepdims: bool) -> Self:
        if axis is None:
            result = self.flatten()._arg_extremum(operation, op, 0, False)
            return result.reshape((1,) * self.ndim) if keepdims else result
        axis = normalize_axis(operation, axis, self.ndim)
        peak = self._extremum(operation, op, axis, True)
        size = self.shape[axis]
        # If there is a NaN the peak is NaN, and equals nothing; otherwise no element is NaN.
        found = self.eq(peak).logical_or(self.isnan()) if self.dtype.is_float else self.eq(peak)
        position = make_positions(self.shape, axis)
        last = (size - 1).cast(position.dtype) if isinstance(size, UOp) else UOp.const(position.dtype, size - 1)
        first = make_reduce_axis(make_alu(Op.WHERE, found.uop, position, last), Op.MIN, (axis,))
        result = self._make(first.cast(int64))
        return result if keepdims else result.squeeze(axis)


def sum_dtype(dtype: DType) -> DType:
    """Source: the array API standard, `sum`."""
    if dtype.is_float or dtype.itemsize == 8:
        return dtype
    return uint32 if dtype.is_unsigned else int32
