"""Gamma, its logarithm and the derivatives of that, and zeta, of float64: polynomials near 0,
Stirling's series far from it.

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


# B(2 j) / (2 j (2 j - 1)), and B(2 j) / (2 j), of Bernoulli's numbers.
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
"""From where on series in 1 / x^2 have all digits."""
_N_ADDED: Final = 10
"""How many terms of zeta are added one by one."""


def evaluate_polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The polynomial at `x`, of coefficients of which the constant comes first."""
    *rest, second, first = coefficients
    value = x.mul(first).add(second)
    for coefficient in reversed(rest):
        value = value.mul(x).add(coefficient)
    return value


def sine_of_pi(x: Tensor) -> Tensor:
    """sin(pi x)."""
    whole = x.round()
    value = x.sub(whole).mul(math.pi).sin()
    return whole.remainder(2).eq(0).where(value, value.neg())


def _cotangent_of_pi(x: Tensor) -> Tensor:
    """pi / tan(pi x)."""
    angle = x.sub(x.round()).mul(math.pi)
    return angle.cos().div(angle.sin()).mul(math.pi)


def _reduce(size: Tensor, top: int, steps: int) -> tuple[Tensor, Tensor]:
    """`size` less so many steps that it is below `top`, and the product of what was passed; small
    ones are as they are.
    """
    rest, product = size.minimum(float(_LARGE)), size.ones_like()
    for _ in range(steps):
        is_above = rest.ge(top)
        rest = is_above.where(rest.sub(1), rest)
        product = is_above.where(product.mul(rest), product)
    return rest, product


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
    rest, product = _reduce(x, 3, _LARGE - 2)
    is_small = x.lt(1)
    # Gamma(x) = Gamma(x + 1) / x there; both factors of the polynomial are exact.
    below, above = is_small.where(x, rest.sub(1)), is_small.where(x.sub(1), rest.sub(2))
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
    rest, product = _reduce(size, 2, _LARGE - 1)
    is_small = size.lt(1)
    place = is_small.where(size.mul(2).sub(1), rest.mul(2).sub(3))
    near = evaluate_polynomial(place, GAMMA)
    near = is_small.where(near.div(size), near.mul(product))
    wide = size.maximum(float(_LARGE)).minimum(200.0)
    # In two halves, since the power alone overflows first.
    half = wide.pow(wide.mul(0.5).sub(0.25))
    far = (
        half.mul(wide.neg().exp())
        .mul(half)
        .mul(_sum_stirling(wide).exp().mul(math.sqrt(2 * math.pi)))
    )
    value = size.lt(_LARGE).where(near, far)
    mirrored = size.mul(sine_of_pi(size)).mul(value).reciprocal().mul(-math.pi)
    # Where Gamma of the size is infinite, its mirror is 0.
    mirrored = size.eq(size.floor()).where(math.nan, size.gt(184).where(0.0, mirrored))
    value = x.lt(0).where(mirrored, x.eq(0).where(x.reciprocal(), value))
    value = x.isinf().where(x.lt(0).where(math.nan, math.inf), x.isnan().where(x, value))
    return with_rule(_gamma_slope, value, (x,))


@elementwise_rule("digamma")
def _digamma_slope(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (compute_polygamma(operands[0], 1),)


def compute_digamma(x: Tensor) -> Tensor:
    """The derivative of the logarithm of Gamma."""
    size = x.abs()
    value = _digamma_of_positive(size)
    mirrored = value.add(size.reciprocal()).add(_cotangent_of_pi(size))
    mirrored = size.eq(size.floor()).where(math.nan, mirrored)
    value = x.eq(0).where(x.reciprocal().neg(), x.lt(0).where(mirrored, value))
    return with_rule(_digamma_slope, value, (x,))


def _digamma_of_positive(x: Tensor) -> Tensor:
    rest, total = x.minimum(float(_LARGE)), x.zeros_like()
    for _ in range(_LARGE - 1):
        is_above = rest.ge(2)
        rest = is_above.where(rest.sub(1), rest)
        total = total.add(is_above.where(rest.reciprocal(), 0.0))
    is_small = x.lt(1)
    rest, total = is_small.where(x.add(1), rest), is_small.where(x.reciprocal().neg(), total)
    near = (
        rest.sub(ROOT[0])
        .sub(ROOT[1])
        .mul(evaluate_polynomial(rest.mul(2).sub(3), DIGAMMA))
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
    """The derivative of that order of digamma, infinite at 0 and negative integers.

    Source: NIST Digital Library of Mathematical Functions, 5.15.6 (reflection).
    """
    if not order:
        return compute_digamma(x)
    sign = (-1.0) ** (order + 1)
    is_below = x.lt(0)
    positive = is_below.where(x.neg().add(1), x)
    value = compute_zeta(x.full_like(order + 1.0), positive).mul(math.factorial(order) * sign)
    if order == 1:
        # Closer to the poles than the square of the cotangent plus 1.
        slope = sine_of_pi(x).square().reciprocal().mul(-(math.pi**2))
    else:
        slope = evaluate_polynomial(
            _cotangent_of_pi(x.abs()).neg(), _differentiate_cotangent(order)
        )
    mirrored = value.mul(-sign).sub(slope)
    value = is_below.where(x.eq(x.floor()).where(sign * math.inf, mirrored), value)
    return with_rule(_polygamma_slope, value, (x,), order)


def _differentiate_cotangent(order: int) -> list[float]:
    """Coefficients in t of the derivative of that order of t = pi cot(pi x), whose first one is
    -(pi^2 + t^2).
    """
    coefficients = [0.0, 1.0]
    for _ in range(order):
        slopes = [k * c for k, c in enumerate(coefficients)][1:]
        products = [-(math.pi**2) * c for c in slopes] + [0.0, 0.0]
        for k, c in enumerate(slopes):
            products[k + 2] -= c
        coefficients = products
    return coefficients


def compute_zeta(exponent: Tensor, start: Tensor) -> Tensor:
    """The sum of (start + k)^-exponent over k from 0: infinite at 1, NaN below that and for
    negative starts.
    """
    total = start.pow(exponent.neg())
    for k in range(1, _N_ADDED):
        total = total.add(start.add(k).pow(exponent.neg()))
    rest = start.add(_N_ADDED)
    power = rest.pow(exponent.neg())
    total = total.add(power.mul(rest).div(exponent.sub(1))).add(power.mul(0.5))
    inverse = rest.reciprocal()
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
