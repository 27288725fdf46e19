"""Families with indices: gathers, scatters, sorting, messages in graphs; and optimizer steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from encoder import Array
from family_draws import Draw, DrawnWorkload, Maker, alike, format_sizes

__all__ = ["POSITION_FAMILIES"]


def _embedding(draw: Draw) -> DrawnWorkload:
    table, width = draw.size(300, 30000), draw.size(8, 500)
    ids = draw.integers(table, draw.size(1, 16), draw.size(16, 300))
    inputs = (draw.normal(table, width), ids)
    return alike(
        f"rows {format_sizes((table, width), ids.shape)}",
        inputs,
        lambda _, table, ids: table[ids],
        onnx=[("Gather", "x0 x1", {"axis": 0})],
    )


def _gather(draw: Draw) -> DrawnWorkload:
    shape, n = (draw.size(50, 2000), draw.size(20, 400)), draw.size(5, 300)
    ids = draw.integers(shape[1], shape[0], n)

    def run_torch(x: Any, ids: Any) -> Any:
        return x.gather(1, ids)

    return alike(
        f"gather {format_sizes(shape, ids.shape)}",
        (draw.normal(*shape), ids),
        lambda library, x, ids: library.take_along_axis(x, ids, 1),
        svod=lambda x, ids: x.gather(1, ids),
        torch=run_torch,
        onnx=[("GatherElements", "x0 x1", {"axis": 1})],
    )


def _scatter_add(draw: Draw) -> DrawnWorkload:
    shape, n = (draw.size(30, 800), draw.size(10, 300)), draw.size(10, 300)
    ids = draw.integers(shape[1], shape[0], n)
    inputs = (draw.normal(*shape), ids, draw.normal(shape[0], n))

    def run_numpy(x: Array, ids: Array, values: Array) -> Array:
        out = x.copy()
        np.add.at(out, (np.arange(shape[0])[:, None], ids), values)
        return out

    def run_jax(x: Any, ids: Any, values: Any) -> Any:
        return x.at[np.arange(shape[0])[:, None], ids].add(values)

    return DrawnWorkload(
        name=f"scatter-add {format_sizes(shape, ids.shape)}",
        inputs=inputs,
        numpy=run_numpy,
        jax=run_jax,
        svod=lambda x, ids, values: x.scatter_add(1, ids, values),
        torch=lambda x, ids, values: x.scatter_add(1, ids, values),
    )


def _index_add(draw: Draw) -> DrawnWorkload:
    n_rows, width, n = draw.size(50, 5000), draw.size(4, 300), draw.size(100, 4000)
    inputs = (draw.normal(n_rows, width), draw.integers(n_rows, n), draw.normal(n, width))

    def run_numpy(x: Array, ids: Array, values: Array) -> Array:
        out = x.copy()
        np.add.at(out, ids, values)
        return out

    return DrawnWorkload(
        name=f"index_add {format_sizes((n_rows, width), (n, width))}",
        inputs=inputs,
        numpy=run_numpy,
        svod=lambda x, ids, values: x.index_add(0, ids, values),
        torch=lambda x, ids, values: x.index_add(0, ids, values),
        jax=lambda x, ids, values: x.at[ids].add(values),
    )


def _bincount(draw: Draw) -> DrawnWorkload:
    n_bins = draw.size(5, 5000)
    x = draw.integers(n_bins, draw.size(10_000, 1_000_000))

    def run_jax(x: Any) -> Any:
        import jax.numpy

        return jax.numpy.bincount(x, length=n_bins)

    return DrawnWorkload(
        name=f"bincount {n_bins} of {x.size}",
        inputs=(x,),
        numpy=lambda x: np.bincount(x, minlength=n_bins),
        jax=run_jax,
        svod=lambda x: x.bincount(n_bins=n_bins),
        torch=lambda x: x.bincount(minlength=n_bins),
    )


def _histogram(draw: Draw) -> DrawnWorkload:
    """Histogram of numbers in the middle of their bins, so that rounding does not move any."""
    n_bins = draw.size(5, 300)
    x = (draw.integers(n_bins, draw.size(10_000, 500_000)) + 0.5).astype(np.float32)
    return alike(
        f"histogram {n_bins} of {x.size}",
        (x,),
        lambda library, x: library.histogram(x, n_bins, (0, n_bins))[0],
        torch=lambda x: x.histc(n_bins, 0, n_bins),
        svod=lambda x: x.histogram(n_bins, (0, n_bins))[0],
    )


def _write_rows(draw: Draw) -> DrawnWorkload:
    """Rows written in place at indices."""
    n_rows, width, n = draw.size(500, 5000), draw.size(16, 500), draw.size(10, 500)
    ids = draw.rng.permutation(n_rows)[:n]

    def write(_: Any, x: Any, ids: Any, values: Any) -> Any:
        x[ids] = values
        return x

    # Libraries that write out of place copy all rows, whose time says nothing about the writes.
    return alike(
        f"write rows {format_sizes((n_rows, width), (len(ids), width))}",
        (draw.normal(n_rows, width), ids, draw.normal(len(ids), width)),
        write,
        jax=None,
    )


def _topk(draw: Draw) -> DrawnWorkload:
    """`topk` of few long rows, or of many short rows."""
    n_rows, n = draw.pick(
        (draw.size(1, 32), draw.size(3000, 60000)), (draw.size(100, 2000), draw.size(20, 500))
    )
    x = draw.distinct(n_rows, n)
    k = min(n, int(draw.pick(1, 3, 8, 20, 50)))

    def run_numpy(x: Array) -> Any:
        order = np.argsort(-x, -1, kind="stable")[:, :k]
        return np.take_along_axis(x, order, -1), order

    def run_jax(x: Any) -> Any:
        import jax

        return jax.lax.top_k(x, k)

    return DrawnWorkload(
        name=f"topk {k} of {format_sizes(x.shape)}",
        inputs=(x,),
        numpy=run_numpy,
        svod=lambda x: x.topk(k),
        torch=lambda x: tuple(x.topk(k)),
        jax=run_jax,
    )


def _sort(draw: Draw) -> DrawnWorkload:
    n_rows, n = draw.pick(
        (draw.size(200, 4000), draw.size(4, 130)), (draw.size(1, 8), draw.size(1000, 50000))
    )
    x = draw.distinct(n_rows, n)

    def run_jax(x: Any) -> Any:
        import jax.numpy

        order = jax.numpy.argsort(x, -1)
        return jax.numpy.take_along_axis(x, order, -1), order

    return DrawnWorkload(
        name=f"sort {format_sizes(x.shape)}",
        inputs=(x,),
        numpy=lambda x: (np.sort(x, -1), np.argsort(x, -1)),
        svod=lambda x: (x.sort(), x.argsort()),
        torch=lambda x: tuple(x.sort(stable=True)),
        jax=run_jax,
    )


def _message_passing(draw: Draw) -> DrawnWorkload:
    """Graph layer: each node sums transformed features of its neighbours over edges."""
    n_nodes, n_edges, width = draw.size(100, 3000), draw.size(500, 10000), draw.size(8, 130)
    inputs = (
        draw.normal(n_nodes, width),
        draw.normal(width, width),
        draw.integers(n_nodes, n_edges),
        draw.integers(n_nodes, n_edges),
    )

    def finish(x: Any, total: Any) -> Any:
        return (x + total).clip(0, 1e30)

    def run_numpy(x: Array, w: Array, sources: Array, targets: Array) -> Array:
        total = np.zeros_like(x)
        np.add.at(total, targets, (x @ w)[sources])
        return finish(x, total)

    def run_svod(x: Any, w: Any, sources: Any, targets: Any) -> Any:
        from svod_tensor import Tensor

        return finish(x, Tensor.zeros(n_nodes, width).index_add(0, targets, (x @ w)[sources]))

    def run_torch(x: Any, w: Any, sources: Any, targets: Any) -> Any:
        return finish(x, x.new_zeros(x.shape).index_add_(0, targets, (x @ w)[sources]))

    def run_jax(x: Any, w: Any, sources: Any, targets: Any) -> Any:
        return finish(x, (x * 0).at[targets].add((x @ w)[sources]))

    return DrawnWorkload(
        name=f"messages {n_edges} between {format_sizes((n_nodes, width))}",
        inputs=inputs,
        numpy=run_numpy,
        svod=run_svod,
        torch=run_torch,
        jax=run_jax,
    )


_RATE, _FIRST, _SECOND, _EPSILON = 1e-3, 0.9, 0.999, 1e-8


def _adam(draw: Draw) -> DrawnWorkload:
    """First optimizer step for a matrix and a vector, in place if the library writes in place."""
    rows, columns = draw.size(50, 1200), draw.size(50, 1200)
    shapes = [(rows, columns), (columns,)]
    inputs: list[Array] = []
    for shape in shapes:
        inputs += [
            draw.normal(*shape),
            draw.normal(*shape),
            np.zeros(shape, np.float32),
            np.zeros(shape, np.float32),
        ]

    def advance(p: Any, g: Any, m: Any, v: Any) -> Any:
        m = _FIRST * m + (1 - _FIRST) * g
        v = _SECOND * v + (1 - _SECOND) * g * g
        return p - _RATE / (1 - _FIRST) * m / ((v / (1 - _SECOND)) ** 0.5 + _EPSILON), m, v

    def run(_: Any, *values: Any) -> Any:
        return tuple(x for i in range(0, len(values), 4) for x in advance(*values[i : i + 4]))

    def run_svod(*values: Any) -> Any:
        results: list[Any] = []
        for i in range(0, len(values), 4):
            p, g, m, v = values[i : i + 4]
            results += [
                old.assign(new) for old, new in zip((p, m, v), advance(p, g, m, v), strict=True)
            ]
        return tuple(results)

    def run_torch(*values: Any) -> Any:
        import torch
        from torch.optim.adam import adam

        p, g, m, v = (list(values[i::4]) for i in range(4))
        adam(
            p,
            g,
            m,
            v,
            [],
            [torch.zeros(()) for _ in p],
            fused=True,
            amsgrad=False,
            beta1=_FIRST,
            beta2=_SECOND,
            lr=_RATE,
            weight_decay=0.0,
            eps=_EPSILON,
            maximize=False,
            foreach=False,
            capturable=False,
            differentiable=False,
        )
        return tuple(x for row in zip(p, m, v, strict=True) for x in row)

    return alike(
        f"Adam {format_sizes(*shapes)}", tuple(inputs), run, svod=run_svod, torch=run_torch
    )


POSITION_FAMILIES: Mapping[str, list[Maker]] = {
    "positions": [
        _embedding,
        _gather,
        _scatter_add,
        _index_add,
        _bincount,
        _histogram,
        _write_rows,
    ],
    "order": [_topk, _sort],
    "graphs": [_message_passing],
    "optimizers": [_adam],
}
"""Makers of the workloads by family."""
