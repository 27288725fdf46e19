"""Reports of plans with loops: kernels, times, memory, and kernels that produce a NaN."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from svod_device import Buffer, HostAllocator, Memory, Variable
from svod_dtype import bool_, float32, int64
from svod_ir import UOp
from svod_ir.origins import Origin
from svod_runtime import (
    ExecutionPlan,
    NonFiniteError,
    PlannerMode,
    PreparedLoop,
    ProfileReport,
    Whole,
)

if TYPE_CHECKING:
    from conftest import Array, Loops, Plans


def add_one(out: Array, x: Array) -> None:
    out[:] = x + 1


def add_loop(plans: Plans, body: Loops, size: int = 4) -> tuple[int, int, int]:
    """Carry of zeros: input, output and result."""
    buffer = Buffer(plans.allocator, float32, size)
    buffer.copyin(np.zeros(size, np.float32))
    result = plans.intermediate(size)
    return *body.carry(plans.add(buffer), result, plans.intermediate(size)), result


def plan_nest(plans: Plans, n: UOp | int = 3) -> ExecutionPlan:
    """A kernel, then `n` times a kernel and four times another one."""
    first = plans.intermediate()
    plans.op(plans.kernel(add_one, [first], [plans.buffer()], name="first", op_id=900))
    outer, result = plans.body(), plans.intermediate()
    before, after = outer.carry(first, result, plans.intermediate())
    middle = outer.intermediate()
    outer.op(outer.kernel(add_one, [middle], [before], name="outer", op_id=901, n_operations=10))
    inner = outer.body()
    into, out = inner.carry(middle, after, outer.intermediate())
    inner.op(inner.kernel(add_one, [out], [into], name="inner", op_id=902, n_operations=100))
    outer.op(inner.loop(4))
    plans.op(outer.loop(n, counter="t"))
    return plans.plan("arena", result, first)


def test_kernels_of_loops_are_listed_once_with_their_launch_count(plans: Plans) -> None:
    n = UOp.variable("n", 0, 9)
    plan = plan_nest(plans, n)
    plan.execute_with_vars({"n": 2})
    assert [(k.name, k.n_runs) for k in plan.kernels()] == [
        ("first", 1),
        ("outer", 2),
        ("inner", 8),
    ]
    assert plan.num_kernels == 3
    assert [[b.nbytes for b in k.buffers] for k in plan.kernels()] == [[16, 16]] * 3


def test_the_launch_count_is_unknown_in_loops_with_a_condition(plans: Plans) -> None:
    body = plans.body()
    before, after, result = add_loop(plans, body)
    go_on = body.add(Buffer(plans.allocator, bool_, 1))
    body.op(body.kernel(add_one, [after], [before]))
    body.op(body.kernel(lambda out, x: out.__setitem__(0, x[0] < 3), [go_on], [after]))
    plans.op(body.loop(100, go_on=go_on))
    count = Buffer(plans.allocator, int64, 1)
    count.copyin(np.array([3]))
    last = plans.body()
    into, out, other = add_loop(plans, last)
    last.op(last.kernel(add_one, [out], [into]))
    plans.op(last.loop(None, count_position=last.operand(plans.add(count))))
    assert [k.n_runs for k in plans.plan("arena", result, other).kernels()] == [None, None, None]


@pytest.mark.parametrize("is_native", [False, True])
def test_a_profile_has_one_row_for_each_kernel_and_counts_its_launches(
    plans: Plans, is_native: bool
) -> None:
    plans.default_launcher = plans.looping_launcher() if is_native else None
    plan = plan_nest(plans)
    profiles = plan.execute_profiled()
    assert [(p.name, p.n_launches, p.n_operations) for p in profiles] == [
        ("first", 1, 0),
        ("outer", 3, 30),
        ("inner", 12, 1200),
    ]
    assert plan.output_buffers[0].as_numpy().tolist() == [16] * 4
    assert all(
        p.fastest_ns is None or p.fastest_ns * p.n_launches <= p.elapsed_ns for p in profiles
    )
    assert "12 launches" in repr(profiles[2])
    report = plan.profile(n_runs=2)
    counts = {s.name: (s.n_launches, s.n_operations) for s in report.summaries()}
    assert counts == {"first": (2, 0), "outer": (6, 60), "inner": (24, 2400)}
    assert report.n_launches == 32
    rows = {line.split()[0]: line.split()[1] for line in report.table().splitlines()[1:]}
    assert {name: rows[name] for name in counts} == {"first": "1", "outer": "3", "inner": "12"}
    assert [launch["launches"] for launch in json.loads(report.to_json())["launches"]] == [
        1,
        3,
        12,
        1,
        3,
        12,
    ]
    # Rows of a trace do not overlap: launches are shown as if they came in a row.
    events = [
        e for e in json.loads(ProfileReport(profiles).to_trace())["traceEvents"] if e["ph"] == "X"
    ]
    assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-3 for a, b in pairwise(events))


@pytest.mark.parametrize("is_native", [False, True])
def test_a_loop_kernel_that_produces_a_nan_is_named_with_its_iteration(
    plans: Plans, is_native: bool
) -> None:
    plans.default_launcher = plans.looping_launcher() if is_native else None

    def reciprocal(out: Array, x: Array) -> None:
        with np.errstate(all="ignore"):
            out[:] = (x - 3) / (x - 3) * (x + 1)

    body = plans.body()
    before, after, result = add_loop(plans, body)
    body.op(body.kernel(reciprocal, [after], [before], name="divide", op_id=70))
    loop = body.loop(9)
    plans.op(loop)
    plans.builder.set_output_buffers([result])
    inputs = [b for b in plans.buffers if b.is_allocated]
    template = plans.builder.build_template(inputs)
    line = Origin("/a/model.py", 3, "f", "scan")
    plan = template.bind(inputs, origins={loop.id: (line,)}, watched="nan")
    with pytest.raises(NonFiniteError) as caught:
        plan.execute()
    assert (caught.value.kernel, caught.value.op_id, caught.value.origins) == (
        "divide",
        70,
        (line,),
    )
    assert caught.value.__notes__ == [f"in iteration 3 of loop (op {loop.id})"]


def test_kernels_of_a_loop_come_from_their_own_lines_or_from_those_of_the_loop(
    plans: Plans,
) -> None:
    plan = plan_nest(plans)
    [loop] = [op for op in plan.prepared_ops if op.id not in (900,)]
    line, other = Origin("/a/model.py", 3, "f", "scan"), Origin("/a/model.py", 4, "f", "add")
    inputs = [b for b in plans.buffers if b.is_allocated]
    template = plans.builder.build_template(inputs)
    bound = template.bind(inputs, origins={loop.id: (line,), 902: (other,)})
    for one in (bound, bound.fork()):
        assert [k.origins for k in one.kernels()] == [(), (line,), (other,)]
        assert [p.origins for p in one.execute_profiled()] == [(), (line,), (other,)]


@pytest.mark.parametrize(("mode", "expected"), [("arena", 2), ("remap", 2), ("disabled", 9)])
def test_intermediates_of_an_iteration_share_memory(
    plans: Plans, mode: PlannerMode, expected: int
) -> None:
    body = plans.body()
    before, after, result = add_loop(plans, body, 256)
    last = before
    for _ in range(9):
        source, last = last, body.intermediate(256)
        body.op(body.kernel(add_one, [last], [source]))
    body.op(body.kernel(add_one, [after], [last]))
    plans.op(body.loop(3))
    plan = plans.plan(mode, result)
    own = {b.storage_id: b.storage_nbytes for b in plan.buffers if b not in plans.buffers}
    spare_and_result = 2
    assert sum(own.values()) == 1024 * (expected + spare_and_result)
    plan.execute()
    assert plan.output_buffers[0].as_numpy().tolist() == [30.0] * 256
    if mode != "disabled":
        report = plan.memory_report
        assert (report.n_buffers, report.bytes_before, report.bytes_after) == (
            10,
            10 * 1024,
            3 * 1024,
        )


def test_intermediates_around_a_loop_share_its_memory(plans: Plans) -> None:
    def chain(source: int) -> int:
        for _ in range(3):
            last = plans.intermediate(256)
            plans.op(plans.kernel(add_one, [last], [source]))
            source = last
        return source

    first = chain(plans.buffer(256))
    result, spare = plans.intermediate(256), plans.intermediate(256)
    body = plans.body()
    before, after = body.carry(first, result, spare)
    middle = body.intermediate(256)
    body.op(body.kernel(add_one, [middle], [before]))
    body.op(body.kernel(add_one, [after], [middle]))
    plans.op(body.loop(4))
    last = chain(result)
    plan = plans.plan("arena", last)
    # The initial value, the result, the spare, and what lives within an iteration.
    assert plan.memory_report.bytes_after == plan.memory_report.lower_bound == 4 * 1024
    plan.execute()
    assert plan.output_buffers[0].as_numpy().tolist() == [14.0] * 256


def test_a_plan_holds_no_memory_that_was_replaced(plans: Plans) -> None:
    freed: list[int] = []

    class Counting(HostAllocator):
        def free(self, memory: Memory) -> None:
            freed.append(memory.capacity)
            super().free(memory)

    allocator = Counting()

    def make(value: float) -> Buffer:
        buffer = Buffer(allocator, float32, 4)
        buffer.copyin(np.full(4, value, np.float32))
        return buffer

    for launcher in (plans.looping_launcher(), None):
        one = type(plans)()
        one.default_launcher = launcher
        body = one.body()
        x, result = one.add(Buffer(allocator, float32, 4)), one.intermediate()
        before, after = body.carry(x, result, one.intermediate())
        body.op(body.kernel(add_one, [after], [before]))
        one.op(body.loop(2))
        one.builder.set_output_buffers([result])
        template = one.builder.build_template([one.buffers[x]])
        plan = template.bind([make(1)])
        plan.execute()
        plan.kernels()
        n_freed = len(freed)
        plan.replace_buffer(x, make(2))
        assert len(freed) == n_freed + 1
        plan.execute()
        assert plan.output_buffers[0].as_numpy().tolist() == [4] * 4


def test_executing_a_loop_that_a_launcher_runs_allocates_nothing(plans: Plans) -> None:
    class Silent:
        runs_loops = True

        def make_table(self, launches: Any) -> object:
            return launches

        def run(self, table: object) -> None:
            pass

    plans.default_launcher = Silent()  # type: ignore[assignment]
    body = plans.body()
    before, after, result = add_loop(plans, body)
    body.op(
        body.kernel(
            lambda out, x, t: None, [after], [before], variables=[Variable("t", 0, 9)], values=[0]
        )
    )
    plans.op(body.loop(9, counter="t"))
    plan = plans.plan("arena", result)
    for _ in range(3):
        plan.execute()
    tracemalloc.start()
    try:
        before_bytes = tracemalloc.take_snapshot()
        for _ in range(100):
            plan.execute()
        after_bytes = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    grown = [
        d
        for d in after_bytes.compare_to(before_bytes, "filename")
        if "svod_runtime" in d.traceback[0].filename
    ]
    assert sum(d.size_diff for d in grown) == 0


@pytest.mark.parametrize("mode", ["arena", "remap"])
@pytest.mark.parametrize("is_read_later", [False, True])
def test_carries_are_coalesced_unless_the_initial_value_has_another_reader(
    plans: Plans, mode: PlannerMode, is_read_later: bool
) -> None:
    x, first, result, last = plans.buffer(256), *(plans.intermediate(256) for _ in range(3))
    plans.op(plans.kernel(add_one, [first], [x]))
    outer = plans.body()
    state, _ = outer.carry(first, result)
    middle, done = outer.intermediate(256), outer.intermediate(256)
    outer.op(outer.kernel(add_one, [middle], [state]))
    inner = outer.body()
    into, _ = inner.carry(middle, done)
    inner.op(inner.kernel(lambda out: out.__iadd__(1), [into]))
    outer.op(inner.loop(3))
    outer.op(outer.kernel(add_one, [state], [done]))
    plans.op(outer.loop(2))
    plans.op(
        plans.kernel(
            lambda out, a, b: np.add(a, b, out), [last], [result, first if is_read_later else x]
        )
    )
    plan = plans.plan(mode, last)
    plan.execute()
    assert plan.output_buffers[0].as_numpy().tolist() == [12.0 if is_read_later else 11.0] * 256
    [loop] = [op for op in plan.prepared_ops if isinstance(op, PreparedLoop)]
    initial, result, _ = loop.body.carried[0]
    assert (loop.buffer_indices[initial] == loop.buffer_indices[result]) == (not is_read_later)
    # The state, with what it began with if that is read later, and what lives within an iteration.
    assert plan.memory_report.bytes_after == 1024 * (3 if is_read_later else 2)


@pytest.mark.parametrize("n_filled", [2, 3])
def test_results_that_every_branch_fills_share_memory(plans: Plans, n_filled: int) -> None:
    index = plans.add(Buffer(plans.allocator, int64, 1).ensure_allocated())
    last = plans.buffer(256)
    plans.buffers[index].copyin(np.array([1]))
    for _ in range(4):
        result = plans.intermediate(256)
        for branch in range(n_filled):
            body = plans.body()

            def add(out: Array, x: Array, branch: int = branch) -> None:
                out[:] = x + 10**branch

            out = body.bind(256, Whole(body.operand(result, is_written=True)))
            body.op(body.kernel(add, [out], [body.whole(last)]))
            plans.op(
                body.loop(None, count_position=body.operand(index), branch=branch, n_branches=3)
            )
        last = result
    end = plans.intermediate(256)
    plans.op(plans.kernel(add_one, [end], [last]))
    plan = plans.plan("arena", end)
    plan.execute()
    assert plan.output_buffers[0].as_numpy().tolist() == [41.0] * 256
    # Where a branch is left out, what was there before may be the result.
    assert plan.memory_report.bytes_after == (2 * 1024 if n_filled == 3 else 0)
