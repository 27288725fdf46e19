"""Every pipeline keeps the meaning of random graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svod_ir.ops import Op
from svod_ir.target import Target
from svod_ir.testing import assert_same, graphs
from svod_ir.uop import UOp
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import Context, run_pipeline

TARGETS = {
    "avx2": Target.generic(cores=2),
    "avx512": replace(
        Target.generic(cores=1), vector_bits=512, vector_registers=32, has_masked_access=True, has_gather=True
    ),
    "sse": replace(Target.generic(cores=1), vector_bits=128),
}


def check(what: str, before: UOp, after: UOp | tuple[UOp, ...]) -> None:
    try:
        assert_same(before, after)
    except Exception as error:
        raise AssertionError(f"{what}: {error}") from error


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs(max_elements=64), is_optimized=st.booleans())
def test_each_pipeline_keeps_what_a_random_graph_means(target: str, graph: UOp, is_optimized: bool) -> None:
    context = Context(target=TARGETS[target], opts=None if is_optimized else ())
    if 0 in graph.shape:
        return
    sink = UOp.sink(graph)
    ranged = run_pipeline("rangeify", sink, context)
    check("rangeify", sink, ranged)
    kernels = run_pipeline("kernelize", ranged, context)
    check("kernelize", ranged, kernels)
    for call in kernels.iter_ops(Op.CALL):
        kernel = call.src[0]
        if kernel.op is Op.SINK:
            optimized = run_pipeline("optimize", kernel, context)
            check("optimize", kernel, optimized)
            check("lower", kernel, linearize(run_pipeline("lower", optimized, context)))


def test_a_pipeline_stops_after_the_pass_that_the_options_name() -> None:
    from svod_ir.options import IROptions, PassSelector

    options = IROptions(stop_after=PassSelector.parse("rangeify:mark-results", "SVOD_STOP_AFTER"))
    variable = UOp.sink(UOp.variable("n", 0, 3))
    assert run_pipeline("rangeify", variable, Context(options=options)).src[0].op is Op.CONTIGUOUS
