"""What a process that computes ever new graphs keeps: as much as its caches may hold, and nothing
else.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
import pytest

from svod_device import clear as clear_devices
from svod_ir.origins import get_origins
from svod_ir.uop import count_interned
from svod_tensor import Tensor, jit, track_origins
from svod_tensor.cells import registry
from svod_tensor.engine import caches, size_history
from svod_tensor.engine.caches import KERNELS, SCHEDULES

N_GRAPHS = 6

_constants = count(1)


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Caches that are full after a few graphs, and devices that are made anew after each run."""
    monkeypatch.setattr(caches, "MAX_SCHEDULES", 4)
    monkeypatch.setattr(caches, "MAX_TEMPLATES", 4)
    monkeypatch.setattr(caches, "MAX_BINARIES", 4)
    monkeypatch.setattr(size_history, "MAX_OUTLINES", 4)
    monkeypatch.setenv("SVOD_OPT_CACHE_MAX", "4")
    yield
    clear_devices()


def compute_new_graph() -> None:
    number = next(_constants)
    x = Tensor(np.arange(3 + number % 3, dtype=np.float32))
    assert (x * float(number) + 1).sum().item() == np.float32((x.numpy() * number + 1).sum())


def count_after(work: Callable[[], object]) -> np.ndarray:
    """Nodes, tensors and tracked objects that are alive after some work."""
    work()
    clear_devices()
    gc.collect()
    tensors = sum(1 for _ in registry.iter_live())
    return np.array([count_interned(), tensors, len(gc.get_objects())])


def check_that_nothing_piles_up(work: Callable[[], object]) -> None:
    """Fails if the counts grow in each of three turns: what a module makes at its first use, it
    makes once.
    """
    work()
    counts = np.array([count_after(work) for _ in range(4)])
    nodes, tensors, objects = np.diff(counts, axis=0).min(axis=0)
    # What the caches hold differs a little from graph to graph; a graph and its kernels have some
    # 60 nodes.
    assert nodes < 10 * N_GRAPHS
    assert tensors == 0
    assert objects <= 100 * N_GRAPHS


def test_new_graphs_leak_no_memory() -> None:
    check_that_nothing_piles_up(lambda: [compute_new_graph() for _ in range(N_GRAPHS)])


def test_new_graphs_of_several_threads_leak_no_memory() -> None:
    def work() -> None:
        threads = [
            threading.Thread(target=lambda: [compute_new_graph() for _ in range(N_GRAPHS // 3)])
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    check_that_nothing_piles_up(work)


def test_repeated_writes_leak_no_memory() -> None:
    x = Tensor(np.arange(4, dtype=np.float32)).clone().realize()
    # What is captured names the memory as it was called then.
    held = jit(lambda y: (x * 1, x + y))
    held(Tensor(np.ones(4, np.float32)))

    def write() -> None:
        for _ in range(50 * N_GRAPHS):
            copy = x * 1
            x.assign(x + 1).realize()
            del copy

    check_that_nothing_piles_up(write)


def test_tracked_graphs_leak_no_memory() -> None:
    def work() -> None:
        with track_origins():
            for _ in range(N_GRAPHS):
                compute_new_graph()

    check_that_nothing_piles_up(work)
    y = Tensor([1.0]) + 1
    assert get_origins(y.uop) == frozenset()


def test_captured_functions_leak_no_memory() -> None:
    def work() -> None:
        for _ in range(N_GRAPHS):
            number = float(next(_constants))
            double = jit(lambda x, number=number: x * number)
            assert double(Tensor([2.0])).tolist() == double(Tensor([2.0])).tolist() == [2 * number]

    check_that_nothing_piles_up(work)


def test_the_caches_keep_no_more_than_they_may() -> None:
    for _ in range(N_GRAPHS):
        compute_new_graph()
    assert SCHEDULES.counts().entries == 4
    assert KERNELS.counts().entries == 4
