"""Small graphs whose form was computed before: by one plan, as by any other."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from svod_device import Buffer, CachingAllocator, get_allocator
from svod_ir import Op, UOp
from svod_ir.origins import clear_origins
from svod_ir.testing import count_examples, run_in_threads
from svod_runtime import ExecutionPlan, Lending, clear_custom_functions
from svod_schedule import OptimizerConfig
from svod_tensor import (
    PrepareConfig,
    Tensor,
    caches,
    clear_caches,
    custom_function,
    grad,
    jit,
    register_custom_function,
    track_origins,
)
from svod_tensor.cells import known_work, registry, tables
from svod_tensor.cells.known_work import compute_known
from svod_tensor.engine.caches import KERNELS
from svod_tensor.engine.known_plans import GraphStructure, find_structure
from svod_tensor.engine.observe import observing
from svod_tensor.errors import CaptureError, DonatedTensorError, IndexTensorError
from svod_tensor.ops.core.gradient_rules import gradient_rule, with_rule

Array = npt.NDArray[np.float32]
Entry = tuple[Tensor, Array]


def make(seed: int, *shape: int) -> Entry:
    array = np.random.default_rng(seed).integers(-4, 5, shape or (3, 4)).astype(np.float32)
    return Tensor(array).clone().realize(), array.copy()


def count_hits() -> int:
    return caches()["known_plan"].hits


@pytest.fixture(autouse=True)
def _no_plans() -> None:
    clear_caches()
    # Nodes of another test may still be there, whose lines were tracked.
    clear_origins()


def test_the_third_graph_of_a_structure_uses_the_plan_of_the_second() -> None:
    for number in range(5):
        (x, a), (y, b) = make(number), make(number + 10)
        before = caches()["schedule"].hits
        assert (x * 2 + y).realize().numpy().tolist() == (a * 2 + b).tolist()
        assert (caches()["known_plan"].entries, count_hits()) == (
            min(number, 1),
            max(number - 1, 0),
        )
        assert caches()["schedule"].hits - before == (number == 1)


def test_a_plan_of_another_configuration_is_no_hit() -> None:
    for _ in range(3):
        (make(1)[0] + make(2)[0]).realize()
    assert count_hits() == 1
    (x, a), (y, b) = make(3), make(4)
    assert (x + y).realize_with(PrepareConfig(memory_planner="disabled")).numpy().tolist() == (
        a + b
    ).tolist()
    assert count_hits() == 1


def test_a_known_plan_is_not_used_during_a_computation_or_capture() -> None:
    config = PrepareConfig()
    for _ in range(3):
        (make(1)[0] + make(2)[0]).realize_with(config)
    pending = [make(3)[0] + make(n)[0] for n in range(3)]
    results: list[object] = []

    def ask() -> None:
        results.append(compute_known(pending[len(results)].content, config))

    def run(out: Array, x: Array) -> None:
        ask()
        out[...] = x

    register_custom_function("ask", run)
    try:
        x, _ = make(5)
        custom_function("ask", x, outputs=(x.shape, x.dtype)).realize()
    finally:
        clear_custom_functions()

    @jit
    def captured(x: Tensor) -> Tensor:
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(20)
        return x + 1

    captured(make(6)[0])
    assert results == [None, None]
    ask()
    assert results[-1] is not None


def test_the_result_has_ordinary_memory() -> None:
    for _ in range(4):
        (x, a), (y, b) = make(1), make(2)
        z = (x - y).realize()
    assert z.is_realized
    assert z.uop.op is Op.RESHAPE
    assert z.realize().numpy().tolist() == (a - b).tolist()
    z[1] = 7
    assert z.numpy()[1].tolist() == [7] * 4
    assert z.T.numpy().tolist() == z.numpy().T.tolist()


def test_readers_of_the_graph_read_the_memory() -> None:
    for _ in range(4):
        (x, a), (y, b) = make(1), make(2)
        z = x + y
        below, view, same = z * 3, z[1:], x + y
        z.realize()
        assert z.uop in below.uop.toposort()
        x.assign(Tensor(np.zeros((3, 4), np.float32)))
        assert below.numpy().tolist() == ((a + b) * 3).tolist()
        assert view.numpy().tolist() == (a + b)[1:].tolist()
        z[0] = 5
        assert view.numpy().tolist() == (a + b)[1:].tolist()
        assert same.numpy().tolist() == (a + b).tolist()
        assert x.numpy().tolist() == np.zeros((3, 4)).tolist()


def test_constants_of_different_bits_have_different_keys() -> None:
    for _ in range(3):
        for constant in (0.0, -0.0, 1.0, np.nan):
            x, a = make(3)
            found = (x * constant).realize().numpy()
            np.testing.assert_array_equal(np.signbit(found), np.signbit(a * np.float32(constant)))
            np.testing.assert_array_equal(found, a * np.float32(constant))


def test_different_sizes_dtypes_and_operand_slots_have_different_keys() -> None:
    (x, a), (y, b) = make(1), make(2)
    w = Tensor(np.arange(12, dtype=np.int32).reshape(3, 4)).clone().realize()
    c = w.numpy().copy()
    programs: list[tuple[Callable[[], Tensor], Callable[[], npt.NDArray[np.generic]]]] = [
        (lambda: x - y, lambda: a - b),
        (lambda: y - x, lambda: b - a),
        (lambda: x - x, lambda: a - a),
        (lambda: w - w, lambda: c - c),
        (lambda: x.sum(axis=0), lambda: a.sum(axis=0)),
        (lambda: x.sum(axis=1), lambda: a.sum(axis=1)),
        (lambda: (x - y).sum(), lambda: (a - b).sum()),
        (lambda: x[::-1] + y, lambda: a[::-1] + b),
        (lambda: x[:, ::-1] + y, lambda: a[:, ::-1] + b),
        (lambda: Tensor.ones(3) + 1, lambda: np.ones(3) + 1),
        (lambda: Tensor.arange(4) * 2, lambda: np.arange(4) * 2),
        (lambda: x.reshape(4, 3) * 2, lambda: a.reshape(4, 3) * 2),
        (lambda: x.max(axis=1), lambda: a.max(axis=1)),
        (lambda: (x * 0.5).cast("int8"), lambda: (a * 0.5).astype(np.int8)),
        (lambda: (x * 0.5).cast("float64"), lambda: a * 0.5),
    ]
    for _ in range(3):
        for program, expected in programs:
            assert program().realize().numpy().tolist() == expected().tolist()
    # Each hits in the third round; x - y and y - x, of one structure, also in the second.
    assert count_hits() == len(programs) + 2


def test_devices_and_files_have_plans_of_their_own(tmp_path: Path) -> None:
    near, a = make(1)
    far = near.to("CPU:1").realize()
    for _ in range(3):
        for x in (near, far):
            y = (x * 3).realize()
            assert (y.device, y.buffer().device) == (x.device, x.device)
            assert y.numpy().tolist() == (a * 3).tolist()
    assert (caches()["known_plan"].entries, count_hits()) == (2, 2)
    path = tmp_path / "bytes"
    for number in range(4):
        path.write_bytes(bytes([number, 2, 3, 4]))
        assert (Tensor.from_file(path) * 2).realize().tolist() == [number * 2, 4, 6, 8]
    assert (caches()["known_plan"].entries, count_hits()) == (2, 2)


def test_unsupported_graphs_have_no_key() -> None:
    x, _ = make(1)
    written = x.clone()
    written[0] = 1
    for tensor in (written, Tensor([1j]) * 2, x.to("CPU:1") * 2):
        assert find_structure(tensor.uop) is None


def test_derivative_marks_do_not_change_the_structure() -> None:
    x, a = make(1)
    for number in range(4):
        assert (x.detach() * 2 + x).realize().numpy().tolist() == (a * 3).tolist()
        assert x.relu().realize().numpy().tolist() == np.maximum(a, 0).tolist()
        assert count_hits() == 2 * max(number - 1, 0)
    assert (x * 2 + x).realize().numpy().tolist() == (a * 3).tolist()
    assert count_hits() == 5


@pytest.mark.parametrize("rows", [[2, 0], [-1, 1]])
def test_lookups_at_checked_indices_are_known(rows: list[int]) -> None:
    a = np.arange(12, dtype="f4").reshape(4, 3)
    for number in range(4):
        x, indices = Tensor(a + number).realize(), Tensor(rows).realize()
        assert x[indices].realize().tolist() == (a + number)[rows].tolist()
        assert count_hits() == max(number - 1, 0)
    with pytest.raises(IndexTensorError):
        x[Tensor([4, 0]).realize()].realize_with(PrepareConfig(check_operands=True))
    assert x[Tensor([4, 0]).realize()].tolist() == [[0, 0, 0], (a + 3)[0].tolist()]


@gradient_rule("three")
def _times_three(cotangent: Tensor, *_: object) -> tuple[Tensor]:
    return (cotangent * 3,)


def test_graphs_of_equal_nodes_with_different_roots_have_different_keys() -> None:
    (x, a), (y, b) = make(1), make(2)
    for _ in range(3):
        # The operands of a rule come after its value, so the root is not always the last node.
        total = with_rule(_times_three, x + y, (x * y,))
        product = with_rule(_times_three, x, (x + y,)) * y
        assert total.realize().numpy().tolist() == (a + b).tolist()
        assert product.realize().numpy().tolist() == (a * b).tolist()
    assert count_hits() == 2


def test_a_derivative_propagates_through_a_value_that_was_read() -> None:
    """The result of a known plan has no mark, so none is used while a function is differentiated."""

    def function(x: Tensor) -> Tensor:
        y = (x * x + x).realize()
        return y * y

    x, a = make(1, 4)
    for _ in range(3):
        (x * x + x).realize()
    for _ in range(3):
        found = grad(lambda x: function(x).sum())(x).numpy()
        assert found.tolist() == (2 * (a * a + a) * (2 * a + 1)).tolist()


def test_a_view_of_an_unrealized_tensor_uses_a_known_plan() -> None:
    for number in range(5):
        (x, a), (y, b) = make(number), make(number + 10)
        total = x + y
        row, flat = total[1], total.reshape(12)
        below = row * 3
        hits = count_hits()
        assert row.realize().numpy().tolist() == (a + b)[1].tolist()
        assert flat.realize().numpy().tolist() == (a + b).reshape(12).tolist()
        assert count_hits() - hits == (2 if number >= 2 else 0)
        assert row.uop in below.uop.toposort()
        # Once the whole tensor is memory, the views alias it again.
        total[1] = 7
        assert row.numpy().tolist() == flat.numpy()[4:8].tolist() == [7] * 4
        x.assign(y)
        assert total.numpy()[0].tolist() == (a + b)[0].tolist()


def test_a_graph_on_overwritten_memory_is_computed_from_the_old_version() -> None:
    for number in range(5):
        (x, a), (y, _) = make(1), make(2)
        z = x * 2 + 1
        x.assign(y + number)
        assert z.realize().numpy().tolist() == (a * 2 + 1).tolist()
        assert (x * 2 + 1).realize().numpy().tolist() == ((y.numpy() + number) * 2 + 1).tolist()


def test_donated_arguments_are_rejected() -> None:
    take = jit(lambda v: v + 1, donate=0)
    for number in range(4):
        x, a = make(number)
        assert (x * 5).realize().numpy().tolist() == (a * 5).tolist()
        z = (x * 5).realize()
        take(z)
        with pytest.raises(DonatedTensorError):
            (z * 5).realize()
        take(x)
        with pytest.raises(DonatedTensorError):
            (x * 5).realize()


def test_a_captured_function_cannot_realize() -> None:
    (x, _) = make(1)
    for _ in range(3):
        (x * 6).realize()
    held = x * 6
    with pytest.raises(CaptureError):
        jit(lambda v: v + held.realize())(x)
    assert held.realize().numpy().tolist() == (x.numpy() * 6).tolist()


def test_observers_and_other_configurations_bypass_known_plans() -> None:
    x, a = make(1)
    for _ in range(3):
        (x * 7).realize()
    hits, words = count_hits(), list[str]()
    with observing(lambda word, _subject, _artifact: words.append(word)):
        (x * 7).realize()
    assert "rangeify" in words
    with track_origins():
        (x * 7).realize()
    for config in (PrepareConfig(disable_schedule_cache=True), PrepareConfig(check_floats="nan")):
        assert (x * 7).realize_with(config).numpy().tolist() == (a * 7).tolist()
    assert count_hits() == hits


def test_a_known_plan_holds_no_foreign_memory() -> None:
    allocator = cast("CachingAllocator", get_allocator("CPU"))

    def compute() -> None:
        x, _ = make(1, 64, 64)
        (x + 8).realize()

    for _ in range(3):
        compute()
    gc.collect()
    before = allocator.in_use_bytes
    for _ in range(3):
        compute()
    gc.collect()
    assert allocator.in_use_bytes <= before
    x, _ = make(1, 64, 64)
    z = (x + 8).realize()
    assert count_hits() > 0
    assert allocator.in_use_bytes == before + 2 * 64 * 64 * 4
    del z


def test_large_graphs_are_computed_without_a_known_plan() -> None:
    for _ in range(3):
        x, a = make(2)
        y = x
        for number in range(80):
            y = y.sin() + number
        np.testing.assert_allclose(y.realize().numpy()[0, 0], _sines(a)[0, 0], rtol=1e-4)
    assert count_hits() == 0


@pytest.fixture
def during_execution(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Functions that another thread runs while a known plan is about to run."""
    actions: list[Callable[[], object]] = []
    execute = ExecutionPlan.execute_direct

    def execute_direct(plan: ExecutionPlan, lending: Lending, buffers: Sequence[Buffer]) -> bool:
        for action in actions:
            thread = threading.Thread(target=action, daemon=True)
            thread.start()
            thread.join(20)
        return execute(plan, lending, buffers)

    monkeypatch.setattr(ExecutionPlan, "execute_direct", execute_direct)
    return actions


