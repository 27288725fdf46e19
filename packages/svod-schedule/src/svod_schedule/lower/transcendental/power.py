"""POW: `|x|^y = 2^(y log2 |x|)`, with an extended precision logarithm, and the special cases of C17,
F.10.4.4.

y log2 |x| may be as large as the largest exponent, which costs as many bits of the logarithm's
precision as an exponent has. float32 is computed in float64. For float64 the logarithm is a sum of
two floats:

    s = f / (2 + f),    log2(1 + f) = s (A + s^2 (B + s^2 Q(s^2))),    A = 2 / log 2,    B = A / 3

where s, s^2, A, B and their products are sums of two floats.

Cost: 42 operations on float64 for float32; 108 for float64, including a division; 22 for the special
cases.

The polynomials are minimax, found here by the Remez exchange. The errors are 2^-38 for the
logarithm and 2^-34 for the power of two in float32's case, 2^-66 and 2^-57 in float64's."""

from __future__ import annotations

import math
from typing import Final

from svod_dtype import float32, float64
from svod_ir import Op, UOp
from svod_schedule.lower.transcendental.exponential import EXP2, clamp, round_and_scale, scale_twice
from svod_schedule.lower.transcendental.floats import (
    FLOAT32,
    FLOAT64,
    fma,
    format_of,
    polynomial,
    product_error,
)
from svod_schedule.lower.transcendental.logarithm import split_exponent

__all__ = ["pow"]

# fmt: off
_LOG2_FOR_FLOAT32: Final = (
    1.4426950408865737, -0.7213475203275922, 0.4808983488036186, -0.3606737931345109, 0.28853879566727836, -0.2404464336078654,
    0.20610712480523485, -0.18043675173105517, 0.16021664501894825, -0.14249861129812608, 0.13027574065218142,
    -0.13462948807506933, 0.13251179947452327, -0.06973876495096563,
)
_EXP2_FOR_FLOAT32: Final = (
    0.6931471807043373, 0.2402265106664375, 0.05550410366343651, 0.009618038123423479, 0.0013333934857264035,
    0.0001546675856039309, 1.5196192721834244e-05,
)
_A: Final = (2.8853900817779268, 4.0710547481862066e-17)
_B: Final = (0.9617966939259756, 5.0577616648125907e-17)
_Q: Final = (
    0.577078016355618, 0.41219858309193874, 0.32059890227402427, 0.262307701064216, 0.22198400151764175, 0.19125505246927543,
    0.19038662025248335,
)
# fmt: on
# Bounds of the exponents of results; at the lower ones the factor is 0, so that no product underflows.
# y is clamped so that its product with log2(1) = 0 is not NaN.
_EXPONENTS: Final = {FLOAT32: (-1023.0, 130.0), FLOAT64: (-2046.0, 1030.0)}
_LARGEST_Y: Final = {FLOAT32: (-1.0e30, 1.0e30), FLOAT64: (-1.0e200, 1.0e200)}


def pow(x: UOp, y: UOp, *, has_fma: bool = True) -> UOp:
    """Power function, `x` to the power `y`."""
    layout = format_of(x)
    size = x.alu(Op.ABS)
    bounded = clamp(y, _LARGEST_Y[layout])
    magnitude = (
        _power32(size, bounded) if layout is FLOAT32 else _power64(size, bounded, has_fma=has_fma)
    )
    # All floats from 2^(mantissa + 1) on are even integers, which half of y shows as well.
    is_integer = y.alu(Op.TRUNC).eq(y)
    half = y * 0.5
    is_odd = is_integer & half.alu(Op.TRUNC).ne(half)
    sign = is_odd.where(layout.to_bits(x) & layout.signed.min, 0)
    result = layout.from_bits(layout.to_bits(magnitude) | sign)
    has_no_root = (x < 0.0) & (x > -math.inf) & y.alu(Op.TRUNC).ne(y)
    result = has_no_root.where(UOp.const(x.dtype, math.nan), result)
    # Last, since it also holds for a NaN as the other operand.
    return (x.eq(1.0) | y.eq(0.0)).where(UOp.const(x.dtype, 1.0), result)


def _power32(size: UOp, y: UOp) -> UOp:
    wide = size.cast(float64)
    exponent, f = split_exponent(wide, FLOAT64, may_be_subnormal=False)
    logarithm = _with_limits(wide, fma(polynomial(f, _LOG2_FOR_FLOAT32), f, exponent))
    p = clamp(y.cast(float64) * logarithm, _EXPONENTS[FLOAT32])
    n, factor = round_and_scale(p, 1.0)
    r = p - n
    return (fma(polynomial(r, _EXP2_FOR_FLOAT32), r, 1.0) * factor).cast(float32)


def _power64(size: UOp, y: UOp, *, has_fma: bool) -> UOp:
    high, low = _log2_in_two_parts(size, has_fma=has_fma)
    high = _with_limits(size, high)
    p = y * high
    p_low = product_error(y, high, p, has_fma=has_fma) + y * low
    # If p is out of range, its low part may be NaN.
    p_low = (p.alu(Op.ABS) < -_EXPONENTS[FLOAT64][0]).where(p_low, 0.0)
    p = clamp(p, _EXPONENTS[FLOAT64])
    shift = FLOAT64.rounder + 2 * FLOAT64.bias
    shifted = p + shift
    r = p - (shifted - shift) + p_low
    return scale_twice(fma(polynomial(r, EXP2[FLOAT64]), r, 1.0), shifted, FLOAT64)


def _log2_in_two_parts(x: UOp, *, has_fma: bool) -> tuple[UOp, UOp]:
    """Return log2 of a positive finite number, with a relative error below 2^-64."""
    exponent, f = split_exponent(x, FLOAT64)
    divisor = f + 2.0
    divisor_low = f - (divisor - 2.0)
    inverse = UOp.const(x.dtype, 1.0) / divisor
    s = f * inverse
    product = s * divisor
    s_low = inverse * (
        f - product - product_error(s, divisor, product, has_fma=has_fma) - s * divisor_low
    )
    square = s * s
    square_low = product_error(s, s, square, has_fma=has_fma) + (s + s) * s_low
    tail = square * polynomial(square, _Q)
    inner = tail + _B[0]
    inner_low = UOp.const(x.dtype, _B[0]) - inner + tail + _B[1]
    product = square * inner
    product_low = product_error(square, inner, product, has_fma=has_fma) + fma(
        square, inner_low, square_low * inner
    )
    outer = product + _A[0]
    outer_low = UOp.const(x.dtype, _A[0]) - outer + product + (product_low + _A[1])
    logarithm = s * outer
    logarithm_low = product_error(s, outer, logarithm, has_fma=has_fma) + fma(
        s, outer_low, s_low * outer
    )
    total = exponent + logarithm
    # The exponent is 0 or larger than the logarithm, so the error of the sum is exact.
    return total, exponent - total + logarithm + logarithm_low


def _with_limits(x: UOp, logarithm: UOp) -> UOp:
    """Return the logarithm, with the limits for 0, infinity and NaN."""
    return (x < math.inf).where(x.eq(0.0).where(UOp.const(x.dtype, -math.inf), logarithm), x)
