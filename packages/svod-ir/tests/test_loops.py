"""LOOP, SWITCH and their RESULTs: construction, derived properties and errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from svod_dtype import DType, bool_, float32, index, int32, int64, void
from svod_ir import (
    BufferArg,
    GraphError,
    Op,
    ParseError,
    Sharding,
    SpecError,
    UOp,
    make_cast,
    make_expand,
    make_reshape,
    parse_graph,
    print_graph,
    verify,
)
from svod_ir.args import LoopArg
from svod_ir.compare import count_steps, random_inputs
from svod_ir.evaluate import evaluate
from svod_ir.loops import (
    choose_counter,
    find_count,
    find_loop_fault,
    get_bodies,
    get_slots,
    iter_nodes,
    list_free_variables,
    make_counter,
    make_loop,
    make_parameter,
    make_results,
    make_switch,
    read_loop,
    rename_inner_counters,
    replace_variable,
)
from svod_ir.origins import Origin, add_origin, clear_origins, get_origins
from svod_ir.testing import assert_same, count_examples, loops, run_script
from svod_ir.testing.nodes import assign


def buffer(number: int, *shape: int, dtype: DType = float32, device: str = "CPU") -> UOp:
    size = 1
    for extent in shape:
        size *= extent
    return make_reshape(UOp(Op.BUFFER, dtype, (), BufferArg(number, size, device)), shape)


def sharded(number: int, axis: int | None, *shapes: tuple[int, ...]) -> UOp:
    shards = tuple(buffer(number + i, *shape, device=f"CPU:{i}") for i, shape in enumerate(shapes))
    return UOp(Op.MULTI, float32, (UOp(Op.MSTACK, float32, shards),), axis)


def make_sum(count: int = 5, *, is_reversed: bool = False) -> tuple[UOp, ...]:
    """Running sums of the rows of a matrix, scaled by a constant."""
    init, rows, factor = buffer(1, 3), buffer(2, 5, 3), buffer(3)
    total, row, scale = (
        make_parameter(init, 0),
        make_parameter(rows, 1, is_slice=True),
        make_parameter(factor, 2),
    )
    following = total + row * scale
    body = UOp.sink(following, following * 2.0)
    return make_loop(
        body, count, (init, rows, factor), n_carried=1, n_sliced=1, is_reversed=is_reversed
    )


def test_results_have_the_shapes_of_carries_and_stacked_values() -> None:
    last, sums = make_sum()
    assert (last.shape, last.dtype, last.placement) == ((3,), float32, "CPU")
    assert (sums.shape, sums.dtype, sums.placement) == ((5, 3), float32, "CPU")
    verify(UOp.sink(last, sums), "graph")


def test_the_parts_of_a_loop_have_names() -> None:
    loop = make_sum()[0].source
    pieces = read_loop(loop)
    assert (pieces.carried, pieces.sliced, pieces.constants) == (
        (loop.src[1],),
        (loop.src[2],),
        (loop.src[3],),
    )
    assert (pieces.next_values, pieces.stacked) == (loop.arg.body.src[:1], loop.arg.body.src[1:])
    assert pieces.go_on is None
    assert find_count(loop) == 5


def test_sizes_that_variables_decide_are_bound_around_the_body() -> None:
    n = UOp.variable("n", 1, 8)
    bound = UOp(Op.BIND, index, (n, UOp.const(index, 4)))
    memory = UOp(Op.BUFFER, float32, (), BufferArg(1, 24, "CPU"))
    rows = make_reshape(UOp(Op.SHRINK, float32, (memory, bound * 3), (0, None)), (bound, 3))
    row = make_parameter(rows, 0, is_slice=True)
    assert row.shape == (3,)
    (doubled,) = make_loop(UOp.sink(row * 2.0), bound, (rows,), n_carried=0, n_sliced=1)
    assert doubled.shape == (bound, 3)
    full = make_parameter(rows, 0)
    assert full.shape == (n, 3)
    (same,) = make_loop(UOp.sink(full * 2.0), 7, (rows,), n_carried=1)
    assert same.shape == (bound, 3)
    verify(UOp.sink(doubled, same), "graph")


def test_a_sharded_operand_takes_a_slot_for_each_shard() -> None:
    x, y = sharded(1, 1, (4, 2), (4, 3)), buffer(9, 4)
    assert get_slots((x, y)) == (0, 2)
    row = make_parameter(x, 0, is_slice=True)
    assert (row.shape, row.placement) == ((5,), Sharding(("CPU:0", "CPU:1"), 0, (2, 3)))
    (doubled,) = make_loop(UOp.sink(row * 2.0), 4, (x, y), n_carried=0, n_sliced=1)
    assert doubled.placement == x.placement
    verify(UOp.sink(doubled), "graph")
    with pytest.raises(GraphError, match="must not be sharded along its first axis"):
        make_parameter(sharded(1, 0, (2, 4), (2, 4)), 0, is_slice=True)


def test_a_counter_is_a_variable_of_the_body() -> None:
    init = buffer(1, 3)
    counter = make_counter("loop_counter_0", 6)
    following = make_parameter(init, 0) + make_cast(counter, float32)
    (last,) = make_loop(UOp.sink(following), 6, (init,), n_carried=1, counter="loop_counter_0")
    verify(UOp.sink(last), "graph")
    assert counter.bounds == (0, 5)


def test_a_switch_returns_the_results_of_its_bodies() -> None:
    x, choice = buffer(1, 3), buffer(2, dtype=int32)
    inside = make_parameter(x, 0)
    (actual,) = make_switch(choice, [UOp.sink(inside * 2.0), UOp.sink(-inside)], (x,))
    assert (actual.shape, actual.dtype, actual.placement) == ((3,), float32, "CPU")
    verify(UOp.sink(actual), "graph")


NESTED = """
    %0 = CONST index [4]
    %1 = BUFFER f32 [1, 3, "CPU"]
    %2 = BUFFER f32 [2, 4, "CPU"]
    %3 = CONST index [2]
    %4 = PARAM f32 [0, 3, "CPU"]
    %5 = PARAM f32 [1, 1, "CPU"]
    %6 = RESHAPE f32 %5 []
    %7 = MUL f32 %4, %6
    %8 = SINK %7
    %9 = LOOP %3, %4, %6 [%8, 1]
    %10 = RESULT f32 %9 [0]
    %11 = SINK %10, %10
    %12 = LOOP %0, %1, %2 [%11, 1, 1, none, true]
    %13 = RESULT f32 %12 [0]
    %14 = RESULT f32 %12 [1]
    %15 = CONST i32 [1]
    %16 = NEG f32 %4
    %17 = SINK %16
    %18 = SWITCH %15, %13 [(%8, %17)]
