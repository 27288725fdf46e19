"""Products of a few rows with an operand larger than the cache of a core, whose rows are read in order
(`svod_schedule.lower.stream_rows`), beside numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from svod_device import get_device
from svod_ir import UOp
from svod_schedule import OptimizerConfig, pipeline
from svod_tensor import Tensor
from svod_tensor.options import PrepareConfig

SHAPES = [
    (1, 1031, 4096),  # a prime number of rows
    (1, 1024, 4100),  # columns that no vector divides
    (3, 1024, 4096),
    (8, 1024, 4096),
    (13, 1024, 4096),
    (17, 1030, 4096),
    (32, 1024, 4096),
    (1, 130, 65536),  # the sums exceed the cache: panels of columns
    (4, 66, 65536),
]


@pytest.fixture
def reordered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each kernel that is compiled was reordered."""
    seen: list[bool] = []
    stream_rows = pipeline.stream_rows

    def noting(sink: UOp, target: Any) -> UOp:
        result = stream_rows(sink, target)
        seen.append(result is not sink)
        return result

    monkeypatch.setattr(pipeline, "stream_rows", noting)
    return seen


def _draw(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    values = np.random.default_rng(len(shape)).integers(-8, 9, shape)
    return values.astype(dtype) if np.dtype(dtype).kind in "iu" else (values / 8).astype(dtype)


def _compute(make: Callable[[], Tensor], threads: int = 1) -> np.ndarray:
    config = PrepareConfig(
        optimizer=OptimizerConfig(threads=threads), disable_schedule_cache=True, use_tuned=False
    )
    return make().realize_with(config).numpy()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(shape: tuple[int, int, int], threads: int, reordered: list[bool]) -> None:
    m, k, n = shape
    x, w = _draw(m, k), _draw(k, n)
    result = _compute(lambda: Tensor(x) @ Tensor(w).realize(), threads)
    # Multiples of 1/64 below 2**17: every order of additions is exact.
    np.testing.assert_array_equal(result, x.astype(np.float64) @ w.astype(np.float64))
    # A last tile that overlaps the one before is no part of a row of tiles.
    if get_device("CPU").target.l2_bytes <= 1 << 21 and n % 256 == 0:
        assert any(reordered)


@pytest.mark.parametrize(
    "dtype",
    [np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int32],
    ids=lambda d: d.__name__,
)
def test_dtypes(dtype: Any, reordered: list[bool]) -> None:
    x, w = _draw(4, 1024, dtype=dtype), _draw(1024, 8192, dtype=dtype)

    def make() -> Tensor:
        left, right = Tensor(x), Tensor(w).realize()
        return left.cast("int32") @ right.cast("int32") if dtype is np.int8 else left @ right

    result = _compute(make)
    expected = x.astype(np.float64) @ w.astype(np.float64)
    np.testing.assert_array_equal(result.astype(np.float64), expected.astype(result.dtype))
    # Products of bytes have instructions of their own.
    if get_device("CPU").target.l2_bytes <= 1 << 21 and dtype is not np.int8:
        assert any(reordered)


def test_what_is_fused_with_a_product() -> None:
    x, w, bias = _draw(4, 1024), _draw(1024, 4096), _draw(4096)
    expected = x.astype(np.float64) @ w
    tensors = Tensor(x), Tensor(w).realize(), Tensor(bias)
    cases: dict[str, tuple[Callable[[Any, Any, Any], Any], np.ndarray]] = {
        "after": (lambda x, w, b: (x @ w + b).relu(), np.maximum(expected + bias, 0)),
        "of a sum": (lambda x, w, b: (x @ w).sum(axis=0), expected.sum(0)),
        "before": (lambda x, w, b: (x * 2) @ (w + 1), (x * 2.0) @ (w + 1.0)),
        "twice": (
            lambda x, w, b: Tensor.concat([x @ w, (x + 1) @ w]),
            np.concatenate([expected, (x + 1.0) @ w]),
        ),
        "of a batch": (
            lambda x, w, b: x.reshape(2, 2, 1024) @ w,
            (x.reshape(2, 2, 1024).astype(np.float64) @ w),
        ),
    }
    for name, (compute, reference) in cases.items():
        result = _compute(lambda compute=compute: compute(*tensors))
        np.testing.assert_allclose(result, reference, rtol=1e-6, atol=1e-6, err_msg=name)


def test_sums_of_columns_of_a_large_matrix() -> None:
    x = _draw(1024, 4096)
    np.testing.assert_array_equal(_compute(lambda: Tensor(x).realize().sum(axis=0)), x.sum(0))
    largest = _compute(lambda: Tensor(x).realize().max(axis=0))
    np.testing.assert_array_equal(largest, x.max(0))
