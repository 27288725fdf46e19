"""Writing a slice of a large tensor moves the slice's bytes and no others, and keeps nothing
behind.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import svod_device
from svod_device import Buffer, get_allocator
from svod_ir.uop import count_interned
from svod_runtime import (
    DonatedBufferError,
    ExecutionPlan,
    PreparedBufferView,
    PreparedCopy,
    PreparedKernel,
)
from svod_tensor import Tensor, Variable, jit

N_HEADS, N_POSITIONS, N_FEATURES = 2, 512, 8
SLICE_BYTES = N_HEADS * N_FEATURES * 4
CACHE_BYTES = SLICE_BYTES * N_POSITIONS
POSITION = Variable("position", 0, N_POSITIONS - 1)


class Traffic:
    """The bytes that each kernel moves, and that each copy copies."""

    def __init__(self) -> None:
        self.kernels: list[int] = []
        self.copies: list[int] = []


@pytest.fixture
def traffic(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traffic]:
    """Counts the bytes of everything that is executed, as profiles show them."""
    counted = Traffic()
    copy_buffer = svod_device.copy_buffer

    def execute(plan: ExecutionPlan) -> None:
        counted.copies += [
            plan.buffers[op.buffer_indices[0]].nbytes
            for op in plan.prepared_ops
            if isinstance(op, PreparedCopy)
        ]
        counted.kernels += [profile.n_bytes for profile in plan.execute_profiled()]

    def copy(destination: Buffer, source: Buffer) -> None:
        counted.copies.append(source.nbytes)
        copy_buffer(destination, source)

    monkeypatch.setattr(ExecutionPlan, "execute", execute)
    monkeypatch.setattr(svod_device, "copy_buffer", copy)
    return counted


def assert_no_copies(plan: ExecutionPlan) -> None:
    """Profiles show kernels alone."""
    assert all(isinstance(op, (PreparedKernel, PreparedBufferView)) for op in plan.prepared_ops)


def make_cache(device: str = "CPU") -> Tensor:
    return (
        Tensor(np.full((N_HEADS, N_POSITIONS, N_FEATURES), -1, np.float32), device=device)
        .clone()
        .realize()
    )


def make_keys(number: int, device: str = "CPU") -> tuple[Tensor, np.ndarray]:
    array = (
        np.arange(N_HEADS * N_FEATURES, dtype=np.float32).reshape(N_HEADS, N_FEATURES)
        + 100 * number
    )
    return Tensor(array, device=device).realize(), array


def check_cache(cache: Tensor, written: dict[int, np.ndarray]) -> None:
    wanted = np.full((N_HEADS, N_POSITIONS, N_FEATURES), -1, np.float32)
    for position, keys in written.items():
        wanted[:, position] = keys
    np.testing.assert_array_equal(cache.numpy(), wanted)


Place = Callable[[int], Any]
PLACES: dict[str, Place] = {"an integer": lambda n: n, "a variable": POSITION.bind}


def hold_nothing(cache: Tensor) -> object:
    return None


def hold_views(cache: Tensor) -> object:
    return cache[:, 3], cache.detach(), cache[0].T


def hold_views_that_were_read(cache: Tensor) -> object:
    views = cache[:, 3], cache.detach(), cache[:, : POSITION.bind(4)]
    for view in views:
        view.realize()
    return views


HOLDS = [hold_nothing, hold_views, hold_views_that_were_read]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("device", ["CPU", "CPU:1"])
def test_realizing_a_write_transfers_only_the_slice(
    traffic: Traffic, place: str, hold: Callable[[Tensor], object], device: str
) -> None:
    cache = make_cache(device)
    held, written = hold(cache), {}
    moved = Traffic()
    for position in (0, 7, N_POSITIONS - 1):
        keys, written[position] = make_keys(position, device)
        traffic.__init__()
        cache[:, PLACES[place](position)] = keys
        cache.realize()
        moved.kernels += traffic.kernels
        moved.copies += traffic.copies
    check_cache(cache, written)
    assert (moved.kernels, moved.copies) == ([2 * SLICE_BYTES] * 3, [])
    del held


@pytest.mark.parametrize("place", PLACES)
def test_a_write_through_a_view_transfers_only_the_slice(traffic: Traffic, place: str) -> None:
    cache = make_cache()
    keys, array = make_keys(1)
    traffic.__init__()
    cache.detach()[:, PLACES[place](5)].assign(keys)
    cache.realize()
    assert (traffic.kernels, traffic.copies) == ([2 * SLICE_BYTES], [])
    check_cache(cache, {5: array})


def test_several_pending_writes_transfer_only_their_slices(traffic: Traffic) -> None:
    cache, written = make_cache(), {}
    given = [make_keys(number) for number in range(4)]
    traffic.__init__()
    for position, (keys, array) in enumerate(given):
        cache[:, position], written[position] = keys, array
    cache.realize()
    assert (traffic.kernels, traffic.copies) == ([2 * SLICE_BYTES] * 4, [])
    check_cache(cache, written)


def test_an_in_place_update_of_a_slice_touches_only_its_bytes(traffic: Traffic) -> None:
    cache = make_cache()
    traffic.__init__()
    cache[:, 5] += 3
    cache.realize()
    assert (traffic.kernels, traffic.copies) == ([SLICE_BYTES], [])
    check_cache(cache, {5: np.full((N_HEADS, N_FEATURES), 2, np.float32)})


def test_shared_memory_is_copied_once_and_then_only_slices_are_transferred(
    traffic: Traffic,
) -> None:
    cache = make_cache()
    other = cache.clone()
    traffic.__init__()
    keys, array = make_keys(1)
    for position in (1, 2, 3):
        other[:, position] = keys
        other.realize()
        cache[:, position + 1] = keys
        cache.realize()
    assert (traffic.kernels, traffic.copies) == ([2 * SLICE_BYTES] * 6, [CACHE_BYTES])
    check_cache(other, dict.fromkeys((1, 2, 3), array))
    check_cache(cache, dict.fromkeys((2, 3, 4), array))


@pytest.mark.parametrize("place", PLACES)
def test_each_execution_of_a_plan_transfers_only_the_slice(place: str) -> None:
    cache = make_cache()
    keys, array = make_keys(1)
    cache[:, PLACES[place](5)] = keys
    plan = cache.prepare()
    assert_no_copies(plan)
    assert (plan.memory_report.n_buffers, plan.memory_report.bytes_after) == (0, 0)
    written = {}
    for position in (5, 9, 5, 11):
        if place == "a variable":
            found = plan.execute_with_vars_profiled({"position": position})
            written[position] = array
        else:
            found = plan.execute_profiled()
            written[5] = array
        assert [profile.n_bytes for profile in found] == [2 * SLICE_BYTES]
        check_cache(cache, written)
    keys.assign(keys + 1)
    keys.realize()
    plan.execute()
    written[11 if place == "a variable" else 5] = array + 1
    check_cache(cache, written)


def write(cache: Tensor, keys: Tensor, position: Any) -> None:
    cache[:, position] = keys


def write_and_return(cache: Tensor, keys: Tensor, position: Any) -> Tensor:
    cache[:, position] = keys
    return cache


def write_and_return_view(cache: Tensor, keys: Tensor, position: Any) -> Tensor:
    cache[:, position] = keys
    return cache[:, position]


FUNCTIONS: list[Callable[[Tensor, Tensor, Any], Tensor | None]] = [
    write,
    write_and_return,
    write_and_return_view,
]


def check_plans(function: Any, n_plans: int) -> None:
    """Executes the plans once more, each of which writes what it wrote last; those of what is
    donated cannot be.
    """
    plans = function.plans()
    assert len(plans) == n_plans
    for plan in plans:
        assert_no_copies(plan)
        assert (plan.memory_report.n_buffers, plan.memory_report.bytes_after) == (0, 0)
        with contextlib.suppress(DonatedBufferError):
            moved = [profile.n_bytes for profile in plan.execute_profiled()]
            # A slice at a place that changes may be returned in memory of its own.
            assert set(moved) == {2 * SLICE_BYTES}
            assert len(moved) <= 2


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("donate", [(), ("cache",)])
def test_a_captured_function_with_a_cache_argument_transfers_only_the_slice(
    place: str, function: Callable[[Tensor, Tensor, Any], Tensor | None], donate: tuple[str, ...]
) -> None:
    if donate and function is not write_and_return:
        pytest.skip("what is donated and not returned is gone")
    captured = jit(function, donate=donate)
    cache, written = make_cache(), {}
    for position in (1, 2, 3):
        keys, written[position] = make_keys(position)
        made = captured(cache, keys, PLACES[place](position))
        if function is write_and_return:
            cache = made
        elif function is write_and_return_view:
            np.testing.assert_array_equal(made.numpy(), written[position])
    assert cache is not None
    check_cache(cache, written)
    check_plans(captured, 1 if place == "a variable" else 3)


@pytest.mark.parametrize("place", PLACES)
def test_a_captured_function_with_a_captured_cache_transfers_only_the_slice(place: str) -> None:
    cache, written = make_cache(), {}
    captured = jit(lambda keys, position: write(cache, keys, position))
    for position in (1, 2, 3):
        keys, written[position] = make_keys(position)
        captured(keys, PLACES[place](position))
        check_cache(cache, written)
    check_plans(captured, 1 if place == "a variable" else 3)


def write_by_realizing(cache: Tensor) -> Callable[[int], object]:
    keys, _ = make_keys(1)

    def step(n: int) -> None:
        cache[:, POSITION.bind(n)] = keys
        cache.realize()

    return step


def write_by_reading(cache: Tensor) -> Callable[[int], object]:
    keys, _ = make_keys(1)

    def step(n: int) -> None:
        cache[:, POSITION.bind(n)] = keys
        cache[0].tolist()

    return step


def write_by_calling(cache: Tensor) -> Callable[[int], object]:
    (keys, _), captured = make_keys(1), jit(write)
    return lambda n: captured(cache, keys, POSITION.bind(n))


def write_what_is_held(cache: Tensor) -> Callable[[int], object]:
    (keys, _), captured = make_keys(1), jit(lambda keys, position: write(cache, keys, position))
    return lambda n: captured(keys, POSITION.bind(n))


def write_by_a_plan(cache: Tensor) -> Callable[[int], object]:
    cache[:, POSITION.bind(0)] = make_keys(1)[0]
    plan = cache.prepare()
    return lambda n: plan.execute_with_vars({"position": n})


def hold_a_plan(cache: Tensor) -> object:
    made = cache * 2
    return made, made.prepare()


def hold_a_result(cache: Tensor) -> object:
    return cache * 2


def hold_a_function(cache: Tensor) -> object:
    captured = jit(lambda x: cache + x)
    captured(Tensor([1.0]))
    return captured


WRITERS = [
    write_by_realizing,
    write_by_reading,
    write_by_calling,
    write_what_is_held,
    write_by_a_plan,
]


def count_kept() -> tuple[int, int]:
    """How many nodes there are, and how many bytes of memory are in use."""
    gc.collect()
    return count_interned(), get_allocator("CPU").in_use_bytes  # pyright: ignore[reportAttributeAccessIssue]


@pytest.fixture(scope="module")
def older_objects_are_left_alone() -> Iterator[None]:
    """What other tests left behind neither makes collections slow nor is counted when it goes."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


HELD = [
    hold_nothing,
    hold_views,
    hold_views_that_were_read,
    hold_a_plan,
    hold_a_result,
    hold_a_function,
]


@pytest.mark.usefixtures("older_objects_are_left_alone")
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("hold", HELD)
def test_repeated_writes_to_a_cache_leak_no_memory(
    hold: Callable[[Tensor], object], writer: Callable[[Tensor], Callable[[int], object]]
) -> None:
    cache = make_cache()
    held = hold(cache)
    step = writer(cache)
    for n in range(10):
        step(n)
    n_nodes, n_bytes = count_kept()
    for n in range(50):
        step(n)
    found = count_kept()
    # Nodes that caches drop meanwhile are fewer; a write that is kept behind is one more each time.
    assert found[0] <= n_nodes + 5
    assert found[1] == n_bytes
    del held
