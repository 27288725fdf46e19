"""Templates: one set of prepared ops, run on many sets of buffers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from svod_device import Buffer, HostAllocator, Variable
from svod_dtype import float32, uint8
from svod_ir import UOp
from svod_runtime import (
    DonatedBufferError,
    PlanError,
    PlanTemplate,
    VariableBoundsError,
    find_sharing,
)
from svod_runtime.ops.prepared import PreparedBufferView

if TYPE_CHECKING:
    from conftest import Array, Plans


def filled(value: float, size: int = 4) -> Buffer:
    buffer = Buffer(HostAllocator(), float32, size)
    buffer.copyin(np.full(size, value, np.float32))
    return buffer


def fresh(plans: Plans, size: int = 4) -> int:
    """Buffer without memory."""
    return plans.add(Buffer(plans.allocator, float32, size))


def add_and_double(plans: Plans) -> tuple[PlanTemplate, list[int]]:
    """out = 2 * (x + y + n), through an intermediate."""
    x, y, middle, out = plans.buffer(), plans.buffer(), fresh(plans), fresh(plans)

    def add(out: Array, x: Array, y: Array, n: int) -> None:
        out[:] = x + y + n

    def double(out: Array, x: Array) -> None:
        out[:] = 2 * x

    launcher = plans.launcher()
    plans.op(
        plans.kernel(
            add, [middle], [x, y], variables=[Variable("n", 0, 9)], values=[1], launcher=launcher
        )
    )
    plans.op(plans.kernel(double, [out], [middle], launcher=launcher))
    plans.builder.set_output_buffer(out)
    return plans.builder.build_template([plans.buffers[x], plans.buffers[y]]), [x, y, middle, out]


def test_plans_of_one_template_have_memory_of_their_own(plans: Plans) -> None:
    template, _ = add_and_double(plans)
    first = template.bind([filled(1), filled(2)])
    second = template.bind([filled(10), filled(20)], {"n": 5})
    for plan in (first, second, first):
        plan.execute()
    assert [p.output_buffer.as_numpy().tolist() for p in (first, second) if p.output_buffer] == [
        [8] * 4,
        [70] * 4,
    ]
    assert find_sharing([*first.buffers, *second.buffers]) is None
    assert first.template is second.template is template
    assert repr(template) == "PlanTemplate(2 ops, 2 kernels, 2 inputs on CPU)"


def test_a_fork_runs_on_the_same_inputs_with_memory_of_its_own(plans: Plans) -> None:
    template, (x, _, middle, out) = add_and_double(plans)
    plan = template.bind([filled(1), filled(2)])
    plan.execute_with_vars({"n": 5})
    fork = plan.fork()
    assert fork.template is template
    assert fork.variables == {"n": 5}
    assert [a is b for a, b in zip(plan.buffers, fork.buffers, strict=True)] == [
        True,
        True,
        False,
        False,
    ]
    fork.execute()
    fork.execute_on({x: filled(10)}, {"n": 1})
    assert [p.buffers[out].as_numpy().tolist() for p in (plan, fork)] == [[16] * 4, [26] * 4]
    assert (
        find_sharing(
            [plan.buffers[middle], plan.buffers[out], fork.buffers[middle], fork.buffers[out]]
        )
        is None
    )


def test_a_fork_and_its_plan_run_at_the_same_time(plans: Plans) -> None:
    barrier = threading.Barrier(2, timeout=300)

    def meet(out: Array, x: Array) -> None:
        barrier.wait()
        out[:] = x + 1

    x, out = plans.buffer(), fresh(plans)
    plans.op(plans.kernel(meet, [out], [x]))
    plans.builder.set_output_buffer(out)
    plan = plans.builder.build_template([plans.buffers[x]]).bind([filled(1)])
    fork = plan.fork()
    thread = threading.Thread(target=fork.execute)
    thread.start()
    plan.execute()
    thread.join()
    assert [p.buffers[out].as_numpy().tolist() for p in (plan, fork)] == [[2] * 4, [2] * 4]


def test_alias_ids_of_inputs_are_those_that_a_plan_is_bound_with(plans: Plans) -> None:
    x, out = plans.buffer(), fresh(plans)
    plans.op(plans.kernel(plans.add_one, [out], [x]))
    plans.builder.set_output_buffer(out)
    plans.builder.add_alias_ids([-5, 31])
    template = plans.builder.build_template([plans.buffers[x], filled(0)], input_ids=[30, 31])
    removed: list[int] = []
    for ids, expected in (([30, 31], [-5, 31]), ([40, 41], [-5, 41])):
        removed.clear()
        template.bind([filled(1), filled(2)], ids=ids).release_all_buffers(removed.append)
        assert removed[-2:] == expected
        assert ids[0] in removed


def test_a_busy_plan_is_not_executed_without_waiting(plans: Plans) -> None:
    tried: list[bool] = []

    def body(out: Array, x: Array) -> None:
        thread = threading.Thread(
            target=lambda: tried.append(plan.execute_on({0: filled(7)}, {}, may_wait=False))
        )
        thread.start()
        thread.join()
        out[:] = x

    x, out = plans.buffer(), plans.buffer()
    plans.op(plans.kernel(body, [out], [x]))
    plan = plans.build(out)
    assert plan.execute_on({x: filled(3)}, {}, may_wait=False)
    assert tried == [False]
    assert plan.buffers[out].as_numpy().tolist() == [3] * 4


def test_a_plan_being_profiled_is_not_executed_without_waiting(plans: Plans) -> None:
    tried: list[bool] = []

    def body(out: Array, x: Array) -> None:
        # A thread that waited for the profile would be waited for by it.
        thread = threading.Thread(
            target=lambda: tried.append(plan.execute_on({0: filled(7)}, {}, may_wait=False)),
            daemon=True,
        )
        thread.start()
        thread.join(timeout=300)
        out[:] = x

    x, out = plans.buffer(), plans.buffer()
    plans.op(plans.kernel(body, [out], [x]))
    plan = plans.build(out)
    for run in (
        plan.execute_profiled,
        lambda: plan.execute_with_vars_profiled({}),
        lambda: plan.profile(n_runs=2),
    ):
        tried.clear()
        run()
        assert set(tried) == {False}
    assert plan.execute_on({x: filled(3)}, {}, may_wait=False)


def test_a_fork_of_a_plan_that_may_overwrite_an_input_gets_another_one_first(plans: Plans) -> None:
    x, out = plans.buffer(4, 1), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [out], [x]))
    plans.builder.set_donated_buffers([x])
    plan = plans.build(out)
    fork = plan.fork()
    with pytest.raises(DonatedBufferError, match="taken by the plan that it was forked from"):
        fork.execute()
    plan.execute()
    with pytest.raises(DonatedBufferError, match="taken by the last execution"):
        plan.execute()
    fork.replace_buffer(x, filled(3))
    fork.execute()
    assert plans.read(out) == [4] * 4


def test_plans_of_one_template_group_kernels_by_their_own_sizes(plans: Plans) -> None:
    launcher, n = plans.launcher(), UOp.variable("n", 1, 9)
    x, outs = plans.buffer(), [fresh(plans), fresh(plans)]
    for out in outs:
        plans.op(
            plans.kernel(
                lambda out, x, n: None,
                [out],
                [x],
                variables=[Variable("n", 1, 9)],
                values=[1],
                launcher=launcher,
                global_size=(n, 1, 1),
                n_bytes=1 << 20,
            )
        )
    plans.op(plans.kernel(plans.add_one, [fresh(plans)], [outs[0]], launcher=launcher))
    plans.builder.set_output_buffers(outs)
    template = plans.builder.build_template([plans.buffers[x]])
    # Kernels of one work-item run beside each other; those of several use all cores.
    groups = []
    for value in (1, 4, 1):
        template.bind([filled(0)], {"n": value})
        groups.append([launch.group for launch in launcher.tables[-1]])
    assert groups == [[0, 0, 1], [0, 1, 2], [0, 0, 1]]


def test_donation_from_a_plan_applies_to_its_forks(plans: Plans) -> None:
    template, (x, *_) = add_and_double(plans)
    inputs = [filled(1), filled(2)]
    plan = template.bind(inputs)
    early = plan.fork()
    plan.mark_donated(inputs[0], "somebody")
    for one in (plan, early, plan.fork()):
        with pytest.raises(DonatedBufferError, match="somebody"):
            one.execute()
        one.replace_buffer(x, filled(3))
        one.execute()


def test_donation_applies_to_all_views_of_the_storage(plans: Plans) -> None:
    template, _ = add_and_double(plans)
    x, y = filled(1), filled(2)
    plan = template.bind([x, y])
    plan.mark_donated(x.view(0, x.nbytes), "somebody")
    with pytest.raises(DonatedBufferError, match="somebody"):
        plan.execute()
    plan = template.bind([x, y])
    plan.mark_donated(filled(1), "somebody")
    plan.execute()


def test_a_template_holds_no_memory(plans: Plans) -> None:
    template, (_, _, middle, out) = add_and_double(plans)
    template.bind([filled(1), filled(2)]).execute()
    assert not plans.buffers[middle].is_allocated
    assert not plans.buffers[out].is_allocated


def test_inputs_are_known_by_the_ids_of_their_plan(plans: Plans) -> None:
    template, (x, y, middle, out) = add_and_double(plans)
    inputs = [filled(1), filled(2)]
    assert template.bind(inputs).ast_to_buffer == {100 + i: i for i in (x, y, middle, out)}
    plan = template.bind(inputs, ids=[7, 8])
    assert plan.ast_to_buffer == {7: x, 8: y, 100 + middle: middle, 100 + out: out}
    assert plan.buffer(8) is inputs[1]
    assert plan.buffer(100) is None


def test_the_id_of_an_input_is_not_that_of_a_view_of_all_of_it(plans: Plans) -> None:
    base = filled(1)
    view, x, out = plans.add(base.view(0, 16)), plans.add(base), fresh(plans)
    plans.op(PreparedBufferView(60, (view, x), 0, 16))
    plans.op(plans.kernel(plans.add_one, [out], [view]))
    plans.builder.set_output_buffer(out)
    plan = plans.builder.build_template([base]).bind([filled(2)], ids=[7])
    assert plan.ast_to_buffer[7] == x
    plan.execute()
    assert plan.buffers[out].as_numpy().tolist() == [3] * 4


def test_inputs_that_do_not_match_are_rejected(plans: Plans) -> None:
    template, _ = add_and_double(plans)
    one = filled(1)
    cases: list[tuple[list[Buffer], str]] = [
        ([one], "expected 2 inputs, got 1"),
        ([one, filled(1, 5)], "input 1 must be 16 bytes of float32 on CPU, got"),
        (
            [one, Buffer(HostAllocator("CPU:1"), float32, 4)],
            "input 1 must be 16 bytes of float32 on CPU, got",
        ),
        ([one, one], "inputs share memory with each other differently"),
    ]
    for inputs, message in cases:
        with pytest.raises(PlanError, match=message):
            template.bind(inputs)
    with pytest.raises(VariableBoundsError):
        template.bind([one, filled(2)], {"n": 10})


def test_an_input_that_is_written_may_not_be_read_only(plans: Plans) -> None:
    x = plans.buffer()
    plans.op(plans.kernel(plans.fill(4), [x]))
    plans.builder.set_output_buffer(x)
    template = plans.builder.build_template([plans.buffers[x]])
    frozen = np.zeros(32, np.float32)
    start = -frozen.ctypes.data % 64 // 4
    read_only = Buffer.wrap(frozen, frozen[start:].ctypes.data, 16, float32, is_writable=False)
    with pytest.raises(PlanError, match="input 0 is written, but"):
        template.bind([read_only])
    plan = template.bind([filled(1)])
    plan.execute()
    assert plan.buffers[0].as_numpy().tolist() == [4] * 4


def test_a_buffer_with_data_must_be_an_input(plans: Plans) -> None:
    x, y = plans.buffer(), fresh(plans)
    plans.op(plans.kernel(plans.add_one, [y], [x]))
    plans.builder.set_output_buffer(y)
    with pytest.raises(PlanError, match=r"buffer 0, .*, has memory but is not an input"):
        plans.builder.build_template([])


def test_views_of_arenas_and_inputs_keep_their_offsets(plans: Plans) -> None:
    x = plans.buffer(8)
    view = plans.view(x, 4, 4)
    arena = Buffer(plans.allocator, uint8, 512)
    low, high = plans.add(arena.view(0, 16, float32)), plans.add(arena.view(256, 16, float32))
    out = fresh(plans)
    plans.op(PreparedBufferView(60, (view, x), 16, 16))
    plans.op(plans.kernel(plans.add_one, [low], [view]))
    plans.op(plans.kernel(plans.add_one, [high], [low]))
    plans.op(plans.kernel(plans.add_one, [out], [high]))
    plans.builder.set_output_buffer(out)
    template = plans.builder.build_template([plans.buffers[x]])
    data = Buffer(HostAllocator(), float32, 8)
    data.copyin(np.arange(8, dtype=np.float32))
    plan = template.bind([data])
    plan.execute()
    assert plan.buffers[out].as_numpy().tolist() == [7, 8, 9, 10]
    assert plan.buffers[view].storage_id == data.storage_id
    assert (plan.buffers[low].offset, plan.buffers[high].offset) == (0, 256)
    assert plan.buffers[low].storage_id == plan.buffers[high].storage_id != arena.storage_id
    assert plan.levels == template.bind([filled(0, 8)]).levels


def test_inputs_that_share_memory_keep_their_order(plans: Plans) -> None:
    whole = Buffer(plans.allocator, float32, 8)
    left, right, out = (
        plans.add(whole.view(0, 16)),
        plans.add(whole.view(0, 16, uint8)),
        fresh(plans),
    )
    plans.op(plans.kernel(plans.fill(7), [left]))
    plans.op(plans.kernel(plans.add_one, [out], [left]))
    plans.builder.set_output_buffer(out)
    template = plans.builder.build_template([plans.buffers[left], plans.buffers[right]])
    other = Buffer(plans.allocator, float32, 8)
    template.bind([other.view(0, 16), other.view(0, 16, uint8)]).execute()
    with pytest.raises(PlanError, match="share memory with each other differently"):
        template.bind([other.view(0, 16), other.view(16, 16, uint8)])
    with pytest.raises(PlanError, match="share memory with each other differently"):
        template.bind([filled(1), Buffer(plans.allocator, uint8, 16)])


def test_which_inputs_share_memory_is_part_of_how_they_do(plans: Plans) -> None:
    one, two = filled(1), filled(2)
    first, last = [one, one.view(0, 16), two], [one, two, two.view(0, 16)]
    assert find_sharing(first) != find_sharing(last)
    whole = filled(0, 12)
    pairs = [
        (whole.view(start, 16), whole.view(start + 8, size))
        for start, size in ((0, 16), (16, 16), (16, 8))
    ]
    assert find_sharing(pairs[0]) == find_sharing(pairs[1]) == ((0, 0, 16), (0, 8, 16))
    assert find_sharing(pairs[2]) == ((0, 0, 16), (0, 8, 8))
    assert find_sharing([one, two]) is find_sharing([one]) is find_sharing([]) is None
    for buffer in first:
        plans.add(buffer)
    plans.op(plans.kernel(plans.add_one, [1], [2]))
    plans.builder.set_output_buffer(1)
    template = plans.builder.build_template(first)
    template.bind([two, two.view(0, 16), one]).execute()
    assert two.as_numpy().tolist() == [2] * 4
    with pytest.raises(PlanError, match="share memory with each other differently"):
        template.bind(last)


def make_sum(plans: Plans, middle_size: int = 4) -> PlanTemplate:
    """out = x + y + 1, through an intermediate."""
    x, y, middle, out = plans.buffer(), plans.buffer(), fresh(plans, middle_size), fresh(plans)

    def add(out: Array, x: Array, y: Array) -> None:
        out[:] = x + y

    launcher = plans.launcher()
    plans.op(plans.kernel(add, [middle], [x, y], launcher=launcher))
    plans.op(plans.kernel(plans.add_one, [out], [middle], launcher=launcher))
    plans.builder.set_output_buffer(out)
    return plans.builder.build_template([plans.buffers[x], plans.buffers[y]], [7, 8])


def test_a_plan_without_references_is_recycled(plans: Plans) -> None:
    template = make_sum(plans)
    inputs = [filled(1), filled(2)]
    first = template.bind(inputs)
    first.execute()
    result = first.output_buffer
    assert result is not None
    first.recycle()
    assert not {id(buffer) for buffer in first.buffers} & {
        id(buffer) for buffer in (*inputs, result)
    }
    second = template.bind([filled(10), filled(20)], ids=[70, 80])
    assert second is first
    second.execute()
    assert second.output_buffer is not None
    assert second.output_buffer.as_numpy().tolist() == [31] * 4
    assert result.as_numpy().tolist() == [4] * 4
    assert {70, 80} <= second.ast_to_buffer.keys()
    third = template.bind([filled(5), filled(6)])
    assert third is not second
    third.execute()
    assert find_sharing([*second.buffers, *third.buffers, result]) is None
    with pytest.raises(PlanError, match=r"must be .*, got "):
        third.recycle()
        template.bind([filled(1, 5), filled(2)])


def test_executing_a_recycled_plan_writes_its_own_memory(plans: Plans) -> None:
    template = make_sum(plans)
    plan = template.bind([filled(1), filled(2)])
    plan.execute()
    result = plan.output_buffer
    plan.recycle()
    plan.execute()
    assert result is not None
    assert result.as_numpy().tolist() == [4] * 4
    assert plan.output_buffer is not None
    assert plan.output_buffer.as_numpy().tolist() == [1] * 4


def test_special_plans_are_not_recycled(plans: Plans, new_plans: type[Plans]) -> None:
    def is_reused(template: PlanTemplate, first: dict[str, Any], second: dict[str, Any]) -> bool:
        plan = template.bind([filled(1), filled(2)], **first)
        plan.recycle()
        return template.bind([filled(1), filled(2)], **second) is plan

    def guard(*_: object) -> None: ...

    assert is_reused(make_sum(new_plans()), {}, {})
    assert not is_reused(make_sum(new_plans()), {"guard": guard}, {})
    assert not is_reused(make_sum(new_plans()), {}, {"guard": guard})
    assert not is_reused(make_sum(new_plans()), {"watched": "nan"}, {})
    assert not is_reused(make_sum(new_plans()), {}, {"watched": "nan"})
    # Much memory, or variables.
    assert not is_reused(make_sum(new_plans(), 1 << 16), {}, {})
    assert not is_reused(add_and_double(plans)[0], {}, {})


def test_plans_on_views_of_inputs_are_not_recycled(plans: Plans) -> None:
    whole, out = plans.buffer(8, 1), fresh(plans)
    part = plans.view(whole, 4, 4)
    plans.op(plans.kernel(plans.add_one, [out], [part]))
    plans.builder.set_output_buffer(out)
    template = plans.builder.build_template([plans.buffers[whole]])
    plan = template.bind([filled(1, 8)])
    plan.recycle()
    again = template.bind([filled(5, 8)])
    again.execute()
    assert again.output_buffer is not None
    assert again.output_buffer.as_numpy().tolist() == [6] * 4
    assert again is not plan
