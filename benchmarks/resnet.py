"""ResNet-18 (He et al., "Deep Residual Learning", 2015, table 1) for inference in three libraries.

The weights are the same in numpy, svod and torch. Batch normalization is folded into the weights
and biases of the convolutions, as in a deployed network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Array",
    "Operations",
    "conv2d_numpy",
    "forward",
    "make_weights",
    "numpy_operations",
    "svod_operations",
    "torch_operations",
]

Array = np.ndarray[Any, np.dtype[Any]]

_STAGES = ((1, 64), (2, 128), (2, 256), (2, 512))
_BLOCKS = 2


class Operations(NamedTuple):
    """Operations of the network in one library."""

    conv: Callable[[Any, Any, Any, int], Any]
    relu: Callable[[Any], Any]
    max_pool: Callable[[Any], Any]
    mean: Callable[[Any], Any]
    linear: Callable[[Any, Any], Any]


def make_weights(width: int = 64, n_classes: int = 1000) -> list[Array]:
    """Sample weights and bias of each convolution in order of use, then the classifier's weights.

    `width` is the number of channels of the first stage; the other stages have 2, 4 and 8 times as
    many.
    """
    generator = np.random.default_rng(11)

    def make(*shape: int) -> Array:
        scale = np.float32((2 / np.prod(shape[1:])) ** 0.5) if len(shape) > 1 else np.float32(0.05)
        return generator.standard_normal(shape, dtype=np.float32) * scale

    weights = [make(width, 3, 7, 7), make(width)]
    channels = width
    for stride, width_factor in _STAGES:
        outputs = width_factor * width // 64
        for block in range(_BLOCKS):
            weights += [
                make(outputs, channels, 3, 3),
                make(outputs),
                make(outputs, outputs, 3, 3),
                make(outputs),
            ]
            if block == 0 and stride > 1:
                weights += [make(outputs, channels, 1, 1), make(outputs)]
            channels = outputs
    return [*weights, make(n_classes, channels)]


def forward(ops: Operations, x: Any, *weights: Any) -> Any:
    """Compute class logits for images `x` of shape (batch, 3, height, width)."""
    remaining = iter(weights)
    x = ops.max_pool(ops.relu(_conv(ops, x, remaining, 2)))
    for stride, _ in _STAGES:
        for block in range(_BLOCKS):
            step = stride if block == 0 else 1
            inner = ops.relu(_conv(ops, x, remaining, step))
            inner = _conv(ops, inner, remaining, 1)
            x = ops.relu(inner + (_conv(ops, x, remaining, step) if step > 1 else x))
    return ops.linear(ops.mean(x), next(remaining))


def _conv(ops: Operations, x: Any, weights: Iterator[Any], stride: int) -> Any:
    return ops.conv(x, next(weights), next(weights), stride)


def svod_operations() -> Operations:
    return Operations(
        conv=lambda x, w, b, stride: x.conv2d(w, b, stride=stride, padding=w.shape[-1] // 2),
        relu=lambda x: x.relu(),
        max_pool=lambda x: x.max_pool2d(3, stride=2, padding=1),
        mean=lambda x: x.mean((2, 3)),
        linear=lambda x, w: x.linear(w),
    )


def torch_operations() -> Operations:
    from torch.nn import functional

    return Operations(
        conv=lambda x, w, b, stride: functional.conv2d(
            x, w, b, stride=stride, padding=w.shape[-1] // 2
        ),
        relu=functional.relu,
        max_pool=lambda x: functional.max_pool2d(x, 3, 2, 1),
        mean=lambda x: x.mean((2, 3)),
        linear=functional.linear,
    )


def numpy_operations() -> Operations:
    return Operations(
        conv=lambda x, w, b, stride: (
            conv2d_numpy(x, w, stride, w.shape[-1] // 2) + b[:, None, None]
        ),
        relu=lambda x: np.maximum(x, 0),
        max_pool=lambda x: _windows(x, 3, 2, 1, -np.inf).max((4, 5)),
        mean=lambda x: x.mean((2, 3)),
        linear=lambda x, w: x @ w.T,
    )


def conv2d_numpy(x: Array, weight: Array, stride: int, padding: int) -> Array:
    """Cross-correlation of images (batch, channels, height, width) with square filters."""
    windows = _windows(x, weight.shape[-1], stride, padding, 0)
    return np.einsum("nchwij,ocij->nohw", windows, weight, optimize=True)


def _windows(x: Array, size: int, stride: int, padding: int, value: float) -> Array:
    padded = np.pad(
        x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=value
    )
    view = np.lib.stride_tricks.sliding_window_view(padded, (size, size), axis=(2, 3))
    return view[:, :, ::stride, ::stride]
