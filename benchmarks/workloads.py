"""The workloads: what is computed, in numpy, in svod and in torch, and how much work it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Workload", "iter_workloads"]

Array = np.ndarray[Any, np.dtype[Any]]
FLOAT = 4


@dataclass(frozen=True)
class Workload:
    """One computation.

    Attributes:
        inputs: made from a seeded generator, so that every run sees the same numbers.
        numpy: from arrays to an array; the result that the others must agree with.
        svod: the same on tensors of svod.
        torch: the same on tensors of torch, or None where it has no such function.
        flops: floating-point operations, for workloads that are bound by arithmetic.
        moved_bytes: the least that must be read and written, for workloads that are bound by memory.
    """

    name: str
    inputs: tuple[Array, ...]
    numpy: Callable[..., Array]
    svod: Callable[..., Any]
    torch: Callable[..., Any] | None = None
    flops: float = 0
    moved_bytes: float = 0
    tolerance: float = 1e-4


def iter_workloads(scale: int = 1) -> Iterator[Workload]:
    """Every workload; `scale` divides the sizes of the large ones."""
    yield from _products(scale)
    yield from _elementwise(scale)
    yield from _reductions(scale)
    yield from _rows(scale)
    yield _convolution(scale)
    yield _attention(scale)
    a, b = _random(16), _random(16)
    yield Workload("dispatch16", (a, b), lambda a, b: a + b, lambda a, b: a + b, lambda a, b: a + b)


def _random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def _products(scale: int) -> Iterator[Workload]:
    def matmul(a: Any, b: Any) -> Any:
        return a @ b

    for n in (512 // scale, 1024 // scale, 2048 // scale, 1000 // scale):
        yield Workload(f"gemm{n}", (_random(n, n), _random(n, n)), matmul, matmul, matmul, flops=2.0 * n**3)
    n = 4096 // scale
    yield Workload(f"matvec{n}", (_random(n, n), _random(n)), matmul, matmul, matmul, moved_bytes=FLOAT * n * n)


def _elementwise(scale: int) -> Iterator[Workload]:
    n = (1 << 24) // scale**2
    x = _random(n)
    yield Workload(
        "chain",
        (x,),
        lambda x: np.sqrt(x * x + 1) * np.exp(-x) + np.tanh(x),
        lambda x: (x * x + 1).sqrt() * (-x).exp() + x.tanh(),
        lambda x: (x * x + 1).sqrt() * (-x).exp() + x.tanh(),
        moved_bytes=2 * FLOAT * n,
    )
    yield Workload(
        "add",
        (x, x[::-1].copy()),
        lambda a, b: a + b,
        lambda a, b: a + b,
        lambda a, b: a + b,
        moved_bytes=3 * FLOAT * n,
    )


def _reductions(scale: int) -> Iterator[Workload]:
    n = 4096 // scale
    x = _random(n, n)
    size = FLOAT * n * n
    yield Workload(
        "sum", (x,), lambda x: x.sum(), lambda x: x.sum(), lambda x: x.sum(), moved_bytes=size, tolerance=1e-3
    )
    yield Workload("sum_axis0", (x,), lambda x: x.sum(0), lambda x: x.sum(0), lambda x: x.sum(0), moved_bytes=size)
    yield Workload("sum_axis1", (x,), lambda x: x.sum(1), lambda x: x.sum(1), lambda x: x.sum(1), moved_bytes=size)
    yield Workload(
        "argmax", (x,), lambda x: x.argmax(1), lambda x: x.argmax(1), lambda x: x.argmax(1), moved_bytes=size
    )
    flat = _random(n * n // 4)
    cumsum = 2 * FLOAT * flat.size
    yield Workload(
        "cumsum",
        (flat,),
        lambda x: x.cumsum(),
        lambda x: x.cumsum(0),
        lambda x: x.cumsum(0),
        moved_bytes=cumsum,
        tolerance=1e-2,
    )


def _rows(scale: int) -> Iterator[Workload]:
    def numpy_softmax(x: Array) -> Array:
        shifted = np.exp(x - x.max(-1, keepdims=True))
        return shifted / shifted.sum(-1, keepdims=True)

    def numpy_layernorm(x: Array, weight: Array, bias: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * weight + bias

    def svod_layernorm(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * ((centred * centred).mean(-1, keepdims=True) + 1e-5).rsqrt() * weight + bias

    def torch_layernorm(x: Any, weight: Any, bias: Any) -> Any:
        import torch

        return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias)

    n = 4096 // scale
    x = _random(n, n)
    yield Workload(
        "softmax", (x,), numpy_softmax, lambda x: x.softmax(-1), lambda x: x.softmax(-1), moved_bytes=2 * FLOAT * n * n
    )
    m = 1024 // scale
    inputs = (_random(n, m), _random(m), _random(m))
    yield Workload("layernorm", inputs, numpy_layernorm, svod_layernorm, torch_layernorm, moved_bytes=2 * FLOAT * n * m)


def _convolution(scale: int) -> Workload:
    channels, size = 64 // scale, 56
    x, weight = _random(8, channels, size, size), _random(channels, channels, 3, 3)

    def numpy_conv2d(x: Array, weight: Array) -> Array:
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        return np.einsum("nchwij,ocij->nohw", windows, weight, optimize=True)

    def torch_conv2d(x: Any, weight: Any) -> Any:
        import torch

        return torch.nn.functional.conv2d(x, weight, padding=1)

    flops = 2.0 * x.size * channels * 9
    return Workload(
        "conv2d",
        (x, weight),
        numpy_conv2d,
        lambda x, w: x.conv2d(w, padding=1),
        torch_conv2d,
        flops=flops,
        tolerance=1e-3,
    )


def _attention(scale: int) -> Workload:
    batch, heads, length, width = 4, 8 // scale, 512 // scale, 64
    query, key, value = (_random(batch, heads, length, width) * (n + 1) for n in range(3))
    mask = np.where(np.tril(np.ones((length, length), dtype=bool)), 0, -np.inf).astype(np.float32)

    def numpy_attention(q: Array, k: Array, v: Array, mask: Array) -> Array:
        scores = q @ k.swapaxes(-1, -2) * np.float32(width**-0.5) + mask
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v

    def attention(q: Any, k: Any, v: Any, mask: Any) -> Any:
        return ((q @ k.transpose(-1, -2)) * width**-0.5 + mask).softmax(-1) @ v

    flops = 4.0 * batch * heads * length * length * width
    return Workload(
        "attention", (query, key, value, mask), numpy_attention, attention, attention, flops=flops, tolerance=1e-3
    )
