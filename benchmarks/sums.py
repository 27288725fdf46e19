"""Measure sums at positions that tensors name: gradients of embeddings and of windows, and
histograms, beside torch.

    python benchmarks/sums.py                   # all workloads
    python benchmarks/sums.py --quick           # small sizes: do all of them still run and agree?
    python benchmarks/sums.py embedding         # workloads whose names begin so

svod runs what `jit` makes of `vjp` or of `bincount`; torch its own functions, of which there may be
several. Every result is compared with that of `np.add.at` in float64, and the script fails where
one is wrong. All are measured in turns, in one process, and the least time counts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sides import run_benchmark


class Workload(NamedTuple):
    """What is computed, of which inputs, and in which ways."""

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
    """A call for each way that there is, after a look at what it gives."""
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
        found = call().numpy().astype(np.float64)
        away = float(np.abs(found - workload.expected).max()) / float(
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
    """The gradient of a table of which rows are taken."""
    from svod_tensor import Tensor, vjp

    ids, given = (
        rng.integers(0, n_rows, shape),
        rng.standard_normal((*shape, width), dtype=np.float32),
    )
    expected = np.zeros((n_rows, width))
    np.add.at(expected, ids, given.astype(np.float64))

    def run(ids: Any, given: Any) -> Any:
        return vjp(lambda table: table[ids], Tensor.zeros((n_rows, width)))[1](given)[0]

    def add_rows(ids: Any, given: Any) -> Any:
        return given.new_zeros((n_rows, width)).index_add_(
            0, ids.reshape(-1), given.reshape(-1, width)
        )

    def differentiate(ids: Any, given: Any) -> Any:
        import torch

        return torch.ops.aten.embedding_dense_backward(given, ids, n_rows, -1, False)

    name = f"embedding {n_rows}x{width}, {ids.size} ids"
    return Workload(
        name, (ids, given), expected, run, {"embedding": differentiate, "index_add_": add_rows}
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
    """The gradient of images of which windows of 3x3 are taken, with a border of one zero."""
    from svod_tensor import Tensor, vjp

    count = (size + 2 - 3) // stride + 1
    given = rng.standard_normal((n_images, n_channels, 3, 3, count, count), dtype=np.float32)
    padded = np.zeros((n_images, n_channels, size + 2, size + 2))
    for i in range(3):
        for j in range(3):
            ends = (i + stride * count, j + stride * count)
            padded[:, :, i : ends[0] : stride, j : ends[1] : stride] += given[:, :, i, j]

    def take(image: Any) -> Any:
        windows = image.pad([(0, 0), (0, 0), (1, 1), (1, 1)]).windows(
            (3, 3), (stride, stride), (1, 1)
        )
        return windows.permute(0, 1, 4, 5, 2, 3)

    def run(given: Any) -> Any:
        return vjp(take, Tensor.zeros((n_images, n_channels, size, size)))[1](given)[0]

    def fold(given: Any) -> Any:
        import torch

        columns = given.reshape(n_images, n_channels * 9, count * count)
        return torch.nn.functional.fold(columns, (size, size), (3, 3), padding=1, stride=stride)

    name = f"windows 3x3, stride {stride}, {n_images}x{n_channels}x{size}x{size}"
    return Workload(name, (given,), padded[:, :, 1:-1, 1:-1], run, {"fold": fold})


if __name__ == "__main__":
    sys.exit(main())
