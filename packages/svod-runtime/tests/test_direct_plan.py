"""Direct executions on lent memory, mixed with other operations."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_device import Buffer, HostAllocator
from svod_dtype import float32
from svod_ir.testing import count_examples, run_in_threads
from svod_runtime import DonatedBufferError, ExecutionPlan, Lending, PreparedCopy
from svod_runtime.plan.sharing import Sharing

if TYPE_CHECKING:
    from conftest import Plans

SOURCE, HELD = 100, 101  # the ids of the first two buffers


def filled(value: float) -> Buffer:
    buffer = Buffer(HostAllocator(), float32, 4)
    buffer.copyin(np.full(4, value, np.float32))
    return buffer


def read(buffer: Buffer) -> list[float]:
    return buffer.as_numpy().tolist()


def get_replacements(lending: Lending, buffers: list[Buffer]) -> dict[int, Buffer]:
    return {
        index: buffer
        for index, buffer in zip(lending.buffer_indices, buffers, strict=True)
        if index is not None
    }


def make_plan(plans: Plans, out: int) -> tuple[ExecutionPlan, Lending]:
    """Plan, and the slots of its first buffer and of the result."""
    plan = plans.plan("arena", out)
    return plan, Lending((plan.ast_to_buffer[SOURCE], plan.output_indices[0]))


def make_sum(plans: Plans, launcher: object) -> tuple[ExecutionPlan, Lending]:
    """Plan that adds an input to a buffer of its own, and then adds 1."""
    source, held, middle, out = (
        plans.buffer(4, 1),
        plans.buffer(4, 5),
        plans.intermediate(),
        plans.intermediate(),
    )
    add = plans.kernel(
        lambda out, x, y: np.add(x, y, out=out), [middle], [source, held], launcher=launcher
    )
    plans.op(add)
    plans.op(plans.kernel(plans.add_one, [out], [middle], launcher=launcher))
    return make_plan(plans, out)


def test_results_are_in_lent_memory_that_the_plan_does_not_keep(plans: Plans) -> None:
    plan, lending = make_sum(plans, plans.launcher())
    assert plan.can_execute_direct({})
    first, second = filled(0), filled(0)
    assert plan.execute_direct(lending, [filled(2), first])
    assert plan.execute_direct(lending, [filled(3), second])
    assert (read(first), read(second)) == ([8] * 4, [9] * 4)
    assert lending.n_executions == 2
    assert not any(
        plan.buffers[index].is_allocated for index in lending.buffer_indices if index is not None
    )


def test_unused_buffers_have_no_slot(plans: Plans) -> None:
    plan, lending = make_sum(plans, plans.launcher())
    source, out = lending.buffer_indices
    result = filled(0)
    assert plan.execute_direct(Lending((None, source, out)), [filled(100), filled(2), result])
    assert read(result) == [8] * 4


def test_kernels_that_are_launched_one_by_one_take_addresses_too(plans: Plans) -> None:
    plan, lending = make_sum(plans, None)
    result = filled(0)
    assert plan.execute_direct(lending, [filled(2), result])
    assert read(result) == [8] * 4


def test_plans_with_copies_are_not_executed_directly(plans: Plans) -> None:
    source, copied, out = plans.buffer(4, 1), plans.intermediate(), plans.intermediate()
    plans.op(PreparedCopy(0, (copied, source)))
    plans.op(plans.kernel(plans.add_one, [out], [copied]))
    plan, lending = make_plan(plans, out)
    result = filled(0)
    assert not plan.can_execute_direct({})
    assert not plan.execute_direct(lending, [filled(2), result])
    plan.execute_on(get_replacements(lending, [filled(2), result]), {})
    assert read(result) == [3] * 4


def test_donated_buffers_are_rejected(plans: Plans) -> None:
    plan, lending = make_sum(plans, plans.launcher())
    held = plan.buffer(HELD)
    assert held is not None
    assert plan.execute_direct(lending, [filled(2), filled(0)])
    plan.mark_donated(held, "somebody took it")
    result = filled(0)
    assert not plan.execute_direct(lending, [filled(2), result])
    with pytest.raises(DonatedBufferError, match="somebody took it"):
        plan.execute_on(get_replacements(lending, [filled(2), result]), {})
    plan.replace_buffer(plan.ast_to_buffer[HELD], filled(10))
    assert plan.execute_direct(lending, [filled(2), result])
    assert read(result) == [13] * 4


def test_a_busy_plan_is_not_executed_directly(plans: Plans) -> None:
    started, may_end = threading.Event(), threading.Event()

    def wait(out: np.ndarray, x: np.ndarray) -> None:
        started.set()
        assert may_end.wait(10)
        np.add(x, 1, out=out)

    source, out = plans.buffer(), plans.intermediate()
    plans.op(plans.kernel(wait, [out], [source], launcher=plans.launcher()))
    (plan, lending), result = make_plan(plans, out), filled(0)

    def ask() -> None:
        assert started.wait(10)
        assert not plan.execute_direct(lending, [filled(7), filled(0)])
        may_end.set()

    run_in_threads(lambda: plan.execute_direct(lending, [filled(2), result]), ask)
    assert read(result) == [3] * 4


def test_a_plan_recovers_from_an_interrupt_while_slots_are_lent(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, lending = make_sum(plans, plans.launcher())

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Sharing, "follow", interrupt)
        with pytest.raises(KeyboardInterrupt):
            plan.execute_direct(lending, [filled(2), filled(0)])
    result = filled(0)
    assert plan.execute_direct(lending, [filled(2), result])
    assert read(result) == [8] * 4
    plan.execute()
    assert read(plan.output_buffers[0]) == [6] * 4


def test_a_reused_address_is_rewritten_after_an_interrupt(plans: Plans) -> None:
    plan, lending = make_sum(plans, plans.launcher())
    first, second, result = filled(2), filled(3), filled(0)

    class Interrupting(list[Buffer]):
        """Buffers whose last lookup is interrupted."""

        def __getitem__(self, index: int) -> Buffer:  # pyright: ignore[reportIncompatibleMethodOverride]
            if index == len(self) - 1:
                raise KeyboardInterrupt
            return super().__getitem__(index)

    for source, value in ((first, 8), (first, 8), (second, 9), (first, 8)):
        with pytest.raises(KeyboardInterrupt):
            plan.execute_direct(lending, Interrupting([second, result]))
        assert plan.execute_direct(lending, [source, result])
        assert read(result) == [value] * 4


ACTIONS = ("direct", "other", "on", "lent", "execute", "replace", "held", "shared", "fork")


@settings(
    max_examples=count_examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(actions=st.lists(st.sampled_from(ACTIONS), min_size=2, max_size=12))
def test_direct_executions_do_not_affect_later_operations(plans: Plans, actions: list[str]) -> None:
    plans = type(plans)()
    plan, lending = make_sum(plans, plans.launcher())
    another, lent = (
        Lending(lending.buffer_indices),
        frozenset(get_replacements(lending, [filled(0)] * 2)),
    )
    # What the plan has of its own: zeros once a caller lent it something.
    source, held = 1, 5
    small = filled(20)
    for number, action in enumerate(actions):
        value, result = number + 30, filled(0)
        expected = value + held + 1
        match action:
            case "direct" | "other":
                assert plan.execute_direct(
                    lending if action == "direct" else another, [filled(value), result]
                )
                source = 0
            case "shared":
                # What is only read may be given twice.
                held_buffer = plan.buffer(HELD)
                assert held_buffer is not None
                assert plan.execute_direct(lending, [held_buffer, result])
                source, expected = 0, 2 * held + 1
            case "lent":
                plan.execute_on(get_replacements(lending, [small, result]), {}, lent=lent)
                source, expected = 0, 20 + held + 1
            case "on":
                plan.execute_on(get_replacements(lending, [small, result]), {})
                source, expected = 20, 20 + held + 1
            case "replace":
                plan.replace_buffer(plan.ast_to_buffer[SOURCE], filled(value))
                plan.execute()
                source, result = value, plan.output_buffers[0]
            case "held":
                plan.replace_buffer(plan.ast_to_buffer[HELD], filled(value))
                held = value
                plan.execute()
                result, expected = plan.output_buffers[0], source + held + 1
            case "fork":
                copied = plan.fork()
                assert copied.execute_direct(lending, [filled(value), result])
            case _:
                plan.execute()
                result, expected = plan.output_buffers[0], source + held + 1
        assert read(result) == [expected] * 4
