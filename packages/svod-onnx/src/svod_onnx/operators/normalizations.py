"""Normalisations: elements relative to the mean and spread of those around them."""

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
    """With given statistics, or with those of the batch, which then move the given ones. One axis is that of the batch."""
    column = x.unsqueeze(1) if x.ndim == 1 else x
    if not training_mode:
        return column.batchnorm(input_mean, input_var, scale, b, epsilon).reshape(x.shape).cast(x.dtype)
    found, spread = _measure_batch(column, input_mean)
    value = column.batchnorm(found, spread, scale, b, epsilon).reshape(x.shape).cast(x.dtype)
    return value, _move(input_mean, found, momentum), _move(input_var, spread, momentum)


def _measure_batch(x: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """The mean and the variance of each channel, in the wider dtype of both tensors."""
    axes = (0, *range(2, x.ndim))
    wide = x if x.dtype.itemsize >= like.dtype.itemsize else x.cast(like.dtype)
    return wide.mean(axes), wide.var(axes)


def _move(old: Tensor, new: Tensor, momentum: float) -> Tensor:
    """What is left of a running statistic, and the new one's part."""
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
    """Versions up to 9: whoever reads the statistics has_output those of the batch, and without `spatial` each place has its own."""
    channels = x.unsqueeze(1) if x.ndim == 1 else x if attributes.spatial else x.flatten(1)
    scale, shift, old, older = (
        operand if attributes.spatial else operand.reshape(-1) for operand in (weight, b, input_mean, input_var)
    )
    if attributes.is_test or node.n_outputs == 1:
        return channels.batchnorm(old, older, scale, shift, attributes.epsilon).reshape(x.shape)
    found, spread = _measure_batch(channels, old)
    value = channels.batchnorm(found, spread, scale, shift, attributes.epsilon).cast(x.dtype)
    statistics = (_move(old, found, attributes.momentum), _move(older, spread, attributes.momentum), found, spread)
    return value.reshape(x.shape), *(each.reshape(input_mean.shape) for each in statistics)


@operator("InstanceNormalization")
def instance_normalization(
    input: Tensor, scale: Tensor, b: Tensor, *, epsilon: float = 1e-5, consumed_inputs: list[int] | None = None
) -> Tensor:
    del consumed_inputs
    column = (-1, *(1,) * (input.ndim - 2))
    return input.layernorm(tuple(range(2, input.ndim)), epsilon, scale.reshape(column), b.reshape(column))


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
    """The normalised elements, and where they are wanted the means and the reciprocals of the deviations, as `stash_type`."""
    axes = _list_last(node, x, axis)
    value = x.layernorm(axes, epsilon, scale, b).cast(x.dtype)
    if not (node.has_output(1) or node.has_output(2)):
        return value
    kind = find_carrier(stash_type)
    if kind is None:
        raise node.refuse(f"attribute 'stash_type' is {stash_type}, which is no type")
    wide = x if x.dtype.itemsize > 4 else x.cast("float32")
    mean = wide.mean(axes, keepdims=True)
    deviation = wide.var(axes, keepdims=True).add(epsilon).rsqrt()
    return value, mean.cast(kind), deviation.cast(kind)


def _list_last(node: Call, x: Tensor, axis: int) -> tuple[int, ...]:
    """The axes from `axis` on."""
    if not -x.ndim <= axis < x.ndim:
        raise node.refuse(f"has axis {axis} of a tensor of shape {x.shape}")
    return tuple(range(axis % x.ndim, x.ndim))


@operator("RMSNormalization")
def rms_normalization(
    node: Call, x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """In the dtype of the weight. `stash_type` is that which narrow floats are computed in: float32, always."""
    del stash_type
    wide = x.cast(scale.dtype) if scale.dtype.itemsize > x.dtype.itemsize else x
    return wide.rms_norm(_list_last(node, x, axis), epsilon, scale).cast(scale.dtype)


@operator("GroupNormalization", since=21)
def group_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """`stash_type` is that which narrow floats are computed in: float32, always."""
    del stash_type
    return x.group_norm(num_groups, epsilon, scale, bias)


@operator("GroupNormalization", since=18)
def group_normalization_since_18(
    node: Call, x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    """Version 18: a weight and a bias for each group."""
    channels: Any = x.shape[1] if x.ndim > 1 else 0
    if num_groups < 1 or not channels or channels % num_groups:
        raise node.refuse(f"has {num_groups} groups of the channels of a tensor of shape {x.shape}")
    each = channels // num_groups
    return x.group_norm(num_groups, epsilon, scale.repeat(each, 0), bias.repeat(each, 0))


@operator("LpNormalization")
def lp_normalization(input: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Zeros stay zeros."""
    size = input.norm(axis, ord=p, keepdims=True)
    return input.div(size.eq(0).where(1, size))


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    """By the deviation and 1e-9, as the operator's function has it."""
    places = tuple(axes)
    wide = x if x.dtype.itemsize > 2 else x.cast("float32")
    centred = wide.sub(wide.mean(places, keepdims=True))
    return centred.div(wide.std(places, keepdims=True).add(1e-9)).cast(x.dtype)


@operator("LRN")
def lrn(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    """By the squares of `size` channels around each."""
    wide = x if x.dtype.itemsize > 2 else x.cast("float32")
    squares = wide.square().moveaxis(1, -1)
    before = (size - 1) // 2
    padded = squares.pad(*(None,) * (x.ndim - 1), (before, size - 1 - before))
    total = padded.windows((size,), (1,), (1,)).sum(-1).moveaxis(-1, 1)
    return wide.div(total.mul(alpha / size).add(bias).pow(beta)).cast(x.dtype)
