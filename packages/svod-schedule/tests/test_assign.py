"""Assignment: what is written, what is read before and after it, and in which order kernels run."""

from __future__ import annotations

import numpy as np
import pytest

from svod_dtype import float32, int32
from svod_ir import (
    Op,
    UOp,
    make_alu,
    make_cast,
    make_flip,
    make_gather,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scatter,
    make_shrink,
)
from svod_ir.evaluate import evaluate
from svod_ir.testing import assert_same, random_inputs
from svod_ir.testing.nodes import assign, buffer
from svod_schedule.errors import UnsupportedGraphError
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import PIPELINES, Context, run_pipeline


def kernels_of(*results: UOp) -> list[UOp]:
    """The calls of the kernel graph in order, one for each value, after checking that it and that
    of joined ones mean the same as the graph."""
    check_kernels(UOp.sink(*results), Context())
    return check_kernels(
        UOp.sink(*results), Context(passes=PIPELINES.without_pass("kernelize", "join-kernels"))
    )


def check_kernels(sink: UOp, context: Context) -> list[UOp]:
    """The calls of the kernel graph in order, after checking that it means the same as the
    graph.
    """
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", sink, context), context)
    given = random_inputs(sink)
    expected, found = ({n: a.copy() for n, a in given.items()} for _ in range(2))
    evaluate(sink, expected)
    evaluate(kernels, found)
    for node in given:
        np.testing.assert_array_equal(found[node], expected[node])
    calls = list(kernels.iter_ops(Op.CALL))
    for call in calls:
        body = call.src[0]
        assert_same(
            body,
            linearize(run_pipeline("lower", run_pipeline("optimize", body, Context()), Context())),
        )
    return calls


X = make_reshape(buffer(1, 40), (5, 8))


def test_an_elementwise_update_writes_in_place() -> None:
    assert len(kernels_of(assign(X, make_alu(Op.ADD, X, UOp.const(float32, 1.0))))) == 1


def test_a_slice_is_assigned_through_a_view() -> None:
    part = make_flip(make_permute(make_shrink(X, ((1, 4), (2, 6))), (1, 0)), (True, False))
    assert len(kernels_of(assign(part, make_reshape(buffer(2, 12), (4, 3))))) == 1


def test_a_value_that_reads_other_elements_of_the_target_is_computed_first() -> None:
    x = buffer(1, 40)
    calls = kernels_of(assign(make_shrink(x, ((1, 40),)), make_shrink(x, ((0, 39),))))
    assert len(calls) == 2


def test_a_reduction_of_the_target_is_computed_first() -> None:
    total = make_reduce_axis(X, Op.ADD, (1,))
    assert len(kernels_of(assign(make_shrink(X, ((0, 5), (0, 1))), total))) == 2


def test_readers_of_the_old_version_run_before_the_assignment_and_of_the_new_after_it() -> None:
    before = make_alu(Op.MUL, X, UOp.const(float32, 2.0))
    written = assign(X, make_reshape(buffer(2, 40), (5, 8)))
    after = make_alu(Op.ADD, written, UOp.const(float32, 3.0))
    calls = kernels_of(after, before, written)
    position = {name: i for i, c in enumerate(calls) for name in _constants(c)}
    assert position[2.0] < position[3.0]
    assert len(calls) == 3


def _constants(call: UOp) -> list[float]:
    return [n.arg for n in call.src[0].iter_ops(Op.CONST) if n.dtype is float32]


def test_a_second_assignment_sees_the_first() -> None:
    first = assign(X, make_alu(Op.ADD, X, UOp.const(float32, 1.0)))
    second = assign(first, make_alu(Op.MUL, first, UOp.const(float32, 2.0)))
    assert len(kernels_of(second)) == 2


def test_padding_cannot_be_assigned() -> None:
    padded = make_pad(buffer(1, 4), ((1, 1),))
    with pytest.raises(
        UnsupportedGraphError, match="assignment to a padded tensor is not supported"
    ):
        kernels_of(assign(padded, buffer(2, 6)))


def test_a_reader_of_two_versions_gets_a_copy_of_the_old_one() -> None:
    written = assign(X, make_reshape(buffer(2, 40), (5, 8)))
    assert len(kernels_of(make_alu(Op.ADD, X, written))) == 3


def test_a_version_that_is_not_overwritten_is_not_copied() -> None:
    written = assign(X, make_reshape(buffer(2, 40), (5, 8)))
    assert len(kernels_of(make_alu(Op.ADD, X, X), make_alu(Op.MUL, written, written))) == 3


def store(value: UOp) -> UOp:
    return UOp(Op.CONTIGUOUS, value.dtype, (value,))


