"""SIN, COS and TAN: argument reduction by pi / 2, then polynomials for |r| <= pi / 4.

The remainder is a sum of two floats, r + s, so that its rounding error is negligible:

    sin x = ± r + (s + r^3 S(r^2))   or   ± 1 + r^2 (-1/2 + r^2 C(r^2)), by the parity of n
    tan x = t or -1 / t, where t = r + (s + s r^2 + r^3 T(r^2))

Cost (float32): SIN and COS 37 operations, TAN 28 and a division, about a hundred for arguments
beyond 100,000. The pass branch-rare computes the latter only for vectors that have such an argument.

The polynomials are minimax in r^2, found here by the Remez exchange with the relative error of the
function as weight; the errors are below 2^-27 (float32) and 2^-57 (float64)."""

from __future__ import annotations

from typing import Final

from svod_dtype import float32, float64
from svod_ir import Op, UOp
from svod_schedule.lower.transcendental.floats import FLOAT32, FLOAT64, fma, format_of, polynomial
from svod_schedule.lower.transcendental.reduction import (
    LIMIT,
    Remainder,
    reduce_huge,
    reduce_moderate,
)

__all__ = [
    "cos",
    "cos_of_huge",
    "cos_of_moderate",
    "is_huge",
    "sin",
    "sin_of_huge",
    "sin_of_moderate",
    "tan",
    "tan_of_huge",
    "tan_of_moderate",
]

# fmt: off
_SIN: Final = {
    FLOAT32: (-0.16666653752326965, 0.008332105353474617, -0.0001950765581568703),
    FLOAT64: (-0.16666666666666627, 0.008333333333321069, -0.00019841269828698485, 2.7557313298762037e-06,
              -2.5050695513490255e-08, 1.589311580282836e-10),
}
_COS: Final = {
    FLOAT32: (-0.5, 0.04166664555668831, -0.0013887297827750444, 2.443008816044312e-05),
    FLOAT64: (-0.5, 0.04166666666666658, -0.001388888888887097, 2.4801587287527947e-05, -2.755731379155251e-07,
              2.087564748647967e-09, -1.1355743707865412e-11),
}
_TAN: Final = {
    FLOAT32: (0.3333335220813751, 0.1333257108926773, 0.05407097935676575, 0.021222606301307678, 0.010995560325682163,
              -0.0001187851739814505, 0.004481568932533264),
    FLOAT64: (0.333333333333334, 0.13333333333322758, 0.05396825397430227, 0.021869488361163418, 0.00886323853728616,
              0.0035920944852651125, 0.0014560908153450902, 0.0005886394718722951, 0.00024455119943477953,
              8.151715281808944e-05, 7.093162027489087e-05, -3.031602114031762e-05, 5.253645614419866e-05,
              -2.620176681413986e-05, 1.0227099191873257e-05),
}
# fmt: on


def sin(x: UOp, *, has_fma: bool = True) -> UOp:
    """Sine of an angle in radians."""
    return is_huge(x, has_fma=has_fma).where(sin_of_huge(x), sin_of_moderate(x, has_fma=has_fma))


def cos(x: UOp, *, has_fma: bool = True) -> UOp:
    """Cosine of an angle in radians."""
    return is_huge(x, has_fma=has_fma).where(cos_of_huge(x), cos_of_moderate(x, has_fma=has_fma))


def tan(x: UOp, *, has_fma: bool = True) -> UOp:
    """Tangent of an angle in radians."""
    return is_huge(x, has_fma=has_fma).where(tan_of_huge(x), tan_of_moderate(x, has_fma=has_fma))


def is_huge(x: UOp, *, has_fma: bool) -> UOp:
    """Mask of the arguments that are too large for the functions of moderate arguments."""
    return x.alu(Op.ABS) > LIMIT[format_of(x), has_fma]


def sin_of_moderate(x: UOp, *, has_fma: bool) -> UOp:
    # A zero keeps its sign.
    return x.eq(0.0).where(x, _sine(reduce_moderate(x, format_of(x), has_fma=has_fma), 0))


def cos_of_moderate(x: UOp, *, has_fma: bool) -> UOp:
    return _sine(reduce_moderate(x, format_of(x), has_fma=has_fma), 1)


def tan_of_moderate(x: UOp, *, has_fma: bool) -> UOp:
    return x.eq(0.0).where(x, _tangent(reduce_moderate(x, format_of(x), has_fma=has_fma)))


def sin_of_huge(x: UOp) -> UOp:
    return _sine(reduce_huge(x, format_of(x)), 0)


def cos_of_huge(x: UOp) -> UOp:
    return _sine(reduce_huge(x, format_of(x)), 1)


def tan_of_huge(x: UOp) -> UOp:
    return _tangent(reduce_huge(x, format_of(x)))


def _tangent(remainder: Remainder) -> UOp:
    # In float32 the error of a quotient of rounded values slightly exceeds 1 ulp, so it is computed
    # in float64.
    return (_tangent32 if format_of(remainder[1]) is FLOAT32 else _tangent64)(*remainder)


def _tangent32(quadrant: UOp, r: UOp, s: UOp) -> UOp:
    wide = r.cast(float64) + s.cast(float64)
    square = wide * wide
    t = fma(wide * square, polynomial(square, _TAN[FLOAT32]), wide)
    return (quadrant & 1).ne(0).where(UOp.const(t.dtype, -1.0) / t, t).cast(float32)


def _tangent64(quadrant: UOp, r: UOp, s: UOp) -> UOp:
    square = r * r
    correction = fma(r * square, polynomial(square, _TAN[FLOAT64]), fma(s, square, s))
    t = r + correction
    t_low = r - t + correction
    # -1 / t, with one Newton step for t + t_low.
    inverse = UOp.const(t.dtype, -1.0) / t
    inverse = fma(inverse, fma(inverse, t_low, fma(inverse, t, 1.0)), inverse)
    return (quadrant & 1).ne(0).where(inverse, t)


def _sine(remainder: Remainder, n_quarters: int) -> UOp:
    """Sine of an angle plus a number of quarter turns."""
    quadrant, r, s = remainder
    layout = format_of(r)
    if n_quarters:
        quadrant = quadrant + n_quarters
    product = r * s
    square = fma(r, r, product + product)
    sine = r + fma(r * square, polynomial(square, _SIN[layout]), s)
    cosine = fma(polynomial(square, _COS[layout]), square, 1.0)
    value = (quadrant & 1).ne(0).where(cosine, sine)
    # Bit 1 of the quadrant, moved to the sign.
    sign = (quadrant << (layout.dtype.bits - 2)) & layout.signed.min
    return layout.from_bits(layout.to_bits(value) ^ sign)
