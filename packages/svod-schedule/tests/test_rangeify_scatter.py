"""Rows that are added to memory, or replaced there: kernels that go through them in order, from the
graph to what is rendered.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from svod_dtype import DType, bool_, float32, float64, int8, int32, int64, uint8, uint64
from svod_ir import (
    AxisType,
    Op,
    Target,
    UOp,
    make_alu,
    make_cast,
    make_expand,
    make_gather,
    make_reduce_axis,
    make_reshape,
    make_scatter,
    make_scatter_add,
)
from svod_ir.testing import assert_same
from svod_ir.testing.nodes import buffer
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import Context, run_pipeline

AVX512 = replace(Target.generic(cores=2), vector_bits=512, has_masked_access=True)


def kernels_of(node: UOp, context: Context) -> list[UOp]:
    """The kernels that compute `node`, each of which means the same before and after it is
    optimized and lowered.
    """
    sink = UOp.sink(node)
    ranged = run_pipeline("rangeify", sink, context)
    assert_same(sink, ranged)
    graph = run_pipeline("kernelize", ranged, context)
    assert_same(ranged, graph)
    optimized: list[UOp] = []
    for call in graph.iter_ops(Op.CALL):
        kernel = run_pipeline("optimize", call.body, context)
        assert_same(call.body, kernel)
        assert_same(kernel, linearize(run_pipeline("lower", kernel, context)))
        optimized.append(kernel)
    return optimized


@pytest.mark.parametrize("target", [Target.generic(cores=1), AVX512], ids=["generic", "avx512"])
@pytest.mark.parametrize(
    ("shape", "axis", "positions"),
    [
        ((6, 16), 0, (6,)),
        ((2, 3, 8), 0, (2, 3)),
        ((3, 5), 1, (5,)),
        ((3, 4, 19), 1, (4,)),
        ((7,), 0, (7,)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [float32, int8, bool_], ids=str)
def test_rows_are_added_to_memory_of_zeros(
    dtype: DType, shape: tuple[int, ...], axis: int, positions: tuple[int, ...], target: Target
) -> None:
    x = make_reshape(buffer(1, _count(shape), dtype), shape)
    places = make_reshape(buffer(2, _count(positions), int32), positions)
    kernels = kernels_of(make_scatter_add(x, places, axis, 4), Context(target=target))
    assert len(kernels) == 2


@pytest.mark.parametrize("dtype", [uint8, int64, uint64], ids=str)
def test_out_of_bounds_indices_of_any_dtype_are_skipped(dtype: DType) -> None:
    x = make_reshape(buffer(1, 24, float64), (6, 4))
    kernels_of(make_scatter_add(x, buffer(2, 6, dtype), 0, 3), Context())


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_a_single_index_needs_no_loop(shape: tuple[int, ...]) -> None:
    x, position = (
        make_reshape(buffer(1, 6, float32), (2, *shape, 3)),
        make_reshape(buffer(2, 1, int8), shape),
    )
    for size in (1, 4, UOp.variable("n", 1, 5)):
        assert len(kernels_of(make_scatter_add(x, position, 1, size), Context())) == 1


def test_an_index_that_all_rows_share_gets_each_of_them() -> None:
    position = make_expand(buffer(2, 1, uint8), (5,))
    x = make_reshape(buffer(1, 20, float32), (5, 4))
    assert len(kernels_of(make_scatter_add(x, position, 0, 256), Context())) == 2


def test_values_and_indices_are_computed_in_the_kernel() -> None:
    rows, table = make_reshape(buffer(1, 48, float32), (6, 8)), buffer(3, 9, int32)
    places = make_alu(Op.SUB, make_gather(table, buffer(2, 6, int32), 0), UOp.const(int32, 1))
    value = make_alu(
        Op.MUL,
        rows,
        make_cast(make_expand(make_reshape(buffer(4, 6, int8), (6, 1)), (6, 8)), float32),
    )
    assert len(kernels_of(make_scatter_add(value, places, 0, 5), Context())) == 2


def test_the_bounds_of_a_checked_index_are_checked_once() -> None:
    column, outside = buffer(2, 6, int64), UOp.const(int64, -1)
    is_inside = make_alu(
        Op.AND,
        make_alu(Op.LE, UOp.const(int64, 0), column),
        make_alu(Op.LT, column, UOp.const(int64, 4)),
    )
    places = make_alu(Op.WHERE, is_inside, make_alu(Op.ADD, column, UOp.const(int64, 8)), outside)
    kernel = kernels_of(make_scatter_add(buffer(1, 6, float32), places, 0, 20), Context())[-1]
    assert len(list(kernel.iter_ops(Op.LT))) == 2
    assert not list(kernel.iter_ops(Op.WHERE))


def test_a_reduction_is_computed_before_its_results_are_added() -> None:
    value = make_reduce_axis(make_reshape(buffer(1, 480, float32), (6, 8, 10)), Op.ADD, (2,))
    node = make_scatter_add(make_reshape(value, (6, 8)), buffer(2, 6, int32), 0, 5)
    assert len(kernels_of(node, Context())) == 3


def test_equal_zeros_of_two_sums_have_memory_of_their_own() -> None:
    x = make_reshape(buffer(1, 12, float32), (6, 2))
    both = [make_scatter_add(x, buffer(n, 6, int32), 0, 3) for n in (2, 3)]
    assert len(kernels_of(make_alu(Op.SUB, *both), Context())) == 5


def test_threads_split_the_elements_of_rows_and_never_the_rows() -> None:
    x = make_reshape(buffer(1, 1 << 17, float32), (128, 1024))
    sink = UOp.sink(make_scatter_add(x, buffer(2, 128, int32), 0, 50))
    graph = run_pipeline(
        "kernelize", run_pipeline("rangeify", sink, Context(target=AVX512)), Context(target=AVX512)
    )
    kernel = [
        run_pipeline("optimize", call.body, Context(target=AVX512))
        for call in graph.iter_ops(Op.CALL)
    ][-1]
    loops = {r.arg.kind: r for r in kernel.iter_ops(Op.RANGE)}
    assert AxisType.THREAD in loops
    positions = [
        n for n in kernel.iter_ops(Op.INDEX) if n.memory.op is Op.PARAM and n.dtype is int32
    ]
    assert {r.arg.kind for n in positions for r in n.ranges} == {AxisType.SCAN}


@pytest.mark.parametrize("target", [Target.generic(cores=1), AVX512], ids=["generic", "avx512"])
@pytest.mark.parametrize(
    ("shape", "axis", "positions"),
    [
        ((4, 16), 0, (6,)),
        ((4, 8), 0, (2, 3)),
        ((3, 4), 1, (5,)),
        ((3, 4, 19), 1, (4,)),
        ((4,), 0, (7,)),
        ((2, 4, 3), 1, ()),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [float32, int8, bool_], ids=str)
def test_rows_replace_those_of_a_copy(
    dtype: DType, shape: tuple[int, ...], axis: int, positions: tuple[int, ...], target: Target
) -> None:
    base, rows, places = make_replaced(dtype, shape, axis, positions)
    assert len(kernels_of(make_scatter(base, places, rows, axis), Context(target=target))) == 2


def make_replaced(
    dtype: DType, shape: tuple[int, ...], axis: int, positions: tuple[int, ...]
) -> tuple[UOp, UOp, UOp]:
    """The base, the rows and the indices of a SCATTER."""
    base = make_reshape(buffer(1, _count(shape), dtype), shape)
    at_indices = (*shape[:axis], *positions, *shape[axis + 1 :])
    rows = make_reshape(buffer(2, _count(at_indices), dtype), at_indices)
    return base, rows, make_reshape(buffer(3, _count(positions), int32), positions)


def test_two_scatters_to_the_same_base_have_memory_of_their_own() -> None:
    base, rows, places = make_replaced(float32, (6, 2), 0, (4,))
    both = [
        make_scatter(base, places, make_alu(Op.MUL, rows, UOp.const(float32, n)), 0)
        for n in (2.0, 3.0)
    ]
    assert len(kernels_of(make_alu(Op.SUB, *both), Context())) == 4


def test_a_computed_base_is_copied_with_its_computation() -> None:
    base, rows, places = make_replaced(float32, (6, 2), 0, (4,))
    total = make_reduce_axis(base, Op.ADD, (1,))
    node = make_scatter(make_alu(Op.MUL, base, make_expand(total, (6, 2))), places, rows, 0)
    assert len(kernels_of(node, Context())) <= 3


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
