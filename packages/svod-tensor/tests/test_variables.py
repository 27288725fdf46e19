"""What a variable is called, and which variable a name stands for."""

from __future__ import annotations

import numpy as np
import pytest

from svod_ir import OperandError
from svod_tensor import Tensor, Variable, explain, jit
from svod_tensor.errors import (
    BoundsConflictError,
    DonationError,
    VariableBoundsError,
    VariableConflictError,
    VariableNameError,
)
from svod_testing import check

SMALL, LARGE = Variable("n", 1, 8), Variable("n", 1, 16)
ROWS = np.arange(16, dtype=np.float32)


@pytest.mark.parametrize("name", ["", "n m", "3n", "n-1", 'n"; //', "größe", "n@1", "n\n", 3, None])
def test_a_name_that_is_not_an_identifier_is_an_error(name: str) -> None:
    with pytest.raises(VariableNameError, match="is not an identifier") as caught:
        Variable(name, 1, 8)
    assert isinstance(caught.value, ValueError)


def test_the_name_core_id_is_reserved() -> None:
    with pytest.raises(VariableNameError, match="variable name 'core_id' is reserved"):
        Variable("core_id", 0, 8)


@pytest.mark.parametrize(
    "name", ["int", "for", "part", "buffers", "values", "data0", "begin1", "lane", "position", "_"]
)
def test_kernels_do_not_depend_on_names_of_variables(name: str) -> None:
    n = Variable(name, 1, 8)
    x = Tensor(ROWS.reshape(2, 8))
    for value in (3, 8):
        check(x[1, : n.bind(value)] + n.bind(value) + x[0, 2], ROWS[8 : 8 + value] + value + 2)
        list(explain.explain([x[1, : n.bind(value)].sum() * n.bind(value), x[1, 2:4] + 1]))


def test_bounds_and_values_are_integers() -> None:
    n = Variable("n", np.int64(1), np.int32(8))
    assert (n.low, n.high, n.bind(np.uint8(3)) is n.bind(3)) == (1, 8, True)
    with pytest.raises(
        OperandError, match=r"Variable: expected integers of 64 bits as bounds, got 1\.5"
    ):
        Variable("n", 1.5, 8)
    with pytest.raises(OperandError, match=r"bind: expected an integer, got 2\.5"):
        n.bind(2.5)
    with pytest.raises(
        OperandError,
        match="Variable: expected integers of 64 bits as bounds, got 1180591620717411303424",
    ):
        Variable("n", 1, 1 << 70)
    with pytest.raises(VariableBoundsError, match="9 is outside 1 to 8"):
        n.bind(9)


def test_equal_variables_are_one() -> None:
    n, same = Variable("n", 1, 8), Variable("n", 1, 8)
    x = Tensor(ROWS)
    check(x[: n.bind(3)] + x[: same.bind(3)], ROWS[:3] * 2)


MESSAGE = "variable 'n' goes from 1 to 8 and from 1 to 16 in one computation"


def test_two_variables_of_one_name_in_a_computation_are_an_error() -> None:
    x = Tensor(ROWS)
    # In one graph, in several results, and in a plan.
    with pytest.raises(BoundsConflictError, match=MESSAGE) as caught:
        (x[: SMALL.bind(8)].sum() + x[: LARGE.bind(8)].sum()).realize()
    assert isinstance(caught.value, ValueError)
    with pytest.raises(BoundsConflictError, match="variable 'n' goes from"):
        Tensor.realize_batch([x[: SMALL.bind(3)] + 1, x[: LARGE.bind(3)] + 1])
    with pytest.raises(BoundsConflictError, match="variable 'n' goes from"):
        Tensor.prepare_batch([x[: SMALL.bind(3)] + 1, (x + LARGE.bind(3))])
    # The elements in one tensor, and the size of another.
    with pytest.raises(BoundsConflictError, match="variable 'n' goes from"):
        (x[: SMALL.bind(3)] * LARGE.bind(3)).realize()


@pytest.mark.parametrize(("low", "high"), [(1, 7), (0, 8), (2, 8)])
def test_variables_of_one_name_differ_where_one_bound_does(low: int, high: int) -> None:
    other = Variable("n", low, high)
    with pytest.raises(
        BoundsConflictError, match=f"variable 'n' goes from .* 1 to 8.*|from {low} to {high}"
    ):
        (Tensor(ROWS)[: SMALL.bind(3)].sum() * other.bind(3)).realize()


