"""The reference semantics of LOOP and SWITCH, against Python loops."""

from __future__ import annotations

import numpy as np
import pytest

from svod_dtype import DType, float32, int32, int64
from svod_ir import (
    BufferArg,
    Op,
    UOp,
    make_cast,
    make_expand,
    make_gather,
    make_reduce_axis,
    make_reshape,
    make_shrink,
    parse_graph,
    verify,
)
from svod_ir.evaluate import evaluate
from svod_ir.loops import make_counter, make_loop, make_parameter, make_switch
from svod_ir.testing.nodes import assign, bind


def tensor(number: int, *shape: int, dtype: DType = float32, device: str = "CPU") -> UOp:
    return make_reshape(
        UOp(Op.BUFFER, dtype, (), BufferArg(number, int(np.prod(shape)), device)), shape
    )


def run(node: UOp, **arrays: object) -> np.ndarray:
    """Evaluate a graph with BUFFERs passed by id, as `b1=array`."""
    verify(UOp.sink(node), "graph")
    memory = {b: np.array(arrays[f"b{b.arg.id}"], b.dtype.numpy) for b in node.iter_ops(Op.BUFFER)}
    return evaluate(node, {**memory, **{k: v for k, v in arrays.items() if not k[1:].isdigit()}})


ROWS = np.arange(12, dtype=np.float32).reshape(4, 3) - 5
START = np.array([1.0, 2.0, 3.0], np.float32)


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_scan_carries_and_stacks(is_reversed: bool) -> None:
    init, rows, factor = tensor(1, 3), tensor(2, 4, 3), tensor(3)
    total, row, scale = (
        make_parameter(init, 0),
        make_parameter(rows, 1, is_slice=True),
        make_parameter(factor, 2),
    )
    following = total * scale + row
    results = make_loop(
        UOp.sink(following, following - total),
        4,
        (init, rows, factor),
        n_carried=1,
        n_sliced=1,
        is_reversed=is_reversed,
    )
    state, stacked = START, np.zeros((4, 3), np.float32)
    for i in reversed(range(4)) if is_reversed else range(4):
        stacked[i] = state * 0.5 + ROWS[i] - state
        state = state * np.float32(0.5) + ROWS[i]
    actual = [run(result, b1=START, b2=ROWS, b3=np.float32(0.5)) for result in results]
    np.testing.assert_array_equal(actual[0], state)
    np.testing.assert_array_equal(actual[1], stacked)


@pytest.mark.parametrize("count", [-3, 0, 1, 7])
def test_the_trip_count_may_be_computed(count: int) -> None:
    init, limit = tensor(1, 3), tensor(2, dtype=int64)
    (last,) = make_loop(UOp.sink(make_parameter(init, 0) + 1.0), limit, (init,), n_carried=1)
    np.testing.assert_array_equal(run(last, b1=START, b2=np.int64(count)), START + max(count, 0))


def test_an_empty_loop_returns_the_initial_values_and_stacks_nothing() -> None:
    init = tensor(1, 3)
    inside = make_parameter(init, 0)
    last, stacked = make_loop(UOp.sink(inside + 1.0, inside * 2.0), 0, (init,), n_carried=1)
    np.testing.assert_array_equal(run(last, b1=START), START)
    assert run(stacked, b1=START).shape == (0, 3)


def test_the_counter_counts_iterations_in_the_order_of_execution() -> None:
    init, table = tensor(1, 3), tensor(2, 4)
    counter = make_counter("loop_counter_0", 4)
    entry = make_reshape(
        make_gather(make_parameter(table, 1), make_reshape(make_cast(counter, int32), (1,)), 0), ()
    )
    body = UOp.sink(make_parameter(init, 0) * entry, make_cast(counter, float32))
    last, numbers = make_loop(
        body, 4, (init, table), n_carried=1, counter="loop_counter_0", is_reversed=True
    )
    np.testing.assert_array_equal(run(last, b1=START, b2=[2.0, 3.0, 5.0, 7.0]), START * 210)
    np.testing.assert_array_equal(run(numbers, b1=START, b2=[2.0, 3.0, 5.0, 7.0]), [3, 2, 1, 0])


def test_a_conditional_loop_ends_after_an_iteration_with_a_false_condition() -> None:
    init = tensor(1)
    following = make_parameter(init, 0) * 2.0
    (last,) = make_loop(
        UOp.sink(following, following < 100.0), 1 << 30, (init,), n_carried=1, is_conditional=True
    )
    assert run(last, b1=np.float32(3.0)) == 192.0


def test_carries_may_be_swapped() -> None:
    x, y = tensor(1, 3), tensor(2, 3)
    swapped = make_loop(
        UOp.sink(make_parameter(y, 1), make_parameter(x, 0)), 3, (x, y), n_carried=2
    )
    np.testing.assert_array_equal(run(swapped[0], b1=START, b2=-START), -START)
    np.testing.assert_array_equal(run(swapped[1], b1=START, b2=-START), START)


