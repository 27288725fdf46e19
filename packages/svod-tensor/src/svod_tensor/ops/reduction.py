"""Reductions over axes, and running reductions along one.

Sums and products of integers have the default dtype of integers, int32 (uint32 of unsigned ones), or int64 (uint64) where
they have it already; `sum(dtype="int64")` adds in a wider one. float16, bfloat16 and float8 accumulate in float32 and are
rounded once, at the end. Positions (argmax and argmin) are int64; they give the first occurrence, and a NaN counts as the
extremum.
"""

from __future__ import annotations

import math
from typing import Literal, Self

from svod_dtype import DType, bool_, float64, int32, int64, to_dtype, uint32
from svod_ir.build import make_alu, make_reduce_axis, make_scan_axis
from svod_ir.concat import make_positions
from svod_ir.errors import AxisError, OperandError
from svod_ir.ops import Op
from svod_ir.sizes import product
from svod_ir.uop import UOp
from svod_tensor.errors import EmptyReductionError
from svod_tensor.ops.base import DTypeLike
from svod_tensor.ops.naming import operations
from svod_tensor.ops.placing import Placing
from svod_tensor.ops.rounding import accumulation_dtype, rounds_once
from svod_tensor.shapes import Axes, broadcast_node, normalize_axes, normalize_axis

__all__ = ["Reduction"]


