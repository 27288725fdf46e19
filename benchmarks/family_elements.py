"""Families that are bound by memory: reductions, elementwise chains, and movement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from encoder import Array
from family_draws import Draw, DrawnWorkload, Maker, OnnxNode, alike, format_sizes

__all__ = ["ELEMENT_FAMILIES"]


def _shape(draw: Draw) -> tuple[int, ...]:
    """Shape with short rows, long rows, or three axes."""
    return draw.pick(
        (draw.size(1000, 20000), draw.size(5, 120)),
        (draw.size(2, 64), draw.size(4000, 50000)),
        (draw.size(4, 40), draw.size(16, 120), draw.size(16, 300)),
    )


def _softmax(draw: Draw) -> DrawnWorkload:
    x = draw.normal(*_shape(draw))
    axis = int(draw.rng.integers(x.ndim))

    def run_numpy(x: Array) -> Array:
        power = np.exp(x - x.max(axis, keepdims=True))
        return power / power.sum(axis, keepdims=True)

    def run_jax(x: Any) -> Any:
        import jax

        return jax.nn.softmax(x, axis)

    return DrawnWorkload(
        name=f"softmax over {axis} of {format_sizes(x.shape)}",
        inputs=(x,),
        numpy=run_numpy,
        svod=lambda x: x.softmax(axis),
        torch=lambda x: x.softmax(axis),
        jax=run_jax,
        onnx=[("Softmax", "x0", {"axis": axis})],
    )


def _layer_norm(draw: Draw) -> DrawnWorkload:
    rows, width = draw.pick(
        (draw.size(500, 4000), draw.size(20, 200)), (draw.size(16, 300), draw.size(700, 5000))
    )
    inputs = (draw.normal(rows, width), draw.normal(width), draw.normal(width))

    def run(_: Any, x: Any, weight: Any, bias: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / ((centred * centred).mean(-1, keepdims=True) + 1e-5) ** 0.5 * weight + bias

    def run_torch(x: Any, weight: Any, bias: Any) -> Any:
        from torch.nn import functional

        return functional.layer_norm(x, x.shape[-1:], weight, bias)

    return alike(
        f"layer norm of {format_sizes((rows, width))}",
        inputs,
        run,
        torch=run_torch,
        svod=lambda x, weight, bias: x.layernorm(-1, 1e-5, weight, bias),
        onnx=[("LayerNormalization", "x0 x1 x2", {"axis": -1})],
    )


def _mean_and_variance(draw: Draw) -> DrawnWorkload:
    x = draw.normal(*_shape(draw))
    axis = int(draw.rng.integers(x.ndim))

    def run_torch(x: Any) -> Any:
        import torch

        return torch.var_mean(x, axis, correction=0)[::-1]

    return alike(
        f"mean and var over {axis} of {format_sizes(x.shape)}",
        (x,),
        lambda _, x: (x.mean(axis), x.var(axis)),
        torch=run_torch,
    )


def _argmax(draw: Draw) -> DrawnWorkload:
    rows = draw.distinct(
        *draw.pick(
            (draw.size(500, 20000), draw.size(5, 60)), (draw.size(2, 80), draw.size(500, 20000))
        )
    )
    axis = int(draw.pick(0, 1))
    x = rows if axis else np.ascontiguousarray(rows.T)
    return alike(
        f"argmax over {axis} of {format_sizes(x.shape)}",
        (x,),
        lambda _, x: x.argmax(axis),
        onnx=[("ArgMax", "x0", {"axis": axis, "keepdims": 0})],
    )


def _all_or_any(draw: Draw) -> DrawnWorkload:
    """`all` and `any` of bools that are nearly all true, or nearly all false."""
    word = draw.pick("all", "any")
    x = draw.rng.random(_shape(draw)) < (0.999 if word == "all" else 0.001)
    axis = int(draw.rng.integers(x.ndim))
    return alike(
        f"{word} over {axis} of {format_sizes(x.shape)}", (x,), lambda _, x: getattr(x, word)(axis)
    )


def _reduction(draw: Draw) -> DrawnWorkload:
    """Reduction over one axis of four, or two."""
    word = draw.pick("sum", "mean", "max", "min")
    x = draw.normal(draw.size(2, 12), draw.size(4, 64), draw.size(5, 60), draw.size(5, 60))
    axes = draw.pick((0,), (1,), (2,), (3,), (2, 3), (0, 2), (1, 3), (0, 1))

    def run(library: Any, x: Any) -> Any:
        name = {"max": "amax", "min": "amin"}.get(word, word)
        return getattr(library, name)(x, axis=axes)

    onnx: list[OnnxNode] = []
    constants = None
    if word == "sum":
        onnx, constants = [("ReduceSum", "x0 axes", {"keepdims": 0})], {"axes": np.array(axes)}
    return alike(
        f"{word} over {','.join(map(str, axes))} of {format_sizes(x.shape)}",
        (x,),
        run,
        svod=lambda x: getattr(x, word)(axes),
        onnx=onnx,
        constants=constants,
    )


def _outer_chain(draw: Draw) -> DrawnWorkload:
    """Broadcast of a column and a row."""
    m, n = draw.size(50, 3000), draw.size(50, 3000)
    x, y = draw.normal(m, 1), draw.normal(1, n)
    return alike(
        f"x + y {format_sizes(x.shape, y.shape)}",
        (x, y),
        lambda _, x, y: x + y,
        onnx=[("Add", "x0 x1", {})],
    )


def _channel_chain(draw: Draw) -> DrawnWorkload:
    """Scale and shift for each channel, then the maximum with zero."""
    shape = (draw.size(1, 8), draw.size(3, 130), draw.size(10, 90), draw.size(10, 90))
    inputs = (draw.normal(*shape), draw.normal(shape[1], 1, 1), draw.normal(shape[1], 1, 1))

    def run(_: Any, x: Any, scale: Any, shift: Any) -> Any:
        return (x * scale + shift).clip(0, 6)

    return alike(f"clip(x * scale + shift) {format_sizes(shape)}", inputs, run)


def _transcendental_chain(draw: Draw) -> DrawnWorkload:
    x = draw.normal(draw.size(10_000, 2_000_000))

    def run(library: Any, x: Any) -> Any:
        return library.sqrt(x * x + 1) * library.exp(-x) + library.tanh(x)

    return alike(f"sqrt, exp, tanh {x.size}", (x,), run)


def _gelu(draw: Draw) -> DrawnWorkload:
    dtype = draw.pick("float32", "float32", "bfloat16")
    shape = (draw.size(20, 1000), draw.size(100, 3000))

    def run_numpy(x: Array) -> Array:
        from math import erf

        return x * 0.5 * (1 + np.vectorize(erf, [np.float64])(x / np.sqrt(2)))

    def run_jax(x: Any) -> Any:
        import jax

        return jax.nn.gelu(x, approximate=False)

    def run_torch(x: Any) -> Any:
        import torch

        return torch.nn.functional.gelu(x)

    return DrawnWorkload(
        name=f"gelu {dtype} {format_sizes(shape)}",
        inputs=(draw.normal(*shape, dtype=dtype),),
        numpy=run_numpy,
        svod=lambda x: x.gelu(),
        torch=run_torch,
        jax=run_jax,
        dtype=dtype,
    )


def _masked_chain(draw: Draw) -> DrawnWorkload:
    shape = (draw.size(20, 1000), draw.size(100, 2000))
    inputs = (draw.rng.random(shape) < 0.5, draw.normal(*shape), draw.normal(shape[1]))
    return alike(
        f"where(mask, x * y, x - y) {format_sizes(shape)}",
        inputs,
        lambda library, m, x, y: library.where(m, x * y, x - y),
    )


def _integer_chain(draw: Draw) -> DrawnWorkload:
    x, y = (draw.integers(1000, n, dtype=np.int32) for n in [draw.size(20_000, 2_000_000)] * 2)
    return alike(
        f"int32 (x * 3 + y) ^ (x >> 2) {x.size}", (x, y), lambda _, x, y: (x * 3 + y) ^ (x >> 2)
    )


def _concat(draw: Draw) -> DrawnWorkload:
    axis = int(draw.pick(0, 1, 2))
    shape = [draw.size(4, 40), draw.size(8, 100), draw.size(8, 200)]
    inputs = tuple(
        draw.normal(*(draw.size(4, 150) if a == axis else n for a, n in enumerate(shape)))
        for _ in range(draw.pick(2, 3, 5))
    )

    def run(library: Any, *values: Any) -> Any:
        return library.concat(values, axis=axis)

    names = " ".join(f"x{i}" for i in range(len(inputs)))
    return alike(
        f"concat over {axis} of {format_sizes(*(x.shape for x in inputs))}",
        inputs,
        run,
        onnx=[("Concat", names, {"axis": axis})],
    )


def _pad(draw: Draw) -> DrawnWorkload:
    x = draw.normal(draw.size(1, 4), draw.size(3, 64), draw.size(20, 120), draw.size(20, 120))
    n = int(draw.pick(1, 2, 3))
    pairs = ((0, 0), (0, 0), (n, n), (n, n))

    def run_torch(x: Any) -> Any:
        import torch

        return torch.nn.functional.pad(x, (n, n, n, n))

    pads = {"pads": np.array([0, 0, n, n] * 2)}
    return alike(
        f"pad by {n} of {format_sizes(x.shape)}",
        (x,),
        lambda library, x: library.pad(x, pairs),
        torch=run_torch,
        svod=lambda x: x.pad(*pairs).contiguous(),
        onnx=[("Pad", "x0 pads", {})],
        constants=pads,
    )


def _permute(
    draw: Draw, shape: tuple[int, ...], axes: tuple[int, ...], dtype: Any
) -> DrawnWorkload:
    x = draw.integers(100, *shape).astype(dtype)
    name = f"{np.dtype(dtype).name} {format_sizes(shape)} as {''.join(map(str, axes))}"

    def run_jax(x: Any) -> Any:
        import jax.numpy

        return jax.numpy.transpose(x, axes)

    return DrawnWorkload(
        name=name,
        inputs=(x,),
        numpy=lambda x: x.transpose(axes),
        svod=lambda x: x.permute(*axes).contiguous(),
        torch=lambda x: x.permute(axes).contiguous(),
        jax=run_jax,
        onnx=[("Transpose", "x0", {"perm": axes})],
        dtype=x.dtype.name if x.dtype.kind == "f" else "float32",
    )


def _transpose(draw: Draw) -> DrawnWorkload:
    shape = (draw.size(40, 1500), draw.size(40, 1500))
    return _permute(
        draw, shape, (1, 0), draw.pick(np.uint8, np.int16, np.float16, np.float32, np.float64)
    )


def _reorder(draw: Draw) -> DrawnWorkload:
    """Transposes: heads and positions swapped, channels moved last, or all axes reversed."""
    shape = (draw.size(1, 6), draw.size(5, 80), draw.size(4, 60), draw.size(8, 90))
    return _permute(
        draw, shape, draw.pick((0, 2, 1, 3), (0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0)), np.float32
    )


def _columns_of_windows(draw: Draw) -> DrawnWorkload:
    """Windows of 3x3 as columns (im2col)."""
    n, channels, size = draw.pick(1, 2), draw.size(3, 64), 2 + draw.size(8, 70)
    x = draw.normal(n, channels, size, size)

    def run_numpy(x: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        return windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, 9 * channels, -1)

    def run_torch(x: Any) -> Any:
        import torch

        return torch.nn.functional.unfold(x, 3)

    def run_jax(x: Any) -> Any:
        import jax

        return jax.lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "VALID").reshape(
            n, 9 * channels, -1
        )

    return DrawnWorkload(
        name=f"windows of {format_sizes(x.shape)}",
        inputs=(x,),
        numpy=run_numpy,
        svod=lambda x: x.unfold(3).contiguous(),
        torch=run_torch,
        jax=run_jax,
    )


def _upsample(draw: Draw) -> DrawnWorkload:
    x, factor = (
        draw.normal(draw.pick(1, 2), draw.size(3, 64), draw.size(8, 60), draw.size(8, 60)),
        int(draw.pick(2, 3)),
    )

    def run_torch(x: Any) -> Any:
        import torch

        return torch.nn.functional.interpolate(x, scale_factor=factor, mode="nearest")

    return alike(
        f"upsample {factor} of {format_sizes(x.shape)}",
        (x,),
        lambda _, x: x.repeat(factor, axis=2).repeat(factor, axis=3),
        svod=lambda x: x.interpolate(scale_factor=factor).contiguous(),
        torch=run_torch,
        onnx=[
            (
                "Resize",
                "x0 roi scales",
                {
                    "mode": "nearest",
                    "nearest_mode": "floor",
                    "coordinate_transformation_mode": "asymmetric",
                },
            )
        ],
        constants={
            "roi": np.zeros(0, np.float32),
            "scales": np.array([1, 1, factor, factor], np.float32),
        },
    )


def _image(draw: Draw) -> DrawnWorkload:
    """Image bytes converted to float channels."""
    x = draw.integers(
        256, draw.size(1, 6), draw.size(60, 300), draw.size(60, 300), 3, dtype=np.uint8
    )

    def run_jax(x: Any) -> Any:
        import jax.numpy

        return jax.numpy.transpose(x, (0, 3, 1, 2)) * jax.numpy.float32(1 / 255)

    return DrawnWorkload(
        name=f"uint8 to channels {format_sizes(x.shape)}",
        inputs=(x,),
        numpy=lambda x: x.transpose(0, 3, 1, 2) / 255,
        svod=lambda x: (x.permute(0, 3, 1, 2).cast("float32") * (1 / 255)).contiguous(),
        torch=lambda x: x.permute(0, 3, 1, 2).contiguous().float() * (1 / 255),
        jax=run_jax,
    )


ELEMENT_FAMILIES: Mapping[str, list[Maker]] = {
    "reductions": [
        _softmax,
        _softmax,
        _layer_norm,
        _mean_and_variance,
        _argmax,
        _all_or_any,
        _reduction,
        _reduction,
    ],
    "elementwise": [
        _outer_chain,
        _channel_chain,
        _transcendental_chain,
        _gelu,
        _masked_chain,
        _integer_chain,
    ],
    "movement": [
        _concat,
        _concat,
        _pad,
        _transpose,
        _transpose,
        _reorder,
        _columns_of_windows,
        _upsample,
        _image,
    ],
}
"""Makers of the workloads by family."""
