"""Reductions that become expressions, against the meaning of the loop."""

from __future__ import annotations

import numpy as np
import pytest

from svod_dtype import DType, bool_, float32, index, int8, int32, int64, uint8, uint64
from svod_ir import AxisType, Op, UOp, graph_rewrite
from svod_ir.evaluate import evaluate
from svod_ir.testing import nodes
from svod_ir.testing.nodes import alu, param
from svod_schedule.symbolic import REDUCTIONS, SYMBOLIC

RULES = SYMBOLIC + REDUCTIONS
N = 5
R = UOp.range(N, 0, AxisType.REDUCE)
Q = UOp.range(3, 1, AxisType.REDUCE)
TABLE = param(0, N)
COUNTS = param(1, N, int32)
SPECIAL = np.array([1.5, -0.0, np.nan, np.inf, -7.0], dtype=np.float32)


def reduce_over(x: UOp, *ranges: UOp, op: Op = Op.ADD) -> UOp:
    return nodes.reduce_over(x, *ranges, op=op)


def chosen(condition: UOp, x: UOp) -> UOp:
    return alu(Op.WHERE, condition, x, UOp.const(x.dtype, 0))


def is_loop(graph: UOp) -> bool:
    return any(n.op is Op.REDUCE for n in graph.toposort())


def check_equal(before: UOp, after: UOp, variables: dict[UOp, int]) -> None:
    inputs = {TABLE: SPECIAL, COUNTS: np.array([3, -2, 0, 7, 127], np.int32), **variables}
    expected, found = evaluate(before, inputs), evaluate(after, inputs)
    np.testing.assert_array_equal(found, expected)
    if expected.dtype.kind == "f":
        assert np.isnan(expected) or np.signbit(found) == np.signbit(expected)


@pytest.mark.parametrize("dtype", [index, int8, int32, int64])
def test_a_sum_over_one_chosen_element_is_a_gated_read(dtype: DType) -> None:
    e = UOp.variable("e", -3, 9, dtype)
    before = reduce_over(chosen(R.cast(dtype).eq(e), TABLE.index(R)), R)
    after = graph_rewrite(RULES, before)
    assert not is_loop(after)
    assert all(n.gate is not None for n in after.toposort() if n.op is Op.INDEX)
    for value in range(-3, 10):
        check_equal(before, after, {e: value})


def test_the_counter_may_stand_on_either_side_with_an_offset() -> None:
    e = UOp.variable("e", -3, 9)
    for condition in ((R + 2).eq(e), e.eq(R + 2), (3 - R).eq(e), (R * 2 + 1).eq(R + e)):
        before = reduce_over(chosen(condition, TABLE.index(R)), R)
        after = graph_rewrite(RULES, before)
        assert not is_loop(after)
        for value in range(-3, 10):
            check_equal(before, after, {e: value})


def test_other_conditions_and_counters_stay() -> None:
    e = UOp.variable("e", -1, 6)
    before = reduce_over(chosen(R.eq(e) & (Q < 2), TABLE.index(R)), Q, R)
    after = graph_rewrite(RULES, before)
    assert {n for n in after.toposort() if n.op is Op.RANGE} == {Q}
    for value in range(-1, 7):
        check_equal(before, after, {e: value})


def test_the_other_branch_may_be_the_chosen_one() -> None:
    e = UOp.variable("e", -1, 6)
    before = reduce_over(alu(Op.WHERE, R.ne(e), UOp.const(float32, 0.0), TABLE.index(R)), R)
    after = graph_rewrite(RULES, before)
    assert not is_loop(after)
    for value in range(-1, 7):
        check_equal(before, after, {e: value})


def test_an_integer_times_a_one_hot_column_is_a_read() -> None:
    e = UOp.variable("e", -1, 6)
    before = reduce_over(COUNTS.index(R) * R.eq(e).cast(int32), R)
    after = graph_rewrite(RULES, before)
    assert not is_loop(after)
    for value in range(-1, 7):
        check_equal(before, after, {e: value})


def test_a_float_times_a_one_hot_column_stays_a_loop() -> None:
    # The other elements may be NaN, and NaN times 0 is NaN.
    e = UOp.variable("e", 0, 4)
    assert is_loop(graph_rewrite(RULES, reduce_over(TABLE.index(R) * R.eq(e).cast(float32), R)))


def test_a_position_that_depends_on_the_counter_stays_a_loop() -> None:
    before = reduce_over(chosen(R.eq(COUNTS.index(R).cast(index)), TABLE.index(R)), R)
    assert is_loop(graph_rewrite(RULES, before))


def test_a_position_that_index_does_not_hold_stays_a_loop() -> None:
    e = UOp.variable("e", 0, 2**64 - 1, uint64)
    assert is_loop(
        graph_rewrite(RULES, reduce_over(chosen(R.cast(uint64).eq(e), TABLE.index(R)), R))
    )


@pytest.mark.parametrize("dtype", [int32, uint8])
def test_counting_up_to_a_limit_is_arithmetic(dtype: DType) -> None:
    e, c = UOp.variable("e", -3, 9), UOp.variable("c", 0, 100, dtype)
    conditions = (
        e > R,
        e >= R,
        e < R,
        e <= R,
        (e > R) & (R >= 2),
        (R < 4) & (e < R),
        ~(e > R),
        (e - R) < 2,
        (e > R) & (e < 4),
    )
    for condition in conditions:
        before = reduce_over(chosen(condition, c), R)
        after = graph_rewrite(RULES, before)
        assert not is_loop(after), condition
        for value in range(-3, 10):
            check_equal(before, after, {e: value, c: 100})


def test_a_prefix_sum_of_ones_is_the_counter_of_the_prefix() -> None:
    i = UOp.range(N, 2, AxisType.LOOP)
    assert graph_rewrite(
        RULES, reduce_over(chosen(i >= R, UOp.const(index, 1)), R)
    ) is graph_rewrite(SYMBOLIC, i + 1)


def test_equal_terms_are_multiplied_or_taken_once() -> None:
    c = UOp.variable("c", -100, 100, int8)
    n = UOp.range(UOp.variable("n", 1, 8), 3, AxisType.REDUCE)
    assert graph_rewrite(RULES, reduce_over(c, R)) is graph_rewrite(SYMBOLIC, c * 5)
    for before in (
        reduce_over(c, R),
        reduce_over(c, R, Q),
        reduce_over(TABLE.index(UOp.const(index, 4)), R, op=Op.MAX),
    ):
        after = graph_rewrite(RULES, before)
        assert not is_loop(after)
        check_equal(before, after, {c: -100})
    assert not is_loop(graph_rewrite(RULES, reduce_over(c, n, op=Op.MIN)))
    assert not is_loop(graph_rewrite(RULES, reduce_over(UOp.variable("b", 0, 1, bool_), R)))


def test_a_sum_of_equal_floats_keeps_its_loop() -> None:
    assert is_loop(graph_rewrite(RULES, reduce_over(TABLE.index(UOp.const(index, 4)), R)))


def test_a_loop_that_may_be_empty_keeps_its_identity() -> None:
    n = UOp.range(UOp.variable("n", 0, 8), 3, AxisType.REDUCE)
    c = UOp.variable("c", -100, 100, int32)
    assert is_loop(graph_rewrite(RULES, reduce_over(c, n, op=Op.MAX)))


def test_only_the_counters_that_are_free_are_taken_away() -> None:
    before = reduce_over(COUNTS.index(R), R, Q)
    after = graph_rewrite(RULES, before)
    assert {n for n in after.toposort() if n.op is Op.RANGE} == {R}
    check_equal(before, after, {})
