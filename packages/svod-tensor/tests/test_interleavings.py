"""Threads, finalizers and forks that come between the steps of a computation, at places that the
tests choose.

A custom function stops a computation while it runs, so that each interleaving is forced and no test
waits for luck."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from svod_ir import UOp
from svod_ir.testing import run_in_child
from svod_runtime import clear_custom_functions
from svod_tensor import Tensor, custom_function, jit, register_custom_function
from svod_tensor.cells import registry
from svod_testing import check

START = np.arange(4, dtype=np.float32)


class Pause:
    """A function of tensors, the identity, that runs something in the middle of the computation
    that calls it first.
    """

    def __init__(self, name: str) -> None:
        self.name, self.n_calls = name, 0
        self.meanwhile: Callable[[], None] = lambda: None

    def register(self) -> None:
        register_custom_function(self.name, self._run)

    def _run(self, out: np.ndarray, x: np.ndarray) -> None:
        self.n_calls += 1
        if self.n_calls == 1:
            self.meanwhile()
        out[...] = x

    def __call__(self, x: Tensor) -> Tensor:
        return custom_function(self.name, x, outputs=(x.shape, x.dtype))


@pytest.fixture
def pause() -> Iterator[Pause]:
    made = Pause("pause")
    made.register()
    yield made
    clear_custom_functions()


class Other:
    """Another thread, which is at the end, or waits for a computation, when `start` returns."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.result: object = None
        self._work = work
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:
            self._error = error

    def start(self) -> None:
        self._thread.start()
        while self._thread.is_alive() and not registry.count_waiting():
            self._thread.join(0.001)

    def finish(self) -> object:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self.result


def own(a: np.ndarray) -> Tensor:
    return Tensor(a).clone().realize()


def test_an_operand_realized_concurrently(pause: Pause) -> None:
    part = own(START) * 3
    whole = pause(part) + part
    other = Other(part.realize)
    pause.meanwhile = other.start
    check(whole, START * 6)
    other.finish()
    assert part.is_realized
    assert pause.n_calls == 1


def test_a_tensor_realized_concurrently(pause: Pause) -> None:
    whole = pause(own(START)) + 1
    other = Other(whole.numpy)
    pause.meanwhile = other.start
    check(whole, START + 1)
    np.testing.assert_array_equal(other.finish(), START + 1)


def test_a_value_computed_concurrently_is_kept(pause: Pause) -> None:
    whole = pause(own(START)) + 1
    other = Other(lambda: whole.assign(whole * 10))
    pause.meanwhile = other.start
    whole.realize()
    assert whole.is_realized
    check(whole, (START + 1) * 10)


def test_graphs_with_a_tensor_whose_operand_was_realized_concurrently_read_its_memory(
    pause: Pause,
) -> None:
    operand = own(START) * 2
    y = pause(own(START)) + operand
    z = y * 3
    pause.meanwhile = lambda: operand.realize()
    y.realize()
    assert y.uop in z.uop.toposort()
    check(z, START * 9)


def test_memory_assigned_concurrently_is_read_as_assigned(pause: Pause) -> None:
    x = own(START)
    part = x[1:]
    result = pause(part) + part
    other = Other(lambda: x.assign(x * 10))
    pause.meanwhile = other.start
    Tensor.realize_batch([result, part])
    check(result, START[1:] * 2)
    check(part, START[1:] * 10)
    check(x, START * 10)


def test_two_threads_that_need_an_assignment_do_it_once(pause: Pause) -> None:
    x = own(START)
    x.assign(pause(x) + 1)
    other = Other((x * 3).numpy)
    pause.meanwhile = other.start
    check(x * 2, (START + 1) * 2)
    np.testing.assert_array_equal(other.finish(), (START + 1) * 3)
    check(x, START + 1)
    assert pause.n_calls == 1


def test_memory_is_not_written_while_another_thread_reads_it(pause: Pause) -> None:
    x = own(START)
    before = pause(own(START)) + x
    other = Other(lambda: x.assign(x * 10).numpy().copy())
    pause.meanwhile = other.start
    check(before, START * 2)
    np.testing.assert_array_equal(other.finish(), START * 10)
    check(before, START * 2)


