"""Element-wise arithmetic, with broadcasting and dtype promotion.

Dtypes promote by the array API standard, with weak Python scalars: `x + 1.5` keeps the dtype
of a floating-point `x` and gives float32 for integers. A Python integer out of range for the
tensor's dtype is an error. Integer arithmetic wraps; `//` and `%` round toward negative infinity,
and an integer divided by zero gives 0, or an error in a plan that checks its operands.
"""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Final

from svod_dtype import DType, bool_, float64
from svod_ir import Op, OperandError, UOp, make_check
from svod_tensor._shapes import broadcast_node, broadcast_shapes
from svod_tensor.ops.core.gradient_rules import with_rule
from svod_tensor.ops.core.operands import (
    apply_binary,
    apply_op,
    apply_unary,
    promote,
    promote_to_float,
    to_float,
)
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.elementwise.complex_functions import raise_power
from svod_tensor.ops.elementwise.partials import FMOD, REMAINDER

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "abs",
    "add",
    "ceil",
    "divide",
    "floor",
    "floor_divide",
    "fmod",
    "lerp",
    "multiply",
    "negative",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "square",
    "subtract",
    "trunc",
]

_MOST_MULTIPLIED: Final = 100
"""Largest integer power of complex numbers computed by multiplication, as in numpy."""


@operation(
    test="test_arithmetic.py::test_arithmetic_agrees_with_numpy_on_every_shape", standard=True
)
def add(x1: Tensor, x2: Operand, /) -> Tensor:
    """Add element-wise: `x1 + x2`, the logical or for booleans. Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.add(sv.Tensor([1, 2]), sv.Tensor([[10], [20]])).tolist()
        [[11, 12], [21, 22]]
    """
    return apply_binary(Op.ADD, x1, x2)


@operation(
    test="test_arithmetic.py::test_arithmetic_agrees_with_numpy_on_every_shape",
    standard=True,
    methods=("sub",),
)
def subtract(x1: Tensor, x2: Operand, /) -> Tensor:
    """Subtract element-wise: `x1 - x2`. Shapes broadcast and dtypes promote.

    Raises:
        OperandError: if both are boolean, as in numpy.

    Example:
        >>> import svod_tensor as sv
        >>> sv.subtract(sv.Tensor([1, 2]), 0.5).tolist()
        [0.5, 1.5]
    """
    return apply_binary(Op.SUB, x1, x2, refused=(bool_,))


@operation(
    test="test_arithmetic.py::test_arithmetic_agrees_with_numpy_on_every_shape",
    standard=True,
    methods=("mul",),
)
def multiply(x1: Tensor, x2: Operand, /) -> Tensor:
    """Multiply element-wise: `x1 * x2`, the logical and for booleans. Shapes broadcast, dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.multiply(sv.Tensor([1, 2]), [3, 4]).tolist()
        [3, 8]
    """
    return apply_binary(Op.MUL, x1, x2)


@operation(
    test="test_arithmetic.py::test_true_division_of_integers_is_float32",
    standard=True,
    aliases=("true_divide",),
    methods=("div",),
)
def divide(x1: Tensor, x2: Operand, /) -> Tensor:
    """Divide element-wise: `x1 / x2`, in float32 for integers. Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.divide(sv.Tensor([1, 2]), 4).tolist()
        [0.25, 0.5]
    """
    x, y = promote_to_float(x1, x2)
    return apply_op(Op.FDIV, x, y)


@operation(
    test="test_arithmetic.py::test_quotients_and_remainders_of_all_magnitudes_agree_with_numpy",
    standard=True,
)
@reuse_graph
def floor_divide(x1: Tensor, x2: Operand, /) -> Tensor:
    """Floor of the quotient of `x1` and `x2`, element-wise. Shapes broadcast and dtypes promote.

    An integer divided by zero gives 0, or an error in a plan that checks its operands.

    Raises:
        OperandError: if both are boolean.

    Example:
        >>> import svod_tensor as sv
        >>> sv.floor_divide(sv.Tensor([-7, 7, 7]), sv.Tensor([2, 2, 0])).tolist()
        [-4, 3, 0]
    """
    x, y = promote(x1, x2, refused=(bool_,))
    return (
        _float_divmod(x, y)[0]
        if x.dtype.is_float
        else _integer_division(x, "floor_divide", Op.IDIV, y)
    )


