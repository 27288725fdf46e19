from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from svod_dtype import DType, bool_, float32, index, int32, int64, uint8
from svod_ir import AxisType, Op, Target, UOp, graph_rewrite
from svod_ir.evaluate import evaluate
from svod_ir.testing import conditions, count_examples, expressions, nodes
from svod_ir.testing.nodes import param
from svod_schedule.lower.decompose import make_decompositions
from svod_schedule.lower.type_indices import type_indices


def copy_kernel(size: int, position: UOp) -> UOp:
    out, source = param(0, size), param(1, size)
    loops = sorted((r for r in position.toposort() if r.op is Op.RANGE), key=lambda r: r.arg[0])
    return UOp.sink(out.index(position).store(source.index(position).load()).end(*loops))


def dtypes(graph: UOp) -> set[DType]:
    return {n.dtype.scalar for n in graph.toposort()}


def test_small_positions_are_int32() -> None:
    i, j = UOp.range(100, 0, AxisType.LOOP), UOp.range(20, 1, AxisType.LOOP)
    after = type_indices(copy_kernel(2000, i * 20 + j))
    assert index not in dtypes(after)
    assert int64 not in dtypes(after)
    assert all(r.dtype is int32 and r.src[0].dtype is int32 for r in after.iter_ops(Op.RANGE))


def test_a_position_beyond_int32_is_computed_in_int64_from_its_int32_loops() -> None:
    i, j = UOp.range(1 << 16, 0, AxisType.LOOP), UOp.range(1 << 17, 1, AxisType.LOOP)
    after = type_indices(copy_kernel(1 << 33, i * (1 << 17) + j))
    assert index not in dtypes(after)
    assert all(r.dtype is int32 for r in after.iter_ops(Op.RANGE))
    (add,) = after.iter_ops(Op.ADD)
    (multiply,) = after.iter_ops(Op.MUL)
    assert add.dtype is int64
    assert multiply.dtype is int64
    assert {s.op for s in add.src} == {Op.MUL, Op.CAST}


def test_a_loop_longer_than_int32_counts_in_int64() -> None:
    i = UOp.range(1 << 32, 0, AxisType.LOOP)
    after = type_indices(copy_kernel(1 << 32, i))
    (loop,) = after.iter_ops(Op.RANGE)
    assert loop.dtype is int64
    assert loop.src[0].dtype is int64


def test_an_intermediate_that_overflows_int32_widens_though_the_result_fits() -> None:
    i = UOp.range(1 << 20, 0, AxisType.LOOP)
    after = type_indices(copy_kernel(1 << 20, i * (1 << 20) // (1 << 20)))
    wide = [n for n in after.toposort() if n.op in (Op.MUL, Op.IDIV)]
    assert all(n.dtype is int64 for n in wide)


def test_the_operands_of_a_comparison_get_one_type() -> None:
    i = UOp.range(1 << 16, 0, AxisType.LOOP)
    n = UOp.variable("n", 0, 1 << 40)
    gate = i < n
    location = param(0, 1 << 16).index(i, gate=gate)
    after = type_indices(UOp.sink(location.store(UOp.const(float32, 1.0)).end(i)))
    (compare,) = after.iter_ops(Op.LT)
    assert {s.dtype for s in compare.src} == {int64}
    assert compare.dtype is bool_


def test_variables_are_as_wide_as_their_bounds() -> None:
    small, large = UOp.variable("a", 0, 100), UOp.variable("b", -(1 << 40), 5)
    assert type_indices(small).dtype is int32
    assert type_indices(large).dtype is int64
    assert type_indices(small).arg == small.arg


def test_vectors_of_positions_keep_their_lanes() -> None:
    i = UOp.range(8, 0, AxisType.LOOP)
    lanes = UOp(Op.BROADCAST, index.vec(4), (i * 4,)) + UOp(
        Op.VCONST, index.vec(4), (), (0, 1, 2, 3)
    )
    source = param(1, 32)
    location = UOp(Op.INDEX, float32.vec(4), (source, lanes))
    target = param(0, 32).index(i * 4, lanes=4)
    after = type_indices(UOp.sink(target.store(location.load()).end(i)))
    assert index not in dtypes(after)
    (broadcast,) = after.iter_ops(Op.BROADCAST)
    assert broadcast.dtype is int32.vec(4)
    assert location.dtype in {n.dtype for n in after.iter_ops(Op.INDEX)}


def test_casts_between_index_and_data() -> None:
    i = UOp.range(10, 0, AxisType.LOOP)
    assert type_indices(i.cast(float32)).src[0].dtype is int32
    position = UOp.variable("u", 0, 255, uint8).cast(index)
    assert type_indices(position).dtype is int32
    wide = UOp.variable("w", -(1 << 63), (1 << 63) - 1, int64)
    assert type_indices(wide.cast(index)) is wide


def test_registers_of_index_hold_int64() -> None:
    register = nodes.register(0, 1, index)
    location = register.index(UOp.const(index, 0))
    i = UOp.range(10, 0, AxisType.LOOP)
    after = type_indices(UOp.sink(location.store(location.load() + i).end(i)))
    assert index not in dtypes(after)
    (add,) = after.iter_ops(Op.ADD)
    assert {s.dtype for s in add.src} == {int64}
    (store,) = after.iter_ops(Op.STORE)
    assert store.src[0].dtype is int64


@settings(max_examples=count_examples(100), deadline=None)
@given(before=st.one_of(expressions().map(lambda e: e.cast(int64)), conditions()))
def test_random_expressions_keep_their_values_through_lowering_and_decomposition(
    before: UOp,
) -> None:
    variables = {n.arg[0]: n.arg[1:] for n in before.iter_ops(Op.DEFINE_VAR)}
    rng = np.random.default_rng(0)
    values = {
        name: rng.integers(low, high, 100, endpoint=True) for name, (low, high) in variables.items()
    }
    typed = type_indices(before)
    assert index not in dtypes(typed)
    expected = evaluate(before, values)
    for after in (typed, graph_rewrite(make_decompositions(Target.generic()), typed)):
        found = evaluate(after, values)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(*np.broadcast_arrays(found, expected))


def test_graphs_without_index_are_untouched() -> None:
    x = UOp.variable("x", 0, 5, int32)
    assert type_indices(x + x) is x + x
