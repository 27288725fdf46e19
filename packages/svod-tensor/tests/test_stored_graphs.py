"""Kernel graphs on disk: a later process runs no passes over a graph, and only what they look at
decides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from svod_codegen.disk_store import get_disk_store
from svod_codegen.kernel_store import get_kernel_store
from svod_ir import IROptions
from svod_ir.options import PassSelector
from svod_schedule.pipeline import PIPELINES
from svod_tensor import PrepareConfig, Tensor, caches, clear_caches, fori_loop, grad, track_origins
from svod_tensor.engine import compute
from svod_tensor.engine.build import build
from svod_tensor.engine.kernels import make_graph_context
from svod_tensor.engine.observe import observing
from svod_tensor.engine.stored_graphs import find_stored_graph, store_graph

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("own_stores")


@pytest.fixture(autouse=True)
def _with_stores(own_stores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVOD_KERNEL_STORE", "1")
    clear_caches()


@pytest.fixture
def ranged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each graph that the passes run over."""
    found: list[int] = []
    rangeify = compute.rangeify
    monkeypatch.setattr(compute, "rangeify", lambda *args: found.append(1) or rangeify(*args))
    return found


def _as_later_process(compute: Callable[[], Tensor], config: PrepareConfig | None = None) -> bytes:
    clear_caches()
    return compute().realize_with(config).numpy().tobytes()


def _loss(x: Tensor) -> Tensor:
    y = fori_loop(0, 3, lambda _, c: (c @ x).tanh(), x)
    return (y.softmax(-1) * x).sum() + x[::2].max()


def _compute() -> Tensor:
    return grad(_loss)(Tensor(np.arange(9.0).reshape(3, 3) / 7))


def test_a_later_process_runs_no_passes_over_an_equal_graph_and_computes_the_same_bits(
    ranged: list[int],
) -> None:
    first = _as_later_process(_compute)
    n_first = len(ranged)
    assert n_first > 0
    assert caches()["stored_graph"].entries == n_first
    assert _as_later_process(_compute) == first
    assert len(ranged) == n_first
    assert caches()["stored_graph"].hits == n_first


def test_a_stored_graph_is_read_back_identically(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build([_compute().uop])
    config = PrepareConfig.from_env()
    context = make_graph_context(graph.devices, config)
    kernels = compute.kernelize(compute.rangeify(graph.sink, context), context)
    assert find_stored_graph(graph, context, config, None) is None
    store_graph(graph, context, config, kernels, None)
    assert find_stored_graph(graph, context, config, None) is kernels
    # Another target may have other kernels, and other code of the compiler makes others.
    other = replace(context, targets={}, target=replace(context.target, max_buffers=3))
    assert find_stored_graph(graph, other, config, None) is None
    with monkeypatch.context() as patch:
        patch.setattr("svod_tensor.engine.stored_graphs.fingerprint_code", lambda: "another state")
        assert find_stored_graph(graph, context, config, None) is None


def test_observed_computations_run_the_passes() -> None:
    graph = build([_compute().uop])
    config = PrepareConfig.from_env()
    context = make_graph_context(graph.devices, config)
    kernels = compute.kernelize(compute.rangeify(graph.sink, context), context)
    store_graph(graph, context, config, kernels, None)
    assert find_stored_graph(graph, context, config, None) is not None
    some = PassSelector((("rangeify", "range-values"),))
    for options in (IROptions(check=True), IROptions(dump=some), IROptions(stop_after=some)):
        assert find_stored_graph(graph, replace(context, options=options), config, None) is None
    assert (
        find_stored_graph(graph, context, replace(config, disable_schedule_cache=True), None)
        is None
    )
    own = PIPELINES.without_pass("kernelize", "join-kernels")
    assert find_stored_graph(graph, context, replace(config, passes=own), None) is None
    with observing(lambda *_: None):
        assert find_stored_graph(graph, context, config, None) is None


def test_stored_graphs_get_origins_on_demand(ranged: list[int]) -> None:
    _as_later_process(_compute)
    n_before = len(ranged)
    clear_caches()
    with track_origins():
        plan = _compute().prepare()
    assert len(ranged) > n_before
    assert all(kernel.origins for kernel in plan.kernels())
    # They are stored with the graph.
    n_before = len(ranged)
    clear_caches()
    with track_origins():
        again = _compute().prepare()
    assert len(ranged) == n_before
    assert [kernel.origins for kernel in again.kernels()] == [
        kernel.origins for kernel in plan.kernels()
    ]


@pytest.mark.parametrize("content", [b"", b"no graph", b"\xff\xfe"])
def test_an_invalid_file_is_a_miss_and_is_rewritten(content: bytes, ranged: list[int]) -> None:
    first = _as_later_process(_compute)
    n_first = len(ranged)
    store = get_disk_store("graphs")
    for key, _ in list(store.iter_entries()):
        store.put(key, content)
    assert _as_later_process(_compute) == first
    assert len(ranged) == 2 * n_first
    assert _as_later_process(_compute) == first
    assert len(ranged) == 2 * n_first


def test_graphs_are_not_stored_if_kernels_are_not(
    monkeypatch: pytest.MonkeyPatch, ranged: list[int]
) -> None:
    monkeypatch.setenv("SVOD_KERNEL_STORE", "0")
    get_kernel_store.cache_clear()
    first = _as_later_process(_compute)
    assert _as_later_process(_compute) == first
    assert len(ranged) == 2
    assert caches()["stored_graph"].entries == 0
