"""Where each node of a kernel stands: loops nest, and nothing is computed in a loop that it does not depend on."""

from __future__ import annotations

import pytest

from svod_dtype import float32, index, void
from svod_ir.ops import AxisType, Op
from svod_ir.testing import assert_same
from svod_ir.testing.nodes import param
from svod_ir.text import parse_graph
from svod_ir.uop import UOp
from svod_schedule.errors import LinearizeError
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import Context, compile_kernel

ZERO = UOp.const(index, 0)


def loop(size: int, number: int, kind: AxisType = AxisType.LOOP) -> UOp:
    return UOp.range(size, number, kind)


def memory(slot: int) -> UOp:
    return param(slot, 64)


def read(slot: int, *positions: UOp) -> UOp:
    position = positions[0]
    for other in positions[1:]:
        position = position * 8 + other
    return memory(slot).index(position).load()


def skeleton(nodes: tuple[UOp, ...]) -> str:
    """The loops and what is done in them: `0(1(S))` for a STORE in loop 1 in loop 0, L for a LOAD."""
    parts: list[str] = []
    for node in nodes:
        if node.op is Op.RANGE:
            parts.append(f"{node.arg[0]}(")
        elif node.op is Op.END:
            parts.append(")")
        elif node.op in (Op.STORE, Op.LOAD):
            parts.append(node.op.name[0])
    return "".join(parts)


def test_an_end_of_several_ranges_is_a_nest() -> None:
    rows, columns = loop(4, 0), loop(8, 1)
    store = memory(0).index(rows * 8 + columns).store(read(1, rows, columns))
    nodes = linearize(UOp.sink(store.end(rows, columns)))
    assert skeleton(nodes) == "0(1(LS))"
    assert [n.src[1] for n in nodes if n.op is Op.END] == [columns, rows]


def test_every_end_closes_exactly_one_range() -> None:
    ranges = [loop(2, i) for i in range(4)]
    store = memory(0).index(((ranges[0] * 2 + ranges[1]) * 2 + ranges[2]) * 2 + ranges[3]).store(read(1, ZERO))
    nodes = linearize(UOp.sink(store.end(*ranges)))
    assert all(len(n.src) == 2 for n in nodes if n.op is Op.END)
    assert skeleton(nodes) == "L0(1(2(3(S))))"


def test_independent_loops_stand_one_after_the_other() -> None:
    first, second = loop(4, 0), loop(8, 1)
    a = memory(0).index(first).store(read(1, first)).end(first)
    b = memory(2).index(second).store(read(3, second)).end(second)
    assert skeleton(linearize(UOp.sink(a, b))) == "0(LS)1(LS)"


def test_a_loop_that_another_waits_for_comes_first() -> None:
    first, second = loop(4, 0), loop(4, 1)
    filled = memory(0).index(first).store(read(1, first)).end(first)
    reader = memory(2).index(second).store(memory(0).after(filled).index(second).load()).end(second)
    assert skeleton(linearize(UOp.sink(reader))) == "0(LS)1(LS)"


def test_a_loop_inside_another_stands_where_its_end_is_needed() -> None:
    row, column = loop(4, 0), loop(8, 1, AxisType.REDUCE)
    register = UOp(Op.DEFINE_REG, float32, (), (0, 1))
    start = register.after(row).index(ZERO).store(UOp.const(float32, 0.0))
    inside = register.after(start, column).index(ZERO)
    added = inside.store(inside.load() + read(1, row, column)).end(column)
    result = memory(0).index(row).store(register.after(added).index(ZERO).load()).end(row)
    assert skeleton(linearize(UOp.sink(result))) == "0(S1(LLS)LS)"


def test_operands_stand_before_their_readers() -> None:
    rows, columns = loop(4, 0), loop(8, 1)
    store = memory(0).index(rows * 8 + columns).store(read(1, rows, columns) + read(2, rows) * 3)
    nodes = linearize(UOp.sink(store.end(rows, columns)))
    place = {n: i for i, n in enumerate(nodes)}
    for node in nodes:
        assert all(place[s] < place[node] for s in node.src if node.op is not Op.END)
    assert len(place) == len(nodes)


def test_structure_stands_nowhere() -> None:
    r = loop(4, 0)
    group = UOp(Op.GROUP, void, (memory(0).index(r).store(read(1, r)), UOp(Op.NOOP)))
    nodes = linearize(UOp.sink(group.end(r)))
    assert not [n for n in nodes if n.op in (Op.SINK, Op.GROUP, Op.NOOP)]