@operation(
    test="test_arithmetic.py::test_float_floor_division_and_remainder_agree_with_numpy",
    standard=True,
    aliases=("mod",),
)
@reuse_graph
def remainder(x1: Tensor, x2: Operand, /) -> Tensor:
    """Remainder of floor division, `x1 - (x1 // x2) * x2`, with the sign of `x2`. Shapes broadcast.

    Dtypes promote. The remainder of an integer division by zero is 0, or an error in a plan that
    checks its operands. The remainder of floats is exact for any quotient, before `x2` is added
    where the signs differ.

    Raises:
        OperandError: if both are boolean.

    Example:
        >>> import svod_tensor as sv
        >>> sv.remainder(sv.Tensor([-7, 7, 7]), sv.Tensor([3, -3, 0])).tolist()
        [2, -2, 0]
    """
    x, y = promote(x1, x2, refused=(bool_,))
    if not x.dtype.is_float:
        return _integer_division(x, "remainder", Op.MOD, y)
    result = apply_op(Op.FMOD, x, y)
    is_adjusted = result.ne(0).logical_and(result.lt(0).ne(y.lt(0)))
    result = is_adjusted.where(result.add(y), result)
    # As in numpy and Python, a remainder of 0 has the sign of the divisor.
    return with_rule(REMAINDER, result.eq(0).where(result.zeros_like().copysign(y), result), (x, y))


def _integer_division(x: Tensor, operation: str, op: Op, divisor: Tensor) -> Tensor:
    return apply_op(op, x, divisor, make_check(divisor.uop, operation))


def _float_divmod(x: Tensor, divisor: Tensor) -> tuple[Tensor, Tensor]:
    # Narrower floats are divided in float64, whose precision keeps the quotient on the correct side
    # of an integer.
    dtype = x.dtype
    x, y = (x.cast(float64), divisor.cast(float64)) if dtype.itemsize < 8 else (x, divisor)
    # Magnitudes first: for different signs, a tiny quotient would be rounded away in the step to -1.
    magnitude, step = x.abs(), y.abs()
    quotient = magnitude.div(step).floor()
    remainder = magnitude.sub(quotient.mul(step))
    is_below, is_above = remainder.lt(0), remainder.ge(step)
    quotient = is_below.where(quotient.sub(1), is_above.where(quotient.add(1), quotient))
    remainder = is_below.where(remainder.add(step), is_above.where(remainder.sub(step), remainder))
    # A quotient beyond the precision of the dtype has no meaningful remainder: use 0.
    remainder = remainder.lt(0).logical_or(remainder.ge(step)).where(0.0, remainder)
    # x mod inf is x for finite x; inf mod y is NaN.
    is_dividend = step.eq(math.inf).logical_and(magnitude.lt(math.inf))
    quotient, remainder = is_dividend.where(0.0, quotient), is_dividend.where(magnitude, remainder)
    quotient = magnitude.eq(math.inf).logical_and(y.ne(0)).where(math.nan, quotient)
    # For different signs, floor division rounds the magnitude up, unless the remainder is 0.
    differs = x.lt(0).ne(y.lt(0))
    is_adjusted = differs.logical_and(remainder.gt(0))
    quotient = is_adjusted.where(quotient.add(1), quotient)
    remainder = is_adjusted.where(step.sub(remainder), remainder)
    quotient = x.signbit().ne(y.signbit()).where(quotient.neg(), quotient)
    return quotient.cast(dtype), y.lt(0).where(remainder.neg(), remainder).cast(dtype)


@operation(test="test_comparison.py::test_pairs_of_special_values_agree_with_numpy")
@reuse_graph
def fmod(x1: Tensor, x2: Operand, /) -> Tensor:
    """Remainder of truncating division by `x2`, as C's `fmod`, with the sign of `x1`. Shapes broadcast
    and dtypes promote.

    The remainder of an integer division by zero is 0, or an error in a plan that checks operands.

    Raises:
        OperandError: if both are boolean.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fmod(sv.Tensor([-7, 7]), 3).tolist()
        [-1, 1]
    """
    x, y = promote(x1, x2)
    if x.dtype.is_float:
        return with_rule(FMOD, apply_op(Op.FMOD, x, y), (x, y))
    # Computed from the floor remainder, since the absolute value of the minimum overflows.
    floor_remainder = x.remainder(y)
    return (
        floor_remainder.ne(0)
        .logical_and(floor_remainder.lt(0).ne(x.lt(0)))
        .where(floor_remainder.sub(y), floor_remainder)
        if x.dtype.is_signed
        else floor_remainder
    )


