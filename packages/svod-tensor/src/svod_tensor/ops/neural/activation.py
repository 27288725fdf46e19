"""Activation functions.

Narrow floats (float16, bfloat16, float8) are computed in float32 and rounded once; results keep
the dtype of the input.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from svod_ir import OperandError, ShapeError
from svod_tensor._shapes import concrete_shape, normalize_axis
from svod_tensor.ops.core.gradient_rules import gradient_rule, with_rule
from svod_tensor.ops.core.operands import to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import accumulation_dtype, rounds_once
from svod_tensor.ops.elementwise.partials import (
    ELU,
    GELU,
    GELU_TANH,
    HARD_SIGMOID,
    HARD_SWISH,
    RELU6,
    SILU,
    SOFTPLUS,
)
from svod_tensor.ops.special.normal_distribution import make_gelu_tail

if TYPE_CHECKING:
    from svod_tensor.tensor import Tensor

__all__ = [
    "elu",
    "gelu",
    "glu",
    "hardsigmoid",
    "hardswish",
    "leaky_relu",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softmax",
    "softmax_rule",
    "softplus",
    "softsign",
]


_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


@gradient_rule("relu", is_symmetric=True)
def _relu_gradient(
    cotangent: Tensor, _: Tensor, operands: tuple[Tensor], __: object
) -> tuple[Tensor]:
    """Gradient of relu, 0 at 0."""
    return (operands[0].gt(0).where(cotangent, 0),)


@gradient_rule("softmax", is_symmetric=True)
def _softmax_gradient(
    cotangent: Tensor, value: Tensor, _: object, __: object, axis: int
) -> tuple[Tensor]:
    """Computed from the value only, so that the input is not a residual."""
    return (value.mul(cotangent.sub(cotangent.mul(value).sum(axis, keepdims=True))),)


@gradient_rule("log_softmax")
def _log_softmax_gradient(
    cotangent: Tensor, value: Tensor, _: object, __: object, axis: int
) -> tuple[Tensor]:
    return (cotangent.sub(value.exp().mul(cotangent.sum(axis, keepdims=True))),)


def softmax_rule(weights: Tensor, scores: Tensor, axis: int) -> Tensor:
    """Attach the gradient of softmax to `weights`, with respect to `scores`."""
    return with_rule(_softmax_gradient, weights, (scores,), axis)


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
def relu(x: Tensor, /) -> Tensor:
    """Rectified linear unit `max(x, 0)`, in the dtype of `x`; NaN stays NaN.

    Example:
        >>> import svod_tensor as sv
        >>> sv.relu(sv.Tensor([-1.0, 0.0, 2.0])).tolist()
        [0.0, 0.0, 2.0]
    """
    # The derivative of `maximum` would be 1/2 at 0; torch and JAX have 0.
    return with_rule(_relu_gradient, x.maximum(0), (x,))


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
@reuse_graph
def relu6(x: Tensor, /) -> Tensor:
    """ReLU6 `min(max(x, 0), 6)`, in the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.relu6(sv.Tensor([-1.0, 3.0, 9.0])).tolist()
        [0.0, 3.0, 6.0]
    """
    return with_rule(RELU6, x.clip(0, 6), (x,))


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
@reuse_graph
@rounds_once
def leaky_relu(x: Tensor, /, slope: float = 0.01) -> Tensor:
    """Leaky ReLU: `x` if not negative, else `slope * x`. Integers become float32.

    Source: Maas et al., Rectifier Nonlinearities Improve Neural Network Acoustic Models (2013),
    section 2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.leaky_relu(sv.Tensor([-4.0, 2.0]), 0.5).tolist()
        [-2.0, 2.0]
    """
    return x.lt(0).where(x.mul(slope), x)


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
@reuse_graph
@rounds_once
def elu(x: Tensor, /, alpha: float = 1.0) -> Tensor:
    """Exponential linear unit: `x` if positive, else `alpha * (exp(x) - 1)`. Integers become float32.

    Source: Clevert et al., Fast and Accurate Deep Network Learning by Exponential Linear Units
    (2015), equation 15.

    Example:
        >>> import svod_tensor as sv
        >>> sv.elu(sv.Tensor([-1.0, 2.0]), alpha=2.0).round(4).numpy()
        array([-1.2642,  2.    ], dtype=float32)
    """
    x = to_float(x)
    # The minimum keeps large x, whose branch is not selected, from overflowing.
    return with_rule(ELU, x.gt(0).where(x, x.minimum(0.0).expm1().mul(alpha)), (x,), float(alpha))


@operation(test="test_operations.py::test_selu_agrees_with_its_formula")
@reuse_graph
@rounds_once
def selu(x: Tensor, /) -> Tensor:
    """Scaled ELU `scale * elu(x, alpha)`, with scale = 1.0507 and alpha = 1.6733, which preserve
    mean 0 and variance 1. Integers become float32.

    Source: Klambauer et al., Self-Normalizing Neural Networks (2017), equation 2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.selu(sv.Tensor([-1.0, 2.0])).round(4).numpy()
        array([-1.1113,  2.1014], dtype=float32)
    """
    return x.elu(1.6732632423543772).mul(1.0507009873554805)


@operation(test="test_neural.py::test_activations_agree_with_their_formulas", aliases=("swish",))
@reuse_graph
@rounds_once
def silu(x: Tensor, /) -> Tensor:
    """SiLU (swish) `x * sigmoid(x)`. Integers become float32.

    Source: Elfwing et al., Sigmoid-Weighted Linear Units for Neural Network Function Approximation
    (2017), equation 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.silu(sv.Tensor([-1.0, 0.0, 2.0])).round(4).numpy()
        array([-0.2689,  0.    ,  1.7616], dtype=float32)
    """
    x = to_float(x)
    return with_rule(SILU, x.mul(x.sigmoid()), (x,))


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
@reuse_graph
def gelu(x: Tensor, /, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit `x * Phi(x)`, where Phi is the normal cumulative distribution
    function. Integers become float32.

    Args:
        approximate: `"none"` computes Phi accurately also in the far tail; `"tanh"` computes
            `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2`.

    Raises:
        OperandError: if `approximate` is neither.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units (2016), section 2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.gelu(sv.Tensor([-1.0, 0.0, 2.0])).round(4).numpy()
        array([-0.1587,  0.    ,  1.9545], dtype=float32)
    """
    x = to_float(x)
    if approximate == "none":
        # As with `rounds_once`, but with polynomials that are as accurate as the dtype needs.
        wide = x.cast(accumulation_dtype(x.dtype))
        tail = make_gelu_tail(wide, is_narrow=wide.dtype is not x.dtype)
        # For x > 0, x Phi(x) = x - x Phi(-x).
        return with_rule(GELU, wide.maximum(0.0).sub(tail), (wide,)).cast(x.dtype)
    if approximate == "tanh":
        return _gelu_tanh(x)
    raise OperandError(operation="gelu", found=repr(approximate), expected='"none" or "tanh"')


