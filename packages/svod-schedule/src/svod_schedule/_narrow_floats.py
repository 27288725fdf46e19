"""Conversion between narrow floats and float32 by integer operations.

A conversion from float64 or a wide integer goes through a float32 that is rounded to odd, which
avoids double rounding. float8_e4m3 has no infinity: overflow gives NaN."""

from __future__ import annotations

from typing import Final

from svod_dtype import DType, bfloat16, float8_e4m3, float32, float64, uint8, uint16, uint32, uint64
from svod_ir import Op, UOp

__all__ = ["EXACT_IN_F32", "decode", "encode", "round_to_odd", "storage_of", "to_float32"]

EXACT_IN_F32: Final = 24
"""Number of bits of an integer that float32 represents exactly."""


def storage_of(dtype: DType) -> DType:
    """Return the unsigned integer dtype of the size of a narrow float."""
    return (uint8 if dtype.itemsize == 1 else uint16).vec(dtype.lanes)


def _bias(dtype: DType) -> int:
    return (1 << (dtype.exponent_bits - 1)) - 1


def _largest(dtype: DType) -> int:
    """Return the bits of the largest finite value."""
    ones = (1 << (dtype.exponent_bits + dtype.mantissa_bits)) - 1
    return ones - 1 if dtype is float8_e4m3 else ones - (1 << dtype.mantissa_bits)


def decode(x: UOp) -> UOp:
    """Convert a narrow float to float32, exactly."""
    dtype, lanes = x.dtype.scalar, x.dtype.lanes
    bits = x.bitcast(storage_of(x.dtype)).cast(uint32)
    if dtype is bfloat16:
        return (bits << _constant(bits, 16)).bitcast(float32.vec(lanes))
    sign_bit = 8 * dtype.itemsize - 1
    magnitude = bits & _constant(bits, (1 << sign_bit) - 1)
    sign = (bits & _constant(bits, 1 << sign_bit)) << _constant(bits, 31 - sign_bit)
    shifted = magnitude << _constant(bits, 23 - dtype.mantissa_bits)
    # The exponent field has the bias of the narrow dtype. The multiplication corrects it, and
    # normalizes subnormals.
    scaled = shifted.bitcast(float32.vec(lanes)) * 2.0 ** (127 - _bias(dtype))
    special = shifted | _constant(bits, 0x7F800000)
    is_finite = magnitude < _constant(bits, _largest(dtype) + 1)
    return (is_finite.where(scaled.bitcast(bits.dtype), special) | sign).bitcast(float32.vec(lanes))


def encode(x: UOp, dtype: DType) -> UOp:
    """Convert float32 to a narrow float, rounded to nearest even."""
    scalar, lanes = dtype.scalar, x.dtype.lanes
    bits = x.bitcast(uint32.vec(lanes))
    narrow = _encode_bfloat16(x, bits) if scalar is bfloat16 else _encode_small(x, bits, scalar)
    return narrow.cast(storage_of(scalar.vec(lanes))).bitcast(scalar.vec(lanes))


def _encode_bfloat16(x: UOp, bits: UOp) -> UOp:
    half = _constant(bits, 16)
    is_odd = (bits >> half) & _constant(bits, 1)
    rounded = (bits + _constant(bits, 0x7FFF) + is_odd) >> half
    # Rounding could carry a NaN into infinity: it stays NaN, made quiet.
    return x.ne(x).where((bits >> half) | _constant(bits, 0x40), rounded)


def _encode_small(x: UOp, bits: UOp, dtype: DType) -> UOp:
    mantissa, bias = dtype.mantissa_bits, _bias(dtype)
    shift, sign_bit = 23 - mantissa, 8 * dtype.itemsize - 1
    magnitude = bits & _constant(bits, 0x7FFFFFFF)
    sign = (bits >> _constant(bits, 31 - sign_bit)) & _constant(bits, 1 << sign_bit)
    is_odd = (magnitude >> _constant(bits, shift)) & _constant(bits, 1)
    rounded = (magnitude + _constant(bits, (1 << (shift - 1)) - 1) + is_odd) >> _constant(
        bits, shift
    )
    normal = rounded - _constant(bits, (127 - bias) << mantissa)
    # The ulp of the anchor is the smallest subnormal, so that the addition rounds to a multiple of
    # it.
    anchor = UOp.const(float32.vec(x.dtype.lanes), 2.0 ** (24 - bias - mantissa))
    anchored = (magnitude.bitcast(x.dtype) + anchor).bitcast(bits.dtype) - anchor.bitcast(
        bits.dtype
    )
    is_normal = _constant(bits, (128 - bias << 23) - 1) < magnitude
    result = is_normal.where(normal, anchored)
    largest = _largest(dtype)
    result = (_constant(bits, largest) < result).where(_constant(bits, largest + 1), result)
    quiet = largest + 1 if dtype is float8_e4m3 else largest + 1 + (1 << (mantissa - 1))
    return (_constant(bits, 0x7F800000) < magnitude).where(_constant(bits, quiet), result) | sign


def to_float32(x: UOp, narrow: DType) -> UOp:
    """Convert `x` to a float32 that rounds to the same `narrow` value as `x`."""
    dtype = x.dtype.scalar
    if dtype is float64:
        return round_to_odd(x)
    # Integers of more than 24 bits overflow the smaller formats in any case, but not bfloat16.
    if dtype.is_float or dtype.bits <= EXACT_IN_F32 or narrow is not bfloat16:
        return x.cast(float32)
    return round_to_odd(x.cast(float64) if dtype.bits <= 32 else _sticky_double(x))


def round_to_odd(x: UOp) -> UOp:
    """Convert float64 to float32, rounding to odd: the last bit of an inexact result is 1.

    Source: Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums: proved
    algorithms using rounding to odd", section 2."""
    single = x.cast(float32)
    back = single.cast(float64)
    bits = single.bitcast(uint32.vec(x.dtype.lanes))
    is_even = (bits & _constant(bits, 1)).eq(_constant(bits, 0))
    step = (
        back.alu(Op.ABS)
        .alu(Op.LT, x.alu(Op.ABS))
        .where(_constant(bits, 1), _constant(bits, 0xFFFFFFFF))
    )
    return (back.ne(x) & is_even).where(bits + step, bits).bitcast(single.dtype)


def _sticky_double(x: UOp) -> UOp:
    """Convert a 64-bit integer to float64, with a sticky last bit: 1 if lower bits are lost."""
    zero = _constant(x, 0)
    unsigned = uint64.vec(x.dtype.lanes)
    is_negative = x < zero if x.dtype.is_signed else None
    magnitude = (x if is_negative is None else is_negative.where(zero - x, x)).cast(unsigned)
    lost = (magnitude & _constant(magnitude, 0x7FF)).ne(_constant(magnitude, 0)).cast(unsigned)
    kept = (magnitude >> _constant(magnitude, 11)) | lost
    is_large = _constant(magnitude, (1 << 53) - 1) < magnitude
    double = float64.vec(x.dtype.lanes)
    result = is_large.where(kept.cast(double) * 2048.0, magnitude.cast(double))
    return result if is_negative is None else is_negative.where(-result, result)


def _constant(like: UOp, value: int) -> UOp:
    return UOp.const(like.dtype, value)
