"""TANH: an odd polynomial near 0, `1 - 2 / (exp(2 |x|) + 1)` beyond.

Cost (float32): 27 operations, one of them a division.

The polynomial is minimax for (tanh x - x) / x^3 in x^2, found here by the Remez exchange; the relative error of x + x^3 Q(x^2)
is below 2^-30 (float32) and 2^-58 (float64). The polynomial of the exponential function is that of `exponential` with its
coefficients multiplied by powers of two, so that it gives exp(2 r).
"""

from __future__ import annotations

from typing import Final

from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_schedule.lower.transcendental.exponential import EXP, LOG2_E, LOG_2, round_and_scale
from svod_schedule.lower.transcendental.floats import FLOAT32, FLOAT64, fma, format_of, polynomial, with_sign_of

__all__ = ["tanh"]

_NEAR: Final = {FLOAT32: 1.0, FLOAT64: 0.625}
# tanh is 1 in the type from here on.
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
_EXP_OF_DOUBLE: Final = {layout: tuple(c * 2.0 ** (k + 1) for k, c in enumerate(cs)) for layout, cs in EXP.items()}


def tanh(x: UOp) -> UOp:
    """The hyperbolic tangent."""
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