@rounds_once
def _gelu_tanh(x: Tensor) -> Tensor:
    # (1 + tanh(a)) / 2 = sigmoid(2 a), which avoids cancellation.
    gate = x.add(x.mul(x).mul(x).mul(0.044715)).mul(2 * _SQRT_2_OVER_PI).sigmoid()
    return with_rule(GELU_TANH, x.mul(gate), (x,))


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
@reuse_graph
@rounds_once
def softplus(x: Tensor, /, beta: float = 1.0) -> Tensor:
    """Softplus `log(1 + exp(beta * x)) / beta` without overflow. Integers become float32.

    Source: Dugas et al., Incorporating Second-Order Functional Knowledge for Better Option Pricing
    (2001), section 3.

    Example:
        >>> import svod_tensor as sv
        >>> sv.softplus(sv.Tensor([-1.0, 0.0, 200.0])).round(4).numpy()
        array([  0.3133,   0.6931, 200.    ], dtype=float32)
    """
    operand = to_float(x)
    x = operand.mul(beta)
    # The exponential of a number that is not positive cannot overflow.
    value = x.maximum(0.0).add(x.abs().neg().exp().log1p()).div(beta)
    return with_rule(SOFTPLUS, value, (operand,), float(beta))


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
@reuse_graph
@rounds_once
def mish(x: Tensor, /) -> Tensor:
    """Mish `x * tanh(softplus(x))`. Integers become float32.

    Source: Misra, Mish: A Self Regularized Non-Monotonic Activation Function (2019), equation 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.mish(sv.Tensor([-1.0, 0.0, 2.0])).round(4).numpy()
        array([-0.3034,  0.    ,  1.944 ], dtype=float32)
    """
    return to_float(x).mul(x.softplus().tanh())


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
@reuse_graph
@rounds_once
def hardsigmoid(x: Tensor, /) -> Tensor:
    """Hard sigmoid `min(max(x + 3, 0), 6) / 6`. Integers become float32.

    Source: Howard et al., Searching for MobileNetV3 (2019), section 5.2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.hardsigmoid(sv.Tensor([-4.0, 0.0, 1.5])).tolist()
        [0.0, 0.5, 0.75]
    """
    x = to_float(x)
    return with_rule(HARD_SIGMOID, x.add(3).clip(0, 6).div(6), (x,))


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
@reuse_graph
@rounds_once
def hardswish(x: Tensor, /) -> Tensor:
    """Hard swish `x * min(max(x + 3, 0), 6) / 6`. Integers become float32.

    Source: Howard et al., Searching for MobileNetV3 (2019), section 5.2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.hardswish(sv.Tensor([-4.0, 0.0, 1.5])).tolist()
        [-0.0, 0.0, 1.125]
    """
    x = to_float(x)
    return with_rule(HARD_SWISH, x.mul(x.hardsigmoid()), (x,))


