"""EXP and EXP2: an integer power of two times a polynomial.

With m = round(x / (2 log 2)) and r = x - 2 m log 2, `exp(x) = 2^m * 2^m * exp(r)` with |r| <= log 2. Halving the
exponent keeps 2^m a normal number from where the result is infinite down to where it is 0, so that one multiplication
rounds to a subnormal result and no case has to be told apart. Adding 1.5 * 2^mantissa_bits + bias rounds to m and leaves
m + bias in the low bits: a left shift makes them 2^m.

Cost (float32): 15 operations, of which 9 are fma.

The coefficients are minimax polynomials for (exp(r) - 1) / r and (2^r - 1) / r, found here by the Remez exchange with
weight r / exp(r); their relative errors are below 2^-28 (float32) and 2^-57 (float64).
"""

from __future__ import annotations

from typing import Final

from svod_ir.uop import UOp

from svod_schedule.lower.transcendental.floats import FLOAT32, FLOAT64, FloatFormat, fma, format_of, polynomial

__all__ = ["LOG_2", "exp", "exp2", "exp2_factors", "power_of_two"]

_LOG2_E: Final = 1.4426950408889634
# log 2 in two parts, of which the first has so few bits that an m times it is exact.
LOG_2: Final = {
    FLOAT32: (0.693145751953125, 1.428606765330187e-06),
    FLOAT64: (0.6931471803691238, 1.9082149292705877e-10),
}
# fmt: off
_EXP: Final = {
    FLOAT32: (1.0, 0.5000000596046448, 0.16666673123836517, 0.04166600480675697, 0.008332544937729836, 0.0013909307308495045,
              0.00020111397316213697, 2.3041046006255783e-05),
    FLOAT64: (1.0, 0.5, 0.16666666666666663, 0.041666666666666664, 0.008333333333335172, 0.0013888888888890039,
              0.0001984126983823815, 2.4801587299693668e-05, 2.755732136532973e-06, 2.75573205615413e-07, 2.5051373341239356e-08,
              2.0876297826529353e-09, 1.6180080562469832e-10, 1.1546363544677275e-11),
}
_EXP2: Final = {
    FLOAT32: (0.6931471824645996, 0.24022655189037323, 0.05550411343574524, 0.009617858566343784, 0.0013332648668438196,
              0.00015449101920239627, 1.5438883565366268e-05, 1.0970926496156608e-06),
    FLOAT64: (0.6931471805599453, 0.24022650695910047, 0.05550410866482232, 0.009618129107633324, 0.0013333558146367591,
              0.0001540353039014827, 1.525273382444001e-05, 1.3215487776387907e-06, 1.0178082912657686e-07,
              7.0547602320367694e-09, 4.4457253432094967e-10, 2.5792232083734697e-11, 1.3695310495067622e-12,
              3.4612528730131356e-14),
}
# fmt: on
# Arguments beyond these give 0 and infinity all the same.
_EXP_RANGE: Final = {FLOAT32: (-104.5, 89.0), FLOAT64: (-746.0, 710.0)}
_EXP2_RANGE: Final = {FLOAT32: (-151.0, 129.0), FLOAT64: (-1076.0, 1025.0)}


def exp(x: UOp) -> UOp:
    """e to the power `x`."""
    layout = format_of(x)
    x = _clamp(x, _EXP_RANGE[layout])
    shifted = fma(x, 0.5 * _LOG2_E, layout.rounder + layout.bias)
    m = shifted - (layout.rounder + layout.bias)
    high, low = LOG_2[layout]
    r = fma(m, -2.0 * low, fma(m, -2.0 * high, x))
    return _scale_twice(fma(polynomial(r, _EXP[layout]), r, 1.0), shifted, layout)


def exp2(x: UOp) -> UOp:
    """2 to the power `x`."""
    layout = format_of(x)
    x = _clamp(x, _EXP2_RANGE[layout])
    shifted = fma(x, 0.5, layout.rounder + layout.bias)
    r = fma(shifted - (layout.rounder + layout.bias), -2.0, x)
    return _scale_twice(fma(polynomial(r, _EXP2[layout]), r, 1.0), shifted, layout)


def exp2_factors(x: UOp, coefficients: tuple[float, ...]) -> tuple[UOp, UOp]:
    """2^n and 2^(x - n) for the nearest integer n to `x`, where 2^n is a normal number.

    Args:
        coefficients: of the polynomial for (2^r - 1) / r, |r| <= 1/2.
    """
    layout = format_of(x)
    shifted = x + (layout.rounder + layout.bias)
    r = x - (shifted - (layout.rounder + layout.bias))
    return power_of_two(shifted, layout), fma(polynomial(r, coefficients), r, 1.0)


def _clamp(x: UOp, limits: tuple[float, float]) -> UOp:
    # Written so that NaN stays, and so that each comparison is one instruction on x86.
    low, high = (UOp.const(x.dtype, limit) for limit in limits)
    x = (x < low).where(low, x)
    return (x > high).where(high, x)


def power_of_two(shifted: UOp, layout: FloatFormat) -> UOp:
    return layout.from_bits(layout.to_bits(shifted) << layout.mantissa_bits)


def _scale_twice(x: UOp, shifted: UOp, layout: FloatFormat) -> UOp:
    factor = power_of_two(shifted, layout)
    return x * factor * factor
