"""Normal cumulative distribution function, its logarithm and inverse, and error functions, in
float64.

Source: M. J. Wichura, Algorithm AS 241, Applied Statistics 37 (1988), for the inverse;
`normal_distribution.py` for the tail."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from svod_tensor.ops.core.gradient_rules import elementwise_rule, with_rule
from svod_tensor.ops.special.gamma import evaluate_polynomial
from svod_tensor.ops.special.normal_distribution import make_normal_tail
from svod_tensor.ops.special.polynomials import NORMAL_CENTER, NORMAL_FAR, NORMAL_TAIL

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "compute_erfc",
    "compute_erfcx",
    "compute_erfinv",
    "compute_log_ndtr",
    "compute_ndtr",
    "compute_ndtri",
]


_FAR: Final = 26.0
"""Threshold from which erfcx is computed by a short series in 1 / x^2."""
_SERIES: Final = (1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125, 162.421875, -1055.7421875)
"""Coefficients of this series, times x sqrt(pi)."""
_SLOPES: Final = tuple(-(2 * n + 1) * c for n, c in enumerate(_SERIES))
"""Coefficients of its derivative, times x^2 sqrt(pi)."""
_DENSITY: Final = 1 / math.sqrt(2 * math.pi)


def _power_of_square(x: Tensor, sign: float) -> Tensor:
    """Compute exp(sign x^2) with compensation of the rounding error of x^2, which exp amplifies."""
    x = x.clip(-40.0, 40.0)
    head = x.mul(2.0**20).round().mul(2.0**-20)
    correction = x.sub(head).mul(x.add(head)).mul(sign)
    return head.square().mul(sign).exp().mul(correction.expm1().add(1))


@elementwise_rule("erfc")
def _erfc_slope(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (_power_of_square(operands[0], -1).mul(-2 / math.sqrt(math.pi)),)


def compute_erfc(x: Tensor) -> Tensor:
    """1 - erf(x)."""
    far = _scale_erfc(x.abs()).mul(_power_of_square(x, -1))
    value = x.gt(0.5).where(x.gt(30).where(0.0, far), _erf(x).neg().add(1))
    return with_rule(_erfc_slope, value, (x,))


def _erf(x: Tensor) -> Tensor:
    # Values above 1/2 are computed by another formula and discarded here.
    return x.minimum(0.5).erf()


@elementwise_rule("erfcx")
def _erfcx_slope(value: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    (x,) = operands
    # For large x both terms cancel, so the derivative of the series is used.
    wide = x.maximum(_FAR)
    inverse = wide.square().reciprocal()
    far = evaluate_polynomial(inverse, _SLOPES).mul(inverse).mul(1 / math.sqrt(math.pi))
    return (x.gt(_FAR).where(far, x.mul(value).mul(2).sub(2 / math.sqrt(math.pi))),)


def compute_erfcx(x: Tensor) -> Tensor:
    """exp(x^2) erfc(x)."""
    size = x.abs()
    value = _scale_erfc(size)
    mirrored = size.gt(27).where(math.inf, _power_of_square(x, 1).mul(2).sub(value))
    return with_rule(_erfcx_slope, x.lt(0).where(mirrored, value), (x,))


def _scale_erfc(size: Tensor) -> Tensor:
    """Compute exp(x^2) erfc(x) for non-negative x."""
    near, _ = make_normal_tail(size.mul(math.sqrt(2)))
    wide = size.maximum(_FAR)
    series = evaluate_polynomial(wide.square().reciprocal(), _SERIES)
    far = wide.reciprocal().mul(1 / math.sqrt(math.pi)).mul(series)
    return size.gt(_FAR).where(far, size.isnan().where(size, near.mul(2)))


@elementwise_rule("erfinv")
def _erfinv_slope(value: Tensor, _: object, __: object) -> tuple[Tensor]:
    return (
        with_rule(
            _erfinv_curvature, _power_of_square(value, 1).mul(math.sqrt(math.pi) / 2), (value,)
        ),
    )


@elementwise_rule("erfinv-slope")
def _erfinv_curvature(slope: Tensor, operands: tuple[Tensor], _: object) -> tuple[Tensor]:
    """With respect to the value; `_power_of_square` is clipped at 40 and has no derivative there."""
    return (operands[0].mul(2).mul(slope),)


def compute_erfinv(x: Tensor) -> Tensor:
    """Inverse error function: infinite at 1 and -1, NaN outside."""
    value = _quantile(x.mul(0.5), x.abs().neg().add(1).mul(0.5)).mul(1 / math.sqrt(2))
    return with_rule(_erfinv_slope, value, (x,))


@elementwise_rule("ndtri")
def _ndtri_slope(value: Tensor, _: object, __: object) -> tuple[Tensor]:
    return (value.square().mul(0.5).exp().mul(math.sqrt(2 * math.pi)),)


def compute_ndtri(p: Tensor) -> Tensor:
    """Quantile function of the standard normal distribution."""
    value = _quantile(p.sub(0.5), p.minimum(p.neg().add(1)))
    return with_rule(_ndtri_slope, value, (p,))


def _quantile(center: Tensor, tail: Tensor) -> Tensor:
    """Quantile for the probability 1/2 + `center`, with the tail probability `tail`."""
    square = center.square().neg().add(0.180625)
    near = (
        evaluate_polynomial(square, NORMAL_CENTER[0])
        .div(evaluate_polynomial(square, NORMAL_CENTER[1]))
        .mul(center)
    )
    root = tail.log().neg().sqrt()
    low, high = root.minimum(5.0).sub(1.6), root.maximum(5.0).minimum(30.0).sub(5)
    middle = evaluate_polynomial(low, NORMAL_TAIL[0]).div(evaluate_polynomial(low, NORMAL_TAIL[1]))
    far = evaluate_polynomial(high, NORMAL_FAR[0]).div(evaluate_polynomial(high, NORMAL_FAR[1]))
    outer = tail.eq(0).where(math.inf, root.le(5).where(middle, far))
    outer = tail.ge(0).where(outer, math.nan).copysign(center)
    return center.abs().le(0.425).where(near, outer)


@elementwise_rule("ndtr")
def _ndtr_slope(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (operands[0].square().mul(-0.5).exp().mul(_DENSITY),)


def compute_ndtr(x: Tensor) -> Tensor:
    """Standard normal cumulative distribution function."""
    tail, power = make_normal_tail(x)
    below = tail.mul(power)
    below = x.abs().ge(39).where(0.0, x.isnan().where(x, below))
    return with_rule(_ndtr_slope, x.gt(0).where(below.neg().add(1), below), (x,))


@elementwise_rule("log_ndtr")
def _log_ndtr_slope(value: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    (x,) = operands
    tail = _scale_erfc(x.abs().mul(1 / math.sqrt(2))).mul(0.5)
    above = x.square().mul(-0.5).exp().mul(_DENSITY).div(value.exp())
    return (x.lt(0).where(tail.reciprocal().mul(_DENSITY), above),)


def compute_log_ndtr(x: Tensor) -> Tensor:
    """Logarithm of the normal cumulative distribution function, without underflow."""
    tail = _scale_erfc(x.abs().mul(1 / math.sqrt(2))).mul(0.5)
    near, power = make_normal_tail(x)
    beyond = near.mul(power)
    value = x.lt(0).where(tail.log().sub(x.square().mul(0.5)), beyond.neg().log1p())
    value = x.isinf().where(x.lt(0).where(-math.inf, 0.0), value)
    return with_rule(_log_ndtr_slope, value, (x,))
