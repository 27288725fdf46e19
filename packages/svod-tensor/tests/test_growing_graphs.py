"""Graphs that grow from one iteration of a Python loop to the next are computed before they outgrow
one program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from threading import Thread
from typing import Any

import numpy as np
import pytest

from svod_dtype import float32
from svod_ir import Op, UOp
from svod_tensor import Tensor, Variable, grad, jit, manual_seed
from svod_tensor.cells import registry, tables
from svod_tensor.engine.memory_nodes import make_memory
from svod_tensor.engine.observe import observing
from svod_tensor.engine.repetition import MAX_NODES, NODES_PER_BUFFER, find_repetition, has_outgrown
from svod_tensor.errors import BufferNotFoundError


@pytest.fixture(autouse=True)
def _check_soon() -> None:
    # Other tests may have scheduled the next check far ahead.
    tables.set_next_check(0)


def count_nodes(*tensors: Tensor) -> int:
    return len(UOp.sink(*[t.uop for t in tensors]).toposort())


def count_plans(compute) -> list[str]:
    """The subjects of the plans that `compute` makes."""
    subjects: list[str] = []

    def observe(word: str, subject: str, _: object) -> None:
        if word == "plan":
            subjects.append(subject)

    with observing(observe):
        compute()
    return subjects


@contextmanager
def building_only() -> Generator[None]:
    """A block in which no new tensor is looked at."""
    tables.set_next_check(10**6)
    try:
        yield
    finally:
        tables.set_next_check(0)


def relax(z, roll):
    return (roll(z, 1, 0) + roll(z, -1, 0) + roll(z, 1, 1) + roll(z, -1, 1)) / 4


def roll_tensor(x: Tensor, n: int, axis: int) -> Tensor:
    return x.roll(n, axis)


def test_a_loop_that_reads_a_result_of_each_step_keeps_the_state() -> None:
    start = np.random.default_rng(0).random((16, 16), np.float32)
    z, expected = Tensor(start), start
    largest = 0
    for _ in range(12):
        new, expected_new = relax(z, roll_tensor), relax(expected, np.roll)
        largest = max(largest, count_nodes(new))
        np.testing.assert_allclose(
            (new - z).abs().max().item(), np.abs(expected_new - expected).max(), rtol=1e-4
        )
        z, expected = new, expected_new
    assert largest < 100
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-5)


def test_a_tensor_shared_by_two_graphs_is_computed_by_the_second_and_stored() -> None:
    x = Tensor(np.arange(512, dtype=np.float32)).sin() * 2
    _ = x.sum().item()
    assert not x.is_realized
    _ = x.max().item()
    assert x.is_realized


def test_a_tensor_larger_than_its_operands_is_not_stored() -> None:
    x = Tensor(np.zeros(5000, np.float32))
    pairs = x.reshape(5000, 1) - x.reshape(1, 5000)
    assert pairs.max().item() == 0
    assert pairs.min().item() == 0
    assert not pairs.is_realized


def test_a_shared_tensor_with_a_bound_variable_is_not_stored() -> None:
    n, x = Variable("n", 0, 9), Tensor(np.ones(4, np.float32)).clone().realize()
    shared = x * 2 + Tensor(n.bind(1))
    assert (shared * 3).tolist() == [9.0] * 4
    assert (shared * 5).tolist() == [15.0] * 4
    shared.prepare().execute_with_vars({"n": 4})
    assert shared.tolist() == [6.0] * 4


def test_constants_are_not_kept() -> None:
    mask = Tensor.ones(8, 8).tril() + 1
    _ = mask.sum().item(), mask.max().item()
    assert not mask.is_realized


def test_a_loop_without_reads_is_computed_by_few_programs() -> None:
    start = np.random.default_rng(1).random((16, 16), np.float32)
    z, expected = Tensor(start), start
    for _ in range(120):
        z, expected = relax(z, roll_tensor), relax(expected, np.roll)
    assert count_nodes(z) > MAX_NODES, "a graph that writes nothing waits until it is read"
    subjects = count_plans(z.realize)
    assert "segment 2 of" in subjects[1]
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-4)


def test_a_scalar_recurrence_is_computed_by_few_programs() -> None:
    a, b, c = (Tensor(np.float32(v)).realize() for v in (0.99, 0.5, 1.0))
    expected = np.float32(1)
    for _ in range(1500):
        c = c * a + b
        expected = expected * np.float32(0.99) + np.float32(0.5)
    subjects = count_plans(c.realize)
    assert all("nodes that repeat every 2" in subject for subject in subjects[:-1])
    np.testing.assert_allclose(c.item(), expected, rtol=1e-5)


@pytest.mark.parametrize("is_bound", [False, True], ids=["input", "variable"])
def test_a_plan_of_a_long_loop_reads_its_inputs_at_each_execution(is_bound: bool) -> None:
    n, x = Variable("n", 0, 9), Tensor(np.zeros(4, np.float32)).clone().realize()
    y = x
    for _ in range(1000):
        y = y + Tensor(n.bind(1)) if is_bound else y + x + 1
    plan = y.prepare()
    if is_bound:
        plan.execute_with_vars({"n": 3})
    else:
        x.buffer().copyin(np.full(4, 2, np.float32).tobytes())
        plan.execute()
    assert y.tolist() == [3000.0 if is_bound else 3002.0] * 4


def test_states_of_a_loop_with_a_bound_variable_follow_its_later_values() -> None:
    n = Variable("n", 0, 9)
    state = Tensor(np.zeros(4, np.float32)).clone().realize()
    states = []
    for _ in range(1000):
        state = state + Tensor(n.bind(1))
        states.append(state)
    assert state.tolist() == [1000.0] * 4
    states[997].prepare().execute_with_vars({"n": 3})
    assert states[997].tolist() == [2994.0] * 4


@pytest.mark.parametrize("is_sharded", [False, True])
def test_tensors_of_earlier_iterations_keep_their_values(is_sharded: bool) -> None:
    c, a = (Tensor(np.full(4, n, np.float32)).clone().realize() for n in (8.0, 0.5))
    if is_sharded:
        c, a = (x.shard(("CPU:0", "CPU:1"), axis=0).realize() for x in (c, a))
    all_states = [c]
    for _ in range(600):
        c = c * a + 1
        all_states.append(c)
    expected = [np.float32(8)]
    for _ in range(600):
        expected.append(expected[-1] * np.float32(0.5) + 1)
    c.realize()
    assert max(map(count_nodes, all_states)) < 100, "the segments keep the states that are alive"
    for index in (0, 1, 7, 100, 333, 599, 600):
        assert all_states[index].tolist() == [expected[index]] * 4


def test_assignments_of_many_iterations_are_done_in_order() -> None:
    x, y = (
        Tensor(np.ones(8, np.float32)).clone().realize(),
        Tensor(np.zeros(8, np.float32)).clone().realize(),
    )
    old = x + y
    expected_x, expected_y = np.ones(8, np.float32), np.zeros(8, np.float32)
    largest = 0
    for step in range(400):
        x.assign(x * 0.5 + y.sin() * 0.25 + 1)
        y.assign(y * 0.75 + x)
        expected_x = expected_x * np.float32(0.5) + np.sin(expected_y) * np.float32(0.25) + 1
        expected_y = expected_y * np.float32(0.75) + expected_x
        if step % 20 == 0:
            largest = max(largest, count_nodes(x, y))
    assert largest < 3 * (MAX_NODES + 8 * NODES_PER_BUFFER)
    np.testing.assert_allclose(x.numpy(), expected_x, rtol=1e-4)
    np.testing.assert_allclose(y.numpy(), expected_y, rtol=1e-4)
    np.testing.assert_array_equal(old.numpy(), np.ones(8))


def test_training_without_reads_agrees_with_training_with_reads() -> None:
    rng = np.random.default_rng(2)
    x, y = (Tensor(rng.standard_normal((8, 4)).astype(np.float32)) for _ in range(2))
    start = rng.standard_normal((4, 4)).astype(np.float32)

    def train(*, is_read: bool) -> np.ndarray:
        weight, moment = Tensor(start).clone().realize(), Tensor.zeros(4, 4).clone().realize()
        for _ in range(150):
            gradient = grad(lambda w: ((x @ w).tanh() - y).square().mean())(weight)
            moment.assign(moment * 0.9 + gradient)
            weight.assign(weight - moment * 0.1)
            if is_read:
                Tensor.realize_batch([weight, moment])
        return weight.numpy()

    np.testing.assert_allclose(train(is_read=False), train(is_read=True), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_layers", [12, 24])
def test_a_deep_model_is_one_program(n_layers: int) -> None:
    rng = np.random.default_rng(3)
    weights = [
        [
            Tensor(rng.standard_normal(shape).astype(np.float32))
            for shape in ((8, 8), (8,), (8,), (8,))
        ]
        for _ in range(n_layers)
    ]
    x = Tensor(rng.standard_normal((4, 8)).astype(np.float32))
    for weight, bias, scale, shift in weights:
        x = x + ((x @ weight + bias).gelu().layernorm() * scale + shift).softmax(-1)
    n_nodes = count_nodes(x)
    assert n_nodes > MAX_NODES
    assert count_plans(x.realize) == ["graph"]


def test_a_captured_function_is_one_plan() -> None:
    @jit
    def run(c: Tensor, a: Tensor) -> Tensor:
        for _ in range(700):
            c = c * a + 1
        return c

    expected = np.float32(1)
    for _ in range(700):
        expected = expected * np.float32(0.5) + 1
    assert (
        run(Tensor(np.float32(1)).realize(), Tensor(np.float32(0.5)).realize()).item() == expected
    )
    assert len(run.plans()) == 1


def test_a_captured_function_with_many_writes_is_one_plan() -> None:
    start, by = np.ones(8, np.float32), np.arange(8, dtype=np.float32)
    x, a = Tensor(start).clone().realize(), Tensor(by).clone().realize()

    @jit
    def step() -> None:
        for _ in range(400):
            x.assign(x * 0.5 + a)

    subjects = count_plans(step)
    assert not any("segment" in subject for subject in subjects)
    np.testing.assert_allclose(x.numpy(), halve(400, start, by), rtol=1e-6)


@contextmanager
def _computing() -> Generator[None]:
    with registry.lock:
        computation = registry.start_computation([], [], {})
    assert computation is not None
    try:
        yield
    finally:
        registry.end_computation(computation)


@pytest.mark.parametrize(
    "section", [lambda: registry.lock, _computing], ids=["locked section", "computation"]
)
def test_growth_is_not_computed_inside(section: Callable[[], AbstractContextManager[Any]]) -> None:
    start, by = np.ones(8, np.float32), np.arange(8, dtype=np.float32)
    x, a = Tensor(start).clone().realize(), Tensor(by).clone().realize()

    def write() -> None:
        for _ in range(600):
            x.assign(x * 0.5 + a)

    with section():
        assert count_plans(write) == []
    np.testing.assert_allclose(x.numpy(), halve(600, start, by), rtol=1e-6)


def test_the_derivative_of_a_long_loop_is_right() -> None:
    def f(a: Tensor) -> Tensor:
        c = a
        for _ in range(400):
            c = c * 0.5 + a
        return c

    np.testing.assert_allclose(grad(f)(Tensor(np.float32(3))).item(), 2.0, rtol=1e-6)


def test_prepare_does_not_split_a_graph() -> None:
    with building_only():
        c, a = Tensor(np.float32(1)).realize(), Tensor(np.float32(0.5)).realize()
        for _ in range(400):
            c = c * a + 1
    assert count_plans(c.prepare) == ["graph"]


def test_a_graph_that_changes_in_each_iteration_has_no_repetition() -> None:
    with building_only():
        c = Tensor(np.float32(1)).realize()
        for step in range(400):
            c = c * (1 + 1 / (step + 1)) + step
    order = c.uop.toposort()
    assert has_outgrown(order)
    assert find_repetition(order) is None


def test_a_loop_on_memory_that_was_overwritten_is_computed_by_few_programs() -> None:
    x = Tensor(np.ones(4, np.float32)).clone().realize()
    reader = x * 3
    tripled = reader.uop
    x.assign(x + 1).realize()
    with building_only():
        z = Tensor.from_uop(tripled)
        for _ in range(600):
            z = z * 0.5 + 1
    subjects = count_plans(z.realize)
    assert sum("segment" in subject for subject in subjects) > 2
    np.testing.assert_allclose(z.numpy(), halve(600, np.full(4, 3.0), np.float32(1)))
    np.testing.assert_array_equal(reader.numpy(), np.full(4, 3.0))


def test_versions_that_a_later_node_reads_are_not_cut_off() -> None:
    """Its cell is computed along with a write that overwrites what it reads: the whole graph would
    be a part.
    """
    w, a = (Tensor(np.ones(4, np.float32)).clone().realize() for _ in range(2))
    with building_only():
        c = a
        for _ in range(300):
            w.assign(w * 0.5 + 1)
            c = c * 0.5 + a * w
    subjects = count_plans(c.realize)
    assert not any("segment" in subject for subject in subjects)
    np.testing.assert_allclose(c.numpy(), np.full(4, 4.0), rtol=1e-6)
    np.testing.assert_allclose(w.numpy(), np.full(4, 2.0), rtol=1e-6)


def test_a_loop_does_not_compute_writes_of_other_tensors_with_a_bound_variable() -> None:
    n, by = Variable("n", 0, 9), np.arange(4, dtype=np.float32)
    x, y, a = (Tensor(v).clone().realize() for v in (by * 0, by * 0 + 1, by))
    with building_only():
        for _ in range(300):
            x.assign(x + Tensor(n.bind(1)))
            y.assign(y * 0.5 + a)
        y.realize()
    x.prepare().execute_with_vars({"n": 3})
    assert x.tolist() == [900.0] * 4
    np.testing.assert_allclose(y.numpy(), halve(300, by * 0 + 1, by), rtol=1e-6)


def test_a_graph_on_memory_without_storage_fails_only_when_it_is_computed() -> None:
    a = Tensor.from_uop(make_memory(float32, 8, "CPU"))
    x = Tensor(np.ones(8, np.float32)).clone().realize()
    for _ in range(400):
        x.assign(x * 0.5 + a)
    assert count_nodes(x) > MAX_NODES + 2 * NODES_PER_BUFFER
    with pytest.raises(BufferNotFoundError):
        x.realize()


def test_values_that_a_derivative_reads_are_computed_by_one_program() -> None:
    def f(a: Tensor) -> Tensor:
        c = a
        for _ in range(600):
            c = c * 0.5 + a
        assert c.max().item() > 0
        return c.sum() * 3

    a, derivatives = Tensor(np.array([1, 2], np.float32)), []
    subjects = count_plans(lambda: derivatives.append(grad(f)(a).tolist()))
    assert not any("segment" in subject for subject in subjects)
    np.testing.assert_allclose(derivatives, [[6.0, 6.0]], rtol=1e-6)


def test_the_values_between_segments_are_the_smallest() -> None:
    with building_only():
        z = Tensor(np.zeros((4, 4), np.float32)).realize()
        for _ in range(40):
            z = (z.reshape(4, 1, 4) * z.reshape(4, 4, 1)).sin().sum(-1) / 4
    found = find_repetition(z.uop.toposort())
    assert found is not None
    for values in found.values:
        assert [(node.shape, node.op is not Op.MUL) for node in values] in (
            [((4, 4), True)],
            [((4, 4, 1), True)],
        )


def halve(n_steps: int, start: np.ndarray, by: np.ndarray) -> np.ndarray:
    value = start
    for _ in range(n_steps):
        value = value * np.float32(0.5) + by
    return value


@pytest.mark.parametrize("assigns", [False, True])
def test_another_thread_writes_inputs_of_the_next_segments(assigns: bool) -> None:
    start, by = np.ones(8, np.float32), np.arange(8, dtype=np.float32)
    c, a = Tensor(start).clone().realize(), Tensor(by).clone().realize()
    with building_only():
        for _ in range(600):
            if assigns:
                c.assign(c * 0.5 + a)
            else:
                c = c * 0.5 + a
    writers: list[Thread] = []

    def write(word: str, *_: object) -> None:
        if word == "plan" and len(writers) < 3:
            writers.append(Thread(target=lambda: a.assign(a + 100).realize()))
            writers[-1].start()

    with observing(write):
        c.realize()
    for writer in writers:
        writer.join(timeout=60)
        assert not writer.is_alive()
    assert writers
    np.testing.assert_allclose(c.numpy(), halve(600, start, by), rtol=1e-6)
    np.testing.assert_array_equal(a.numpy(), by + 100 * len(writers))


@pytest.mark.parametrize("assigns", [False, True])
def test_loops_over_sharded_tensors(assigns: bool) -> None:
    start, by = np.ones((4, 2), np.float32), np.arange(8, dtype=np.float32).reshape(4, 2)
    devices = ("CPU:0", "CPU:1")
    z, a = (Tensor(array).clone().shard(devices, axis=0).realize() for array in (start, by))
    largest = 0
    for step in range(500):
        if assigns:
            z.assign(z * 0.5 + a)
        else:
            z = z * 0.5 + a
        if step % 20 == 0:
            largest = max(largest, count_nodes(z))
    assert largest < 4 * MAX_NODES
    np.testing.assert_allclose(z.numpy(), halve(500, start, by), rtol=1e-6)


def test_nodes_of_reused_graphs_count_as_growth() -> None:
    """`gelu` of a known shape builds some 70 nodes for one cell."""
    z, a = (Tensor(np.full((4, 4), n, np.float32)).clone().realize() for n in (0.5, 0.25))
    largest = 0
    for _ in range(200):
        z.assign(z.gelu() * 0.5 + a)
        largest = max(largest, count_nodes(z))
    assert largest < 4 * MAX_NODES
    expected = 0.5
    for _ in range(200):
        expected = 0.25 * expected * (1 + math.erf(expected / math.sqrt(2))) + 0.25
    np.testing.assert_allclose(z.numpy(), expected, rtol=1e-5)


def test_random_numbers_of_each_step_agree_with_single_calls() -> None:
    manual_seed(5)
    x = Tensor.zeros(8).clone().realize()
    for _ in range(200):
        x = x * 0.5 + Tensor.rand(8)
    manual_seed(5)
    expected = np.zeros(8, np.float32)
    for _ in range(200):
        expected = expected * np.float32(0.5) + Tensor.rand(8).numpy()
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-5)


def test_values_that_are_read_while_a_derivative_is_taken() -> None:
    read: list[float] = []

    def f(a: Tensor) -> Tensor:
        c = a
        for step in range(400):
            c = c * 0.5 + a
            if step % 100 == 99:
                read.append(c.item())
        return c

    np.testing.assert_allclose(grad(f)(Tensor(np.float32(3))).item(), 2.0, rtol=1e-6)
    np.testing.assert_allclose(read, [6.0] * 4, rtol=1e-6)


@pytest.mark.parametrize("is_looked_at", [False, True])
def test_memory_that_a_pending_loop_reads_is_donated(is_looked_at: bool) -> None:
    start, by = np.ones(8, np.float32), np.arange(8, dtype=np.float32)
    double = jit(lambda x: x * 2, donate=0)
    double(Tensor(start).clone().realize()).realize()
    c, a = Tensor(start).clone().realize(), Tensor(by).clone().realize()
    for _ in range(600):
        if is_looked_at:
            c = c * 0.5 + a
        else:
            with building_only():
                c = c * 0.5 + a
    doubled = double(a)
    np.testing.assert_array_equal(doubled.numpy(), by * 2)
    np.testing.assert_allclose(c.numpy(), halve(600, start, by), rtol=1e-6)


def test_single_elements_of_each_step_keep_their_values() -> None:
    start, by = np.ones(8, np.float32), np.arange(8, dtype=np.float32)
    x, a = Tensor(start).clone().realize(), Tensor(by).clone().realize()
    first, expected, values = [], [], start
    for _ in range(150):
        x.assign(x * 0.5 + a)
        values = values * np.float32(0.5) + by
        first.append(x[3])
        expected.append(values[3])
    np.testing.assert_allclose(
        [element.item() for element in first[::37]], expected[::37], rtol=1e-6
    )
    np.testing.assert_allclose(x.numpy(), values, rtol=1e-6)


def test_all_parameters_are_on_the_new_version_of_memory() -> None:
    rng = np.random.default_rng(6)
    starts = [rng.standard_normal(4).astype(np.float32) for _ in range(6)]
    weights = [Tensor(start).clone().realize() for start in starts]
    largest = 0
    for _ in range(300):
        gradients = grad(lambda weights: sum((w * w).sum() for w in weights))(weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign(weight - gradient * 0.005)
        largest = max(largest, count_nodes(*weights))
    assert largest < MAX_NODES + 8 * NODES_PER_BUFFER + 1024
    for weight, start in zip(weights, starts, strict=True):
        np.testing.assert_allclose(weight.numpy(), start * 0.99**300, rtol=1e-4)
