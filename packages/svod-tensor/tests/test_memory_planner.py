from __future__ import annotations

import numpy as np
import pytest

from svod_device import Buffer, get_allocator
from svod_dtype import float32, index, void
from svod_ir.ops import AxisType, Op
from svod_ir.testing import nodes
from svod_ir.testing.nodes import param
from svod_ir.uop import UOp
from svod_runtime import grouping
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.engine.instantiate import instantiate_schedule
from svod_tensor.engine.preschedule import create_pre_schedule
from svod_tensor.testing.schedules import plan_schedule


def chain(x, n):
    for i in range(n):
        x = (x @ x + i).contiguous()
    return x


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
    plan = plan_schedule(schedule, PrepareConfig(memory_planner=mode, opts=()))
    memory = {number: plan.buffer(number) for item in schedule.items for number in item.buffer_ids}
    assert plan.memory_report.n_buffers == 6 - n_fixed
    kept = {7, -7} | ({-2, -3} if n_fixed else set())
    shared = {frozenset((m, n)) for m in kept for n in memory if m != n and memory[m].overlaps(memory[n])}
    assert shared == ({frozenset((-2, -3))} if step is view else set())
    assert len({(b.storage_id, b.offset) for b in memory.values()}) == len(kept) + 2 - len(shared)
