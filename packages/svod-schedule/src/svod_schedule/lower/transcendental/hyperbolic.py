"""TANH: an odd polynomial near 0, `1 - 2 / (exp(2 |x|) + 1)` beyond. SINH and COSH: sums of terms that
both exponentials share.

With |x| = n log 2 + r as for the exponential, `exp(+-|x|) = 2^+-n (cosh r +- sinh r)`, so that

    sinh |x| = 2^(n-1) ((1 - 4^-n) cosh r + (1 + 4^-n) sinh r)      cosh x = 2^(n-1) ((1 + 4^-n) cosh r + (1 - 4^-n) sinh r)

without a division; for n = 0, sinh is just the series of sinh r. The series of sinh r and cosh r
(NIST Handbook of Mathematical Functions, 4.33) are short, since |r| <= log(2) / 2: the errors are
below 2^-27 (float32) and 2^-60 (float64).

Cost (float32): TANH 27 operations, one of them a division; SINH 39; COSH 37.

The polynomial is minimax for (tanh x - x) / x^3 in x^2, found here by the Remez exchange; the
relative error of x + x^3 Q(x^2) is below 2^-30 (float32) and 2^-58 (float64). The polynomial of the
exponential function is taken from `exponential`, with its coefficients multiplied by powers of two,
so that it gives exp(2 r)."""

from __future__ import annotations

import math
from typing import Final

from svod_ir import Op, UOp
from svod_schedule.lower.transcendental.exponential import (
    EXP,
    LOG2_E,
    LOG_2,
    reduce_by_log2,
    round_and_scale,
)
from svod_schedule.lower.transcendental.floats import (
    FLOAT32,
    FLOAT64,
    fma,
    format_of,
    polynomial,
    with_sign_of,
)

__all__ = ["cosh", "sinh", "tanh"]

_NEAR: Final = {FLOAT32: 1.0, FLOAT64: 0.625}
# tanh rounds to 1 from here on.
_FAR: Final = {FLOAT32: 10.0, FLOAT64: 20.0}
# fmt: off
_TANH: Final = {
    FLOAT32: (-0.333333283662796, 0.13333174586296082, -0.0539507232606411, 0.02177443727850914, -0.008571423590183258,
              0.0030488132033497095, -0.0008218406583182514, 0.00011643125617410988),
    FLOAT64: (-0.33333333333333315, 0.1333333333332996, -0.05396825396614905, 0.02186948847069089, -0.008863234338659548,
              0.0035921142217912472, -0.001455727207049829, 0.0005894566115558392, -0.00023702397795788194,
              9.157830509862288e-05, -3.020587918391526e-05, 6.0501580234151884e-06),
}
# fmt: on
# The terms of sinh from r^3 on, and of cosh from r^2 on.
_SINH: Final = {
    layout: tuple(1.0 / math.factorial(k) for k in range(3, last, 2))
    for layout, last in ((FLOAT32, 9), (FLOAT64, 15))
}
_COSH: Final = {
    layout: tuple(1.0 / math.factorial(k) for k in range(2, last, 2))
    for layout, last in ((FLOAT32, 8), (FLOAT64, 16))
}
# Larger arguments give infinity as well; at these limits, 2^(n-2) is the largest power of two.
_LARGEST: Final = {FLOAT32: 89.5, FLOAT64: 710.6}
_EXP_OF_DOUBLE: Final = {
    layout: tuple(c * 2.0 ** (k + 1) for k, c in enumerate(cs)) for layout, cs in EXP.items()
}


def tanh(x: UOp) -> UOp:
    """Hyperbolic tangent."""
    layout = format_of(x)
    size = x.alu(Op.ABS)
    square = size * size
    near = fma(size * square, polynomial(square, _TANH[layout]), size)
    limit = UOp.const(x.dtype, _FAR[layout])
    clamped = (size > limit).where(limit, size)
    n, factor = round_and_scale(clamped, 2.0 * LOG2_E)
    high, low = LOG_2[layout]
    r = fma(n, -0.5 * low, fma(n, -0.5 * high, clamped))
    exp_of_double = fma(polynomial(r, _EXP_OF_DOUBLE[layout]), r, 1.0)
    denominator = fma(exp_of_double, factor, 1.0)
    far = UOp.const(x.dtype, -2.0) / denominator + 1.0
    return with_sign_of((size < _NEAR[layout]).where(near, far), x)


def sinh(x: UOp) -> UOp:
    """Hyperbolic sine."""
    return with_sign_of(_combine(x, -1.0), x)


def cosh(x: UOp) -> UOp:
    """Hyperbolic cosine."""
    return _combine(x, 1.0)


def _combine(x: UOp, sign: float) -> UOp:
    """(exp(|x|) + sign exp(-|x|)) / 2, as 2^(n-2) (even cosh r + odd sinh r)."""
    layout = format_of(x)
    size = x.alu(Op.ABS)
    limit = UOp.const(x.dtype, _LARGEST[layout])
    power, inverse, r, r_low = reduce_by_log2((size > limit).where(limit, size), -2, layout)
    squared = inverse * inverse
    even, odd = fma(squared, sign * 0.125, 2.0), fma(squared, -sign * 0.125, 2.0)
    even_low = fma(squared, sign * 0.125, UOp.const(x.dtype, 2.0) - even)
    square = r * r
    sine = r * square * polynomial(square, _SINH[layout])
    cosine = square * polynomial(square, _COSH[layout])
    # Nearly two bits of the sum may cancel, so its rounding error is added back.
    total = fma(odd, r, even)
    lost = fma(odd, r, even - total) + even_low
    return (total + fma(even, cosine, fma(odd, sine + r_low, lost))) * power
