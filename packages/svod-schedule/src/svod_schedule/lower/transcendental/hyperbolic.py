"""TANH: an odd polynomial near 0, `1 - 2 / (exp(2 |x|) + 1)` beyond.

Cost (float32): 27 operations, one of them a division.

The polynomial is minimax for (tanh x - x) / x^3 in x^2, found here by the Remez exchange; the relative error of x + x^3 Q(x^2)
is below 2^-28 (float32) and 2^-58 (float64). The polynomial of the exponential function is that of `exponential` on half its
interval, with its coefficients multiplied by powers of two so that it gives exp(2 r).
"""

from __future__ import annotations

from typing import Final

from svod_ir.ops import Op
from svod_ir.uop import UOp

from svod_schedule.lower.transcendental.exponential import LOG_2, power_of_two
from svod_schedule.lower.transcendental.floats import FLOAT32, FLOAT64, fma, format_of, polynomial, with_sign_of

__all__ = ["tanh"]

_LOG2_E: Final = 1.4426950408889634
_NEAR: Final = {FLOAT32: 0.75, FLOAT64: 0.625}
# tanh is 1 in the type from here on.
_FAR: Final = {FLOAT32: 10.0, FLOAT64: 20.0}
# fmt: off
_TANH: Final = {
    FLOAT32: (-0.33333316445350647, 0.1333272010087967, -0.05389450490474701, 0.02145768329501152, -0.007665631361305714,
              0.0017416472546756268),
    FLOAT64: (-0.33333333333333315, 0.1333333333332996, -0.05396825396614905, 0.02186948847069089, -0.008863234338659548,
              0.0035921142217912472, -0.001455727207049829, 0.0005894566115558392, -0.00023702397795788194,
              9.157830509862288e-05, -3.020587918391526e-05, 6.0501580234151884e-06),
}
_EXP_HALF: Final = {
    FLOAT32: (1.0, 0.49999871850013733, 0.16666540503501892, 0.04170088842511177, 0.008366885595023632, 0.0011887443251907825),
    FLOAT64: (1.0, 0.5, 0.16666666666666682, 0.041666666666666435, 0.008333333333317332, 0.0013888888889013202,
              0.000198412698963867, 2.4801587077360862e-05, 2.755723435182972e-06, 2.7557473141717985e-07, 2.5112343302045143e-08,
              2.085723136721782e-09),
}
# fmt: on
_EXP_OF_DOUBLE: Final = {layout: tuple(c * 2.0 ** (k + 1) for k, c in enumerate(cs)) for layout, cs in _EXP_HALF.items()}


def tanh(x: UOp) -> UOp:
    """The hyperbolic tangent."""
    layout = format_of(x)
    size = x.alu(Op.ABS)
    square = size * size
    near = fma(size * square, polynomial(square, _TANH[layout]), size)
    shifted = fma(_at_most(size, _FAR[layout]), 2.0 * _LOG2_E, layout.rounder + layout.bias)
    n = shifted - (layout.rounder + layout.bias)
    high, low = LOG_2[layout]
    r = fma(n, -0.5 * low, fma(n, -0.5 * high, _at_most(size, _FAR[layout])))
    exp_of_double = fma(polynomial(r, _EXP_OF_DOUBLE[layout]), r, 1.0)
    denominator = fma(exp_of_double, power_of_two(shifted, layout), 1.0)
    far = UOp.const(x.dtype, -2.0) / denominator + 1.0
    return with_sign_of((size < _NEAR[layout]).where(near, far), x)


def _at_most(x: UOp, limit: float) -> UOp:
    """The smaller of `x` and `limit`, NaN where `x` is NaN."""
    return (x > limit).where(UOp.const(x.dtype, limit), x)