def test_a_captured_function_does_not_write_memory_that_another_thread_reads(pause: Pause) -> None:
    x = own(START)
    step = jit(lambda y: x.assign(x + y) * 1)
    step(own(START * 0))
    before = pause(own(START)) + x
    other = Other(lambda: step(own(START)).numpy())
    pause.meanwhile = other.start
    check(before, START * 2)
    np.testing.assert_array_equal(other.finish(), START * 2)
    check(x, START * 2)


@pytest.mark.parametrize("is_held", [False, True])
def test_no_thread_reads_between_two_assignments_of_a_call(pause: Pause, is_held: bool) -> None:
    x, y = own(START), own(START)

    @jit
    def step(given: Tensor) -> Tensor:
        target = x if is_held else given
        target.assign(target + 1)
        target.assign(pause(target) * 10)
        return y * 2

    for _ in range(3):
        check(step(y if is_held else x), START * 2)
    before = x.numpy().copy()
    pause.n_calls = 0
    other = Other(lambda: (x + 0).numpy().copy())
    pause.meanwhile = other.start
    check(step(y if is_held else x), START * 2)
    found = other.finish()
    assert any(np.array_equal(found, wanted) for wanted in (before, (before + 1) * 10))
    check(x, (before + 1) * 10)


def test_a_captured_function_reads_shared_memory_of_its_argument_without_races(
    pause: Pause,
) -> None:
    x = own(START)
    step = jit(lambda y: pause(y) + y)
    step(own(START))
    pause.n_calls = 0
    argument = x.clone()
    other = Other(lambda: x.assign(x * 10).numpy().copy())
    pause.meanwhile = other.start
    check(step(argument), START * 2)
    np.testing.assert_array_equal(other.finish(), START * 10)
    check(argument, START)
    assert not x.clone().is_realized


def test_donated_memory_is_not_written_while_another_thread_reads_it(pause: Pause) -> None:
    x = own(START)
    scale = jit(lambda y: y * 10, donate=0)
    before = pause(own(START)) + x
    other = Other(lambda: scale(x).numpy())
    pause.meanwhile = other.start
    check(before, START * 2)
    np.testing.assert_array_equal(other.finish(), START * 10)


@pytest.mark.parametrize("fails", [False, True])
def test_no_thread_reads_assignments_of_a_capture(fails: bool) -> None:
    x = own(START)
    others: list[Other] = []

    @jit
    def step(y: Tensor) -> Tensor:
        x.assign(x + y)
        if not others:
            others.append(Other(lambda: (x * 3).numpy()))
            others[0].start()
            if fails:
                raise ZeroDivisionError
        return x + 1

    if fails:
        with pytest.raises(ZeroDivisionError):
            step(own(START * 10))
        np.testing.assert_array_equal(others[0].finish(), START * 3)
        check(x, START)
        return
    check(step(own(START * 10)), START * 11 + 1)
    found = others[0].finish()
    assert any(np.array_equal(found, wanted) for wanted in (START * 3, START * 33))
    check(step(own(START * 10)), START * 21 + 1)


def test_a_tensor_built_just_before_a_pending_assignment_is_computed_reads_the_memory() -> None:
    x = own(START)
    x.assign(x + 1)
    pending = x.uop
    x.realize()
    late = Tensor.from_uop((Tensor.from_uop(pending) * 2).uop)
    check(late, (START + 1) * 2)
    check(x, START + 1)


def test_a_tensor_built_late_from_an_assignment_keeps_its_value_after_further_assignments() -> None:
    x = own(START)
    x.assign(x + 1)
    pending = x.uop
    x.realize()
    late = Tensor.from_uop(pending) * 2
    x.assign(START * 0 + 7)
    check(x, START * 0 + 7)
    check(late, (START + 1) * 2)


