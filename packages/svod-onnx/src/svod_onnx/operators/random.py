"""Random operators. Each call samples anew unless the node sets `seed`."""

from __future__ import annotations

from typing import Any

import numpy as np

from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_onnx.operators.casting import convert
from svod_tensor import Tensor

__all__ = [
    "bernoulli",
    "multinomial",
    "random_normal_like_or_uniform_like",
    "random_normal_or_uniform",
]


def _get_seed(seed: float | None) -> int | None:
    """Integer seed: the bits of ONNX's float seed."""
    # By its bits: a conversion to int would make all seeds below 1 equal.
    return None if seed is None else int(np.float32(seed).view(np.uint32))


def _sample(name: str, shape: Any, seed: float | None, a: float, b: float) -> Tensor:
    if name.startswith("RandomNormal"):
        return Tensor.randn(*shape, seed=_get_seed(seed)) * b + a
    return Tensor.rand(*shape, seed=_get_seed(seed)) * (b - a) + a


@operator("RandomNormal", "RandomUniform", is_random=True)
def random_normal_or_uniform(
    node: Call,
    *,
    shape: list[int],
    dtype: int = 1,
    seed: float | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    low: float = 0.0,
    high: float = 1.0,
) -> Value:
    """Normal or uniform samples of a shape."""
    a, b = (mean, scale) if node.operator == "RandomNormal" else (low, high)
    return convert(_sample(node.operator, shape, seed, a, b), dtype)


@operator("RandomNormalLike", "RandomUniformLike", is_random=True)
def random_normal_like_or_uniform_like(
    node: Call,
    input: Tensor,
    *,
    dtype: int | None = None,
    seed: float | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    low: float = 0.0,
    high: float = 1.0,
) -> Value:
    """Normal or uniform samples in the shape of `input`, by default in its dtype."""
    a, b = (mean, scale) if node.operator == "RandomNormalLike" else (low, high)
    samples = _sample(node.operator, input.shape, seed, a, b)
    return samples.cast(input.dtype) if dtype is None else convert(samples, dtype)


@operator("Bernoulli", is_random=True)
def bernoulli(input: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Value:
    """1 with the probability in each element of `input`, otherwise 0."""
    # Samples are in [0, 1), so that probability 0 gives no 1 and probability 1 no 0.
    samples = Tensor.rand(*input.shape, seed=_get_seed(seed)) < input
    return samples.cast(input.dtype) if dtype is None else convert(samples, dtype)


@operator("Multinomial", is_random=True)
def multinomial(
    input: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Value:
    """Sampled classes of shape (batch, sample_size), by unnormalized log probabilities of shape
    (batch, classes).
    """
    cumulative = input.softmax(-1).cumsum(-1)
    samples = Tensor.rand(input.shape[0], sample_size, 1, seed=_get_seed(seed))
    classes = (cumulative.unsqueeze(1) <= samples).cast("int32").sum(-1)
    # Rounding may leave the last cumulative probability below 1.
    return convert(classes.minimum(input.shape[1] - 1), dtype)
