"""Activation functions as modules: elementwise, or along an axis."""

from __future__ import annotations

from svod_nn._module import Module
from svod_nn.initializers import constant
from svod_tensor import Tensor

__all__ = [
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardsigmoid",
    "Hardswish",
    "LeakyReLU",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
]


class ReLU(Module):
    """Rectified linear unit, `max(x, 0)`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ReLU()(Tensor([-1.0, 1.0])).tolist()
        [0.0, 1.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.relu()


class ReLU6(Module):
    """Rectified linear unit clipped at 6, `min(max(x, 0), 6)`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ReLU6()(Tensor([-1.0, 1.0])).tolist()
        [0.0, 1.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.relu6()


class SELU(Module):
    """Scaled exponential linear unit, `scale * elu(x, alpha)`.

    `scale` = 1.0507 and `alpha` = 1.6733 preserve mean 0 and variance 1.

    Source: G. Klambauer et al., Self-normalizing neural networks, 2017.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.SELU()(Tensor([0.0])).tolist()
        [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.selu()


class SiLU(Module):
    """Sigmoid linear unit, also called swish, `x * sigmoid(x)`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.SiLU()(Tensor([0.0])).tolist()
        [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.silu()


class Mish(Module):
    """Mish, `x * tanh(softplus(x))`.

    Source: D. Misra, Mish: a self regularized non-monotonic activation function, 2019.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Mish()(Tensor([0.0])).tolist()
        [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.mish()


class Sigmoid(Module):
    """Logistic sigmoid, `1 / (1 + exp(-x))`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Sigmoid()(Tensor([0.0])).tolist()
        [0.5]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.sigmoid()


class Tanh(Module):
    """Hyperbolic tangent, `tanh(x)`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Tanh()(Tensor([0.0])).tolist()
        [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.tanh()


class Softsign(Module):
    """Softsign, `x / (1 + abs(x))`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Softsign()(Tensor([-1.0, 1.0])).tolist()
        [-0.5, 0.5]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.softsign()


class Hardsigmoid(Module):
    """Hard sigmoid, the piecewise linear `min(max(x + 3, 0), 6) / 6`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Hardsigmoid()(Tensor([0.0])).tolist()
        [0.5]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.hardsigmoid()


class Hardswish(Module):
    """Hard swish, `x * min(max(x + 3, 0), 6) / 6`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Hardswish()(Tensor([0.0])).tolist()
        [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.hardswish()


class LeakyReLU(Module):
    """Leaky rectified linear unit, `x` if `x >= 0`, else `slope * x`.

    Args:
        slope: negative slope.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.LeakyReLU(0.5)(Tensor([-1.0, 1.0])).tolist()
        [-0.5, 1.0]
    """

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.leaky_relu(self.slope)

    def extra_repr(self) -> str:
        return f"slope={self.slope!r}"


class ELU(Module):
    """Exponential linear unit, `x` if `x > 0`, else `alpha * (exp(x) - 1)`.

    Args:
        alpha: scale of the negative part.

    Source: D. Clevert et al., Fast and accurate deep network learning by exponential linear units,
    2015.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.ELU()(Tensor([0.0, 1.0])).tolist()
        [0.0, 1.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.elu(self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha!r}"


class GELU(Module):
    """Gaussian error linear unit, `x * Phi(x)`, with the normal distribution function Phi.

    Args:
        approximate: "none" for the exact function, "tanh" for its approximation by tanh.

    Source: D. Hendrycks, K. Gimpel, Gaussian error linear units, 2016.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.GELU("tanh")(Tensor([0.0])).tolist()
        [0.0]
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.gelu(self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """Softplus, `log(1 + exp(beta * x)) / beta`, a smooth approximation of ReLU.

    Args:
        beta: sharpness of the transition.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Softplus()(Tensor([100.0])).tolist()
        [100.0]
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.softplus(self.beta)

    def extra_repr(self) -> str:
        return f"beta={self.beta!r}"


class GLU(Module):
    """Gated linear unit, `a * sigmoid(b)`, where a and b are the halves of an axis.

    Args:
        axis: axis to split, of even size.

    Source: Y. Dauphin et al., Language modeling with gated convolutional networks, 2017.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.GLU()(Tensor([4.0, 0.0])).tolist()
        [2.0]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of half the size along the axis."""
        return x.glu(self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis!r}"


class Softmax(Module):
    """Softmax, `exp(x) / sum(exp(x))` along an axis.

    Args:
        axis: axis along which the result sums to 1.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Softmax()(Tensor([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.softmax(self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis!r}"


class LogSoftmax(Module):
    """Logarithm of the softmax, `x - log(sum(exp(x)))` along an axis.

    Args:
        axis: axis of the sum.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.LogSoftmax()(Tensor([7.0])).tolist()
        [0.0]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return x.log_softmax(self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis!r}"


class PReLU(Module):
    """Parametric ReLU, `x` if `x >= 0`, else `weight * x`, with a learned slope.

    Args:
        num_parameters: number of slopes: 1, or the number of channels, the size of the second axis.
        init: initial value of the slopes.

    Attributes:
        weight: slopes, of shape (num_parameters,).

    Source: K. He et al., Delving deep into rectifiers, 2015.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.PReLU()(Tensor([-4.0, 1.0])).tolist()
        [-1.0, 1.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        self.num_parameters = num_parameters
        self.weight = constant((num_parameters,), init)

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        slope = (
            self.weight
            if self.num_parameters == 1
            else self.weight.reshape(-1, *(1,) * (x.ndim - 2))
        )
        return (x < 0).where(x * slope, x)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
