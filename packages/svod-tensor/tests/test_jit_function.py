from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from svod_device import CachingAllocator, OutOfMemoryError, get_allocator
from svod_dtype import float32, int32
from svod_ir.testing import run_in_threads
from svod_runtime import ExecutionPlan, clear_custom_functions
from svod_tensor import (
    Generator,
    Tensor,
    Variable,
    clear_caches,
    custom_function,
    jit,
    register_custom_function,
)
from svod_tensor.capture.plan_table import MAX_CAPTURES
from svod_tensor.cells.cell import get_spec
from svod_tensor.errors import CaptureError
from svod_testing import check


class Pair(NamedTuple):
    low: Tensor
    high: Tensor


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_a_function_runs_once_for_each_signature(rng) -> None:
    runs: list[int] = []

    @jit
    def double(x: Tensor) -> Tensor:
        runs.append(1)
        return x * 2

    for _ in range(3):
        for shape in ((4,), (2, 3)):
            a = rng.standard_normal(shape).astype(np.float32)
            check(double(Tensor(a)), a * 2)
    assert len(runs) == double.n_captures == 2
    assert double.__name__ == "double"
    double.clear()
    double(Tensor([1.0]))
    assert len(runs) == 3


def test_results_have_memory_of_their_own() -> None:
    step = jit(lambda x: (x + 1, x.reshape(2, 1)))
    first, second = step(Tensor([1.0, 2.0])), step(Tensor([3.0, 4.0]))
    assert [t.tolist() for t in (*first, *second)] == [
        [2.0, 3.0],
        [[1.0], [2.0]],
        [4.0, 5.0],
        [[3.0], [4.0]],
    ]


def test_arguments_and_results_may_be_nested() -> None:
    @jit
    def split(data: dict[str, list[Tensor]], scale: float, *, kind: str) -> dict[str, object]:
        x, y = data["xs"]
        return {kind: Pair(x.minimum(y) * scale, x.maximum(y)), "none": None, "both": [x + y, (x,)]}

    for _ in range(2):
        found = split(
            {"xs": [Tensor([1.0, 5.0]), np.array([2.0, 3.0], np.float32)]}, 10.0, kind="ends"
        )
        assert isinstance(found["ends"], Pair)
        assert found["ends"].low.tolist() == [10.0, 30.0]
        assert found["ends"].high.tolist() == [2.0, 5.0]
        assert found["none"] is None
        assert found["both"][1][0].tolist() == [1.0, 5.0]
    assert split.n_captures == 1


def test_inputs_are_used_where_they_are() -> None:
    total = jit(lambda x: x.sum())
    x = Tensor(np.ones(1000, np.float32)).realize()
    total(x)
    y = Tensor(np.full(1000, 2, np.float32)).realize()
    allocator = cast("CachingAllocator", get_allocator("CPU"))
    before = allocator.in_use_bytes
    result = total(y)
    # The result alone takes memory.
    assert allocator.in_use_bytes == before + 64
    assert result.item() == 2000
    assert total(x + 1).item() == 2000
    assert total(x.reshape(10, 100)[::-1].reshape(1000)).item() == 1000


def test_the_same_tensor_may_be_passed_twice() -> None:
    add = jit(lambda x, y: x * 10 + y)
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    assert [add(*p).tolist() for p in ((x, x), (x, y), (y, x))] == [
        [11.0, 22.0],
        [13.0, 24.0],
        [31.0, 42.0],
    ]
    assert add.n_captures == 1


def test_other_tensors_are_read_at_each_call() -> None:
    weight = Tensor([1.0, 2.0])
    apply = jit(lambda x: x * weight)
    x = Tensor([1.0, 1.0])
    assert apply(x).tolist() == [1.0, 2.0]
    weight.assign(weight * 5)
    weight.realize()
    assert apply(x).tolist() == [5.0, 10.0]