def test_a_plan_with_much_memory_runs_without_the_lock(
    during_execution: list[Callable[[], object]],
) -> None:
    acquired: list[bool] = []

    def acquire() -> None:
        acquired.append(tables.lock.acquire(timeout=0.01))
        if acquired[-1]:
            tables.lock.release()

    for shape in ((600, 300), (6, 3)):
        for _ in range(2):
            (make(1, *shape)[0] + 9).realize()
        during_execution.append(acquire)
        x, a = make(2, *shape)
        hits = count_hits()
        assert (x + 9).realize().numpy().tolist() == (a + 9).tolist()
        assert count_hits() == hits + 1
        during_execution.clear()
    assert acquired == [True, False]


def test_a_tensor_that_is_written_during_its_computation_keeps_the_written_value(
    during_execution: list[Callable[[], object]],
) -> None:
    for _ in range(2):
        (make(1, 600, 300)[0] + 9).realize()
    x, a = make(2, 600, 300)
    y = x + 9
    z = y * 2
    during_execution.append(lambda: y.assign(Tensor.full(y.shape, 7.0)))
    y.realize()
    during_execution.clear()
    assert set(y.numpy().flat) == {7.0}
    assert z.numpy().tolist() == ((a + 9) * 2).tolist()


def test_an_operand_may_be_written_during_the_computation(
    during_execution: list[Callable[[], object]],
) -> None:
    for _ in range(2):
        (make(1, 600, 300)[0] + 9).realize()
    x, a = make(2, 600, 300)
    # The plan of the write is there: only the computation of `y` delays it.
    x.assign(x * 0).realize()
    x.assign(Tensor(a)).realize()
    y = x + 9
    writer = threading.Thread(target=lambda: x.assign(x * 0).realize(), daemon=True)

    def start_writer() -> None:
        writer.start()
        while writer.is_alive() and not registry.count_waiting():
            writer.join(0.001)

    during_execution.append(start_writer)
    y.realize()
    during_execution.clear()
    writer.join(20)
    assert y.numpy().tolist() == (a + 9).tolist()
    assert not x.numpy().any()