def count_joined(*results: UOp) -> int:
    return len(check_kernels(UOp.sink(*results), Context()))


def test_two_groups_with_a_common_reader_are_joined() -> None:
    x, y = make_reshape(buffer(1, 40), (5, 8)), make_reshape(buffer(2, 40), (5, 8))
    one, two = store(make_alu(Op.EXP2, x)), store(make_alu(Op.EXP2, y))
    # Neither reads what the other does, and both are stored, since two results read each.
    results = [store(one * two), store(one + two)]
    assert len(kernels_of(*results)) == 4
    assert count_joined(*results) == 1


def test_values_that_only_a_group_reads_are_not_stored() -> None:
    x = make_reshape(buffer(1, 40), (5, 8))
    inner = store(make_alu(Op.EXP2, x))
    results = [store(inner * 2.0), store(inner + x)]
    (call,) = check_kernels(UOp.sink(*results), Context())
    assert sum(1 for _ in call.body.iter_ops(Op.STORE)) == 2
    assert len(call.arguments) == 3  # x and the two results
    (call,) = check_kernels(UOp.sink(inner, *results), Context())
    assert sum(1 for _ in call.body.iter_ops(Op.STORE)) == 3


def test_a_value_stored_for_one_reader_stays_stored_in_groups() -> None:
    x, y = make_reshape(buffer(1, 40), (5, 8)), make_reshape(buffer(2, 40), (5, 8))
    inner = store(make_alu(Op.EXP2, x))
    outer = store(make_alu(Op.EXP2, inner) + y)
    other = store(x * y)
    calls = check_kernels(UOp.sink(outer, other), Context())
    assert sum(1 for call in calls for _ in call.body.iter_ops(Op.STORE)) == 3
    assert len(calls) > 1


INDICES = make_reshape(buffer(3, 3, int32), (3,))
ROWS = make_reshape(buffer(4, 24), (3, 8))


def test_rows_are_written_in_place_by_one_kernel() -> None:
    (call,) = kernels_of(assign(X, make_scatter(X, INDICES, ROWS, 0)))
    stores = list(call.body.iter_ops(Op.STORE))
    assert len(stores) == 1
    # Three rows are written, not all five.
    assert {r.stop.arg for r in stores[0].location.ranges if r.stop.op is Op.CONST} == {3, 8}


def test_rows_are_written_in_place_through_views() -> None:
    flat = make_reshape(X, (40,))
    written = make_reshape(make_scatter(flat, INDICES, buffer(5, 3), 0), (5, 8))
    assert len(kernels_of(assign(X, written))) == 1
    part = make_flip(make_permute(make_shrink(X, [(1, 4), (2, 6)]), (1, 0)), (True, False))
    rows = make_reshape(buffer(5, 9), (3, 3))
    assert len(kernels_of(assign(part, make_scatter(part, INDICES, rows, 0)))) == 1


@pytest.mark.parametrize("n_copies", [1, 2])
def test_rows_and_indices_that_read_the_memory_are_copied_before(n_copies: int) -> None:
    """With a repeated index, the second row would read what the first one has written."""
    rows = make_alu(Op.MUL, make_gather(X, INDICES, 0), UOp.const(float32, 2.0))
    indices = INDICES
    if n_copies == 2:
        indices = make_cast(make_reshape(make_shrink(X, [(0, 3), (0, 1)]), (3,)), int32)
    written = make_scatter(X, indices, rows, 0)
    assert len(kernels_of(assign(X, written))) == 1 + n_copies


def test_rows_of_an_earlier_version_are_not_written_in_place() -> None:
    second = assign(X, make_alu(Op.MUL, X, UOp.const(float32, 3.0)))
    last = assign(second, make_scatter(X, INDICES, ROWS, 0))
    kernels_of(last)


def test_the_functional_value_of_rows_in_place_is_kept_for_its_readers() -> None:
    written = make_scatter(X, INDICES, ROWS, 0)
    kernels_of((assign(X, written)), make_alu(Op.MUL, written, UOp.const(float32, 2.0)))


def test_two_writes_of_rows_run_in_order() -> None:
    first = assign(X, make_scatter(X, INDICES, ROWS, 0))
    again = make_scatter(first, INDICES, make_alu(Op.NEG, ROWS), 0)
    assert len(kernels_of(assign(first, again))) == 2


def test_computed_rows_are_written_by_one_kernel() -> None:
    x = make_reshape(buffer(1, 1 << 15), (256, 128))
    rows = make_alu(Op.EXP, make_reshape(buffer(2, 1 << 14), (128, 128)))
    written = make_scatter(x, buffer(3, 128, int32), make_alu(Op.SIN, rows), 0)
    assert len(kernels_of(assign(x, written))) == 1