"""


def test_bodies_are_printed_as_lines_before_the_node_that_names_them() -> None:
    lines = [line.strip() for line in NESTED.strip().splitlines()]
    init, rows = (
        UOp(Op.BUFFER, float32, (), BufferArg(1, 3, "CPU")),
        UOp(Op.BUFFER, float32, (), BufferArg(2, 4, "CPU")),
    )
    state, row = make_parameter(init, 0), make_parameter(rows, 1, is_slice=True)
    inner = UOp.sink(make_parameter(state, 0) * make_parameter(row, 1))
    (product,) = make_loop(inner, 2, (state, row), n_carried=1)
    last, stacked = make_loop(
        UOp.sink(product, product), 4, (init, rows), n_carried=1, n_sliced=1, is_reversed=True
    )
    graph = UOp.sink(last, stacked)
    assert print_graph(graph).splitlines() == [*lines[:15], "%15 = SINK %13, %14"]
    assert parse_graph(print_graph(graph)) is graph


def test_a_switch_reads_back_to_the_identical_node() -> None:
    node = parse_graph(NESTED)
    assert [body.src[0].op for body in get_bodies(node)] == [Op.MUL, Op.NEG]
    assert print_graph(node).count("SINK") == 3
    assert parse_graph(print_graph(node)) is node


def test_a_body_must_be_the_name_of_a_node() -> None:
    with pytest.raises(ParseError, match="%9 is not defined above"):
        parse_graph("LOOP 4 [%9, 0]")
    with pytest.raises(ParseError, match="is not a node such as %0"):
        parse_graph("LOOP index(4) [3, 0]")


def test_the_hash_of_a_node_covers_its_bodies() -> None:
    hashes = set()
    for factor in (2.0, 3.0, 2.0):
        x = buffer(1, 3)
        (last,) = make_loop(UOp.sink(make_parameter(x, 0) * factor), 4, (x,), n_carried=1)
        hashes.add(last.content_hash)
    assert len(hashes) == 2
    before = make_sum()[0].content_hash
    text = print_graph(make_sum()[0])
    script = f"from svod_ir import parse_graph\nprint(parse_graph({text!r}).content_hash)"
    assert run_script(script).split() == [before]


def test_bodies_are_verified() -> None:
    x = buffer(1, 3)
    inside = make_parameter(x, 0)
    broken = UOp(Op.ADD, float32, (inside,))
    loop = UOp(Op.LOOP, void, (UOp.const(index, 4), x), LoopArg(UOp.sink(broken), 1))
    with pytest.raises(SpecError, match="ADD takes left right, not 1 operands"):
        verify(UOp.sink(*make_results(loop)), "graph")


def test_a_body_writes_only_the_memory_of_carries() -> None:
    x, y = buffer(1, 3), buffer(2, 3)
    memory, other = make_parameter(x, 0), make_parameter(y, 1)
    written = memory.after(assign(memory, other))
    make_loop(UOp.sink(written), 4, (x, y), n_carried=1)
    read = other.after(assign(other, memory))
    with pytest.raises(GraphError, match="the body of a LOOP writes only the memory of carries"):
        make_loop(UOp.sink(read), 4, (x, y), n_carried=1)
    make_switch(UOp.const(int32, 0), [UOp.sink(read)], (x, y))


def test_computed_counts_and_choices_are_int64() -> None:
    x, number, flag = buffer(1, 3), buffer(2, dtype=int32), buffer(3, dtype=bool_)
    inside = make_parameter(x, 0)
    (last,) = make_loop(UOp.sink(-inside), number, (x,), n_carried=1)
    (actual,) = make_switch(flag, [UOp.sink(-inside), UOp.sink(inside)], (x,))
    assert (last.source.src[0].dtype, actual.source.src[0].dtype) == (int64, int64)


def test_a_carry_from_no_memory_does_not_become_sharded() -> None:
    x, zeros = (
        sharded(1, 0, (2,), (2,)),
        make_expand(make_reshape(UOp.const(float32, 0), (1,)), (4,)),
    )
    start, other = make_parameter(zeros, 0), make_parameter(x, 1)
    with pytest.raises(GraphError, match="carry 0 keeps its placement, None"):
        make_loop(UOp.sink(start + other), 3, (zeros, x), n_carried=1)
    make_loop(UOp.sink(make_parameter(zeros, 1)), 3, (buffer(1, 4), zeros), n_carried=1)


def test_bounds_hold_for_every_iteration_and_every_branch() -> None:
    start = UOp.const(int32, 7)
    inside = make_parameter(start, 0)
    low, count = make_counter("loop_counter_0", 5), UOp.const(int32, 3)
    last, stacked = make_loop(
        UOp.sink(count, low), 5, (start,), n_carried=1, counter="loop_counter_0"
    )
    assert last.bounds == (3, 7)
    assert stacked.bounds == (0, 4)
    (actual,) = make_switch(inside, [UOp.sink(start), UOp.sink(count)], ())
    assert actual.bounds == (3, 7)


def test_counters_are_local_to_their_loop() -> None:
    n, x = UOp.variable("n", 1, 4), buffer(1, 3)
    counter = make_counter("loop_counter_0", 4)
    factor = make_cast(counter * n, float32)
    (last,) = make_loop(
        UOp.sink(make_parameter(x, 0) * factor), 4, (x, n), n_carried=1, counter="loop_counter_0"
    )
    assert list_free_variables(last) == [n]
    (other,) = make_loop(UOp.sink(make_parameter(x, 0) * factor), 4, (x, n), n_carried=1)
    assert list_free_variables(other) == [counter, n]
    assert set(random_inputs(last)) == {n, x}
    assert count_steps(last) > 4 * 3


def add_up(start: UOp, count: int, name: str) -> UOp:
    """start + 0 + 1 + ..., of a loop with this counter."""
    counter = make_counter(name, count)
    body = UOp.sink(make_parameter(start, 0) + make_cast(counter, float32))
    return make_loop(body, count, (start,), n_carried=1, counter=name)[0]


def test_a_loop_around_another_one_with_its_counter_renames_the_inner_one() -> None:
    x = buffer(1)
    state, counter = make_parameter(x, 0), make_counter("loop_counter_0", 3)
    inner = add_up(state * 2, 4, "loop_counter_0")
    (last,) = make_loop(
        UOp.sink(inner + make_cast(counter, float32)),
        3,
        (x,),
        n_carried=1,
        counter="loop_counter_0",
    )
    (renamed,) = last.source.arg.body.iter_ops(Op.LOOP)
    assert (last.source.arg.counter, renamed.arg.counter) == ("loop_counter_0", "loop_counter_1")
    expected = 1.0
    for i in range(3):
        expected = expected * 2 + 6 + i
    assert evaluate(last, {x.source: np.ones(1, np.float32)}).item() == expected
    clash = last.source.with_arg(last.source.arg._replace(body=UOp.sink(inner)))
    assert find_loop_fault(clash) == (
        "loops nested in a LOOP with the counter loop_counter_0 need other counters"
    )


def test_renamed_counters_avoid_the_names_in_bodies() -> None:
    x = buffer(1)
    state, n = make_parameter(x, 0), make_counter("loop_counter_1", 9)
    innermost = add_up(state * make_cast(n, float32), 4, "loop_counter_2")
    (middle,) = make_loop(UOp.sink(innermost), 3, (state,), n_carried=1, counter="loop_counter_0")
    renamed = rename_inner_counters(UOp.sink(middle), "loop_counter_0")
    assert [node.arg.counter for node in iter_nodes(renamed) if node.op is Op.LOOP] == [
        "loop_counter_2",
        "loop_counter_3",
    ]
    assert list_free_variables(renamed) == [n]
    assert rename_inner_counters(UOp.sink(middle), None) is UOp.sink(middle)
    assert choose_counter(UOp.sink(middle)) == "loop_counter_3"
    assert choose_counter(UOp.sink(x), 4, ("loop_counter_4",)) == "loop_counter_5"


def test_a_variable_is_replaced_where_no_loop_binds_it() -> None:
    x, n = buffer(1), make_counter("loop_counter_0", 9)
    bound = add_up(make_parameter(x, 0), 4, "loop_counter_0")
    free, m = bound * make_cast(n, float32), make_counter("m", 9)
    assert replace_variable(free, n, m) is bound * make_cast(m, float32)
    (outer,) = make_loop(UOp.sink(free), 3, (x,), n_carried=1)
    (changed,) = get_bodies(replace_variable(outer, n, m).source)
    assert changed.src == (bound * make_cast(m, float32),)


def test_lines_that_built_a_loop_built_what_is_in_its_body() -> None:
    clear_origins()
    last, _ = make_sum()
    origin = Origin("model.py", 7, "f", "scan")
    add_origin(last, origin)
    assert get_origins(get_bodies(last.source)[0].src[0]) == {origin}
    clear_origins()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda inside: UOp.sink(make_cast(inside, int32)), "keeps its dtype"),
        (lambda inside: UOp.sink(make_reshape(inside, (1, 3))), "keeps its shape"),
        (lambda inside: UOp.sink(inside + buffer(5, 3)), "a body has no BUFFER"),
        (
            lambda inside: UOp.sink(inside + make_parameter(buffer(5, 3), 1)),
            "slot is below 1, the number of slots",
        ),
        (lambda inside: UOp.sink(make_parameter(buffer(5, 3, dtype=int32), 0)), "keeps its dtype"),
        (lambda inside: UOp.sink(), "a next value for each carry"),
        (lambda inside: UOp.sink(inside, inside), "a bool scalar"),
    ],
)
def test_invalid_bodies_are_errors(change, rule: str) -> None:
    x = buffer(1, 3)
    with pytest.raises(GraphError, match=rule):
        make_loop(
            change(make_parameter(x, 0)),
            4,
            (x,),
            n_carried=1,
            is_conditional=rule == "a bool scalar",
        )


def test_a_condition_is_the_last_value_of_a_body() -> None:
    x = buffer(1)
    inside = make_parameter(x, 0)
    (last,) = make_loop(
        UOp.sink(inside * 2.0, inside < 9.0), 100, (x,), n_carried=1, is_conditional=True
    )
    go_on = read_loop(last.source).go_on
    assert go_on is not None
    assert go_on.dtype is bool_


@settings(
    max_examples=count_examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(loops())
def test_random_loops_verify_parse_back_and_evaluate(graph: UOp) -> None:
    verify(graph, "graph")
    assert parse_graph(print_graph(graph)) is graph
    assert_same(graph, graph)


def test_a_carry_from_no_memory_is_on_the_device_of_the_others() -> None:
    zero, x = UOp.const(float32, 0), buffer(1, 3, device="CPU:1")
    body = UOp.sink(make_parameter(zero, 0) + 1.0, make_parameter(x, 1) * 2.0)
    assert [result.placement for result in make_loop(body, 4, (zero, x), n_carried=2)] == [
        "CPU:1",
        "CPU:1",
    ]
    (alone,) = make_loop(UOp.sink(make_parameter(zero, 0) + 1.0), 4, (zero,), n_carried=1)
    assert alone.placement is None
