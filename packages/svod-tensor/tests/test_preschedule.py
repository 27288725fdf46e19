from __future__ import annotations

import pytest

from svod_dtype import float32, index
from svod_ir import AxisType, Op, UOp, make_reshape, parse_graph
from svod_ir.testing import nodes
from svod_ir.testing.nodes import buffer, contiguous, detach, select
from svod_tensor.engine.preschedule import create_pre_schedule, get_memory
from svod_tensor.errors import DependencyCycleError, NoKernelsFoundError, ScheduleError


def body(tag, n_arguments=1, extra=""):
    others = "\n".join(f"%p{slot} = PARAM f32 [{slot}, 4]" for slot in range(1, n_arguments))
    value = " + ".join([f"f32({tag})", *(f"%p{slot}[0]" for slot in range(1, n_arguments))])
    return parse_graph(f"""
        %out = PARAM f32 [0, 4]
        {others}
        %n = DEFINE_VAR index ["i", 0, 7]
        %store = STORE %out[0], {value}{extra}
        SINK %store
    """)


def call(tag, *arguments):
    return nodes.call(body(tag, len(arguments)), *arguments)


def tags(pre):
    return [
        next(n.arg for n in pre.items[i.kernel_id].ast.iter_ops(Op.CONST) if n.dtype is float32)
        for i in pre.invocations
    ]


def test_a_graph_without_kernels_is_an_error():
    with pytest.raises(NoKernelsFoundError):
        create_pre_schedule(UOp.sink(buffer(1)))


def test_producers_come_before_consumers_and_are_their_dependencies():
    b1, b2, b3 = buffer(-1), buffer(-2), buffer(-3)
    first = b1.after(call(1.0, b1))
    second = b2.after(call(2.0, b2, first))
    pre = create_pre_schedule(UOp.sink(b3.after(call(3.0, b3, second, first))))
    assert tags(pre) == [1.0, 2.0, 3.0]
    assert [item.dependencies for item in pre.items] == [(), (0,), (0, 1)]
    assert pre.items[2].memory == (b3, b2, b1)
    assert pre.outputs == (b3,)


def test_equal_graphs_are_ordered_equally():
    outputs = []
    for number in range(6):
        out = buffer(-1 - number)
        outputs.append(out.after(call(float(number), out)))
    assert tags(create_pre_schedule(UOp.sink(*outputs))) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_the_body_of_a_call_is_not_searched_for_calls():
    b1, b2 = buffer(-1), buffer(-2)
    inner = UOp.sink(b1.after(call(9.0, b1)))
    pre = create_pre_schedule(UOp.sink(b2.after(nodes.call(inner, b2))))
    assert len(pre.items) == 1


def test_an_order_without_data_is_kept():
    b1, b2 = buffer(-1), buffer(-2)
    early = call(1.0, b1)
    late = call(2.0, b2)
    pre = create_pre_schedule(UOp.sink(b2.after(late, b1.after(early))))
    assert tags(pre) == [1.0, 2.0]
    assert pre.items[1].dependencies == (0,)


def test_cyclic_dependencies_of_kernels_are_an_error():
    b1, b2 = buffer(-1), buffer(-2)
    one, two = call(1.0, b1), call(2.0, b2)
    root = UOp.sink(b1.after(one, b2.after(two)), b2.after(two, b1.after(one)))
    with pytest.raises(DependencyCycleError, match="2 kernels depend on each other"):
        create_pre_schedule(root)


def test_dependencies_that_are_no_kernel_are_an_error_that_prints_them():
    b1 = buffer(-1)
    with pytest.raises(ScheduleError, match=r"AFTER waits for CALL.*CONST"):
        create_pre_schedule(UOp.sink(b1.after(call(1.0, b1), UOp.const(float32, 1.0))))
    with pytest.raises(ScheduleError, match="CONST"):
        create_pre_schedule(UOp.sink(b1.after(call(1.0, b1, UOp.const(float32, 1.0)))))


