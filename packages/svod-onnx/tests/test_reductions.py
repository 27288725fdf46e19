"""Reductions and softmax beyond the conformance suite: old versions, and integers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest

RunNode = Callable[..., list[np.ndarray]]


def _apply_to_rows(operator: str, rows: np.ndarray) -> np.ndarray:
    if operator == "Hardmax":
        return np.eye(rows.shape[1], dtype=rows.dtype)[rows.argmax(1)]
    moved = rows - rows.max(1, keepdims=True)
    logs = moved - np.log(np.exp(moved).sum(1, keepdims=True))
    return logs if operator == "LogSoftmax" else np.exp(logs)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(
    ("version", "axis"),
    [(1, None), (1, 0), (1, 2), (11, None), (11, 0), (11, 1), (11, 2), (11, -1), (11, -2)],
)
def test_up_to_version_12_all_axes_from_axis_on_are_normalized(
    run_node: RunNode, operator: str, version: int, axis: int | None
) -> None:
    x = np.random.default_rng(3).standard_normal((2, 3, 4)).astype(np.float32)
    (result,) = run_node(operator, [x], version, **({} if axis is None else {"axis": axis}))
    n_rows = prod(x.shape[: (1 if axis is None else axis % 3)])
    expected = _apply_to_rows(operator, x.reshape(n_rows, -1)).reshape(x.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_from_version_13_on_a_single_axis_is_normalized(
    run_node: RunNode, operator: str, axis: int | None
) -> None:
    x = np.random.default_rng(4).standard_normal((2, 3, 4)).astype(np.float32)
    (result,) = run_node(operator, [x], 13, **({} if axis is None else {"axis": axis}))
    last = np.moveaxis(x, -1 if axis is None else axis, -1)
    expected = _apply_to_rows(operator, last.reshape(-1, last.shape[-1])).reshape(last.shape)
    np.testing.assert_allclose(
        result, np.moveaxis(expected, -1, -1 if axis is None else axis), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("version", [11, 13])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_integer_means_are_truncated_and_exact(
    run_node: RunNode, dtype: type, version: int
) -> None:
    large = (1 << 30) + 1
    x = np.array([[1, 2, 2], [large, large, large], [large, large + 1, large + 1]], dtype)
    (result,) = run_node("ReduceMean", [x], version, axes=[1], keepdims=0)
    np.testing.assert_array_equal(result, np.array([1, large, large], dtype), strict=True)
    if np.issubdtype(dtype, np.signedinteger):
        (result,) = run_node("ReduceMean", [-x], version, axes=[1], keepdims=0)
        np.testing.assert_array_equal(result, np.array([-1, -large, -large], dtype), strict=True)


@pytest.mark.parametrize(
    ("operator", "formula"),
    [
        ("ReduceL2", lambda x: np.sqrt((x**2).sum(1))),
        ("ReduceLogSum", lambda x: np.log(x.sum(1))),
        ("ReduceLogSumExp", lambda x: np.log(np.exp(x).sum(1))),
    ],
)
def test_roots_and_logarithms_of_integers_are_truncated(
    run_node: RunNode, operator: str, formula: Callable[[np.ndarray], np.ndarray]
) -> None:
    x = np.array([[3, 5, 4], [1, 1, 1], [20, 2, 1]], np.int32)
    (result,) = run_node(operator, [x], 13, axes=[1], keepdims=0)
    np.testing.assert_array_equal(
        result, formula(x.astype(np.float64)).astype(np.int32), strict=True
    )
