"""BERT-like encoder with the same weights in numpy, svod and torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Layer",
    "erf",
    "iter_layers",
    "make_weights",
    "numpy_layer",
    "svod_layer",
    "torch_layer",
]

Array = np.ndarray[Any, np.dtype[Any]]


class Layer(NamedTuple):
    """Weights of one layer; each matrix has the shape (outputs, inputs)."""

    query: Any
    query_bias: Any
    key: Any
    key_bias: Any
    value: Any
    value_bias: Any
    attended: Any
    attended_bias: Any
    norm1: Any
    norm1_bias: Any
    inner: Any
    inner_bias: Any
    outer: Any
    outer_bias: Any
    norm2: Any
    norm2_bias: Any


def make_weights(n_layers: int, width: int, inner: int) -> list[Array]:
    """Weights of all layers in the order of `Layer`'s fields, from a seeded generator."""
    generator = np.random.default_rng(7)

    def make(*shape: int) -> Array:
        return generator.standard_normal(shape, dtype=np.float32) * np.float32(0.05)

    weights: list[Array] = []
    for _ in range(n_layers):
        for _ in range(4):
            weights += [make(width, width), make(width)]
        weights += [1 + make(width), make(width), make(inner, width), make(inner)]
        weights += [make(width, inner), make(width), 1 + make(width), make(width)]
    return weights


def iter_layers(weights: tuple[Any, ...]) -> Iterator[Layer]:
    size = len(Layer._fields)
    for start in range(0, len(weights), size):
        yield Layer(*weights[start : start + size])


def svod_layer(x: Any, w: Layer, n_heads: int, mask: Any = None, eps: float = 1e-5) -> Any:
    query, key, value = _split_heads(x, w, n_heads, lambda x, weight, bias: x.linear(weight, bias))
    attended = (
        query.scaled_dot_product_attention(key, value, mask).transpose(1, 2).reshape(*x.shape)
    )
    x = (attended.linear(w.attended, w.attended_bias) + x).layernorm(-1, eps, w.norm1, w.norm1_bias)
    inner = x.linear(w.inner, w.inner_bias).gelu()
    return (inner.linear(w.outer, w.outer_bias) + x).layernorm(-1, eps, w.norm2, w.norm2_bias)


def torch_layer(x: Any, w: Layer, n_heads: int, mask: Any = None, eps: float = 1e-5) -> Any:
    from torch.nn import functional

    size = x.shape[-1:]
    query, key, value = _split_heads(x, w, n_heads, functional.linear)
    attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    attended = attended.transpose(1, 2).reshape(x.shape)
    x = functional.layer_norm(
        functional.linear(attended, w.attended, w.attended_bias) + x,
        size,
        w.norm1,
        w.norm1_bias,
        eps,
    )
    inner = functional.gelu(functional.linear(x, w.inner, w.inner_bias))
    return functional.layer_norm(
        functional.linear(inner, w.outer, w.outer_bias) + x, size, w.norm2, w.norm2_bias, eps
    )


def numpy_layer(
    x: Array, w: Layer, n_heads: int, mask: Array | None = None, eps: float = 1e-5
) -> Array:
    query, key, value = (
        heads.swapaxes(1, 2)
        for heads in _project(x, w, n_heads, lambda x, weight, bias: x @ weight.T + bias)
    )
    scores = query @ key.swapaxes(-1, -2) * np.float32(query.shape[-1] ** -0.5)
    if mask is not None:
        scores = np.where(mask, scores, np.float32(-np.inf))
    power = np.exp(scores - scores.max(-1, keepdims=True))
    attended = (power / power.sum(-1, keepdims=True) @ value).swapaxes(1, 2).reshape(x.shape)
    x = _normalize(attended @ w.attended.T + w.attended_bias + x, w.norm1, w.norm1_bias, eps)
    inner = x @ w.inner.T + w.inner_bias
    inner = inner * np.float32(0.5) * (1 + erf(inner * np.float32(math.sqrt(0.5))))
    return _normalize(inner @ w.outer.T + w.outer_bias + x, w.norm2, w.norm2_bias, eps)


def erf(x: Array) -> Array:
    """The error function, to 1.5e-7.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26.
    """
    t = 1 / (1 + np.float32(0.3275911) * np.abs(x))
    factors = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    total = np.zeros_like(t)
    for factor in factors:
        total = (total + np.float32(factor)) * t
    return np.copysign(1 - total * np.exp(-x * x), x)


def _project(
    x: Any, w: Layer, n_heads: int, linear: Callable[[Any, Any, Any], Any]
) -> Iterator[Any]:
    batch, length, width = x.shape
    for weight, bias in ((w.query, w.query_bias), (w.key, w.key_bias), (w.value, w.value_bias)):
        yield linear(x, weight, bias).reshape(batch, length, n_heads, width // n_heads)


def _split_heads(
    x: Any, w: Layer, n_heads: int, linear: Callable[[Any, Any, Any], Any]
) -> Iterator[Any]:
    return (heads.transpose(1, 2) for heads in _project(x, w, n_heads, linear))


def _normalize(x: Array, weight: Array, bias: Array, eps: float) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(eps)) * weight
        + bias
    )