def test_stacks_and_selections_lead_to_their_shards():
    b1, b2, b3 = buffer(-1), buffer(-2), buffer(-3)
    stack = nodes.stack(b1.after(call(1.0, b1)), b2.after(call(2.0, b2)))
    chosen = select(stack, 1)
    pre = create_pre_schedule(UOp.sink(b3.after(call(3.0, b3, chosen))))
    assert pre.items[2].memory == (b3, b2)
    assert pre.items[2].dependencies == (0, 1)
    assert pre.items[2].aliases == (b1,)
    assert pre.items[0].aliases == ()
    assert get_memory(stack) is b1


def test_the_memory_of_a_value_is_found_below_views():
    b1, b2 = buffer(-1), buffer(-2)
    stack = nodes.stack(b2, b1)
    for value in (
        b1.after(call(1.0, b1)),
        contiguous(b1),
        detach(b1),
        select(stack, 1),
        select(b1, 0),
        make_reshape(b1, (2, 2)),
    ):
        assert get_memory(value) is b1


def loop(number, end):
    return UOp.range(end, number, AxisType.LOOP)


def counted(tag, out, counter, *extra):
    """A kernel that reads the counter of a loop as `i`."""
    return nodes.call(
        body(tag, extra=" + f32(%n)"), out, *extra, nodes.bind(UOp.variable("i", 0, 7), counter)
    )


def test_a_schedule_loop_is_unrolled_with_its_counter():
    b1, b2, b3 = buffer(-1), buffer(-2), buffer(-3)
    r = loop(0, 3)
    before = b1.after(call(1.0, b1))
    inside = counted(2.0, b2, r, before)
    after = call(3.0, b3, b2.after(inside.end(r)))
    pre = create_pre_schedule(UOp.sink(b3.after(after)))
    assert [(i.kernel_id, dict(i.fixedvars)) for i in pre.invocations] == [
        (0, {}),
        (1, {"i": 0}),
        (1, {"i": 1}),
        (1, {"i": 2}),
        (2, {}),
    ]


def test_a_reader_of_a_loop_depends_on_its_kernel():
    b1, b2 = buffer(-1), buffer(-2)
    r = loop(0, 3)
    filled = b1.after(counted(2.0, b1, r).end(r))
    for reader in (call(3.0, b2, filled), call(3.0, b2, b1.after(filled.src[1], filled))):
        pre = create_pre_schedule(UOp.sink(b2.after(reader)))
        assert [(item.dependencies, len(item.memory)) for item in pre.items] == [((), 1), ((0,), 2)]
    # An order alone is kept too.
    pre = create_pre_schedule(UOp.sink(b2.after(call(3.0, b2), filled)))
    assert [item.dependencies for item in pre.items] == [(), (0,)]


def test_a_reader_of_nested_dependencies_waits_for_all_of_their_kernels():
    b1, b2, b3 = buffer(-1), buffer(-2), buffer(-3)
    ordered = b2.after(b1.after(call(1.0, b1)))
    pre = create_pre_schedule(UOp.sink(b3.after(call(3.0, b3, ordered))))
    assert [item.dependencies for item in pre.items] == [(), (0,)]
    assert tags(pre) == [1.0, 3.0]
    pre = create_pre_schedule(UOp.sink(b3.after(call(3.0, b3, b2.after(ordered)))))
    assert [item.dependencies for item in pre.items] == [(), (0,)]


def test_a_loop_waits_for_operands_of_all_of_its_kernels():
    b1, b2, b3 = buffer(-1), buffer(-2), buffer(-3)
    r = loop(0, 2)
    one = counted(1.0, b1, r)
    # The graph lists the producer after the first kernel of the loop.
    outside = b3.after(call(3.0, b3))
    two = counted(2.0, b2, r, b1.after(one.end(r)), outside)
    pre = create_pre_schedule(UOp.sink(b2.after(two.end(r))))
    assert tags(pre) == [3.0, 1.0, 2.0, 1.0, 2.0]
    assert [item.dependencies for item in pre.items] == [(), (), (0, 1)]


