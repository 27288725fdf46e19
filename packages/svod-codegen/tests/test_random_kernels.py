"""Random graphs mean on this machine what the evaluator says that they mean."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from svod_codegen._loader import load_object
from svod_codegen.llvm.compiler import compile_ir
from svod_codegen.llvm.renderer import render
from svod_codegen.llvm.target import host_target
from svod_dtype import DType
from svod_ir import Op, UOp
from svod_ir.evaluate import evaluate
from svod_ir.testing import assert_close, count_examples, graphs, random_inputs, tolerance
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import Context, run_pipeline

HOST = host_target()
TARGETS = {
    "host": replace(HOST, cores=2),
    "narrow": replace(HOST, cores=1, vector_bits=128, has_gather=False),
    "wide": replace(HOST, cores=3, vector_bits=512, vector_registers=32),
}


def launch(kernel: UOp, arrays: list[np.ndarray], context: Context) -> None:
    lowered = run_pipeline("lower", run_pipeline("optimize", kernel, context), context)
    linear = linearize(lowered)
    code = load_object(compile_ir(render(linear, "kernel", context.target)), ("kernel",))
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.addresses["kernel"])
    slots = sorted({n.arg.slot for n in linear if n.op is Op.PARAM})
    buffers = (ctypes.c_void_p * max(1, len(slots)))(*[arrays[slot].ctypes.data for slot in slots])
    n_parts = next((n.arg[2] + 1 for n in linear if n.op is Op.DEFINE_VAR and n.arg[0] == "core_id"), 1)
    for part in range(n_parts):
        entry(ctypes.addressof(buffers), None, part)


def aligned(size: int, dtype: DType) -> np.ndarray:
    block = np.full(size * dtype.itemsize + 64, 0x5A, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + size * dtype.itemsize].view(dtype.numpy)


def buffer_below(node: UOp) -> UOp:
    while node.op is not Op.BUFFER:
        node = node.src[0]
    return node


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=count_examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs(max_elements=300), is_optimized=st.booleans())
def test_a_random_graph_runs_as_the_evaluator_says(target: str, graph: UOp, is_optimized: bool) -> None:
    assume(0 not in graph.shape)
    context = Context(target=TARGETS[target], opts=None if is_optimized else ())
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", UOp.sink(graph), context), context)
    calls = list(kernels.iter_ops(Op.CALL))
    assume(all(c.src[0].op is Op.SINK for c in calls))
    inputs = random_inputs(graph)
    memory = {node: value for node, value in inputs.items() if node.op is Op.BUFFER}
    for call in calls:
        buffers = [buffer_below(argument) for argument in call.src[1:]]
        for buffer in buffers:
            if buffer not in memory:
                memory[buffer] = aligned(buffer.arg.size, buffer.dtype)
        launch(call.src[0], [memory[b] for b in buffers], context)
    (result,) = kernels.src
    found = memory[buffer_below(result)]
    expected = evaluate(graph, {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in inputs.items()})
    assert_close(found[: expected.size], expected, loose=tolerance(graph))
