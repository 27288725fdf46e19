"""Measure scatter-add: gradients of embeddings and windows, and histograms, compared with torch.

    python benchmarks/sums.py                   # all workloads
    python benchmarks/sums.py --quick           # small sizes, to check that results agree
    python benchmarks/sums.py embedding         # workloads whose names begin so

svod runs `vjp` or `bincount` under `jit`; torch one or several of its functions. Every result is
compared with `np.add.at` in float64, and the script fails if one is wrong. Measurements are
interleaved in one process, and the minimum counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sides import run_benchmark


class Workload(NamedTuple):
    """Computation, its inputs, and its implementations."""

    name: str
    inputs: tuple[Any, ...]
    expected: Any
    svod: Callable[..., Any]
    torch: dict[str, Callable[..., Any]]


def main() -> int:
    return run_benchmark(
        "sums",
        "measure sums at positions that tensors name, beside torch",
        seconds=2.0,
        iter_workloads=_iter_workloads,
        make_calls=_make_calls,
    )


def _make_calls(workload: Workload, wrong: list[str]) -> dict[str, Callable[[], object]]:
    """Return a call for each implementation, after comparing its result."""
    from svod_tensor import Tensor, jit

    calls: dict[str, Callable[[], Any]] = {
        "svod": partial(
            jit(workload.svod), *(Tensor(array.copy()).realize() for array in workload.inputs)
        )
    }
    try:
        import torch
    except ImportError:
        print("without torch: it is not installed")
    else:
        tensors = [torch.from_numpy(array.copy()) for array in workload.inputs]
        calls |= {name: partial(run, *tensors) for name, run in workload.torch.items()}
    for name, call in calls.items():
        actual = call().numpy().astype(np.float64)
        away = float(np.abs(actual - workload.expected).max()) / float(
            np.abs(workload.expected).max()
        )
        if not away <= 1e-5:
            wrong.append(f"{workload.name}: {name} is {away:.2g} away from the sums in float64")
    return calls


def _iter_workloads(is_quick: bool) -> Iterator[Workload]:
    rng = np.random.default_rng(11)
    for n_rows, width in (
        ((500, 24), (16, 16)) if is_quick else ((32000, 384), (256, 256), (256, 33))
    ):
        yield _make_embedding(rng, (2, 16) if is_quick else (8, 128), n_rows, width)
    for n_bins in (10, 1000):
        yield _make_histogram(rng, 1000 if is_quick else 1_000_000, n_bins)
    for stride, size, n_images in ((1, 6, 2),) if is_quick else ((1, 32, 32), (2, 63, 8)):
        yield _make_windows(rng, n_images, 4 if is_quick else 64, size, stride)


def _make_embedding(
    rng: np.random.Generator, shape: tuple[int, ...], n_rows: int, width: int
) -> Workload:
    """Gradient of a table whose rows are gathered."""
    from svod_tensor import Tensor, vjp

    ids, cotangent = (
        rng.integers(0, n_rows, shape),
        rng.standard_normal((*shape, width), dtype=np.float32),
    )
    expected = np.zeros((n_rows, width))
    np.add.at(expected, ids, cotangent.astype(np.float64))

    def run(ids: Any, cotangent: Any) -> Any:
        return vjp(lambda table: table[ids], Tensor.zeros((n_rows, width)))[1](cotangent)[0]

    def add_rows(ids: Any, cotangent: Any) -> Any:
        return cotangent.new_zeros((n_rows, width)).index_add_(
            0, ids.reshape(-1), cotangent.reshape(-1, width)
        )

    def differentiate(ids: Any, cotangent: Any) -> Any:
        import torch

        return torch.ops.aten.embedding_dense_backward(cotangent, ids, n_rows, -1, False)

    name = f"embedding {n_rows}x{width}, {ids.size} ids"
    return Workload(
        name, (ids, cotangent), expected, run, {"embedding": differentiate, "index_add_": add_rows}
    )


def _make_histogram(rng: np.random.Generator, size: int, n_bins: int) -> Workload:
    values = rng.integers(0, n_bins, size)
    expected = np.bincount(values, minlength=n_bins).astype(np.float64)
    return Workload(
        f"bincount {n_bins}, {size} values",
        (values,),
        expected,
        lambda x: x.bincount(n_bins=n_bins),
        {"bincount": lambda x: x.bincount(minlength=n_bins)},
    )


def _make_windows(
    rng: np.random.Generator, n_images: int, n_channels: int, size: int, stride: int
) -> Workload:
    """Gradient of images whose 3x3 windows are extracted, with a border of one zero."""
    from svod_tensor import Tensor, vjp

    count = (size + 2 - 3) // stride + 1
    cotangent = rng.standard_normal((n_images, n_channels, 3, 3, count, count), dtype=np.float32)
    padded = np.zeros((n_images, n_channels, size + 2, size + 2))
    for i in range(3):
        for j in range(3):
            ends = (i + stride * count, j + stride * count)
            padded[:, :, i : ends[0] : stride, j : ends[1] : stride] += cotangent[:, :, i, j]

    def take(image: Any) -> Any:
        windows = image.pad([(0, 0), (0, 0), (1, 1), (1, 1)]).windows(
            (3, 3), (stride, stride), (1, 1)
        )
        return windows.permute(0, 1, 4, 5, 2, 3)

    def run(cotangent: Any) -> Any:
        return vjp(take, Tensor.zeros((n_images, n_channels, size, size)))[1](cotangent)[0]

    def fold(cotangent: Any) -> Any:
        import torch

        columns = cotangent.reshape(n_images, n_channels * 9, count * count)
        return torch.nn.functional.fold(columns, (size, size), (3, 3), padding=1, stride=stride)

    name = f"windows 3x3, stride {stride}, {n_images}x{n_channels}x{size}x{size}"
    return Workload(name, (cotangent,), padded[:, :, 1:-1, 1:-1], run, {"fold": fold})


if __name__ == "__main__":
    sys.exit(main())
