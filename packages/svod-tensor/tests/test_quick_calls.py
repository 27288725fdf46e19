"""Calls that are like the one before, with arguments and plans in every state, beside eager results
and numpy.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from svod_device import Buffer
from svod_ir.testing import count_examples, run_in_threads
from svod_runtime import ExecutionPlan, Lending, clear_custom_functions
from svod_tensor import Tensor, custom_function, depend_on, grad, jit, register_custom_function
from svod_tensor.capture import function as function_module
from svod_tensor.capture.function import JitFunction
from svod_tensor.capture.plan_table import MAX_CAPTURES
from svod_tensor.capture.quick import UNUSUAL
from svod_tensor.cells import registry, tables
from svod_tensor.errors import DonatedTensorError

Array = npt.NDArray[np.float32]
Entry = tuple[Tensor, Array]


def add(x: Tensor, y: Tensor) -> Tensor:
    return x * 2 + y


def scale(x: Tensor, by: float, name: str) -> tuple[Tensor, Tensor]:
    return x * by, x + len(name)


def make(seed: int) -> Entry:
    array = np.random.default_rng(seed).integers(-4, 5, (4, 4)).astype(np.float32)
    return Tensor(array).clone().realize(), array.copy()


def is_quick(function: object, *args: object) -> bool:
    """Whether a call with these arguments would go quickly."""
    assert isinstance(function, JitFunction)
    quick = function._plans.quick
    return quick is not None and quick.run(args) is not UNUSUAL


def test_the_second_callis_quick() -> None:
    step, (x, a), (y, b) = jit(add), make(1), make(2)
    assert not is_quick(step, x, y)
    for _ in range(3):
        assert step(x, y).numpy().tolist() == (a * 2 + b).tolist()
        assert is_quick(step, x, y)
    assert is_quick(step, step(x, y), step(y, x))
    assert is_quick(step, x, x)
    assert step.n_captures == 1


ODD: dict[str, Callable[[Tensor], object]] = {
    "a view": lambda x: x.T,
    "part of something": lambda x: Tensor.stack([x, x + 1]).realize()[1],
    "something to compute": lambda x: x - 1,
    "a constant": lambda x: Tensor.full(x.shape, 3.0),
    "memory of another tensor": lambda x: x.clone(),
    "another shape": lambda x: x.reshape(16, 1)[:4].clone().realize(),
    "another dtype": lambda x: x.cast("float64").realize(),
    "a number": lambda x: 2.5,
}


@pytest.mark.parametrize("kind", list(ODD))
@pytest.mark.parametrize("place", [0, 1])
def test_an_argument_in_another_state_takes_the_slow_path(kind: str, place: int) -> None:
    step, (x, a), (y, b) = jit(add), make(1), make(2)
    for _ in range(2):
        step(x, y)
        odd = ODD[kind](y)
        values = (odd, y) if place == 0 else (y, odd)
        assert not is_quick(step, *values)
        arrays = [v.numpy() if isinstance(v, Tensor) else v for v in values]
        found = step(*values).numpy()  # pyright: ignore[reportArgumentType]
        assert found.tolist() == (arrays[0] * np.float32(2) + arrays[1]).tolist()  # pyright: ignore[reportOptionalOperand]
        assert step(x, y).numpy().tolist() == (a * 2 + b).tolist()


def test_an_argument_with_a_pending_assignment_is_read_after_it() -> None:
    step, (x, a), (y, b) = jit(add), make(1), make(2)
    for number in range(3):
        view = x[1]
        view.assign(Tensor(b[number]).clone() + number)
        a[1] = b[number] + number
        assert step(x, y).numpy().tolist() == (a * 2 + b).tolist()
        x += y
        a += b
        assert not is_quick(step, x, y)
        assert step(y, x).numpy().tolist() == (b * 2 + a).tolist()
        assert is_quick(step, x, y)


def test_writing_to_a_result_or_an_argument_changes_no_other_result() -> None:
    step, (x, a), (y, b) = jit(add), make(1), make(2)
    first, second = step(x, y), step(x, y)
    first[0] = 100
    x[1] = 50
    assert second.numpy().tolist() == (a * 2 + b).tolist()
    a[1] = 50
    third = step(x, y)
    assert third.numpy().tolist() == (a * 2 + b).tolist()
    assert first.numpy()[0].tolist() == [100] * 4


def test_constants_are_part_of_the_key_of_a_call() -> None:
    step, (x, a) = jit(scale), make(1)
    for by, name in (
        (2.0, "ab"),
        (2.0, "ab"),
        (3.0, "ab"),
        (2.0, "abc"),
        (2.0, "ab"),
        (-0.0, "ab"),
        (0.0, "ab"),
    ):
        for _ in range(2):
            first, second = step(x, by, name)
            assert np.signbit(first.numpy()).tolist() == np.signbit(a * np.float32(by)).tolist()
            assert first.numpy().tolist() == (a * np.float32(by)).tolist()
            assert second.numpy().tolist() == (a + len(name)).tolist()
    assert step.n_captures == 5


@pytest.mark.parametrize(
    "values", [(True, 1), (1, True), (0, False), (1, 1.0), ("1", 1), (b"a", "a"), ((1,), (True,))]
)
def test_equal_constants_of_two_types_are_different_signatures(values: tuple[object, ...]) -> None:
    step = jit(lambda x, value: x + len(repr(value)))
    for _ in range(2):
        for value in values:
            assert step(Tensor([1]), value).tolist() == [1 + len(repr(value))]
    assert step.n_captures == 2


def test_keyword_arguments_and_other_arities_take_the_slow_path() -> None:
    step, (x, a), (y, b) = jit(lambda x, y=None: x + 1 if y is None else x + y), make(1), make(2)
    for _ in range(2):
        assert step(x).numpy().tolist() == (a + 1).tolist()
        assert step(x, y).numpy().tolist() == (a + b).tolist()
        assert step(x, y=y).numpy().tolist() == (a + b).tolist()
        assert step(y=x, x=y).numpy().tolist() == (a + b).tolist()


def test_an_unused_or_empty_argument_needs_no_buffer() -> None:
    unused, (x, a), (y, _), empty = (
        jit(lambda x, y, z: z * 2),
        make(1),
        make(2),
        Tensor.zeros((0, 3)),
    )
    for _ in range(3):
        assert unused(y, y, x).numpy().tolist() == (a * 2).tolist()
    assert is_quick(unused, y, y, x)
    for _ in range(3):
        assert unused(empty, y, x).numpy().tolist() == (a * 2).tolist()
        assert unused(y, y, empty).numpy().shape == (0, 3)


def test_python_values_that_change_are_seen() -> None:
    factor, mode, (x, a) = 2.0, {"on": True}, make(1)

    @jit
    def step(v: Tensor) -> Tensor:
        return v * factor if depend_on("mode", lambda: mode["on"]) else v

    for factor, mode["on"] in ((2.0, True), (2.0, True), (5.0, True), (5.0, False), (2.0, True)):
        for _ in range(2):
            expected = a * np.float32(factor) if mode["on"] else a
            assert step(x).numpy().tolist() == expected.tolist()


def test_the_current_version_of_a_captured_tensor_is_read() -> None:
    (held, h), (x, a) = make(3), make(1)
    step = jit(lambda v: v + held)
    for number in range(3):
        for _ in range(2):
            assert step(x).numpy().tolist() == (a + h).tolist()
        assert is_quick(step, x)
        held[number] = number * 10
        h[number] = number * 10
        assert not is_quick(step, x)


def test_the_current_value_of_a_captured_tensor_without_memory_is_read() -> None:
    held, (x, a) = Tensor.arange(4, dtype="float32") * 2, make(1)
    h = np.arange(4, dtype=np.float32) * 2
    step = jit(lambda v: v + held)
    for number in range(3):
        for _ in range(2):
            assert step(x).numpy().tolist() == (a + h).tolist()
        assert is_quick(step, x)
        held.assign(held * 3 + number)
        h = h * 3 + number
        assert not is_quick(step, x)


def test_calls_inside_of_captures_and_derivatives_are_part_of_these() -> None:
    inner, (x, a), (y, b) = jit(add), make(1), make(2)
    inner(x, y)
    inner(x, y)
    outer = jit(lambda v, w: inner(v, w) * inner(w, v))
    for _ in range(3):
        assert outer(x, y).numpy().tolist() == ((a * 2 + b) * (b * 2 + a)).tolist()
    gradient = grad(lambda v: inner(v, y).sum())
    assert gradient(x).numpy().tolist() == [[2.0] * 4] * 4
    assert is_quick(inner, x, y)


def test_donated_arguments_are_rejected() -> None:
    step, take, (x, _), (y, _) = jit(add), jit(lambda v: v + 1, donate=0), make(1), make(2)
    made = step(x, y)
    step(made, y)
    for given_away in (step(x, y), made, x):
        take(given_away)
        with pytest.raises(DonatedTensorError):
            step(given_away, y)
    assert is_quick(step, y, y)


def test_a_donated_argument_that_is_assigned_to_is_rejected_too() -> None:
    take = jit(lambda v: v.assign(v + 1) * 2, donate=0)
    for number in range(4):
        x, a = make(number)
        assert take(x).numpy().tolist() == ((a + 1) * 2).tolist()
        with pytest.raises(DonatedTensorError):
            x.numpy()


def test_results_are_freed_with_their_last_reference() -> None:
    step, (x, a), (y, b) = jit(add), make(1), make(2)
    step(x, y)
    result = step(x, y)
    ref, view = weakref.ref(result), result[1:]
    kept = step(result, y)
    del result
    gc.collect()
    assert ref() is None
    assert kept.numpy().tolist() == ((a * 2 + b) * 2 + b).tolist()
    for _ in range(5):
        step(x, y)
    assert view.numpy().tolist() == (a * 2 + b)[1:].tolist()


def test_calls_are_counted() -> None:
    step, (x, _), (y, _) = jit(add), make(1), make(2)
    for _ in range(5):
        step(x, y)
    assert step.explain().startswith("add: 1 capture, 5 calls\n  1. 5 calls, 1 kernel;")
    step(x[:2], y[:2])
    step(x, y)
    assert step.explain().startswith("add: 2 captures, 7 calls\n  1. 6 calls, 1 kernel;")
    step.clear()
    assert step.explain() == "add: 0 captures, 7 calls"
    assert not is_quick(step, x, y)


def test_the_plan_of_recent_calls_is_not_evicted_first() -> None:
    step, (x, a) = jit(scale), make(1)
    with pytest.warns(RuntimeWarning, match="was captured 32 times"):
        for by in range(MAX_CAPTURES):
            step(x, float(by), "")
    step(x, 0.0, "")
    for _ in range(3):
        step(x, 0.0, "")
    step(x, -1.0, "")
    reasons = [captured.arguments[1].text for captured in step._plans.list_plans()]
    assert "0.0" in reasons
    assert "1.0" not in reasons
    assert step(x, 0.0, "")[0].numpy().tolist() == (a * 0).tolist()


def test_threads_that_call_at_once_get_results_of_their_own() -> None:
    step, entries = jit(add), [make(seed) for seed in range(4)]
    step(entries[0][0], entries[1][0])

    def call(number: int) -> None:
        (x, a), (y, b) = entries[number], entries[(number + 1) % 4]
        for _ in range(40):
            z, c = x, a
            for _ in range(3):
                z, c = step(z, y), c * 2 + b
            assert z.numpy().tolist() == c.tolist()

    run_in_threads(
        *[lambda number=number: call(number) for number in range(4)], switching_often=True
    )
    assert step.explain().startswith(f"add: 1 capture, {4 * 40 * 3 + 1} calls")


def move(x: Tensor, y: Tensor) -> Tensor:
    """Write `x` in place, and return another result."""
    x.assign((x + y) * 0.5)
    return x - y * 4


def accumulate(x: Tensor) -> None:
    HELD.assign(HELD * 0.5 + x)


def make_large(seed: int) -> Entry:
    array = np.random.default_rng(seed).integers(-4, 5, (300, 400)).astype(np.float32)
    return Tensor(array).clone().realize(), array.copy()


@pytest.mark.parametrize("make", [make, make_large])
def test_a_call_that_writes_its_argumentis_quick(make: Callable[[int], Entry]) -> None:
    step, (x, a), (y, b) = jit(move), make(1), make(2)
    step(x, y)
    a = (a + b) * np.float32(0.5)
    for _ in range(4):
        before = x.uop
        found = step(x, y)
        a = (a + b) * np.float32(0.5)
        assert found.numpy().tolist() == (a - b * 4).tolist()
        assert x.uop is before
        assert x[1].numpy().tolist() == a[1].tolist()
        assert is_quick(step, x, y)
        a = (a + b) * np.float32(0.5)
    assert x.numpy().tolist() == a.tolist()


def test_a_call_that_writes_a_held_tensoris_quick() -> None:
    step, (x, a) = jit(accumulate), make(1)
    HELD.assign(Tensor(make(7)[1])).realize()
    expected = make(7)[1]
    step(x)
    for _ in range(3):
        assert is_quick(step, x)
    for _ in range(4):
        expected = expected * np.float32(0.5) + a
    assert HELD.numpy().tolist() == expected.tolist()


def test_arguments_and_held_tensors_are_returned_themselves() -> None:
    held = make(5)[0]

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        held.assign(held + y)
        return x.assign(x + y), x - y, held, y, x

    captured, (x, a), (y, b) = jit(step), make(1), make(2)
    total = make(5)[1]
    for number in range(4):
        found = captured(x, y)
        a, total = a + b, total + b
        assert found[0] is x and found[2] is held and found[3] is y and found[4] is x
        assert found[1].numpy().tolist() == (a - b).tolist()
        assert (x.numpy().tolist(), held.numpy().tolist()) == (a.tolist(), total.tolist())
        if number:
            quick = captured._plans.quick  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
            assert quick is not None
    assert is_quick(jit(lambda v: v), x) is False
    same = jit(lambda u, v: (v, u + v))
    for _ in range(3):
        first, second = same(x, y)
        assert first is y
        assert second.numpy().tolist() == (a + b).tolist()
    assert is_quick(same, x, y)
    after_number = jit(lambda by, u, v: (v, u * by))
    for _ in range(3):
        first, second = after_number(3.0, x, y)
        assert first is y
        assert second.numpy().tolist() == (a * 3).tolist()
    assert is_quick(after_number, 3.0, x, y)


def test_a_result_that_is_returned_twice_keeps_sharing_its_memory() -> None:
    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        total = x + y
        x.assign(total * 0 + x)
        return total, total

    captured, (x, _), (y, _) = jit(step), make(1), make(2)
    for _ in range(4):
        first, second = captured(x, y)
        first[1] = 7
        assert second.numpy()[1].tolist() == [7] * 4


def test_a_call_on_much_memory_does_not_hold_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    held, (x, _) = make_large(1)[0], make(2)

    def step(v: Tensor) -> Tensor:
        held.assign(held + 1)
        return v + 1

    acquired: list[bool] = []
    execute = ExecutionPlan.execute_direct

    def acquire() -> None:
        acquired.append(tables.lock.acquire(timeout=0.01))
        if acquired[-1]:
            tables.lock.release()

    def execute_direct(plan: ExecutionPlan, lending: Lending, buffers: Sequence[Buffer]) -> bool:
        thread = threading.Thread(target=acquire, daemon=True)
        thread.start()
        thread.join(20)
        return execute(plan, lending, buffers)

    monkeypatch.setattr(ExecutionPlan, "execute_direct", execute_direct)
    small, large = jit(move), jit(step)
    for captured, arguments in ((large, (x,)), (small, (make(3)[0], x))):
        for _ in range(2):
            assert captured(*arguments) is not None
        acquired.clear()
        assert is_quick(captured, *arguments)
        assert acquired == [captured is large]


@pytest.mark.parametrize("is_held", [False, True])
def test_no_thread_reads_memory_that_a_call_is_writing(
    monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    (x, a), (y, b) = make_large(1), make_large(2)
    step = jit((lambda v: x.assign(x + v) * 1) if is_held else (lambda v: v.assign(v + y) * 1))
    argument = y if is_held else x
    execute = ExecutionPlan.execute_direct
    readers: list[threading.Thread] = []
    waits: list[bool] = []

    def execute_direct(plan: ExecutionPlan, lending: Lending, buffers: Sequence[Buffer]) -> bool:
        if readers and not waits:
            readers[0].start()
            while readers[0].is_alive() and not registry.count_waiting():
                readers[0].join(0.001)
            waits.append(readers[0].is_alive())
        return execute(plan, lending, buffers)

    monkeypatch.setattr(ExecutionPlan, "execute_direct", execute_direct)
    for _ in range(2):
        step(argument)
    # Of two tensors: they are not computed by a known plan, which would be executed here, too.
    readers.append(
        threading.Thread(target=lambda: Tensor.realize_batch([x + 0.5, x + 1]), daemon=True)
    )
    assert is_quick(step, argument)
    readers[0].join(20)
    assert waits == [True]
    assert x.numpy().tolist() == (a + b * 3).tolist()


def test_a_reader_that_waits_gets_the_value_from_before_the_write() -> None:
    step, (x, a), (y, b) = jit(move), make(1), make(2)
    for _ in range(3):
        step(x, y)
        a = (a + b) * np.float32(0.5)
        reader, view = x * 3, x[1]
        assert not is_quick(step, x, y)
        step(x, y)
        assert reader.numpy().tolist() == (a * 3).tolist()
        a = (a + b) * np.float32(0.5)
        assert view.numpy().tolist() == a[1].tolist()
        assert x.numpy().tolist() == a.tolist()


def test_a_reader_of_other_memory_may_wait() -> None:
    step, (x, a), (y, b), (z, c) = jit(move), make(1), make(2), make(3)
    step(x, y)
    other, alike = z * 3 + 1, Tensor.full((4, 4), 2.0) + 1
    for _ in range(2):
        assert is_quick(step, x, y)
    # It reads an argument that is not written.
    reader = y * 5
    assert is_quick(step, x, y)
    assert not is_quick(step, y, x)
    assert other.numpy().tolist() == (c * 3 + 1).tolist()
    assert reader.numpy().tolist() == (b * 5).tolist()
    assert alike.numpy().tolist() == [[3.0] * 4] * 4
    for _ in range(4):
        a = (a + b) * np.float32(0.5)
    assert x.numpy().tolist() == a.tolist()


def test_a_reader_of_a_held_tensor_gets_the_value_from_before_the_write() -> None:
    step, (x, a) = jit(accumulate), make(1)
    HELD.assign(Tensor(make(7)[1])).realize()
    step(x)
    before = HELD.numpy().copy()
    reader = HELD * 2
    assert not is_quick(step, x)
    step(x)
    assert reader.numpy().tolist() == (before * 2).tolist()
    assert HELD.numpy().tolist() == (before * np.float32(0.5) + a).tolist()


@pytest.mark.parametrize("make", [make, make_large])
def test_an_array_of_written_memory_keeps_its_elements(make: Callable[[int], Entry]) -> None:
    step, (x, a), (y, b) = jit(move), make(1), make(2)
    for _ in range(4):
        step(x, y)
        a = (a + b) * np.float32(0.5)
        array = x.numpy()
        step(x, y)
        assert array.tolist() == a.tolist()
        a = (a + b) * np.float32(0.5)
        assert x.numpy().tolist() == a.tolist()


def test_memory_that_another_thread_uses_is_not_written() -> None:
    step, (x, _), (y, _) = jit(move), make(1), make(2)
    for _ in range(2):
        step(x, y)
    seen: list[bool] = []

    def ask() -> None:
        thread = threading.Thread(target=lambda: seen.append(is_quick(step, x, y)), daemon=True)
        thread.start()
        thread.join(20)

    def run(out: Array, given: Array) -> None:
        ask()
        out[...] = given

    def capture(v: Tensor) -> Tensor:
        ask()
        return v + 1

    register_custom_function("ask for a call", run)
    try:
        custom_function("ask for a call", y, outputs=(y.shape, y.dtype)).realize()
    finally:
        clear_custom_functions()
    jit(capture)(y)
    ask()
    assert seen == [False, False, True]


def test_memory_that_another_call_writes_is_not_written() -> None:
    step, (x, _), (y, _) = jit(move), make(1), make(2)
    for _ in range(2):
        step(x, y)
    seen: list[bool] = []

    def run(out: Array, given: Array) -> None:
        thread = threading.Thread(target=lambda: seen.append(is_quick(step, x, y)), daemon=True)
        thread.start()
        thread.join(20)
        out[...] = given

    register_custom_function("ask for a call", run)

    @jit
    def write(v: Tensor) -> None:
        v.assign(custom_function("ask for a call", v, outputs=(v.shape, v.dtype)) * 2)

    try:
        write(x)
        write(x)
    finally:
        clear_custom_functions()
    assert seen == [False, False]


def test_written_arguments_that_share_memory_take_the_slow_path() -> None:
    step, (x, a), (y, b) = jit(move), make(1), make(2)
    step(x, y)
    a = (a + b) * np.float32(0.5)
    assert not is_quick(step, x, x)
    assert step(x, x).numpy().tolist() == (a - a * 4).tolist()
    held = jit(lambda v: v.assign(v + HELD) * 1)
    HELD.assign(Tensor(make(7)[1])).realize()
    held(x)
    assert is_quick(held, x)
    assert not is_quick(held, HELD)


def test_memory_that_must_not_be_written_takes_the_slow_path() -> None:
    step, (y, b) = jit(move), make(2)
    array = make(1)[1]
    frozen = array.copy()
    frozen.flags.writeable = False
    step(make(1)[0], y)
    for shared in (Tensor.from_numpy(array), Tensor.from_numpy(frozen)):
        assert not is_quick(step, shared, y)
        step(shared, y)
        assert shared.numpy().tolist() == ((make(1)[1] + b) * np.float32(0.5)).tolist()
    assert frozen.tolist() == make(1)[1].tolist()
    x, a = make(1)
    shared = x.clone()
    assert not is_quick(step, shared, y)
    step(shared, y)
    assert (x.numpy().tolist(), shared.numpy().tolist()) == (
        a.tolist(),
        ((a + b) * np.float32(0.5)).tolist(),
    )


def test_threads_that_write_one_tensor_take_turns() -> None:
    total = Tensor(np.zeros((4, 4), np.float32)).clone().realize()

    def add_to(t: Tensor, x: Tensor) -> Tensor:
        t.assign(t + x)
        return x * 2

    step, (x, a) = jit(add_to), make(3)
    step(total, x)

    def call() -> None:
        for _ in range(50):
            assert step(total, x).numpy().tolist() == (a * 2).tolist()

    run_in_threads(*[call] * 4, switching_often=True)
    assert total.numpy().tolist() == (a * 201).tolist()


HELD, HELD_ARRAY = make(7)
FUNCTIONS: dict[str, tuple[Callable[..., Tensor], Callable[..., Array]]] = {
    "add": (add, lambda a, b: a * 2 + b),
    "held": (lambda x, y: x - y * HELD, lambda a, b: a - b * HELD_ARRAY),
    "one": (lambda x, y: y + 1, lambda a, b: b + 1),
}
CAPTURED = {name: jit(function) for name, (function, _) in FUNCTIONS.items()}
WRITES = jit(lambda x, y: x.assign((x + y) * 0.5))
MOVES, ACCUMULATES = jit(move), jit(accumulate)
KINDS = (
    "call",
    "call",
    "call",
    "chain",
    "eager",
    "view",
    "lazy",
    "assign",
    "write",
    "move",
    "move",
    "accumulate",
    "array",
    "hold",
    "forget",
    "twice",
    "fresh",
)


@settings(max_examples=count_examples(80), deadline=None)
@given(data=st.data())
def test_random_programs_agree_with_eager_results_and_numpy(data: st.DataObject) -> None:
    HELD.assign(Tensor(make(7)[1]))
    HELD_ARRAY[...] = make(7)[1]
    pool = [make(seed) for seed in range(3)]
    arrays: list[tuple[Array, Array]] = []

    def pick() -> Entry:
        return pool[data.draw(st.integers(0, len(pool) - 1))]

    for kind in data.draw(st.lists(st.sampled_from(KINDS), min_size=3, max_size=16)):
        (x, a), (y, b) = pick(), pick()
        name = data.draw(st.sampled_from(sorted(FUNCTIONS)))
        (function, on_arrays), captured = FUNCTIONS[name], CAPTURED[name]
        match kind:
            case "call":
                pool.append((captured(x, y), on_arrays(a, b)))
            case "chain":
                z, c = x, a
                for _ in range(3):
                    z, c = captured(z, y), np.clip(on_arrays(c, b), -1000, 1000)
                    z = z.clip(-1000, 1000).realize()
                pool.append((z, c))
            case "twice":
                pool.append((captured(x, x), on_arrays(a, a)))
            case "eager":
                pool.append((function(x, y), on_arrays(a, b)))
            case "view":
                pool.append(data.draw(st.sampled_from([(x.T, a.T), (x[::-1], a[::-1]), (x, a)])))
            case "lazy":
                pool.append((x - y, a - b))
            case "assign":
                x.assign(y)
                a[...] = b.copy()
            case "write":
                WRITES(x, y)
                a[...] = (a + b) * np.float32(0.5)
            case "move":
                result = MOVES(x, y)
                # The function reads the written value if both arguments are one tensor.
                a[...] = (a + b) * np.float32(0.5)
                pool.append((result, a - b * 4))
            case "accumulate":
                ACCUMULATES(x)
                HELD_ARRAY[...] = HELD_ARRAY * np.float32(0.5) + a
            case "array":
                array = x.numpy()
                arrays.append((array, array.copy()))
            case "hold":
                row = data.draw(st.integers(0, 3))
                HELD[row] = x[row]
                HELD_ARRAY[row] = a[row]
            case "forget":
                pool = [*pool[1:], make(len(pool))]
            case _:
                pool.append(make(len(pool)))
    for x, a in pool:
        assert x.numpy().tolist() == a.tolist()
    assert HELD.numpy().tolist() == HELD_ARRAY.tolist()
    for array, copy in arrays:
        assert array.tolist() == copy.tolist()


def test_arrays_are_read_where_they_are() -> None:
    double = jit(lambda x, y: x * 2 + y)
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), Tensor.ones(2, 3).realize()
    results = []
    for _ in range(4):
        results.append(double(x, y))
        x += 1
    assert is_quick(double, x, y)
    start = np.arange(6).reshape(2, 3)
    for n, result in enumerate(results):
        assert result.tolist() == ((start + n) * 2 + 1).tolist()
    # Of another layout, or misaligned: a copy is read.
    turned = np.arange(6, dtype=np.float32).reshape(3, 2).T
    shifted = np.frombuffer(b"\0" + np.arange(6, dtype=np.float32).tobytes(), np.uint8)[1:]
    for array in (turned, shifted.view(np.float32).reshape(2, 3)):
        assert double(array, y).tolist() == (array * 2 + 1).tolist()
        assert is_quick(double, array, y)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(3, dtype=np.int64),
        np.arange(3, dtype=">f4"),
        np.arange(4, dtype=np.float32),
        np.ma.array([1.0, 2.0, 3.0], dtype=np.float32),
        np.arange(3, dtype=np.complex64),
        np.zeros(0, np.float32),
    ],
    ids=lambda array: f"{type(array).__name__} {array.dtype} {array.shape}",
)
def test_arrays_of_another_kind_are_another_signature(array: np.ndarray) -> None:
    double = jit(lambda x: x * 2)
    known = np.arange(3, dtype=np.float32)
    for _ in range(3):
        assert double(known).tolist() == [0, 2, 4]
    for _ in range(3):
        result = double(array)
        assert result.tolist() == (np.asarray(array) * 2).tolist()
        assert result.dtype == Tensor(np.asarray(array)).dtype
    assert double(known).tolist() == [0, 2, 4]


def test_an_array_that_is_returned_is_copied() -> None:
    both = jit(lambda x: (x, x + 1))
    x = np.zeros(3, np.float32)
    first = [both(x)[0] for _ in range(3)]
    x += 1
    assert [r.tolist() for r in first] == [[0.0] * 3] * 3
    assert both(x)[0].tolist() == [1.0] * 3


def test_an_array_that_is_assigned_to_is_not_written() -> None:
    @jit
    def increase(x: Tensor) -> Tensor:
        x += 1
        return x * 1

    x = np.zeros(3, np.float32)
    for _ in range(4):
        assert increase(x).tolist() == [1.0] * 3
    assert x.tolist() == [0.0] * 3


def test_signatures_in_turn_take_their_fast_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    double = jit(lambda x: x * 2)
    arguments = [Tensor.ones(2).realize(), Tensor.ones(3).realize(), np.ones(2, np.float32)]
    for _ in range(2):
        for argument in arguments:
            double(argument)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a call took the general path")

    monkeypatch.setattr(function_module, "read_arguments", refuse)
    for argument in arguments * 2:
        assert double(argument).tolist() == [2.0] * argument.shape[0]
    assert "12 calls" in double.explain()
