"""What must run before what, and how long each buffer is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svod_device import Buffer, get_allocator
from svod_dtype import float32, index
from svod_ir.ops import Op
from svod_ir.testing import nodes
from svod_ir.testing.nodes import call
from svod_ir.uop import UOp
from svod_tensor.engine.instantiate import ScheduleItem
from svod_tensor.engine.live_ranges import (
    get_levels,
    get_predecessors,
    has_partial_store,
    is_fresh,
    iter_arguments,
    list_lives,
    reorder,
)

ZERO = UOp.const(index, 0)


def memory(number):
    return nodes.buffer(number)


def make_body(n_arguments, written):
    params = [nodes.param(slot) for slot in range(n_arguments)]
    value = UOp.const(float32, 1.0)
    for slot, param in enumerate(params):
        value = value if slot in written else value + param.index(ZERO).load()
    return UOp.sink(*(params[slot].index(ZERO).store(value) for slot in sorted(written)))


def make_item(kernel_id, ids, written, buffers, *, dependencies=(), instance_dependencies=()):
    """A kernel that touches buffers by number, and writes those in some slots."""
    body = make_body(len(ids), written)
    kernel = call(body, *map(memory, ids))
    return ScheduleItem(
        kernel_id, kernel, body, tuple(buffers[n] for n in ids), tuple(ids), {}, frozenset(), tuple(dependencies),
        tuple(instance_dependencies),
    )  # fmt: skip


def make_buffers(numbers):
    return {number: Buffer(get_allocator("CPU"), float32, 4) for number in numbers}


BUFFERS = make_buffers(range(-4, 3))

ACCESSES = st.lists(st.integers(-4, -1), min_size=1, max_size=3, unique=True)
STEPS = st.lists(st.tuples(st.integers(0, 3), ACCESSES, st.integers(0, 7), st.integers(0, 9)), max_size=8)


@given(STEPS)
def test_items_that_touch_the_same_bytes_keep_their_order_and_others_have_none(steps):
    items = []
    for kernel_id, ids, mask, chance in steps:
        written = {slot for slot in range(len(ids)) if mask >> slot & 1} or {0}
        earlier = [item.kernel_id for item in items]
        named = [earlier[chance % len(earlier)]] if earlier and chance < 2 else []
        placed = [chance % len(items)] if items and chance > 7 else []
        items.append(make_item(kernel_id, ids, written, BUFFERS, dependencies=named, instance_dependencies=placed))
    reaches = []
    for position, found in enumerate(get_predecessors(items)):
        assert all(0 <= p < position for p in found)
        reaches.append(found.union(*(reaches[p] for p in found)))
    expected = []
    for position, item in enumerate(items):
        # The latest run of a kernel that is named, what is named by its place, and what touches the same.
        direct = {max(p for p in range(position) if items[p].kernel_id == d) for d in item.dependencies}
        direct |= set(item.instance_dependencies)
        own = {a.id: a.is_written for a in iter_arguments(item)}
        for p in range(position):
            other = {a.id: a.is_written for a in iter_arguments(items[p])}
            direct |= {p} if any(own[n] or other[n] for n in own.keys() & other.keys()) else set()
        expected.append(direct.union(*(expected[p] for p in direct)))
    assert reaches == expected


def test_a_dependency_on_a_kernel_that_does_not_run_before_is_none():
    items = [make_item(0, [-1], {0}, BUFFERS, dependencies=[1]), make_item(1, [-2], {0}, BUFFERS, dependencies=[1])]
    assert get_predecessors(items) == [set(), set()]


def test_a_bound_variable_takes_a_slot_and_is_no_memory():
    plain = make_item(0, [-1, -2], {1}, BUFFERS)
    bind = nodes.bind(UOp.variable("n", 0, 9), 3)
    body, first, second = plain.kernel.src
    between = replace(plain, kernel=plain.kernel.with_src((body, bind, first, second)))
    assert [(a.slot, a.id, a.is_written) for a in iter_arguments(plain)] == [(0, -1, False), (1, -2, True)]
    assert [(a.slot, a.id, a.is_written) for a in iter_arguments(between)] == [(1, -1, True), (2, -2, False)]


def test_a_life_is_from_the_first_level_that_touches_a_buffer_to_the_last():
    items = [
        make_item(0, [-1], {0}, BUFFERS),
        make_item(1, [-2, -1], {0}, BUFFERS),
        make_item(2, [-3], {0}, BUFFERS),
        make_item(3, [-4, -3, -2], {0}, BUFFERS),
        make_item(4, [-1, -4], {0}, BUFFERS),
    ]
    assert get_levels(get_predecessors(items)) == [0, 1, 0, 2, 3]
    lives = list_lives(items, [-2])
    assert [(v.id, v.first, v.last, v.positions) for v in lives] == [
        (-1, 0, 3, [0, 1, 4]), (-3, 0, 2, [2, 3]), (-4, 2, 3, [3, 4]),
    ]  # fmt: skip
    assert all(life.buffer is BUFFERS[life.id] for life in lives)


def test_what_is_read_first_or_was_there_before_is_not_shared():
    buffers = make_buffers(range(-4, 3))
    buffers[-3].ensure_allocated()
    # -1 is read before it is written, 1 is a tensor's, and -3 has content already.
    items = [make_item(0, [-2, -1], {0}, buffers), make_item(1, [-1, -2], {0}, buffers)]
    items += [make_item(n, [number, -2], {0}, buffers) for n, number in ((2, 1), (3, -3), (4, -4))]
    assert [life.id for life in list_lives(items, ())] == [-2, -4]


@pytest.mark.parametrize("number", [0, 3])
def test_the_buffer_of_a_tensor_is_never_fresh(number):
    (buffer,) = make_buffers([number]).values()
    assert not is_fresh(number, buffer)


def test_a_buffer_is_fresh_as_long_as_it_is_whole_and_has_no_memory(tmp_path):
    (buffer,) = make_buffers([-1]).values()
    assert is_fresh(-1, buffer)
    assert not is_fresh(-1, buffer.view(0, 8))
    assert not is_fresh(-1, buffer.view(8, 8))
    (tmp_path / "data").write_bytes(bytes(16))
    assert not is_fresh(-1, Buffer(get_allocator(f"DISK:{tmp_path}/data"), float32, 4))
    assert not is_fresh(-1, buffer.ensure_allocated())


def test_one_gated_store_of_several_leaves_old_content():
    first, second = (nodes.param(slot) for slot in range(2))
    gate = UOp.variable("n", 0, 3).alu(Op.LT, UOp.const(index, 2))
    stores = [first.index(ZERO), second.index(ZERO), second.index(ZERO, gate=gate)]
    one, two, gated = (place.store(UOp.const(float32, 1.0)) for place in stores)
    assert not has_partial_store(UOp.sink(one, two))
    assert has_partial_store(UOp.sink(one, gated))


def test_items_in_another_order_name_others_by_their_new_places():
    items = [make_item(n, [-1 - n], {0}, BUFFERS) for n in range(3)]
    items.append(make_item(3, [-4], {0}, BUFFERS, instance_dependencies=(0, 2)))
    moved = reorder(items, [2, 0, 3, 1])
    assert [item.kernel_id for item in moved] == [2, 0, 3, 1]
    assert [item.instance_dependencies for item in moved] == [(), (), (0, 1), ()]