def test_assignments_happen_at_each_call_and_graphs_built_before_keep_their_values() -> None:
    count = Tensor([0.0])

    @jit
    def step(x: Tensor) -> Tensor:
        count.assign(count + 1)
        x.assign(x * 2)
        return x + count

    x = Tensor([1.0, 10.0])
    view, old = x.reshape(2, 1), x + 0
    seen: list[list[float]] = []
    for _ in range(3):
        later = count * 100
        seen.append(step(x).tolist())
        assert later.tolist() == [100.0 * (len(seen) - 1)]
    assert seen == [[3.0, 21.0], [6.0, 42.0], [11.0, 83.0]]
    assert (count.tolist(), view.tolist(), old.tolist()) == ([3.0], [[8.0], [80.0]], [1.0, 10.0])
    a = np.ones(2, np.float32)
    assert step(a).tolist() == [6.0, 6.0]
    assert a.tolist() == [1.0, 1.0]


def test_a_pending_assignment_reads_memory_before_a_captured_function_overwrites_it() -> None:
    count = Tensor([1.0]).clone().realize()
    step = jit(lambda x: count.assign(count + x) * 1)
    step(Tensor([0.0]))
    step(Tensor([0.0]))
    others = [Tensor([0.0]).clone().realize() for _ in range(2)]
    others[0].assign(count * 10)
    others[1].assign(others[1] + 1).assign(others[1] + count * 100)
    assert step(Tensor([4.0])).tolist() == [5.0]
    assert [other.tolist() for other in others] == [[10.0], [101.0]]
    assert count.tolist() == [5.0]


def test_a_tensor_on_shared_memory_is_read_where_its_writes_are() -> None:
    def run(decorate: Callable[[Callable[..., Tensor]], Callable[..., Tensor]]) -> list[float]:
        x = (Tensor([1.0, 2.0, 3.0]) + 0).realize()
        shared = Tensor.from_uop(x.uop)

        @decorate
        def step(y: Tensor) -> Tensor:
            total = shared.sum()
            shared[0] = shared[0] + y
            return total * 1

        totals = [step(Tensor(10.0)).item() for _ in range(3)]
        return [*totals, *shared.tolist(), *x.tolist()]

    assert run(jit) == run(lambda function: function) == [6, 16, 26, 31, 2, 3, 1, 2, 3]


def test_a_kept_tensor_on_an_assignment_of_the_capture_reads_the_memory_before_it() -> None:
    x, kept = (Tensor([1.0, 2.0]) + 0).realize(), list[Tensor]()

    @jit
    def step(y: Tensor) -> Tensor:
        x.assign(x + y)
        kept.append(x * 2)
        return y + 1

    step(Tensor([1.0, 1.0]))
    assert kept[0].tolist() == [2.0, 4.0]
    assert x.tolist() == [2.0, 3.0]


def test_assignments_from_before_the_capture_are_done_once() -> None:
    x = Tensor([1.0])
    x.assign(x + 1)
    add = jit(lambda y: x + y)
    assert [add(Tensor([0.0])).item() for _ in range(3)] == [2.0] * 3


def test_one_plan_serves_all_values_of_a_variable() -> None:
    n, at = Variable("n", 1, 8), Variable("at", 0, 3)
    head = jit(lambda x, m: (x * 2)[:m])
    a = array(8)
    for size in (3, 8, 1):
        check(head(Tensor(a), n.bind(size)), a[:size] * 2)
    assert head.n_captures == 1

    cache = Tensor(np.zeros((4, 2), np.float32))

    @jit
    def append(token: Tensor, position: object) -> Tensor:
        cache[position] = token
        return cache.sum(0)

    expected = np.zeros((4, 2), np.float32)
    for position in (2, 0, 2, 3):
        expected[position] = token = array(position + 1, 2)[0]
        check(append(Tensor(token), at.bind(position)), expected.sum(0), rtol=1e-5, atol=1e-6)
    check(cache, expected)
    assert append.n_captures == 1


def test_inputs_may_have_symbolic_shapes() -> None:
    n = Variable("n", 1, 8)
    total = jit(lambda x: (x.sum(), x + 1))
    a = array(8)
    for size in (3, 5):
        found, more = total(Tensor(a)[: n.bind(size)])
        check(found, a[:size].sum(), rtol=1e-5)
        check(more, a[:size] + 1)
    assert total.n_captures == 1


