"""Tensors on several devices: every pass keeps what a random sharded graph means, and no kernel
mixes devices.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_dtype import float32, int64
from svod_ir import (
    IROptions,
    Op,
    Sharding,
    UOp,
    make_cast,
    make_expand,
    make_iota,
    make_reduce_axis,
    make_reshape,
    make_shrink,
    parse_graph,
    print_graph,
    verify,
)
from svod_ir.args import GradientRule
from svod_ir.derivatives import make_gradient
from svod_ir.evaluate import evaluate
from svod_ir.loops import iter_nodes, make_loop, make_parameter, make_switch
from svod_ir.placement import split_evenly
from svod_ir.testing import assert_close, count_examples, graphs, nodes, random_inputs, tolerance
from svod_ir.testing.nodes import contiguous
from svod_ir.testing.programs import tensor
from svod_schedule.pipeline import Context, run_pipeline
from svod_schedule.rangeify.all_reduce import MIN_SCATTERED, all_reduce
from svod_schedule.rangeify.shard_values import shard_values

CHECKED = Context(options=IROptions(check=True))


def shard(node: UOp, devices: tuple[str, ...], axis: int | None, sizes: tuple[int, ...]) -> UOp:
    """`node` on several devices, as COPYs of its parts."""
    own = Sharding(devices, axis, sizes)
    shards: list[UOp] = []
    for position, device in enumerate(devices):
        bounds = [own.bounds(position) if a == axis else (0, s) for a, s in enumerate(node.shape)]
        part = make_shrink(node, bounds)
        shards.append(
            part if part.placement == device else UOp(Op.COPY, node.dtype, (part,), device)
        )
    return UOp(Op.MULTI, node.dtype, (nodes.stack(*shards),), axis)


@st.composite
def sharded_graphs(draw: st.DrawFn) -> UOp:
    """A random graph whose inputs are spread over the same two or three devices, each in a way of
    its own.
    """
    graph = draw(graphs(max_ops=8, max_elements=64))
    devices = ("CPU", "CPU:1", "CPU:2")[: draw(st.integers(2, 3))]
    replacements: dict[UOp, UOp] = {}
    # A buffer may be read in one shape, in several, and as it is.
    for view in graph.iter_ops(Op.BUFFER, Op.RESHAPE):
        if view.op is Op.RESHAPE and view.src[0].op is not Op.BUFFER:
            continue
        axis = (
            draw(st.one_of(st.none(), st.integers(0, len(view.shape) - 1))) if view.shape else None
        )
        size = view.shape[axis] if axis is not None else 0
        cuts = sorted(draw(st.integers(0, size)) for _ in devices[1:])
        is_even = draw(st.booleans())
        sizes = tuple(b - a for a, b in zip((0, *cuts), (*cuts, size), strict=True))
        replacements[view] = shard(
            view, devices, axis, split_evenly(size, len(devices)) if is_even else sizes
        )
    return graph.substitute(replacements)


def join(values: tuple[Any, ...], placement: Any, shape: tuple[int, ...]) -> Any:
    """The whole of what the results of a graph hold, each of which may be flat memory."""
    if not isinstance(placement, Sharding):
        return values[0].reshape(shape)
    if placement.axis is None:
        assert len({v.tobytes() for v in values}) == 1
        return values[0].reshape(shape)
    axis, sizes = placement.axis, [size for size in placement.sizes if size]
    shards = [
        v.reshape(*shape[:axis], n, *shape[axis + 1 :]) for v, n in zip(values, sizes, strict=True)
    ]
    return np.concatenate(shards, axis)


@pytest.mark.parametrize("has_scatter", [False, True])
@settings(max_examples=count_examples(40), deadline=None)
@given(graph=sharded_graphs())
def test_each_pass_keeps_what_a_sharded_graph_means(has_scatter: bool, graph: UOp) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # The package has a function of the module's name.
        module = sys.modules[all_reduce.__module__]
        patch.setattr(module, "MIN_SCATTERED", 1 if has_scatter else MIN_SCATTERED)
        patch.setattr(module, "MIN_SCATTERED_DEVICES", 2)
        assert parse_graph(print_graph(graph)) is graph
        inputs = random_inputs(graph, seed=0)
        expected = evaluate(graph, {n: a.copy() for n, a in inputs.items()})
        if expected.size == 0:
            return
        sink = UOp.sink(contiguous(graph))
        steps = [shard_values(sink)]
        steps.append(all_reduce(steps[0]))
        steps.append(run_pipeline("rangeify", sink, CHECKED))
        steps.append(run_pipeline("kernelize", steps[2], CHECKED))
        for step in steps:
            found = join(
                evaluate(step, {n: a.copy() for n, a in inputs.items()}),
                graph.placement,
                expected.shape,
            )
            assert_close(found, expected, loose=tolerance(graph), what=print_graph(step))
        check_devices(steps[-1])


def test_a_gradient_node_is_its_first_operand() -> None:
    x, whole = spread(0, 4, axis=0), spread(2, 4, axis=None)
    marked = make_gradient(x.alu(Op.EXP), (x, whole), GradientRule("any"))
    assert shard_values(UOp.sink(marked)) is shard_values(UOp.sink(x.alu(Op.EXP)))


def check_devices(kernels: UOp) -> None:
    """Every kernel reads and writes memory of one device; only copies join two."""
    for call in kernels.iter_ops(Op.CALL):
        devices = {n.arg.device for a in call.src[1:] for n in [memory_of(a)] if n.op is Op.BUFFER}
        assert len(devices) == (2 if call.src[0].op is Op.COPY else 1), print_graph(call)


def memory_of(argument: UOp) -> UOp:
    while argument.op is Op.AFTER:
        argument = argument.src[0]
    return argument


DEVICES = ("CPU", "CPU:1")


def spread(number: int, *shape: int, axis: int | None) -> UOp:
    """A tensor in two shards, each a buffer of its own; the first one is larger where it
    must be.
    """
    sizes = split_evenly(shape[axis], 2) if axis is not None else (0, 0)
    shapes = [
        shape if axis is None else (*shape[:axis], size, *shape[axis + 1 :]) for size in sizes
    ]
    shards = [
        tensor(number + i, *part, device=d)
        for i, (part, d) in enumerate(zip(shapes, DEVICES, strict=True))
    ]
    return UOp(Op.MULTI, float32, (nodes.stack(*shards),), axis)


def check_loop(*results: UOp) -> UOp:
    """The shards of the results, each of which means what it did; every operand of a loop is on one
    device.
    """
    sink = UOp.sink(*map(contiguous, results))
    verify(sink, "graph")
    written = shard_values(sink)
    verify(written, "graph")
    inputs = random_inputs(sink)
    found = list(evaluate(written, {n: a.copy() for n, a in inputs.items()}))
    for result, expected in zip(
        results, evaluate(sink, {n: a.copy() for n, a in inputs.items()}), strict=True
    ):
        place = result.placement
        shards = (
            [found.pop(0) for _ in place.devices] if isinstance(place, Sharding) else [found.pop(0)]
        )
        assert_close(join(tuple(shards), place, expected.shape), expected, loose=tolerance(sink))
    assert not any(
        isinstance(n.placement, Sharding) for n in iter_nodes(written) if n.op is not Op.MSTACK
    )
    return written


def test_a_loop_on_shards_has_an_operand_and_a_result_for_each() -> None:
    state, rows, factor = spread(1, 5, axis=0), spread(3, 4, 5, axis=1), spread(5, 5, axis=None)
    total, row, scale = (
        make_parameter(state, 0),
        make_parameter(rows, 2, is_slice=True),
        make_parameter(factor, 4),
    )
    following = total * scale + row
    # The sum needs the other shard; what is made from no memory is computed once.
    mean = make_expand(make_reduce_axis(following, Op.ADD, (0,)), (5,))
    body = UOp.sink(following + mean, row - mean, make_cast(make_iota(3, int64), float32))
    last, differences, numbers = make_loop(body, 4, (state, rows, factor), n_carried=1, n_sliced=1)
    assert differences.placement == rows.placement
    written = check_loop(last, differences, numbers)
    (loop,) = written.iter_ops(Op.LOOP)
    assert (len(loop.src), loop.arg.n_carried, loop.arg.n_sliced) == (7, 2, 2)
    assert [s.placement for s in loop.src[1:]] == ["CPU", "CPU:1"] * 3


def test_the_condition_of_a_loop_on_shards_is_on_one_device() -> None:
    state = spread(1, 6, axis=0)
    following = make_parameter(state, 0) * 2.0
    largest = make_reshape(make_reduce_axis(following, Op.MAX, (0,)), ())
    (last,) = make_loop(
        UOp.sink(following, largest < 100.0), 50, (state,), n_carried=1, is_conditional=True
    )
    written = check_loop(last)
    (loop,) = written.iter_ops(Op.LOOP)
    assert len(loop.arg.body.src) == 3


def test_the_trip_count_may_be_computed_from_shards() -> None:
    state = spread(1, 6, axis=0)
    n_positive = make_reduce_axis(make_cast(state < 0.0, int64), Op.ADD, (0,))
    (last,) = make_loop(
        UOp.sink(make_parameter(state, 0) + 1.0),
        make_reshape(n_positive, ()),
        (state,),
        n_carried=1,
    )
    check_loop(last)


def test_a_switch_on_shards_returns_the_shards_of_its_branch() -> None:
    x, whole = spread(1, 5, axis=0), spread(3, 5, axis=None)
    split, other = make_parameter(x, 0), make_parameter(whole, 2)
    zeros = make_expand(make_reshape(UOp.const(float32, 0), (1,)), (5,))
    bodies = [
        UOp.sink(zeros, other),
        UOp.sink(split * 2.0, other + 1.0),
        UOp.sink(split + other, zeros),
    ]
    for choice in range(3):
        check_loop(*make_switch(UOp.const(int64, choice), bodies, (x, whole)))


def test_nested_loops_are_on_shards_too() -> None:
    state, factor = spread(1, 2, 5, axis=1), spread(3, 2, 5, axis=1)
    outside, scale = make_parameter(state, 0), make_parameter(factor, 2)
    inner = UOp.sink(make_parameter(outside, 0) * 0.5 + make_parameter(scale, 2))
    (inside,) = make_loop(inner, 3, (outside, scale), n_carried=1)
    (last,) = make_loop(UOp.sink(inside), 2, (state, factor), n_carried=1)
    written = check_loop(last)
    assert [len(n.src) for n in iter_nodes(written) if n.op is Op.LOOP] == [5, 5]


def test_shards_made_inside_a_loop_are_written_there() -> None:
    whole = tensor(1, 6)
    inside = shard(make_parameter(whole, 0), DEVICES, 0, (3, 3))
    (last,) = make_loop(
        UOp.sink(UOp(Op.COPY, float32, (inside * 2.0,), "CPU")), 3, (whole,), n_carried=1
    )
    check_loop(last)


def test_a_carry_without_memory_is_on_every_device() -> None:
    numbers = make_cast(make_iota(100, int64), float32)
    start, state, table = (
        UOp.const(float32, 1),
        spread(1, 5, axis=0),
        make_cast(make_iota(5, int64), float32).alu(Op.EXP),
    )
    count, inside = make_parameter(start, 0), make_parameter(state, 1)
    number, row = make_parameter(numbers, 3, is_slice=True), make_parameter(table, 4)
    body = UOp.sink(count + 1.0, inside * 0.5 + number + count + row, number * 2.0)
    last, shards, doubled = make_loop(
        body, 100, (start, state, numbers, table), n_carried=2, n_sliced=1
    )
    assert last.placement == Sharding(DEVICES)
    for results in ((last, shards, doubled), (shards,), (last,), (doubled,)):
        check_loop(*results)
        kernels = run_pipeline(
            "kernelize",
            run_pipeline("rangeify", UOp.sink(*map(contiguous, results)), CHECKED),
            CHECKED,
        )
        for call in (n for n in kernels.iter_ops(Op.CALL) if n.arg is not None):
            check_devices(call.body)


def test_a_carry_on_one_device_stays_there_beside_shards() -> None:
    start, state = UOp.const(float32, 1), spread(1, 5, axis=0)
    count = make_parameter(start, 0)
    (memory,) = count.src
    near = make_reshape(memory.with_arg(memory.arg._replace(device="CPU:1")), ())
    body = UOp.sink(near + 1.0, make_parameter(state, 1) * 0.5)
    last, shards = make_loop(body, 100, (start, state), n_carried=2)
    assert last.placement == "CPU:1"
    check_loop(last, shards)
    check_loop(last)


def test_nested_loops_on_shards_read_values_without_memory() -> None:
    start, state = UOp.const(float32, 1), spread(1, 5, axis=0)
    table = make_cast(make_iota(5, int64), float32).alu(Op.EXP)
    count, inside, row = (
        make_parameter(start, 0),
        make_parameter(state, 1),
        make_parameter(table, 3),
    )
    inner = UOp.sink(
        make_parameter(inside, 0) * make_parameter(count, 2) * 0.1 + make_parameter(row, 3)
    )
    (nested,) = make_loop(inner, 100, (inside, count, row), n_carried=1)
    last, shards = make_loop(UOp.sink(count + 1.0, nested), 100, (start, state, table), n_carried=2)
    check_loop(last, shards)
    check_loop(shards)


def test_a_switch_between_constants_is_on_the_devices_of_its_operands() -> None:
    x = spread(1, 5, axis=0)
    numbers = make_cast(make_iota(5, int64), float32)
    bodies = [
        UOp.sink(make_parameter(x, 0).alu(Op.EXP), numbers),
        UOp.sink(make_parameter(x, 0), -numbers),
    ]
    check_loop(*make_switch(make_reshape(tensor(7, 1, dtype=int64), ()), bodies, (x,)))


def test_results_of_shards_without_readers_are_on_their_devices_too() -> None:
    state, rows = spread(1, 5, axis=0), spread(3, 100, 5, axis=1)
    total, row = make_parameter(state, 0), make_parameter(rows, 2, is_slice=True)
    _, stacked = make_loop(
        UOp.sink(total + row, total * row), 100, (state, rows), n_carried=1, n_sliced=1
    )
    sink = UOp.sink(contiguous(stacked))
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", sink, CHECKED), CHECKED)
    (call,) = (n for n in kernels.iter_ops(Op.CALL) if n.arg is not None)
    assert [n.placement for n in call.arguments[:4]] == ["CPU", "CPU:1"] * 2
    inputs = random_inputs(sink)
    expected = evaluate(sink, {n: a.copy() for n, a in inputs.items()})[0]
    found = join(
        evaluate(kernels, {n: a.copy() for n, a in inputs.items()}),
        stacked.placement,
        expected.shape,
    )
    assert_close(found, expected, loose=tolerance(sink))


def test_each_device_reduces_one_chunk_of_a_large_sum() -> None:
    devices = ("CPU", "CPU:1", "CPU:2", "CPU:3")
    stack = nodes.stack(*(tensor(n + 1, 4, MIN_SCATTERED, device=d) for n, d in enumerate(devices)))
    results = [UOp(Op.ALLREDUCE, float32, (stack,), (Op.ADD, d)) for d in devices]
    written = all_reduce(UOp.sink(*results))
    sums = list(written.iter_ops(Op.ADD))
    assert len(sums) == len(devices) * (len(devices) - 1)
    assert {s.device for s in sums} == set(devices)


def test_a_kernel_that_reads_a_file_and_a_device_is_on_the_device() -> None:
    file, x = tensor(1, 8, device="DISK:/f"), tensor(2, 8, device="CPU:1")
    ranged = run_pipeline("rangeify", UOp.sink(file + x), CHECKED)
    assert [n.arg.device for n in ranged.iter_ops(Op.BUFFERIZE)] == ["CPU:1"]