def test_what_no_loop_changes_is_computed_before_all_of_them() -> None:
    rows, columns = loop(4, 0), loop(8, 1)
    invariant = read(1, ZERO) * 2
    nodes = linearize(UOp.sink(memory(0).index(rows * 8 + columns).store(invariant).end(rows, columns)))
    assert nodes.index(invariant) < nodes.index(rows)


def test_what_only_the_outer_loop_changes_is_computed_before_the_inner_one() -> None:
    rows, columns = loop(4, 0), loop(8, 1)
    of_row = read(1, rows) * 2
    nodes = linearize(UOp.sink(memory(0).index(rows * 8 + columns).store(of_row + read(2, columns)).end(rows, columns)))
    assert nodes.index(rows) < nodes.index(of_row) < nodes.index(columns)


def test_what_only_the_inner_loop_changes_stays_in_it() -> None:
    rows, columns = loop(4, 0), loop(8, 1)
    of_column = read(2, columns) * 2
    nodes = linearize(UOp.sink(memory(0).index(rows * 8 + columns).store(of_column).end(rows, columns)))
    assert nodes.index(columns) < nodes.index(of_column)


def test_two_ends_of_one_range_are_refused() -> None:
    r = loop(4, 0)
    a = memory(0).index(r).store(read(1, r)).end(r)
    b = memory(2).index(r).store(read(3, r)).end(r)
    with pytest.raises(LinearizeError, match=r"^two ENDs close one range: RANGE"):
        linearize(UOp.sink(a, b))


def test_a_range_that_nothing_closes_is_refused() -> None:
    r = loop(4, 0)
    with pytest.raises(LinearizeError, match=r"^no END closes RANGE.*: "):
        linearize(UOp.sink(memory(0).index(r).store(read(1, r))))


def test_a_node_in_two_sibling_loops_is_refused() -> None:
    first, second = loop(4, 0), loop(4, 1)
    a = memory(0).index(first).store(read(1, first)).end(first)
    b = memory(2).index(second).store(read(3, second)).end(second)
    both = memory(4).index(first).store(read(5, second))
    with pytest.raises(
        LinearizeError, match=r"^a node depends on two loops of which neither encloses the other: STORE"
    ):
        linearize(UOp.sink(a, b, both))


def test_a_refusal_carries_the_problem_and_the_node() -> None:
    r = loop(4, 0)
    a, b = (memory(slot).index(r).store(read(1, r)).end(r) for slot in (0, 2))
    with pytest.raises(LinearizeError) as error:
        linearize(UOp.sink(a, b))
    assert error.value.problem == "two ENDs close one range"
    assert error.value.node is r


def test_a_body_of_100000_nodes_needs_no_deep_stack() -> None:
    r = loop(4, 0)
    value = read(1, r)
    for _ in range(50_000):
        value = UOp(Op.NEG, float32, (UOp(Op.SQRT, float32, (value,)),))
    nodes = linearize(UOp.sink(memory(0).index(r).store(value).end(r)))
    assert len(nodes) > 100_000
    assert nodes[-1].op is Op.END


def test_the_order_is_the_same_every_time() -> None:
    text = """
        %0 = CONST i32 [4]
        %1 = RANGE i32 %0 [0, LOOP]
        %2 = PARAM f32 [0, 4]
        %3 = INDEX f32 %2, %1
        %4 = PARAM f32 [1, 4]
        %5 = INDEX f32 %4, %1
        %6 = LOAD f32 %5
        %7 = STORE %3, %6
        %8 = END %7, %1
        %9 = SINK %8
    """
    once = linearize(parse_graph(text))
    names = ["PARAM", "CONST", "PARAM", "RANGE", "INDEX", "INDEX", "LOAD", "STORE", "END"]
    assert [n.op.name for n in once] == names
    assert linearize(parse_graph(text)) == once


def test_each_kernel_nests_its_loops_and_means_what_it_did(kernel: UOp) -> None:
    _, nodes = compile_kernel(kernel, Context())
    open_loops: list[UOp] = []
    for node in nodes:
        if node.op is Op.RANGE:
            open_loops.append(node)
        elif node.op is Op.END:
            assert open_loops.pop() is node.src[1]
        else:
            assert node.ranges <= set(open_loops)
    assert not open_loops
    assert_same(kernel, nodes)
