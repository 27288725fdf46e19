"""Calls of captured functions whose arguments and results are memory: chains of them, and arguments
that share memory.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from svod_device import CachingAllocator, get_allocator
from svod_dtype import float32
from svod_ir import UOp
from svod_ir.testing import count_examples, run_in_threads
from svod_ir.uop import count_interned
from svod_tensor import Tensor, clear_caches, jit
from svod_tensor.cells import registry
from svod_tensor.cells.cell import Cell
from svod_tensor.errors import DonatedTensorError, DonationError

Array = npt.NDArray[np.float32]
Entry = tuple[Tensor, Array]


def add_both(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def double_and_subtract(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x * 2, x - y


def accumulate(x: Tensor, y: Tensor) -> Tensor:
    x.assign(x * 0.5 + y)
    return x + 1


def make(seed: int) -> Entry:
    array = np.random.default_rng(seed).integers(-4, 5, (4, 4)).astype(np.float32)
    return Tensor(array).clone().realize(), array.copy()


def test_array_arguments_and_results_that_are_read_get_no_nodes() -> None:
    step = jit(add_both)
    arrays = [np.random.default_rng(seed).random((4, 4), np.float32) for seed in range(2)]
    step(*map(Tensor.from_numpy, arrays))
    before = count_interned()
    given = list(map(Tensor.from_numpy, arrays))
    result = step(*given)
    np.testing.assert_array_equal(result.numpy(), arrays[0] + arrays[1])
    assert count_interned() <= before
    # What is written in the array shows, until the tensor is written.
    arrays[0][0, 0] = 9
    assert given[0].numpy()[0, 0] == 9
    given[0][0, 0] = 3
    assert arrays[0][0, 0] == 9
    assert given[0].numpy()[0, 0] == 3


def test_a_result_passed_only_to_the_next_call_gets_no_nodes() -> None:
    step = jit(double_and_subtract)
    x, y = step(*[make(seed)[0] for seed in range(2)])
    x, y = step(x, y)
    gc.collect()
    before = count_interned(), len(list(registry.iter_live()))
    for _ in range(20):
        x, y = step(x, y)
    assert count_interned() <= before[0]
    assert len(list(registry.iter_live())) <= before[1]
    assert x.content.cell.memory is not None
    assert x.is_realized
    assert x.shape == (4, 4)
    assert x.content.cell.memory is not None
    assert x.uop.shape == (4, 4)
    assert x.content.cell.memory is None
    assert x.uop is x.uop
    assert x.is_realized


def test_results_are_ordinary_tensors() -> None:
    step, (x, a), (y, b) = jit(add_both), make(1), make(2)

    def new() -> Tensor:
        return step(x, y)

    assert new().numpy().tolist() == (a + b).tolist()
    assert (new().T + 1).numpy().tolist() == ((a + b).T + 1).tolist()
    written = new()
    view = written[1:3]
    written[1] = 7
    assert view.numpy().tolist() == [[7] * 4, (a + b)[2].tolist()]
    assert step(written, y).numpy()[1].tolist() == (7 + b[1]).tolist()
    copy = new().clone()
    assert copy.numpy().tolist() == (a + b).tolist()
    assert "lazy" not in repr(new())


def test_a_result_is_the_same_node_for_all_threads() -> None:
    step, (x, _), (y, _) = jit(add_both), make(1), make(2)
    for _ in range(10):
        z = step(x, y)
        nodes: list[UOp] = []
        run_in_threads(*[lambda z=z, nodes=nodes: nodes.append(z.uop)] * 4, switching_often=True)
        assert len(nodes) == 4
        assert len(set(nodes)) == 1


def test_a_captured_result_is_read_and_written_in_place() -> None:
    step, (x, a), (y, b) = jit(add_both), make(1), make(2)
    held = step(x, y)

    @jit
    def use(v: Tensor) -> Tensor:
        held.assign(held + v.T)
        return held * 2

    expected = a + b
    for value, array in ((x, a), (y, b), (held, expected)):
        expected = expected + array.T if value is not held else expected + expected.T
        assert use(value).numpy().tolist() == (expected * 2).tolist()
        assert held.numpy().tolist() == expected.tolist()


def test_a_result_can_be_donated() -> None:
    step, (x, a), (y, b) = jit(add_both), make(1), make(2)
    take = jit(lambda v: v * 3, donate=0)
    z = step(x, y)
    assert take(z).numpy().tolist() == ((a + b) * 3).tolist()
    with pytest.raises(DonatedTensorError):
        step(z, y)
    with pytest.raises(DonatedTensorError):
        _ = z.uop


def test_a_chain_of_donated_results_gets_no_nodes_and_no_memory() -> None:
    step, (x, a), (y, b) = jit(lambda x, y: (x * 0.5, x + y), donate="x"), make(1), make(2)

    def take() -> None:
        nonlocal x, a
        kept, x = step(x, y)
        a, expected = a + b, a * 0.5
        assert kept.numpy().tolist() == expected.tolist()

    take()
    take()
    old = x
    gc.collect()
    before = count_interned(), count_used_bytes()
    for _ in range(5):
        x, last = step(x, y)[1], x
        a = a + b
        with pytest.raises(DonatedTensorError):
            step(last, y)
        with pytest.raises(DonatedTensorError):
            last.numpy()
    del last
    gc.collect()
    # Garbage of other tests may leave meanwhile.
    assert count_interned() <= before[0]
    assert count_used_bytes() <= before[1]
    assert x.numpy().tolist() == a.tolist()
    with pytest.raises(DonatedTensorError):
        old.numpy()


@pytest.mark.parametrize("is_known", [False, True])
def test_an_argument_is_donated_once(is_known: bool) -> None:
    step, (x, _), (y, b) = jit(add_both, donate="x"), make(1), make(2)
    made = jit(add_both)(x, y)
    if is_known:
        _ = made.uop
    with pytest.raises(DonationError):
        step(made, made)
    expected = made.numpy() + b
    assert step(made, y).numpy().tolist() == expected.tolist()


def test_one_of_several_threads_donates_a_result() -> None:
    step, plain, (x, a), (y, b) = jit(add_both, donate="x"), jit(add_both), make(1), make(2)
    step(plain(x, y), y)
    for _ in range(10):
        made, found = plain(x, y), list[Tensor]()

        def give(made: Tensor = made, found: list[Tensor] = found) -> None:
            with contextlib.suppress(DonatedTensorError):
                found.append(step(made, y))

        run_in_threads(*[give] * 3, switching_often=True)
        assert [z.numpy().tolist() for z in found] == [(a + b + b).tolist()]


def test_a_function_holds_no_reference_to_its_results() -> None:
    step = jit(lambda x: x + 1)
    x = Tensor(np.zeros(1 << 18, np.float32)).clone().realize()
    gc.collect()
    before = count_used_bytes()
    y = step(x)
    gc.collect()
    assert count_used_bytes() == before + (1 << 20)
    for _ in range(3):
        y = step(y)
        assert count_used_bytes() == before + (1 << 20)
    del y
    assert count_used_bytes() == before


def test_a_large_result_reuses_freed_pages_until_caches_are_cleared() -> None:
    step = jit(lambda x: x + 1)
    x = Tensor(np.zeros(1 << 20, np.float32)).clone().realize()
    y = step(x)
    address = y.buffer().address
    del y
    gc.collect()
    y = step(x)
    assert y.buffer().address == address
    kept = step(x)
    assert kept.buffer().address != address
    del y
    gc.collect()
    allocator = cast("CachingAllocator", get_allocator("CPU"))
    assert allocator.cached_bytes >= 4 << 20
    clear_caches()
    assert allocator.cached_bytes == 0
    assert kept.numpy().tolist() == [1] * (1 << 20)


def count_used_bytes() -> int:
    return cast("CachingAllocator", get_allocator("CPU")).in_use_bytes


FLIPS: dict[str, Callable[[object], object]] = {
    "transposed": lambda x: x.T,
    "backwards": lambda x: x[::-1],
    "same": lambda x: x,
}


@settings(max_examples=count_examples(60), deadline=None)
@given(data=st.data())
def test_random_chains_of_calls_on_tensors_that_share_memory_agree_with_numpy(
    data: st.DataObject,
) -> None:
    add, two, write = FUNCTIONS
    pool = [make(seed) for seed in range(3)]

    def pick() -> Entry:
        return pool[data.draw(st.integers(0, len(pool) - 1))]

    kinds = st.sampled_from(
        ["add", "chain", "two", "write", "give", "view", "assign", "lazy", "read"]
    )
    for kind in data.draw(st.lists(kinds, min_size=2, max_size=14)):
        (x, a), (y, b) = pick(), pick()
        match kind:
            case "add":
                pool.append((add(x, y), a + b))
            case "chain":
                z, c = x, a
                for _ in range(4):
                    z, c = add(z, y), c + b
                pool.append((z, c))
            case "two":
                z, v = two(x, y)
                pool += [(z, a * 2), (v, a - b)]
            case "write":
                z = write(x, y)
                a[...] = a * 0.5 + b
                pool.append((z, a + 1))
            case "give":
                if a.base is None and not any(
                    np.shares_memory(a, other) for _, other in pool if other is not a
                ):
                    pool = [entry for entry in pool if entry[1] is not a] or [make(9)]
                    (y, b) = pool[0]
                    pool.append((GIVE(x, y), a - b))
            case "view":
                flip = FLIPS[data.draw(st.sampled_from(sorted(FLIPS)))]
                pool.append((flip(x), flip(a)))
            case "assign":
                x.assign(y)
                a[...] = b.copy()
            case "lazy":
                pool.append((x - y, a - b))
            case _:
                assert x.numpy().tolist() == a.tolist()
    for x, a in pool:
        assert x.numpy().tolist() == a.tolist()


FUNCTIONS = jit(add_both), jit(double_and_subtract), jit(accumulate)
GIVE = jit(lambda x, y: x - y, donate=0)


def test_the_shape_of_a_result_is_known_without_a_node() -> None:
    f = jit(lambda x: x + 1)
    x = Tensor([[1.0, 2.0]]).realize()
    for _ in range(3):
        y = f(x)
    assert (y.shape, y.dtype) == ((1, 2), float32)
    assert isinstance(y.content, Cell)
    assert y.content.memory is not None
    y += 1
    assert (y.shape, y.T.shape, y.tolist()) == ((1, 2), (2, 1), [[3.0, 4.0]])
