"""Families of products: matrices, batches, three operands, convolutions, and attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from encoder import Array
from family_draws import Draw, DrawnWorkload, Maker, OnnxNode, alike, format_sizes

__all__ = ["PRODUCT_FAMILIES"]


def _product(draw: Draw, dtype: str = "float32") -> DrawnWorkload:
    """Product of two matrices, each as stored or transposed."""
    m, k, n = (draw.above(16, 700) for _ in range(3))
    return _make_product(draw, dtype, (m, k), (k, n))


def _thin_product(draw: Draw) -> DrawnWorkload:
    """Product of one or a few vectors and a large matrix."""
    m, k, n = draw.size(1, 40), draw.above(500, 3000), draw.above(500, 3000)
    return _make_product(draw, draw.pick("float32", "bfloat16", "float16"), (m, k), (k, n))


def _make_product(
    draw: Draw, dtype: str, left: tuple[int, ...], right: tuple[int, ...]
) -> DrawnWorkload:
    flips = draw.pick((False, False), (False, True), (True, False), (True, True))
    shapes = [
        (*shape[:-2], *shape[:-3:-1]) if flip else shape
        for shape, flip in zip((left, right), flips, strict=True)
    ]
    nodes: list[OnnxNode] = []
    # onnxruntime can only multiply transposed batches after copying them.
    if dtype == "float32" and not any(flips):
        nodes = [("MatMul", "x0 x1", {})]
    elif dtype == "float32" and len(left) == len(right) == 2:
        nodes = [("Gemm", "x0 x1", {"transA": int(flips[0]), "transB": int(flips[1])})]

    def run(_: Any, x: Any, y: Any) -> Any:
        return (x.mT if flips[0] else x) @ (y.mT if flips[1] else y)

    letters = "".join("T" if flip else "N" for flip in flips)
    return alike(
        f"{dtype} {letters} {format_sizes(left, right)}",
        tuple(draw.normal(*s, dtype=dtype) for s in shapes),
        run,
        dtype=dtype,
        onnx=nodes,
    )


def _bytes_product(draw: Draw) -> DrawnWorkload:
    """int8 by int8 product with int32 sums; torch requires some sizes to be multiples of 8."""
    m, k, n = 17 + draw.size(1, 500), 8 * draw.size(4, 90), 8 * draw.size(4, 90)
    x, y = (draw.rng.integers(-128, 128, shape, dtype=np.int8) for shape in ((m, k), (k, n)))

    def run_jax(x: Any, y: Any) -> Any:
        import jax

        return jax.lax.dot(x, y, preferred_element_type=jax.numpy.int32)

    def run_torch(x: Any, y: Any) -> Any:
        import torch

        return torch._int_mm(x, y)

    return DrawnWorkload(
        name=f"int8 NN {format_sizes(x.shape, y.shape)}",
        inputs=(x, y),
        numpy=lambda x, y: x.astype(np.float64) @ y.astype(np.float64),
        svod=lambda x, y: x.matmul(y, dtype="int32"),
        torch=run_torch,
        jax=run_jax,
        onnx=[("MatMulInteger", "x0 x1", {})],
    )


def _batched(draw: Draw, dtype: str = "float32") -> DrawnWorkload:
    batch, m, k, n = draw.size(8, 100), draw.size(2, 70), draw.above(16, 128), draw.above(8, 128)
    return _make_product(draw, dtype, (batch, m, k), (batch, k, n))


def _shared_batched(draw: Draw) -> DrawnWorkload:
    """Batched product with one shared matrix, or with batch axes that broadcast."""
    a, b = draw.size(3, 20), draw.size(2, 8)
    m, k, n = draw.size(5, 100), draw.above(16, 200), draw.above(16, 200)
    left, right = draw.pick(((a, m, k), (k, n)), ((a, 1, m, k), (b, k, n)))
    return _make_product(draw, "float32", left, right)


_FORMULAS = (
    "ij,jk,kl->il",
    "bi,ijk,bj->bk",
    "bij,bjk,bkl->bil",
    "ij,ik,il->jkl",
    "abc,cd,bde->ae",
    "i,ij,j->",
)


def _einsum(draw: Draw) -> DrawnWorkload:
    formula = draw.pick(*_FORMULAS)
    largest = 60 if "ijk," in formula or formula.count(",") < formula.find("->") // 4 else 300
    sizes = {letter: draw.size(6, largest) for letter in sorted(set(formula) - set(",->"))}
    terms = formula.partition("->")[0].split(",")
    inputs = tuple(draw.normal(*(sizes[letter] for letter in term)) for term in terms)

    def run(library: Any, *values: Any) -> Any:
        return library.einsum(formula, *values)

    def run_svod(*values: Any) -> Any:
        from svod_tensor import Tensor

        return Tensor.einsum(formula, *values)

    return alike(
        f"{formula} {format_sizes(*(x.shape for x in inputs))}",
        inputs,
        run,
        svod=run_svod,
        numpy=lambda *values: np.einsum(formula, *values, optimize=True),
        onnx=[("Einsum", "x0 x1 x2", {"equation": formula})],
    )


def _conv(draw: Draw, kind: str = "plain") -> DrawnWorkload:
    n, size, kernel = draw.pick(1, 2), draw.size(9, 60), draw.pick(3, 3, 5)
    stride, dilation, groups = 1, 1, 1
    channels, filters = draw.size(8, 130), draw.size(8, 130)
    if kind == "dilated":
        dilation = draw.pick(2, 3)
    elif kind == "depthwise":
        channels = filters = groups = draw.size(16, 200)
        stride = draw.pick(1, 2)
    elif kind == "deep":
        channels, filters, size, kernel = (
            draw.size(100, 500),
            draw.size(100, 500),
            draw.size(5, 16),
            draw.pick(1, 3),
        )
    elif kind == "stem":
        channels, size, kernel, stride = draw.pick(1, 3), draw.size(60, 230), draw.pick(3, 7), 2
    padding = dilation * (kernel // 2)
    options: dict[str, Any] = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "groups": groups,
    }
    x, w = (
        draw.normal(n, channels, size, size + draw.pick(0, 1, 3)),
        draw.normal(filters, channels // groups, kernel, kernel),
    )
    attributes = {
        "pads": [padding] * 4,
        "strides": [stride] * 2,
        "dilations": [dilation] * 2,
        "group": groups,
        "kernel_shape": [kernel] * 2,
    }
    return DrawnWorkload(
        name=f"{kind} {format_sizes(x.shape, w.shape)}/{stride}",
        inputs=(x, w),
        numpy=partial(_conv_numpy, **options),
        svod=lambda x, w: x.conv2d(w, **options),
        torch=partial(_call_functional, "conv2d", **options),
        jax=partial(_conv_jax, **options),
        onnx=[("Conv", "x0 x1", attributes)],
    )


def _call_functional(name: str, *values: Any, **options: Any) -> Any:
    from torch.nn import functional

    return getattr(functional, name)(*values, **options)


def _conv_numpy(
    x: Array, w: Array, *, stride: int, padding: int, dilation: int, groups: int
) -> Array:
    """Convolution as a sum over the positions of the kernel."""
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    extent = dilation * (w.shape[-1] - 1)
    rows, columns = ((length - extent - 1) // stride + 1 for length in padded.shape[2:])
    grouped = w.reshape(groups, -1, *w.shape[1:])
    total: Any = 0
    for i, j in np.ndindex(*w.shape[2:]):
        top, left = i * dilation, j * dilation
        window = padded[
            :,
            :,
            top : top + stride * (rows - 1) + 1 : stride,
            left : left + stride * (columns - 1) + 1 : stride,
        ]
        patches = window.reshape(x.shape[0], groups, -1, rows * columns)
        total = total + np.matmul(grouped[None, ..., i, j], patches)
    return total.reshape(x.shape[0], w.shape[0], rows, columns)


def _conv_jax(x: Any, w: Any, *, stride: int, padding: int, dilation: int, groups: int) -> Any:
    import jax

    pads = [(padding, padding)] * 2
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), pads, rhs_dilation=(dilation, dilation), feature_group_count=groups
    )


def _transposed_conv(draw: Draw) -> DrawnWorkload:
    n, channels, filters, size = (
        draw.pick(1, 2),
        draw.size(8, 100),
        draw.size(4, 64),
        draw.size(6, 40),
    )
    kernel, stride = draw.pick((2, 2), (3, 2), (4, 2), (3, 1))
    x, w = draw.normal(n, channels, size, size + 1), draw.normal(channels, filters, kernel, kernel)

    def run_numpy(x: Array, w: Array) -> Array:
        rows, columns = (stride * (length - 1) + kernel for length in x.shape[2:])
        out = np.zeros((n, filters, rows, columns))
        for i, j in np.ndindex(kernel, kernel):
            out[
                :,
                :,
                i : i + stride * (x.shape[2] - 1) + 1 : stride,
                j : j + stride * (x.shape[3] - 1) + 1 : stride,
            ] += np.einsum("ncyx,cf->nfyx", x, w[:, :, i, j], optimize=True)
        return out

    def run_jax(x: Any, w: Any) -> Any:
        import jax

        return jax.lax.conv_transpose(
            x,
            w,
            (stride, stride),
            "VALID",
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
            transpose_kernel=True,
        )

    return DrawnWorkload(
        name=f"transposed {format_sizes(x.shape, w.shape)}/{stride}",
        inputs=(x, w),
        numpy=run_numpy,
        svod=lambda x, w: x.conv_transpose2d(w, stride=stride),
        torch=partial(_call_functional, "conv_transpose2d", stride=stride),
        jax=run_jax,
        onnx=[("ConvTranspose", "x0 x1", {"strides": [stride] * 2})],
    )


def _pooling(draw: Draw) -> DrawnWorkload:
    """Max or average pooling; the average counts zero padding."""
    kind = draw.pick("max", "avg")
    kernel, stride, padding = draw.pick((2, 2, 0), (3, 2, 1), (3, 1, 1), (5, 2, 2))
    x = draw.normal(draw.pick(1, 2, 4), draw.size(8, 130), draw.size(12, 110), draw.size(12, 110))
    options = {"stride": stride, "padding": padding}
    fill = -np.inf if kind == "max" else 0.0

    def run_numpy(x: Array) -> Array:
        padded = np.pad(
            x, ((0, 0), (0, 0), (padding, padding), (padding, padding)), constant_values=fill
        )
        windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))[
            :, :, ::stride, ::stride
        ]
        return windows.max((-1, -2)) if kind == "max" else windows.mean((-1, -2))

    def run_jax(x: Any) -> Any:
        import jax

        reduction = jax.lax.max if kind == "max" else jax.lax.add
        pads = ((0, 0), (0, 0), (padding, padding), (padding, padding))
        pooled = jax.lax.reduce_window(
            x, fill, reduction, (1, 1, kernel, kernel), (1, 1, stride, stride), pads
        )
        return pooled if kind == "max" else pooled / (kernel * kernel)

    attributes: dict[str, Any] = {
        "kernel_shape": [kernel] * 2,
        "strides": [stride] * 2,
        "pads": [padding] * 4,
    }
    node = (
        ("MaxPool", "x0", attributes)
        if kind == "max"
        else ("AveragePool", "x0", attributes | {"count_include_pad": 1})
    )
    return DrawnWorkload(
        name=f"{kind}-pool {kernel}/{stride} {format_sizes(x.shape)}",
        inputs=(x,),
        numpy=run_numpy,
        svod=lambda x: getattr(x, f"{kind}_pool2d")(kernel, **options),
        torch=lambda x: _call_functional(f"{kind}_pool2d", x, kernel, **options),
        jax=run_jax,
        onnx=[node],
    )


def _attention(draw: Draw, kind: str = "plain") -> DrawnWorkload:
    """Attention with odd lengths; `causal` masks later positions, `cached` has one query and many
    keys.
    """
    batch, heads, width = draw.size(1, 6), draw.size(1, 12), draw.pick(32, 64, 80)
    length = 2 * draw.size(8, 150) + 1
    n_queries = 1 if kind == "cached" else length
    q = draw.normal(batch, heads, n_queries, width)
    k, v = (draw.normal(batch, heads, length, width) for _ in range(2))
    is_causal = kind == "causal"

    def run(q: Any, k: Any, v: Any, exp: Any, hide: Any) -> Any:
        scores = hide(q @ k.mT * width**-0.5)
        power = exp(scores - scores.max(-1, keepdims=True))
        return power / power.sum(-1, keepdims=True) @ v

    def run_jax(q: Any, k: Any, v: Any) -> Any:
        import jax

        return run(
            q,
            k,
            v,
            jax.numpy.exp,
            lambda s: jax.numpy.where(past, s, -jax.numpy.inf) if is_causal else s,
        )

    past = np.tri(n_queries, length, dtype=bool)
    options: Mapping[str, Any] = {"is_causal": is_causal}
    return DrawnWorkload(
        name=f"{kind} {format_sizes(q.shape, k.shape)}",
        inputs=(q, k, v),
        numpy=lambda q, k, v: run(
            q, k, v, np.exp, lambda s: np.where(past, s, -np.inf) if is_causal else s
        ),
        svod=lambda q, k, v: q.scaled_dot_product_attention(k, v, **options),
        torch=lambda *values: _call_functional("scaled_dot_product_attention", *values, **options),
        jax=run_jax,
    )


def _vary(maker: Callable[..., DrawnWorkload], *options: str) -> list[Maker]:
    return [lambda draw, option=option: maker(draw, option) for option in options]


PRODUCT_FAMILIES: Mapping[str, list[Maker]] = {
    "products": [
        *_vary(_product, "float32", "float32", "bfloat16", "float16"),
        _bytes_product,
        _thin_product,
    ],
    "batched products": [
        *_vary(_batched, "float32", "float32", "bfloat16"),
        _shared_batched,
        _shared_batched,
    ],
    "einsum": [_einsum],
    "convolutions": [
        *_vary(_conv, "plain", "dilated", "depthwise", "deep", "stem"),
        _transposed_conv,
        _pooling,
        _pooling,
    ],
    "attention": _vary(_attention, "plain", "causal", "cached"),
}
"""Makers of the workloads by family."""
