"""Normalizations whose statistics are computed separately for each sample."""

from __future__ import annotations

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.initializers import constant
from svod_nn.layers.sizes import Sizes, check_sample_count
from svod_tensor import Tensor, float64

__all__ = ["GroupNorm", "LayerNorm", "RMSNorm"]


class LayerNorm(Module):
    """Layer normalization: `(x - mean) / sqrt(var + eps) * weight + bias` over the last axes.

    Args:
        normalized_shape: sizes of the normalized axes; a number is the size of the last axis.
        eps: term added to the variance for numerical stability.
        elementwise_affine: if True, there is a learned weight of each element.
        bias: if True, and `elementwise_affine` is True, there is a learned bias.

    Attributes:
        weight: weight of shape `normalized_shape`, or None.
        bias: bias of shape `normalized_shape`, or None.

    Source: J. Ba et al., Layer normalization, 2016.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
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
        # As in torch, there is no bias without a weight.
        self.bias = constant(self.normalized_shape, 0.0) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        # Weights that broadcast would hide a wrong shape.
        _check_last("LayerNorm", x, self.normalized_shape)
        return x.layernorm(
            tuple(range(-len(self.normalized_shape), 0)), self.eps, self.weight, self.bias
        )

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"
        )


class RMSNorm(Module):
    """Root mean square normalization: `x / sqrt(mean(x**2) + eps) * weight` over the last axes.

    Args:
        normalized_shape: sizes of the normalized axes; a number is the size of the last axis.
        eps: term added to the mean square; by default the machine epsilon of the dtype of the
            computation.
        elementwise_affine: if True, there is a learned weight of each element.

    Attributes:
        weight: weight of shape `normalized_shape`, or None.

    Source: B. Zhang, R. Sennrich, Root mean square layer normalization, 2019.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
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
        """Return a tensor of the same shape."""
        _check_last("RMSNorm", x, self.normalized_shape)
        # The epsilon of float32 also for narrower floats, which are computed in float32.
        eps = self.eps if self.eps is not None else 2.0**-52 if x.dtype == float64 else 2.0**-23
        return x.rms_norm(tuple(range(-len(self.normalized_shape), 0)), eps, self.weight)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.weight is not None}"
        )


class GroupNorm(Module):
    """Group normalization: `(x - mean) / sqrt(var + eps) * weight + bias`.

    The mean and the variance are taken over each group of channels of each sample.

    Args:
        num_groups: number of groups; divides `num_channels`.
        num_channels: number of channels, the size of the second axis.
        eps: term added to the variance for numerical stability.
        affine: if True, there are a learned weight and bias of each channel.

    Attributes:
        weight: weight of shape (num_channels,), or None.
        bias: bias of shape (num_channels,), or None.

    Raises:
        LayerArgumentError: if `num_groups` does not divide `num_channels`.

    Source: Y. Wu, K. He, Group normalization, 2018.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.GroupNorm(2, 4)(Tensor.ones(3, 4, 5)).shape
        (3, 4, 5)
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True
    ) -> None:
        if num_groups < 1 or num_channels % num_groups:
            raise LayerArgumentError(
                name="GroupNorm",
                problem=(
                    "num_channels must be divisible by num_groups, got"
                    f" num_channels={num_channels}, num_groups={num_groups}"
                ),
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = constant((num_channels,), 1.0) if affine else None
        self.bias = constant((num_channels,), 0.0) if affine else None

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        if x.ndim >= 2:
            # Statistics are over the channels of a group too: one value per channel is enough if
            # there are more of these.
            group_size = self.num_channels // self.num_groups
            check_sample_count(
                "GroupNorm", x, (0, *range(2, x.ndim)), "value per channel", factor=group_size
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
            name=name, problem=f"expected input of shape (..., {str(shape)[1:]}, got {x.shape}"
        )
