"""Functions of each element, or along an axis, as modules."""

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
    """`max(x, 0)`.

    Example:
        >>> nn.ReLU()(Tensor([-1.0, 1.0])).tolist()
        [0.0, 1.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.relu()


class ReLU6(Module):
    """`min(max(x, 0), 6)`.

    Example:
        >>> nn.ReLU6()(Tensor([-1.0, 1.0])).tolist()
        [0.0, 1.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.relu6()


class SELU(Module):
    """`elu` with the scale and the slope that keep mean 0 and variance 1.

    Example:
        >>> nn.SELU()(Tensor([0.0])).tolist()
        [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.selu()


class SiLU(Module):
    """`x * sigmoid(x)`.

    Example:
        >>> nn.SiLU()(Tensor([0.0])).tolist()
        [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.silu()


class Mish(Module):
    """`x * tanh(softplus(x))`.

    Example:
        >>> nn.Mish()(Tensor([0.0])).tolist()
        [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.mish()


class Sigmoid(Module):
    """`1 / (1 + exp(-x))`.

    Example:
        >>> nn.Sigmoid()(Tensor([0.0])).tolist()
        [0.5]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.sigmoid()


class Tanh(Module):
    """`tanh(x)`.

    Example:
        >>> nn.Tanh()(Tensor([0.0])).tolist()
        [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.tanh()


class Softsign(Module):
    """`x / (1 + abs(x))`.

    Example:
        >>> nn.Softsign()(Tensor([-1.0, 1.0])).tolist()
        [-0.5, 0.5]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.softsign()


class Hardsigmoid(Module):
    """`min(max(x + 3, 0), 6) / 6`.

    Example:
        >>> nn.Hardsigmoid()(Tensor([0.0])).tolist()
        [0.5]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.hardsigmoid()


class Hardswish(Module):
    """`x * hardsigmoid(x)`.

    Example:
        >>> nn.Hardswish()(Tensor([0.0])).tolist()
        [0.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.hardswish()


class LeakyReLU(Module):
    """The element where it is not negative, else `slope` times it.

    Example:
        >>> nn.LeakyReLU(0.5)(Tensor([-1.0, 1.0])).tolist()
        [-0.5, 1.0]
    """

    def __init__(self, slope: float = 0.01) -> None:
        self.slope = slope

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.leaky_relu(self.slope)

    def extra_repr(self) -> str:
        return f"slope={self.slope!r}"


class ELU(Module):
    """The element where it is positive, else `alpha * (exp(x) - 1)`.

    Example:
        >>> nn.ELU()(Tensor([0.0, 1.0])).tolist()
        [0.0, 1.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.elu(self.alpha)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha!r}"


class GELU(Module):
    """`x * Phi(x)`, where Phi is the distribution function of normal numbers; `approximate` is
    `none` or `tanh`.

    Example:
        >>> nn.GELU("tanh")(Tensor([0.0])).tolist()
        [0.0]
    """

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.gelu(self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`.

    Example:
        >>> nn.Softplus()(Tensor([100.0])).tolist()
        [100.0]
    """

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.softplus(self.beta)

    def extra_repr(self) -> str:
        return f"beta={self.beta!r}"


class GLU(Module):
    """The first half of an axis, gated by the sigmoid of the second.

    Example:
        >>> nn.GLU()(Tensor([4.0, 0.0])).tolist()
        [2.0]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """Half as long on that axis."""
        return x.glu(self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis!r}"


class Softmax(Module):
    """Positive numbers whose sum along an axis is 1.

    Example:
        >>> nn.Softmax()(Tensor([0.0, 0.0])).tolist()
        [0.5, 0.5]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.softmax(self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis!r}"


class LogSoftmax(Module):
    """The logarithms of `Softmax`.

    Example:
        >>> nn.LogSoftmax()(Tensor([7.0])).tolist()
        [0.0]
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        return x.log_softmax(self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis!r}"


class PReLU(Module):
    """The element where it is not negative, else `weight` times it.

    Args:
        num_parameters: 1, or a slope for each channel, the second axis.
        init: the first value of the slopes.

    Attributes:
        weight: of shape (num_parameters,).

    Example:
        >>> nn.PReLU()(Tensor([-4.0, 1.0])).tolist()
        [-1.0, 1.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        self.num_parameters = num_parameters
        self.weight = constant((num_parameters,), init)

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        slope = (
            self.weight
            if self.num_parameters == 1
            else self.weight.reshape(-1, *(1,) * (x.ndim - 2))
        )
        return (x < 0).where(x * slope, x)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