@pytest.mark.parametrize("is_argument", [False, True])
def test_a_tensor_built_late_from_overwritten_memory_keeps_its_value(
    is_argument: bool,
) -> None:
    x = own(START)
    step = jit(lambda a: a.assign(a + 1) * 1) if is_argument else jit(lambda a: x.assign(x + 1) * 1)
    step(x if is_argument else own(START))
    step(x if is_argument else own(START))
    reader = x * 3
    tripled = reader.uop
    check(step(x if is_argument else own(START)), START + 3)
    check(Tensor.from_uop(tripled) + 1, (START + 2) * 3 + 1)
    check(reader, (START + 2) * 3)
    check(x, START + 3)


def test_a_tensor_built_late_from_a_computed_value_is_read_before_that_value_is_written() -> None:
    step = jit(lambda a: a.assign(a + 1) * 1)
    step(own(START))
    x = own(START)
    reader = x * 3
    tripled = reader.uop
    x.assign(x + 1).realize()
    late = Tensor.from_uop(tripled) + 0.5
    check(step(reader), START * 3 + 1)
    check(late, START * 3 + 0.5)


def test_a_tensor_without_elements_delays_no_write() -> None:
    step = jit(lambda a: a.assign(a + 1) * 1)
    x = own(START)
    empty = x[2:2] * 2
    check(step(x), START + 1)
    check(empty, START[2:2])


def test_a_tensor_built_late_from_an_undone_assignment_reads_the_memory() -> None:
    x, versions = own(START), list[UOp]()

    @jit
    def step(y: Tensor) -> Tensor:
        x.assign(x + 1)
        versions.append(x.uop)
        raise KeyError

    with pytest.raises(KeyError):
        step(own(START))
    late = Tensor.from_uop(versions[0]) * 2
    check(late, START * 2)
    check(x, START)


def test_shared_memory_is_not_copied_while_it_is_written(pause: Pause) -> None:
    x = own(START)
    shared = x.clone()
    x.assign(x + 1)
    other = Other(lambda: shared.__setitem__(0, 7))
    pause.meanwhile = other.start
    check(pause(x), START + 1)
    other.finish()
    check(shared, np.array([7, 1, 2, 3], np.float32))


def test_a_plan_and_a_thread_do_not_both_own_an_assignment() -> None:
    x = own(START)
    x.assign(x + 1)
    pending = x.uop
    plan = x.prepare()
    late = Tensor.from_uop(pending) * 2
    plan.execute()
    check(late, (START + 1) * 2)
    plan.execute()
    check(x, START + 2)


def test_a_graph_built_concurrently_on_a_copy_of_overwritten_memory_reads_the_copy(
    pause: Pause,
) -> None:
    x = own(START)
    y, reader = x.clone(), x * 3
    x.assign(pause(x) + 1)
    built: list[Tensor] = []
    pause.meanwhile = lambda: built.extend([y * 2, y.clone(), reader + 1, y[1:]])
    check(x, START + 1)
    for found, wanted in zip(built, [START * 2, START, START * 3 + 1, START[1:]], strict=True):
        check(found, wanted)
    check(y, START)


def test_a_graph_built_concurrently_between_two_assignments_reads_the_copy(pause: Pause) -> None:
    x = own(START)
    x[0] = 5
    between = x.clone()
    x.assign(pause(x) + 1)
    built: list[Tensor] = []
    pause.meanwhile = lambda: built.append(between * 2)
    check(x, np.array([6, 2, 3, 4], np.float32))
    check(built[0], np.array([10, 2, 4, 6], np.float32))


def test_a_concurrent_assignment_follows_the_running_one(pause: Pause) -> None:
    x = own(START)
    copy = x.clone()
    x.assign(pause(x) + 1)
    between: list[Tensor] = []

    def assign_again() -> None:
        between.append(x.clone())
        x.assign(x * 10)
        x[0] = -1

    pause.meanwhile = assign_again
    check(x[1:], (START[1:] + 1) * 10)
    check(x, np.array([-1, 20, 30, 40], np.float32))
    check(between[0], START + 1)
    check(copy, START)


def test_a_tensor_built_late_from_an_old_version_reads_its_copy_or_the_current_version() -> None:
    x = own(START)
    kept, read, nodes = x.clone(), x + 1, []
    for tensor in (x, kept, read):
        nodes.append(tensor.uop)
    x.assign(x * 10).realize()
    check(Tensor.from_uop(nodes[1]) * 2, START * 2)
    check(Tensor.from_uop(nodes[2]) * 2, (START + 1) * 2)
    del kept, read, nodes[1:]
    old = x.uop
    x.assign(x + 1).realize()
    # Nobody kept what it was.
    check(Tensor.from_uop(old) + 0, START * 10 + 1)


