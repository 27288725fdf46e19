"""Bessel functions of orders 0 and 1 in float64: polynomials in x below 8, and in 1 / x above.

Source: NIST Digital Library of Mathematical Functions, 10.17 and 10.40 (for the forms above 8),
10.6 and 10.29 (derivatives)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_tensor.ops.core.gradient_rules import elementwise_rule, with_rule
from svod_tensor.ops.special.gamma import evaluate_polynomial
from svod_tensor.ops.special.polynomials import (
    I0_FAR,
    I0_NEAR,
    I1_FAR,
    I1_NEAR,
    J0_NEAR,
    J0_P,
    J0_Q,
    J0_ZEROS,
    J1_NEAR,
    J1_P,
    J1_Q,
    J1_ZEROS,
)

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = ["compute_i0", "compute_i0e", "compute_i1", "compute_i1e", "compute_j0", "compute_j1"]


def _divide(value: Tensor, x: Tensor) -> Tensor:
    """Divide an odd function whose slope at 0 is 1/2 by x, with limit 1/2 at 0."""
    # The inner `where` keeps 0 / 0 out of the branch that is not selected, whose derivative would
    # be NaN.
    return x.eq(0).where(0.5, value.div(x.eq(0).where(1.0, x)))


@elementwise_rule("i0e")
def _i0e_slope(value: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    (x,) = operands
    return (compute_i1e(x).sub(x.sign().mul(value)),)


@elementwise_rule("i1e")
def _i1e_slope(value: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    (x,) = operands
    return (compute_i0e(x).sub(_divide(value, x)).sub(x.sign().mul(value)),)


@elementwise_rule("i0")
def _i0_slope(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (compute_i1(operands[0]),)


@elementwise_rule("i1")
def _i1_slope(value: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    (x,) = operands
    return (compute_i0(x).sub(_divide(value, x)),)


def compute_i0e(x: Tensor) -> Tensor:
    """exp(-|x|) I0(x)."""
    return with_rule(_i0e_slope, _scale_i0(x.abs()), (x,))


def compute_i1e(x: Tensor) -> Tensor:
    """exp(-|x|) I1(x)."""
    return with_rule(_i1e_slope, _scale_i1(x.abs()).copysign(x), (x,))


def compute_i0(x: Tensor) -> Tensor:
    """I0(x)."""
    return with_rule(_i0_slope, _grow(_scale_i0(x.abs()), x.abs()), (x,))


def compute_i1(x: Tensor) -> Tensor:
    """I1(x)."""
    return with_rule(_i1_slope, _grow(_scale_i1(x.abs()), x.abs()).copysign(x), (x,))


def _grow(value: Tensor, size: Tensor) -> Tensor:
    # exp is applied in two halves, since it overflows before the product does.
    half = size.mul(0.5).exp()
    return size.isinf().where(math.inf, value.mul(half).mul(half))


def _scale_i0(size: Tensor) -> Tensor:
    # Clamped to the interval of the polynomial: outside, its value is discarded, and must not
    # overflow.
    near = evaluate_polynomial(size.minimum(8.0).mul(0.25).sub(1), I0_NEAR)
    return _choose(size, near, I0_FAR)


def _scale_i1(size: Tensor) -> Tensor:
    near = evaluate_polynomial(size.minimum(8.0).mul(0.25).sub(1), I1_NEAR).mul(size)
    return _choose(size, near, I1_FAR)


def _choose(size: Tensor, near: Tensor, far: tuple[float, ...]) -> Tensor:
    # Likewise, the form for large x is not evaluated near 0.
    wide = size.maximum(8.0)
    value = evaluate_polynomial(wide.reciprocal().mul(16).sub(1), far).mul(wide.rsqrt())
    return size.lt(8).where(near, size.isnan().where(size, value))


@elementwise_rule("j0")
def _j0_slope(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (compute_j1(operands[0]).neg(),)


@elementwise_rule("j1")
def _j1_slope(value: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    (x,) = operands
    return (compute_j0(x).sub(_divide(value, x)),)


def compute_j0(x: Tensor) -> Tensor:
    """J0(x)."""
    size = x.abs()
    near = _near_zeros(size, J0_ZEROS).mul(evaluate_polynomial(_to_unit_interval(size), J0_NEAR))
    wide = size.maximum(8.0)
    sine, cosine = wide.sin(), wide.cos()
    # sqrt(2) cos(x - pi/4) = cos x + sin x: the difference x - pi/4 would be rounded for large x.
    far = _asymptotic(wide, J0_P, J0_Q, cosine.add(sine), sine.sub(cosine))
    return with_rule(_j0_slope, _join(size, near, far), (x,))


def compute_j1(x: Tensor) -> Tensor:
    """J1(x)."""
    size = x.abs()
    near = (
        _near_zeros(size, J1_ZEROS)
        .mul(evaluate_polynomial(_to_unit_interval(size), J1_NEAR))
        .mul(size)
    )
    wide = size.maximum(8.0)
    sine, cosine = wide.sin(), wide.cos()
    far = _asymptotic(wide, J1_P, J1_Q, sine.sub(cosine), sine.add(cosine).neg())
    value = _join(size, near, far)
    return with_rule(_j1_slope, x.signbit().where(value.neg(), value), (x,))


def _to_unit_interval(size: Tensor) -> Tensor:
    return size.minimum(8.0).square().mul(1 / 32).sub(1)


def _near_zeros(size: Tensor, zeros: tuple[tuple[float, float], tuple[float, float]]) -> Tensor:
    """Product of (x^2 - z^2) over the zeros z, accurate near each zero by double-double arithmetic."""
    (first_high, first_low), (second_high, second_low) = zeros
    first = size.sub(first_high).sub(first_low).mul(size.add(first_high))
    return first.mul(size.sub(second_high).sub(second_low)).mul(size.add(second_high))


def _asymptotic(
    x: Tensor, p: tuple[float, ...], q: tuple[float, ...], cosine: Tensor, sine: Tensor
) -> Tensor:
    """Asymptotic form above 8, from cosine and sine of the phase, both times sqrt(2)."""
    t = x.square().reciprocal().mul(128).sub(1)
    value = evaluate_polynomial(t, p).mul(cosine).sub(evaluate_polynomial(t, q).div(x).mul(sine))
    return value.mul(x.rsqrt()).mul(math.sqrt(1 / math.pi))


def _join(size: Tensor, near: Tensor, far: Tensor) -> Tensor:
    # Both functions decay like 1 / sqrt(x).
    return size.lt(8).where(near, size.isinf().where(0.0, size.isnan().where(size, far)))
