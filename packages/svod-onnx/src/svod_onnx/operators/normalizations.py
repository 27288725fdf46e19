"""Normalizations by the mean and deviation of batches, layers, groups and neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from svod_onnx._registry import operator
from svod_onnx._trace import Call
from svod_onnx._types import find_carrier
from svod_tensor import Tensor

__all__ = [
    "BatchNormalizationSince1Attributes",
    "batch_normalization",
    "batch_normalization_since_1",
    "group_normalization",
    "group_normalization_since_18",
    "instance_normalization",
    "layer_normalization",
    "lp_normalization",
    "lrn",
    "mean_variance_normalization",
    "rms_normalization",
]


@operator("BatchNormalization", since=14)
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    input_mean: Tensor,
    input_var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Tensor | tuple[Tensor, ...]:
    """Normalize by the given statistics. In training, normalize by the batch's statistics, and
    update the given ones.

    A tensor of rank 1 is a batch of one channel.
    """
    column = x.unsqueeze(1) if x.ndim == 1 else x
    if not training_mode:
        return (
            column.batchnorm(input_mean, input_var, scale, b, epsilon)
            .reshape(x.shape)
            .cast(x.dtype)
        )
    mean, variance = _compute_batch_statistics(column, input_mean)
    value = column.batchnorm(mean, variance, scale, b, epsilon).reshape(x.shape).cast(x.dtype)
    return (
        value,
        _update_statistic(input_mean, mean, momentum),
        _update_statistic(input_var, variance, momentum),
    )


def _compute_batch_statistics(x: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel, in the wider dtype of both tensors."""
    axes = (0, *range(2, x.ndim))
    wide = x if x.dtype.itemsize >= like.dtype.itemsize else x.cast(like.dtype)
    return wide.mean(axes), wide.var(axes)