@operation(test="test_neural.py::test_activations_agree_with_their_formulas")
@reuse_graph
@rounds_once
def softsign(x: Tensor, /) -> Tensor:
    """Softsign `x / (1 + abs(x))`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.softsign(sv.Tensor([-1.0, 0.0, 3.0])).tolist()
        [-0.5, 0.0, 0.75]
    """
    x = to_float(x)
    return x.div(x.abs().add(1))


@operation(test="test_neural.py::test_glu_halves_an_axis")
@reuse_graph
@rounds_once
def glu(x: Tensor, /, axis: int = -1) -> Tensor:
    """Gated linear unit: the first half of `axis` times the sigmoid of the second half.
    Integers become float32.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if the axis has an odd size.

    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks (2016), equation 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.glu(sv.Tensor([4.0, 6.0, 0.0, 0.0])).tolist()
        [2.0, 3.0]
    """
    axis = normalize_axis("glu", axis, x.ndim)
    (size,) = concrete_shape("glu", (x.shape[axis],))
    if size % 2:
        raise ShapeError(
            operation="glu",
            shape=x.shape,
            problem=f"axis {axis} must have an even size, got {size}",
        )
    left, right = x.chunk(2, axis)
    return left.mul(right.sigmoid())


@operation(test="test_neural.py::test_softmax_sums_to_one_and_does_not_overflow")
@reuse_graph
@rounds_once
def softmax(x: Tensor, /, axis: int = -1) -> Tensor:
    """Softmax `exp(x) / sum(exp(x))` along `axis`, without overflow. Integers become float32.

    Raises:
        AxisError: if the axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.softmax(sv.Tensor([[0.0, 0.0], [1000.0, 0.0]])).tolist()
        [[0.5, 0.5], [1.0, 0.0]]
    """
    x = to_float(x)
    # There is no maximum of no elements.
    if x.shape[normalize_axis("softmax", axis, x.ndim)] == 0:
        return x.clone()
    # Shifted: the largest power is 1, so nothing overflows and the sum is not 0.
    power = x.sub(x.max(axis, keepdims=True)).exp()
    value = power.div(power.sum(axis, keepdims=True))
    return softmax_rule(value, x, axis)


@operation(test="test_neural.py::test_softmax_sums_to_one_and_does_not_overflow")
@reuse_graph
@rounds_once
def log_softmax(x: Tensor, /, axis: int = -1) -> Tensor:
    """Log-softmax `x - log(sum(exp(x)))` along `axis`, accurate where the softmax is near 0.
    Integers become float32.

    Raises:
        AxisError: if the axis is out of bounds.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log_softmax(sv.Tensor([0.0, 1000.0])).tolist()
        [-1000.0, 0.0]
    """
    x = to_float(x)
    if x.shape[normalize_axis("log_softmax", axis, x.ndim)] == 0:
        return x.clone()
    shifted = x.sub(x.max(axis, keepdims=True))
    # The logarithm of the softmax itself would be -inf where the softmax underflows.
    value = shifted.sub(shifted.exp().sum(axis, keepdims=True).log())
    return with_rule(_log_softmax_gradient, value, (x,), axis)
