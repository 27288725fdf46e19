"""Python's floats in lists keep the digits of float64 beside a tensor of float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import svod_tensor as sv
from svod_tensor import Tensor

NUMBERS = [0.1, 0.2, 0.7]
X = Tensor(np.array([0.1, 0.3, 0.7]))
MASK = Tensor([True, False, True])
MATRIX = Tensor(np.diag([0.1, 0.2, 0.7]))
ROWS = [[0.1, 0.0, 0.0], [0.0, 0.2, 0.0], [0.0, 0.0, 0.7]]

PAIRS = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "pow",
    "remainder",
    "atan2",
    "maximum",
    "minimum",
    "hypot",
    "logaddexp",
    "copysign",
    "nextafter",
    "xlogy",
    "equal",
    "less",
    "isclose",
    "isin",
    "searchsorted",
    "matmul",
    "kron",
    "convolve",
    "correlate",
    "polyval",
    "trapezoid",
    "cov",
    "corrcoef",
    "digitize",
    "intersect1d",
    "union1d",
    "setdiff1d",
    "setxor1d",
]
OTHERS: dict[str, Callable[[Any, Any], Tensor]] = {
    "where": lambda numbers, x: sv.where(MASK, numbers, x),
    "where the other way round": lambda numbers, x: sv.where(MASK, x, numbers),
    "concat": lambda numbers, x: sv.concat([numbers, x]),
    "stack": lambda numbers, x: sv.stack([x, numbers]),
    "clip": lambda numbers, x: sv.clip(x, numbers, numbers),
    "clip of numbers": lambda numbers, x: sv.clip(numbers, x, x),
    "lerp": lambda numbers, x: sv.lerp(numbers, numbers, x),
    "interp": lambda numbers, x: sv.interp(x, numbers, numbers),
    "interp at numbers": lambda numbers, x: sv.interp(numbers, x, numbers),
    "interp of values": lambda numbers, x: sv.interp(numbers, numbers, x),
    "tensordot": lambda numbers, x: sv.tensordot(numbers, x, axes=1),
    "vecdot": lambda numbers, x: sv.vecdot(numbers, x),
    "outer": lambda numbers, x: sv.outer(numbers, x),
    "linalg.vecdot": lambda numbers, x: sv.linalg.vecdot(x, numbers),
    "linalg.outer": lambda numbers, x: sv.linalg.outer(x, numbers),
    "linalg.tensordot": lambda numbers, x: sv.linalg.tensordot(x, numbers, axes=1),
    "operator": lambda numbers, x: numbers + x,
    "diff": lambda numbers, x: sv.diff(numbers, prepend=x),
    "cross": lambda numbers, x: sv.linalg.cross(numbers, x),
    "solve": lambda numbers, x: sv.linalg.solve(x * MATRIX, numbers),
    "lstsq": lambda numbers, x: sv.linalg.lstsq(x * MATRIX, numbers).x,
    "multi_dot": lambda numbers, x: sv.linalg.multi_dot([numbers, MATRIX, x]),
    "rel_entr": lambda numbers, x: sv.special.rel_entr(numbers, x),
    "complex": lambda numbers, x: x.complex(numbers),
}


def check(call: Callable[[Any, Any], Tensor], numbers: Any = NUMBERS, x: Any = X) -> None:
    found, expected = call(numbers, x), call(Tensor(np.array(numbers)), x)
    assert found.dtype is expected.dtype
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("name", PAIRS)
def test_a_list_has_the_precision_of_the_tensor_on_either_side(name: str) -> None:
    function = getattr(sv, name)
    check(function)
    check(lambda numbers, x: function(x, numbers))


@pytest.mark.parametrize("name", OTHERS)
def test_a_list_has_the_precision_of_the_other_operand(name: str) -> None:
    check(OTHERS[name])


def test_a_matrix_of_numbers_has_the_precision_of_the_right_hand_side() -> None:
    check(lambda rows, x: sv.linalg.solve(rows, x), ROWS)


def test_numbers_with_complex_tensors_have_their_precision() -> None:
    x = Tensor(np.array([0.1 + 1j, 0.3, 0.7]))
    check(sv.add, x=x)
    check(sv.add, [0.1 + 0.2j, 0.2, 0.7], x)
    check(sv.add, [0.1 + 0.2j, 0.2, 0.7])


def test_a_list_with_tensors_of_other_dtypes_has_the_default_dtype() -> None:
    for dtype, expected in (
        ("float32", "float32"),
        ("float16", "float32"),
        ("int32", "float32"),
        ("bool", "float32"),
    ):
        assert sv.add(Tensor([1, 0, 1]).astype(dtype), NUMBERS).dtype.name == expected
    assert sv.add([1, 2, 3], X).dtype is sv.float64
    # What has a dtype of its own keeps its values.
    array = np.array(NUMBERS, "float32")
    np.testing.assert_array_equal(sv.add(array, X).numpy(), array.astype("float64") + X.numpy())


def test_numbers_with_indices_and_weights_have_the_default_dtype() -> None:
    weights = Tensor(np.ones(3))
    assert sv.quantile(NUMBERS, weights).dtype is sv.float32
    assert sv.cov(NUMBERS, aweights=weights).dtype is sv.float32


def test_a_covariance_has_the_promoted_dtype() -> None:
    x = Tensor([1.0, 2.0, 4.0])
    assert x.cov(X).dtype is X.cov(x).dtype is sv.float64
    assert x.astype("float16").cov(x).dtype is sv.float32
