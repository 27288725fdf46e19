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
from svod_ir import Op, UOp, make_alu, make_positions, make_reduce_axis
from svod_tensor._shapes import Axes, broadcast_node, normalize_axes, normalize_axis
from svod_tensor.errors import EmptyReductionError
from svod_tensor.ops.base import DTypeLike
from svod_tensor.ops.complex_functions import multiply_all
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import accumulation_dtype
from svod_tensor.ops.theme import Theme

__all__ = ["Reduction", "sum_dtype"]


@operations
class Reduction(Theme):
    """Sums, products, extrema, and the positions of extrema.

    Everywhere: `axis` is one axis, several, or None for all; `keepdims` leaves reduced axes with size 1.
    """

    __slots__ = ()

    def sum(self, axis: Axes = None, *, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The sum, 0 over no elements. Narrow floats are added in float32 and rounded once.

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.
            dtype: of the result and the additions; by default that of this tensor, and of bools and narrow integers
                int32 (uint32).

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).sum(axis=0).tolist()
            [4, 6]
        """
        return self._accumulate("sum", Op.ADD, axis, keepdims, dtype)

    def prod(self, axis: Axes = None, *, keepdims: bool = False, dtype: DTypeLike | None = None) -> Self:
        """The product, 1 over no elements. Narrow floats are multiplied in float32 and rounded once.

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.
            dtype: of the result and the products; by default as for `sum`.

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).prod(axis=1).tolist()
            [2, 12]
        """
        return self._accumulate("prod", Op.MUL, axis, keepdims, dtype)

    def max(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest element, in the dtype of this tensor; NaN if there is a NaN.

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.
            EmptyReductionError: if there are no elements.

        Example:
            >>> Tensor([[1, 5], [3, 4]]).max(axis=1).tolist()
            [5, 4]
        """
        return self._extremum("max", Op.MAX, axis, keepdims)

    amax = max

    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest element, in the dtype of this tensor; NaN if there is a NaN.

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.
            EmptyReductionError: if there are no elements.

        Example:
            >>> Tensor([[1, 5], [3, 4]]).min(axis=1, keepdims=True).tolist()
            [[1], [3]]
        """
        return self._extremum("min", Op.MIN, axis, keepdims)

    amin = min

    def any(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Whether an element is not zero, as bools; False over no elements.

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([[0, 1], [0, 0]]).any(axis=1).tolist()
            [True, False]
        """
        return self.cast(bool_)._reduce("any", Op.MAX, axis, keepdims, empty=False)

    def all(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Whether no element is zero, as bools; True over no elements.

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([[2, 1], [0, 1]]).all(axis=1).tolist()
            [True, False]
        """
        return self.cast(bool_)._reduce("all", Op.MIN, axis, keepdims, empty=True)

    def count_nonzero(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """How many elements are not zero (int64).

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([[0, 5], [3, 4]]).count_nonzero(axis=1).tolist()
            [1, 2]
        """
        return self.cast(bool_).sum(axis, keepdims=keepdims, dtype=int64)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position (int64) of the largest element; of several the first. A NaN counts as the largest.

        Args:
            axis: along which; None for the position among all elements in row-major order.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.
            EmptyReductionError: if there are no elements.

        Example:
            >>> Tensor([[1, 5], [7, 4]]).argmax(axis=1).tolist()
            [1, 0]
        """
        return self._arg_extremum("argmax", Op.MAX, axis, keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position (int64) of the smallest element; of several the first. A NaN counts as the smallest.

        Args:
            axis: along which; None for the position among all elements in row-major order.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.
            EmptyReductionError: if there are no elements.

        Example:
            >>> Tensor([[1, 5], [7, 4]]).argmin().item()
            0
        """
        return self._arg_extremum("argmin", Op.MIN, axis, keepdims)

    def nansum(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The sum without NaNs, in the dtype that `sum` has.

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([1.0, float("nan"), 2.0]).nansum().item()
            3.0
        """
        return self.isnan().where(0, self).sum(axis, keepdims=keepdims)

    def nanprod(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The product without NaNs, in the dtype that `prod` has.

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.

        Example:
            >>> Tensor([3.0, float("nan"), 2.0]).nanprod().item()
            6.0
        """
        return self.isnan().where(1, self).prod(axis, keepdims=keepdims)

    def nanmax(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The largest element that is no NaN, in the dtype of this tensor; NaN where there is none.

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.
            EmptyReductionError: if there are no elements.

        Example:
            >>> Tensor([1.0, float("nan"), 2.0]).nanmax().item()
            2.0
        """
        return self._without_nans("max", self.dtype.min, axis, keepdims)

    def nanmin(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest element that is no NaN, in the dtype of this tensor; NaN where there is none.

        Args:
            axis: one axis, several, or None for all.
            keepdims: whether the axes stay, with size 1.

        Raises:
            AxisError: if there is no such axis.
            EmptyReductionError: if there are no elements.

        Example:
            >>> Tensor([1.0, float("nan"), 2.0]).nanmin().item()
            1.0
        """
        return self._without_nans("min", self.dtype.max, axis, keepdims)

    def _without_nans(self, operation: Literal["max", "min"], neutral: float, axis: Axes, keepdims: bool) -> Self:
        if not self.dtype.is_float:
            return getattr(self, operation)(axis, keepdims=keepdims)
        found: Self = getattr(self.isnan().where(neutral, self), operation)(axis, keepdims=keepdims)
        return self.isnan().all(axis, keepdims=keepdims).where(math.nan, found)

    def _accumulate(self, operation: str, op: Op, axis: Axes, keepdims: bool, dtype: DTypeLike | None) -> Self:
        result = sum_dtype(self.dtype) if dtype is None else to_dtype(dtype)
        wide = self.cast(accumulation_dtype(result))
        if result.is_complex and op is Op.MUL:
            return multiply_all(wide, normalize_axes(operation, axis, self.ndim), keepdims)
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
    if dtype.is_inexact or dtype.itemsize == 8:
        return dtype
    return uint32 if dtype.is_unsigned else int32
