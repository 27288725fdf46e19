"""The partial derivatives of functions of single elements that are composed of several operations.

Each is written so that nothing cancels and nothing overflows, and is what JAX's is where the
function has a kink or a pole; docs/derivatives.md lists what it is there."""

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


# The slopes of asin and its like have rules too: where they are infinite, the derivatives of their
# nodes are NaN.


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
    """0 at the origin, which has no angle, and at infinity."""
    up, right = operands
    size = up.abs().maximum(right.abs())
    scale = size.eq(0).where(1.0, size)
    a, b = up.div(scale), right.div(scale)
    square = a.square().add(b.square())
    has_none = size.eq(0).logical_or(size.eq(math.inf))
    a, b = has_none.where(0.0, a), has_none.where(0.0, b)
    divisor = has_none.where(1.0, square.mul(scale))
    return b.div(divisor), a.neg().div(divisor)


@elementwise_rule("asinh-slope")
def _asinh_curvature(value: Tensor, operands: tuple[Tensor], _: object) -> tuple[Tensor]:
    """Of acosh too. The product with the operand comes first: it does not underflow."""
    return (operands[0].mul(value).mul(value).mul(value).neg(),)


@elementwise_rule("asinh")
def ASINH(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    (x,) = operands
    size = x.abs()
    # The square of what is above is infinite, or 1 is less than its last bit.
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
    """0 at the origin, which is the middle of all subgradients, and so is the second derivative."""
    divisor = value.eq(0).where(math.inf, value)
    x, y = (
        operand.div(divisor) if is_wanted else None
        for operand, is_wanted in zip(operands, wanted, strict=True)
    )
    return x, y


@elementwise_rule("logaddexp")
def LOGADDEXP(_: Tensor, operands: tuple[Tensor, Tensor], __: object) -> tuple[Tensor, Tensor]:
    """Two equal operands have half each, infinite ones too."""
    x, y = operands
    difference = x.eq(y).logical_and(x.isinf()).where(0.0, x.sub(y))
    return difference.sigmoid(), difference.neg().sigmoid()


@elementwise_rule("remainder")
def REMAINDER(
    _: Tensor, operands: tuple[Tensor, Tensor], wanted: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    """By the divisor, minus the quotient."""
    x, y = operands
    return x.ones_like(), x.floor_divide(y).neg() if wanted[1] else None


@elementwise_rule("fmod")
def FMOD(
    _: Tensor, operands: tuple[Tensor, Tensor], wanted: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    """By the divisor, minus the quotient rounded toward 0."""
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
    # `minimum` would share the second derivative at 0.
    return (is_above.where(1.0, is_above.where(0.0, x).exp().mul(alpha)),)


@elementwise_rule("silu")
def SILU(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """s + x s (1 - s), where s is the sigmoid.

    Beyond 1000, s is 0 or 1, and the infinities would make the product NaN.
    """
    x = operands[0].clip(-1000.0, 1000.0)
    gate, slope = _make_gate(x)
    return (x.mul(slope).add(gate),)


def _make_gate(x: Tensor) -> tuple[Tensor, Tensor]:
    """The sigmoid s and its derivative s (1 - s), of one exponential and without cancellation.

    The absolute value has a kink at 0, which the results have not: their derivatives are rules.
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
    # The side of -|x| comes from its tail, the other one is its complement.
    is_left = x.lt(0)
    # The product of an infinity and an exponential that is 0 has the limit 0.
    density = x.abs().eq(math.inf).where(0.0, x).mul(1 / math.sqrt(2 * math.pi))
    left = ratio.add(density).mul(power)
    return (
        with_rule(_gelu_curvature, is_left.where(left, power.mul(density.sub(ratio)).add(1)), (x,)),
    )


@elementwise_rule("gelu-slope")
def _gelu_curvature(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """(2 - x^2) phi(x): at 0 the two sides of the slope meet, and their nodes have a kink."""
    square = operands[0].clip(-40.0, 40.0).square()
    return (square.neg().add(2).mul(square.mul(-0.5).exp()).mul(1 / math.sqrt(2 * math.pi)),)


@elementwise_rule("gelu-tanh")
def GELU_TANH(_: Tensor, operands: tuple[Tensor], __: object) -> tuple[Tensor]:
    """s + x a' s (1 - s), where s is the sigmoid of a = 2 sqrt(2 / pi) (x + 0.044715 x^3).

    Beyond 64, s is 0 or 1.
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