def test_a_tensor_built_late_from_a_version_between_two_assignments_reads_its_copy() -> None:
    x = own(START)
    x[0] = 5
    between, version = x.clone(), x.uop
    x[1] = 6
    check(x, np.array([5, 6, 2, 3], np.float32))
    check(Tensor.from_uop(version) + 0, np.array([5, 1, 2, 3], np.float32))
    check(between, np.array([5, 1, 2, 3], np.float32))


def test_a_graph_without_memory_that_was_computed_with_a_write_keeps_its_meaning() -> None:
    x, y = own(START), Tensor.arange(4, dtype="float32") * 3
    node = y.uop
    x.assign(x + y)
    Tensor.realize_batch([x, y])
    y.assign(START * 0).realize()
    x.assign(START).realize()
    check(Tensor.from_uop(node) + 1, START * 3 + 1)


@pytest.mark.parametrize("is_call", [False, True])
def test_no_thread_writes_while_a_function_is_captured(is_call: bool) -> None:
    scale = jit(lambda a: a.assign(a * 10) * 1) if is_call else lambda a: a.assign(a * 10)
    scale(own(START))
    x = own(START)
    others: list[Other] = []
    waiting: list[int] = []

    @jit
    def step(y: Tensor) -> Tensor:
        before = x + y
        if not others:
            others.append(Other(lambda: scale(x).numpy().copy()))
            others[0].start()
            waiting.append(registry.count_waiting())
        return before + x

    found = step(own(START)).numpy()
    np.testing.assert_array_equal(others[0].finish(), START * 10)
    # The call reads what is there before the write or after it, as a whole.
    assert any(np.array_equal(found, wanted) for wanted in (START * 3, START * 21))
    check(step(own(START)), START * 21)
    assert waiting == [1]


def test_no_memory_is_lent_while_a_function_is_captured() -> None:
    x = own(START)
    others: list[Other] = []
    waiting: list[int] = []

    @jit
    def step(y: Tensor) -> Tensor:
        if not others:
            others.append(Other(lambda: np.asarray(x)))
            others[0].start()
            waiting.append(registry.count_waiting())
        return x + y

    check(step(own(START)), START * 2)
    np.testing.assert_array_equal(others[0].finish(), START)
    assert waiting == [1]


def test_the_end_of_a_capture_wakes_the_threads_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = registry._ended  # pyright: ignore[reportPrivateUsage]
    wait = condition.wait
    monkeypatch.setattr(condition, "wait", lambda timeout: wait(timeout * 20))
    x = own(START)
    others: list[Other] = []

    @jit
    def step(y: Tensor) -> Tensor:
        others.append(Other(lambda: x.assign(x + 1).numpy().copy()))
        others[-1].start()
        return y + 1

    with pytest.raises(KeyError):
        jit(lambda y: [step(y), {}[0]])(own(START))
    started = time.monotonic()
    np.testing.assert_array_equal(others[0].finish(), START + 1)
    assert time.monotonic() - started < 10


def test_the_end_of_a_computation_wakes_the_threads_that_wait(
    pause: Pause, monkeypatch: pytest.MonkeyPatch
) -> None:
    condition = registry._ended  # pyright: ignore[reportPrivateUsage]
    wait = condition.wait
    monkeypatch.setattr(condition, "wait", lambda timeout: wait(timeout * 20))
    x = own(START)
    whole = pause(x) + x
    waiting: list[int] = []
    other = Other(lambda: x.assign(x + 1).numpy().copy())

    def start() -> None:
        other.start()
        waiting.append(registry.count_waiting())

    pause.meanwhile = start
    started = time.monotonic()
    check(whole, START * 2)
    np.testing.assert_array_equal(other.finish(), START + 1)
    assert waiting == [1]
    assert time.monotonic() - started < 10


