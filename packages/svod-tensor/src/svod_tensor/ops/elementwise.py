"""Arithmetic, comparison, logic and selection, with broadcasting and promotion.

Dtypes promote as the array API standard says, with Python scalars weak: `x + 1.5` keeps the dtype
of a floating-point `x` and gives float32 for integers. A Python integer that does not fit the
tensor's dtype is an error. Integer arithmetic wraps; `//` and `%` round toward negative infinity,
and an integer divided by zero gives 0, or an error in a plan that checks its operands.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self, TypeAlias

from svod_dtype import (
    DType,
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    promote_with_scalar,
    to_dtype,
)  # fmt: skip
from svod_ir.build import make_alu, make_check
from svod_ir.errors import OperandError
from svod_ir.ops import Op
from svod_ir.sizes import divide_size, format_shape
from svod_ir.uop import UOp
from svod_tensor.data import make_constant
from svod_tensor.memory_views import view_bytes
from svod_tensor.ops.base import DTypeLike, TensorBase
from svod_tensor.ops.movement import Movement
from svod_tensor.ops.naming import operations
from svod_tensor.ops.rounding import rounds_once
from svod_tensor.shapes import broadcast_node, broadcast_shapes
from svod_tensor.shards import bring_to

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from svod_tensor.ops.base import TensorData

    Operand: TypeAlias = "Elementwise | TensorData"

__all__ = ["Elementwise"]


@operations
class Elementwise(Movement):
    """Operations on each element, and on pairs of elements."""

    __slots__ = ()

    def cast(self, dtype: DTypeLike) -> Self:
        """Convert each element. Floats truncate toward zero on the way to integers; what a float outside
        the integer's range, or NaN, becomes depends on the device."""
        return self._make(self.uop.cast(to_dtype(dtype)))

    astype = cast

    def bitcast(self, dtype: DTypeLike) -> Self:
        """The same bits read as another dtype; where its elements have another size, the last axis changes with it.

        Bytes that lie together in a file or in memory are then read where they are.
        """
        target = to_dtype(dtype)
        last = divide_size((self.shape or (1,))[-1] * self.itemsize, target.itemsize)
        is_possible = target.itemsize == self.itemsize or (last is not None and self.ndim > 0)
        if target.is_bool != self.dtype.is_bool or not is_possible:
            raise OperandError(
                operation="bitcast", found=f"{self.dtype} of shape {format_shape(self.shape)}",
                expected=f"elements whose bytes make whole elements of {target}",
            )  # fmt: skip
        if target.itemsize == self.itemsize or last is None:
            return self._make(self.uop.bitcast(target))
        shape = (*self.shape[:-1], last)
        if 0 in shape:
            return self._make(broadcast_node(UOp.const(target, 0), shape))
        return self._make(view_bytes(self.uop, target, shape))

    def add(self, other: Operand) -> Self:
        return self._binary(Op.ADD, other)

    def sub(self, other: Operand) -> Self:
        """The difference; bool operands are an error, as in numpy."""
        return self._binary(Op.SUB, other, refused=(bool_,))

    def mul(self, other: Operand) -> Self:
        return self._binary(Op.MUL, other)

    def div(self, other: Operand) -> Self:
        """The quotient; integers are divided as float32."""
        x, y = self._float_pair(other)
        return x._apply(Op.FDIV, x.uop, y.uop, y)

    def _float_pair(self, other: Operand) -> tuple[Self, Self]:
        """This tensor and `other` as floats of one dtype; a number need not fit the integers of this tensor."""
        x, y = (self._to_float() if _is_scalar(other) else self)._pair(other)
        x, y = x._to_float(), y._to_float()
        dtype = promote_types(x.dtype, y.dtype)
        return x._of_dtype(dtype), y._of_dtype(dtype)

    def floor_divide(self, other: Operand) -> Self:
        """The quotient rounded toward negative infinity; an integer divided by zero gives 0."""
        x, y = self._pair(other, refused=(bool_,))
        return x._float_divmod(y)[0] if x.dtype.is_float else x._integer_division("floor_divide", Op.IDIV, y)

    def remainder(self, other: Operand) -> Self:
        """`x - (x // y) * y`: it has the sign of `y`, and is 0 for an integer divided by zero.

        Of floats it is exact as long as the quotient has at most 53 bits; 0 stands for what is lost beyond.
        """
        x, y = self._pair(other, refused=(bool_,))
        return x._float_divmod(y)[1] if x.dtype.is_float else x._integer_division("remainder", Op.MOD, y)

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
        is_whole = step.eq(_INFINITY).logical_and(size.lt(_INFINITY))
        quotient, rest = is_whole.where(0.0, quotient), is_whole.where(size, rest)
        quotient = size.eq(_INFINITY).logical_and(y.ne(0)).where(math.nan, quotient)
        # Between operands of different signs one more step leads below the quotient, unless nothing is left.
        differs = x.lt(0).ne(y.lt(0))
        is_stepped = differs.logical_and(rest.gt(0))
        quotient = is_stepped.where(quotient.add(1), quotient)
        rest = is_stepped.where(step.sub(rest), rest)
        quotient = x.signbit().ne(y.signbit()).where(quotient.neg(), quotient)
        return quotient.cast(dtype), y.lt(0).where(rest.neg(), rest).cast(dtype)

    @rounds_once
    def pow(self, exponent: Operand) -> Self:
        """This tensor to the power of `exponent`. Integer powers wrap; a negative integer exponent gives
        the integer part of the true value, which is 0 unless the base is 1 or -1."""
        if isinstance(exponent, (int, float)) and not isinstance(exponent, bool) and self.dtype.is_float:
            power = self._constant_power(exponent)
            if power is not None:
                return power
        x, y = self._pair(exponent, refused=(bool_,))
        if x.dtype.is_float:
            return x._apply(Op.POW, x.uop, y.uop, y)
        return x._integer_power(y, exponent if isinstance(exponent, int) else None)

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

    def neg(self) -> Self:
        """The negative; of a bool it is an error, as in numpy."""
        return self._refuse("neg", bool_)._unary(Op.NEG)

    def abs(self) -> Self:
        return self.clone() if self.dtype.kind in ("bool", "uint") else self._unary(Op.ABS)

    def sign(self) -> Self:
        """-1, 0 or 1, and NaN for NaN."""
        return self._refuse("sign", bool_)._unary(Op.SIGN)

    def reciprocal(self) -> Self:
        return self._to_float()._unary(Op.RECIPROCAL)

    def square(self) -> Self:
        return self.mul(self)

    def floor(self) -> Self:
        return self._rounded(Op.FLOOR)

    def ceil(self) -> Self:
        return self._rounded(Op.CEIL)

    def trunc(self) -> Self:
        return self._rounded(Op.TRUNC)

    @rounds_once
    def round(self, decimals: int = 0) -> Self:
        """The nearest integer, or multiple of 10^-decimals; halves go to the even one."""
        if not decimals or not self.dtype.is_float:
            return self._rounded(Op.ROUND)
        scale = 10.0 ** abs(decimals)
        return self.mul(scale).round().div(scale) if decimals > 0 else self.div(scale).round().mul(scale)

    def bitwise_and(self, other: Operand) -> Self:
        return self._integer_binary("bitwise_and", Op.AND, other)

    def bitwise_or(self, other: Operand) -> Self:
        return self._integer_binary("bitwise_or", Op.OR, other)

    def bitwise_xor(self, other: Operand) -> Self:
        return self._integer_binary("bitwise_xor", Op.XOR, other)

    def bitwise_not(self) -> Self:
        return self._need_integers("bitwise_not")._unary(Op.NOT)

    def lshift(self, amount: Operand) -> Self:
        """Shift left; an amount outside 0 to bits - 1 gives 0."""
        return self._shift("lshift", Op.SHL, amount)

    def rshift(self, amount: Operand) -> Self:
        """Shift right, keeping the sign; an amount outside 0 to bits - 1 shifts all bits out: 0 is left, or -1 of what is negative."""
        return self._shift("rshift", Op.SHR, amount)

    def _shift(self, operation: str, op: Op, amount: Operand) -> Self:
        x, y = self._need_integers(operation)._pair(amount, refused=(bool_,))
        y._need_integers(operation)
        last = x.dtype.bits - 1
        # Where there is no sign, not even that is left.
        keeps_sign = op is Op.SHR and x.dtype.is_signed
        # A negative amount, read as unsigned, is above the last bit too.
        if y.uop.op is Op.CONST:
            is_inside = 0 <= y.uop.arg <= last
            if is_inside:
                return x._apply(op, x.uop, y.uop)
            return x._shift(operation, Op.SHR, last) if keeps_sign else x.mul(0)
        inside = y.ge(0).logical_and(y.le(last)) if y.dtype.is_signed else y.le(last)
        shifted = x._apply(op, x.uop, inside.where(y, last).uop, y)
        return shifted if keeps_sign else inside.where(shifted, 0)

    def eq(self, other: Operand) -> Self:
        return self._compare(Op.EQ, other)

    def ne(self, other: Operand) -> Self:
        return self._compare(Op.NE, other)

    def lt(self, other: Operand) -> Self:
        return self._compare(Op.LT, other)

    def le(self, other: Operand) -> Self:
        return self._compare(Op.LE, other)

    def gt(self, other: Operand) -> Self:
        return self._compare(Op.LT, other, is_swapped=True)

    def ge(self, other: Operand) -> Self:
        return self._compare(Op.LE, other, is_swapped=True)

    equal, not_equal, less, less_equal, greater, greater_equal = eq, ne, lt, le, gt, ge

    def isnan(self) -> Self:
        return self._apply(Op.NE, self.uop, self.uop) if self.dtype.is_float else self._all_equal_to(False)

    def isinf(self) -> Self:
        return self.abs().eq(_INFINITY) if self.dtype.max == _INFINITY else self._all_equal_to(False)

    def isfinite(self) -> Self:
        if self.dtype.max == _INFINITY:
            return self.abs().lt(_INFINITY)
        # float8_e4m3 has NaNs alone.
        return self.isnan().logical_not() if self.dtype.is_float else self._all_equal_to(True)

    def signbit(self) -> Self:
        """Whether the sign bit is set, as it is for -0.0 and for some NaNs."""
        if not self.dtype.is_float:
            return self.lt(0) if self.dtype.is_signed else self._all_equal_to(False)
        return self.bitcast({1: int8, 2: int16, 4: int32, 8: int64}[self.dtype.itemsize]).lt(0)

    @rounds_once
    def isclose(self, other: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Self:
        """Whether `abs(x - y) <= atol + rtol * abs(y)`, element by element."""
        x, y = self._pair(other)
        x, y = x._to_float(), y._to_float()
        near = x.sub(y).abs().le(y.abs().mul(rtol).add(atol)).logical_and(y.isfinite())
        result = near.logical_or(x.eq(y))
        return result.logical_or(x.isnan().logical_and(y.isnan())) if equal_nan else result

    def logical_and(self, other: Operand) -> Self:
        return self._logical(Op.AND, other)

    def logical_or(self, other: Operand) -> Self:
        return self._logical(Op.OR, other)

    def logical_xor(self, other: Operand) -> Self:
        return self._logical(Op.XOR, other)

    def logical_not(self) -> Self:
        return self.cast(bool_)._unary(Op.NOT)

    def where(self, x: Operand, y: Operand) -> Self:
        """Elements of `x` where this (bool) tensor holds, else of `y`; `Tensor.where(c, x, y)` reads as numpy's."""
        if not self.dtype.is_bool:
            raise OperandError(
                operation="where",
                found=self.dtype,
                expected="a bool condition",
                hint="compare it, as in (x != 0).where(a, b)",
            )
        left, right = self._values(x, y)
        shape = broadcast_shapes(self.shape, left.shape, right.shape)
        nodes = [node if not node.shape else broadcast_node(node, shape) for node in (self.uop, left.uop, right.uop)]
        return self._make(broadcast_node(make_alu(Op.WHERE, *nodes), shape), left, right)

    def _values(self, x: Operand, y: Operand) -> tuple[Self, Self]:
        """Two values of one dtype, at least one of which may be a Python scalar."""
        if _is_scalar(x) and not _is_scalar(y):
            right, left = self._wrap(y)._pair(x)
            return left, right
        return self._wrap(x)._pair(y) if not _is_scalar(x) else self._scalars(x, y)

    def _scalars(self, x: Operand, y: Operand) -> tuple[Self, Self]:
        left, right = self._wrap(x), self._wrap(y)
        dtype = promote_types(left.dtype, right.dtype)
        return left.cast(dtype), right.cast(dtype)

    def maximum(self, other: Operand) -> Self:
        """The larger of each pair; NaN where either is NaN."""
        return self._binary(Op.MAX, other)

    def minimum(self, other: Operand) -> Self:
        """The smaller of each pair; NaN where either is NaN."""
        return self._binary(Op.MIN, other)

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """Limit the elements to `min` and `max`, either of which may be left out; NaN stays NaN."""
        result = self.clone() if min is None else self.maximum(min)
        return result if max is None else result.minimum(max)

    clamp = clip

    @rounds_once
    def lerp(self, end: Operand, weight: Operand) -> Self:
        """`x + (end - x) * weight`."""
        return self.add(self._wrap(end).sub(self).mul(weight))

    def _wrap(self, value: Operand) -> Self:
        """`value` as a tensor."""
        if isinstance(value, type(self)):
            return value
        made = type(self)(value)  # pyright: ignore[reportArgumentType]
        # The caller's own data goes where it is needed; a tensor stays where it was put.
        return made if isinstance(value, (TensorBase, UOp)) else self.from_uop(bring_to(made.uop, self.uop))

    def _pair(self, other: Operand, *, refused: tuple[DType, ...] = ()) -> tuple[Self, Self]:
        """This tensor and `other` with one dtype."""
        if _is_scalar(other):
            x, number = self._pair_with_scalar(other, refused)
            return x, self._make(number)
        right = self._wrap(other)
        dtype = promote_types(self.dtype, right.dtype)
        _check_taken(refused, dtype, dtype)
        return self._of_dtype(dtype), right._of_dtype(dtype)

    def _pair_with_scalar(self, other: bool | int | float, refused: tuple[DType, ...]) -> tuple[Self, UOp]:
        """This tensor, and the constant `other` with the same dtype."""
        dtype = promote_with_scalar(self.dtype, other)
        _check_taken(refused, dtype, self.dtype if isinstance(other, bool) else dtype)
        return self._of_dtype(dtype), make_constant(other, dtype)

    def _of_dtype(self, dtype: DType) -> Self:
        """This tensor where it has the dtype, as operands nearly always do, else a cast."""
        return self if self.uop.dtype is dtype else self.cast(dtype)

    def number(self, value: bool | int | float) -> Self:
        """A constant of this tensor's dtype."""
        return self._make(make_constant(value, self.dtype))

    def _binary(self, op: Op, other: Operand, *, refused: tuple[DType, ...] = ()) -> Self:
        if _is_scalar(other):
            x, number = self._pair_with_scalar(other, refused)
            return x._apply(op, x.uop, number)
        x, y = self._pair(other, refused=refused)
        return x._apply(op, x.uop, y.uop, y)

    def _apply(self, op: Op, x: UOp, y: UOp, *operands: TensorBase) -> Self:
        """The op on two nodes, broadcast against each other; a 0-d node stands for all elements as it is."""
        left, right = x.shape, y.shape
        if left != right and left and right:
            shape = broadcast_shapes(left, right)
            x, y = broadcast_node(x, shape), broadcast_node(y, shape)
        return self._make(make_alu(op, x, y), *operands)

    def _unary(self, op: Op) -> Self:
        return self._make(make_alu(op, self.uop))

    def _rounded(self, op: Op) -> Self:
        return self._unary(op) if self.dtype.is_float else self.clone()

    def _to_float(self) -> Self:
        """This tensor, integers and bools as float32."""
        return self if self.dtype.is_float else self.cast(float32)

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

    def _all_equal_to(self, answer: bool) -> Self:
        return self._make(broadcast_node(UOp.const(bool_, answer), self.shape))

    def _logical(self, op: Op, other: Operand) -> Self:
        y = self._wrap(other).cast(bool_)
        return self._apply(op, self.uop.cast(bool_), y.uop, y)

    def _integer_binary(self, operation: str, op: Op, other: Operand) -> Self:
        x, y = self._pair(other)
        x._need_integers(operation)
        return x._apply(op, x.uop, y.uop, y)

    def _need_integers(self, operation: str) -> Self:
        if self.dtype.is_float:
            raise OperandError(
                operation=operation, found=self.dtype, expected="bool or integers", hint="cast with x.cast(int32)"
            )
        return self

    def _refuse(self, operation: str, dtype: DType) -> Self:
        if self.dtype is dtype:
            raise OperandError(
                operation=operation, found=dtype, expected="numbers", hint="use logical_not or cast with x.cast(int32)"
            )
        return self


_INFINITY = float("inf")


def _is_scalar(value: object) -> TypeIs[bool | int | float]:
    return isinstance(value, (bool, int, float))


def _check_taken(refused: tuple[DType, ...], dtype: DType, found: DType) -> None:
    if dtype in refused:
        raise OperandError(
            operation="arithmetic", found=found, expected="numbers", hint="cast with x.cast(int32), or use logical_xor"
        )