def test_explain_shows_why_a_signature_was_captured(caplog: pytest.LogCaptureFixture) -> None:
    @jit
    def scale(x: Tensor, by: float) -> Tensor:
        return x * by

    with caplog.at_level(logging.INFO, "svod.tensor"):
        scale(Tensor([1.0]), 2.0)
        scale(Tensor([1.0]), 0.0)
        scale(Tensor([1.0]), -0.0)
        scale(Tensor([1, 2]), 2.0)
    text = scale.explain()
    assert text.startswith("scale: 4 captures, 4 calls")
    assert "captured for the first call" in text
    assert "since args[1] is 0.0 instead of 2.0" in text
    assert "since args[1] is -0.0 instead of" in text
    assert "since args[0] is int32 (2,) on CPU instead of float32 (1,) on CPU" in text
    assert sum("jit.captured" in record.getMessage() for record in caplog.records) == 4


def test_a_callable_object_is_named_by_its_class_and_a_partial_by_its_function() -> None:
    class Network:
        def __repr__(self) -> str:
            return "Network(\n  (first): Linear(2, 2)\n)"

        def __call__(self, x: Tensor) -> Tensor:
            return x * 2

    def scale(x: Tensor, by: float) -> Tensor:
        return x * by

    assert jit(Network()).explain() == "Network: 0 captures, 0 calls"
    assert jit(partial(partial(scale), by=2.0)).explain() == "scale: 0 captures, 0 calls"


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda x: x * x.sum().item(), "reads values"),
        (lambda x: x if x.sum() > 0 else -x, "reads values"),
        (lambda x: x.numpy(), "reads values"),
        (lambda x: x.prepare(), "prepares a plan"),
        (lambda x: (x, "text"), "returns str, which is not a tensor"),
        (lambda x: x + Tensor.rand(1, generator=Generator()), "draws a seed"),
    ],
)
def test_unsupported_actions_in_a_captured_function_are_errors(
    function: object, problem: str
) -> None:
    f = jit(function)
    with pytest.raises(CaptureError, match=problem):
        f(Tensor([1.0]))
    assert f.n_captures == 0
    assert (Tensor([1.0]) + 1).item() == 2


def test_a_leaked_tensor_is_an_error() -> None:
    kept: list[Tensor] = []
    f = jit(lambda x: kept.append(x * 2))
    with pytest.raises(CaptureError, match="is still held after it returned"):
        f(Tensor([1.0]))


def test_a_result_that_is_also_leaked_is_an_error() -> None:
    state = {"total": Tensor([0.0])}

    @jit
    def add(x: Tensor) -> Tensor:
        state["total"] = state["total"] + x
        return state["total"]

    with pytest.raises(
        CaptureError, match=r"is still held after it returned\n  hint: .* as in state.assign"
    ):
        add(Tensor([1.0]))


def test_a_function_that_mutates_a_dict_or_list_argument_is_an_error() -> None:
    @jit
    def double(given: dict[str, Tensor]) -> dict[str, Tensor]:
        given["y"] = given["x"] * 2
        return given

    @jit
    def append(given: list[Tensor]) -> None:
        given.append(given[0] * 2)

    with pytest.raises(
        CaptureError, match=r"double: it sets an element of a dict that is an argument"
    ):
        double({"x": Tensor([1.0])})
    with pytest.raises(
        CaptureError, match=r"append: it sets an element of a list that is an argument"
    ):
        append([Tensor([1.0])])
    copied = jit(lambda given: {**given, "y": given["x"] * 2})
    assert copied({"x": Tensor([1.0])})["y"].item() == 2


def test_assigned_state_without_memory_is_realized_and_the_function_traced_again() -> None:
    state, total = Tensor.zeros(2), Tensor([1.0, 2.0]) * 3
    view, before = total[1:], total * 2
    runs = []

    @jit
    def step(x: Tensor) -> Tensor:
        runs.append(x)
        state[0] = state[0] + 5
        total.assign(total + x)
        return state + x

    assert [step(Tensor([1.0, 1.0])).tolist() for _ in range(3)] == [
        [6.0, 1.0],
        [11.0, 1.0],
        [16.0, 1.0],
    ]
    assert len(runs) == 2
    assert (state.tolist(), total.tolist(), view.tolist()) == ([15.0, 0.0], [6.0, 9.0], [9.0])
    assert before.tolist() == [6.0, 12.0]
    local = jit(lambda x: _overwrite(x + 0))
    assert local(Tensor([1.0, 2.0])).tolist() == [9.0, 2.0]


