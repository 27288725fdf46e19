"""LOOP, SWITCH and their RESULTs: how they are made, what they derive, and what is refused."""

from __future__ import annotations

import pytest

from svod_dtype import bool_, float32, index, int32
from svod_ir import BufferArg, GraphError, Op, Sharding, UOp, make_cast, make_reshape, parse_graph, print_graph, verify
from svod_ir.loops import find_count, get_slots, make_counter, make_loop, make_parameter, make_switch, read_loop


def buffer(number: int, *shape: int, dtype=float32, device: str = "CPU") -> UOp:
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
    total, row, scale = make_parameter(init, 0), make_parameter(rows, 1, is_slice=True), make_parameter(factor, 2)
    following = total + row * scale
    body = UOp.sink(following, following * 2.0)
    return make_loop(body, count, (init, rows, factor), n_carried=1, n_sliced=1, is_reversed=is_reversed)


def test_results_have_the_shapes_of_what_is_carried_and_of_what_is_stacked() -> None:
    last, sums = make_sum()
    assert (last.shape, last.dtype, last.placement) == ((3,), float32, "CPU")
    assert (sums.shape, sums.dtype, sums.placement) == ((5, 3), float32, "CPU")
    verify(UOp.sink(last, sums), "graph")


def test_the_parts_of_a_loop_have_names() -> None:
    loop = make_sum()[0].source
    parts = read_loop(loop)
    assert (parts.carried, parts.sliced, parts.constants) == ((loop.src[1],), (loop.src[2],), (loop.src[3],))
    assert (parts.next_values, parts.stacked) == (loop.arg.body.src[:1], loop.arg.body.src[1:])
    assert parts.go_on is None
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
    whole = make_parameter(rows, 0)
    assert whole.shape == (n, 3)
    (same,) = make_loop(UOp.sink(whole * 2.0), 7, (rows,), n_carried=1)
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
    with pytest.raises(GraphError, match="not split along its first axis"):
        make_parameter(sharded(1, 0, (2, 4), (2, 4)), 0, is_slice=True)


def test_a_counter_is_a_variable_of_the_body() -> None:
    init = buffer(1, 3)
    counter = make_counter("loop_counter_0", 6)
    following = make_parameter(init, 0) + make_cast(counter, float32)
    (last,) = make_loop(UOp.sink(following), 6, (init,), n_carried=1, counter="loop_counter_0")
    verify(UOp.sink(last), "graph")
    assert counter.bounds == (0, 5)


def test_a_switch_gives_what_its_bodies_give() -> None:
    x, choice = buffer(1, 3), buffer(2, dtype=int32)
    inside = make_parameter(x, 0)
    (found,) = make_switch(choice, [UOp.sink(inside * 2.0), UOp.sink(-inside)], (x,))
    assert (found.shape, found.dtype, found.placement) == ((3,), float32, "CPU")
    verify(UOp.sink(found), "graph")


def test_a_loop_parses_back_to_the_identical_node() -> None:
    last, sums = make_sum(is_reversed=True)
    x = buffer(1, 3)
    inside = make_parameter(x, 0)
    (chosen,) = make_switch(buffer(4, dtype=int32), [UOp.sink(inside * 2.0), UOp.sink(-inside)], (x,))
    graph = UOp.sink(last, sums, chosen)
    assert parse_graph(print_graph(graph)) is graph
    assert len(graph.content_hash) == 32


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda inside: UOp.sink(make_cast(inside, int32)), "keeps its dtype"),
        (lambda inside: UOp.sink(make_reshape(inside, (1, 3))), "keeps its shape"),
        (lambda inside: UOp.sink(inside + buffer(5, 3)), "a body has no BUFFER"),
        (lambda inside: UOp.sink(inside + make_parameter(buffer(5, 3), 1)), "PARAMs for its 1 slots"),
        (lambda inside: UOp.sink(make_parameter(buffer(5, 3, dtype=int32), 0)), "keeps its dtype"),
        (lambda inside: UOp.sink(), "a next value for all that is carried"),
        (lambda inside: UOp.sink(inside, inside), "a bool scalar"),
    ],
)
def test_bodies_that_do_not_fit_are_refused(change, rule: str) -> None:
    x = buffer(1, 3)
    with pytest.raises(GraphError, match=rule):
        make_loop(change(make_parameter(x, 0)), 4, (x,), n_carried=1, is_conditional=rule == "a bool scalar")


def test_a_condition_is_the_last_value_of_a_body() -> None:
    x = buffer(1)
    inside = make_parameter(x, 0)
    (last,) = make_loop(UOp.sink(inside * 2.0, inside < 9.0), 100, (x,), n_carried=1, is_conditional=True)
    go_on = read_loop(last.source).go_on
    assert go_on is not None
    assert go_on.dtype is bool_
