"""Gamma, log-gamma and its derivatives, and zeta in float64: polynomials for small arguments,
Stirling's series for large ones.

Source: NIST Digital Library of Mathematical Functions, 5.5 (recurrence, reflection), 5.11
(asymptotic expansions), 25.11(iii) (Euler-Maclaurin)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from svod_tensor.ops.core.gradient_rules import elementwise_rule, with_rule
from svod_tensor.ops.special.polynomials import DIGAMMA, GAMMA, LGAMMA, ROOT, ZETA

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "compute_digamma",
    "compute_gamma",
    "compute_lgamma",
    "compute_polygamma",
    "compute_zeta",
    "evaluate_polynomial",
    "sine_of_pi",
]


# B(2 j) / (2 j (2 j - 1)), and B(2 j) / (2 j), for Bernoulli numbers B.
_STIRLING: Final = (
    1 / 12,
    -1 / 360,
    1 / 1260,
    -1 / 1680,
    1 / 1188,
    -691 / 360360,
    1 / 156,
    -3617 / 122400,
)
_ASYMPTOTIC: Final = (
    1 / 12,
    -1 / 120,
    1 / 252,
    -1 / 240,
    1 / 132,
    -691 / 32760,
    1 / 12,
    -3617 / 8160,
)
_LARGE: Final = 10
"""Threshold from which the series in 1 / x^2 are accurate to full precision."""
_N_ADDED: Final = 10
"""Number of terms of zeta that are summed directly, before the Euler-Maclaurin remainder."""


def evaluate_polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Evaluate a polynomial by Horner's scheme; coefficients in ascending order."""
    *lower, next_coefficient, leading = coefficients
    value = x.mul(leading).add(next_coefficient)
    for coefficient in reversed(lower):
        value = value.mul(x).add(coefficient)
    return value


def sine_of_pi(x: Tensor) -> Tensor:
    """Compute sin(pi x), exactly 0 at integers."""
    # The reduction is exact, while pi * x would be rounded.
    nearest = x.round()
    value = x.sub(nearest).mul(math.pi).sin()
    return nearest.remainder(2).eq(0).where(value, value.neg())


def _cotangent_of_pi(x: Tensor) -> Tensor:
    """Compute pi / tan(pi x)."""
    angle = x.sub(x.round()).mul(math.pi)
    return angle.cos().div(angle.sin()).mul(math.pi)


def _reduce(size: Tensor, top: int, steps: int) -> tuple[Tensor, Tensor]:
    """Reduce the argument below `top` by the recurrence, in unit steps; also return the product of
    the factors.
    """
    reduced, product = size.minimum(float(_LARGE)), size.ones_like()
    for _ in range(steps):
        # A fixed number of steps without branches, so that all lanes of a vector do the same.
        is_above = reduced.ge(top)
        reduced = is_above.where(reduced.sub(1), reduced)
        product = is_above.where(product.mul(reduced), product)
    return reduced, product


