"""EXP, EXP2 and EXPM1, as an integer power of two times a polynomial.

With n = round(x / log 2) and r = x - n log 2, `exp(x) = 2^n exp(r)` with |r| <= log(2) / 2. Adding
1.5 * 2^mantissa_bits + b to a small number rounds it to an integer n and leaves n + b in the low
bits, where integer operations can use it. The power is applied as two factors of about 2^(n/2):
these are normal numbers over the whole range from overflow to underflow, and only one multiplication
rounds to a subnormal result, so no case distinction is needed.

EXPM1 subtracts 1 before the power is applied, `2^n (exp(r) - 1 + (1 - 2^-n))`, and compensates for
the rounding errors of r and of that sum: if n is 1 or -1, nearly two bits cancel.

Cost (float32): EXP 19 instructions, 10 of them fma; EXP2 17; EXPM1 35.

The coefficients are minimax polynomials for (exp(r) - 1) / r and (2^r - 1) / r, found here by the
Remez exchange with the relative error of the whole function as weight; the errors are below 2^-26
(float32; EXP: 2^-32) and 2^-56 (float64)."""

from __future__ import annotations

from typing import Final

from svod_ir import UOp
from svod_schedule.lower.transcendental.floats import (
    FLOAT32,
    FLOAT64,
    FloatFormat,
    fma,
    format_of,
    polynomial,
    with_sign_of,
)

__all__ = [
    "EXP",
    "EXP2",
    "LOG2_E",
    "LOG_2",
    "clamp",
    "exp",
    "exp2",
    "expm1",
    "reduce_by_log2",
    "round_and_scale",
    "scale_twice",
]

LOG2_E: Final = 1.4426950408889634
# log 2 as a sum of two floats. The first has so few bits that its product with n is exact.
LOG_2: Final = {
    FLOAT32: (0.693145751953125, 1.428606765330187e-06),
    FLOAT64: (0.6931471803691238, 1.9082149292705877e-10),
}
# fmt: off
EXP: Final = {
    FLOAT32: (1.0, 0.5, 0.1666666716337204, 0.04166640713810921, 0.008333040401339531, 0.0013940653298050165,
              0.00020107283489778638),
    FLOAT64: (1.0, 0.5, 0.16666666666666657, 0.04166666666658416, 0.00833333333328394, 0.0013888888935305987,
              0.00019841270072071078, 2.4801497527358672e-05, 2.755699218334703e-06, 2.7629754713251936e-07,
              2.521332153111272e-08),
}
EXP2: Final = {
    FLOAT32: (0.6931471824645996, 0.24022594094276428, 0.055503662675619125, 0.009625446982681751, 0.001338793896138668,
              0.0001333173713646829),
    FLOAT64: (0.6931471805599453, 0.24022650695910172, 0.055504108664824574, 0.009618129107577079, 0.0013333558145567903,
              0.00015403530478844672, 1.5252734737599204e-05, 1.3215424486631304e-06, 1.0177656225815333e-07,
              7.075616420345005e-09, 4.5192973322033675e-10),
}
# fmt: on
# Arguments beyond these limits give 0 and infinity as well. At the lower limits of `exp` and `exp2`,
# `scale_twice` multiplies by 0, which is fast: processors of Intel take over a hundred cycles for a
# product that underflows, and a masked score is -inf.
_EXP_RANGE: Final = {FLOAT32: (-176.0, 89.0), FLOAT64: (-1418.0, 710.0)}
_EXPM1_RANGE: Final = {FLOAT32: (-20.0, 89.0), FLOAT64: (-40.0, 710.0)}
_EXP2_RANGE: Final = {FLOAT32: (-254.0, 129.0), FLOAT64: (-2046.0, 1025.0)}


def exp(x: UOp) -> UOp:
    """Exponential function, e to the power `x`."""
    layout = format_of(x)
    x = clamp(x, _EXP_RANGE[layout])
    shift = layout.rounder + 2 * layout.bias
    shifted = fma(x, LOG2_E, shift)
    n = shifted - shift
    high, low = LOG_2[layout]
    r = fma(n, -low, fma(n, -high, x))
    return scale_twice(fma(polynomial(r, EXP[layout]), r, 1.0), shifted, layout)


def exp2(x: UOp) -> UOp:
    """2 to the power `x`."""
    layout = format_of(x)
    x = clamp(x, _EXP2_RANGE[layout])
    shift = layout.rounder + 2 * layout.bias
    shifted = x + shift
    r = x - (shifted - shift)
    return scale_twice(fma(polynomial(r, EXP2[layout]), r, 1.0), shifted, layout)


def expm1(x: UOp) -> UOp:
    """e to the power `x`, minus 1."""
    layout = format_of(x)
    # Half of the power, so that it is finite if the result is near the largest float; its inverse
    # is 0 there.
    half, inverse, r, r_low = reduce_by_log2(clamp(x, _EXPM1_RANGE[layout]), -1, layout)
    offset = fma(inverse, -0.5, 1.0)
    offset_low = fma(inverse, -0.5, UOp.const(x.dtype, 1.0) - offset)
    total = offset + r
    lost = (offset - total) + r + offset_low
    tail = fma(r * r, polynomial(r, EXP[layout][1:]), r_low)
    # The sum of zeros has lost the sign of x. The product with 2 comes first, since half of a
    # subnormal number may not be representable.
    return with_sign_of((total + (tail + lost)) * 2.0 * half, x)


def reduce_by_log2(x: UOp, shift: int, layout: FloatFormat) -> tuple[UOp, UOp, UOp, UOp]:
    """Return 2^(n + shift), its inverse, and the high and low parts of r, where `x = n log 2 + r`;
    n + shift must fit the exponent.

    The inverse of the largest power of two is 0.
    """
    base = layout.rounder + layout.bias
    shifted = fma(x, LOG2_E, base)
    n = shifted - base
    high, low = LOG_2[layout]
    partial = fma(n, -high, x)
    r = fma(n, -low, partial)
    r_low = fma(n, -low, partial - r)
    power = (layout.to_unsigned(shifted) + shift) << layout.mantissa_bits
    inverse = UOp.const(power.dtype, 2 * layout.bias << layout.mantissa_bits) - power
    return layout.from_bits(power), layout.from_bits(inverse), r, r_low


def round_and_scale(x: UOp, multiplier: float) -> tuple[UOp, UOp]:
    """Return n = round(x * multiplier) and 2^n, which must be a normal number; -bias for n gives 0."""
    layout = format_of(x)
    shift = layout.rounder + layout.bias
    shifted = x + shift if multiplier == 1.0 else fma(x, multiplier, shift)
    return shifted - shift, layout.from_bits(layout.to_bits(shifted) << layout.mantissa_bits)


def clamp(x: UOp, limits: tuple[float, float]) -> UOp:
    """Clamp `x` to limits; NaN is kept."""
    # Written so that each line is one instruction on x86.
    low, high = (UOp.const(x.dtype, limit) for limit in limits)
    x = (x < low).where(low, x)
    return (x > high).where(high, x)


def scale_twice(x: UOp, shifted: UOp, layout: FloatFormat) -> UOp:
    """Return `x` times 2^n, where the low bits of `shifted` hold n + 2 bias; `x` times 0 if they are 0."""
    exponent = layout.to_unsigned(shifted)
    half = exponent >> 1
    first, second = (
        layout.from_bits(bits << layout.mantissa_bits) for bits in (half, exponent - half)
    )
    return x * first * second