def test_a_captured_function_may_read_assignments_of_another_thread() -> None:
    x = own(START)
    x.assign(x + 1)
    step = jit(lambda y: x + y)
    other = Other(lambda: [step(own(START)).numpy().copy() for _ in range(3)])
    other.start()
    for found in other.finish():  # pyright: ignore[reportGeneralTypeIssues]
        np.testing.assert_array_equal(found, START * 2 + 1)
    check(x, START + 1)


def test_a_capture_does_not_compute_assignments_of_other_threads() -> None:
    x = own(START)
    x.assign(x + 1)
    plan = (x * 1).prepare()
    # What follows depends on the plan, which nobody has executed yet.
    x.assign(x * 10)
    Other(lambda: jit(lambda y: y + 1)(own(START)).numpy()).start()
    plan.execute()
    check(x, (START + 1) * 10)


def test_a_new_tensor_at_the_id_of_a_dead_one_is_not_lost() -> None:
    key = -1
    replaced = own(START) * 2
    new: list[Tensor] = []

    def gone() -> None:
        # A thread that made a tensor where one was that is looked at just now.
        new.append(replaced + 1)
        registry._pending[key] = registry._pending.pop(id(new[0].content))

    registry._pending[key] = gone
    replaced.realize()
    assert registry._pending.pop(key)() is new[0].content


def test_an_interrupted_computation_blocks_no_thread() -> None:
    x = own(START)
    storage = x.buffer().storage_id
    other = Other(lambda: registry.start_computation([storage], [storage], {}) and None)
    other.start()
    other.finish()
    check(x.assign(x + 1), START + 1)


def test_finalizers_that_compute_may_run_between_any_two_steps() -> None:
    x = own(START)
    shared = x * 2

    class Cycle:
        n_runs = 0

        def __init__(self) -> None:
            self.own = self
            self.lazy = shared + 1

        def __del__(self) -> None:
            Cycle.n_runs += 1
            check(self.lazy, START * 2 + 1)
            check(Tensor(START) * Cycle.n_runs, START * Cycle.n_runs)

    step = jit(lambda y: (y * 2, y + shared))
    # While a function is captured, nothing is computed in that thread.
    step(x)
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for n in range(20):
            Cycle()
            y = Tensor(START) + n
            z = y * 3
            check(z, (START + n) * 3)
            check(y.assign(y + 1), START + n + 1)
            check(step(y)[1], START * 3 + n + 1)
            plan = Tensor.prepare_batch([y * 5, y * 7])
            plan.execute()
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert Cycle.n_runs > 10
    check(x, START)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_does_not_wait_for_the_threads_of_its_parent(pause: Pause) -> None:
    x = own(START)
    forked, stopped = threading.Event(), threading.Event()

    def stop() -> None:
        stopped.set()
        forked.wait()

    pause.meanwhile = stop
    other = Other((pause(x) + x).numpy)
    other._thread.start()
    stopped.wait()

    def assign() -> bool:
        x.assign(x + 1)
        return x.tolist() != [1, 2, 3, 4]

    assert run_in_child(assign) == 0
    forked.set()
    np.testing.assert_array_equal(other.finish(), START * 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_does_not_wait_for_a_capture_of_its_parent() -> None:
    x, y = own(START), own(START)
    forked, stopped = threading.Event(), threading.Event()

    @jit
    def step(a: Tensor) -> Tensor:
        stopped.set()
        forked.wait()
        return a + 1

    capturing, writing = Other(lambda: step(x).numpy()), Other(y.assign(y + 1).numpy)
    capturing._thread.start()
    stopped.wait()
    writing.start()

    def assign() -> bool:
        signal.alarm(60)
        assert registry.count_waiting() == 0
        return x.assign(x + 1).tolist() != [1, 2, 3, 4] or step(x).tolist() != [2, 3, 4, 5]

    status = None
    assert registry.count_waiting() == 1
    try:
        status = run_in_child(lambda: forked.set() or assign())
    finally:
        forked.set()
    assert status == 0
    np.testing.assert_array_equal(capturing.finish(), START + 1)
    np.testing.assert_array_equal(writing.finish(), START + 1)
