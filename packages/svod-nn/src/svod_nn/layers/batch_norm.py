"""Batch and instance normalization, with running statistics of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from svod_nn._module import Module
from svod_nn.errors import LayerArgumentError
from svod_nn.initializers import constant
from svod_nn.layers.sizes import check_axes, check_sample_count
from svod_tensor import DType, Tensor, defer_values, float32, float64, int64

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
]


class _ChannelNorm(Module):
    """Base class of batch and instance normalization."""

    buffer_names = ("running_mean", "running_var", "num_batches_tracked")
    n_axes: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = constant((num_features,), 1.0) if affine else None
        self.bias = constant((num_features,), 0.0) if affine else None
        self.running_mean = constant((num_features,), 0.0) if track_running_stats else None
        self.running_var = constant((num_features,), 1.0) if track_running_stats else None
        self.num_batches_tracked = (
            # int64 as in torch, whose state dicts load.
            defer_values(Tensor(0, dtype=int64)) if track_running_stats else None
        )

    def _check_channels(self, shape: tuple[object, ...], axis: int) -> None:
        if shape[axis] != self.num_features:
            problem = (
                f"expected {self.num_features} channels, got {shape[axis]} in input of shape"
                f" {shape}"
            )
            raise LayerArgumentError(name=type(self).__name__, problem=problem)

    def _check_samples(self, x: Tensor, axes: Sequence[int], values: str) -> None:
        is_recorded = self.training and self.running_mean is not None
        check_sample_count(type(self).__name__, x, axes, values, is_recorded=is_recorded)

    def _track(self, mean: Tensor, variance: Tensor) -> None:
        """Update the running statistics with batch statistics of shape (channels,)."""
        if (
            self.running_mean is None
            or self.running_var is None
            or self.num_batches_tracked is None
        ):
            return
        momentum = self._count_batch(self.num_batches_tracked).cast(mean.dtype)
        for running, current in ((self.running_mean, mean), (self.running_var, variance)):
            # Narrow running statistics are moved in float32: a small share would be rounded away.
            old = running.cast(mean.dtype)
            # Detached: for the gradient, the running values are constants.
            running.assign((old + (current.detach() - old) * momentum).cast(running.dtype))

    def _count_batch(self, n_batches: Tensor) -> Tensor:
        """Count a batch, and return its weight in the running statistics."""
        n_batches.assign(n_batches + 1)
        # As in torch, None means the mean of all batches with equal weights.
        return 1 / n_batches if self.momentum is None else Tensor.full((), self.momentum)

    def _use_running(self, x: Tensor) -> Tensor | None:
        """Normalize by the running statistics; return None in training, or without them."""
        # As in torch, a layer that does not track uses the batch in evaluation too.
        if self.training or self.running_mean is None or self.running_var is None:
            return None
        return x.batchnorm(
            self.running_mean, self.running_var, self.weight, self.bias, self.eps
        ).cast(x.dtype)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum},"
            f" affine={self.weight is not None},"
            f" track_running_stats={self.running_mean is not None}"
        )


class _BatchNorm(_ChannelNorm):
    """Base class of batch normalization: `(x - mean) / sqrt(var + eps) * weight + bias`.

    The mean and the (biased) variance of each channel are taken over the batch and the spatial
    axes. In training, each call also updates the running statistics, which are used in evaluation.
    A training batch with one value per channel has no variance and is an error.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        """Initialize the layer.

        Args:
            num_features: number of channels.
            eps: term added to the variance for numerical stability.
            momentum: weight of the current batch in the running statistics; None for the cumulative
                mean of all batches.
            affine: if True, there are a learned weight and bias of each channel.
            track_running_stats: if True, keep running statistics, which are used in evaluation
                mode.
        """
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize a tensor of shape (batch, channels, ...).

        Raises:
            LayerArgumentError: if the number of axes or channels differs, or a training batch has
                only one value per channel.
        """
        check_axes(type(self).__name__, x.shape, self.n_axes)
        self._check_channels(x.shape, 1)
        normalized = self._use_running(x)
        if normalized is not None:
            return normalized
        axes = (0, *range(2, x.ndim))
        self._check_samples(x, axes, "value per channel")
        # Sums over a batch lose their digits in narrow types.
        wide = x.cast(_get_statistics_dtype(x))
        mean, variance = wide.mean(axes), wide.var(axes)
        # An empty batch has no statistics: the running ones would be NaN from then on.
        if self.training and 0 not in x.shape:
            # As in PyTorch, the running variance is unbiased, the variance for the result is not.
            self._track(mean, wide.var(axes, correction=1))
        return wide.batchnorm(mean, variance, self.weight, self.bias, self.eps).cast(x.dtype)


class _InstanceNorm(_ChannelNorm):
    """Base class of instance normalization: `(x - mean) / sqrt(var + eps) * weight + bias`.

    The mean and the variance are taken over each channel of each sample.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
    ) -> None:
        """Initialize the layer.

        Args:
            num_features: number of channels.
            eps: term added to the variance for numerical stability.
            momentum: weight of the current batch in the running statistics; None for 0.
            affine: if True, there are a learned weight and bias of each channel.
            track_running_stats: if True, keep running statistics, which are used in evaluation
                mode.
        """
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, x: Tensor) -> Tensor:
        """Normalize a tensor of shape (batch, channels, ...), or (channels, ...).

        Raises:
            LayerArgumentError: if the number of axes or channels differs, or a channel has only one
                element.
        """
        check_axes(type(self).__name__, x.shape, (self.n_axes[-1] - 1, self.n_axes[-1]))
        self._check_channels(x.shape, 1 - self.n_axes[-1])
        return (
            self._normalize(x)
            if x.ndim == self.n_axes[-1]
            else self._normalize(x.unsqueeze(0)).squeeze(0)
        )

    def _count_batch(self, n_batches: Tensor) -> Tensor:
        # As in PyTorch: batches are not counted here, and a momentum of None means 0.
        return Tensor.full((), self.momentum or 0.0)

    def _normalize(self, x: Tensor) -> Tensor:
        normalized = self._use_running(x)
        if normalized is not None:
            return normalized
        axes = tuple(range(2, x.ndim))
        self._check_samples(x, axes, "spatial element")
        if self.training and self.running_mean is not None and 0 not in x.shape:
            wide = x.cast(_get_statistics_dtype(x))
            # As in torch, the mean of the instances' variances, not the variance of the batch.
            self._track(wide.mean((0, *axes)), wide.var(axes, correction=1).mean(0))
        return x.group_norm(self.num_features, self.eps, self.weight, self.bias)


