"""Partial derivatives of element-wise functions that are composed of several operations.

The formulas avoid cancellation and overflow. At kinks and poles the derivatives are those of JAX,
listed in docs/derivatives.md."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_tensor.ops.core.gradient_rules import elementwise_rule, with_rule
from svod_tensor.ops.special.normal_distribution import make_normal_tail

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "ACOS",
    "ACOSH",
    "ASIN",
    "ASINH",
    "ATAN",
    "ATAN2",
    "ATANH",
    "CBRT",
    "ELU",
    "FMOD",
    "GELU",
    "GELU_TANH",
    "HARD_SIGMOID",
    "HARD_SWISH",
    "HYPOT",
    "LOGADDEXP",
    "RELU6",
    "REMAINDER",
    "SILU",
    "SOFTPLUS",
]


# The derivatives of asin and similar functions have gradient rules too: where they are infinite,
# differentiating their nodes gives NaN.


@elementwise_rule("asin-slope")
def _asin_curvature(value: Tensor, operands: tuple[Tensor], _: object) -> tuple[Tensor]:
    return (operands[0].mul(value).mul(value).mul(value),)


def _make_asin_slope(x: Tensor) -> Tensor:
    """1 / sqrt(1 - x^2), without cancellation."""
    return with_rule(_asin_curvature, x.neg().add(1).mul(x.add(1)).rsqrt(), (x,))


@elementwise_rule("asin")
def ASIN(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """Infinite at 1 and -1."""
    return (_make_asin_slope(operands[0]),)


@elementwise_rule("acos")
def ACOS(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """Infinite at 1 and -1."""
    return (_make_asin_slope(operands[0]).neg(),)


@elementwise_rule("atan")
def ATAN(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (operands[0].square().add(1).reciprocal(),)


@elementwise_rule("atan2")
def ATAN2(_: Tensor, operands: tuple[Tensor, Tensor], __: object) -> tuple[Tensor, Tensor]:
    """0 at the origin, where the angle is undefined, and at infinity."""
    up, right = operands
    magnitude = up.abs().maximum(right.abs())
    # Scaled by the larger operand, so that squares neither overflow nor underflow.
    scale = magnitude.eq(0).where(1.0, magnitude)
    a, b = up.div(scale), right.div(scale)
    square = a.square().add(b.square())
    is_undefined = magnitude.eq(0).logical_or(magnitude.eq(math.inf))
    a, b = is_undefined.where(0.0, a), is_undefined.where(0.0, b)
    divisor = is_undefined.where(1.0, square.mul(scale))
    return b.div(divisor), a.neg().div(divisor)


@elementwise_rule("asinh-slope")
def _asinh_curvature(value: Tensor, operands: tuple[Tensor], _: object) -> tuple[Tensor]:
    """Also for acosh. The operand is multiplied first, which avoids underflow."""
    return (operands[0].mul(value).mul(value).mul(value).neg(),)


@elementwise_rule("asinh")
def ASINH(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    (x,) = operands
    size = x.abs()
    # For larger values, 1 is negligible in x^2 + 1, and x^2 may overflow.
    is_small = size.lt(1e9)
    slope = is_small.where(is_small.where(size, 0.0).square().add(1).rsqrt(), size.reciprocal())
    return (with_rule(_asinh_curvature, slope, (x,)),)


@elementwise_rule("acosh")
def ACOSH(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """Infinite at 1, NaN below."""
    (x,) = operands
    return (with_rule(_asinh_curvature, x.sub(1).rsqrt().mul(x.add(1).rsqrt()), (x,)),)


@elementwise_rule("atanh-slope")
def _atanh_curvature(value: Tensor, operands: tuple[Tensor], _: object) -> tuple[Tensor]:
    return (operands[0].mul(2).mul(value).mul(value),)


@elementwise_rule("atanh")
def ATANH(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """Infinite at 1 and -1."""
    (x,) = operands
    return (with_rule(_atanh_curvature, x.neg().add(1).mul(x.add(1)).reciprocal(), (x,)),)


@elementwise_rule("cbrt")
def CBRT(value: Tensor, _: object, __: object) -> tuple[Tensor]:
    """Infinite at 0."""
    return (value.reciprocal().square().mul(1 / 3),)


@elementwise_rule("hypot")
def HYPOT(
    value: Tensor, operands: tuple[Tensor, Tensor], wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """0 at the origin, the center of the subdifferential, as is the second derivative."""
    # 0 / inf is 0, in derivatives of every order.
    divisor = value.eq(0).where(math.inf, value)
    x, y = (
        operand.div(divisor) if is_wanted else None
        for operand, is_wanted in zip(operands, wanted, strict=True)
    )
    return x, y


@elementwise_rule("logaddexp")
def LOGADDEXP(_: Tensor, operands: tuple[Tensor, Tensor], __: object) -> tuple[Tensor, Tensor]:
    """1/2 each for equal operands, also infinite ones."""
    x, y = operands
    # inf - inf would be NaN.
    difference = x.eq(y).logical_and(x.isinf()).where(0.0, x.sub(y))
    return difference.sigmoid(), difference.neg().sigmoid()


@elementwise_rule("remainder")
def REMAINDER(
    _: Tensor, operands: tuple[Tensor, Tensor], wanted: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    """With respect to the divisor, the negative quotient."""
    x, y = operands
    return x.ones_like(), x.floor_divide(y).neg() if wanted[1] else None


@elementwise_rule("fmod")
def FMOD(
    _: Tensor, operands: tuple[Tensor, Tensor], wanted: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    """With respect to the divisor, the negative quotient rounded toward 0."""
    x, y = operands
    if not wanted[1]:
        return x.ones_like(), None
    quotient = x.abs().floor_divide(y.abs())
    return x.ones_like(), x.signbit().ne(y.signbit()).where(quotient, quotient.neg())


@elementwise_rule("relu6")
def RELU6(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """0 at 0 and at 6."""
    (x,) = operands
    return (x.gt(0).logical_and(x.lt(6)).cast(x.dtype),)


@elementwise_rule("elu")
def ELU(_: Tensor, operands: tuple[Tensor], __: object, alpha: float) -> tuple[Tensor]:
    """`alpha` at 0."""
    (x,) = operands
    is_above = x.gt(0)
    # `minimum` would split the second derivative at 0 between its operands.
    return (is_above.where(1.0, is_above.where(0.0, x).exp().mul(alpha)),)


@elementwise_rule("silu")
def SILU(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """s + x s (1 - s), where s is the sigmoid.

    Clipped to 1000, beyond which s is 0 or 1, since the product of infinity and 0 is NaN.
    """
    x = operands[0].clip(-1000.0, 1000.0)
    gate, slope = _make_gate(x)
    return (x.mul(slope).add(gate),)


def _make_gate(x: Tensor) -> tuple[Tensor, Tensor]:
    """Sigmoid s and its derivative s (1 - s), from one exponential and without cancellation.

    Gradient rules hide the kink of the absolute value at 0, which the results do not have.
    """
    power = x.abs().neg().exp()
    inverse = power.add(1).reciprocal()
    gate = with_rule(_gate_slope, x.lt(0).where(power, 1.0).mul(inverse), (x,))
    return gate, with_rule(_sigmoid_curvature, power.mul(inverse).mul(inverse), (x,))


@elementwise_rule("gate")
def _gate_slope(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    return (_make_gate(operands[0])[1],)


@elementwise_rule("sigmoid-slope")
def _sigmoid_curvature(value: Tensor, operands: tuple[Tensor], _: object) -> tuple[Tensor]:
    """s (1 - s) (1 - 2 s)."""
    return (operands[0].mul(-0.5).tanh().mul(value),)


@elementwise_rule("gelu")
def GELU(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """Phi(x) + x phi(x)."""
    (x,) = operands
    ratio, power = make_normal_tail(x)
    # The value at -|x| is computed from the tail; the value at |x| is its complement.
    is_left = x.lt(0)
    # At infinity, x phi(x) has the limit 0, but the product of infinity and 0 is NaN.
    density = x.abs().eq(math.inf).where(0.0, x).mul(1 / math.sqrt(2 * math.pi))
    left = ratio.add(density).mul(power)
    return (
        with_rule(_gelu_curvature, is_left.where(left, power.mul(density.sub(ratio)).add(1)), (x,)),
    )


@elementwise_rule("gelu-slope")
def _gelu_curvature(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """(2 - x^2) phi(x): a rule, since the nodes of the slope have a kink at 0."""
    square = operands[0].clip(-40.0, 40.0).square()
    return (square.neg().add(2).mul(square.mul(-0.5).exp()).mul(1 / math.sqrt(2 * math.pi)),)


@elementwise_rule("gelu-tanh")
def GELU_TANH(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """s + x a' s (1 - s), where s is the sigmoid of a = 2 sqrt(2 / pi) (x + 0.044715 x^3).

    Clipped to 64, beyond which s is 0 or 1.
    """
    x = operands[0].clip(-64.0, 64.0)
    scale, square = 2 * math.sqrt(2 / math.pi), x.square()
    argument = x.mul(square.mul(0.044715 * scale).add(scale))
    inner = x.mul(square.mul(3 * 0.044715 * scale).add(scale))
    gate, slope = _make_gate(argument)
    return (inner.mul(slope).add(gate),)


@elementwise_rule("softplus")
def SOFTPLUS(_: Tensor, operands: tuple[Tensor], __: object, beta: float) -> tuple[Tensor]:
    return (operands[0].mul(beta).sigmoid(),)


@elementwise_rule("hardsigmoid")
def HARD_SIGMOID(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """0 at 3 and at -3."""
    (x,) = operands
    return (x.gt(-3).logical_and(x.lt(3)).where(1 / 6, x.zeros_like()),)


@elementwise_rule("hardswish")
def HARD_SWISH(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """0 at -3, and 1 at 3."""
    (x,) = operands
    return (x.le(-3).where(0.0, x.ge(3).where(1.0, x.div(3).add(0.5))),)