@operation(
    test="test_arithmetic.py::test_powers_agree_with_numpy", standard=True, aliases=("power",)
)
@rounds_once
def pow(x1: Tensor, x2: Operand, /) -> Tensor:
    """Raise `x1` to the power `x2` element-wise. Shapes broadcast and dtypes promote.

    Integer powers wrap; a negative integer exponent gives the truncated power, which is 0 unless the
    base is 1 or -1.

    Raises:
        OperandError: if both are boolean.

    Example:
        >>> import svod_tensor as sv
        >>> sv.pow(sv.Tensor([2.0, 9.0]), 0.5).round(4).numpy()
        array([1.4142, 3.    ], dtype=float32)
    """
    if isinstance(x2, (int, float)) and not isinstance(x2, bool) and x1.dtype.is_inexact:
        # A multiplication or two instead of a logarithm and an exponential.
        power = _constant_power(x1, x2)
        if power is not None:
            return power
    x, y = promote(x1, x2, refused=(bool_,))
    if x.dtype.is_complex:
        if isinstance(x2, int) and builtins.abs(x2) <= _MOST_MULTIPLIED:
            return _multiply_power(x, x2)
        return raise_power(x, y)
    if x.dtype.is_float:
        return apply_op(Op.POW, x, y)
    return _integer_power(x, y, x2 if isinstance(x2, int) else None)


def _constant_power(x: Tensor, exponent: int | float) -> Tensor | None:
    match exponent:
        case 0:
            return x.from_uop(broadcast_node(UOp.const(x.dtype, 1.0), x.shape))
        case 1:
            return x.clone()
        case 2:
            return x.mul(x)
        case 3:
            return x.mul(x).mul(x)
        case -1:
            return x.reciprocal()
        case _:
            return None


def _multiply_power(x: Tensor, exponent: int) -> Tensor:
    """Integer power by repeated squaring."""
    power, square, remaining = x.ones_like(), x, builtins.abs(exponent)
    while remaining:
        power = power.mul(square) if remaining & 1 else power
        remaining >>= 1
        square = square.mul(square) if remaining else square
    return power if exponent >= 0 else power.reciprocal()


def _integer_power(x: Tensor, exponent: Tensor, constant: int | None) -> Tensor:
    bits = exponent.dtype.bits - exponent.dtype.is_signed
    if constant is not None:
        # A known exponent takes a squaring for each of its bits; an unknown one, for all bits of
        # its dtype.
        bits = max(constant, 0).bit_length()
    unit = UOp.const(x.dtype, 1)
    result = x.from_uop(broadcast_node(unit, broadcast_shapes(x.shape, exponent.shape)))
    square = x
    for bit in range(bits):
        if constant is None:
            is_set = exponent.rshift(bit).bitwise_and(1).ne(0)
            result = is_set.where(result.mul(square), result)
        elif constant >> bit & 1:
            result = result.mul(square)
        square = square.mul(square) if bit + 1 < bits else square
    if not exponent.dtype.is_signed or (constant is not None and constant >= 0):
        return result
    # The integer part of x to a negative power: 1 or -1 for these bases, by the parity of the
    # exponent, and 0 for all other bases.
    sign = exponent.bitwise_and(1).eq(0).where(x.mul(x), x)
    inverse = x.abs().eq(1).where(sign, 0)
    return exponent.lt(0).where(inverse, result)


@operation(test="test_operations.py::test_signs_and_squares_agree_with_numpy", standard=True)
def square(x: Tensor, /) -> Tensor:
    """Square element-wise, in the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.square(sv.Tensor([-3, 2])).tolist()
        [9, 4]
    """
    return x.mul(x)


@operation(test="test_functions.py::test_rsqrt_and_reciprocal", standard=True)
def reciprocal(x: Tensor, /) -> Tensor:
    """Reciprocal `1 / x`, element-wise. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.reciprocal(sv.Tensor([4.0, -0.5, 0.0])).tolist()
        [0.25, -2.0, inf]
    """
    return apply_unary(Op.RECIPROCAL, to_float(x))


@operation(
    test="test_operations.py::test_signs_and_squares_agree_with_numpy",
    standard=True,
    methods=("neg",),
)
def negative(x: Tensor, /) -> Tensor:
    """Negate element-wise, in the dtype of `x`; unsigned integers wrap.

    Raises:
        OperandError: if the tensor is boolean, as in numpy.

    Example:
        >>> import svod_tensor as sv
        >>> sv.negative(sv.Tensor([1, -2])).tolist()
        [-1, 2]
    """
    return apply_unary(Op.NEG, _refuse(x, "negative", bool_))


@operation(test="test_operations.py::test_signs_and_squares_agree_with_numpy", standard=True)
def positive(x: Tensor, /) -> Tensor:
    """Return a copy of the tensor, as numpy's `positive`.

    Raises:
        OperandError: if the tensor is boolean, as in numpy.

    Example:
        >>> import svod_tensor as sv
        >>> sv.positive(sv.Tensor([1, -2])).tolist()
        [1, -2]
    """
    return _refuse(x, "positive", bool_).clone()


def _refuse(x: Tensor, operation: str, dtype: DType) -> Tensor:
    if x.dtype is dtype:
        raise OperandError(
            operation=operation,
            found=dtype,
            expected="a numeric dtype",
            hint="use logical_not or cast with x.cast(int32)",
        )
    return x