def _update_statistic(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    """Exponential moving average of a statistic."""
    # The momentum is the weight of the old statistic, unlike in PyTorch.
    return old.mul(momentum).add(new.mul(1 - momentum)).cast(old.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNormalizationSince1Attributes:
    """Attributes of BatchNormalization, version 1."""

    epsilon: float = 1e-05
    momentum: float = 0.9
    is_test: int = 0
    spatial: int = 1
    consumed_inputs: list[int] | None = None


@operator("BatchNormalization")
def batch_normalization_since_1(
    node: Call,
    x: Tensor,
    weight: Tensor,
    b: Tensor,
    input_mean: Tensor,
    input_var: Tensor,
    *,
    attributes: BatchNormalizationSince1Attributes,
) -> Tensor | tuple[Tensor, ...]:
    """BatchNormalization up to version 9. Further outputs request the statistics of the batch.

    Without `spatial`, each position has its own statistics.
    """
    channels = x.unsqueeze(1) if x.ndim == 1 else x if attributes.spatial else x.flatten(1)
    scale, shift, running_mean, running_variance = (
        operand if attributes.spatial else operand.reshape(-1)
        for operand in (weight, b, input_mean, input_var)
    )
    # Version 7 dropped `is_test`: the declared outputs tell training from inference.
    if attributes.is_test or node.n_outputs == 1:
        return channels.batchnorm(
            running_mean, running_variance, scale, shift, attributes.epsilon
        ).reshape(x.shape)
    mean, variance = _compute_batch_statistics(channels, running_mean)
    value = channels.batchnorm(mean, variance, scale, shift, attributes.epsilon).cast(x.dtype)
    statistics = (
        _update_statistic(running_mean, mean, attributes.momentum),
        _update_statistic(running_variance, variance, attributes.momentum),
        mean,
        variance,
    )
    return value.reshape(x.shape), *(
        statistic.reshape(input_mean.shape) for statistic in statistics
    )


@operator("InstanceNormalization")
def instance_normalization(
    input: Tensor,
    scale: Tensor,
    b: Tensor,
    *,
    epsilon: float = 1e-5,
    consumed_inputs: list[int] | None = None,
) -> Tensor:
    """Normalize each channel of each sample over its spatial axes."""
    del consumed_inputs
    column = (-1, *(1,) * (input.ndim - 2))
    return input.layernorm(
        tuple(range(2, input.ndim)), epsilon, scale.reshape(column), b.reshape(column)
    )


@operator("LayerNormalization")
def layer_normalization(
    node: Call,
    x: Tensor,
    scale: Tensor,
    b: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor | tuple[Tensor, ...]:
    """Normalize over the axes from `axis` on.

    Return the result, and if declared the mean and the reciprocal deviation.
    """
    axes = _list_trailing_axes(node, x, axis)
    value = x.layernorm(axes, epsilon, scale, b).cast(x.dtype)
    if not (node.has_output(1) or node.has_output(2)):
        return value
    dtype = find_carrier(stash_type)
    if dtype is None:
        raise node.refuse(f"unknown stash_type {stash_type}; expected an element type")
    wide = x if x.dtype.itemsize > 4 else x.cast("float32")
    mean = wide.mean(axes, keepdims=True)
    # Computed only on request: the fused kernel does not store its statistics.
    deviation = wide.var(axes, keepdims=True).add(epsilon).rsqrt()
    return value, mean.cast(dtype), deviation.cast(dtype)


def _list_trailing_axes(node: Call, x: Tensor, axis: int) -> tuple[int, ...]:
    """Axes from `axis` on."""
    if not -x.ndim <= axis < x.ndim:
        raise node.refuse(f"axis {axis} is out of bounds for an input of shape {x.shape}")
    return tuple(range(axis % x.ndim, x.ndim))


@operator("RMSNormalization")
def rms_normalization(
    node: Call,
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """Divide by the root mean square, in the dtype of the scale.

    Statistics are always computed in at least float32.
    """
    del stash_type  # the kernels accumulate in float32 at least
    wide = x.cast(scale.dtype) if scale.dtype.itemsize > x.dtype.itemsize else x
    return wide.rms_norm(_list_trailing_axes(node, x, axis), epsilon, scale).cast(scale.dtype)


@operator("GroupNormalization", since=21)
def group_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """Normalize each group of channels, with a scale and a bias for each channel."""
    del stash_type  # the kernels accumulate in float32 at least
    return x.group_norm(num_groups, epsilon, scale, bias)


@operator("GroupNormalization", since=18)
def group_normalization_since_18(
    node: Call, x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    """GroupNormalization of version 18, with a scale and a bias for each group."""
    channels: Any = x.shape[1] if x.ndim > 1 else 0
    if num_groups < 1 or not channels or channels % num_groups:
        raise node.refuse(
            f"num_groups {num_groups} must divide the channels of an input of shape {x.shape}"
        )
    each = channels // num_groups
    # Repeated for each channel, as version 21 has them.
    return x.group_norm(num_groups, epsilon, scale.repeat(each, 0), bias.repeat(each, 0))


@operator("LpNormalization")
def lp_normalization(input: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divide by the Lp norm along `axis`. Zero vectors stay zero."""
    size = input.norm(axis, ord=p, keepdims=True)
    # 0 / 0 would be NaN.
    return input.div(size.eq(0).where(1, size))


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """Subtract the mean, and divide by the deviation plus 1e-9, as the operator's function body
    does.
    """
    axes_ = tuple(axes)
    wide = x if x.dtype.itemsize > 2 else x.cast("float32")
    centred = wide.sub(wide.mean(axes_, keepdims=True))
    return centred.div(wide.std(axes_, keepdims=True).add(1e-9)).cast(x.dtype)


@operator("LRN")
def lrn(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Local response normalization over `size` neighboring channels."""
    wide = x if x.dtype.itemsize > 2 else x.cast("float32")
    # Channels move last, where windows slide.
    squares = wide.square().moveaxis(1, -1)
    # For an even size, the specification counts one more channel after than before.
    n_before = (size - 1) // 2
    padded = squares.pad(*(None,) * (x.ndim - 1), (n_before, size - 1 - n_before))
    sums = padded.windows((size,), (1,), (1,)).sum(-1).moveaxis(-1, 1)
    return wide.div(sums.mul(alpha / size).add(bias).pow(beta)).cast(x.dtype)
