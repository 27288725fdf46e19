"""Running sums, products and extrema along an axis, and differences of neighbours."""

from __future__ import annotations

from typing import Self, TypeVar

from svod_dtype import int64, to_dtype
from svod_ir import Op, OperandError, ShapeError, make_scan_axis
from svod_tensor._shapes import concrete_shape, normalize_axis
from svod_tensor.ops.base import DTypeLike
from svod_tensor.ops.complex_functions import multiply_running
from svod_tensor.ops.naming import operations
from svod_tensor.ops.reduction import sum_dtype
from svod_tensor.ops.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.theme import Theme

__all__ = ["Cumulative"]

T = TypeVar("T", bound=Theme)


@operations
class Cumulative(Theme):
    """Running reductions and differences."""

    __slots__ = ()

    def cumsum(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """The sums of the first 1, 2, ... elements along an axis, in the shape of this tensor.

        Args:
            axis: along which; None flattens first.
            dtype: of the result and the additions; by default as for `sum`.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).cumsum(0).tolist()
            [[1, 2], [4, 6]]
        """
        return self._scan("cumsum", Op.ADD, axis, dtype)

    def cumprod(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """The products of the first 1, 2, ... elements along an axis, in the shape of this tensor.

        Args:
            axis: along which; None flattens first.
            dtype: of the result and the products; by default as for `prod`.

        Example:
            >>> Tensor([[1, 2], [3, 4]]).cumprod().tolist()
            [1, 2, 6, 24]
        """
        return self._scan("cumprod", Op.MUL, axis, dtype)

    def cummax(self, axis: int) -> Self:
        """The largest of the first 1, 2, ... elements along `axis`, in the shape and dtype of this tensor; a NaN stays the
        largest.

        Example:
            >>> Tensor([1, 3, 2]).cummax(0).tolist()
            [1, 3, 3]
        """
        return self._scan("cummax", Op.MAX, axis, self.dtype)

    def cummin(self, axis: int) -> Self:
        """The smallest of the first 1, 2, ... elements along `axis`, in the shape and dtype of this tensor; a NaN stays
        the smallest.

        Example:
            >>> Tensor([3, 1, 2]).cummin(0).tolist()
            [3, 1, 1]
        """
        return self._scan("cummin", Op.MIN, axis, self.dtype)

    def cumargmax(self, axis: int) -> Self:
        """Where the largest of the first 1, 2, ... elements along `axis` is, in int64: the first of several, or the first NaN.

        Example:
            >>> Tensor([1, 3, 2, 3, 4]).cumargmax(0).tolist()
            [0, 1, 1, 1, 4]
        """
        return self._scan_extrema(self.cummax(axis), normalize_axis("cumargmax", axis, self.ndim))

    def cumargmin(self, axis: int) -> Self:
        """Where the smallest of the first 1, 2, ... elements along `axis` is, in int64: the first of several, or the first NaN.

        Example:
            >>> Tensor([3, 1, 2, 1]).cumargmin(0).tolist()
            [0, 1, 1, 1]
        """
        return self._scan_extrema(self.cummin(axis), normalize_axis("cumargmin", axis, self.ndim))

    def _scan_extrema(self, extrema: Self, axis: int) -> Self:
        """Where each of the running extrema first stands: it is another than the one before, and the first NaN is one."""
        n = self.shape[axis]
        if self.size == 0 or n == 1:
            return self.zeros_like(dtype=int64)
        now, before = extrema._slice_axis(axis, 1, n), extrema._slice_axis(axis, 0, n - 1)
        is_new = now.ne(before).logical_and(before.ne(before).logical_not())
        column = (1,) * (self.ndim - 1 - axis)
        places = type(self).arange(1, n, dtype=int64, device=str(self.device)).reshape(-1, *column)
        first = (1, 0)
        found = is_new.where(places, 0).pad(*(first if a == axis else (0, 0) for a in range(self.ndim)))
        return found.cummax(axis)

    def _scan(self, operation: str, op: Op, axis: int | None, dtype: DTypeLike | None) -> Self:
        if axis is None:
            return self.flatten()._scan(operation, op, 0, dtype)
        axis = normalize_axis(operation, axis, self.ndim)
        result = sum_dtype(self.dtype) if dtype is None else to_dtype(dtype)
        wide = self.cast(accumulation_dtype(result) if op in (Op.ADD, Op.MUL) else result)
        if self.size == 0 or self.shape[axis] == 1:
            return wide.cast(result)
        if result.is_complex and op is Op.MUL:
            return multiply_running(wide, axis)
        return self._make(make_scan_axis(wide.uop, op, axis).cast(result))

    def cumulative_sum(
        self, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False
    ) -> Self:
        """`cumsum` as the array API standard has it.

        Args:
            axis: along which; it may be left out where there is one axis.
            dtype: of the result and the additions; by default as for `sum`.
            include_initial: whether a 0 stands before the sums, so that the axis is longer by one.

        Raises:
            ShapeError: if the axis is left out where there are several.

        Example:
            >>> Tensor([1, 2, 3]).cumulative_sum(include_initial=True).tolist()
            [0, 1, 3, 6]
        """
        return self._with_initial(
            self.cumsum(self._only_axis("cumulative_sum", axis), dtype=dtype), axis, 0, include_initial
        )

    def cumulative_prod(
        self, axis: int | None = None, *, dtype: DTypeLike | None = None, include_initial: bool = False
    ) -> Self:
        """`cumprod` as the array API standard has it.

        Args:
            axis: along which; it may be left out where there is one axis.
            dtype: of the result and the products; by default as for `prod`.
            include_initial: whether a 1 stands before the products, so that the axis is longer by one.

        Raises:
            ShapeError: if the axis is left out where there are several.

        Example:
            >>> Tensor([2, 3, 4]).cumulative_prod(include_initial=True).tolist()
            [1, 2, 6, 24]
        """
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
        return x.pad(*((1, 0) if a == place else (0, 0) for a in range(x.ndim)), constant_values=value)

    @rounds_once
    def diff(self, n: int = 1, axis: int = -1, *, prepend: Self | None = None, append: Self | None = None) -> Self:
        """The differences of neighbours along an axis, which is shorter by `n` then; of bools, whether they differ.

        Args:
            n: how often differences are taken.
            axis: along which.
            prepend: joined before the elements, along `axis`.
            append: joined behind them.

        Raises:
            OperandError: if `n` is negative.

        Example:
            >>> Tensor([1, 4, 9, 16]).diff().tolist()
            [3, 5, 7]
            >>> Tensor([1, 4, 9, 16]).diff(2).tolist()
            [2, 2]
        """
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