@operation(test="test_arithmetic.py::test_rounding_agrees_with_numpy", standard=True)
def abs(x: Tensor, /) -> Tensor:
    """Absolute value, in the dtype of `x`; the minimum of a signed integer dtype wraps to itself.

    For complex numbers, the magnitude as a float: `hypot(x.real, x.imag)`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.abs(sv.Tensor([1.5, -2.0])).tolist()
        [1.5, 2.0]
    """
    if x.dtype.is_complex:
        return x.real.hypot(x.imag)
    # A copy, since every operation that is no view returns a tensor of its own.
    return x.clone() if x.dtype.kind in ("bool", "uint") else apply_unary(Op.ABS, x)


@operation(test="test_arithmetic.py::test_rounding_agrees_with_numpy", standard=True)
def sign(x: Tensor, /) -> Tensor:
    """Sign: -1, 0 or 1 in the dtype of `x`, and NaN for NaN; for complex numbers, `x / abs(x)`, and 0
    for 0.

    The sign of a complex number with one infinite part has the direction of that part; with two
    infinite parts it is NaN, as in numpy.

    Raises:
        OperandError: if the tensor is boolean.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sign(sv.Tensor([-3.0, 0.0, 0.5])).tolist()
        [-1.0, 0.0, 1.0]
    """
    if x.dtype.is_complex:
        size = x.abs()
        direction = x.div(size.eq(0).where(1.0, size))
        infinite = (
            x.real.isinf()
            .where(x.real.sign(), 0.0)
            .complex(x.imag.isinf().where(x.imag.sign(), 0.0))
        )
        is_one = x.real.isinf().ne(x.imag.isinf()).logical_and(x.isnan().logical_not())
        return x.eq(0).where(0.0, is_one.where(infinite, direction))
    return apply_unary(Op.SIGN, _refuse(x, "sign", bool_))


@operation(test="test_arithmetic.py::test_rounding_agrees_with_numpy", standard=True)
def floor(x: Tensor, /) -> Tensor:
    """Round toward negative infinity, in the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.floor(sv.Tensor([-1.5, 1.5])).tolist()
        [-2.0, 1.0]
    """
    return _rounded(x, Op.FLOOR)


@operation(test="test_arithmetic.py::test_rounding_agrees_with_numpy", standard=True)
def ceil(x: Tensor, /) -> Tensor:
    """Round toward positive infinity, in the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ceil(sv.Tensor([-1.5, 1.5])).tolist()
        [-1.0, 2.0]
    """
    return _rounded(x, Op.CEIL)


@operation(test="test_arithmetic.py::test_rounding_agrees_with_numpy", standard=True)
def trunc(x: Tensor, /) -> Tensor:
    """Round toward zero, in the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.trunc(sv.Tensor([-1.5, 1.5])).tolist()
        [-1.0, 1.0]
    """
    return _rounded(x, Op.TRUNC)


@operation(
    test="test_arithmetic.py::test_rounding_agrees_with_numpy", standard=True, aliases=("rint",)
)
@rounds_once
def round(x: Tensor, /, decimals: int = 0) -> Tensor:
    """Round to the nearest integer, ties to even, in the dtype of `x`. Complex parts are rounded
    separately.

    Args:
        decimals: number of decimals to round to; -1 rounds to multiples of 10.

    Example:
        >>> import svod_tensor as sv
        >>> sv.round(sv.Tensor([0.5, 1.5, 2.5])).tolist()
        [0.0, 2.0, 2.0]
        >>> sv.round(sv.Tensor([0.125]), 2).numpy()
        array([0.12], dtype=float32)
    """
    if x.dtype.is_complex:
        return x.real.round(decimals).complex(x.imag.round(decimals))
    if not decimals or not x.dtype.is_float:
        return _rounded(x, Op.ROUND)
    # As numpy does: 10**n is exact in floats, but 0.1**n is not.
    scale = 10.0 ** builtins.abs(decimals)
    return x.mul(scale).round().div(scale) if decimals > 0 else x.div(scale).round().mul(scale)


def _rounded(x: Tensor, op: Op) -> Tensor:
    return apply_unary(op, x) if x.dtype.is_inexact else x.clone()


@operation(test="test_arithmetic.py::test_isclose_and_lerp")
@reuse_graph
@rounds_once
def lerp(x: Tensor, /, end: Operand, weight: Operand) -> Tensor:
    """Linear interpolation `x + (end - x) * weight`. Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.lerp(sv.Tensor([0.0, 10.0]), 20.0, 0.25).tolist()
        [5.0, 12.5]
    """
    x, last = promote(x, end)
    return x.add(last.sub(x).mul(weight))
