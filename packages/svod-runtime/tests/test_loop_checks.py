"""Errors of invalid loops at build time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from svod_device import Buffer
from svod_dtype import float32, int64
from svod_ir import UOp
from svod_runtime import (
    Carried,
    CarriedIn,
    CarriedOut,
    DependencyError,
    PlanError,
    PreparedBufferView,
    PreparedLoop,
    Slice,
    Whole,
)

if TYPE_CHECKING:
    from conftest import Loops, Plans


def draw(plans: Plans) -> tuple[Loops, dict[str, int]]:
    """Running sum over slices of two elements; the operand has four slices."""
    xs, x, result, spare = (
        plans.buffer(8),
        plans.buffer(2),
        plans.intermediate(2),
        plans.intermediate(2),
    )
    body = plans.body()
    before, after = body.carry(x, result, spare)
    row = body.slice(xs, 2)
    body.op(body.kernel(lambda out, *ins: None, [after], [before, row], name="sum", op_id=7))
    return body, {
        "xs": xs,
        "x": x,
        "result": result,
        "spare": spare,
        "before": before,
        "after": after,
        "row": row,
    }


def with_body(loop: PreparedLoop, **changes: Any) -> PreparedLoop:
    return replace(loop, body=replace(loop.body, **changes))


def bind_another(loop: PreparedLoop, buffer: Buffer, binding: Any) -> PreparedLoop:
    return with_body(
        loop, buffers=(*loop.body.buffers, buffer), bindings=(*loop.body.bindings, binding)
    )


Change = Callable[[PreparedLoop, "Plans"], PreparedLoop]

CASES: list[tuple[Change, str]] = [
    (
        lambda loop, _: replace(loop, count=5),
        r"local buffer 2, Slice\(3\), needs 40 bytes, but .* has 32",
    ),
    (
        lambda loop, _: replace(loop, count=UOp.variable("n", 1, 9)),
        r"needs 72 bytes, but .* has 32",
    ),
    (lambda loop, _: replace(loop, count=None), "has no trip count"),
    (
        lambda loop, _: replace(loop, count=None, count_position=9),
        "the trip count is at position 9, out of bounds for 4 operands",
    ),
    (
        lambda loop, _: replace(loop, count=None, count_position=3),
        "trip count must be an int64, got ",
    ),
    (
        lambda loop, plans: replace(
            loop,
            count=None,
            count_position=4,
            buffer_indices=(*loop.buffer_indices, plans.add(Buffer(plans.allocator, int64, 1))),
        ),
        "slices need a trip count that is known before the loop runs",
    ),
    (
        lambda loop, _: replace(loop, branch=2, n_branches=2),
        "branch 2 is out of bounds for 2 branches",
    ),
    (
        lambda loop, _: replace(loop, output_indices=(1, 2, 7)),
        "output position 7 is out of bounds for 4 buffers",
    ),
    (
        lambda loop, _: replace(loop, output_indices=(1,)),
        "carry 0 is written, but position 2 is not in output_indices",
    ),
    (
        lambda loop, _: replace(loop, buffer_indices=(0, 1, 2, 99)),
        "buffer index 99 is out of bounds for 4",
    ),
    (
        lambda loop, _: replace(loop, buffer_indices=(1, 2, 2, 0)),
        "operands 1 and 2 overlap, and the loop writes one of them",
    ),
    (
        lambda loop, _: with_body(loop, bindings=loop.body.bindings[:2]),
        "expected 3 bindings, one per local buffer, got 2",
    ),
    (
        lambda loop, _: with_body(loop, carried=(Carried(0, 1, 3),)),
        "buffers of carry 0 differ in size or device",
    ),
    (
        lambda loop, _: with_body(loop, carried=(Carried(0, 1, 8),)),
        "carry 0 is at position 8, out of bounds for 4 operands",
    ),
    (
        lambda loop, _: with_body(loop, bindings=(CarriedIn(1), *loop.body.bindings[1:])),
        r"CarriedIn\(1\), is out of bounds for 1 carries",
    ),
    (
        lambda loop, _: with_body(loop, bindings=(Whole(3), *loop.body.bindings[1:])),
        r"local buffer 0, Whole\(3\), needs 8 bytes, but .* has 32",
    ),
    (
        lambda loop, _: with_body(loop, bindings=(Whole(5), *loop.body.bindings[1:])),
        r"Whole\(5\), is at position 5, out of bounds for 4 operands",
    ),
    (
        lambda loop, _: with_body(loop, bindings=(CarriedOut(0), CarriedIn(0), Slice(3))),
        "write CarriedOut, since the carry has a spare",
    ),
    (
        lambda loop, _: with_body(loop, bindings=(CarriedIn(0), None, Slice(3))),
        r"no op writes CarriedOut\(0\)",
    ),
    (
        lambda loop, _: with_body(loop, bindings=(CarriedIn(0), Whole(0), Slice(3))),
        r"writes local buffer 1, Whole\(0\), but position 0 is not in output_indices",
    ),
    (
        lambda loop, plans: bind_another(loop, Buffer(plans.allocator, float32, 2), Whole(1)),
        "operand 1 is bound, but a carry overwrites it",
    ),
    (
        lambda loop, plans: bind_another(loop, loop.body.buffers[0].view(0, 4, float32), Whole(0)),
        "local buffer 3 is bound to .*, but does not cover its own storage",
    ),
    (
        lambda loop, plans: bind_another(
            loop, Buffer(plans.allocator, float32, 2).ensure_allocated(), None
        ),
        "local buffer 3, .*, has memory but is not bound",
    ),
    (lambda loop, _: with_body(loop, go_on=5), "go_on 5 is out of bounds for 3 local buffers"),
    (lambda loop, _: with_body(loop, go_on=1), "go_on must be one bool, got "),
    (
        lambda loop, _: with_body(loop, ops=(replace(loop.body.ops[0], buffer_indices=(1, 0, 8)),)),
        r"loop \(op \d+\), kernel sum \(op 7\): buffer index 8 is out of bounds for 3 buffers",
    ),
    (
        lambda loop, _: with_body(loop, ops=(*loop.body.ops, PreparedBufferView(3, (1, 2), 0, 8))),
        "local buffer 1 is a view, so it must not be bound",
    ),
    (
        lambda loop, plans: with_body(
            bind_another(loop, Buffer(plans.allocator, float32, 1), None),
            ops=(*loop.body.ops, PreparedBufferView(3, (3, 2), 4, 4)),
        ),
        "is not the view of .* at byte offset 4",
    ),
]


@pytest.mark.parametrize(("change", "problem"), CASES, ids=[problem for _, problem in CASES])
def test_invalid_loops_are_rejected_at_build_time(
    plans: Plans, change: Change, problem: str
) -> None:
    body, found = draw(plans)
    plans.op(change(body.loop(4), plans))
    plans.builder.set_output_buffer(found["result"])
    with pytest.raises(PlanError, match=problem):
        plans.builder.build_template([plans.buffers[found["xs"]], plans.buffers[found["x"]]])


def test_the_unchanged_loop_is_valid(plans: Plans) -> None:
    body, found = draw(plans)
    plans.op(body.loop(4))
    plans.plan("arena", found["result"]).execute()


def test_a_result_may_lie_on_its_initial_value_unless_the_body_reads_that_throughout(
    plans: Plans,
) -> None:
    body, found = draw(plans)
    loop = replace(
        body.loop(4), buffer_indices=(found["x"], found["x"], found["spare"], found["xs"])
    )
    plans.op(loop)
    plans.plan("arena", found["x"]).execute()


def test_a_result_may_not_overlap_a_whole_operand(plans: Plans) -> None:
    body, found = draw(plans)
    body.whole(found["x"])
    loop = body.loop(4)
    plans.op(
        replace(
            loop, buffer_indices=(found["x"], found["x"], found["spare"], found["xs"], found["x"])
        )
    )
    with pytest.raises(PlanError, match="overlap"):
        plans.plan("arena", found["x"])


def test_ops_of_a_body_depend_on_ops_of_the_body(plans: Plans) -> None:
    body, found = draw(plans)
    loop = body.loop(4)
    plans.op(with_body(loop, ops=(replace(loop.body.ops[0], dependencies=(99,)),)))
    with pytest.raises(DependencyError, match="op 7 depends on op id 99"):
        plans.plan("arena", found["result"])


def test_nested_loops_need_distinct_counters(plans: Plans) -> None:
    outer, found = draw(plans)
    inner = outer.body()
    inner.carry(found["before"], found["after"], None)
    outer.op(inner.loop(2, counter="t"))
    plans.op(outer.loop(4, counter="t"))
    with pytest.raises(PlanError, match="counter t is already the counter of an enclosing loop"):
        plans.plan("arena", found["result"])


def test_outputs_of_loops_must_be_writable(plans: Plans) -> None:
    body, found = draw(plans)
    owner = plans.buffers[found["x"]].ensure_allocated()
    result = Buffer.wrap(owner, owner.address, 8, float32, is_writable=False)
    plans.op(
        replace(
            body.loop(4),
            buffer_indices=(found["xs"], plans.add(result), found["spare"], found["xs"]),
        )
    )
    with pytest.raises(PlanError, match="which is read-only"):
        plans.plan("arena", found["x"])
