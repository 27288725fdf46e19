from __future__ import annotations

import logging

import numpy as np
import pytest

from svod_device import Buffer, get_allocator
from svod_dtype import float32, index, void
from svod_ir.ops import AxisType, Op
from svod_ir.testing import nodes
from svod_ir.testing.nodes import contiguous, param
from svod_ir.uop import UOp
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.engine.instantiate import instantiate_schedule
from svod_tensor.engine.memory_planner import plan_memory
from svod_tensor.engine.preschedule import create_pre_schedule
from svod_tensor.testing.schedules import make_schedule


def chain(x, n):
    for i in range(n):
        x = (x @ x + i).contiguous()
    return x


def schedule_of(*tensors):
    return make_schedule(UOp.sink(*(contiguous(t.uop) for t in tensors)), PrepareConfig())


@pytest.mark.parametrize("mode", ["arena", "remap"])
def test_a_chain_needs_two_intermediates_however_long_it_is(mode):
    x = Tensor(np.ones((16, 16), np.float32))
    report = plan_memory(schedule_of(chain(x, 10)), mode).report
    assert report.n_buffers == 9
    assert report.bytes_before == 9 * 1024
    assert report.bytes_after == report.lower_bound == 2 * 1024
    assert report.bytes_saved == 7 * 1024


def test_disabled_changes_nothing():
    schedule = schedule_of(chain(Tensor(np.ones((4, 4), np.float32)), 5))
    plan = plan_memory(schedule, "disabled")
    assert plan.items is schedule.items
    assert plan.report.bytes_saved == 0


@pytest.mark.parametrize("mode", ["arena", "remap"])
def test_inputs_and_outputs_are_never_touched(mode):
    x = Tensor(np.ones((4, 4), np.float32))
    mid = chain(x, 4)
    schedule = schedule_of(mid, chain(mid, 4))
    fixed = {
        n: b
        for item in schedule.items
        for n, b in zip(item.buffer_ids, item.buffers, strict=True)
        if n > 0 or n in schedule.output_ids
    }
    for item in plan_memory(schedule, mode).items:
        for number, buffer in zip(item.buffer_ids, item.buffers, strict=True):
            if number in fixed:
                assert buffer is fixed[number]


@pytest.mark.parametrize("mode", ["arena", "remap"])
def test_bytes_are_shared_only_by_lives_that_do_not_meet_and_their_order_is_declared(mode, rng):
    x = Tensor(np.ones((8, 8), np.float32))
    pool = [x]
    for _ in range(30):
        i, j = rng.integers(0, len(pool), 2)
        pool.append((pool[i] @ pool[j] * 0.1).contiguous())
    items = plan_memory(schedule_of(*pool[-3:]), mode).items
    reaches: list[set[int]] = []
    position_of = {}
    for position, item in enumerate(items):
        direct = {position_of[d] for d in item.dependencies} | set(item.instance_dependencies)
        reaches.append(direct | set().union(*(reaches[d] for d in direct)))
        position_of[item.kernel_id] = position
    uses: dict[int, list[int]] = {}
    buffers = {}
    for position, item in enumerate(items):
        for number, buffer in zip(item.buffer_ids, item.buffers, strict=True):
            uses.setdefault(number, []).append(position)
            buffers[number] = buffer
    for a in buffers:
        for b in buffers:
            if a < b and buffers[a].overlaps(buffers[b]):
                first, second = sorted((uses[a], uses[b]))
                assert all(p in reaches[second[0]] for p in first)


def test_all_modes_give_bit_equal_results(rng):
    a = rng.standard_normal((33, 33)).astype(np.float32)

    def run(mode):
        x = Tensor(a)
        y = (x @ x).softmax()
        left, right = chain(y, 3), (y.T @ x).contiguous().cumsum(0)
        return (left + right.layernorm()).realize_with(PrepareConfig(memory_planner=mode)).numpy(copy=True)

    results = [run(mode) for mode in ("arena", "remap", "disabled")]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_files_and_copies_are_left_alone(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(np.arange(64, dtype=np.uint8).tobytes())
    x = Tensor.from_file(path)
    total = x.to("CPU").cast("float32").contiguous().sum() + x.cast("float32").contiguous().max()
    assert total.item() == sum(range(64)) + 63


def test_planning_is_logged_with_what_it_saved_and_how_long_it_took(caplog):
    x = Tensor(np.ones((16, 16), np.float32))
    with caplog.at_level(logging.INFO, "svod.tensor"):
        plan_memory(schedule_of(chain(x, 10)), "arena")
    (line,) = (record.getMessage() for record in caplog.records if "memory.planned" in record.getMessage())
    assert "buffers=9" in line
    assert "bytes_saved=7168" in line
    assert "lower_bound=2048" in line
    assert "elapsed_us=" in line


def node(number, size=16):
    return nodes.buffer(number, size)


def call(body, target, *sources):
    return target.after(nodes.call(body, target, *sources))


def kernel(target, *sources, gate=None):
    """Adds one to the first source, where the gate holds."""
    r = UOp.range(16, 0, AxisType.LOOP)
    params = [param(slot, 16) for slot in range(2)]
    value = params[1].index(r).load() + 1.0
    return call(UOp.sink(params[0].index(r, gate=gate and gate(r)).store(value).end(r)), target, *sources)


def copy(target, source):
    return call(UOp(Op.COPY, float32, (param(1, 16),), "CPU"), target, source)


def view(target, source):
    return call(UOp(Op.BUFFER_VIEW, float32, (param(1, 16),), (0, 16)), target, source)


def custom(target, source):
    return call(UOp(Op.CUSTOM_FUNCTION, void, (), "anything"), target, source)


def gated(target, source):
    return kernel(target, source, gate=lambda r: r.alu(Op.LT, UOp.const(index, 5)))


@pytest.mark.parametrize("mode", ["arena", "remap"])
@pytest.mark.parametrize(("step", "n_fixed"), [(copy, 2), (view, 2), (custom, 2), (gated, 2), (kernel, 0)])
def test_what_is_no_whole_store_keeps_its_memory(mode, step, n_fixed):
    """A copy may end after its call does, a view has no memory of its own, a custom function may keep what it got, and a
    store under a gate leaves what was there before."""
    last = node(7)
    for number in range(1, 8):
        last = (step if number == 3 else kernel)(node(-number), last)
    inputs = {node(7): Buffer(get_allocator("CPU"), float32, 16)}
    schedule = instantiate_schedule(create_pre_schedule(UOp.sink(last)), inputs, {})
    plan = plan_memory(schedule, mode)
    before, after = (
        {n: b for item in items for n, b in zip(item.buffer_ids, item.buffers, strict=True)}
        for items in (schedule.items, plan.items)
    )
    assert plan.report.n_buffers == 6 - n_fixed
    kept = {7, -7} | ({-2, -3} if n_fixed else set())
    assert all(after[n] is before[n] for n in kept)
    assert not any(after[m].overlaps(after[n]) for m in kept for n in after if m != n)
    assert len({(b.storage_id, b.offset) for b in after.values()}) == len(kept) + 2