def test_a_tensor_may_be_donated_during_its_computation(
    during_execution: list[Callable[[], object]],
) -> None:
    for _ in range(2):
        (make(1, 600, 300)[0] + 9).realize()
    take = jit(lambda v: v * 2, donate=0)
    take(make(1, 600, 300)[0])
    x, a = make(2, 600, 300)
    y = x + 9
    results: list[Tensor] = []

    def donate() -> None:
        during_execution.clear()
        results.append(take(y))

    during_execution.append(donate)
    y.realize()
    assert results[0].numpy().tolist() == ((a + 9) * 2).tolist()
    with pytest.raises(DonatedTensorError):
        y.numpy()


def test_a_tensor_that_is_written_during_the_look_up_keeps_the_written_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(2):
        (make(1)[0] + 9).realize()
    x, _ = make(2)
    y = x + 9

    def find_and_write(node: UOp) -> GraphStructure | None:
        monkeypatch.undo()
        structure = find_structure(node)
        y.assign(x * 0 + 7)
        return structure

    monkeypatch.setattr(known_work, "find_structure", find_and_write)
    y.realize()
    assert set(y.numpy().flat) == {7.0}


def test_a_graph_on_a_version_that_is_gone_is_computed_without_a_known_plan() -> None:
    for _ in range(3):
        (make(1)[0] + 9).realize()
    x, _ = make(2)
    node = x.uop
    x.assign(x * 0 + 7).realize()
    hits = count_hits()
    # No tensor has kept the elements, so the memory is read.
    assert set((Tensor.from_uop(node) + 9).numpy().flat) == {16.0}
    assert count_hits() == hits + 1