def _overwrite(x: Tensor) -> Tensor:
    x[0] = 9
    return x


def test_a_failed_capture_reverts_its_assignments() -> None:
    state = Tensor([1.0, 2.0])
    view = state.reshape(2, 1)

    @jit
    def step(x: Tensor) -> Tensor:
        state.assign(state + x)
        state[0] = x[0]
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            step(Tensor([5.0, 5.0]))
        assert (state.tolist(), view.tolist()) == ([1.0, 2.0], [[1.0], [2.0]])


def test_methods_and_nested_functions_are_captured() -> None:
    inner = jit(lambda x: x + 1)

    class Layer:
        def __init__(self, weight: float) -> None:
            self.weight = Tensor([weight]).realize()

        @jit
        def __call__(self, x: Tensor) -> Tensor:
            return inner(x) * self.weight

    one, two = Layer(10), Layer(20)
    assert [layer(Tensor([1.0])).item() for layer in (one, two, one)] == [20.0, 40.0, 20.0]
    assert inner.n_captures == 0


@pytest.mark.filterwarnings("ignore:.*was captured 32 times")
def test_captures_are_bounded() -> None:
    f = jit(lambda x, n: x + n)
    x = Tensor([1.0])
    for n in range(MAX_CAPTURES + 3):
        f(x, n)
    assert f.n_captures == MAX_CAPTURES


def test_a_function_of_constants_and_of_empty_tensors_runs() -> None:
    f = jit(lambda x: (x, Tensor.ones(2), x.sum()))
    for _ in range(2):
        empty, ones, total = f(Tensor.zeros(0, 3))
        assert (empty.shape, ones.tolist(), total.item()) == ((0, 3), [1.0, 1.0], 0.0)


@pytest.fixture
def _no_custom_functions() -> Iterator[None]:
    yield
    clear_custom_functions()


def test_threads_may_call_one_function() -> None:
    weight = Tensor(np.arange(100, dtype=np.float32)).realize()
    f = jit(lambda x: ((x * 2).sum() + x[0], (x + weight).contiguous().cumsum()[-1]))
    wrong: list[object] = []

    def work(start: int) -> None:
        kept: list[tuple[int, tuple[Tensor, Tensor]]] = []
        for n in range(start, start + 30):
            kept.append((n, f(Tensor(np.full(100, n, np.float32)))))
        wrong.extend(
            (n, pair)
            for n, pair in kept
            if [part.item() for part in pair] != [201 * n, 100 * n + 4950]
        )

    run_in_threads(*(partial(work, 100 * i) for i in range(4)))
    assert wrong == []
    assert f.n_captures == 1


@pytest.mark.usefixtures("_no_custom_functions")
def test_calls_of_several_threads_run_concurrently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svod_tensor.capture.plan_forks.count_usable_cores", lambda: 3)
    barrier = threading.Barrier(3, timeout=300)
    register_custom_function("meet", lambda out, x: (barrier.wait(), np.copyto(out, x)))
    f = jit(lambda x: custom_function("meet", x + 1, outputs=((4,), "float32")) * 2)
    found: dict[int, object] = {}
    works = [lambda n=n: found.setdefault(n, f(Tensor([float(n)] * 4)).tolist()) for n in range(3)]
    run_in_threads(*works)
    assert found == {n: [2.0 * (n + 1)] * 4 for n in range(3)}
    assert f.n_captures == 1


