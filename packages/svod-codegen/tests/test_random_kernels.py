"""Random graphs mean on this machine what the evaluator says that they mean."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, reduce
from math import prod
from operator import add

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from svod_codegen._loader import LoadedCode, load_object
from svod_codegen.llvm.compiler import compile_ir
from svod_codegen.llvm.renderer import render
from svod_codegen.llvm.target import host_target
from svod_dtype import DType
from svod_ir import (
    Op,
    UOp,
    make_alu,
    make_expand,
    make_pad,
    make_reduce_axis,
    make_scan_axis,
    make_shrink,
)
from svod_ir.evaluate import evaluate
from svod_ir.testing import assert_close, count_examples, graphs, random_inputs, tolerance
from svod_ir.testing.programs import attention, layernorm, softmax, tensor
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import Context, run_pipeline

HOST = host_target()
MANY = 20
"""More than the reductions that a kernel fuses."""

TARGETS = {
    "host": replace(HOST, cores=2),
    "narrow": replace(HOST, cores=1, vector_bits=128, has_gather=False),
    "wide": replace(HOST, cores=3, vector_bits=512, vector_registers=32),
}


@lru_cache(maxsize=64)
def load(text: str) -> LoadedCode:
    """The code of a kernel; the equal kernels of a repetition are compiled once."""
    return load_object(compile_ir(text), ("kernel",))


def launch(kernel: UOp, arrays: list[np.ndarray], context: Context) -> None:
    lowered = run_pipeline("lower", run_pipeline("optimize", kernel, context), context)
    linear = linearize(lowered)
    code = load(render(linear, "kernel", context.target))
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        code.addresses["kernel"]
    )
    slots = sorted({n.arg.slot for n in linear if n.op is Op.PARAM})
    buffers = (ctypes.c_void_p * max(1, len(slots)))(*[arrays[slot].ctypes.data for slot in slots])
    n_parts = next(
        (n.arg[2] + 1 for n in linear if n.op is Op.DEFINE_VAR and n.arg[0] == "core_id"), 1
    )
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


def make_kernels(graph: UOp, context: Context) -> UOp:
    return run_pipeline("kernelize", run_pipeline("rangeify", UOp.sink(graph), context), context)


def check_run(graph: UOp, kernels: UOp, context: Context) -> None:
    inputs = random_inputs(graph)
    memory = {node: value for node, value in inputs.items() if node.op is Op.BUFFER}
    for call in kernels.iter_ops(Op.CALL):
        buffers = [buffer_below(argument) for argument in call.src[1:]]
        for buffer in buffers:
            if buffer not in memory:
                memory[buffer] = aligned(buffer.arg.size, buffer.dtype)
        launch(call.src[0], [memory[b] for b in buffers], context)
    (result,) = kernels.src
    found = memory[buffer_below(result)]
    expected = evaluate(
        graph, {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in inputs.items()}
    )
    assert_close(found[: expected.size], expected, loose=tolerance(graph))


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=count_examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs(max_elements=300), is_optimized=st.booleans())
def test_a_random_graph_runs_as_the_evaluator_says(
    target: str, graph: UOp, is_optimized: bool
) -> None:
    assume(0 not in graph.shape)
    context = Context(target=TARGETS[target], opts=None if is_optimized else ())
    kernels = make_kernels(graph, context)
    assume(all(c.src[0].op is Op.SINK for c in kernels.iter_ops(Op.CALL)))
    check_run(graph, kernels, context)


def centre(x: UOp, *axes: int) -> UOp:
    n_elements = prod(x.shape[a] for a in axes)
    return x - make_expand(make_reduce_axis(x, Op.ADD, axes) * (1 / n_elements), x.shape)


def repeat(step: Callable[[UOp], UOp], x: UOp) -> UOp:
    for _ in range(MANY):
        x = step(x)
    return x


def sum_exponentials(x: UOp, *axes: int) -> UOp:
    """The sums of as many functions of the same elements, added up."""
    sums = (make_reduce_axis(make_alu(Op.EXP2, x * (i / MANY)), Op.ADD, axes) for i in range(MANY))
    return reduce(add, sums)


def concat_elements(x: UOp) -> UOp:
    """The elements of a vector, each by itself, concatenated in reverse."""
    (size,) = x.shape
    pieces = (make_pad(make_shrink(x, ((i, i + 1),)), ((size - 1 - i, i),)) for i in range(size))
    return reduce(add, pieces)


X = tensor(1, 12, 6, 10)
MANY_REDUCTIONS = {
    "centred rows": lambda: repeat(lambda x: centre(x, 2) * 1.5, X),
    "centred planes": lambda: repeat(lambda x: centre(x, 1, 2) * 1.5, X),
    "centred alternately": lambda: repeat(lambda x: centre(centre(x, 2), 0) * 1.5, X),
    "centred columns": lambda: repeat(lambda x: centre(x, 0) * 1.5, X),
    "centred as a whole": lambda: repeat(lambda x: centre(x, 0, 1, 2) * 1.5, X),
    "softmax": lambda: repeat(softmax, tensor(1, 12, 10)),
    "layer normalization": lambda: repeat(
        lambda x: layernorm(x, tensor(2, 10), tensor(3, 10)), tensor(1, 12, 10)
    ),
    "attention": lambda: repeat(
        lambda x: attention(x, tensor(2, 2, 6, 8), tensor(3, 2, 6, 8)), tensor(1, 2, 6, 8)
    ),
    "sums of rows": lambda: sum_exponentials(X, 2),
    "sums over all": lambda: sum_exponentials(X, 0, 1, 2),
    "a row less its sums": lambda: X - make_expand(sum_exponentials(X, 2), X.shape),
    "a running sum of sums": lambda: make_scan_axis(sum_exponentials(X, 1, 2), Op.ADD, 0),
    "concatenated elements": lambda: concat_elements(tensor(1, 21)),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("program", MANY_REDUCTIONS)
def test_more_reductions_than_a_kernel_has_run_as_the_evaluator_says(
    target: str, program: str
) -> None:
    graph, context = MANY_REDUCTIONS[program](), Context(target=TARGETS[target])
    check_run(graph, make_kernels(graph, context), context)
