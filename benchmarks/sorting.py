"""Measure sorting and the largest elements of rows, compared with torch and numpy.

    python benchmarks/sorting.py                   # all workloads
    python benchmarks/sorting.py --quick           # small sizes, to check that results agree
    python benchmarks/sorting.py topk              # workloads whose names begin so

svod runs `sort` or `topk` under `jit`; torch and numpy their own functions. Every result is
compared with numpy's stable order, and the script fails if one is wrong. Measurements are
interleaved in one process, and the minimum counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sides import run_benchmark

DTYPES = ("float32", "int32", "float64", "bfloat16", "bool")


class Workload(NamedTuple):
    """The `k` largest elements of each row; all elements in order if `k` is None."""

    name: str
    rows: Any
    dtype: str
    k: int | None


def main() -> int:
    return run_benchmark(
        "sorting",
        "measure sorting and the largest elements of rows, beside torch and numpy",
        seconds=1.0,
        iter_workloads=_iter_workloads,
        make_calls=_make_calls,
    )


def _make_calls(workload: Workload, wrong: list[str]) -> dict[str, Callable[[], object]]:
    """Return a call for each library, after comparing its values."""
    from svod_tensor import Tensor, jit

    rows, dtype, k = workload.rows, workload.dtype, workload.k
    tensor = Tensor(rows.copy()).cast(dtype).realize()
    exact = tensor.cast("float64").numpy()
    expected = np.sort(exact, -1) if k is None else np.flip(np.sort(exact, -1), -1)[..., :k]

    def run(x: Any) -> Any:
        return (x.sort(), x.argsort()) if k is None else x.topk(k)

    calls: dict[str, Callable[[], Any]] = {"svod": partial(jit(run), tensor)}
    results = {"svod": calls["svod"]()[0].cast("float64").numpy()}
    try:
        import torch
    except ImportError:
        print("without torch: it is not installed")
    else:
        tensor = torch.from_numpy(rows.copy()).to(getattr(torch, dtype))
        calls["torch"] = (
            partial(torch.sort, tensor) if k is None else partial(torch.topk, tensor, k)
        )
        results["torch"] = calls["torch"]()[0].to(torch.float64).numpy()
    if dtype != "bfloat16":
        calls["numpy"] = partial(_run_numpy, rows.astype(dtype), k)
        results["numpy"] = calls["numpy"]()[0].astype(np.float64)
    for name, values in results.items():
        if not np.array_equal(values, expected):
            wrong.append(f"{workload.name}: {name} gives other values")
    return calls


def _run_numpy(x: Any, k: int | None) -> tuple[Any, Any]:
    if k is None:
        order = np.argsort(x, -1, kind="stable")
    else:
        order = np.argpartition(x, x.shape[-1] - k, -1)[..., -k:]
        largest = np.argsort(np.take_along_axis(x, order, -1), -1)
        order = np.flip(np.take_along_axis(order, largest, -1), -1)
    return np.take_along_axis(x, order, -1), order


def _iter_workloads(is_quick: bool) -> Iterator[Workload]:
    rng = np.random.default_rng(23)
    for shape in ((3, 3000), (7, 100)) if is_quick else ((50257,), (32, 50257), (7, 1000)):
        for k in (1, 5, 8, 50):
            rows = rng.standard_normal(shape, dtype=np.float32)
            yield Workload(f"topk {k} of {'x'.join(map(str, shape))}", rows, "float32", k)
    for shape in (
        ((20, 10), (3, 50)) if is_quick else ((1000, 10), (4096, 32), (100, 100), (100_000, 7))
    ):
        for dtype in DTYPES:
            rows = rng.standard_normal(shape, dtype=np.float32)
            rows = (
                rows > 0
                if dtype == "bool"
                else (1000 * rows).astype(np.int32)
                if dtype == "int32"
                else rows
            )
            yield Workload(f"sort {'x'.join(map(str, shape))} {dtype}", rows, dtype, None)


if __name__ == "__main__":
    sys.exit(main())
