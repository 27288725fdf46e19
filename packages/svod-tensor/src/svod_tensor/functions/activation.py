"""Functions that call the methods of `Tensor` in `svod_tensor.ops.activation`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

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
    "softplus",
    "softsign",
    "swish",
]


@explained
def elu(x: Operand, /, alpha: float = 1.0) -> Tensor:
    """The element where it is positive, else `alpha * (exp(x) - 1)`. Integers become float32.

    Source: Clevert et al., Fast and Accurate Deep Network Learning by Exponential Linear Units (2015), equation 15.

    Example:
        >>> import svod_tensor as sv
        >>> sv.elu(Tensor([-1.0, 2.0]), alpha=2.0).round(4).numpy()
        array([-1.2642,  2.    ], dtype=float32)
    """
    return to_tensor(x).elu(alpha)


@explained
def gelu(x: Operand, /, approximate: str = "none") -> Tensor:
    """`x * Phi(x)`, where Phi is the distribution function of normal numbers. Integers become float32.

    Args:
        approximate: `"none"` computes Phi so that its far tail keeps its digits; `"tanh"` computes
            `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 *
            x^3))) / 2`.

    Raises:
        OperandError: if `approximate` is something else.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units (2016), section 2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.gelu(Tensor([-1.0, 0.0, 2.0])).round(4).numpy()
        array([-0.1587,  0.    ,  1.9545], dtype=float32)
    """
    return to_tensor(x).gelu(approximate)


@explained
def glu(x: Operand, /, axis: int = -1) -> Tensor:
    """The first half of `axis`, gated by the sigmoid of the second: half as long on that axis. Integers become
    float32.

    Raises:
        ShapeError: if the axis has an odd size.

    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks (2016), equation 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.glu(Tensor([4.0, 6.0, 0.0, 0.0])).tolist()
        [2.0, 3.0]
    """
    return to_tensor(x).glu(axis)


@explained
def hardsigmoid(x: Operand, /) -> Tensor:
    """`min(max(x + 3, 0), 6) / 6`. Integers become float32.

    Source: Howard et al., Searching for MobileNetV3 (2019), section 5.2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.hardsigmoid(Tensor([-4.0, 0.0, 1.5])).tolist()
        [0.0, 0.5, 0.75]
    """
    return to_tensor(x).hardsigmoid()


@explained
def hardswish(x: Operand, /) -> Tensor:
    """`x * hardsigmoid(x)`. Integers become float32.

    Source: Howard et al., Searching for MobileNetV3 (2019), section 5.2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.hardswish(Tensor([-4.0, 0.0, 1.5])).tolist()
        [-0.0, 0.0, 1.125]
    """
    return to_tensor(x).hardswish()


@explained
def leaky_relu(x: Operand, /, slope: float = 0.01) -> Tensor:
    """The element where it is not negative, else `slope` times it. Integers become float32.

    Source: Maas et al., Rectifier Nonlinearities Improve Neural Network Acoustic Models (2013), section 2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.leaky_relu(Tensor([-4.0, 2.0]), 0.5).tolist()
        [-2.0, 2.0]
    """
    return to_tensor(x).leaky_relu(slope)


@explained
def log_softmax(x: Operand, /, axis: int = -1) -> Tensor:
    """`log(softmax(x))` along `axis`, accurate where the softmax is near 0. Integers become float32.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.log_softmax(Tensor([0.0, 1000.0])).tolist()
        [-1000.0, 0.0]
    """
    return to_tensor(x).log_softmax(axis)


@explained
def mish(x: Operand, /) -> Tensor:
    """`x * tanh(softplus(x))`. Integers become float32.

    Source: Misra, Mish: A Self Regularized Non-Monotonic Activation Function (2019), equation 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.mish(Tensor([-1.0, 0.0, 2.0])).round(4).numpy()
        array([-0.3034,  0.    ,  1.944 ], dtype=float32)
    """
    return to_tensor(x).mish()


@explained
def relu(x: Operand, /) -> Tensor:
    """`max(x, 0)`, in the dtype of `x`; NaN stays NaN.

    Example:
        >>> import svod_tensor as sv
        >>> sv.relu(Tensor([-1.0, 0.0, 2.0])).tolist()
        [0.0, 0.0, 2.0]
    """
    return to_tensor(x).relu()


@explained
def relu6(x: Operand, /) -> Tensor:
    """`min(max(x, 0), 6)`, in the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.relu6(Tensor([-1.0, 3.0, 9.0])).tolist()
        [0.0, 3.0, 6.0]
    """
    return to_tensor(x).relu6()


@explained
def selu(x: Operand, /) -> Tensor:
    """`elu` with the scale and the slope that keep mean 0 and variance 1. Integers become float32.

    Source: Klambauer et al., Self-Normalizing Neural Networks (2017), equation 2.

    Example:
        >>> import svod_tensor as sv
        >>> sv.selu(Tensor([-1.0, 2.0])).round(4).numpy()
        array([-1.1113,  2.1014], dtype=float32)
    """
    return to_tensor(x).selu()


@explained
def silu(x: Operand, /) -> Tensor:
    """`x * sigmoid(x)`. Integers become float32.

    Source: Elfwing et al., Sigmoid-Weighted Linear Units for Neural Network Function Approximation (2017), equation
    1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.silu(Tensor([-1.0, 0.0, 2.0])).round(4).numpy()
        array([-0.2689,  0.    ,  1.7616], dtype=float32)
    """
    return to_tensor(x).silu()


@explained
def softmax(x: Operand, /, axis: int = -1) -> Tensor:
    """`exp(x)`, scaled to a sum of 1 along `axis`, without overflow. Integers become float32.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.softmax(Tensor([[0.0, 0.0], [1000.0, 0.0]])).tolist()
        [[0.5, 0.5], [1.0, 0.0]]
    """
    return to_tensor(x).softmax(axis)


@explained
def softplus(x: Operand, /, beta: float = 1.0) -> Tensor:
    """`log(1 + exp(beta * x)) / beta` without overflow. Integers become float32.

    Source: Dugas et al., Incorporating Second-Order Functional Knowledge for Better Option Pricing (2001), section
    3.

    Example:
        >>> import svod_tensor as sv
        >>> sv.softplus(Tensor([-1.0, 0.0, 200.0])).round(4).numpy()
        array([  0.3133,   0.6931, 200.    ], dtype=float32)
    """
    return to_tensor(x).softplus(beta)


@explained
def softsign(x: Operand, /) -> Tensor:
    """`x / (1 + abs(x))`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.softsign(Tensor([-1.0, 0.0, 3.0])).tolist()
        [-0.5, 0.0, 0.75]
    """
    return to_tensor(x).softsign()


@explained
def swish(x: Operand, /) -> Tensor:
    """`x * sigmoid(x)`. Integers become float32.

    Source: Elfwing et al., Sigmoid-Weighted Linear Units for Neural Network Function Approximation (2017), equation
    1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.swish(Tensor([-1.0, 0.0, 2.0])).round(4).numpy()
        array([-0.2689,  0.    ,  1.7616], dtype=float32)
    """
    return to_tensor(x).swish()
