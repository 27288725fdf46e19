"""Replacement of common reads by variables, and the cost of an evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from svod_dtype import float32, float64, index, int32, int64
from svod_ir import AxisType, Op, UOp, make_reduce_axis, make_reshape, parse_graph
from svod_ir.compare import count_steps, differ_at, find_change, find_difference, hide_reads
from svod_ir.testing import parse_nodes
from svod_ir.testing.nodes import buffer, call, reduce_over, special

X = make_reshape(buffer(1, 12), (3, 4))
KERNEL = """
%out = PARAM f32 [0, 8]
%in = PARAM f32 [1, 32]
%i = RANGE index 8 [0, LOOP]
%j = RANGE index 4 [1, REDUCE]
%sum = REDUCE f32 %in[%i * 4 + %j], %j [ADD]
%stored = STORE %out[%i], %sum + 1.0
%end = END %stored, %i
SINK %end ["kernel"]
"""


def find(root: UOp, op: Op) -> UOp:
    (actual,) = root.iter_ops(op)
    return actual


def test_a_common_reduction_becomes_a_variable() -> None:
    total = find(parse_graph(KERNEL), Op.REDUCE)
    hidden = hide_reads(total + 1.0, 1.0 + total, 100)
    assert hidden is not None
    assert all(
        {n.op for n in side.toposort()} == {Op.ADD, Op.CONST, Op.DEFINE_VAR} for side in hidden
    )
    assert find_difference(*hidden, seed=0, n_samples=64, roundings=4) is None


def test_a_reduction_on_only_one_side_stays() -> None:
    total = find(parse_graph(KERNEL), Op.REDUCE)
    doubled = total.with_src((total.src[0] * 2.0, total.src[1]))
    hidden = hide_reads(total * 2.0, doubled, 100)
    assert hidden is not None
    (before, after) = hidden
    assert Op.REDUCE in {n.op for n in before.toposort()}
    # The INDEX below the reduction is common to both sides, and becomes a variable.
    assert Op.INDEX not in {n.op for n in after.toposort()}


def test_a_gated_read_stays_since_rules_inspect_it() -> None:
    i = UOp.variable("i", 0, 20)
    gate = i < 12
    read = buffer(1, 12).index(i, gate=gate)
    hidden = hide_reads(UOp(Op.WHERE, float32, (gate, read, UOp.const(float32, 0))), read, 100)
    assert hidden is not None
    assert hidden[1] is read
    assert find_difference(*hidden, seed=0, n_samples=16, roundings=4) is None


def test_common_tensor_reductions_become_buffers() -> None:
    total = make_reduce_axis(X, Op.ADD, (1,))
    hidden = hide_reads(total * 2.0, total + total, 100)
    assert hidden is not None
    assert hidden[0].shape == total.shape
    assert not list(hidden[0].iter_ops(Op.REDUCE_AXIS))
    assert find_difference(*hidden, seed=0, n_samples=4, roundings=4) is None
    wrong = hide_reads(total * 2.0, total + total + 1.0, 100)
    assert wrong is not None
    assert find_difference(*wrong, seed=0, n_samples=4, roundings=4) is not None


def test_expressions_that_are_too_large_are_not_compared() -> None:
    x = UOp.variable("x", 0, 9, int32)
    chain = x
    for n in range(60):
        chain = (chain ^ n) * 3
    assert hide_reads(chain, chain + 0, 100) is None
    assert hide_reads(chain, chain + 0, 200) is not None


def test_variables_in_indices_do_not_overflow() -> None:
    memory = UOp(Op.PARAM, int64, (), buffer(1, 4).arg)
    position = memory.index(UOp.const(index, 0)).cast(index)
    hidden = hide_reads(position * 8 // 8, position, 100)
    assert hidden is not None
    assert find_difference(*hidden, seed=0, n_samples=256) is None


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        (KERNEL, 8 * 4 * 3, 8 * 4 * 20),
        (
            KERNEL.replace("LOOP", "THREAD").replace("PARAM f32 [1, 32]", "PARAM f32 [1, 32768]"),
            200,
            900,
        ),
    ],
)
def test_steps_count_iterations_and_array_elements(text: str, low: int, high: int) -> None:
    assert low < count_steps(parse_graph(text)) < high


def test_work_items_and_bodies_of_calls_count() -> None:
    kernel = parse_graph(KERNEL)
    alone = count_steps(kernel)
    call = UOp(Op.CALL, src=(kernel, buffer(1, 8), buffer(2, 32)))
    assert count_steps(UOp.sink(call)) >= alone
    core = UOp.variable("core_id", 0, 3)
    threaded = kernel.substitute({find_range(kernel, 0): find_range(kernel, 0) + core * 0})
    assert count_steps(threaded) >= 4 * alone


def find_range(kernel: UOp, number: int) -> UOp:
    return next(r for r in kernel.iter_ops(Op.RANGE) if r.arg.id == number)


def test_missing_results_are_a_change() -> None:
    actual = find_change(UOp.sink(X + 1.0, X * 2.0), UOp.sink(X + 1.0))
    assert actual is not None
    assert actual.problem == "1 results, expected 2"


def test_a_change_names_the_result_that_differs() -> None:
    graph = UOp.sink(X + 1.0, X * 2.0)
    actual = find_change(
        graph, UOp.sink(X + 1.0, X * 3.0), inputs={buffer(1, 12): np.ones(12, np.float32)}
    )
    assert actual is not None
    assert actual.node is graph.src[1]
    assert actual.problem == "value: element 0 is 3.0, expected 2.0 (12 of 12 differ)"


LOADS = """
%in = PARAM i32 [1, 32]
%i = DEFINE_VAR i32 ["i", 0, 31]
%place = INDEX i32 %in, %i
%read = LOAD i32 %place
%gated = INDEX i32 %in, %i, %i < 9
%other = LOAD i32 %gated, 7
%sum = ADD i32 %read, %other
"""


def test_a_load_without_a_gate_becomes_a_variable() -> None:
    nodes = parse_nodes(LOADS)
    total, read, other = nodes["sum"], nodes["read"], nodes["other"]
    hidden = hide_reads(total, total * 1, 100)
    assert hidden is not None
    (leaf,) = (n for n in hidden[0].iter_ops(Op.DEFINE_VAR) if n.arg.name.startswith("read"))
    assert (leaf.dtype, leaf.arg.low, leaf.arg.high) == (int32, int32.min, int32.max)
    assert read not in hidden[0].toposort()
    assert other in hidden[0].toposort()


def test_locations_of_stores_stay() -> None:
    stored = nodes_of_store()
    hidden = hide_reads(stored, stored.with_src((stored.src[0], stored.src[1] * 1.0)), 100)
    assert hidden is not None
    assert hidden[0] is stored


def nodes_of_store() -> UOp:
    memory = buffer(1, 12)
    return memory.index(UOp.variable("i", 0, 11)).store(UOp.const(float32, 1))


def test_steps_are_counted_exactly() -> None:
    x = UOp.variable("x", 0, 9, int32)
    assert count_steps(x + 1) == 3
    loop = UOp.range(5, 0, AxisType.REDUCE)
    # The end once; the loop, the cast and the constant's sum in each iteration; the total once.
    assert count_steps(reduce_over(loop.cast(int32) + x, loop)) == 1 + 5 + 5 + 1 + 5 + 1
    assert count_steps(special("gidx0", 6)) == 6 * 2
    assert count_steps(buffer(1, 1024)) == 1 + 1024 // 256
    body = UOp.sink(x + 1)
    assert count_steps(call(body)) == count_steps(body) + 1


def test_an_ulp_is_allowed_only_between_finite_numbers_other_than_zeros() -> None:
    x = UOp.variable("x", 0, 1, float64)

    def differ(left: float, right: float) -> bool:
        constants = (UOp.const(float64, value) for value in (left, right))
        return differ_at(*constants, {}, ulps=1)

    next_to_one, least = 1 + 2.0**-52, 5e-324
    assert not differ(1.0, next_to_one)
    assert not differ(-next_to_one, -1.0)
    assert differ(1.0, 1 + 2.0**-51)
    assert differ(0.0, -0.0)
    assert differ(0.0, least)
    assert differ(np.finfo(np.float64).max, np.inf)
    assert differ(1.0, np.nan)
    assert find_difference(x * x, x * x * next_to_one, seed=0, n_samples=200, ulps=2) is None
    assert find_difference(x, x * next_to_one, seed=0, n_samples=200) is not None
