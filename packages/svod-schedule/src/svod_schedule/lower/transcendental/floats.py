"""Building blocks of the approximations: float formats, polynomials, and bit manipulation.

A value is a float32 or float64 node of any number of lanes. All functions here and in the
neighboring modules are independent of the number of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from svod_dtype import DType, float32, float64, int32, int64, uint32, uint64
from svod_ir import Op, UOp, make_alu

__all__ = [
    "FLOAT32",
    "FLOAT64",
    "FloatFormat",
    "fma",
    "format_of",
    "polynomial",
    "product_error",
    "with_sign_of",
]


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A binary interchange format of IEEE 754: its dtype, the integer dtypes of the same size, the
    number of mantissa bits, and the exponent bias.
    """

    dtype: DType
    signed: DType
    unsigned: DType
    mantissa_bits: int
    bias: int

    @property
    def sign_bit(self) -> int:
        return 1 << (self.dtype.bits - 1)

    @property
    def rounder(self) -> float:
        """1.5 * 2^mantissa_bits. Adding it to a small float rounds that to an integer, which is then
        in the low bits.
        """
        return 1.5 * 2.0**self.mantissa_bits

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)

    def to_bits(self, x: UOp) -> UOp:
        """Reinterpret `x` as a signed integer."""
        return x.bitcast(self.signed.vec(x.dtype.lanes))

    def to_unsigned(self, x: UOp) -> UOp:
        """Reinterpret `x` as an unsigned integer, whose right shift is logical."""
        return x.bitcast(self.unsigned.vec(x.dtype.lanes))

    def from_bits(self, bits: UOp) -> UOp:
        """Reinterpret an integer of the same size as a float."""
        return bits.bitcast(self.dtype.vec(bits.dtype.lanes))


FLOAT32: Final = FloatFormat(float32, int32, uint32, 23, 127)
FLOAT64: Final = FloatFormat(float64, int64, uint64, 52, 1023)


def format_of(x: UOp) -> FloatFormat:
    """Return the format of a float32 or float64 value."""
    return FLOAT32 if x.dtype.scalar is float32 else FLOAT64


def fma(x: UOp, y: UOp | float, z: UOp | float) -> UOp:
    """Return `x * y + z`, rounded once if the target has fma.

    Constants are chosen such that products that have to be exact are exact without fma as well.
    """
    y = y if isinstance(y, UOp) else UOp.const(x.dtype, y)
    return make_alu(Op.MULACC, x, y, z if isinstance(z, UOp) else UOp.const(x.dtype, z))


def polynomial(x: UOp, coefficients: Sequence[float]) -> UOp:
    """Evaluate a polynomial by Horner's rule; the constant coefficient comes first."""
    result = UOp.const(x.dtype, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result


def with_sign_of(magnitude: UOp, x: UOp) -> UOp:
    """Copy the sign bit of `x` to a non-negative value."""
    layout = format_of(x)
    # By bits: a comparison with 0 would lose the sign of -0.0, and take a select.
    return layout.from_bits(layout.to_bits(magnitude) | (layout.to_bits(x) & layout.signed.min))


def product_error(x: UOp, y: UOp, product: UOp, *, has_fma: bool) -> UOp:
    """Return the rounding error of `product = x * y`. The values are float64 if the target has no
    fma.

    Source:
        Dekker, "A floating-point technique for extending the available precision", Numerische
        Mathematik 18 (1971); here the operands are split by a mask.
    """
    # The fma computes x * y - product with one rounding, of a value that is exact.
    if has_fma:
        return fma(x, y, -product)
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    return x_high * y_high - product + x_high * y_low + x_low * y_high + x_low * y_low


def _halves(x: UOp) -> tuple[UOp, UOp]:
    # 27 bits less leave 26, so the product of two high parts is exact. A mask does not overflow, as
    # Dekker's multiplication by 2^27 + 1 does for large x.
    high = FLOAT64.from_bits(FLOAT64.to_bits(x) & ~((1 << 27) - 1))
    return high, x - high