def test_a_carried_value_may_be_written_in_place() -> None:
    table, rows = tensor(1, 4, 3), tensor(2, 4, 3)
    counter = make_counter("loop_counter_0", 4)
    state, row = make_parameter(table, 0), make_parameter(rows, 1, is_slice=True)
    target = make_shrink(state, [(counter, counter + 1), (0, 3)])
    before = make_expand(make_reduce_axis(state, Op.ADD, (0,)), (1, 3))
    written = make_reshape(
        state.source.after(assign(target, make_reshape(row, (1, 3)) + before)), (4, 3)
    )
    (last,) = make_loop(
        UOp.sink(written), 4, (table, rows), n_carried=1, n_sliced=1, counter="loop_counter_0"
    )
    expected = np.ones((4, 3), np.float32)
    for i in range(4):
        expected[i] = ROWS[i] + expected.sum(0)
    memory = np.ones((4, 3), np.float32)
    np.testing.assert_array_equal(run(last, b1=memory, b2=ROWS), expected)
    assert (memory == 1).all()


def test_loops_nest_and_inner_ones_may_read_the_counter_of_outer_ones() -> None:
    init = tensor(1, 3)
    outer, inner = make_counter("loop_counter_0", 4), make_counter("loop_counter_1", 4)
    state = make_parameter(init, 0)
    added = make_parameter(state, 0) + make_cast(outer * 10 + inner, float32)
    (inside,) = make_loop(UOp.sink(added), outer, (state,), n_carried=1, counter="loop_counter_1")
    (last,) = make_loop(UOp.sink(inside * 2.0), 4, (init,), n_carried=1, counter="loop_counter_0")
    expected = START
    for i in range(4):
        for j in range(i):
            expected = expected + np.float32(10 * i + j)
        expected = expected * 2
    np.testing.assert_array_equal(run(last, b1=START), expected)


def test_variables_bound_by_operands_reach_the_body() -> None:
    init, n = tensor(1, 3), UOp.variable("n", 1, 9)
    bound = bind(n, 5)
    (last,) = make_loop(
        UOp.sink(make_parameter(init, 0) * make_cast(n, float32)), 2, (init, bound), n_carried=1
    )
    np.testing.assert_array_equal(run(last, b1=START), START * 25)
    (free,) = make_loop(
        UOp.sink(make_parameter(init, 0) * make_cast(n, float32)), n, (init, n), n_carried=1
    )
    np.testing.assert_array_equal(run(free, b1=START, n=3), START * 27)


def test_sizes_may_be_variables() -> None:
    memory = UOp(Op.BUFFER, float32, (), BufferArg(1, 12, "CPU"))
    n = bind(UOp.variable("n", 1, 4), 2)
    rows = make_reshape(make_shrink(memory, [(0, n * 3)]), (n, 3))
    (doubled,) = make_loop(
        UOp.sink(make_parameter(rows, 0, is_slice=True) * 2.0), n, (rows,), n_carried=0, n_sliced=1
    )
    np.testing.assert_array_equal(run(doubled, b1=ROWS), ROWS[:2] * 2)


def test_shards_are_separate_operands() -> None:
    x = UOp(
        Op.MULTI,
        float32,
        (UOp(Op.MSTACK, float32, (tensor(1, 4, 2), tensor(2, 4, 1, device="CPU:1"))),),
        1,
    )
    init = UOp(
        Op.MULTI,
        float32,
        (UOp(Op.MSTACK, float32, (tensor(3, 2), tensor(4, 1, device="CPU:1"))),),
        0,
    )
    total, row = make_parameter(init, 0), make_parameter(x, 2, is_slice=True)
    last, doubled = make_loop(
        UOp.sink(total + row, row * 2.0), 4, (init, x), n_carried=1, n_sliced=1
    )
    inputs = {"b1": ROWS[:, :2], "b2": ROWS[:, 2:], "b3": START[:2], "b4": START[2:]}
    np.testing.assert_array_equal(run(last, **inputs), START + ROWS.sum(0))
    np.testing.assert_array_equal(run(doubled, **inputs), ROWS * 2)


@pytest.mark.parametrize(
    ("choice", "expected"), [(-5, START), (0, START), (1, -START), (2, START * 2), (9, START * 2)]
)
def test_the_index_of_a_switch_is_clipped(choice: int, expected: np.ndarray) -> None:
    x, where = tensor(1, 3), tensor(2, dtype=int32)
    inside = make_parameter(x, 0)
    (actual,) = make_switch(
        where, [UOp.sink(inside), UOp.sink(-inside), UOp.sink(inside * 2.0)], (x,)
    )
    np.testing.assert_array_equal(run(actual, b1=START, b2=np.int32(choice)), expected)


def test_memory_can_be_sliced() -> None:
    loop = parse_graph("""
        %0 = CONST index [4]
        %1 = PARAM f32 [0, 3, "CPU"]
        %2 = PARAM f32 [1, 12, "CPU"]
        %3 = PARAM f32 [1, 3, "CPU"]
        %4 = ADD f32 %1, %3
        %5 = SINK %4
        %6 = LOOP %0, %1, %2 [%5, 1, 1]
        %7 = RESULT f32 %6 [0]
    """)
    actual = evaluate(loop, {0: np.zeros(3, np.float32), 1: np.arange(12, dtype=np.float32)})
    np.testing.assert_array_equal(actual, [18, 22, 26])