@operations
class Reduction(Placing):
    """Sums, products, extrema, moments, and their running forms.

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

    def min(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The smallest element; NaN if there is a NaN."""
        return self._extremum("min", Op.MIN, axis, keepdims)

    amax, amin = max, min

    def any(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Whether an element is not zero; False over no elements."""
        return self.cast(bool_)._reduce("any", Op.MAX, axis, keepdims, empty=False)

    def all(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """Whether no element is zero; True over no elements."""
        return self.cast(bool_)._reduce("all", Op.MIN, axis, keepdims, empty=True)

    def count_nonzero(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """How many elements are not zero (int64)."""
        return self.cast(bool_).sum(axis, keepdims=keepdims, dtype=int64)

    @rounds_once
    def mean(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """The mean; NaN over no elements. Integers are added as float64, and their mean is float32."""
        total = self._to_wide().sum(axis, keepdims=keepdims)
        return total.div(self._count(axis, total.dtype)).cast(self._to_float().dtype)

    @rounds_once
    def var(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """The variance: squared distances from the mean, summed and divided by count - `correction`."""
        wide = self._to_wide()
        centred = wide.sub(wide.mean(axis, keepdims=True))
        total = centred.square().sum(axis, keepdims=keepdims)
        count = self._count(axis, total.dtype)
        divisor = count.sub(correction).maximum(0.0) if correction else count
        return total.div(divisor).cast(self._to_float().dtype)

    @rounds_once
    def std(self, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Self:
        """The square root of the variance."""
        variance = self._to_wide().var(axis, correction=correction, keepdims=keepdims)
        return variance.sqrt().cast(self._to_float().dtype)

    @rounds_once
    def logsumexp(self, axis: Axes = None, *, keepdims: bool = False) -> Self:
        """`log(sum(exp(x)))` without overflow."""
        x = self._to_float()
        peak = x.max(axis, keepdims=True)
        # Where the peak is infinite, so is the result; subtracting it would give NaN.
        shift = peak.isfinite().where(peak, 0.0)
        total = x.sub(shift).exp().sum(axis, keepdims=True).log().add(shift)
        return total if keepdims else total._drop("logsumexp", axis)

    @rounds_once
    def norm(self, axis: Axes = None, *, ord: float | Literal["fro"] = 2, keepdims: bool = False) -> Self:
        """The norm of order `ord` of the elements along all of `axis` as one vector: `sum(abs(x) ** ord) ** (1 / ord)`.

        Infinity gives the largest size, minus infinity the smallest one, 0 the number of elements that are not zero, and
        `"fro"`, of two axes, their norm of order 2. `matrix_norm` has the norms of matrices.
        """
        if isinstance(ord, str):
            n_axes = len(normalize_axes("norm", axis, self.ndim))
            if ord != "fro" or n_axes != 2:
                expected = 'a number as ord, or "fro" of two axes'
                raise OperandError(operation="norm", found=f"{ord!r} of {n_axes}", expected=expected)
            ord = 2
        x = self._to_float().abs()
        if ord == math.inf:
            return x.max(axis, keepdims=keepdims)
        if ord == -math.inf:
            return x.min(axis, keepdims=keepdims)
        if ord == 1:
            return x.sum(axis, keepdims=keepdims)
        if ord == 0:
            return x.ne(0).cast(x.dtype).sum(axis, keepdims=keepdims)
        total = x.pow(ord).sum(axis, keepdims=keepdims)
        return total.sqrt() if ord == 2 else total.pow(1.0 / ord)

    vector_norm = norm

    @rounds_once
    def matrix_norm(self, *, ord: float | Literal["fro"] = "fro", keepdims: bool = False) -> Self:
        """The norm of the matrices in the last two axes.

        Args:
            ord: `"fro"`, the root of the sum of squares; 1 and -1, the largest and the smallest sum of a column's sizes;
                infinity and minus infinity, those of a row's. Others need singular values, which svod does not compute.
            keepdims: whether both axes stay, with size 1.
        """
        if self.ndim < 2:
            raise AxisError(operation="matrix_norm", axis=-2, ndim=self.ndim)
        if ord == "fro":
            return self.norm((-2, -1), keepdims=keepdims)
        if ord not in (1, -1, math.inf, -math.inf):
            raise OperandError(operation="matrix_norm", found=ord, expected='"fro", 1, -1 or an infinity as ord')
        added, compared = (-2, -1) if abs(ord) == 1 else (-1, -2)
        sums = self.norm(added, ord=1, keepdims=True)
        result = sums.max(compared, keepdims=True) if ord > 0 else sums.min(compared, keepdims=True)
        return result if keepdims else result._drop("matrix_norm", (-2, -1))

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position of the largest element along `axis`, or among all elements in row-major order."""
        return self._arg_extremum("argmax", Op.MAX, axis, keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position of the smallest element along `axis`, or among all elements in row-major order."""
        return self._arg_extremum("argmin", Op.MIN, axis, keepdims)

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

    def _accumulate(self, operation: str, op: Op, axis: Axes, keepdims: bool, dtype: DTypeLike | None) -> Self:
        result = _sum_dtype(self.dtype) if dtype is None else to_dtype(dtype)
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
        return reduced if keepdims else reduced._drop(operation, axis)

    def _drop(self, operation: str, axis: Axes) -> Self:
        axes = normalize_axes(operation, axis, self.ndim)
        return self.reshape(tuple(s for a, s in enumerate(self.shape) if a not in axes))

    def _to_wide(self) -> Self:
        """The elements as they are added up for a mean, which sums of integers in float32 would miss."""
        return self if self.dtype.is_float else self.cast(float64)

    def _count(self, axis: Axes, dtype: DType) -> Self:
        """How many elements a reduction takes together, as a 0-d tensor."""
        count = product(tuple(self.shape[a] for a in normalize_axes("count", axis, self.ndim)))
        node = count.cast(dtype) if isinstance(count, UOp) else UOp.const(dtype, float(count))
        return self._make(node)

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
        return result if keepdims else result._drop(operation, axis)

    def _scan(self, operation: str, op: Op, axis: int | None, dtype: DTypeLike | None) -> Self:
        if axis is None:
            return self.flatten()._scan(operation, op, 0, dtype)
        axis = normalize_axis(operation, axis, self.ndim)
        result = _sum_dtype(self.dtype) if dtype is None else to_dtype(dtype)
        wide = self.cast(accumulation_dtype(result) if op in (Op.ADD, Op.MUL) else result)
        if self.size == 0 or self.shape[axis] == 1:
            return wide.cast(result)
        return self._make(make_scan_axis(wide.uop, op, axis).cast(result))


def _sum_dtype(dtype: DType) -> DType:
    """Source: the array API standard, `sum`."""
    if dtype.is_float or dtype.itemsize == 8:
        return dtype
    return uint32 if dtype.is_unsigned else int32
