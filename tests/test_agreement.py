"""Every random program agrees with the reference evaluation, however it is compiled."""

from __future__ import annotations

import shutil

import pytest
from hypothesis import HealthCheck, given, settings

from svod_ir import UOp
from svod_ir.evaluate import evaluate
from svod_ir.testing import assert_close, count_examples, graphs, random_inputs, tolerance
from svod_tensor import PrepareConfig
from svod_testing import place_graph

CONFIGS = {
    "heuristics": PrepareConfig(),
    "no opts": PrepareConfig(opts=()),
    "remap": PrepareConfig(memory_planner="remap"),
    "own memory": PrepareConfig(memory_planner="disabled"),
    "no schedule cache": PrepareConfig(disable_schedule_cache=True),
}


def check(graph: UOp, config: PrepareConfig) -> None:
    inputs = random_inputs(graph)
    expected = evaluate(graph, {node: array.copy() for node, array in inputs.items()})
    found = place_graph(graph, inputs).realize_with(config).numpy()
    assert found.shape == expected.shape
    assert_close(found, expected, loose=tolerance(graph))


if any(map(shutil.which, ("cc", "gcc", "clang"))):
    CONFIGS["C"] = PrepareConfig(backend="c")


@pytest.mark.parametrize("name", CONFIGS)
def test_random_programs_agree_with_the_reference(name: str) -> None:
    @settings(
        max_examples=count_examples(40), deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(graphs())
    def run(graph: UOp) -> None:
        check(graph, CONFIGS[name])

    run()
