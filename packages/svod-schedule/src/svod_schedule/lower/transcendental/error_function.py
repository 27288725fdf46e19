"""ERF: an odd polynomial near 0, `1 - 2^p(|x|)` beyond, where p is a polynomial for log2(1 - erf).

Cost (float32): 33 operations, no division.

The polynomials are minimax, found here by the Remez exchange: (erf x - x) / x in x^2 with the relative error of erf as
weight, and log2(erfc x) with weight erfc(x) log 2 / erf(x), which makes its error that of erf. The errors are below 2^-26
(float32) and 2^-55 (float64).
"""

from __future__ import annotations

from typing import Final

from svod_ir.ops import Op
from svod_ir.uop import UOp

from svod_schedule.lower.transcendental.exponential import split_exp2
from svod_schedule.lower.transcendental.floats import FLOAT32, FLOAT64, fma, format_of, polynomial, with_sign_of

__all__ = ["erf"]

_NEAR: Final = {FLOAT32: 1.125, FLOAT64: 0.9375}
# erf is 1 in the type from here on.
_FAR: Final = {FLOAT32: 4.0, FLOAT64: 6.0}
# fmt: off
_ERF: Final = {
    FLOAT32: (0.12837916612625122, -0.3761260211467743, 0.11283256113529205, -0.026839211583137512, 0.005160233937203884,
              -0.0007765559130348265, 7.062725489959121e-05),
    FLOAT64: (0.1283791670955126, -0.37612638903183754, 0.1128379167095506, -0.026866170645114686, 0.005223977625227604,
              -0.0008548327006896907, 0.00012055332160922666, -1.4925623028805896e-05, 1.6461489818816414e-06,
              -1.635600337331873e-07, 1.4701707835621978e-08, -1.1550234805677118e-09, 6.285320784547739e-11),
}
_LOG2_ERFC: Final = {
    FLOAT32: (-0.0009801355190575123, -1.6242098808288574, -0.923481285572052, -0.14646203815937042, 0.030484100803732872,
              -0.004014148376882076, 0.00024616176960989833),
    FLOAT64: (-4.667304304250976e-07, -1.6279021529655509, -0.9184718363879382, -0.14819892181119546, 0.027451609985438,
              0.0005176607090836405, -0.0026864893920656775, 0.001049369819851764, -0.0001554793052613804, -4.879533066585012e-05,
              4.05853463169643e-05, -1.4854931509954767e-05, 3.6396242759223036e-06, -6.391064416828376e-07, 8.022041735827084e-08,
              -6.879420043029612e-09, 3.623530190218068e-10, -8.856875560157964e-12),
}
# fmt: on


def erf(x: UOp) -> UOp:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to `x`."""
    layout = format_of(x)
    size = x.alu(Op.ABS)
    near = fma(polynomial(size * size, _ERF[layout]), size, size)
    limit = UOp.const(x.dtype, _FAR[layout])
    whole, part = split_exp2(polynomial((size > limit).where(limit, size), _LOG2_ERFC[layout]))
    far = fma(-whole, part, 1.0)
    return with_sign_of((size < _NEAR[layout]).where(near, far), x)
