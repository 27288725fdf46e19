"""Tests of shard-values on a mesh: which collectives each process calls, and in which order."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from svod_dtype import float32
from svod_ir import (
    BufferArg,
    Mesh,
    Op,
    UOp,
    make_concat,
    make_expand,
    make_flip,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_shrink,
    verify,
)
from svod_ir.args import LoopArg
from svod_ir.custom_function import read_signature
from svod_ir.loops import make_loop, make_parameter
from svod_schedule.rangeify.mesh.join_reductions import MAX_SMALL_BYTES
from svod_schedule.rangeify.release_events import release_events
from svod_schedule.rangeify.shard_values import shard_values
from svod_schedule.rangeify.simplify_loops import simplify_loops


class Call(NamedTuple):
    kind: str
    numbers: tuple[int, ...]
    output: tuple[Any, ...]
    inputs: tuple[tuple[Any, ...], ...]


def buffer(number: int, shape: tuple[int, ...]) -> UOp:
    return make_reshape(
        UOp(Op.BUFFER, float32, (), BufferArg(number, math.prod(shape), "CPU")), shape
    )


def place(x: UOp, mesh: Mesh, **axes: int) -> UOp:
    return UOp(Op.RESHARD, x.dtype, (x,), mesh.lay_out(axes, x.shape))


def write(value: UOp) -> UOp:
    sink = shard_values(UOp.sink(UOp(Op.MSELECT, value.dtype, (value,), 0)))
    verify(sink, "graph")
    return sink


def list_calls(sink: UOp) -> list[Call]:
    """The collectives in the order in which they have to be called."""
    calls: list[Call] = []
    for node in sink.iter_ops(Op.CUSTOM_FUNCTION):
        signature = read_signature(node)
        numbers = tuple(int(n.arg) for n in signature.scalars)
        inputs = tuple(spec.shape for spec in signature.inputs)
        calls.append(Call(node.arg, numbers, signature.memory.shape, inputs))
    return sorted(calls, key=lambda call: call.numbers[0])


def along(n: int, index: int) -> Mesh:
    return Mesh(("data",), (n,), (index,))


def test_a_sum_over_the_split_axis_is_reduced_after_the_own_sum():
    x = place(buffer(1, (8, 3)), along(4, 1), data=0)
    (call,) = list_calls(write(make_reduce_axis(x, Op.ADD, (0,))))
    assert call == ("mesh.reduce.add", (0, 1), (1, 3), ((1, 3),))


def test_a_sum_over_two_split_axes_is_one_reduction():
    mesh = Mesh(("data", "model"), (2, 2), (0, 1))
    x = place(buffer(1, (8, 6)), mesh, data=0, model=1)
    (call,) = list_calls(write(make_reduce_axis(x, Op.MAX, (0, 1))))
    assert call == ("mesh.reduce.max", (0, 0b11), (1, 1), ((1, 1),))


def test_a_product_of_whole_weights_needs_no_collective():
    mesh = along(2, 0)
    x, w = place(buffer(1, (8, 3)), mesh, data=0), place(buffer(2, (8, 3)), mesh)
    assert list_calls(write(x * w)) == []


def test_parts_are_gathered_along_their_axis():
    mesh = along(3, 0)
    x = place(buffer(1, (7, 2)), mesh, data=0)
    (call,) = list_calls(write(place(x, mesh)))
    assert call == ("mesh.gather", (0, 1, 3, 2, 2), (7, 2), ((3, 2),))


@pytest.mark.parametrize(("split", "output"), [(0, (2, 7)), (1, (3, 5))])
def test_a_sum_that_is_split_is_scattered(split, output):
    mesh = along(2, 1)
    x = place(buffer(1, (4, 5, 7)), mesh, data=0)
    total = make_reshape(make_reduce_axis(x, Op.ADD, (0,)), (5, 7))
    (call,) = list_calls(write(place(total, mesh, data=split)))
    sizes = (3, 2) if split == 0 else (4, 3)
    # The axis that is split comes first, so that parts lie one after the other.
    sent = (5, 7) if split == 0 else (7, 5)
    assert call == ("mesh.scatter.add", (0, 1, *sizes), output, (sent,))


def test_a_sum_that_others_read_too_is_reduced():
    mesh = along(2, 1)
    x = place(buffer(1, (4, 5)), mesh, data=0)
    total = make_reshape(make_reduce_axis(x, Op.ADD, (0,)), (5,))
    sink = write(place(total, mesh, data=0) * place(total * 2.0, mesh, data=0))
    assert [call.kind for call in list_calls(sink)] == ["mesh.reduce.add"]


def test_a_sum_over_another_axis_of_the_mesh_is_not_scattered():
    mesh = Mesh(("data", "model"), (2, 2), (0, 1))
    x = place(buffer(1, (4, 6)), mesh, data=0, model=1)
    total = make_reduce_axis(x, Op.ADD, (0,))
    # Sums over the first axis of the mesh, which the second one splits in another way.
    sink = write(place(make_reshape(total, (6,)), mesh))
    assert [call.kind for call in list_calls(sink)] == ["mesh.reduce.add", "mesh.gather"]


def test_another_axis_is_split_by_an_exchange():
    mesh = along(2, 1)
    x = place(buffer(1, (7, 5)), mesh, data=0)
    (call,) = list_calls(write(place(x, mesh, data=1)))
    assert call == ("mesh.exchange", (0, 1, 4, 3, 3, 2), (7, 2), ((15,),))


@pytest.mark.parametrize(("index", "rows", "sent"), [(0, 2, ()), (1, 2, (2,)), (3, 0, (2,))])
def test_a_stencil_sends_the_rows_at_the_borders(index, rows, sent):
    x = place(buffer(1, (16, 5)), along(4, index), data=0)
    ends = [make_shrink(x, ((begin, begin + 14), (0, 5))) for begin in (0, 2)]
    (call,) = list_calls(write(ends[0] + ends[1]))
    assert call.kind == "mesh.halo"
    # A byte is written where nothing is received.
    assert call.output == ((rows, 5) if rows else (1,))
    assert tuple(shape[0] for shape in call.inputs if len(shape) == 2) == sent


def test_a_flip_exchanges_opposite_parts():
    x = place(buffer(1, (7, 2)), along(2, 0), data=0)
    (call,) = list_calls(write(make_flip(x, (True, False))))
    assert call == ("mesh.mirror", (0, 1), (3, 2), ((4, 2),))


def test_a_row_is_sent_alone_to_all():
    x = place(buffer(1, (8, 2)), along(4, 3), data=0)
    (call,) = list_calls(write(make_shrink(x, ((2, 3), (0, 2)))))
    assert call.kind == "mesh.gather"
    assert (call.numbers, call.output) == ((0, 1, 0, 1, 0, 0), (1, 2))


def test_each_collective_reads_the_one_before_and_the_last_is_a_result():
    x = place(buffer(1, (8, 8)), along(2, 0), data=0)
    most = make_reduce_axis(x, Op.MAX, (0,))
    least = make_reduce_axis(x, Op.MIN, (0,))
    sink = write(most + least)
    functions = list(sink.iter_ops(Op.CUSTOM_FUNCTION))
    assert len(functions) == 2
    *_, before = read_signature(functions[1]).arrays
    assert before.source is functions[0]
    assert sink.src[-1] is functions[1]


def test_small_sums_that_need_none_of_each_other_are_one():
    x = place(buffer(1, (8, 6)), along(2, 0), data=0)
    total = make_reduce_axis(x, Op.ADD, (0,))
    centred = x - make_expand(total, (8, 6))
    values = [
        total,
        make_reduce_axis(x * x, Op.ADD, (0, 1)),
        # This one depends on the first.
        make_reduce_axis(centred, Op.ADD, (0,)),
    ]
    sink = shard_values(UOp.sink(*(UOp(Op.MSELECT, v.dtype, (v,), 0) for v in values)))
    verify(sink, "graph")
    assert [(call.kind, call.output) for call in list_calls(sink)] == [
        ("mesh.reduce.add", (7,)),
        ("mesh.reduce.add", (1, 6)),
    ]


def test_sums_before_and_after_a_loop_with_collectives_are_not_joined():
    mesh = along(2, 0)
    x = place(buffer(1, (8, 2)), mesh, data=0)
    total = make_reduce_axis(x, Op.ADD, (0,))
    state = make_parameter(x, 0)
    following = make_expand(make_reduce_axis(state, Op.ADD, (0,)), (8, 2))
    (result,) = make_loop(UOp.sink(state + following), 100, [x], n_carried=1)
    values = [total, make_reduce_axis(result, Op.ADD, (0,))]
    sink = shard_values(UOp.sink(*(UOp(Op.MSELECT, v.dtype, (v,), 0) for v in values)))
    verify(sink, "graph")
    assert [call.output for call in list_calls(sink)] == [(1, 2), (1, 2)]


@pytest.mark.parametrize("index", [0, 1])
def test_a_collective_comes_before_those_of_values_that_take_longer(index):
    x = place(buffer(1, (4, 4)), along(2, index), data=0)
    # Listed first, and known last: the second sum of sums.
    late = make_reduce_axis(x, Op.ADD, (1,))
    late = make_reduce_axis(x * make_expand(late, (4, 4)), Op.MAX, (0,))
    early = make_reduce_axis(x, Op.MUL, (0,))
    sink = shard_values(UOp.sink(*(UOp(Op.MSELECT, v.dtype, (v,), 0) for v in (late, early))))
    assert [call.kind for call in list_calls(sink)] == ["mesh.reduce.mul", "mesh.reduce.max"]


def test_a_call_after_joined_sums_reads_all_of_them():
    x = place(buffer(1, (4, 4)), along(2, 0), data=0)
    sums = [make_reduce_axis(x * factor, Op.ADD, (0,)) for factor in (1.0, 2.0)]
    largest = make_reduce_axis(x, Op.MAX, (0,))
    values = [*sums, largest]
    sink = shard_values(UOp.sink(*(UOp(Op.MSELECT, v.dtype, (v,), 0) for v in values)))
    joined, last = list_calls(sink)
    # The result itself and no part of it, for which it would have to be known.
    assert joined.output == (8,)
    assert last.inputs == ((1, 4), (8,))


def test_a_large_sum_is_reduced_alone():
    n = MAX_SMALL_BYTES // 4 + 1
    x = place(buffer(1, (2, n)), along(2, 0), data=0)
    values = [make_reduce_axis(x * factor, Op.ADD, (0,)) for factor in (1.0, 2.0)]
    sink = shard_values(UOp.sink(*(UOp(Op.MSELECT, v.dtype, (v,), 0) for v in values)))
    assert [call.output for call in list_calls(sink)] == [(1, n), (1, n)]


def test_equal_collectives_of_one_value_are_one():
    mesh = along(2, 0)
    x = place(buffer(1, (8, 8)), mesh, data=0)
    whole = place(x, mesh)
    assert len(list_calls(write(whole * 2.0 + place(x, mesh)))) == 1


def test_a_collective_stays_where_its_value_is_not_read():
    # The first process reads only padding.
    x = place(buffer(1, (8, 2)), along(2, 0), data=0)
    mean = make_reduce_axis(x, Op.ADD, (0,))
    padded = make_pad(mean, ((7, 0), (0, 0)))
    sink = write(place(padded, along(2, 0), data=0))
    assert [call.kind for call in list_calls(sink)] == ["mesh.reduce.add"]


def test_an_unrolled_loop_in_a_loop_keeps_its_collectives():
    mesh = along(2, 1)
    x = place(buffer(1, (8, 2)), mesh, data=0)
    state = make_parameter(x, 0)
    row = make_pad(make_reduce_axis(state, Op.ADD, (0,)), ((0, 7), (0, 0)))
    (inner,) = make_loop(UOp.sink(state + row), 2, [state], n_carried=1)
    (result,) = make_loop(UOp.sink(inner), 100, [x], n_carried=1)
    unrolled = simplify_loops(write(result))
    (loop,) = (node for node in unrolled.toposort() if node.op is Op.LOOP)
    # This process has no row that reads the sums.
    assert len(list_calls(release_events(loop.arg.body))) == 2


def test_memory_on_no_mesh_takes_the_whole_value():
    memory, mesh = buffer(2, (8, 2)), along(2, 1)
    value = place(buffer(1, (8, 2)), mesh, data=0) * 2.0
    written = UOp(Op.AFTER, float32, (memory, UOp(Op.ASSIGN, float32, (memory, value))))
    sink = shard_values(UOp.sink(written))
    verify(sink, "graph")
    (call,) = list_calls(sink)
    assert (call.kind, call.output) == ("mesh.gather", (8, 2))


def _make_loop(mesh: Mesh, count: int) -> UOp:
    x = place(buffer(1, (8, 2)), mesh, data=0)
    state = make_parameter(x, 0)
    total = make_reduce_axis(state, Op.ADD, (0,))
    # Only one row, of one process, reads the sum.
    row = make_pad(total, ((0, 7), (0, 0)))
    (result,) = make_loop(UOp.sink(state + row), count, [x], n_carried=1)
    return result


@pytest.mark.parametrize("index", [0, 1])
def test_iterations_call_their_collectives_in_order(index):
    sink = write(_make_loop(along(2, index), 100))
    (loop,) = (node for node in sink.toposort() if node.op is Op.LOOP)
    arg: LoopArg = loop.arg
    # The state, and the byte that orders.
    assert arg.n_carried == 2
    assert len(list_calls(arg.body)) == 1
    unrolled = simplify_loops(write(_make_loop(along(2, index), 3)))
    calls = list(release_events(unrolled).iter_ops(Op.CUSTOM_FUNCTION))
    assert len(calls) == 3
    for before, after in pairwise(calls):
        assert before in set(after.toposort())


@st.composite
def programs(draw: st.DrawFn) -> Any:
    """A function of a mesh that makes a value; of 4 processes, along one axis or two."""
    shape = tuple(draw(st.integers(4, 9)) for _ in range(draw(st.integers(1, 3))))
    two_axes = draw(st.booleans())
    steps = draw(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 50)), max_size=6))
    split = draw(st.permutations(range(len(shape))))

    def make(index: int) -> UOp:
        mesh = Mesh(("a", "b"), (2, 2), divmod(index, 2)) if two_axes else along(4, index)
        axes = dict(zip(mesh.names, split, strict=False))
        values = [place(buffer(1, shape), mesh, **axes), place(buffer(2, shape), mesh)]
        for kind, number in steps:
            x = values[number % len(values)]
            values.append(_step(x, values, kind, number))
        last = UOp.sink(*values[2:]) if len(values) > 2 else None
        return place(values[-1], mesh) if last is None else place(values[-1] * 2.0, mesh)

    return make


def _step(x: UOp, values: list[UOp], kind: int, number: int) -> UOp:
    sizes = [int(s) for s in x.shape]
    axis = number % len(sizes)
    bounds = [(0, s) for s in sizes]
    match kind:
        case 0:
            return make_reduce_axis(x, Op.ADD, (axis,))
        case 1:
            bounds[axis] = (number % sizes[axis], sizes[axis])
            return make_shrink(x, bounds)
        case 2:
            return make_pad(x, [(1, 2) if a == axis else (0, 0) for a in range(len(sizes))])
        case 3:
            return make_flip(x, [a == axis for a in range(len(sizes))])
        case 4:
            return make_permute(x, [*range(1, len(sizes)), 0])
        case 5:
            return make_reshape(x, (math.prod(sizes),))
        case 6:
            return make_concat([x, x], axis)
        case _:
            same = [v for v in values if v.shape == x.shape]
            return x + same[number % len(same)]


@settings(deadline=None, max_examples=60)
@given(programs())
def test_all_processes_call_the_same_collectives(make):
    numbered: dict[tuple[Any, ...], Call] = {}
    lengths: set[int] = set()
    for index in range(4):
        sink = write(make(index))
        verify(sink, "graph")
        assert all(node.op not in (Op.MULTI, Op.RESHARD) for node in sink.toposort())
        lengths.add(len(sink.src))
        for call in list_calls(sink):
            key = call.numbers[0], call.numbers[1]
            known = numbered.setdefault(key, call)
            # Processes of other groups along the same axis have parts of other sizes.
            assert (known.kind, len(known.numbers)) == (call.kind, len(call.numbers))
    assert lengths <= {1, 2}