def test_a_store_is_not_a_kernel_dependency_of_after():
    b1, b2 = buffer(-1), buffer(-2)
    store = b1.index(UOp.const(index, 0)).store(UOp.const(float32, 1.0))
    filled = b1.after(call(1.0, b1), store)
    pre = create_pre_schedule(UOp.sink(b2.after(call(2.0, b2, filled, b1.after(store)))))
    assert [item.dependencies for item in pre.items] == [(), (0,)]
    assert pre.items[1].memory == (b2, b1, b1)


def test_the_kernels_of_one_loop_run_in_turn():
    b1, b2 = buffer(-1), buffer(-2)
    r = loop(0, 2)
    one = counted(1.0, b1, r)
    two = counted(2.0, b2, r, b1.after(one.end(r)))
    pre = create_pre_schedule(UOp.sink(b2.after(two.end(r))))
    assert [(i.kernel_id, i.fixedvars["i"]) for i in pre.invocations] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
    ]


def test_a_range_that_is_only_a_value_is_no_loop():
    b1 = buffer(-1)
    pre = create_pre_schedule(UOp.sink(b1.after(counted(1.0, b1, loop(0, 3)))))
    assert len(pre.invocations) == 1
    assert pre.items[0].bound_ranges == ()
    assert pre.items[0].constants == {}
    pre = create_pre_schedule(UOp.sink(b1.after(counted(1.0, b1, UOp.const(index, 3)))))
    assert (pre.items[0].bound_ranges, pre.items[0].constants) == ((), {"i": 3})


def test_broken_loops_are_errors_with_their_numbers():
    b1, b2 = buffer(-1), buffer(-2)
    r, s = loop(4, 3), loop(5, 2)
    with pytest.raises(
        ScheduleError, match=r"at most one range.*\[4, 5\]|at most one range, found \[\(4"
    ):
        create_pre_schedule(UOp.sink(b1.after(call(1.0, b1).end(r, s))))
    outside = counted(1.0, b1, r)
    with pytest.raises(ScheduleError, match=r"range.*4.*not active"):
        create_pre_schedule(UOp.sink(b1.after(outside), b2.after(counted(2.0, b2, r).end(r))))
    symbolic = UOp.range(UOp.variable("n", 1, 5), 6, AxisType.LOOP)
    with pytest.raises(ScheduleError, match="schedule range 6 has a concrete integer bound"):
        create_pre_schedule(UOp.sink(b1.after(counted(1.0, b1, symbolic).end(symbolic))))


def test_an_empty_loop_and_a_value_of_an_unknown_variable_are_errors():
    b1 = buffer(-1)
    with pytest.raises(ScheduleError, match="schedule range 7 runs at least once, found 0"):
        create_pre_schedule(UOp.sink(b1.after(counted(1.0, b1, loop(7, 0)).end(loop(7, 0)))))
    wrong = nodes.bind(UOp.const(float32, 1.0), 2)
    body = call(1.0, b1)
    with pytest.raises(ScheduleError, match="a BIND gives a value to a DEFINE_VAR, found BIND"):
        create_pre_schedule(UOp.sink(b1.after(body.with_src((*body.src, wrong)))))


def test_an_argument_that_is_no_memory_is_an_error_that_prints_it():
    b1 = buffer(-1)
    body = call(1.0, b1)
    bare = UOp(Op.NOOP, float32, ())
    with pytest.raises(
        ScheduleError, match=r"an argument of a CALL is AFTER, BUFFER, .* or BIND, found NOOP"
    ):
        create_pre_schedule(UOp.sink(b1.after(body.with_src((*body.src, bare)))))