def test_a_view_of_a_partly_written_tensor_computes_all_of_it() -> None:
    for number in range(4):
        x, a = make(number)
        y = x * 2
        y[0] = 5
        hits = count_hits()
        assert y[1].realize().numpy().tolist() == (a * 2)[1].tolist()
        assert y.is_realized
        assert count_hits() - hits == (number >= 2)


def _sines(array: Array) -> Array:
    for number in range(80):
        array = np.sin(array) + np.float32(number)
    return array


def test_threads_compute_graphs_of_one_structure_concurrently() -> None:
    def compute(number: int) -> None:
        for turn in range(30):
            (x, a), (y, b) = make(number), make(turn)
            z = (x * 3 - y).realize()
            z[0] = number
            found = (z * 3 - y).realize().numpy()
            expected = a * 3 - b
            expected[0] = number
            assert found.tolist() == (expected * 3 - b).tolist()

    run_in_threads(
        *[lambda number=number: compute(number) for number in range(4)], switching_often=True
    )


UNARY: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "negative": (lambda x: -x, lambda a: -a),
    "sum of rows": (
        lambda x: x - x.sum(axis=1, keepdims=True),
        lambda a: a - a.sum(axis=1, keepdims=True),
    ),
    "backwards": (lambda x: x[::-1], lambda a: a[::-1]),
    "transposed": (lambda x: x.T, lambda a: a.T),
    "where": (lambda x: (x > 0).where(x, 2.0), lambda a: np.where(a > 0, a, np.float32(2))),
    "largest": (lambda x: x.maximum(x.max()), lambda a: np.maximum(a, a.max())),
    "positive": (lambda x: x.relu(), lambda a: np.maximum(a, 0)),
    "halves swapped": (lambda x: x[2:].concat(x[:2]), lambda a: np.concatenate([a[2:], a[:2]])),
    "view of a sum": (lambda x: (x + 1)[::-1], lambda a: (a + 1)[::-1]),
    "reshaped": (lambda x: (x * 2).reshape(16).reshape(4, 4), lambda a: a * 2),
}


