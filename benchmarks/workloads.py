"""Workloads of `run.py`: computations in numpy, svod and torch, and the amount of work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import resnet
import streams
from demo import find_demo_encoder, make_demo_inputs, make_numpy_forward, make_torch_forward
from encoder import Array, iter_layers, make_weights, numpy_layer, svod_layer, torch_layer

__all__ = ["Workload", "iter_workloads"]

FLOAT = 4


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Computation in several libraries.

    Attributes:
        inputs: maker of the inputs from a seeded generator, so that every run has the same data.
        numpy: function from arrays to an array; the expected result.
        svod: the same on tensors of svod.
        torch: the same on tensors of torch.
        numpy_out: the same with the output array as first argument, if numpy supports that.
        torch_out: the same with the output tensor as first argument, if torch supports that.
        flops: floating-point operations, for workloads that are bound by arithmetic.
        moved_bytes: minimum memory traffic in bytes, for workloads that are bound by memory.
        tolerance: largest error relative to the largest element.
    """

    name: str
    inputs: tuple[Array, ...]
    numpy: Callable[..., Any]
    svod: Callable[..., Any]
    torch: Callable[..., Any]
    numpy_out: Callable[..., Any] | None = None
    torch_out: Callable[..., Any] | None = None
    flops: float = 0
    moved_bytes: float = 0
    tolerance: float = 1e-4


def iter_workloads(*, is_quick: bool = False) -> Iterator[Workload]:
    """Yield every workload, created lazily; `is_quick` divides large sizes by eight."""
    scale = 8 if is_quick else 1
    for group in (_elementwise, _reductions, _rows, _products, _movements, _networks, _streams):
        yield from group(scale)
    yield from _dispatches()


def _random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


def _alike(name: str, inputs: tuple[Array, ...], call: Callable[..., Any], **rest: Any) -> Workload:
    """Create a workload that is written the same in all three libraries."""
    return Workload(name=name, inputs=inputs, numpy=call, svod=call, torch=call, **rest)


def _elementwise(scale: int) -> Iterator[Workload]:
    n = (1 << 24) // scale**2
    x = _random(n)
    yield _alike(
        "add",
        (x, x[::-1].copy()),
        lambda a, b: a + b,
        numpy_out=lambda out, a, b: np.add(a, b, out=out),
        torch_out=_torch_add,
        moved_bytes=3 * FLOAT * n,
    )
    yield Workload(
        name="chain",
        inputs=(x,),
        numpy=lambda x: np.sqrt(x * x + 1) * np.exp(-x) + np.tanh(x),
        svod=lambda x: (x * x + 1).sqrt() * (-x).exp() + x.tanh(),
        torch=lambda x: (x * x + 1).sqrt() * (-x).exp() + x.tanh(),
        moved_bytes=2 * FLOAT * n,
    )


def _torch_add(out: Any, a: Any, b: Any) -> Any:
    import torch

    return torch.add(a, b, out=out)


