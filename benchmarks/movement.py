"""Measure transposes, concatenations and padding, compared with numpy and torch.

    python benchmarks/movement.py                      # all workloads
    python benchmarks/movement.py --quick              # small sizes, to check that results agree
    python benchmarks/movement.py "transpose uint8"    # workloads whose names begin so

Transposes differ in dtype and size, and some sizes are divisible by no tile. Concatenations and
padding along the first axis differ in the length of their rows, those along the last axis in the
length of each part, in two dtypes. Every library writes to memory that is allocated before: svod
executes a plan, numpy and torch have an `out` argument or copy to a tensor. Every result is compared
with numpy's, and the script fails if one is wrong. Measurements are interleaved in one process, and
the minimum counts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sides import run_benchmark

DTYPES = ("uint8", "float16", "float32", "float64")
SIZES = ((64, 64), (100, 100), (384, 1536), (512, 512), (585, 333), (1024, 1024), (2000, 3000))
ROW_DTYPES = ("uint8", "float32")
ROW_LENGTHS = (1, 3, 5, 8, 12, 17, 33, 64)
PART_LENGTHS = (1, 3, 7, 16, 33, 64, 101, 300)
N_ROWS = 20_000

Array = np.ndarray[Any, np.dtype[Any]]


class Workload(NamedTuple):
    """A movement of the elements of `arrays`, written with each library."""

    name: str
    arrays: tuple[Array, ...]
    svod: Callable[..., Any]
    numpy: Callable[..., Any]
    torch: Callable[..., Any]


def main() -> int:
    return run_benchmark(
        "movement",
        "measure transposes, concatenations and padding, beside numpy and torch",
        seconds=0.5,
        iter_workloads=_iter_workloads,
        make_calls=_make_calls,
    )


def _make_calls(workload: Workload, wrong: list[str]) -> dict[str, Callable[[], object]]:
    """Return a call for each library, after comparing its values."""
    from svod_tensor import Tensor

    plan = workload.svod(*(Tensor(x).realize() for x in workload.arrays)).prepare()
    plan.execute()
    expected = workload.numpy(None, *workload.arrays)
    # Not `empty_like`, which would give the result of a transpose the order of its operand.
    out = np.empty(expected.shape, expected.dtype)
    calls: dict[str, Callable[[], object]] = {
        "svod": plan.execute,
        "numpy": partial(workload.numpy, out, *workload.arrays),
    }
    calls["numpy"]()
    results = {"svod": plan.output_buffer.as_numpy().reshape(out.shape), "numpy": out}
    try:
        import torch
    except ImportError:
        print("without torch: it is not installed")
    else:
        tensors = [torch.from_numpy(x) for x in workload.arrays]
        target = torch.empty(out.shape, dtype=tensors[0].dtype)
        calls["torch"] = torch.inference_mode()(partial(workload.torch, target, *tensors))
        calls["torch"]()
        results["torch"] = target.numpy()
    for name, values in results.items():
        if not np.array_equal(values, expected):
            wrong.append(f"{workload.name}: {name} gives other values")
    return calls


def _iter_workloads(is_quick: bool) -> Iterator[Workload]:
    for dtype in DTYPES:
        for n_rows, n_columns in SIZES[:2] if is_quick else SIZES:
            yield Workload(
                f"transpose {dtype} {n_rows}x{n_columns}",
                (_sample(n_rows, n_columns, dtype),),
                lambda x: x.T.contiguous(),
                lambda out, x: x.T if out is None else np.copyto(out, x.T),
                lambda out, x: out.copy_(x.T),
            )
    n_rows = 100 if is_quick else N_ROWS
    for dtype in ROW_DTYPES:
        for length in ROW_LENGTHS:
            yield Workload(
                f"concat {dtype} rows of {length}",
                tuple(_sample(n, length, dtype) for n in (n_rows, n_rows // 2, n_rows // 3)),
                lambda *xs: _concat(xs),
                lambda out, *xs: np.concatenate(xs, axis=0, out=out),
                _concat_torch,
            )
        for length in ROW_LENGTHS:
            yield Workload(
                f"pad {dtype} rows of {length}",
                (_sample(n_rows, length, dtype),),
                lambda x: x.pad((2, 1), (0, 0)).contiguous(),
                _pad_numpy,
                _pad_torch,
            )
        for length in PART_LENGTHS:
            yield Workload(
                f"concat last {dtype} parts of {length}",
                tuple(_sample(100, length + i, dtype) for i in range(5)),
                lambda *xs: _concat(xs, axis=1),
                lambda out, *xs: np.concatenate(xs, axis=1, out=out),
                partial(_concat_torch, axis=1),
            )
        for length in PART_LENGTHS:
            yield Workload(
                f"pad last {dtype} rows of {length}",
                (_sample(100, length, dtype),),
                lambda x: x.pad((0, 0), (1, 2)).contiguous(),
                partial(_pad_numpy, axis=1, width=(1, 2)),
                partial(_pad_torch, axis=1, width=(1, 2)),
            )


def _sample(n_rows: int, n_columns: int, dtype: str) -> Array:
    rng = np.random.default_rng(29)
    return rng.integers(100, size=(n_rows, n_columns)).astype(dtype)


def _concat(tensors: tuple[Any, ...], axis: int = 0) -> Any:
    from svod_tensor import Tensor

    return Tensor.concat(list(tensors), axis=axis).contiguous()


def _concat_torch(out: Any, *tensors: Any, axis: int = 0) -> None:
    import torch

    torch.cat(tensors, dim=axis, out=out)


def _pad_numpy(
    out: Array | None, x: Array, axis: int = 0, width: tuple[int, int] = (2, 1)
) -> Array:
    if out is None:
        return np.pad(x, (width, (0, 0)) if axis == 0 else ((0, 0), width))
    _pad_torch(out, x, axis, width)
    return out


def _pad_torch(out: Any, x: Any, axis: int = 0, width: tuple[int, int] = (2, 1)) -> None:
    before, after = width
    target = out if axis == 0 else out.T
    source = x if axis == 0 else x.T
    target[:before], target[before:-after], target[-after:] = 0, source, 0


if __name__ == "__main__":
    sys.exit(main())