@settings(max_examples=count_examples(60), deadline=None)
@given(data=st.data())
def test_random_programs_of_few_structures_agree_with_numpy(data: st.DataObject) -> None:
    pool = [make(seed, 4, 4) for seed in range(3)]

    def pick() -> Entry:
        return pool[data.draw(st.integers(0, len(pool) - 1))]

    kinds = st.sampled_from(["unary", "add", "realize", "realize", "assign", "put", "forget"])
    for kind in data.draw(st.lists(kinds, min_size=4, max_size=20)):
        (x, a), (y, b) = pick(), pick()
        match kind:
            case "unary":
                function, on_array = UNARY[data.draw(st.sampled_from(sorted(UNARY)))]
                pool.append((function(x), on_array(a)))
            case "add":
                pool.append((x * 0.5 + y, a * np.float32(0.5) + b))
            case "realize":
                x.realize()
            case "assign":
                x.assign(y)
                a[...] = b.copy()
            case "put":
                x[1] = 2
                a[1] = 2
            case _:
                pool = [*pool[1:], make(len(pool), 4, 4)]
    for x, a in pool:
        np.testing.assert_array_equal(x.numpy(), a)


def test_a_plan_that_is_known_for_one_configuration_is_not_used_for_another() -> None:
    x = Tensor(np.ones((8, 8), np.float32)).clone().realize()
    for _ in range(3):
        (x * 3 + 1).realize()
    assert count_hits() == 1
    n_kernels = KERNELS.counts().misses
    (x * 3 + 1).realize()
    assert KERNELS.counts().misses == n_kernels
    found = (x * 3 + 1).realize_with(PrepareConfig(optimizer=OptimizerConfig(strategy="none")))
    assert KERNELS.counts().misses == n_kernels + 1
    assert found.numpy().tolist() == [[4.0] * 8] * 8


@pytest.mark.parametrize("shape", [(1,), (2, 3)])
def test_complex_results_of_known_plans_have_their_shape(shape: tuple[int, ...]) -> None:
    for real in range(4):
        array = np.full(shape, real, np.float32)
        x = Tensor(array).cast("complex64").realize()
        assert x.shape == shape
        assert x.dtype.is_complex
        np.testing.assert_array_equal(x.numpy(), array.astype(np.complex64))
