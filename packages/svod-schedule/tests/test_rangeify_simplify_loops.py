"""Loops and choices keep their meaning when they are simplified, and nothing is left to
simplify.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from svod_dtype import float32, int8, int32, int64
from svod_ir import (
    Op,
    UOp,
    make_cast,
    make_expand,
    make_flip,
    make_gather,
    make_iota,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_scatter_add,
    make_shrink,
    print_graph,
    verify,
)
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.loops import iter_nodes, make_counter, make_loop, make_parameter, make_switch
from svod_ir.testing import assert_same, count_examples, loops
from svod_ir.testing.nodes import assign, bind, buffer, contiguous
from svod_ir.testing.programs import tensor
from svod_schedule.rangeify.simplify_loops import simplify_loops

X, ROWS, W = tensor(1, 2, 3), tensor(2, 100, 2, 3), tensor(3, 2, 3)
STATE, ROW, CONSTANT = (
    make_parameter(X, 0),
    make_parameter(ROWS, 1, is_slice=True),
    make_parameter(W, 2),
)


@pytest.mark.parametrize("limit", [0, 64, 2000])
@settings(
    max_examples=count_examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(graph=loops())
def test_random_loops_keep_their_meaning(limit: int, graph: UOp) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("svod_schedule.rangeify.loops.unroll_loops.MAX_UNROLLED_NODES", limit)
        check(*graph.src)


def check(*results: UOp) -> list[UOp]:
    """The loops and choices that are left of some results."""
    sink = UOp.sink(*(x if x.op is Op.CONTIGUOUS else contiguous(x) for x in results))
    verify(sink, "graph")
    simpler = simplify_loops(sink)
    verify(simpler, "graph")
    assert_same(sink, simpler)
    assert [x.shape for x in simpler.src] == [x.shape for x in sink.src]
    assert simplify_loops(simpler) is simpler, print_graph(simpler)
    return [n for n in iter_nodes(simpler) if n.op in (Op.LOOP, Op.SWITCH)]


def total(x: UOp) -> UOp:
    return make_reshape(make_reduce_axis(x, Op.ADD, range(len(x.shape))), ())


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda row, w: row * w + total(row),
        lambda row, w: make_reshape(make_permute(row, (1, 0)), (2, 3)) * total(w),
        lambda row, w: make_flip(row, (False, True)),
        lambda row, w: make_shrink(make_pad(row, [(1, 0), (0, 2)]), [(0, 2), (1, 4)]),
        lambda row, w: make_scan_axis(row, Op.ADD, 1),
        lambda row, w: make_gather(row, make_iota(2, int32), 1),
        lambda row, w: make_gather(w, make_cast(row, int32), 0),
        lambda row, w: make_scatter_add(row, make_cast(w, int32), 0, 4),
        lambda row, w: (row < w).where(row, w),
        lambda row, w: contiguous(row),
        lambda row, w: make_cast(total(row) * 3.0, int64),
        lambda row, w: make_expand(make_reshape(total(row), (1, 1)), (2, 3)) + w,
    ],
)
def test_stacked_values_that_depend_only_on_slices_are_computed_without_a_loop(
    make: Callable[[UOp, UOp], UOp], is_reversed: bool
) -> None:
    body = UOp.sink(STATE + ROW, make(ROW, CONSTANT))
    _, stacked = make_loop(
        body, 100, (X, ROWS, W), n_carried=1, n_sliced=1, is_reversed=is_reversed
    )
    assert not check(stacked)


def test_sums_of_slices_are_computed_before_the_loop_that_reads_them() -> None:
    body = UOp.sink(STATE * total(ROW * CONSTANT))
    (last,) = make_loop(body, 100, (X, ROWS, W), n_carried=1, n_sliced=1, is_reversed=True)
    (loop,) = check(last)
    assert not list(loop.arg.body.iter_ops(Op.REDUCE_AXIS))
    assert (len(loop.src), loop.arg.n_sliced) == (3, 1)


def test_integers_are_widened_inside_the_loop() -> None:
    total, rows, weight = (
        tensor(1, 2, 3, dtype=int32),
        tensor(2, 100, 2, 3, dtype=int8),
        tensor(3, 2, 3, dtype=int8),
    )
    wide_rows, wide_weight = make_cast(rows, int32), make_cast(weight, int32)
    row, factor = make_parameter(wide_rows, 1, is_slice=True), make_parameter(wide_weight, 2)
    body = UOp.sink(make_parameter(total, 0) * 3 + row * factor)
    (last,) = make_loop(body, 100, (total, wide_rows, wide_weight), n_carried=1, n_sliced=1)
    (loop,) = check(last)
    assert loop.src[2:] == (rows, weight)


def test_a_conditional_loop_reads_no_more_slices_than_it_needs() -> None:
    following = STATE + total(ROW)
    body = UOp.sink(following, total(following) < 50.0)
    (last,) = make_loop(body, 100, (X, ROWS), n_carried=1, n_sliced=1, is_conditional=True)
    (loop,) = check(last)
    assert list(loop.arg.body.iter_ops(Op.REDUCE_AXIS))


def test_a_carry_that_only_its_next_value_reads_is_removed() -> None:
    other = make_parameter(W, 1)
    last, _ = make_loop(UOp.sink(STATE * 0.5, other + STATE), 100, (X, W), n_carried=2)
    (loop,) = check(last)
    assert loop.arg.n_carried == 1
    last, _ = make_loop(UOp.sink(STATE * 0.5 + other, other + STATE), 100, (X, W), n_carried=2)
    (loop,) = check(last)
    assert loop.arg.n_carried == 2


def test_sizes_and_values_of_the_counter_are_constants_in_an_unrolled_loop() -> None:
    counter, inner = make_counter("loop_counter_0", 3), make_counter("loop_counter_1", 3)
    part = make_shrink(make_parameter(W, 1), [(0, 2), (counter, counter + 1)])
    added = make_parameter(STATE, 0) + make_cast(inner + counter * 2, float32)
    (nested,) = make_loop(UOp.sink(added), counter, (STATE,), n_carried=1, counter="loop_counter_1")
    body = UOp.sink(nested + make_expand(part, (2, 3)))
    (last,) = make_loop(body, 3, (X, W), n_carried=1, counter="loop_counter_0")
    assert not check(last)


def test_slices_of_constants_follow_the_counter() -> None:
    numbers = make_cast(make_iota(100, int32), float32)
    number = make_parameter(numbers, 1, is_slice=True)
    (last,) = make_loop(UOp.sink(STATE * number), 100, (X, numbers), n_carried=1, n_sliced=1)
    (loop,) = check(last)
    assert (len(loop.src), loop.arg.counter) == (2, "loop_counter_0")


def test_counters_of_nested_loops_have_distinct_names() -> None:
    numbers = make_cast(make_iota(100, int32), float32)
    inside = make_loop(
        UOp.sink(make_parameter(STATE, 0) + make_parameter(numbers, 1, is_slice=True)),
        100,
        (STATE, numbers),
        n_carried=1,
        n_sliced=1,
    )
    (last,) = make_loop(
        UOp.sink(inside[0] * make_parameter(numbers, 1, is_slice=True)),
        100,
        (X, numbers),
        n_carried=1,
        n_sliced=1,
    )
    counters = {loop.arg.counter for loop in check(last)}
    assert len(counters) == 2
    assert None not in counters


def test_a_trip_count_may_be_a_variable() -> None:
    n = UOp.variable("n", 0, 100)
    given = make_reshape(make_shrink(buffer(2, 600), [(0, n * 6)]), (n, 2, 3))
    row = make_parameter(given, 1, is_slice=True)
    last, stacked, same = make_loop(
        UOp.sink(STATE + total(row), row * 2.0, CONSTANT), n, (X, given, W), n_carried=1, n_sliced=1
    )
    (loop,) = check(last, stacked, same)
    assert not list(loop.arg.body.iter_ops(Op.REDUCE_AXIS))


def test_values_of_symbolic_size_are_read_as_they_are() -> None:
    n = UOp.variable("n", 1, 8)
    whole = make_shrink(buffer(5, 8), [(0, n)])
    inside = make_parameter(whole, 1)
    (last,) = make_loop(UOp.sink(STATE + total(inside)), 100, (X, whole, n), n_carried=1)
    (loop,) = check(last)
    assert not list(loop.arg.body.iter_ops(Op.REDUCE_AXIS))
    (once,) = make_loop(UOp.sink(STATE + total(inside)), 1, (X, whole, n), n_carried=1)
    assert not check(once)


def test_sums_of_symbolic_size_are_stored_before_they_are_padded() -> None:
    n = UOp.variable("n", 1, 8)
    products = make_reshape(make_shrink(buffer(7, 4800), [(0, n * 600)]), (100, n, 6))
    sums = make_reshape(make_reduce_axis(products, Op.ADD, (2,)), (100, n))
    initial = make_shrink(buffer(5, 8), [(0, n)])
    carry = make_parameter(initial, 0)
    for operand, is_stored in ((sums, True), (contiguous(sums) * 2.0, False)):
        row = make_parameter(operand, 1, is_slice=True)
        (last,) = make_loop(
            UOp.sink(carry * row), 100, (initial, operand, n), n_carried=1, n_sliced=1
        )
        (loop,) = check(last)
        (wide,) = (node for node in loop.operands if node.shape == (100, 8))
        assert wide.op is Op.PAD
        assert (wide.source.op is Op.CONTIGUOUS) == is_stored


def test_a_variable_that_a_body_reads_stays_among_the_operands() -> None:
    n = UOp.variable("n", 1, 8)
    (last,) = make_loop(UOp.sink(STATE * make_cast(n, float32)), 100, (X, W, n), n_carried=1)
    (loop,) = check(last)
    assert loop.src[1:] == (X, n)
    bound = bind(n, 3)
    (last,) = make_loop(UOp.sink(STATE * make_cast(n, float32)), 100, (X, W, bound), n_carried=1)
    (loop,) = check(last)
    assert loop.src[1:] == (X, bound)


def test_values_without_elements_need_no_memory() -> None:
    empty = tensor(4, 0, 3)
    nothing = make_parameter(empty, 1)
    last, left, stacked = make_loop(
        UOp.sink(STATE * 2.0, nothing + 1.0, nothing * 2.0), 100, (X, empty), n_carried=2
    )
    (loop,) = check(last, left, stacked)
    assert loop.src[1:] == (X,)
    choice = make_reshape(buffer(6, 1, int64), ())
    bodies = [
        UOp.sink(nothing, make_reduce_axis(STATE, Op.ADD, (0,))),
        UOp.sink(-nothing, make_reduce_axis(STATE, Op.MAX, (0,))),
    ]
    found = make_switch(choice, bodies, (X, empty))
    (switch,) = check(*found)
    assert switch.src[1:] == (X,)


def test_a_switch_with_a_large_constant_choice_is_its_last_branch() -> None:
    n = UOp.variable("n", 5, 8)
    bodies = [UOp.sink(STATE.alu(Op.EXP)), UOp.sink(STATE.alu(Op.SIN))]
    (found,) = make_switch(n, bodies, (X,))
    assert not check(found)


def test_custom_functions_are_called_once_for_each_iteration() -> None:
    call = make_custom_function("python", [ArraySpec(float32, (2, 3))], [])
    (last,) = make_loop(UOp.sink(STATE + call), 100, (X,), n_carried=1)
    (loop,) = (n for n in simplify_loops(UOp.sink(last)).toposort() if n.op is Op.LOOP)
    assert list(loop.arg.body.iter_ops(Op.CUSTOM_FUNCTION))


def test_a_cheap_switch_is_a_select_only_with_its_choice_on_the_same_device() -> None:
    choice = make_reshape(buffer(6, 1, int64, "CPU:1"), ())
    (found,) = make_switch(choice, [UOp.sink(STATE), UOp.sink(-STATE)], (X,))
    (switch,) = check(found)
    assert switch.op is Op.SWITCH
    near = make_reshape(buffer(6, 1, int64), ())
    (found,) = make_switch(near, [UOp.sink(STATE), UOp.sink(-STATE)], (X,))
    assert not check(found)


def test_nested_loops_are_not_batched() -> None:
    inner = UOp.sink(make_parameter(ROW, 0).alu(Op.SIN))
    (nested,) = make_loop(inner, 100, (ROW,), n_carried=1)
    _, stacked = make_loop(UOp.sink(STATE, nested), 100, (X, ROWS), n_carried=1, n_sliced=1)
    assert [loop.op for loop in check(stacked)] == [Op.LOOP, Op.LOOP]


def write(state: UOp, view: UOp, value: UOp) -> UOp:
    """All of the memory of a tensor after `value` was written to a view of it."""
    memory = state
    while memory.op is Op.RESHAPE:
        memory = memory.source
    return make_reshape(memory.after(assign(view, value)), state.shape)


@pytest.mark.parametrize(
    "show",
    [
        lambda x: make_shrink(x, [(0, 1), (0, 3)]),
        lambda x: make_shrink(make_permute(x, (1, 0)), [(1, 3), (0, 2)]),
        lambda x: make_shrink(make_flip(x, (False, True)), [(1, 2), (0, 2)]),
        lambda x: make_reshape(make_shrink(make_reshape(x, (6,)), [(1, 5)]), (2, 2)),
        lambda x: x,
    ],
)
def test_a_write_in_the_only_iteration_is_a_value(show: Callable[[UOp], UOp]) -> None:
    view = show(STATE)
    first = write(STATE, view, view * 2.0)
    second = make_reshape(
        first.source.after(assign(show(first), UOp.const(float32, 7))), first.shape
    )
    assert not check(*make_loop(UOp.sink(second, first * 2.0), 1, (X,), n_carried=1))
    assert not check(*make_switch(UOp.const(int64, 0), [UOp.sink(second + first)], (X,)))
    (loop,) = check(*make_loop(UOp.sink(second), 100, (X,), n_carried=1))
    assert list(loop.arg.body.iter_ops(Op.ASSIGN))


def test_memory_that_is_written_but_not_carried_is_not_changed() -> None:
    row = make_shrink(STATE, [(0, 1), (0, 3)])
    written = write(STATE, row, -row)
    (loop,) = check(*make_loop(UOp.sink(written * 0.5), 100, (X,), n_carried=1))
    assert not list(loop.arg.body.iter_ops(Op.ASSIGN))
    other = make_parameter(W, 1)
    results = make_loop(UOp.sink(other, written), 100, (X, W), n_carried=2)
    (loop,) = check(*results)
    assert not list(loop.arg.body.iter_ops(Op.ASSIGN))
