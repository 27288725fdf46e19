from __future__ import annotations

import operator
from typing import Any
from unittest import mock

import numpy as np
import pytest

from svod_tensor import Tensor
from svod_tensor.errors import DataError
from svod_testing import check, make_array


def test_numpy_operands_mix_with_tensors_on_both_sides(rng):
    a, b = make_array(rng, (3, 4), "float32"), make_array(rng, (4,), "float32")
    check(Tensor(a) + b, a + b)
    check(b + Tensor(a), a + b)
    check(np.float32(2) * Tensor(a), 2 * a)
    check(a @ Tensor(b), a @ b)


def test_reflected_operators_keep_their_order():
    x = Tensor([2, 3])
    assert (10 - x).tolist() == [8, 7]
    assert (7 // x).tolist() == [3, 2]
    assert (7 % x).tolist() == [1, 1]
    assert (2**x).tolist() == [4, 8]
    assert (1 << x).tolist() == [4, 8]
    assert [t.tolist() for t in divmod(x, 2)] == [[1, 1], [0, 1]]


class Reflecting:
    """An object with operators of its own."""

    def __radd__(self, other: object) -> str:
        return "radd"

    def __rmatmul__(self, other: object) -> str:
        return "rmatmul"

    def __gt__(self, other: object) -> str:
        return "gt"


class Declining(np.ndarray):
    """An array that asks others to leave their operators to it."""

    __array_ufunc__ = None

    def __radd__(self, other: object) -> str:  # type: ignore[override]
        return "declined"


def test_operators_defer_to_reflected_operators_of_the_operand() -> None:
    x = Tensor([1.0, 2.0])
    assert x + Reflecting() == "radd"
    assert x @ Reflecting() == "rmatmul"
    assert (x < Reflecting()) == "gt"
    assert x + np.zeros(2).view(Declining) == "declined"
    y = x
    y += Reflecting()
    assert y == "radd"
    assert x.tolist() == [1.0, 2.0]


def test_objects_that_compare_with_anything_do() -> None:
    x = Tensor([1.0, 1.0])
    assert x == pytest.approx(1.0)
    assert x == pytest.approx([1.0, 1.0])
    assert x == mock.ANY
    assert not x == object()  # noqa: SIM201
    assert x != object()
    assert not x == "text"  # noqa: SIM201
    with pytest.raises(TypeError, match="unsupported operand"):
        x - "text"  # type: ignore[operator]


@pytest.mark.parametrize(
    "apply",
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.floordiv,
        operator.mod,
        operator.pow,
        operator.matmul,
        operator.and_,
        operator.or_,
        operator.xor,
        operator.lshift,
        operator.rshift,
        operator.lt,
        operator.ge,
        divmod,
        operator.iadd,
        operator.imatmul,
        operator.ilshift,
    ],
)
@pytest.mark.parametrize("other", [object(), {}, int], ids=lambda v: type(v).__name__)
def test_an_operator_that_neither_side_has_is_a_type_error_of_python(
    apply: Any, other: Any
) -> None:
    x = Tensor([1, 2])
    with pytest.raises(TypeError, match=r"unsupported operand|not supported between"):
        apply(x, other)
    if not apply.__name__.startswith("i"):
        with pytest.raises(TypeError, match=r"unsupported operand|not supported between"):
            apply(other, x)


def test_a_list_with_an_invalid_item_is_an_error() -> None:
    with pytest.raises(DataError):
        Tensor([1, 2]).__add__([1, object()])  # type: ignore[list-item]
