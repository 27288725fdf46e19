"""Ctrl-C during writes to existing memory: all are done, or none."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from svod_device import Buffer, HostAllocator
from svod_dtype import float32
from svod_runtime import InterruptDelay, Lending

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from conftest import Plans

    Array = NDArray[np.float32]


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    """Install the default Ctrl-C handler, and restore the previous one after the test."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def add_one(out: Array) -> None:
    out += 1


def add_one_interrupted(out: Array) -> None:
    interrupt()
    out += 1


@pytest.mark.parametrize("run", ["execute", "execute_profiled"])
def test_ctrl_c_is_raised_after_all_writes(plans: Plans, run: str) -> None:
    first, second = plans.buffer(4, 1), plans.buffer(4, 2)
    plans.op(plans.kernel(add_one_interrupted, [first]))
    plans.op(plans.kernel(add_one, [second]), after=[0])
    plan = plans.build(first, second)
    for n in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            getattr(plan, run)()
        assert (plans.read(first), plans.read(second)) == ([1 + n] * 4, [2 + n] * 4)


def test_ctrl_c_is_raised_after_all_writes_to_lent_memory(plans: Plans) -> None:
    first, second = plans.buffer(4, 1), plans.buffer(4, 2)
    plans.op(plans.kernel(add_one_interrupted, [first]))
    plans.op(plans.kernel(add_one, [second]), after=[0])
    plan = plans.build(first, second)
    lent = [Buffer(HostAllocator(), float32, 4) for _ in range(2)]
    for number, buffer in enumerate(lent):
        buffer.copyin(np.full(4, number, np.float32))
    lending = Lending(plan.output_indices)
    for n in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            plan.execute_direct(lending, lent)
        assert [buffer.as_numpy().tolist() for buffer in lent] == [[n] * 4, [1 + n] * 4]


def test_a_second_ctrl_c_is_raised_immediately_with_a_note(plans: Plans) -> None:
    first, second = plans.buffer(4, 1), plans.buffer(4, 2)

    def insist(_: Array) -> None:
        interrupt()
        interrupt()

    plans.op(plans.kernel(insist, [first]))
    plans.op(plans.kernel(add_one, [second]), after=[0])
    plan = plans.build(first, second)
    with pytest.raises(KeyboardInterrupt) as caught:
        plan.execute()
    assert "its outputs are incomplete" in caught.value.__notes__[0]
    assert plans.read(second) == [2] * 4


def test_a_plan_that_writes_only_memory_of_its_own_is_interrupted_at_once(plans: Plans) -> None:
    given, middle, out = plans.buffer(4, 1), plans.intermediate(), plans.intermediate()
    ran: list[str] = []

    def start(out: Array, x: Array) -> None:
        interrupt()
        out[:] = x

    def finish(out: Array, x: Array) -> None:
        ran.append("finish")
        out[:] = x

    plans.op(plans.kernel(start, [middle], [given]))
    plans.op(plans.kernel(finish, [out], [middle]))
    plan = plans.plan("off", out)
    with pytest.raises(KeyboardInterrupt):
        plan.execute()
    assert not ran


def test_the_programs_own_handler_is_called_once_when_a_delay_ends() -> None:
    calls: list[tuple[int, bool]] = []

    def note(number: int, frame: object) -> None:
        calls.append((number, frame is not None))

    signal.signal(signal.SIGINT, note)
    with InterruptDelay():
        with InterruptDelay():
            interrupt()
            assert calls == []
        # Only the outermost delay ends the waiting.
        assert calls == []
    assert calls == [(signal.SIGINT, True)]
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is note


def test_a_handler_that_is_set_inside_a_delay_stays() -> None:
    with InterruptDelay():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is signal.SIG_IGN


@pytest.mark.parametrize("known", [signal.SIG_IGN, signal.SIG_DFL])
def test_handlers_that_raise_nothing_are_kept(known: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, known)
    with InterruptDelay():
        assert signal.getsignal(signal.SIGINT) is known
    assert signal.signal(signal.SIGINT, signal.default_int_handler) is known


def test_other_threads_set_no_handlers() -> None:
    seen: list[object] = []

    def run() -> None:
        with InterruptDelay():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_an_error_inside_a_delay_is_the_context_of_the_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt) as caught, InterruptDelay():
        interrupt()
        raise ValueError("inside")
    assert isinstance(caught.value.__context__, ValueError)


def test_a_plan_of_one_call_sets_no_handler(plans: Plans, monkeypatch: pytest.MonkeyPatch) -> None:
    plans.default_launcher = plans.launcher()
    first, second = plans.buffer(4, 1), plans.buffer(4, 2)
    for index in (first, second):
        plans.op(plans.kernel(add_one, [index]))
    plan = plans.build(first, second)
    monkeypatch.setattr(
        InterruptDelay, "__enter__", lambda _: pytest.fail("nothing can come between")
    )
    plan.execute()
    assert (plans.read(first), plans.read(second)) == ([2] * 4, [3] * 4)


def test_writes_to_donated_memory_are_not_delayed(plans: Plans) -> None:
    # What came in donated memory is gone in any case: a long computation may be ended there.
    given, out = plans.buffer(4, 1), plans.buffer(4, 2)
    plans.op(plans.kernel(add_one_interrupted, [given]))
    plans.op(plans.kernel(plans.add_one, [out], [given]))
    plans.builder.set_donated_buffers([given, out])
    plan = plans.plan("off", out)
    with pytest.raises(KeyboardInterrupt):
        plan.execute()
    assert plans.read(out) == [2] * 4
