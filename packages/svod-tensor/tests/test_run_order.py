"""Independent branches run one after the other where each kernel has all cores, and side by side where it has one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from svod_ir.testing.nodes import contiguous
from svod_ir.uop import UOp
from svod_runtime import Load, grouping
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.engine.live_ranges import get_levels, get_predecessors, reorder
from svod_tensor.engine.memory_planner import plan_memory
from svod_tensor.engine.run_order import _Graph, _sort_by_growth, order_items
from svod_tensor.testing.schedules import make_schedule

ALL_CORES = Load(None, True, 1 << 30)
ONE_CORE = Load(None, False, 1 << 30)
TOO_SMALL = Load(None, False, 1)


def branches(n):
    """As many branches of two products, each reduced to a number."""
    x = Tensor(np.ones((16, 16), np.float32))
    ends = []
    for i in range(n):
        first = (x @ x + i).contiguous()
        ends.append(((first @ first).contiguous() @ x).contiguous().sum().contiguous())
    total = ends[0]
    for end in ends[1:]:
        total = (total + end).contiguous()
    return total


def schedule_of(*tensors):
    return make_schedule(UOp.sink(*(contiguous(t.uop) for t in tensors)), PrepareConfig())


def levels_of(items):
    return get_levels(get_predecessors(items))


def test_branches_whose_kernels_use_all_cores_take_the_memory_of_one():
    schedule = schedule_of(branches(20))
    wide = plan_memory(schedule, "arena").report
    narrow = plan_memory(schedule, "arena", [ALL_CORES] * len(schedule.items)).report
    assert wide.bytes_after >= 20 * 1024
    assert narrow.bytes_after <= 2 * 1024 + 20 * 64
    assert narrow.bytes_before == wide.bytes_before


def test_branches_that_are_listed_step_by_step_run_one_after_the_other():
    schedule = schedule_of(branches(20))
    levels = levels_of(schedule.items)
    positions = range(len(schedule.items))
    # Nobody's order is right: as listed, all branches are alive at once, and so they are as early as possible.
    listed = reorder(schedule.items, sorted(positions, key=lambda position: levels[position]))
    report = plan_memory(replace(schedule, items=listed), "arena", [ALL_CORES] * len(listed)).report
    assert report.bytes_after <= 3 * 1024 + 20 * 64


@given(st.randoms(use_true_random=False), st.integers(2, 12))
def test_what_leaves_the_least_memory_taken_comes_first(random, n):
    predecessors = [{p for p in range(max(0, unit - 4), unit) if random.random() < 0.4} for unit in range(n)]
    # What a unit makes is needed by those that come after it; all sums of sizes differ.
    users = [{unit, *(u for u in range(n) if unit in predecessors[u])} for unit in range(n)]
    sizes = [1 << random.randrange(3 * n) for _ in range(n)]
    order = _sort_by_growth(_Graph(predecessors, sizes, users))
    assert sorted(order) == list(range(n))

    def growth(unit, done):
        taken = sum(s for s, u in zip(sizes, users, strict=True) if unit in u and not u & done)
        return taken - sum(s for s, u in zip(sizes, users, strict=True) if unit in u and u <= done | {unit})

    for position, unit in enumerate(order):
        done = set(order[:position])
        ready = [u for u in range(n) if u not in done and predecessors[u] <= done]
        assert unit in ready
        assert growth(unit, done) == min(growth(u, done) for u in ready)


@pytest.mark.parametrize("load", [ALL_CORES, TOO_SMALL, None])
def test_what_would_run_alone_has_a_level_of_its_own(load):
    schedule = schedule_of(branches(4))
    items = order_items(schedule.items, schedule.output_ids, [load] * len(schedule.items))
    assert levels_of(items) == list(range(len(items)))


def test_kernels_that_fill_one_core_stay_beside_each_other():
    schedule = schedule_of(branches(4))
    items = order_items(schedule.items, schedule.output_ids, [ONE_CORE] * len(schedule.items))
    expected = order_items(schedule.items, schedule.output_ids)
    assert levels_of(items) == levels_of(expected) == sorted(levels_of(schedule.items))


def test_one_kernel_that_uses_all_cores_sets_its_whole_level_apart():
    loads = [ONE_CORE, ALL_CORES, ONE_CORE]
    assert grouping.group_loads(loads) == [(0,), (1,), (2,)]
    assert grouping.group_loads([ONE_CORE, TOO_SMALL, ONE_CORE]) == [(0, 1, 2)]
    assert grouping.group_loads([ONE_CORE, TOO_SMALL]) == [(0,), (1,)]


def test_an_order_never_takes_more_memory_than_running_all_as_early_as_possible(rng):
    for _ in range(20):
        pool = [Tensor(np.ones((8, 8), np.float32))]
        for _ in range(25):
            left, right = (pool[i] for i in rng.integers(0, len(pool), 2))
            columns = int(rng.integers(1, 4)) * 8
            pool.append(
                (left.sum(1, keepdims=True) * right.sum(0, keepdims=True)[:, :8].repeat(1, columns)).contiguous()
            )
        schedule = schedule_of(pool[-1], pool[-2])
        early = plan_memory(schedule, "arena").report.lower_bound
        loads = [ALL_CORES if rng.random() < 0.8 else ONE_CORE for _ in schedule.items]
        assert plan_memory(schedule, "arena", loads).report.lower_bound <= early


def test_every_item_keeps_what_it_depends_on_before_it(rng):
    schedule = schedule_of(branches(6))
    loads = [ALL_CORES if rng.random() < 0.5 else ONE_CORE for _ in schedule.items]
    items = order_items(schedule.items, schedule.output_ids, loads)
    assert sorted(i.kernel_id for i in items) == sorted(i.kernel_id for i in schedule.items)
    position_of = {item.kernel_id: position for position, item in enumerate(items)}
    for position, item in enumerate(items):
        assert all(position_of[d] < position for d in item.dependencies)
        assert all(d < position for d in item.instance_dependencies)
    assert levels_of(items) == sorted(levels_of(items))


def test_plans_of_any_order_give_the_same_bits(monkeypatch):
    weights = np.random.default_rng(3).standard_normal((12, 64, 64)).astype(np.float32)

    def run(mode):
        x, total = Tensor(weights[0]), None
        for w in weights[1:]:
            y = ((x @ Tensor(w)).softmax() @ x).relu()
            total = y if total is None else total + y
        return total.realize_with(PrepareConfig(memory_planner=mode)).numpy(copy=True)

    results = [run(mode) for mode in ("arena", "remap", "disabled")]
    monkeypatch.setattr(grouping, "WORTH_A_THREAD", 0)
    results.append(run("arena"))
    assert all(np.array_equal(results[0], other) for other in results[1:])
