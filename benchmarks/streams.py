"""Computations for the next piece of a stream: one chunk of sound, one token of text.

Each is written once, on the operations of numpy, svod or torch. The weights of a step are far
larger than its inputs, so that the time is spent on reading them and on launching kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Operations",
    "decode_token",
    "hear_chunk",
    "make_decoder_inputs",
    "make_detector_inputs",
    "numpy_operations",
    "svod_operations",
    "torch_operations",
]

Array = np.ndarray[Any, np.dtype[Any]]

_STRIDES = (1, 2, 2, 1)
_HEAD = 64
_PER_LAYER = 11


class Operations(NamedTuple):
    """Operations of both steps in one library; convolutions are one-dimensional."""

    conv: Callable[[Any, Any, int, int], Any]
    linear: Callable[[Any, Any], Any]
    relu: Callable[[Any], Any]
    sigmoid: Callable[[Any], Any]
    tanh: Callable[[Any], Any]
    normalize: Callable[[Any, Any], Any]
    attend: Callable[[Any, Any, Any], Any]
    cat: Callable[[Any, Any, int], Any]


def make_detector_inputs(width: int = 128) -> tuple[Array, ...]:
    """Inputs of a voice detector: a chunk of 640 samples, the state, and 310,000 weights (at width
    128).
    """
    make = _make_random(13)
    filters = make(2 * width + 2, 1, 256)
    shapes = (
        (width, width + 1, 3),
        (width // 2, width, 3),
        (width // 2, width // 2, 3),
        (width, width // 2, 3),
    )
    return (
        make(1, 1, 640),
        make(1, width),
        make(1, width),
        filters,
        *(make(*shape) for shape in shapes),
        make(4 * width, width),
        make(4 * width, width),
        make(1, width),
    )


def hear_chunk(
    ops: Operations, sound: Any, hidden: Any, cell: Any, filters: Any, *weights: Any
) -> Any:
    """Probability of speech: a spectrum, four convolutions, and one step of a recurrent layer."""
    *convolutions, enter_weight, hidden_weight, score_weight = weights
    x = ops.conv(sound, filters, 128, 0)
    n = x.shape[1] // 2
    x = (x[:, :n] * x[:, :n] + x[:, n:] * x[:, n:]) ** 0.5
    for weight, stride in zip(convolutions, _STRIDES, strict=True):
        x = ops.relu(ops.conv(x, weight, stride, 1))
    gates = ops.linear(x[:, :, 0], enter_weight) + ops.linear(hidden, hidden_weight)
    width = hidden.shape[1]
    enter, keep, candidate, leave = (gates[:, n * width : (n + 1) * width] for n in range(4))
    cell = ops.sigmoid(keep) * cell + ops.sigmoid(enter) * ops.tanh(candidate)
    return ops.sigmoid(ops.linear(ops.relu(ops.sigmoid(leave) * ops.tanh(cell)), score_weight))


def make_decoder_inputs(
    n_layers: int = 4, width: int = 512, n_cached: int = 255
) -> tuple[Array, ...]:
    """Inputs of a decoder: a token's vector, and each layer's weights, keys and values."""
    make = _make_random(17)
    inner = width * 11 // 4
    inputs = [make(1, width)]
    for _ in range(n_layers):
        inputs += [1 + make(width), *(make(width, width) for _ in range(4))]
        inputs += [1 + make(width), make(inner, width), make(inner, width), make(width, inner)]
        inputs += [make(width // _HEAD, n_cached, _HEAD) for _ in range(2)]
    return tuple(inputs)


def decode_token(ops: Operations, x: Any, *weights: Any) -> Any:
    """Token's vector after all layers, each with causal attention and a gated network."""
    for layer in _iter_layers(weights):
        norm, query, key, value, attended, inner_norm, gate, up, down, keys, values = layer
        h = ops.normalize(x, norm)
        q, k, v = (ops.linear(h, w).reshape(-1, 1, _HEAD) for w in (query, key, value))
        mixed = ops.attend(q, ops.cat(keys, k, 1), ops.cat(values, v, 1))
        x = x + ops.linear(mixed.reshape(x.shape), attended)
        h = ops.normalize(x, inner_norm)
        gated = ops.linear(h, gate)
        x = x + ops.linear(gated * ops.sigmoid(gated) * ops.linear(h, up), down)
    return x


def _iter_layers(weights: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(weights), _PER_LAYER):
        yield weights[start : start + _PER_LAYER]


def _make_random(seed: int) -> Callable[..., Array]:
    generator = np.random.default_rng(seed)
    return lambda *shape: generator.standard_normal(shape, dtype=np.float32) * np.float32(0.05)


def svod_operations() -> Operations:
    return Operations(
        conv=lambda x, w, stride, padding: x.conv2d(w, stride=stride, padding=padding),
        linear=lambda x, w: x.linear(w),
        relu=lambda x: x.relu(),
        sigmoid=lambda x: x.sigmoid(),
        tanh=lambda x: x.tanh(),
        normalize=lambda x, w: x.rms_norm(-1, 1e-6, w),
        attend=lambda q, k, v: q.scaled_dot_product_attention(k, v),
        cat=lambda x, y, axis: x.cat(y, axis=axis),
    )


def torch_operations() -> Operations:
    import torch
    from torch.nn import functional

    return Operations(
        conv=lambda x, w, stride, padding: functional.conv1d(x, w, stride=stride, padding=padding),
        linear=functional.linear,
        relu=torch.relu,
        sigmoid=torch.sigmoid,
        tanh=torch.tanh,
        normalize=lambda x, w: functional.rms_norm(x, x.shape[-1:], w, 1e-6),
        attend=functional.scaled_dot_product_attention,
        cat=lambda x, y, axis: torch.cat((x, y), axis),
    )


def numpy_operations() -> Operations:
    return Operations(
        conv=_conv1d_numpy,
        linear=lambda x, w: x @ w.T,
        relu=lambda x: np.maximum(x, 0),
        sigmoid=lambda x: 1 / (1 + np.exp(-x)),
        tanh=np.tanh,
        normalize=lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(1e-6)) * w,
        attend=_attend_numpy,
        cat=lambda x, y, axis: np.concatenate((x, y), axis),
    )


def _conv1d_numpy(x: Array, weight: Array, stride: int, padding: int) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weight.shape[-1], axis=2)[
        :, :, ::stride
    ]
    return np.tensordot(windows, weight, ((1, 3), (1, 2))).transpose(0, 2, 1)


def _attend_numpy(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    power = np.exp(scores - scores.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True) @ v
