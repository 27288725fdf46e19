"""Native form of custom functions: kernels that start work beside the plan, and wait for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_device.host_memory import view_host
from svod_ir import UOp
from svod_runtime import (
    BoundProgram,
    NativeCall,
    PlannerMode,
    PreparedCustomFunction,
    register_custom_function,
    register_native_function,
)

if TYPE_CHECKING:
    from conftest import Plans
    from svod_device import Dims

SIZE = 4


class Part:
    """The start or the end of work beside the plan. The input is read when it ends."""

    entry: int | None = None
    values = (7,)

    def __init__(self, name: str, log: list[tuple[str, Dims]], run: Callable[..., None]) -> None:
        self.name, self.log, self.run = name, log, run

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        assert list(values) == [7]
        self.log.append((self.name, global_size))
        arrays = [np.frombuffer(view_host(a, 4 * SIZE, None), np.float32) for a in buffers]
        self.run(*arrays)


def begin(out: np.ndarray, x: np.ndarray) -> None:
    # What is read before the wait is wrong.
    out[:] = np.nan


def end(out: np.ndarray, x: np.ndarray) -> None:
    out[:] = x + 1


def add(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    out[:] = x + y


def register_add(plans: Plans, *, is_split: bool = True, has_blocking: bool = False) -> None:
    """Register `out = x + 1` as the custom function `add`; further arrays only order it."""
    wait: BoundProgram = Part("wait", plans.log, end)
    start: BoundProgram = Part("start", plans.log, begin) if is_split else wait
    blocking: BoundProgram | None = Part("blocking", plans.log, end) if has_blocking else None

    def find(operands: Sequence[UOp]) -> NativeCall:
        return NativeCall(start, wait if is_split else None, n_inputs=1, blocking=blocking)

    register_custom_function("add", fail)
    register_native_function("add", find)


def fail(*arguments: object) -> None:
    raise AssertionError("Python runs what has a native form")


def call(op_id: int, *indices: int) -> PreparedCustomFunction:
    return PreparedCustomFunction(op_id, "add", indices)


def test_a_call_starts_early_and_waits_late(plans: Plans) -> None:
    register_add(plans)
    x = plans.buffer(SIZE, 1)
    first, second, slow, out = (plans.intermediate(SIZE) for _ in range(4))
    plans.op(call(501, first, x))
    plans.op(call(502, second, x, first), [0])
    plans.op(plans.kernel(plans.add_one, [slow], [x], name="beside"))
    plans.op(plans.kernel(add, [out], [first, slow], name="needs_first"))
    plan = plans.plan("arena", out, second)
    plan.execute()
    # The second call reads the first result in name only: it orders the two.
    assert plans.names() == ["start", "start", "beside", "wait", "needs_first", "wait"]
    assert plan.output_buffers[1].as_numpy().tolist() == [2.0] * SIZE


def test_a_call_with_nothing_beside_it_blocks(plans: Plans) -> None:
    register_add(plans, has_blocking=True)
    x = plans.buffer(SIZE, 1)
    first, second, beside, out = (plans.intermediate(SIZE) for _ in range(4))
    plans.op(call(501, first, x))
    plans.op(plans.kernel(plans.add_one, [beside], [x], name="beside"))
    plans.op(call(502, second, first))
    plans.op(plans.kernel(add, [out], [second, beside], name="last"))
    plan = plans.plan("arena", out)
    plan.execute()
    # Its wait is kept: it has nothing to do.
    assert plans.names() == ["start", "beside", "wait", "blocking", "wait", "last"]
    assert plan.output_buffer.as_numpy().tolist() == [5.0] * SIZE


def test_a_kernel_that_a_start_needs_comes_first(plans: Plans) -> None:
    register_add(plans)
    x = plans.buffer(SIZE, 1)
    other, needed, out = (plans.intermediate(SIZE) for _ in range(3))
    plans.op(plans.kernel(plans.add_one, [other], [x], name="other", is_safe=False))
    plans.op(plans.kernel(plans.add_one, [needed], [x], name="needed", is_safe=False))
    plans.op(call(501, out, needed))
    plans.plan("arena", out, other).execute()
    assert plans.names() == ["needed", "start", "other", "wait"]


def test_a_call_without_a_wait_is_one_kernel(plans: Plans) -> None:
    register_add(plans, is_split=False)
    x, out = plans.buffer(SIZE, 1), plans.buffer(SIZE)
    plans.op(call(501, out, x))
    plan = plans.build(out)
    plan.execute()
    assert plans.names() == ["wait"]
    assert [kernel.kernel.name for kernel in plan.kernels()] == ["wait"]


def test_what_has_no_native_form_is_called_from_python(plans: Plans) -> None:
    called: list[str] = []
    register_custom_function("add", lambda *arguments: called.append("python"))
    register_native_function("add", lambda operands: None)
    out = plans.buffer(SIZE)
    plans.op(call(501, out))
    plans.build(out).execute()
    assert called == ["python"]


def test_a_launcher_runs_a_loop_of_calls(plans: Plans) -> None:
    launcher = plans.looping_launcher()
    start, wait = Part("start", plans.log, begin), Part("wait", plans.log, end)
    register_custom_function("add", fail)
    register_native_function(
        "add", lambda operands: NativeCall(start, wait, n_inputs=1, launcher=launcher)
    )
    initial, result, spare = (plans.buffer(SIZE) for _ in range(3))
    body = plans.body()
    before, after = body.carry(initial, result, spare)
    body.op(call(501, after, before))
    plans.op(body.loop(5))
    plans.build(result).execute()
    assert plans.read(result) == [5.0] * SIZE
    assert plans.names() == ["start", "wait"] * 5
    assert launcher.n_runs == 1


@pytest.mark.parametrize("mode", ["disabled", "remap", "arena"])
@settings(deadline=None)
@given(rng=st.randoms(use_true_random=False), n=st.integers(1, 14))
def test_random_plans_give_what_their_ops_give_one_by_one(
    new_plans: type[Plans], mode: PlannerMode, rng: random.Random, n: int
) -> None:
    plans = new_plans()
    register_add(plans)
    indices = [plans.buffer(SIZE, value) for value in (1, 2)]
    expected = {indices[0]: 1.0, indices[1]: 2.0}
    for op_id in range(n):
        x, y = rng.choice(indices), rng.choice(indices)
        # An input is overwritten now and then: those that read it before must have done so.
        is_new = rng.random() < 0.8
        old = [i for i in indices if i not in (x, y)]
        out = plans.intermediate(SIZE) if is_new or not old else rng.choice(old)
        if rng.random() < 0.5:
            plans.op(call(501 + op_id, out, x, y))
            value = expected[x] + 1
        else:
            plans.op(plans.kernel(add, [out], [x, y]))
            value = expected[x] + expected[y]
        expected[out] = value
        indices = [*dict.fromkeys([*indices, out])]
    results = rng.sample(indices, rng.randint(1, len(indices)))
    plan = plans.plan(mode, *results)
    for _ in range(2):
        for index in indices[:2]:
            plans.buffers[index].copyin(np.full(SIZE, index + 1, np.float32))
        plan.execute()
        found = [buffer.as_numpy().tolist() for buffer in plan.output_buffers]
        assert found == [[expected[index]] * SIZE for index in results]
