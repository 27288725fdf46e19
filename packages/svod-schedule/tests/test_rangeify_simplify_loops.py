"""Loops and choices keep their meaning when they are simplified, and nothing is left to simplify."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from svod_ir import UOp, print_graph, verify
from svod_ir.testing import assert_same, count_examples, loops
from svod_schedule.rangeify.simplify_loops import simplify_loops


@pytest.mark.parametrize("limit", [0, 64, 2000])
@settings(max_examples=count_examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=loops())
def test_random_loops_keep_their_meaning(limit: int, graph: UOp) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("svod_schedule.rangeify.simplify_loops.MAX_UNROLLED_NODES", limit)
        simpler = simplify_loops(graph)
        verify(simpler, "graph")
        assert_same(graph, simpler)
        assert simplify_loops(simpler) is simpler, print_graph(simpler)
