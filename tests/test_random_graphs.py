"""Random tensor programs on the CPU agree with the reference evaluation.

`test_agreement` compares the configurations on a few programs. This module runs many (a thousand
with the profile `thorough`), several in one computation, so that they share kernels, memory and
plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_ir import UOp, print_graph
from svod_ir.evaluate import evaluate
from svod_ir.testing import assert_close, count_examples, graphs, random_inputs, tolerance
from svod_schedule.optimize.heuristics import constants
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.engine.caches import KERNELS
from svod_testing import place_graph

N_PARTS = 5
N_BATCHES = 10
BATCH = st.lists(graphs(max_ops=8, max_elements=200), min_size=5, max_size=5)
"""Number of programs in each of the four modes is N_PARTS * N_BATCHES * 5; a thousand if thorough.
"""

MODES = {
    "no opts": (PrepareConfig(opts=()), 1 << 15),
    "one thread": (PrepareConfig(), 1 << 62),
    "all threads": (PrepareConfig(), 1),
    "own memory": (PrepareConfig(memory_planner="disabled"), 1 << 15),
}
"""Configuration, and the minimum work at which a kernel is split over threads."""


@pytest.fixture(params=MODES)
def config(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PrepareConfig]:
    found, least_work = MODES[request.param]
    monkeypatch.setattr(constants, "MIN_THREADED_WORK", least_work)
    KERNELS.clear()
    yield found
    KERNELS.clear()


def check(batch: Sequence[UOp], config: PrepareConfig) -> None:
    inputs = [random_inputs(graph, seed=number) for number, graph in enumerate(batch)]
    tensors = [place_graph(graph, arrays) for graph, arrays in zip(batch, inputs, strict=True)]
    Tensor.realize_batch_with(tensors, config)
    for graph, arrays, tensor in zip(batch, inputs, tensors, strict=True):
        expected = evaluate(graph, {node: array.copy() for node, array in arrays.items()})
        found = tensor.numpy()
        assert found.shape == expected.shape, print_graph(graph)
        assert_close(
            found, expected, loose=tolerance(graph), what=f"the value of\n{print_graph(graph)}"
        )


@pytest.mark.parametrize("part", range(N_PARTS))
def test_programs_computed_together_agree_with_the_reference(
    part: int, config: PrepareConfig
) -> None:
    @settings(
        max_examples=count_examples(N_BATCHES),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(BATCH)
    def run(batch: list[UOp]) -> None:
        check(batch, config)

    run()
