"""Comparisons, element by element, and the larger or the smaller of each pair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from svod_dtype import bool_, int8, int16, int32, int64
from svod_ir import Op, OperandError, UOp
from svod_tensor._shapes import broadcast_node
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.theme import INFINITY, Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Comparison"]


@operations
class Comparison(Theme):
    """Comparisons, tests of single numbers, and extrema of pairs."""

    __slots__ = ()

    def eq(self, other: Operand) -> Self:
        """Whether each element equals that of `other`, as bools; NaN equals nothing. Shapes broadcast.

        An integer that the dtype does not hold has the true answer.

        Example:
            >>> Tensor([1, 2]).eq(2).tolist()
            [False, True]
        """
        return self._compare(Op.EQ, other)

    equal = eq

    def ne(self, other: Operand) -> Self:
        """Whether each element differs from that of `other`, as bools; NaN differs from everything. Shapes broadcast.

        Example:
            >>> Tensor([1, 2]).ne(2).tolist()
            [True, False]
        """
        return self._compare(Op.NE, other)

    not_equal = ne

    def lt(self, other: Operand) -> Self:
        """Whether each element is below that of `other`, as bools; False where one is NaN. Shapes broadcast.

        Example:
            >>> Tensor([1, 2, 3]).lt(2).tolist()
            [True, False, False]
        """
        return self._compare(Op.LT, other)

    less = lt

    def le(self, other: Operand) -> Self:
        """Whether each element is at most that of `other`, as bools; False where one is NaN. Shapes broadcast.

        Example:
            >>> Tensor([1, 2, 3]).le(2).tolist()
            [True, True, False]
        """
        return self._compare(Op.LE, other)

    less_equal = le

    def gt(self, other: Operand) -> Self:
        """Whether each element is above that of `other`, as bools; False where one is NaN. Shapes broadcast.

        Example:
            >>> Tensor([1, 2, 3]).gt(2).tolist()
            [False, False, True]
        """
        return self._compare(Op.LT, other, is_swapped=True)

    greater = gt

    def ge(self, other: Operand) -> Self:
        """Whether each element is at least that of `other`, as bools; False where one is NaN. Shapes broadcast.

        Example:
            >>> Tensor([1, 2, 3]).ge(2).tolist()
            [False, True, True]
        """
        return self._compare(Op.LE, other, is_swapped=True)

    greater_equal = ge

    def _compare(self, op: Op, other: Operand, *, is_swapped: bool = False) -> Self:
        if (
            isinstance(other, int)
            and not isinstance(other, bool)
            and self.dtype.is_int
            and not self.dtype.min <= other <= self.dtype.max
        ):
            is_less = other > self.dtype.max
            return self._all_equal_to(op is Op.NE if op in (Op.EQ, Op.NE) else is_less != is_swapped)
        x, y = self._pair(other)
        first, second = (y, x) if is_swapped else (x, y)
        return x._apply(op, first.uop, second.uop, y)

    @rounds_once
    def isclose(self, other: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Self:
        """Whether `abs(x - other) <= atol + rtol * abs(other)`, or both are equal, as bools. Shapes broadcast.

        Args:
            other: what to compare with.
            rtol: the distance that is allowed, as a part of `other`.
            atol: the distance that is allowed besides.
            equal_nan: whether NaN is close to NaN.

        Example:
            >>> Tensor([1.0, 1.1, float("nan")]).isclose([1.0000001, 1.0, float("nan")]).tolist()
            [True, False, False]
        """
        x, y = self._pair(other)
        x, y = x._to_float(), y._to_float()
        near = x.sub(y).abs().le(y.abs().mul(rtol).add(atol)).logical_and(y.isfinite())
        result = near.logical_or(x.eq(y))
        return result.logical_or(x.isnan().logical_and(y.isnan())) if equal_nan else result

    def isnan(self) -> Self:
        """Whether each element is NaN, as bools.

        Example:
            >>> Tensor([1.0, float("nan")]).isnan().tolist()
            [False, True]
        """
        return self._apply(Op.NE, self.uop, self.uop) if self.dtype.is_inexact else self._all_equal_to(False)

    def isinf(self) -> Self:
        """Whether each element is infinite, as bools.

        Example:
            >>> Tensor([1.0, float("-inf")]).isinf().tolist()
            [False, True]
        """
        if self.dtype.is_complex:
            return self.real.isinf().logical_or(self.imag.isinf())
        return self.abs().eq(INFINITY) if self.dtype.max == INFINITY else self._all_equal_to(False)

    def isfinite(self) -> Self:
        """Whether each element is neither infinite nor NaN, as bools.

        Example:
            >>> Tensor([1.0, float("nan"), float("inf")]).isfinite().tolist()
            [True, False, False]
        """
        if self.dtype.is_complex:
            return self.real.isfinite().logical_and(self.imag.isfinite())
        if self.dtype.max == INFINITY:
            return self.abs().lt(INFINITY)
        # float8_e4m3 has NaNs alone.
        return self.isnan().logical_not() if self.dtype.is_float else self._all_equal_to(True)

    def signbit(self) -> Self:
        """Whether the sign bit is set, as bools: it is for -0.0 and for some NaNs.

        Example:
            >>> Tensor([1.0, -0.0, -2.0]).signbit().tolist()
            [False, True, True]
        """
        if not self.dtype.is_inexact:
            return self.lt(0) if self.dtype.is_signed else self._all_equal_to(False)
        if self.dtype.is_complex:
            raise OperandError(
                operation="signbit", found=self.dtype, expected="real numbers", hint="take x.real or x.imag"
            )
        return self.bitcast({1: int8, 2: int16, 4: int32, 8: int64}[self.dtype.itemsize]).lt(0)

    def _all_equal_to(self, answer: bool) -> Self:
        return self._make(broadcast_node(UOp.const(bool_, answer), self.shape))

    def maximum(self, other: Operand) -> Self:
        """The larger of each element and that of `other`; NaN where either is NaN. Shapes broadcast and dtypes promote.

        Example:
            >>> Tensor([1, 5]).maximum(3).tolist()
            [3, 5]
        """
        return self._binary(Op.MAX, other)

    def minimum(self, other: Operand) -> Self:
        """The smaller of each element and that of `other`; NaN where either is NaN. Shapes broadcast and dtypes promote.

        Example:
            >>> Tensor([1, 5]).minimum(3).tolist()
            [1, 3]
        """
        return self._binary(Op.MIN, other)

    def fmax(self, other: Operand) -> Self:
        """The larger of each element and that of `other`; where one is NaN, the other. Shapes broadcast and dtypes
        promote.

        Example:
            >>> Tensor([1.0, float("nan")]).fmax(3.0).tolist()
            [3.0, 3.0]
        """
        x, y = self._pair(other)
        return x.isnan().where(y, y.isnan().where(x, x.maximum(y)))

    def fmin(self, other: Operand) -> Self:
        """The smaller of each element and that of `other`; where one is NaN, the other. Shapes broadcast and dtypes
        promote.

        Example:
            >>> Tensor([1.0, float("nan")]).fmin(3.0).tolist()
            [1.0, 3.0]
        """
        x, y = self._pair(other)
        return x.isnan().where(y, y.isnan().where(x, x.minimum(y)))

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """The elements, limited to `min` and `max`, either of which may be left out; NaN stays NaN. Shapes broadcast and
        dtypes promote.

        Example:
            >>> Tensor([-2, 3, 9]).clip(0, 5).tolist()
            [0, 3, 5]
            >>> Tensor([-2, 3, 9]).clip(max=5).tolist()
            [-2, 3, 5]
        """
        result = self.clone() if min is None else self.maximum(min)
        return result if max is None else result.minimum(max)

    clamp = clip

    def copysign(self, other: Operand) -> Self:
        """The magnitude of each element with the sign of `other`. Shapes broadcast and dtypes promote; integers become float32.

        Example:
            >>> Tensor([1.0, -2.0]).copysign([-0.0, 5.0]).tolist()
            [-1.0, 2.0]
        """
        x, y = self._float_pair(other)
        return y.signbit().where(x.abs().neg(), x.abs())

    def nextafter(self, other: Operand) -> Self:
        """The next number of the dtype in the direction of `other`. Shapes broadcast and dtypes promote; integers become
        float32.

        Raises:
            OperandError: if the dtype is float8.

        Example:
            >>> Tensor([1.0]).nextafter(2.0).sub(1.0).item()
            1.1920928955078125e-07
        """
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
