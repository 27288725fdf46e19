"""Draws: each call has others, but for those of a seed that the model names."""

from __future__ import annotations

from typing import Any

import numpy as np

from svod_onnx._registry import Value, operator
from svod_onnx._trace import Call
from svod_onnx.operators.casting import convert
from svod_tensor import Tensor

__all__ = ["bernoulli", "multinomial", "random_like", "random_of_shape"]


def _get_seed(seed: float | None) -> int | None:
    """A seed of ONNX is a float; its bits are an integer of ours."""
    return None if seed is None else int(np.float32(seed).view(np.uint32))


def _draw(name: str, shape: Any, seed: float | None, a: float, b: float) -> Tensor:
    if name.startswith("RandomNormal"):
        return Tensor.randn(*shape, seed=_get_seed(seed)) * b + a
    return Tensor.rand(*shape, seed=_get_seed(seed)) * (b - a) + a


@operator("RandomNormal", "RandomUniform", is_random=True)
def random_of_shape(
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
    a, b = (mean, scale) if node.operator == "RandomNormal" else (low, high)
    return convert(_draw(node.operator, shape, seed, a, b), dtype)


@operator("RandomNormalLike", "RandomUniformLike", is_random=True)
def random_like(
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
    """In the shape of `input`, and in its dtype where none is named."""
    a, b = (mean, scale) if node.operator == "RandomNormalLike" else (low, high)
    drawn = _draw(node.operator, input.shape, seed, a, b)
    return drawn.cast(input.dtype) if dtype is None else convert(drawn, dtype)


@operator("Bernoulli", is_random=True)
def bernoulli(input: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Value:
    """1 with the probability that an element of `input` is, else 0."""
    drawn = Tensor.rand(*input.shape, seed=_get_seed(seed)) < input
    return drawn.cast(input.dtype) if dtype is None else convert(drawn, dtype)


@operator("Multinomial", is_random=True)
def multinomial(
    input: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Value:
    """Classes of shape (batch, sample_size), by logarithms of shares that need not add up to one:
    (batch, classes).
    """
    ends = input.softmax(-1).cumsum(-1)
    drawn = Tensor.rand(input.shape[0], sample_size, 1, seed=_get_seed(seed))
    n_passed = (ends.unsqueeze(1) <= drawn).cast("int32").sum(-1)
    # Rounding may leave the last end below 1.
    return convert(n_passed.minimum(input.shape[1] - 1), dtype)
