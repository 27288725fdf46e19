"""Every random program gives what the reference evaluation gives, however it is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from svod_device import Buffer
from svod_ir import BufferArg, Op, UOp
from svod_ir.evaluate import evaluate
from svod_ir.testing import assert_close, graphs, random_inputs, tolerance
from svod_tensor import Tensor, registry
from svod_tensor.options import PrepareConfig

CONFIGS = {
    "heuristics": PrepareConfig(),
    "no opts": PrepareConfig(opts=()),
    "remap": PrepareConfig(memory_planner="remap"),
    "own memory": PrepareConfig(memory_planner="disabled"),
    "no schedule cache": PrepareConfig(disable_schedule_cache=True),
}


@contextmanager
def tensor_of(graph: UOp, inputs: dict[UOp, np.ndarray]) -> Iterator[Tensor]:
    """A tensor with this graph, on buffers that hold the inputs."""
    replacements: dict[UOp, UOp] = {}
    for node, array in inputs.items():
        arg = BufferArg(registry.make_buffer_id(), node.arg.size, node.arg.device)
        fresh = UOp(Op.BUFFER, node.dtype, (), arg)
        registry.add_buffer(fresh, Buffer.from_host(array.view(np.uint8), node.dtype))
        replacements[node] = fresh
    yield Tensor.from_uop(graph.substitute(replacements))


def check(graph: UOp, config: PrepareConfig) -> None:
    inputs = random_inputs(graph)
    expected = evaluate(graph, {node: array.copy() for node, array in inputs.items()})
    with tensor_of(graph, inputs) as tensor:
        found = tensor.realize_with(config).numpy()
    assert found.shape == expected.shape
    assert_close(found, expected, loose=tolerance(graph))


@pytest.mark.parametrize("name", CONFIGS)
def test_random_programs_agree_with_the_reference(name: str) -> None:
    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(graphs())
    def run(graph: UOp) -> None:
        check(graph, CONFIGS[name])

    run()
