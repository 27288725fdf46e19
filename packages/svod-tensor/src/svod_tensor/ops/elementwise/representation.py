"""Representation of numbers: bit counts, and floats as mantissa and exponent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import float64, int32, int64, uint8, uint64
from svod_ir import OperandError
from svod_tensor.ops.core.gradient_rules import elementwise_rule, with_rule
from svod_tensor.ops.core.operands import as_tensor, to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "bitwise_count",
    "frexp",
    "ldexp",
]


_EXPONENT = 0x7FF << 52
"""Mask of the exponent bits of a float64."""


@elementwise_rule("ldexp")
def _ldexp_slope(_: Tensor, operands: tuple[Tensor, Tensor], __: object) -> tuple[Tensor, None]:
    x, power = operands
    return _scale(x.ones_like(), power), None


@operation(test="test_representation.py::test_bits_are_counted")
def bitwise_count(x: Tensor, /) -> Tensor:
    """Count the bits set in the absolute value of each element (uint8).

    Raises:
        OperandError: if `x` is not an integer tensor.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_count(sv.Tensor([7, -8, 0])).tolist()
        [3, 1, 0]
    """
    if not x.dtype.is_int:
        raise OperandError(operation="bitwise_count", found=x.dtype, expected="integers")
    # abs of the minimum is itself, and is sign-extended by the cast: mask the extension.
    wide = x.abs().cast(uint64)
    bits = wide.bitwise_and((1 << x.dtype.bits) - 1)
    # Sums of neighboring fields of 1, 2 and 4 bits, then of all bytes by a multiplication. Source:
    # H. S. Warren, Hacker's Delight, section 5-1.
    bits = bits.sub(bits.rshift(1).bitwise_and(0x5555555555555555))
    bits = bits.bitwise_and(0x3333333333333333).add(bits.rshift(2).bitwise_and(0x3333333333333333))
    bits = bits.add(bits.rshift(4)).bitwise_and(0x0F0F0F0F0F0F0F0F)
    return bits.mul(0x0101010101010101).rshift(56).cast(uint8)


@operation(test="test_representation.py::test_fractions_and_exponents_agree_with_numpy")
@reuse_graph
def frexp(x: Tensor, /) -> tuple[Tensor, Tensor]:
    """Decompose floats into mantissas in [0.5, 1) and exponents (int32): `x = mantissa * 2 **
    exponent`. Integers become float32.

    0, infinities and NaN are their own mantissa, with exponent 0.

    Example:
        >>> import svod_tensor as sv
        >>> mantissas, exponents = sv.frexp(sv.Tensor([8.0, 0.75]))
        >>> (mantissas.tolist(), exponents.tolist())
        ([0.5, 0.75], [4, 0])
    """
    x = to_float(x)
    wide = x.cast(float64)
    is_subnormal = wide.abs().lt(2.0**-1022)
    # The exponent bits of a subnormal are 0: scale it to a normal number first.
    bits = is_subnormal.where(wide.mul(2.0**54), wide).bitcast(int64)
    exponent = bits.rshift(52).bitwise_and(0x7FF).sub(1022).sub(is_subnormal.where(54, 0))
    mantissa = bits.bitwise_and(~_EXPONENT).bitwise_or(1022 << 52).bitcast(float64)
    is_special = wide.eq(0).logical_or(wide.isfinite().logical_not())
    return is_special.where(wide, mantissa).cast(x.dtype), is_special.where(0, exponent).cast(int32)


@operation(test="test_representation.py::test_products_with_powers_of_two_round_once")
@reuse_graph
def ldexp(x1: Tensor, x2: Operand, /) -> Tensor:
    """Compute `x1 * 2 ** x2`, rounded once. Shapes broadcast; integers become float32.

    Args:
        x2: integer exponents.

    Raises:
        OperandError: if the exponents are not integers.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ldexp(sv.Tensor([0.5, 3.0]), [4, -1]).tolist()
        [8.0, 1.5]
    """
    x, power = to_float(x1), as_tensor(x2, x1)
    if not power.dtype.is_int:
        raise OperandError(operation="ldexp", found=power.dtype, expected="integer exponents")
    wide, power = (
        x.cast(float64),
        power.maximum(-4000 if power.dtype.min < -4000 else power.dtype.min),
    )
    # The exponents of float64 span less than 2,100 powers of two, so that beyond 4,000 every result
    # is 0 or infinite.
    power = power.minimum(min(4000, power.dtype.max)).cast(int64)
    return with_rule(_ldexp_slope, _scale(wide, power), (wide, power)).cast(x.dtype)


def _scale(x: Tensor, power: Tensor) -> Tensor:
    """Multiply `x` by a power of two.

    Intermediate products stay normal numbers, so that only the last one rounds.
    """
    for _ in range(2):
        is_high, is_low = power.gt(1023), power.lt(-1022)
        x = is_high.where(x.mul(2.0**1023), is_low.where(x.mul(2.0**-969), x))
        power = is_high.where(power.sub(1023), is_low.where(power.add(969), power))
    power = power.maximum(-1022).minimum(1023)
    return x.mul(power.add(1023).lshift(52).bitcast(float64))