@elementwise_rule("lgamma")
def _lgamma_slope(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (compute_digamma(operands[0]),)


def compute_lgamma(x: Tensor) -> Tensor:
    """log |Gamma(x)|."""
    size = x.abs()
    value = _lgamma_of_positive(size)
    mirrored = size.mul(sine_of_pi(size).abs()).reciprocal().mul(math.pi).log().sub(value)
    value = x.lt(0).where(size.eq(size.floor()).where(math.inf, mirrored), value)
    return with_rule(_lgamma_slope, x.isinf().where(math.inf, value), (x,))


def _lgamma_of_positive(x: Tensor) -> Tensor:
    reduced, product = _reduce(x, 3, _LARGE - 2)
    is_small = x.lt(1)
    # Below 1, Gamma(x) = Gamma(x + 1) / x; both factors of the polynomial are exact.
    below, above = is_small.where(x, reduced.sub(1)), is_small.where(x.sub(1), reduced.sub(2))
    near = below.mul(above).mul(evaluate_polynomial(above, LGAMMA))
    near = is_small.where(near.sub(x.log()), near.add(product.log()))
    wide = x.maximum(float(_LARGE))
    far = (
        wide.log()
        .sub(1)
        .mul(wide.sub(0.5))
        .add(math.log(2 * math.pi) / 2 - 0.5)
        .add(_sum_stirling(wide))
    )
    return x.lt(_LARGE).where(near, x.isnan().where(x, far))


def _sum_stirling(x: Tensor) -> Tensor:
    inverse = x.reciprocal()
    return evaluate_polynomial(inverse.square(), _STIRLING).mul(inverse)


@elementwise_rule("gamma")
def _gamma_slope(value: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (value.mul(compute_digamma(operands[0])),)


def compute_gamma(x: Tensor) -> Tensor:
    """Gamma(x)."""
    size = x.abs()
    reduced, product = _reduce(size, 2, _LARGE - 1)
    is_small = size.lt(1)
    t = is_small.where(size.mul(2).sub(1), reduced.mul(2).sub(3))
    near = evaluate_polynomial(t, GAMMA)
    near = is_small.where(near.div(size), near.mul(product))
    # Gamma overflows above 171.7 anyway; beyond 745, exp(-x) would be 0 beside an infinite power,
    # and the product NaN.
    wide = size.maximum(float(_LARGE)).minimum(200.0)
    # The power is applied in two halves, since it overflows before the product does.
    half = wide.pow(wide.mul(0.5).sub(0.25))
    far = (
        half.mul(wide.neg().exp())
        .mul(half)
        .mul(_sum_stirling(wide).exp().mul(math.sqrt(2 * math.pi)))
    )
    value = size.lt(_LARGE).where(near, far)
    mirrored = size.mul(sine_of_pi(size)).mul(value).reciprocal().mul(-math.pi)
    # Where Gamma(|x|) overflows, its reflection is 0.
    mirrored = size.eq(size.floor()).where(math.nan, size.gt(184).where(0.0, mirrored))
    value = x.lt(0).where(mirrored, x.eq(0).where(x.reciprocal(), value))
    value = x.isinf().where(x.lt(0).where(math.nan, math.inf), x.isnan().where(x, value))
    return with_rule(_gamma_slope, value, (x,))


@elementwise_rule("digamma")
def _digamma_slope(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (compute_polygamma(operands[0], 1),)


def compute_digamma(x: Tensor) -> Tensor:
    """Digamma function, the derivative of log-gamma."""
    size = x.abs()
    value = _digamma_of_positive(size)
    mirrored = value.add(size.reciprocal()).add(_cotangent_of_pi(size))
    mirrored = size.eq(size.floor()).where(math.nan, mirrored)
    value = x.eq(0).where(x.reciprocal().neg(), x.lt(0).where(mirrored, value))
    return with_rule(_digamma_slope, value, (x,))


def _digamma_of_positive(x: Tensor) -> Tensor:
    reduced, total = x.minimum(float(_LARGE)), x.zeros_like()
    for _ in range(_LARGE - 1):
        is_above = reduced.ge(2)
        reduced = is_above.where(reduced.sub(1), reduced)
        total = total.add(is_above.where(reduced.reciprocal(), 0.0))
    is_small = x.lt(1)
    reduced, total = is_small.where(x.add(1), reduced), is_small.where(x.reciprocal().neg(), total)
    near = (
        reduced.sub(ROOT[0])
        .sub(ROOT[1])
        .mul(evaluate_polynomial(reduced.mul(2).sub(3), DIGAMMA))
        .add(total)
    )
    wide = x.maximum(float(_LARGE))
    inverse = wide.square().reciprocal()
    far = (
        wide.log()
        .sub(wide.reciprocal().mul(0.5))
        .sub(evaluate_polynomial(inverse, _ASYMPTOTIC).mul(inverse))
    )
    return x.lt(_LARGE).where(near, x.isnan().where(x, far))


@elementwise_rule("polygamma")
def _polygamma_slope(_: Tensor, operands: tuple[Tensor], __: object, order: int) -> tuple[Tensor]:
    return (compute_polygamma(operands[0], order + 1),)


def compute_polygamma(x: Tensor, order: int) -> Tensor:
    """Derivative of digamma of the given order, infinite at 0 and negative integers.

    Source: NIST Digital Library of Mathematical Functions, 5.15.6 (reflection).
    """
    if not order:
        return compute_digamma(x)
    sign = (-1.0) ** (order + 1)
    is_below = x.lt(0)
    positive = is_below.where(x.neg().add(1), x)
    value = compute_zeta(x.full_like(order + 1.0), positive).mul(math.factorial(order) * sign)
    if order == 1:
        # More accurate near the poles than the squared cotangent plus 1.
        slope = sine_of_pi(x).square().reciprocal().mul(-(math.pi**2))
    else:
        slope = evaluate_polynomial(
            _cotangent_of_pi(x.abs()).neg(), _differentiate_cotangent(order)
        )
    mirrored = value.mul(-sign).sub(slope)
    value = is_below.where(x.eq(x.floor()).where(sign * math.inf, mirrored), value)
    return with_rule(_polygamma_slope, value, (x,), order)


def _differentiate_cotangent(order: int) -> list[float]:
    """Coefficients in t = pi cot(pi x) of its derivative of the given order; dt/dx = -(pi^2 + t^2)."""
    coefficients = [0.0, 1.0]
    for _ in range(order):
        slopes = [k * c for k, c in enumerate(coefficients)][1:]
        products = [-(math.pi**2) * c for c in slopes] + [0.0, 0.0]
        for k, c in enumerate(slopes):
            products[k + 2] -= c
        coefficients = products
    return coefficients


def compute_zeta(exponent: Tensor, start: Tensor) -> Tensor:
    """Hurwitz zeta function, the sum of (start + k)^-exponent over k >= 0: infinite at exponent 1, NaN
    below and for negative starts.
    """
    total = start.pow(exponent.neg())
    for k in range(1, _N_ADDED):
        total = total.add(start.add(k).pow(exponent.neg()))
    end = start.add(_N_ADDED)
    power = end.pow(exponent.neg())
    total = total.add(power.mul(end).div(exponent.sub(1))).add(power.mul(0.5))
    inverse = end.reciprocal()
    term = power.mul(exponent).mul(inverse)
    for j, coefficient in enumerate(ZETA):
        if j:
            term = term.mul(exponent.add(2 * j - 1).mul(inverse)).mul(
                exponent.add(2 * j).mul(inverse)
            )
        total = total.add(term.mul(coefficient))
    total = exponent.isinf().where(start.lt(1).where(math.inf, start.eq(1).where(1.0, 0.0)), total)
    total = start.isinf().where(0.0, total)
    is_defined = exponent.ge(1).logical_and(start.ge(0))
    infinite = exponent.eq(1).logical_or(start.eq(0))
    return is_defined.where(infinite.where(math.inf, total), math.nan)
