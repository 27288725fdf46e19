"""LOG, LOG2 and LOG1P, as the exponent plus a polynomial of the significand.

x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2), so that near 1 the exponent is 0 and the
result keeps its relative accuracy. Subtracting the bits of sqrt(1/2) from the bits of x leaves that e
in the exponent field.

    log x  = e log 2 + f + f^2 (-1/2 + f Q(f))        log2 x = e + f + f R(f)

LOG1P computes e from the rounded 1 + x, but f = 2^-e x - (1 - 2^-e) from x itself, as a sum of two
floats, since one is not exact for e = 1. The rounding error of e log 2 + f is added back, since for
e = 1 a bit cancels there.

There is no division and no table. Cost (float32): 27 operations for LOG, of which 6 are for special
values and 4 for subnormal numbers; 37 for LOG1P.

The coefficients are minimax polynomials, found here by the Remez exchange so that the relative
error of the logarithm is below 2^-27 (float32) and 2^-54 (float64)."""

from __future__ import annotations

import math
from typing import Final

from svod_ir import Op, UOp
from svod_schedule.lower.transcendental.floats import (
    FLOAT32,
    FLOAT64,
    FloatFormat,
    fma,
    format_of,
    polynomial,
)

__all__ = ["log", "log1p", "log2", "split_exponent"]

# log 2 as a sum of two floats. The first has so few bits that its product with an exponent is exact.
_LOG_2: Final = {
    FLOAT32: (0.693145751953125, 1.428606765330187e-06),
    FLOAT64: (0.6931471805582987, 1.6465949582897082e-12),
}
_SQRT_HALF_BITS: Final = {FLOAT32: 0x3F3504F3, FLOAT64: 0x3FE6A09E667F3BCD}
# fmt: off
_LOG: Final = {
    FLOAT32: (-0.5, 0.3333333134651184, -0.250008225440979, 0.20001260936260223, -0.16623327136039734, 0.14200906455516815,
              -0.1315959393978119, 0.12767693400382996, -0.0764407142996788),
    FLOAT64: (-0.5, 0.3333333333333314, -0.2499999999998797, 0.20000000000066995, -0.16666666669827232, 0.14285714280044365,
              -0.12499999691297613, 0.11111111150362178, -0.10000015214714397, 0.0909092383928817, -0.08332913253639122,
              0.0769153148503415, -0.0714944531818631, 0.0668457294573514, -0.06196609789228503, 0.05668443170657519,
              -0.05678220733697748, 0.06503578210217578, -0.05980550374074331, 0.02613990347692684),
}
_LOG2: Final = {
    FLOAT32: (0.4426950514316559, -0.7213472723960876, 0.48089462518692017, -0.36069992184638977, 0.28875407576560974,
              -0.23971305787563324, 0.20149457454681396, -0.18723440170288086, 0.20264111459255219, -0.13813410699367523),
    FLOAT64: (0.4426950408889634, -0.7213475204444836, 0.4808983469630234, -0.36067376022121705, 0.28853900816708655,
              -0.24044917364157242, 0.20609929284225778, -0.18033686909688157, 0.16029936906384903, -0.14426989273467697,
              0.13115695908390473, -0.12021738165378923, 0.11091460646291497, -0.10310816766900928, 0.09698713029871914,
              -0.09029468501127254, 0.07885263586758803, -0.07419477893607378, 0.09735144762480646, -0.11048560024684724,
              0.05620848001203025),
}
# fmt: on


def log(x: UOp) -> UOp:
    """Natural logarithm."""
    layout = format_of(x)
    exponent, f = split_exponent(x, layout)
    high, low = _LOG_2[layout]
    tail = fma(f * f, polynomial(f, _LOG[layout]), exponent * low)
    return _with_special_values(x, fma(exponent, high, f + tail))


def log2(x: UOp) -> UOp:
    """Logarithm to base 2."""
    layout = format_of(x)
    exponent, f = split_exponent(x, layout)
    return _with_special_values(x, exponent + fma(polynomial(f, _LOG2[layout]), f, f))


def log1p(x: UOp) -> UOp:
    """Natural logarithm of 1 + `x`."""
    layout = format_of(x)
    shifted = layout.to_unsigned(x + 1.0) - (
        _SQRT_HALF_BITS[layout] - (layout.bias << layout.mantissa_bits)
    )
    field = shifted >> layout.mantissa_bits
    exponent = _to_float(field, layout) - (2.0**layout.mantissa_bits + layout.bias)
    # Four times the power and a quarter of x: for the largest x, 2^-e is subnormal.
    power = layout.from_bits(
        (UOp.const(field.dtype, 2 * layout.bias + 2) - field) << layout.mantissa_bits
    )
    quarter, offset = x * 0.25, fma(power, 0.25, -1.0)
    f = fma(quarter, power, offset)
    f_low = fma(quarter, power, offset - f)
    high, low = _LOG_2[layout]
    scaled = exponent * high
    total = scaled + f
    lost = (scaled - total) + f
    tail = fma(f * f, polynomial(f, _LOG[layout]), fma(exponent, low, lost + f_low))
    result = (x < math.inf).where(total + tail, x)
    result = (x > -1.0).where(result, x.eq(-1.0).where(UOp.const(x.dtype, -math.inf), math.nan))
    # For tiny x, log1p(x) rounds to x, including signed zeros.
    return (x.alu(Op.ABS) < 2.0 ** -(layout.mantissa_bits + 2)).where(x, result)


def _to_float(field: UOp, layout: FloatFormat) -> UOp:
    """Convert an exponent field to the float field + 2^mantissa_bits: with that exponent, the mantissa
    bits are the integer itself.
    """
    return layout.from_bits(field | ((layout.bias + layout.mantissa_bits) << layout.mantissa_bits))


def split_exponent(
    x: UOp, layout: FloatFormat, *, may_be_subnormal: bool = True
) -> tuple[UOp, UOp]:
    """Return e and f of `x = 2^e (1 + f)` as floats, for a positive finite x."""
    offset = UOp.const(x.dtype, 2.0**layout.mantissa_bits + layout.bias)
    if may_be_subnormal:
        is_subnormal = x < layout.smallest_normal
        x = is_subnormal.where(x * 2.0**layout.mantissa_bits, x)
        offset = is_subnormal.where(
            UOp.const(x.dtype, 2.0**layout.mantissa_bits + layout.bias + layout.mantissa_bits),
            offset,
        )
    # The exponent field of an unsigned integer; the bias is added so that it is not negative.
    shifted = layout.to_unsigned(x) - (
        _SQRT_HALF_BITS[layout] - (layout.bias << layout.mantissa_bits)
    )
    one_plus_f = layout.from_bits(
        (shifted & ((1 << layout.mantissa_bits) - 1)) + _SQRT_HALF_BITS[layout]
    )
    return _to_float(shifted >> layout.mantissa_bits, layout) - offset, one_plus_f - 1.0


def _with_special_values(x: UOp, result: UOp) -> UOp:
    # Infinity and NaN give themselves: a comparison with NaN is false.
    result = (x < math.inf).where(result, x)
    return (x > 0.0).where(result, x.eq(0.0).where(UOp.const(x.dtype, -math.inf), math.nan))
