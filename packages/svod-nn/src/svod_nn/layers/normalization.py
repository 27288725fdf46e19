"""Normalisations whose statistics are of each sample alone."""

from __future__ import annotations

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.initializers import constant
from svod_nn.layers.sizes import Sizes, check_sample_count
from svod_tensor import Tensor, float64

__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes, then times `weight` and plus `bias`.

    Args:
        normalized_shape: the sizes of these axes; a number is the last one.
        eps: added to the variance.
        elementwise_affine: whether there is a weight.
        bias: whether there is a bias, if there is a weight.

    Attributes:
        weight: of this shape, or None.
        bias: of this shape, or None.

    Example:
        >>> nn.LayerNorm(3)(Tensor([[1.0, 2.0, 3.0]])).round(4).tolist()[0][1:]
        [0.0, 1.2246999740600586]
    """

    def __init__(
        self,
        normalized_shape: Sizes,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        self.normalized_shape = _to_shape(normalized_shape)
        self.eps = eps
        self.weight = constant(self.normalized_shape, 1.0) if elementwise_affine else None
        self.bias = constant(self.normalized_shape, 0.0) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        _check_last("LayerNorm", x, self.normalized_shape)
        return x.layernorm(
            tuple(range(-len(self.normalized_shape), 0)), self.eps, self.weight, self.bias
        )

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"
        )


class RMSNorm(Module):
    """Mean square 1 over the last axes, then times `weight`.

    Args:
        normalized_shape: the sizes of these axes; a number is the last one.
        eps: added to the mean square; by default the distance of 1 from the next float of the dtype
            that is computed in.
        elementwise_affine: whether there is a weight.

    Attributes:
        weight: of this shape, or None.

    Example:
        >>> nn.RMSNorm(2)(Tensor([[3.0, 4.0]])).round(2).tolist()
        [[0.8500000238418579, 1.1299999952316284]]
    """

    def __init__(
        self, normalized_shape: Sizes, eps: float | None = None, elementwise_affine: bool = True
    ) -> None:
        self.normalized_shape = _to_shape(normalized_shape)
        self.eps = eps
        self.weight = constant(self.normalized_shape, 1.0) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        _check_last("RMSNorm", x, self.normalized_shape)
        # Narrow floats are computed in float32.
        eps = self.eps if self.eps is not None else 2.0**-52 if x.dtype == float64 else 2.0**-23
        return x.rms_norm(tuple(range(-len(self.normalized_shape), 0)), eps, self.weight)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"
        )


class GroupNorm(Module):
    """Mean 0 and variance 1 over each group of channels, then times `weight` and plus `bias` for
    each channel.

    Args:
        num_groups: into how many groups the channels fall.
        num_channels: the size of the second axis.
        eps: added to the variance.
        affine: whether there are a weight and a bias.

    Attributes:
        weight: of shape (num_channels,), or None.
        bias: of shape (num_channels,), or None.

    Example:
        >>> nn.GroupNorm(2, 4)(Tensor.ones(3, 4, 5)).shape
        (3, 4, 5)
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise LayerArgumentError(
                name="GroupNorm",
                problem=f"{num_groups} groups do not divide {num_channels} channels",
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = constant((num_channels,), 1.0) if affine else None
        self.bias = constant((num_channels,), 0.0) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        if x.ndim >= 2:
            each = self.num_channels // self.num_groups
            check_sample_count(
                "GroupNorm", x, (0, *range(2, x.ndim)), "value per channel", factor=each
            )
        return x.group_norm(self.num_groups, self.eps, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps},"
            f" affine={self.weight is not None}"
        )


def _to_shape(sizes: Sizes) -> tuple[int, ...]:
    return (sizes,) if isinstance(sizes, int) else tuple(sizes)


def _check_last(name: str, x: Tensor, shape: tuple[int, ...]) -> None:
    if x.shape[-len(shape) :] != shape:
        raise LayerArgumentError(
            name=name, problem=f"a tensor of shape {x.shape} does not end with the sizes {shape}"
        )
