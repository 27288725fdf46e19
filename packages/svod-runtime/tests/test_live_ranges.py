"""Live ranges of buffers, and buffers that may not share memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from svod_device import Buffer
from svod_ir import UOp
from svod_runtime import PreparedBufferView, PreparedCopy, PreparedCustomFunction, PreparedOp, Whole
from svod_runtime.memory.live_ranges import is_fresh, list_live_ranges

if TYPE_CHECKING:
    from conftest import Plans


def run(plans: Plans, out: int, *sources: int) -> PreparedOp:
    return plans.kernel(plans.add_one, [out], sources)


def lives_of(
    plans: Plans, ops: list[PreparedOp], fixed: Iterable[int] = ()
) -> list[tuple[int, list[int]]]:
    return [
        (life.index, life.users)
        for life in list_live_ranges(ops, range(len(ops)), plans.buffers, fixed)
    ]


def test_a_live_range_has_every_user_of_a_buffer(plans: Plans) -> None:
    a, b, c, d = (plans.intermediate() for _ in range(4))
    ops = [run(plans, a), run(plans, b, a), run(plans, c), run(plans, d, c, b), run(plans, a, d)]
    assert lives_of(plans, ops, [b]) == [(a, [0, 1, 4]), (c, [2, 3]), (d, [3, 4])]


def test_buffers_read_before_written_are_not_shared(plans: Plans) -> None:
    a, b, c = (plans.intermediate() for _ in range(3))
    assert lives_of(plans, [run(plans, a, b), run(plans, b, a), run(plans, c, a)]) == [
        (a, [0, 1, 2]),
        (c, [2]),
    ]


def test_the_first_use_follows_the_order_and_not_the_list(plans: Plans) -> None:
    a, b = plans.intermediate(), plans.intermediate()
    lives = list_live_ranges([run(plans, b, a), run(plans, a)], [1, 0], plans.buffers, ())
    assert [life.index for life in lives] == [a, b]


@pytest.mark.parametrize("kind", ["copy", "view", "custom function", "store under a condition"])
def test_buffers_without_a_full_store_are_not_shared(plans: Plans, kind: str) -> None:
    """A copy may end after its call, a view has no memory of its own, a custom function may keep
    its arguments, and a conditional store keeps old data."""
    a, b, c = (plans.intermediate() for _ in range(3))
    step: dict[str, PreparedOp] = {
        "copy": PreparedCopy(2, (b, a)),
        "view": PreparedBufferView(2, (b, a), 0, 16),
        "custom function": PreparedCustomFunction(2, "anything", (b, a)),
        "store under a condition": replace(plans.kernel(plans.add_one, [b], [a]), is_partial=True),
    }
    assert lives_of(plans, [run(plans, a), step[kind], run(plans, c, b)]) == [(c, [2])]


@pytest.mark.parametrize(
    ("count", "is_filled"),
    [
        (UOp.variable("n", 0, 3), False),
        (UOp.variable("n", 1, 3), True),
        (0, False),
        (1, True),
        (3, True),
        (None, False),
    ],
)
def test_results_of_loops_are_shared_only_if_the_loop_always_runs(
    plans: Plans, count: UOp | int | None, is_filled: bool
) -> None:
    a, b = plans.intermediate(), plans.intermediate()
    n, body = plans.buffer(), plans.body()
    local = body.bind(4, Whole(body.operand(a, is_written=True)))
    body.op(run(body, local))
    loop = body.loop(count, count_position=body.operand(n) if count is None else None)
    lives = [(a, [0, 1]), (b, [1])] if is_filled else [(b, [1])]
    assert lives_of(plans, [loop, run(plans, b, a)]) == lives


def test_a_fresh_buffer_covers_its_storage_and_has_no_memory(plans: Plans) -> None:
    buffer = plans.buffers[plans.intermediate()]
    assert is_fresh(buffer)
    assert not is_fresh(buffer.view(0, 8))
    assert not is_fresh(buffer.view(8, 8))
    assert not is_fresh(Buffer(plans.allocator, buffer.dtype, 4).ensure_allocated())
