"""ERF: an odd polynomial near 0, `1 - 2^p(|x|)` beyond, where p is a polynomial for log2(1 - erf).

Cost (float32): 33 operations, no division.

The polynomials are minimax, found here by the Remez exchange: (erf x - x) / x in x^2 with the
relative error of erf as weight, and log2(erfc x) with weight erfc(x) log 2 / erf(x), which makes
its error the error of erf. The errors are below 2^-26 (float32) and 2^-55 (float64)."""

from __future__ import annotations

from typing import Final

from svod_ir import Op, UOp
from svod_schedule.lower.transcendental.exponential import EXP2, round_and_scale
from svod_schedule.lower.transcendental.floats import (
    FLOAT32,
    FLOAT64,
    fma,
    format_of,
    polynomial,
    with_sign_of,
)

__all__ = ["erf"]

_NEAR: Final = 1.0
# Centre of the expansion of p. log2(erfc c) must be close to a representable number, since its
# rounding error is amplified.
_CENTRE: Final = {FLOAT32: 1.09765625, FLOAT64: 1.08203125}
# erf rounds to 1 from here on.
_FAR: Final = {FLOAT32: 4.0, FLOAT64: 6.0}
# fmt: off
_ERF: Final = {
    FLOAT32: (0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026, 0.005187164060771465,
              -0.0007997878710739315, 7.807015936123207e-05),
    FLOAT64: (0.1283791670955126, -0.3761263890318375, 0.11283791670954862, -0.026866170645073607, 0.0052239776247865,
              -0.0008548326979018253, 0.00012055331045746229, -1.4925593697624956e-05, 1.646097560437051e-06,
              -1.6350052454794122e-07, 1.4658050165407478e-08, -1.1366282551838624e-09, 5.946244299599598e-11),
}
_LOG2_ERFC: Final = {
    FLOAT32: (-3.051870584487915, -4.046456336975098, -1.2331109046936035, -0.05453549697995186, 0.012983917258679867,
              -0.0024326408747583628, 0.0002509384066797793),
    FLOAT64: (-2.9889455536715297, -4.0079613303307555, -1.2305334977570446, -0.0553983186459207, 0.01334053877880512,
              -0.002680770609662107, 0.0003573841273381956, 1.5369564102395774e-05, -2.9847694305625373e-05,
              1.1559447598036665e-05, -2.793954670170071e-06, 3.6845150336111084e-07, 3.0721394294721495e-08,
              -3.144629889986589e-08, 8.875538574130507e-09, -1.439181903653029e-09, 1.3339206553101993e-10,
              -5.492953610620959e-12),
}
# fmt: on


def erf(x: UOp) -> UOp:
    """Error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to `x`."""
    layout = format_of(x)
    size = x.alu(Op.ABS)
    near = fma(polynomial(size * size, _ERF[layout]), size, size)
    limit = UOp.const(x.dtype, _FAR[layout])
    u = (size > limit).where(limit, size) - _CENTRE[layout]
    constant, *coefficients = _LOG2_ERFC[layout]
    slope = polynomial(u, coefficients)
    n, factor = round_and_scale(fma(slope, u, constant), 1.0)
    # The difference is taken before the sum is rounded.
    r = fma(slope, u, UOp.const(x.dtype, constant) - n)
    power = fma(polynomial(r, EXP2[layout]), r, 1.0)
    far = fma(-factor, power, 1.0)
    return with_sign_of((size < _NEAR).where(near, far), x)
