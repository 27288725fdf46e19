"""Linear and bilinear layers, and layers without computation."""

from __future__ import annotations

import math

from svod_nn._module import Module
from svod_nn.initializers import uniform
from svod_tensor import Generator, Tensor

__all__ = ["Bilinear", "Flatten", "Identity", "Linear"]


class Linear(Module):
    """Linear layer, `x @ weight.T + bias`, over the last axis.

    Args:
        in_features: number of input features.
        out_features: number of output features.
        bias: if True, there is a learned bias.
        generator: random generator of the initial values, which are uniform between plus and minus
            `1 / sqrt(in_features)`.

    Attributes:
        weight: weight of shape (out_features, in_features).
        bias: bias of shape (out_features,), or None.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Linear(3, 2)(Tensor.ones(5, 3)).shape
        (5, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        generator: Generator | None = None,
    ) -> None:
        self.in_features, self.out_features = in_features, out_features
        # torch's kaiming_uniform with a slope of sqrt(5), which amounts to this; the bias has the
        # same bound.
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        self.weight = uniform((out_features, in_features), -bound, bound, generator=generator)
        self.bias = uniform((out_features,), -bound, bound, generator=generator) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Map a tensor of shape (..., in_features) to (..., out_features)."""
        return x.linear(self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features},"
            f" bias={self.bias is not None}"
        )


class Bilinear(Module):
    """Bilinear layer, `x1 @ weight[o] @ x2 + bias[o]` for each output o, over the last axes.

    Args:
        in1_features: number of features of the first input.
        in2_features: number of features of the second input.
        out_features: number of output features.
        bias: if True, there is a learned bias.
        generator: random generator of the initial values, which are uniform between plus and minus
            `1 / sqrt(in1_features)`.

    Attributes:
        weight: weight of shape (out_features, in1_features, in2_features).
        bias: bias of shape (out_features,), or None.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Bilinear(3, 4, 2)(Tensor.ones(5, 3), Tensor.ones(5, 4)).shape
        (5, 2)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        generator: Generator | None = None,
    ) -> None:
        self.in1_features, self.in2_features, self.out_features = (
            in1_features,
            in2_features,
            out_features,
        )
        # As in torch, of the first input alone.
        bound = 1 / math.sqrt(in1_features)
        self.weight = uniform(
            (out_features, in1_features, in2_features), -bound, bound, generator=generator
        )
        self.bias = uniform((out_features,), -bound, bound, generator=generator) if bias else None

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Map tensors of shapes (..., in1_features) and (..., in2_features) to (..., out_features)."""
        # A matrix product first: the outer product of both inputs would have in1 * in2 elements for
        # each row.
        rows = x1 @ self.weight.permute(1, 0, 2).reshape(
            self.in1_features, self.out_features * self.in2_features
        )
        rows = rows.reshape(*x1.shape[:-1], self.out_features, self.in2_features)
        product = (rows * x2.unsqueeze(-2)).sum(axis=-1)
        return product if self.bias is None else product + self.bias

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Identity(Module):
    """Identity: returns its input.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Identity()(Tensor([1.0])).tolist()
        [1.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Return the input."""
        return x


class Flatten(Module):
    """Flattening of consecutive axes to one.

    Args:
        start_axis: first axis to flatten.
        end_axis: last axis to flatten.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.Flatten()(Tensor.ones(5, 3, 2)).shape
        (5, 6)
    """

    def __init__(self, start_axis: int = 1, end_axis: int = -1) -> None:
        self.start_axis, self.end_axis = start_axis, end_axis

    def forward(self, x: Tensor) -> Tensor:
        """Return the flattened tensor, a view if possible."""
        return x.flatten(self.start_axis, self.end_axis)

    def extra_repr(self) -> str:
        return f"start_axis={self.start_axis}, end_axis={self.end_axis}"
