"""Sizes that are known when a kernel runs, through all pipelines, against the evaluation of the
graph.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from svod_dtype import int32
from svod_ir import (
    BufferArg,
    Op,
    Target,
    UOp,
    make_alu,
    make_expand,
    make_iota,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_shrink,
)
from svod_ir.evaluate import evaluate, evaluate_linear
from svod_ir.testing import assert_close, nodes, random_inputs, tolerance
from svod_ir.testing.nodes import contiguous
from svod_ir.testing.programs import fit, matmul, reduce, softmax, tensor
from svod_schedule.pipeline import Context, compile_kernel, run_pipeline

N = UOp.variable("n", 1, 20)
M = UOp.variable("m", 0, 6)
LONG = UOp.variable("n", 16, 20)

ROWS = make_shrink(tensor(1, 20, 8), [(0, N), (0, 8)])
"""The first n rows."""
COLUMNS = make_shrink(tensor(1, 8, 20), [(0, 8), (0, N)])
"""The first n columns."""

PROGRAMS: dict[str, Callable[[], UOp]] = {
    "elementwise": lambda: ROWS * 2 + make_shrink(tensor(2, 20, 8), [(0, N), (0, 8)]),
    "elementwise with a broadcast row": lambda: (
        ROWS + make_expand(make_reshape(tensor(2, 8), (1, 8)), (N, 8))
    ),
    "a size used as a number": lambda: ROWS / fit(N.cast(ROWS.dtype), ROWS.shape),
    "rows from a variable place": lambda: make_shrink(tensor(1, 20, 8), [(M, M + 4), (0, 8)]) * 2,
    "rows from one variable place to another": lambda: (
        make_shrink(tensor(1, 30, 8), [(M, M + N), (0, 8)]) * 2
    ),
    "the sum of each row": lambda: reduce(COLUMNS, 1),
    "the sum of each column": lambda: reduce(ROWS, 0),
    "the maximum of all": lambda: make_reduce_axis(ROWS, Op.MAX, [0, 1]),
    "softmax of rows": lambda: softmax(ROWS),
    "softmax along a size that varies": lambda: softmax(COLUMNS),
    "a matmul of varying rows": lambda: matmul(ROWS, tensor(2, 8, 16)),
    "a matmul along a size that varies": lambda: matmul(
        COLUMNS, make_shrink(tensor(2, 20, 16), [(0, N), (0, 16)])
    ),
    "a transposition": lambda: make_permute(ROWS, (1, 0)) * 2,
    "axes joined": lambda: make_reshape(ROWS, (N * 8,)) + 1,
    "an axis split off": lambda: make_reshape(ROWS, (N, 2, 4)) + 1,
    "axes joined and split another way": lambda: (
        make_reshape(make_reshape(ROWS, (N * 8,)), (2, N * 4)) * 2
    ),
    "a padding that varies": lambda: make_pad(tensor(1, 3, 8), [(M, 1), (0, 2)]) + 1,
    "a varying tensor padded": lambda: make_pad(ROWS, [(2, 1), (0, 0)]) + 1,
    "padded to a constant size": lambda: (
        make_pad(ROWS, [(0, UOp.const(N.dtype, 20) - N), (0, 0)]) * 2
    ),
    "the sum of a padded row": lambda: reduce(make_pad(COLUMNS, [(0, 0), (M, 1)]), 1),
    "counting": lambda: make_iota(N, int32) * 3,
    "a running sum": lambda: make_scan_axis(ROWS, Op.ADD, 0),
    "a running sum along rows": lambda: make_scan_axis(COLUMNS, Op.ADD, 1),
    "a size that is never short": lambda: (
        make_shrink(tensor(1, 20, 20), [(0, LONG), (0, LONG)]) * 2
    ),
    "a comparison with the size": lambda: make_alu(
        Op.LT, make_iota(N, int32), fit((N - 3).cast(int32), (N,))
    ).cast(int32),
}

CONTEXTS = {
    "without opts": Context(opts=()),
    "with heuristics": Context(target=Target.generic(cores=2)),
}


def bind(graph: UOp, **values: int) -> UOp:
    """`graph` with each variable bound to its value, as a program that a user runs."""
    variables = {v for v in graph.iter_ops(Op.DEFINE_VAR) if v.arg[0] in values}
    return graph.substitute(
        {v: nodes.bind(v, UOp.const(v.dtype, values[v.arg[0]])) for v in variables}
    )


def run(
    kernels: UOp, memory: dict[UOp, np.ndarray], values: dict[str, int], context: Context
) -> np.ndarray:
    """The memory of the one result, after all kernels have run in order."""
    bodies = {call.src[0] for call in kernels.iter_ops(Op.CALL)}
    for filled in kernels.toposort(stop=bodies):
        if filled.op is not Op.AFTER:
            continue
        buffer, call = filled.src
        memory[buffer] = np.full(buffer.arg.size, 77, buffer.dtype.numpy)
        body, *arguments = call.src
        _, linear = compile_kernel(body, context)
        places = [a.src[0] if a.op is Op.AFTER else a for a in arguments if a.op is not Op.BIND]
        evaluate_linear(linear, {slot: memory[place] for slot, place in enumerate(places)}, values)
    return memory[kernels.src[0].src[0]]


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_compilation_serves_every_value_of_a_variable(program: str, context: str) -> None:
    graph = PROGRAMS[program]()
    sink = UOp.sink(contiguous(graph))
    low = 16 if LONG in graph.toposort() else 1
    kernels: set[UOp] = set()
    for n, m in ((low, 0), (low + 1, 6), (17, 3), (20, 1)):
        values = {"n": n, "m": m}
        chosen = CONTEXTS[context]
        made = run_pipeline(
            "kernelize", run_pipeline("rangeify", bind(sink, **values), chosen), chosen
        )
        kernels.update(call.src[0] for call in made.iter_ops(Op.CALL))
        inputs = {
            node: array for node, array in random_inputs(graph).items() if node.op is Op.BUFFER
        }
        expected = evaluate(graph, {**{k: v.copy() for k, v in inputs.items()}, **values})
        found = run(made, dict(inputs), values, chosen)
        assert_close(found, expected, loose=tolerance(graph), what=f"n = {n}, m = {m}: the value")
    assert len(kernels) == len(list(made.iter_ops(Op.CALL)))


def test_the_memory_of_a_varying_size_has_room_for_the_largest() -> None:
    graph = UOp.sink(bind(ROWS * 2, n=3))
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", graph, Context()), Context())
    (filled,) = kernels.src
    assert isinstance(filled.src[0].arg, BufferArg)
    assert filled.src[0].arg.size == 160


def test_a_bound_value_is_an_argument_of_the_call_and_no_part_of_the_kernel() -> None:
    graph = UOp.sink(bind(ROWS * 2, n=3))
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", graph, Context()), Context())
    (call,) = kernels.iter_ops(Op.CALL)
    assert [a.src[1].arg for a in call.src if a.op is Op.BIND] == [3]
    assert not list(call.src[0].iter_ops(Op.BIND))
    assert [v.arg[0] for v in call.src[0].iter_ops(Op.DEFINE_VAR)] == ["n"]


def test_a_window_of_constant_size_at_a_variable_offset_has_a_constant_shape() -> None:
    assert make_shrink(tensor(1, 20, 8), [(M, M + 4), (0, 8)]).shape == (4, 8)
    assert make_shrink(tensor(1, 30, 8), [(M, M + N), (0, 8)]).shape == (N, 8)


def test_a_size_that_turns_out_to_be_constant_has_one_loop() -> None:
    graph = make_pad(ROWS, [(0, UOp.const(N.dtype, 20) - N), (0, 0)]) * 2
    ranged = run_pipeline("rangeify", UOp.sink(graph), Context())
    assert sorted(r.src[0].arg for r in ranged.iter_ops(Op.RANGE)) == [8, 20]