def _reductions(scale: int) -> Iterator[Workload]:
    n = 4096 // scale
    x = _random(n, n)
    size = FLOAT * n * n
    yield _alike("sum", (x,), lambda x: x.sum(), moved_bytes=size, tolerance=1e-3)
    yield _alike("sum-axis0", (x,), lambda x: x.sum(0), moved_bytes=size)
    yield _alike("sum-axis1", (x,), lambda x: x.sum(1), moved_bytes=size)
    yield _alike("argmax", (x,), lambda x: x.argmax(1), moved_bytes=size)
    flat = _random(n * n // 4)
    yield _alike(
        "cumsum", (flat,), lambda x: x.cumsum(0), moved_bytes=2 * FLOAT * flat.size, tolerance=1e-2
    )


def _rows(scale: int) -> Iterator[Workload]:
    n, m = 4096 // scale, 1024 // scale
    x = _random(n, n)
    yield Workload(
        name="softmax",
        inputs=(x,),
        numpy=_numpy_softmax,
        svod=lambda x: x.softmax(-1),
        torch=lambda x: x.softmax(-1),
        torch_out=_torch_softmax,
        moved_bytes=2 * FLOAT * n * n,
    )
    yield Workload(
        name="layernorm",
        inputs=(_random(n, m), _random(m), _random(m)),
        numpy=_numpy_layernorm,
        svod=lambda x, weight, bias: x.layernorm(-1, 1e-5, weight, bias),
        torch=_torch_layernorm,
        moved_bytes=2 * FLOAT * n * m,
    )


def _numpy_softmax(x: Array) -> Array:
    power = np.exp(x - x.max(-1, keepdims=True))
    return power / power.sum(-1, keepdims=True)


def _torch_softmax(out: Any, x: Any) -> Any:
    import torch

    return torch.softmax(x, -1, out=out)


def _numpy_layernorm(x: Array, weight: Array, bias: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return (
        centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + np.float32(1e-5)) * weight
        + bias
    )


def _torch_layernorm(x: Any, weight: Any, bias: Any) -> Any:
    from torch.nn import functional

    return functional.layer_norm(x, x.shape[-1:], weight, bias)


def _products(scale: int) -> Iterator[Workload]:
    for n in (512 // scale, 1024 // scale, 2048 // scale):
        yield _alike(
            f"matmul{n}",
            (_random(n, n), _random(n, n)),
            lambda a, b: a @ b,
            numpy_out=_numpy_matmul,
            torch_out=_torch_matmul,
            flops=2.0 * n**3,
        )
    yield _int8_product(1024 // scale)
    n = 4096 // scale
    yield _alike(
        "matvec", (_random(n, n), _random(n)), lambda a, b: a @ b, moved_bytes=FLOAT * n * n
    )
    rows, inner, columns = 128, 384 // scale, 1536 // scale
    yield Workload(
        name="linear",
        inputs=(_random(rows, inner), _random(columns, inner), _random(columns)),
        numpy=lambda x, weight, bias: x @ weight.T + bias,
        svod=lambda x, weight, bias: x.linear(weight, bias),
        torch=_torch_linear,
        flops=2.0 * rows * inner * columns,
    )
    yield from _convolutions(scale)
    yield _attention(scale)


def _int8_product(n: int) -> Workload:
    numbers = np.random.default_rng(n).integers(-128, 128, (2, n, n), np.int8)
    return Workload(
        name=f"matmul{n}-int8",
        inputs=(numbers[0], numbers[1]),
        # numpy has no fast integer product; float64 represents these exactly.
        numpy=lambda a, b: (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int32),
        svod=lambda a, b: a.cast("int32") @ b.cast("int32"),
        torch=_torch_int8_matmul,
        flops=2.0 * n**3,
        tolerance=0,
    )


def _torch_int8_matmul(a: Any, b: Any) -> Any:
    import torch

    return torch._int_mm(a, b)


def _numpy_matmul(out: Array, a: Array, b: Array) -> Array:
    return np.matmul(a, b, out=out)


def _torch_matmul(out: Any, a: Any, b: Any) -> Any:
    import torch

    return torch.matmul(a, b, out=out)


def _torch_linear(x: Any, weight: Any, bias: Any) -> Any:
    from torch.nn import functional

    return functional.linear(x, weight, bias)


def _convolutions(scale: int) -> Iterator[Workload]:
    channels = 64 // scale
    yield _convolution("conv2d", 8, channels, channels, 56, 3, 1)
    if scale == 1:
        yield _convolution("conv-stem", 1, 3, 64, 224, 7, 2)
        yield _convolution("conv-deep", 1, 512, 512, 7, 3, 1)
    yield _convolution("conv-stride", 1, 2 * channels, 2 * channels, 56, 3, 2)


def _convolution(
    name: str, batch: int, channels: int, outputs: int, size: int, window: int, stride: int
) -> Workload:
    """Images of `size` by `size` elements, padded so that the result has that size divided by the
    stride.
    """
    x, weight = _random(batch, channels, size, size), _random(outputs, channels, window, window)
    padding, n_places = window // 2, batch * (size // stride) ** 2
    return Workload(
        name=name,
        inputs=(x, weight),
        numpy=lambda x, w: resnet.conv2d_numpy(x, w, stride, padding),
        svod=lambda x, w: x.conv2d(w, stride=stride, padding=padding),
        torch=lambda x, w: _torch_conv2d(x, w, stride, padding),
        flops=2.0 * n_places * weight.size,
        tolerance=1e-3,
    )


def _torch_conv2d(x: Any, weight: Any, stride: int, padding: int) -> Any:
    from torch.nn import functional

    return functional.conv2d(x, weight, stride=stride, padding=padding)


def _attention(scale: int) -> Workload:
    batch, heads, length, width = 4, 8 // min(scale, 4), 512 // scale, 64
    query, key, value = (_random(batch, heads, length, width + n)[..., n:] for n in range(3))
    return Workload(
        name="attention",
        inputs=(query.copy(), key.copy(), value.copy()),
        numpy=_numpy_attention,
        svod=lambda q, k, v: q.scaled_dot_product_attention(k, v),
        torch=_torch_attention,
        flops=4.0 * batch * heads * length * length * width,
        tolerance=1e-3,
    )


def _numpy_attention(q: Array, k: Array, v: Array) -> Array:
    return _numpy_softmax(q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)) @ v


def _torch_attention(q: Any, k: Any, v: Any) -> Any:
    from torch.nn import functional

    return functional.scaled_dot_product_attention(q, k, v)


def _movements(scale: int) -> Iterator[Workload]:
    n = 4096 // scale
    yield Workload(
        name="transpose",
        inputs=(_random(n, n),),
        numpy=lambda x: x.T.copy(),
        svod=lambda x: x.transpose(0, 1).contiguous(),
        torch=lambda x: x.T.contiguous(),
        numpy_out=lambda out, x: np.copyto(out, x.T),
        torch_out=lambda out, x: out.copy_(x.T),
        moved_bytes=2 * FLOAT * n * n,
    )


def _networks(scale: int) -> Iterator[Workload]:
    sizes = ((4, 32), (8, 128)) if scale == 1 else ((2, 16),)
    for batch, length in sizes:
        yield _encoder(batch, length, n_layers=6 if scale == 1 else 2)
    weights, size = (resnet.make_weights(), 224) if scale == 1 else (resnet.make_weights(8, 10), 64)
    yield Workload(
        name="resnet18",
        inputs=(_random(1, 3, size, size), *weights),
        numpy=lambda *inputs: resnet.forward(resnet.numpy_operations(), *inputs),
        svod=lambda *inputs: resnet.forward(resnet.svod_operations(), *inputs),
        torch=lambda *inputs: resnet.forward(resnet.torch_operations(), *inputs),
        flops=3.6e9 if scale == 1 else 0,
        tolerance=1e-3,
    )
    demo = find_demo_encoder() if scale == 1 else None
    if demo is not None:
        yield Workload(
            name="demo",
            inputs=make_demo_inputs(),
            numpy=make_numpy_forward(demo),
            svod=demo,
            torch=make_torch_forward(demo),
            tolerance=1e-3,
        )


def _encoder(
    batch: int, length: int, n_layers: int, width: int = 384, n_heads: int = 12, inner: int = 1536
) -> Workload:
    def make(layer: Callable[..., Any]) -> Callable[..., Any]:
        def forward(x: Any, *weights: Any) -> Any:
            for layer_weights in iter_layers(weights):
                x = layer(x, layer_weights, n_heads)
            return x

        return forward

    flops = (
        2.0
        * n_layers
        * batch
        * length
        * (4 * width * width + 2 * width * inner + 2 * length * width)
    )
    return Workload(
        name=f"encoder{batch}x{length}",
        inputs=(_random(batch, length, width), *make_weights(n_layers, width, inner)),
        numpy=make(numpy_layer),
        svod=make(svod_layer),
        torch=make(torch_layer),
        flops=flops,
        tolerance=1e-3,
    )


def _streams(scale: int) -> Iterator[Workload]:
    yield _step("vad-chunk", streams.make_detector_inputs(128 // min(scale, 4)), streams.hear_chunk)
    decoder = (
        streams.make_decoder_inputs() if scale == 1 else streams.make_decoder_inputs(1, 128, 31)
    )
    yield _step("decode", decoder, streams.decode_token)


def _step(name: str, inputs: tuple[Array, ...], step: Callable[..., Any]) -> Workload:
    """One step of a stream, which reads every weight once."""
    return Workload(
        name=name,
        inputs=inputs,
        numpy=lambda *values: step(streams.numpy_operations(), *values),
        svod=lambda *values: step(streams.svod_operations(), *values),
        torch=lambda *values: step(streams.torch_operations(), *values),
        moved_bytes=sum(array.nbytes for array in inputs),
        tolerance=1e-3,
    )


def _dispatches() -> Iterator[Workload]:
    a, b = _random(16), _random(16)[::-1].copy()
    yield _alike(
        "dispatch",
        (a, b),
        lambda a, b: a + b,
        numpy_out=lambda out, a, b: np.add(a, b, out=out),
        torch_out=_torch_add,
    )
    yield Workload(
        name="dispatch100",
        inputs=(a,),
        numpy=lambda x: _repeat(x, lambda x: x + 1),
        torch=lambda x: _repeat(x, lambda x: x + 1),
        svod=lambda x: _repeat(x, lambda x: (x + 1).contiguous()),
    )


def _repeat(x: Any, step: Callable[[Any], Any]) -> Any:
    for _ in range(100):
        x = step(x)
    return x
