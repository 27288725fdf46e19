"""Running sums, products and extrema along an axis, and differences of neighbours."""

from __future__ import annotations

from typing import Self

from svod_dtype import to_dtype
from svod_ir.build import make_scan_axis
from svod_ir.errors import OperandError, ShapeError
from svod_ir.ops import Op
from svod_tensor.ops.base import DTypeLike
from svod_tensor.ops.naming import operations
from svod_tensor.ops.reduction import sum_dtype
from svod_tensor.ops.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.theme import Theme
from svod_tensor.shapes import concrete_shape, normalize_axis

__all__ = ["Cumulative"]


@operations
class Cumulative(Theme):
    """Running reductions and differences."""

    __slots__ = ()

    def cumsum(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """The sums of the first 1, 2, ... elements along `axis`; None flattens first."""
        return self._scan("cumsum", Op.ADD, axis, dtype)

    def cumprod(self, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Self:
        """The products of the first 1, 2, ... elements along `axis`; None flattens first."""
        return self._scan("cumprod", Op.MUL, axis, dtype)

    def cummax(self, axis: int) -> Self:
        """The largest of the first 1, 2, ... elements along `axis`."""
        return self._scan("cummax", Op.MAX, axis, self.dtype)

    def cummin(self, axis: int) -> Self:
        """The smallest of the first 1, 2, ... elements along `axis`."""
        return self._scan("cummin", Op.MIN, axis, self.dtype)

    def _scan(self, operation: str, op: Op, axis: int | None, dtype: DTypeLike | None) -> Self:
        if axis is None:
            return self.flatten()._scan(operation, op, 0, dtype)
        axis = normalize_axis(operation, axis, self.ndim)
        result = sum_dtype(self.dtype) if dtype is None else to_dtype(dtype)
        wide = self.cast(accumulation_dtype(result) if op in (Op.ADD, Op.MUL) else result)
        if self.size == 0 or self.shape[axis] == 1:
            return wide.cast(result)
        return self._make(make_scan_axis(wide.uop, op, axis).cast(result))

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
        return x.pad(*((1, 0) if a == place else (0, 0) for a in range(x.ndim)), constant_values=value)

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