def _get_statistics_dtype(x: Tensor) -> DType:
    """Return the dtype in which the statistics of a tensor are computed."""
    return float64 if x.dtype == float64 else float32


class BatchNorm1d(_BatchNorm):
    """Batch normalization `(x - mean) / sqrt(var + eps) * weight + bias` of tensors of shape
    (batch, channels) or (batch, channels, length).

    The mean and the biased variance of each channel are taken over the batch and the spatial axes.
    In training, each call also updates the running statistics,
    `running = (1 - momentum) * running + momentum * current`, which are used in evaluation.

    Attributes:
        weight: scale of shape (num_features,), or None.
        bias: offset of shape (num_features,), or None.
        running_mean: running mean of shape (num_features,), or None.
        running_var: running variance of shape (num_features,), unbiased, or None.
        num_batches_tracked: number of training batches (int64), or None.

    Source: S. Ioffe, C. Szegedy, Batch normalization, 2015, as in `torch.nn.BatchNorm1d`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.BatchNorm1d(3)(Tensor.rand(2, 3, 4)).shape
        (2, 3, 4)
    """

    n_axes = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization `(x - mean) / sqrt(var + eps) * weight + bias` of tensors of shape
    (batch, channels, height, width).

    The mean and the biased variance of each channel are taken over the batch and the spatial axes.
    In training, each call also updates the running statistics,
    `running = (1 - momentum) * running + momentum * current`, which are used in evaluation.

    Attributes:
        weight: scale of shape (num_features,), or None.
        bias: offset of shape (num_features,), or None.
        running_mean: running mean of shape (num_features,), or None.
        running_var: running variance of shape (num_features,), unbiased, or None.
        num_batches_tracked: number of training batches (int64), or None.

    Source: S. Ioffe, C. Szegedy, Batch normalization, 2015, as in `torch.nn.BatchNorm2d`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.BatchNorm2d(3)(Tensor.rand(2, 3, 4, 4)).shape
        (2, 3, 4, 4)
    """

    n_axes = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization `(x - mean) / sqrt(var + eps) * weight + bias` of tensors of shape
    (batch, channels, depth, height, width).

    The mean and the biased variance of each channel are taken over the batch and the spatial axes.
    In training, each call also updates the running statistics,
    `running = (1 - momentum) * running + momentum * current`, which are used in evaluation.

    Attributes:
        weight: scale of shape (num_features,), or None.
        bias: offset of shape (num_features,), or None.
        running_mean: running mean of shape (num_features,), or None.
        running_var: running variance of shape (num_features,), unbiased, or None.
        num_batches_tracked: number of training batches (int64), or None.

    Source: S. Ioffe, C. Szegedy, Batch normalization, 2015, as in `torch.nn.BatchNorm3d`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.BatchNorm3d(3)(Tensor.rand(2, 3, 4, 4, 4)).shape
        (2, 3, 4, 4, 4)
    """

    n_axes = (5,)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization `(x - mean) / sqrt(var + eps) * weight + bias` of tensors of shape
    (batch, channels, length), or without the batch axis.

    The mean and the biased variance are taken over each channel of each sample. With running
    statistics, each call in training also updates them, and they are used in evaluation.

    Attributes:
        weight: scale of shape (num_features,), or None.
        bias: offset of shape (num_features,), or None.
        running_mean: running mean of shape (num_features,), or None.
        running_var: running variance of shape (num_features,), unbiased, or None.
        num_batches_tracked: 0 (int64), as in torch, or None.

    Source: D. Ulyanov et al., Instance normalization, 2016, as in `torch.nn.InstanceNorm1d`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.InstanceNorm1d(3)(Tensor.rand(2, 3, 4)).shape
        (2, 3, 4)
    """

    n_axes = (3,)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization `(x - mean) / sqrt(var + eps) * weight + bias` of tensors of shape
    (batch, channels, height, width), or without the batch axis.

    The mean and the biased variance are taken over each channel of each sample. With running
    statistics, each call in training also updates them, and they are used in evaluation.

    Attributes:
        weight: scale of shape (num_features,), or None.
        bias: offset of shape (num_features,), or None.
        running_mean: running mean of shape (num_features,), or None.
        running_var: running variance of shape (num_features,), unbiased, or None.
        num_batches_tracked: 0 (int64), as in torch, or None.

    Source: D. Ulyanov et al., Instance normalization, 2016, as in `torch.nn.InstanceNorm2d`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.InstanceNorm2d(3)(Tensor.rand(2, 3, 4, 4)).shape
        (2, 3, 4, 4)
    """

    n_axes = (4,)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization `(x - mean) / sqrt(var + eps) * weight + bias` of tensors of shape
    (batch, channels, depth, height, width), or without the batch axis.

    The mean and the biased variance are taken over each channel of each sample. With running
    statistics, each call in training also updates them, and they are used in evaluation.

    Attributes:
        weight: scale of shape (num_features,), or None.
        bias: offset of shape (num_features,), or None.
        running_mean: running mean of shape (num_features,), or None.
        running_var: running variance of shape (num_features,), unbiased, or None.
        num_batches_tracked: 0 (int64), as in torch, or None.

    Source: D. Ulyanov et al., Instance normalization, 2016, as in `torch.nn.InstanceNorm3d`.

    Example:
        >>> import svod_nn as nn
        >>> from svod_tensor import Tensor
        >>> nn.InstanceNorm3d(3)(Tensor.rand(2, 3, 4, 4, 4)).shape
        (2, 3, 4, 4, 4)
    """

    n_axes = (5,)
