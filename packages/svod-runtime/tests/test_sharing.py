"""Cached levels and steps for each sharing pattern of a plan's buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_device import Buffer, HostAllocator
from svod_dtype import float32
from svod_ir.testing import count_examples
from svod_runtime import ExecutionPlan, PreparedCopy
from svod_runtime.plan.changes import MAX_PATTERNS
from svod_runtime.plan.sharing import Sharing

if TYPE_CHECKING:
    from conftest import Array, Plans

BIG = 1 << 20
SIZE = 4


def memory(size: int = SIZE) -> Buffer:
    buffer = Buffer(HostAllocator(), float32, size)
    buffer.copyin(np.zeros(size, np.float32))
    return buffer


def get_levels(plan: ExecutionPlan) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, plan.template.dependencies.get_levels(plan.buffers)))


def run_in_order(
    ops: Sequence[tuple[int, int]], buffers: Mapping[int, Buffer]
) -> Mapping[int, Array]:
    """Data of each storage after `ops`, (written, read) pairs, run on copies of the storages."""
    wholes: dict[int, Array] = {}

    def see(buffer: Buffer, size: int) -> Array:
        start = buffer.offset // 4
        return wholes.setdefault(buffer.storage_id, np.zeros(64, np.float32))[start : start + size]

    for buffer in buffers.values():
        see(buffer, buffer.size)[:] = buffer.as_numpy()
    for number, (out, source) in enumerate(ops):
        size = min(buffers[out].size, buffers[source].size)
        see(buffers[out], size)[:] = see(buffers[source], size) * 2 + number
    return wholes


@settings(max_examples=count_examples(400), deadline=None)
@given(data=st.data())
def test_plans_on_buffers_that_share_memory_at_random_agree_with_running_their_ops_in_order(
    data: st.DataObject, new_plans: type[Plans]
) -> None:
    plans = new_plans()
    launcher = plans.launcher()
    slots = [plans.buffer(size) for size in (SIZE, SIZE, SIZE, 2 * SIZE)]
    arena = plans.buffer(16)
    slots += [plans.view(arena, start, SIZE) for start in (0, 8)]
    ops = data.draw(st.lists(st.tuples(*[st.sampled_from(slots)] * 2), min_size=2, max_size=7))
    for number, (out, source) in enumerate(ops):

        def body(x: Array, y: Array, number: int = number) -> None:
            x[:] = y * 2 + number

        plans.op(plans.kernel(body, [out], [source], launcher=launcher, n_bytes=BIG))
    plan = plans.build(*slots)
    shared = memory(12)
    moving = data.draw(st.lists(st.sampled_from(slots), min_size=2, max_size=6, unique=True))
    plan.replace_buffers({index: memory(plan.buffers[index].size) for index in moving})
    of_moving = st.sampled_from(moving)
    # New memory, a part of one that others may have too, what is in the plan at some index, or a
    # part of its arena.
    place = st.one_of(
        st.just(("new", 0)),
        st.tuples(st.just("part"), st.sampled_from([0, 2, 4])),
        st.tuples(st.just("own"), st.sampled_from(slots)),
        st.just(("arena", 8)),
    )
    for changes in data.draw(
        st.lists(st.dictionaries(of_moving, place, max_size=3), min_size=1, max_size=8)
    ):
        given_now: dict[int, Buffer] = {}
        for index, (kind, where) in changes.items():
            size = plan.buffers[index].size
            match kind:
                case "part":
                    given_now[index] = shared.view(4 * where, 4 * size)
                case "own" if plan.buffers[where].size == size:
                    given_now[index] = plan.buffers[where]
                case "arena":
                    given_now[index] = plan.buffers[arena].view(4 * where, 4 * size)
                case _:
                    given_now[index] = memory(size)
        plan.replace_buffers(given_now)
        assert plan.levels == get_levels(plan)
        buffers = {slot: plan.buffers[slot] for slot in slots}
        for slot, buffer in buffers.items():
            buffer.copyin(np.arange(slot, slot + buffer.size, dtype=np.float32))
        expected = run_in_order(ops, buffers)
        plan.execute()
        for buffer in buffers.values():
            start = buffer.offset // 4
            assert (
                buffer.as_numpy().tolist()
                == expected[buffer.storage_id][start : start + buffer.size].tolist()
            )


def make_pair(plans: Plans) -> tuple[ExecutionPlan, int, int, int, int]:
    """Two kernels that may run at once: from `x` to `y`, and from `u` to `v`."""
    x, y, u, v = (plans.buffer() for _ in range(4))
    launcher = plans.launcher()
    for out, source in ((y, x), (v, u)):
        plans.op(plans.kernel(plans.add_one, [out], [source], launcher=launcher, n_bytes=BIG))
    return plans.build(y, v), x, y, u, v


def forbid_ordering(plan: ExecutionPlan, patch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("ordered again")

    patch.setattr(type(plan.template.dependencies), "get_levels", fail)


def test_nothing_is_ordered_again_where_each_result_becomes_the_next_input(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, x, y, u, v = make_pair(plans)
    first, second = memory(), memory()
    plan.execute_on({x: first, u: second, y: memory(), v: memory()}, {})
    forbid_ordering(plan, monkeypatch)
    monkeypatch.delattr(Sharing, "_make_pattern")
    for _ in range(5):
        new = memory(), memory()
        plan.execute_on({x: first, u: second, y: new[0], v: new[1]}, {})
        first, second = new
    assert first.as_numpy().tolist() == [5] * 4
    assert plan.levels == ((0, 1),)


def test_known_sharing_patterns_are_not_ordered_again(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, x, y, u, v = make_pair(plans)

    def share(offset: int) -> tuple[tuple[int, ...], ...]:
        whole = memory(32)
        source = whole.view(4 * offset, 16)
        # The second kernel reads what the first one writes.
        plan.execute_on(
            {x: memory(), y: source, u: whole.view(4 * offset + 8, 16), v: memory()}, {}
        )
        assert plan.buffers[v].as_numpy().tolist() == [2, 2, 1, 1]
        return plan.levels

    assert share(0) == ((0,), (1,))
    plan.execute_on({index: memory() for index in (x, y, u, v)}, {})
    forbid_ordering(plan, monkeypatch)
    assert plan.levels == ((0, 1),)
    assert share(12) == ((0,), (1,))
    assert share(4) == ((0,), (1,))


def test_parts_of_one_storage_without_a_common_byte_share_nothing(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, *indices = make_pair(plans)
    forbid_ordering(plan, monkeypatch)
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        whole = memory(16)
        plan.execute_on(
            {index: whole.view(16 * n, 16) for index, n in zip(indices, order, strict=True)}, {}
        )
        assert plan.levels == ((0, 1),)


def test_the_cache_of_sharing_patterns_is_bounded(plans: Plans) -> None:
    slots = [plans.buffer() for _ in range(8)]
    plans.op(plans.kernel(plans.add_one, [slots[0]], [slots[1]]))
    plan = plans.build(slots[0])
    patterns: set[object] = set()
    for bits in range(2 * MAX_PATTERNS):
        whole = memory()
        plan.replace_buffers({s: whole if bits >> s & 1 else memory() for s in slots})
        assert plan._sharing is not None
        patterns.add(plan._sharing.pattern)
        assert len(plan._arranged) <= MAX_PATTERNS
        assert plan._arranged[plan._sharing.pattern][1] is plan._steps
    assert len(patterns) > MAX_PATTERNS


def test_empty_buffers_share_nothing() -> None:
    whole = memory()
    buffers = [whole, whole.view(8, 0), whole.view(8, 0)]
    assert Sharing(buffers, [0, 1, 2]).pattern == frozenset()


def test_overlaps_with_an_earlier_large_interval_join_the_group() -> None:
    whole = memory(12)
    buffers = [whole.view(0, 32), whole.view(8, 8), whole.view(24, 16), whole.view(40, 8)]
    assert Sharing(buffers, range(4)).pattern == {((0, 0, 4), (1, 1, 2), (2, 3, 5))}


def test_copies_are_kept_for_any_buffers(plans: Plans) -> None:
    source, out = plans.buffer(), plans.buffer()
    plans.op(PreparedCopy(5, (out, source)))
    plan = plans.build(out)
    steps = plan._steps
    given, result = memory(), memory()
    given.copyin(np.full(SIZE, 3, np.float32))
    plan.execute_on({source: given, out: result}, {})
    assert result.as_numpy().tolist() == [3] * 4
    assert plan._steps is steps