def test_two_variables_of_one_name_in_a_call_are_an_error() -> None:
    add = jit(lambda x, y: x.sum() + y.sum())
    x = Tensor(ROWS[:8].copy())
    for value in (3, 12):
        with pytest.raises(BoundsConflictError, match=MESSAGE):
            add(x[: SMALL.bind(3)], Tensor(ROWS)[: LARGE.bind(value)])
    check(add(x[: SMALL.bind(3)], Tensor(ROWS)[: SMALL.bind(3)]), np.float32(6))


def test_a_call_gives_each_variable_one_value() -> None:
    add = jit(lambda x, y: x.sum() + y)
    x = Tensor(ROWS)
    check(add(x[: SMALL.bind(3)], SMALL.bind(3)), np.float32(6))
    check(add(x[: SMALL.bind(5)], SMALL.bind(5)), np.float32(15))
    with pytest.raises(VariableConflictError, match="variable 'n' is bound to 3 and to 5"):
        add(x[: SMALL.bind(3)], SMALL.bind(5))
    join = jit(lambda x, y: (x.sum(), y.sum()))
    join(x[: SMALL.bind(3)], x[: SMALL.bind(3)])
    with pytest.raises(VariableConflictError, match="variable 'n' is bound to 4 and to 5"):
        join(x[: SMALL.bind(4)], x[: SMALL.bind(5)])


def test_captured_tensors_keep_their_own_variables() -> None:
    x = Tensor(ROWS)
    held = x[: LARGE.bind(12)]
    with pytest.raises(BoundsConflictError, match="variable 'n' goes from"):
        jit(lambda y: (y + 1, held))(x[: SMALL.bind(3)])
    with pytest.raises(BoundsConflictError, match="variable 'n' goes from"):
        jit(lambda y: y.sum() + held.sum())(x[: SMALL.bind(3)])


def test_a_captured_function_gets_values_computed_from_variables_at_each_call() -> None:
    add = jit(lambda x, k: x[:2] + k)
    for value in (3, 5):
        check(add(Tensor(ROWS), SMALL.bind(value) * 2 + 1), ROWS[:2] + 2 * value + 1)
    assert add.n_captures == 1


def test_a_captured_variable_keeps_its_value() -> None:
    x = Tensor(ROWS)
    held, n = x[: SMALL.bind(3)], SMALL.bind(3)
    total = jit(lambda x: x.sum() + held.sum())
    plus = jit(lambda x: x.sum() + n)
    for f, wanted in ((total, 6), (plus, 6)):
        check(f(x[:3]), np.float32(wanted))
        check(f(x[: SMALL.bind(3)]), np.float32(wanted))
        with pytest.raises(VariableConflictError, match="variable 'n' is bound to 5 and to 3"):
            f(x[: SMALL.bind(5)])
        check(f(x[: SMALL.bind(3)]), np.float32(wanted))


def test_the_size_of_a_captured_plan_is_from_its_last_execution() -> None:
    x = Tensor(ROWS)
    held = x[: SMALL.bind(3)] * 2
    plan = held.prepare()
    total = jit(lambda y: (held.sum() + y, held))
    for value in (3, 8, 1):
        plan.execute_with_vars({"n": value})
        found, same = total(Tensor([1.0]))
        check(found, np.array([ROWS[:value].sum() * 2 + 1], np.float32))
        check(same, ROWS[:value] * 2)


def test_a_prefix_of_larger_memory_is_an_ordinary_argument() -> None:
    @jit
    def fill(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        x.assign(x * 2)
        return x.sum(), y

    for size in (8, 16, 32):
        a = np.arange(size, dtype=np.float32)
        x = Tensor(a).clone().realize()
        for value in (2, 7):
            total, same = fill(x[: SMALL.bind(value)], x[: SMALL.bind(value)])
            a[:value] *= 2
            check(total, a[:value].sum())
            check(same, a[:value])
            check(x, a)
    with pytest.raises(DonationError, match="it is a part of larger memory"):
        jit(lambda x: x + 1, donate=0)(x[: SMALL.bind(3)])
    with pytest.raises(DonationError, match="it is a part of larger memory"):
        (x[: SMALL.bind(3)] + 1).prepare(donate=[x[: SMALL.bind(3)]])