@pytest.mark.usefixtures("_no_custom_functions")
def test_a_thread_waits_for_a_plan_if_there_is_no_memory_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(plan: ExecutionPlan) -> ExecutionPlan:
        raise OutOfMemoryError(device="CPU", nbytes=4, in_use=0, released=0)

    monkeypatch.setattr(ExecutionPlan, "fork", refuse)
    inside: list[int] = []
    most: list[int] = []

    def count(out: Any, x: Any) -> None:
        inside.append(1)
        most.append(len(inside))
        for _ in range(2000):
            out[:] = x
        inside.pop()

    register_custom_function("count", count)
    f = jit(lambda x: custom_function("count", x + 1, outputs=((4,), "float32")) * 2)
    found: list[object] = []
    run_in_threads(*[lambda: found.extend(f(Tensor([1.0] * 4)).tolist()[0] for _ in range(10))] * 3)
    assert found == [4.0] * 30
    assert set(most) == {1}


def test_calls_that_assign_run_sequentially() -> None:
    total = Tensor(np.zeros(4, np.float32)).realize()

    @jit
    def add(x):
        total.assign(total + x)
        return total * 1

    seen: list[float] = []
    run_in_threads(
        *[lambda: seen.extend(add(Tensor([1.0] * 4)).tolist()[0] for _ in range(25))] * 4
    )
    assert total.tolist() == [100.0] * 4
    assert sorted(seen) == [float(n) for n in range(1, 101)]


def test_a_capture_does_not_block_calls_with_another_signature() -> None:
    captures, goes_on = threading.Event(), threading.Event()

    @jit
    def f(x, is_slow):
        if is_slow:
            captures.set()
            assert goes_on.wait(300)
        return x + 1

    x = Tensor([1.0, 2.0]).realize()
    f(x, False)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(f(x, True).tolist()))
    thread.start()
    assert captures.wait(300)
    assert f(x, False).tolist() == [2.0, 3.0]
    goes_on.set()
    thread.join()
    assert found == [[2.0, 3.0]]


def test_results_have_the_spec_of_their_nodes() -> None:
    n = Variable("n", 1, 8)
    x = Tensor(np.arange(8, dtype=np.float32)).realize()
    sharded = Tensor(np.ones((4, 2), np.float32)).shard(("CPU:1", "CPU:2"), axis=0).realize()

    @jit
    def f(x, part, sharded, empty):
        return (
            x + 1,
            x.reshape(2, 4),
            part * 2,
            sharded + 1,
            sharded,
            empty,
            x.sum().cast("int32"),
            Tensor([1.0, 2.0]),
        )

    for size in (3, 5, 3):
        results = f(x, x[: n.bind(size)], sharded, Tensor.zeros(0, 3))
        for result in results:
            assert result.spec == get_spec(result.uop)
        assert [r.shape for r in results[:2]] == [(8,), (2, 4)]
    assert f.n_captures == 1


def test_the_spec_of_a_tensor_follows_its_node() -> None:
    x = Tensor([1.0, 2.0]).realize()
    spec = x.spec
    assert spec == ((2,), float32, "CPU") and x.spec is spec
    x.content.set_node(Tensor([[1, 2, 3]]).uop)
    assert x.spec == ((1, 3), int32, "CPU")


@pytest.mark.filterwarnings("ignore:.*was captured 32 times")
def test_captures_in_use_are_not_evicted() -> None:
    # Without sizes of other tests: the first two sizes get plans that are never captured again.
    clear_caches()
    f = jit(lambda x: x + 1)
    kept = Tensor.zeros(MAX_CAPTURES + 9)
    f(kept)
    (plan,) = f.plans()
    for n in range(MAX_CAPTURES + 3):
        f(Tensor.zeros(n + 1))
        f(kept)
    assert f.plans()[0] is plan


def test_a_result_that_is_an_array_of_the_call_is_a_copy() -> None:
    array = np.array([1.0, 2.0, 3.0], np.float32)
    whole, part, both = (
        jit(lambda x: x),
        jit(lambda x: x[1:]),
        jit(lambda x, y: {"x": x, "y": y + 1}),
    )
    results = [whole(array), part(array), both(array, array)["x"]]
    array[:] = 0
    assert [result.tolist() for result in results] == [[1.0, 2.0, 3.0], [2.0, 3.0], [1.0, 2.0, 3.0]]
    tensor = Tensor([1.0])
    assert whole(tensor) is tensor
