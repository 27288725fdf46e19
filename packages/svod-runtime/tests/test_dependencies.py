"""Order, levels and hazards."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from svod_device import Buffer
from svod_dtype import float32
from svod_runtime import (
    DependencyError,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
)
from svod_runtime.ops.dependencies import (
    Access,
    Dependencies,
    HazardMap,
    iter_accesses,
    make_levels,
    order_ops,
    resolve_dependencies,
)

if TYPE_CHECKING:
    from conftest import Plans


def op(op_id: int, *dependencies: int) -> PreparedCopy:
    return PreparedCopy(op_id, (0, 1), dependencies)


def resolve(*ops: PreparedCopy, after: dict[int, list[int]] | None = None) -> list[set[int]]:
    return resolve_dependencies(ops, [(after or {}).get(i, []) for i in range(len(ops))])


def test_dependencies_are_resolved_by_id_and_by_index() -> None:
    assert resolve(op(10), op(20, 10), op(30), after={2: [0, 1]}) == [set(), {0}, {0, 1}]


def test_a_unique_id_may_refer_to_a_later_op() -> None:
    predecessors = resolve(op(10, 20), op(20))
    assert predecessors == [{1}, set()]
    assert order_ops([op(10, 20), op(20)], predecessors) == [1, 0]


def test_a_repeated_id_refers_to_the_latest_earlier_op() -> None:
    ops = [op(1), op(2, 1), op(1), op(2, 1), op(3, 1, 2)]
    assert resolve(*ops) == [set(), {0}, set(), {2}, {2, 3}]


def test_an_unrolled_op_may_depend_on_its_own_earlier_instance() -> None:
    assert resolve(op(1), op(1, 1), op(1, 1)) == [set(), {0}, {1}]


@pytest.mark.parametrize(
    ("ops", "after", "message", "op_ids"),
    [
        ([op(1, 7)], {}, "op 1 depends on op id 7, which does not exist", (1, 7)),
        (
            [op(2, 1), op(1), op(1)],
            {},
            "op 2 depends on op id 1, which does not exist before it (ids repeat)",
            (2, 1),
        ),
        ([op(4)], {0: [1]}, "op 4 depends on op index 1, out of bounds for 1 ops", (4,)),
        ([op(4)], {0: [-1]}, "op 4 depends on op index -1, out of bounds for 1 ops", (4,)),
        ([op(4)], {0: [0]}, "op 4 depends on itself by op index 0", (4,)),
        ([op(4, 4)], {}, "op 4 depends on itself", (4,)),
    ],
)
def test_invalid_dependencies_are_rejected(
    ops: list[PreparedCopy], after: dict[int, list[int]], message: str, op_ids: tuple[int, ...]
) -> None:
    with pytest.raises(DependencyError) as caught:
        resolve(*ops, after=after)
    assert str(caught.value) == f"dependencies: {message}"
    assert caught.value.op_ids == op_ids


def test_tables_of_different_length_are_rejected() -> None:
    with pytest.raises(DependencyError) as caught:
        resolve_dependencies([op(5), op(6)], [[]])
    assert str(caught.value) == "dependencies: expected instance dependencies for 2 ops, got 1"
    assert caught.value.op_ids == (5, 6)


def test_a_cycle_lists_the_blocked_ids() -> None:
    ops = [op(1), op(2, 4), op(3, 2), op(4, 3), op(5, 4)]
    with pytest.raises(DependencyError) as caught:
        order_ops(ops, resolve(*ops))
    assert str(caught.value) == "dependencies: a cycle blocks ops 2, 3, 4, 5"
    assert caught.value.op_ids == (2, 3, 4, 5)


@given(st.integers(1, 12), st.randoms(use_true_random=False))
def test_order_and_levels_respect_every_edge(n: int, rng: random.Random) -> None:
    hidden = list(range(n))
    rng.shuffle(hidden)
    predecessors = [
        {j for j in range(n) if hidden[j] < hidden[i] and rng.random() < 0.3} for i in range(n)
    ]
    ops = [op(i) for i in range(n)]
    order = order_ops(ops, predecessors)
    assert sorted(order) == list(range(n))
    position = {index: place for place, index in enumerate(order)}
    assert all(position[p] < position[i] for i in range(n) for p in predecessors[i])
    levels = make_levels(predecessors)
    level_of = {index: number for number, level in enumerate(levels) for index in level}
    assert sorted(level_of) == list(range(n))
    for i in range(n):
        assert level_of[i] == 1 + max((level_of[p] for p in predecessors[i]), default=-1)


ACCESSES = st.lists(
    st.tuples(st.integers(1, 2), st.integers(0, 12), st.integers(1, 6), st.booleans()), max_size=25
)


@given(ACCESSES)
def test_hazards_agree_with_a_history_of_every_byte(
    accesses: list[tuple[int, int, int, bool]],
) -> None:
    hazards = HazardMap()
    writers: dict[tuple[int, int], int] = {}
    readers: dict[tuple[int, int], set[int]] = {}
    for number, (storage, start, length, is_write) in enumerate(accesses):
        expected: set[int] = set()
        for byte in range(start, start + length):
            key = (storage, byte)
            expected |= {writers[key]} if key in writers else set()
            if is_write:
                expected |= readers.get(key, set())
                writers[key], readers[key] = number, set()
            else:
                readers.setdefault(key, set()).add(number)
        assert hazards.record(number, Access(storage, start, start + length, is_write)) == expected


STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True),
        st.integers(1, 3),
        st.integers(0, 9),
    ),
    max_size=8,
)


@given(STEPS)
def test_ops_that_touch_the_same_bytes_keep_their_order_and_others_have_none(
    new_plans: type[Plans], steps: list[tuple[int, list[int], int, int]]
) -> None:
    plans = new_plans()
    buffers = [plans.buffer() for _ in range(4)]
    ops: list[PreparedKernel] = []
    after: list[list[int]] = []
    for op_id, touched, n_written, chance in steps:
        named = [ops[chance % len(ops)].id] if ops and chance < 2 else []
        after.append([chance % len(ops)] if ops and chance > 7 else [])
        outs, ins = (
            [buffers[i] for i in touched[:n_written]],
            [buffers[i] for i in touched[n_written:]],
        )
        ops.append(plans.kernel(plans.add_one, outs, ins, op_id=op_id, dependencies=named))
    # Ids repeat in this way whatever was drawn, so that the latest before is meant.
    ops += [plans.kernel(plans.add_one, [plans.buffer()], op_id=9) for _ in range(2)]
    waits = Dependencies(ops, resolve_dependencies(ops, [*after, [], []])).get_predecessors(
        plans.buffers
    )
    reaches: list[set[int]] = []
    expected: list[set[int]] = []
    for position, op in enumerate(ops):
        assert all(0 <= p < position for p in waits[position])
        reaches.append(waits[position].union(*(reaches[p] for p in waits[position])))
        direct = {
            max(p for p in range(position) if ops[p].id == wanted) for wanted in op.dependencies
        }
        direct |= set(after[position]) if position < len(after) else set()
        own = dict(zip(op.buffer_indices, range(len(op.buffer_indices)), strict=True))
        for p in range(position):
            other = dict(zip(ops[p].buffer_indices, range(9), strict=False))
            both = own.keys() & other.keys()
            if any(own[i] in op.output_indices or other[i] in ops[p].output_indices for i in both):
                direct.add(p)
        expected.append(direct.union(*(expected[p] for p in direct)))
    assert reaches == expected


def test_accesses_follow_from_the_kind_of_op(plans: Plans) -> None:
    x, y, empty = plans.buffer(4), plans.buffer(6), plans.add(Buffer(plans.allocator, float32, 0))
    part = plans.view(y, 2, 4)
    ids = [buffer.storage_id for buffer in plans.buffers]
    touched = [
        (
            plans.kernel(plans.add_one, [part, empty], [x, y]),
            [(y, 8, 24, True), (x, 0, 16, False), (y, 0, 24, False)],
        ),
        (PreparedCopy(2, (part, x)), [(y, 8, 24, True), (x, 0, 16, False)]),
        (PreparedBufferView(3, (part, y), 8, 16), []),
        (PreparedCustomFunction(4, "any", (x, part)), [(x, 0, 16, True), (y, 8, 24, True)]),
    ]
    for op, expected in touched:
        assert list(iter_accesses(op, plans.buffers)) == [
            Access(ids[i], *rest) for i, *rest in expected
        ]


def test_views_of_one_arena_that_share_bytes_are_ordered(plans: Plans) -> None:
    arena = plans.buffer(16)
    low, middle, high = plans.view(arena, 0, 8), plans.view(arena, 4, 8), plans.view(arena, 8, 8)
    plans.op(plans.kernel(plans.fill(1), [low]))
    plans.op(plans.kernel(plans.fill(2), [high]))
    plans.op(plans.kernel(plans.fill(3), [middle]))
    plan = plans.build(arena)
    assert plan.levels == ((0, 1), (2,))
    plan.execute()
    assert plans.read(arena) == [1] * 4 + [3] * 8 + [2] * 4


def test_an_undeclared_reader_keeps_its_position(plans: Plans) -> None:
    slot, early, late = plans.buffer(4, 5), plans.buffer(4), plans.buffer(4)
    first, second = plans.view(slot, 0, 4), plans.view(slot, 0, 4)
    plans.op(plans.kernel(plans.add_one, [early], [first]))
    plans.op(plans.kernel(plans.fill(9), [second]))
    plans.op(plans.kernel(plans.add_one, [late], [second]))
    plan = plans.build(early, late)
    assert plan.levels == ((0,), (1,), (2,))
    plan.execute()
    assert (plans.read(early), plans.read(late)) == ([6] * 4, [10] * 4)


def test_readers_of_one_buffer_share_a_level(plans: Plans) -> None:
    source = plans.buffer()
    outs = [plans.buffer() for _ in range(3)]
    for out in outs:
        plans.op(plans.kernel(plans.add_one, [out], [source]))
    assert plans.build(*outs).levels == ((0, 1, 2),)


def test_declared_order_wins_over_the_order_of_the_list(plans: Plans) -> None:
    out = plans.buffer()
    plans.op(plans.kernel(plans.fill(1), [out], op_id=1, dependencies=[2]))
    plans.op(plans.kernel(plans.fill(2), [out], op_id=2))
    plan = plans.build(out)
    plan.execute()
    assert plans.read(out) == [1] * 4
    assert plan.levels == ((1,), (0,))
