"""Arithmetic, with broadcasting and promotion.

Dtypes promote as the array API standard says, with Python scalars weak: `x + 1.5` keeps the dtype
of a floating-point `x` and gives float32 for integers. A Python integer that does not fit the
tensor's dtype is an error. Integer arithmetic wraps; `//` and `%` round toward negative infinity,
and an integer divided by zero gives 0, or an error in a plan that checks its operands.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Self

from svod_dtype import DType, bool_, float64
from svod_ir import Op, OperandError, UOp, make_check
from svod_tensor._shapes import broadcast_node, broadcast_shapes
from svod_tensor.ops.complex_functions import raise_power
from svod_tensor.ops.composed import with_rule
from svod_tensor.ops.naming import operations
from svod_tensor.ops.partials import FMOD, REMAINDER
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.ops.theme import INFINITY, Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Arithmetic"]

_MOST_MULTIPLIED: Final = 100
"""The largest power of complex numbers that is a product, as in numpy; others are exponentials."""


@operations
class Arithmetic(Theme):
    """Arithmetic, powers, signs and rounding."""

    __slots__ = ()

    def add(self, other: Operand) -> Self:
        """The sum with `other`; of bools it is the logical or. Shapes broadcast and dtypes promote.

        Example:
            >>> Tensor([1, 2]).add(Tensor([[10], [20]])).tolist()
            [[11, 12], [21, 22]]
        """
        return self._binary(Op.ADD, other)

    def sub(self, other: Operand) -> Self:
        """This tensor minus `other`. Shapes broadcast and dtypes promote.

        Raises:
            OperandError: if both are bools, as in numpy.

        Example:
            >>> Tensor([1, 2]).sub(0.5).tolist()
            [0.5, 1.5]
        """
        return self._binary(Op.SUB, other, refused=(bool_,))

    subtract = sub

    def mul(self, other: Operand) -> Self:
        """The product with `other`; of bools it is the logical and. Shapes broadcast and dtypes promote.

        Example:
            >>> Tensor([1, 2]).mul([3, 4]).tolist()
            [3, 8]
        """
        return self._binary(Op.MUL, other)

    multiply = mul

    def div(self, other: Operand) -> Self:
        """The quotient by `other`; integers are divided as float32. Shapes broadcast and dtypes promote.

        Example:
            >>> Tensor([1, 2]).div(4).tolist()
            [0.25, 0.5]
        """
        x, y = self._float_pair(other)
        return x._apply(Op.FDIV, x.uop, y.uop, y)

    divide = true_divide = div

    def floor_divide(self, other: Operand) -> Self:
        """The quotient by `other`, rounded toward negative infinity. Shapes broadcast and dtypes promote.

        An integer divided by zero gives 0, or an error in a plan that checks its operands.

        Raises:
            OperandError: if both are bools.

        Example:
            >>> Tensor([-7, 7, 7]).floor_divide(Tensor([2, 2, 0])).tolist()
            [-4, 3, 0]
        """
        x, y = self._pair(other, refused=(bool_,))
        return x._float_divmod(y)[0] if x.dtype.is_float else x._integer_division("floor_divide", Op.IDIV, y)

    def remainder(self, other: Operand) -> Self:
        """`x - (x // other) * other`: it has the sign of `other`. Shapes broadcast and dtypes promote.

        An integer divided by zero leaves 0, or is an error in a plan that checks its operands. The remainder of floats
        is exact, however large the quotient is, before `other` is added where the signs differ.

        Raises:
            OperandError: if both are bools.

        Example:
            >>> Tensor([-7, 7, 7]).remainder(Tensor([3, -3, 0])).tolist()
            [2, -2, 0]
        """
        x, y = self._pair(other, refused=(bool_,))
        if not x.dtype.is_float:
            return x._integer_division("remainder", Op.MOD, y)
        rest = x._apply(Op.FMOD, x.uop, y.uop, y)
        is_stepped = rest.ne(0).logical_and(rest.lt(0).ne(y.lt(0)))
        rest = is_stepped.where(rest.add(y), rest)
        return with_rule(REMAINDER, rest.eq(0).where(rest.zeros_like().copysign(y), rest), (x, y))

    mod = remainder

    def _integer_division(self, operation: str, op: Op, divisor: Self) -> Self:
        return self._apply(op, self.uop, make_check(divisor.uop, operation), divisor)

    def _float_divmod(self, divisor: Self) -> tuple[Self, Self]:
        # Quotients of narrower floats are computed in float64, where they fall on the right side of an integer.
        dtype = self.dtype
        x, y = (self.cast(float64), divisor.cast(float64)) if dtype.itemsize < 8 else (self, divisor)
        # Of the sizes first: where the signs differ, a tiny quotient would be lost in the step to -1.
        size, step = x.abs(), y.abs()
        quotient = size.div(step).floor()
        rest = size.sub(quotient.mul(step))
        is_short, is_long = rest.lt(0), rest.ge(step)
        quotient = is_short.where(quotient.sub(1), is_long.where(quotient.add(1), quotient))
        rest = is_short.where(rest.add(step), is_long.where(rest.sub(step), rest))
        # Nothing is left of a quotient that has more digits than the dtype.
        rest = rest.lt(0).logical_or(rest.ge(step)).where(0.0, rest)
        # An infinite divisor leaves a finite dividend whole; an infinite dividend has no last multiple.
        is_whole = step.eq(INFINITY).logical_and(size.lt(INFINITY))
        quotient, rest = is_whole.where(0.0, quotient), is_whole.where(size, rest)
        quotient = size.eq(INFINITY).logical_and(y.ne(0)).where(math.nan, quotient)
        # Between operands of different signs one more step leads below the quotient, unless nothing is left.
        differs = x.lt(0).ne(y.lt(0))
        is_stepped = differs.logical_and(rest.gt(0))
        quotient = is_stepped.where(quotient.add(1), quotient)
        rest = is_stepped.where(step.sub(rest), rest)
        quotient = x.signbit().ne(y.signbit()).where(quotient.neg(), quotient)
        return quotient.cast(dtype), y.lt(0).where(rest.neg(), rest).cast(dtype)

    def fmod(self, other: Operand) -> Self:
        """The remainder of division by `other`, truncated toward zero: it has the sign of this tensor. Shapes broadcast and
        dtypes promote.

        An integer divided by zero leaves 0, or is an error in a plan that checks its operands.

        Raises:
            OperandError: if both are bools.

        Example:
            >>> Tensor([-7, 7]).fmod(3).tolist()
            [-1, 1]
        """
        x, y = self._pair(other)
        if x.dtype.is_float:
            return with_rule(FMOD, x._apply(Op.FMOD, x.uop, y.uop, y), (x, y))
        # The size of the smallest integer is none of the dtype.
        rest = x.remainder(y)
        return rest.ne(0).logical_and(rest.lt(0).ne(x.lt(0))).where(rest.sub(y), rest) if x.dtype.is_signed else rest

    @rounds_once
    def pow(self, exponent: Operand) -> Self:
        """This tensor to the power of `exponent`. Shapes broadcast and dtypes promote.

        Integer powers wrap; a negative integer exponent gives the integer part of the true value, which is 0 unless the
        base is 1 or -1.

        Raises:
            OperandError: if both are bools.

        Example:
            >>> Tensor([2.0, 9.0]).pow(0.5).round(4).numpy()
            array([1.4142, 3.    ], dtype=float32)
        """
        if isinstance(exponent, (int, float)) and not isinstance(exponent, bool) and self.dtype.is_inexact:
            power = self._constant_power(exponent)
            if power is not None:
                return power
        x, y = self._pair(exponent, refused=(bool_,))
        if x.dtype.is_complex:
            if isinstance(exponent, int) and abs(exponent) <= _MOST_MULTIPLIED:
                return x._multiply_power(exponent)
            return raise_power(x, y)
        if x.dtype.is_float:
            return x._apply(Op.POW, x.uop, y.uop, y)
        return x._integer_power(y, exponent if isinstance(exponent, int) else None)

    power = pow

    def _constant_power(self, exponent: int | float) -> Self | None:
        match exponent:
            case 0:
                return self._make(broadcast_node(UOp.const(self.dtype, 1.0), self.shape))
            case 1:
                return self.clone()
            case 2:
                return self.mul(self)
            case 3:
                return self.mul(self).mul(self)
            case -1:
                return self.reciprocal()
            case _:
                return None

    def _multiply_power(self, exponent: int) -> Self:
        """An integer power, as products of squares."""
        power, square, left = self.ones_like(), self, abs(exponent)
        while left:
            power = power.mul(square) if left & 1 else power
            left >>= 1
            square = square.mul(square) if left else square
        return power if exponent >= 0 else power.reciprocal()

    def _integer_power(self, exponent: Self, constant: int | None) -> Self:
        bits = exponent.dtype.bits - exponent.dtype.is_signed
        if constant is not None:
            bits = max(constant, 0).bit_length()
        one = UOp.const(self.dtype, 1)
        result = self._make(broadcast_node(one, broadcast_shapes(self.shape, exponent.shape)))
        square = self
        for bit in range(bits):
            if constant is None:
                is_set = exponent.rshift(bit).bitwise_and(1).ne(0)
                result = is_set.where(result.mul(square), result)
            elif constant >> bit & 1:
                result = result.mul(square)
            square = square.mul(square) if bit + 1 < bits else square
        if not exponent.dtype.is_signed or (constant is not None and constant >= 0):
            return result
        # 1 / x, in integers: x itself where x is 1 or -1, to an odd or even power, and 0 for every other base.
        sign = exponent.bitwise_and(1).eq(0).where(self.mul(self), self)
        inverse = self.abs().eq(1).where(sign, 0)
        return exponent.lt(0).where(inverse, result)

    def square(self) -> Self:
        """Each element times itself, in the dtype of this tensor.

        Example:
            >>> Tensor([-3, 2]).square().tolist()
            [9, 4]
        """
        return self.mul(self)

    def reciprocal(self) -> Self:
        """`1 / x`. Integers become float32.

        Example:
            >>> Tensor([4.0, -0.5, 0.0]).reciprocal().tolist()
            [0.25, -2.0, inf]
        """
        return self._to_float()._unary(Op.RECIPROCAL)

    def neg(self) -> Self:
        """The negative, in the dtype of this tensor; unsigned integers wrap.

        Raises:
            OperandError: if the tensor is of bools, as in numpy.

        Example:
            >>> Tensor([1, -2]).neg().tolist()
            [-1, 2]
        """
        return self._refuse("neg", bool_)._unary(Op.NEG)

    negative = neg

    def positive(self) -> Self:
        """The same values as a new tensor.

        Raises:
            OperandError: if the tensor is of bools, as in numpy.

        Example:
            >>> Tensor([1, -2]).positive().tolist()
            [1, -2]
        """
        return self._refuse("positive", bool_).clone()

    def _refuse(self, operation: str, dtype: DType) -> Self:
        if self.dtype is dtype:
            raise OperandError(
                operation=operation, found=dtype, expected="numbers", hint="use logical_not or cast with x.cast(int32)"
            )
        return self

    def abs(self) -> Self:
        """The absolute value, in the dtype of this tensor; that of the smallest signed integer wraps to itself.

        That of complex numbers is a float: the square root of the sum of the squares of both parts.

        Example:
            >>> Tensor([1.5, -2.0]).abs().tolist()
            [1.5, 2.0]
        """
        if self.dtype.is_complex:
            return self.real.hypot(self.imag)
        return self.clone() if self.dtype.kind in ("bool", "uint") else self._unary(Op.ABS)

    def sign(self) -> Self:
        """-1, 0 or 1 in the dtype of this tensor, and NaN for NaN; of a complex number, `x / abs(x)`, and 0 for 0.

        A complex number with one infinite part has the direction of that part, and with two the sign is NaN, as in numpy.

        Raises:
            OperandError: if the tensor is of bools.

        Example:
            >>> Tensor([-3.0, 0.0, 0.5]).sign().tolist()
            [-1.0, 0.0, 1.0]
        """
        if self.dtype.is_complex:
            size = self.abs()
            direction = self.div(size.eq(0).where(1.0, size))
            infinite = (
                self.real.isinf().where(self.real.sign(), 0.0).complex(self.imag.isinf().where(self.imag.sign(), 0.0))
            )
            is_one = self.real.isinf().ne(self.imag.isinf()).logical_and(self.isnan().logical_not())
            return self.eq(0).where(0.0, is_one.where(infinite, direction))
        return self._refuse("sign", bool_)._unary(Op.SIGN)

    def floor(self) -> Self:
        """The largest integer that is not above each element, in the dtype of this tensor.

        Example:
            >>> Tensor([-1.5, 1.5]).floor().tolist()
            [-2.0, 1.0]
        """
        return self._rounded(Op.FLOOR)

    def ceil(self) -> Self:
        """The smallest integer that is not below each element, in the dtype of this tensor.

        Example:
            >>> Tensor([-1.5, 1.5]).ceil().tolist()
            [-1.0, 2.0]
        """
        return self._rounded(Op.CEIL)

    def trunc(self) -> Self:
        """Each element without its fraction, in the dtype of this tensor.

        Example:
            >>> Tensor([-1.5, 1.5]).trunc().tolist()
            [-1.0, 1.0]
        """
        return self._rounded(Op.TRUNC)

    @rounds_once
    def round(self, decimals: int = 0) -> Self:
        """The nearest integer, in the dtype of this tensor; halves go to the even one. Of complex numbers, each part is rounded.

        Args:
            decimals: which multiple of 10^-`decimals` is meant instead of integers.

        Example:
            >>> Tensor([0.5, 1.5, 2.5]).round().tolist()
            [0.0, 2.0, 2.0]
            >>> Tensor([0.125]).round(2).numpy()
            array([0.12], dtype=float32)
        """
        if self.dtype.is_complex:
            return self.real.round(decimals).complex(self.imag.round(decimals))
        if not decimals or not self.dtype.is_float:
            return self._rounded(Op.ROUND)
        scale = 10.0 ** abs(decimals)
        return self.mul(scale).round().div(scale) if decimals > 0 else self.div(scale).round().mul(scale)

    rint = round

    def _rounded(self, op: Op) -> Self:
        return self._unary(op) if self.dtype.is_inexact else self.clone()

    @rounds_once
    def lerp(self, end: Operand, weight: Operand) -> Self:
        """`x + (end - x) * weight`: this tensor where `weight` is 0, `end` where it is 1. Shapes broadcast and dtypes
        promote.

        Example:
            >>> Tensor([0.0, 10.0]).lerp(20.0, 0.25).tolist()
            [5.0, 12.5]
        """
        x, last = self._pair(end)
        return x.add(last.sub(x).mul(weight))
