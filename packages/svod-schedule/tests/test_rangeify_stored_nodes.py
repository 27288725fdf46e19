"""Which values get memory of their own, and so how many kernels a program becomes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from operator import add

import pytest

from svod_dtype import float32, float64, int8, int32
from svod_ir import (
    Op,
    ParamArg,
    Target,
    UOp,
    make_alu,
    make_broadcasted_iota,
    make_cast,
    make_expand,
    make_flip,
    make_gather,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_shrink,
)
from svod_ir.testing import assert_same
from svod_ir.testing.nodes import contiguous, detach
from svod_ir.testing.programs import (
    attention,
    gelu,
    layernorm,
    linear,
    matmul,
    reduce,
    softmax,
    tensor,
)
from svod_schedule.pipeline import PIPELINES, Context, run_pipeline
from svod_schedule.rangeify.analysis.stored_nodes import MAX_KERNEL_REDUCTIONS, MAX_ROW_BYTES
from svod_schedule.rangeify.split_reduce import split_reduce


def compile_graph(*results: UOp) -> UOp:
    """The kernels before any are joined: one for each value that is stored."""
    context = Context(opts=(), passes=PIPELINES.without_pass("kernelize", "join-kernels"))
    return run_pipeline("kernelize", run_pipeline("rangeify", UOp.sink(*results), context), context)


def count_kernels(*results: UOp) -> int:
    return sum(1 for _ in compile_graph(*results).iter_ops(Op.CALL))


def count_ops(graph: UOp, op: Op) -> int:
    """How many nodes of `op` stand in all kernels together."""
    return sum(sum(1 for _ in call.src[0].iter_ops(op)) for call in graph.iter_ops(Op.CALL))


X = tensor(1, 64, 128)
Y = tensor(2, 64, 128)


def make_bytes(number: int, *shape: int) -> UOp:
    return make_cast(tensor(number, *shape, dtype=int8), int32)


def divide_by_sum(x: UOp) -> UOp:
    return x / make_expand(make_reduce_axis(x, Op.ADD, [0, 1]), x.shape)


def beside(x: UOp, y: UOp) -> UOp:
    """The columns of `x`, and then those of `y`."""
    columns = x.shape[1], y.shape[1]
    return make_pad(x, [(0, 0), (0, columns[1])]) + make_pad(y, [(0, 0), (columns[0], 0)])


PROGRAMS: dict[str, tuple[Callable[[], tuple[UOp, ...]], int]] = {
    "elementwise operations": (lambda: ((X + Y) * X,), 1),
    "softmax": (lambda: (softmax(X),), 1),
    "layernorm": (lambda: (layernorm(X, tensor(2, 128), tensor(3, 128)),), 1),
    "a linear layer with bias and gelu": (
        lambda: (gelu(linear(X, tensor(2, 96, 128), tensor(3, 96))),),
        1,
    ),
    "the product of two matmuls": (
        lambda: (matmul(X, tensor(2, 128, 32)) * matmul(X, tensor(3, 128, 32)),),
        1,
    ),
    "the product of two matmuls of bytes": (
        lambda: (
            matmul(make_bytes(1, 64, 128), make_bytes(2, 128, 32))
            * matmul(make_bytes(1, 64, 128), make_bytes(3, 128, 32)),
        ),
        2,
    ),
    "the product of a matmul of bytes and a sum of bytes": (
        lambda: (
            matmul(make_bytes(1, 64, 128), make_bytes(2, 128, 32))
            * make_reshape(reduce(make_bytes(3, 64, 32, 8), 2), (64, 32)),
        ),
        1,
    ),
    "a matmul of a matmul": (
        lambda: (matmul(matmul(X, tensor(2, 128, 32)), tensor(3, 32, 16)),),
        2,
    ),
    "attention": (lambda: (attention(*(tensor(i, 4, 64, 32) for i in (1, 2, 3))),), 3),
    "softmax of a matmul": (lambda: (softmax(matmul(X, tensor(2, 128, 32))),), 2),
    "a sum of few elements": (lambda: (make_reduce_axis(tensor(1, 64, 64), Op.ADD, [0, 1]),), 1),
    "a sum of many elements": (
        lambda: (make_reduce_axis(tensor(1, 1024, 1024), Op.ADD, [0, 1]),),
        2,
    ),
    "sums of many rows": (lambda: (reduce(tensor(1, 8192, 512), 1),), 1),
    "division by the sum of all of a few elements": (lambda: (divide_by_sum(X),), 1),
    "division by the sum of all of many elements": (
        lambda: (divide_by_sum(tensor(1, 1024, 1024)),),
        2,
    ),
    "a matmul of something cheap": (lambda: (matmul(X + 1, tensor(2, 128, 32)),), 1),
    "a matmul of something expensive": (
        lambda: (matmul(make_alu(Op.EXP, tensor(1, 256, 256)), tensor(2, 256, 256)),),
        2,
    ),
    "a matmul of something padded": (
        lambda: (matmul(make_pad(tensor(1, 126, 128), [(1, 1), (0, 0)]), tensor(2, 128, 64)),),
        2,
    ),
    "a product of deep matrices": (
        lambda: (matmul(tensor(1, 128, 8192), tensor(2, 8192, 128)),),
        2,
    ),
    "a product of a deep matrix and few vectors": (
        lambda: (matmul(tensor(1, 64, 8192), tensor(2, 8192, 4)),),
        1,
    ),
    "a sum of something padded": (
        lambda: (reduce(make_pad(tensor(1, 126, 128), [(1, 1), (0, 0)]), 1),),
        1,
    ),
    "a matmul beside other columns": (
        lambda: (beside(matmul(X, tensor(2, 128, 32)), tensor(3, 64, 96)),),
        2,
    ),
    "a normalised matmul beside other columns": (
        lambda: (softmax(beside(matmul(X, tensor(2, 128, 32)), tensor(3, 64, 96))),),
        2,
    ),
    "two results of one sum": (lambda: (reduce(X, 1) + 1, reduce(X, 1) * 2), 3),
    "two results of something cheap": (lambda: ((X + 1) * 3, (X + 1) * 5), 2),
    "two results of something expensive": (
        lambda: (make_alu(Op.POW, X, Y) + 1, make_alu(Op.POW, X, Y) * 2),
        3,
    ),
    "a result that another reads": (lambda: (X + Y, (X + Y) * 2), 2),
    "the same result twice": (lambda: (X + Y, X + Y), 1),
    "a scan along memory of something expensive": (
        lambda: (make_scan_axis(make_alu(Op.POW, X, Y), Op.ADD, 1),),
        2,
    ),
    "a scan along memory of something cheap": (lambda: (make_scan_axis(X + Y, Op.ADD, 1),), 1),
    "a scan of rows of something expensive": (
        lambda: (make_scan_axis(make_alu(Op.POW, X, Y), Op.ADD, 0),),
        1,
    ),
    "movement alone": (
        lambda: (make_permute(make_flip(make_pad(X, [(1, 2), (0, 3)]), (True, False)), (1, 0)),),
        1,
    ),
    "a scan of a scan": (
        lambda: (make_scan_axis(make_scan_axis(tensor(1, 8, 16), Op.ADD, 1), Op.ADD, 0),),
        2,
    ),
    "a scan and what is made of it": (
        lambda: (make_scan_axis(tensor(1, 8, 16), Op.ADD, 1) * 2,),
        2,
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_becomes_as_many_kernels_as_it_needs(program: str) -> None:
    make, expected = PROGRAMS[program]
    assert count_kernels(*make()) == expected


@pytest.mark.parametrize(
    "graph",
    [
        softmax(tensor(1, 5, 12)),
        layernorm(tensor(1, 5, 12), tensor(2, 12), tensor(3, 12)),
        gelu(linear(tensor(1, 4, 6), tensor(2, 5, 6), tensor(3, 5))),
        attention(*(tensor(i, 2, 5, 4) for i in (1, 2, 3))),
        make_scan_axis(make_scan_axis(tensor(1, 4, 6), Op.ADD, 1), Op.ADD, 0),
    ],
)
def test_the_kernels_compute_what_the_program_means(graph: UOp) -> None:
    assert_same(UOp.sink(graph), compile_graph(graph))


@pytest.mark.parametrize("depth", [64, 70, 128])
def test_the_parts_of_a_deep_product_add_up(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAX_DEPTH", 20), ("PART_DEPTH", 20), ("MIN_ROWS", 30)):
        monkeypatch.setattr(sys.modules[split_reduce.__module__], name, value)
    graph = UOp.sink(
        matmul(tensor(1, 2, 33, depth), make_permute(tensor(2, 2, 35, depth), (0, 2, 1)))
    )
    split = split_reduce(graph, lambda _: 2)
    assert sum(1 for _ in split.iter_ops(Op.REDUCE_AXIS)) > 1
    assert_same(graph, split)


def test_an_expensive_value_that_two_results_read_is_computed_once() -> None:
    power = make_alu(Op.POW, X, Y)
    assert count_ops(compile_graph(power + 1, power * 2), Op.POW) == 1


def test_a_cheap_value_that_two_results_read_is_computed_twice() -> None:
    cheap = make_alu(Op.MAX, X, Y)
    assert count_ops(compile_graph(cheap * 3, cheap * 5), Op.MAX) == 2


def test_an_expensive_value_of_few_elements_is_recomputed_instead_of_stored() -> None:
    x, y = tensor(1, 4, 8), tensor(2, 4, 8)
    assert count_kernels(make_alu(Op.POW, x, y) + 1, make_alu(Op.POW, x, y) * 2) == 2


def test_a_value_in_a_loop_that_it_does_not_depend_on_is_kept_where_it_is_expensive() -> None:
    row = make_alu(Op.POW, tensor(1, 1, 4096), tensor(2, 1, 4096))
    assert count_kernels(make_expand(row, (64, 4096)) * tensor(3, 64, 4096)) == 2
    cheap = tensor(1, 1, 4096) + tensor(2, 1, 4096)
    assert count_kernels(make_expand(cheap, (64, 4096)) * tensor(3, 64, 4096)) == 1


def test_a_row_that_is_read_again_is_kept_in_private_memory() -> None:
    graph = compile_graph(softmax(X))
    assert count_ops(graph, Op.EXP) == 1
    assert count_ops(graph, Op.DEFINE_REG) == 1


def test_a_row_is_kept_up_to_a_size_in_bytes() -> None:
    row = MAX_ROW_BYTES // 4

    def count_kept(x: UOp) -> int:
        return count_ops(compile_graph(softmax(x)), Op.DEFINE_REG)

    assert count_kept(tensor(1, 32, row)) == 1
    assert count_kept(tensor(1, 32, row + 1)) == 0
    assert count_kept(tensor(1, 32, row // 2, dtype=float64)) == 1
    assert count_kept(tensor(1, 32, row, dtype=float64)) == 0


def test_a_column_is_not_kept_since_columns_are_lanes() -> None:
    columns = make_permute(softmax(make_permute(X, (1, 0))), (1, 0))
    assert count_ops(compile_graph(columns), Op.DEFINE_REG) == 0


def test_a_target_with_workgroups_uses_no_private_rows() -> None:
    context = Context(target=replace(Target.generic(), has_local=True))
    ranged = run_pipeline("rangeify", UOp.sink(softmax(X)), context)
    assert count_ops(run_pipeline("kernelize", ranged, context), Op.DEFINE_REG) == 0


def test_a_long_chain_of_operations_is_cut() -> None:
    x = X
    for _ in range(600):
        x = make_alu(Op.SQRT, x) + Y
    assert 2 <= count_kernels(x) <= 60


def test_contiguous_has_a_kernel_of_its_own() -> None:
    kept = contiguous(X + Y)
    assert count_kernels(kept * 2) == 2


def test_nodes_that_only_a_gradient_reads_cost_nothing() -> None:
    marked = detach(X + Y)
    assert compile_graph(marked * 2) is compile_graph((X + Y) * 2)


def test_equal_kernels_on_different_buffers_are_one_body() -> None:
    graph = compile_graph(tensor(1, 8, 4) * tensor(2, 8, 4), tensor(3, 8, 4) * tensor(4, 8, 4))
    first, second = graph.iter_ops(Op.CALL)
    assert first is not second
    assert first.src[0] is second.src[0]


def test_an_empty_result_needs_no_reduction() -> None:
    empty = make_reduce_axis(tensor(1, 0, 4), Op.ADD, [0])
    assert count_ops(compile_graph(empty), Op.REDUCE) == 0


def test_a_reshape_alone_does_not_split_a_reduction_from_what_follows() -> None:
    assert count_kernels(make_reshape(reduce(X, 1), (64,)) * 2 + 1) == 1


def test_a_long_reduction_over_two_axes_that_does_not_divide_keeps_its_shape() -> None:
    sink = UOp.sink(make_reduce_axis(tensor(1, 3, 50021), Op.ADD, (0, 1)))
    split = split_reduce(sink, lambda _: 2)
    assert split.src[0].shape == (1, 1)
    assert_same(sink, split)


def test_rows_on_a_grid_are_reduced_in_kernels_of_their_own() -> None:
    context = Context(target=replace(Target.generic(), has_local=True))
    ranged = run_pipeline("rangeify", UOp.sink(softmax(X)), context)
    kernels = list(run_pipeline("kernelize", ranged, context).iter_ops(Op.CALL))
    assert [sum(1 for _ in k.src[0].iter_ops(Op.REDUCE)) for k in kernels] == [1, 0, 1, 0]


def test_operands_of_a_product_are_stored_in_their_narrow_dtype() -> None:
    def widen(x: UOp) -> UOp:
        return x.cast(int32)

    narrow = make_alu(Op.MAX, matmul(X, tensor(2, 128, 32)), UOp.const(float32, 0.0)).cast(int8)
    graph = compile_graph(matmul(widen(narrow), widen(tensor(3, 32, 16, dtype=int8))))
    kept = [call.src[1] for call in graph.iter_ops(Op.CALL)]
    assert [memory.dtype for memory in kept] == [int8, int32]


def test_a_value_with_many_readers_is_analyzed_once() -> None:
    value = make_expand(tensor(1, 8, 1), (8, 4)) - make_expand(tensor(2, 1, 4), (8, 4))
    for _ in range(60):
        value = value * value
    assert count_kernels(make_reduce_axis(value * value, Op.ADD, [1])) == 1


def test_a_few_sums_across_a_large_result_have_a_kernel_of_their_own_and_many_do_not() -> None:
    def add_sums(rows: int) -> UOp:
        sums = make_reshape(make_reduce_axis(tensor(2, 16, 8), Op.ADD, [1]), (1, 16))
        return tensor(1, rows, 16) - make_expand(sums, (rows, 16))

    assert [count_kernels(add_sums(rows)) for rows in (64, 20_000)] == [1, 2]
    columns = tensor(3, 20_000, 16)
    whole = make_expand(make_reduce_axis(columns, Op.ADD, [0]), columns.shape)
    assert count_kernels(columns / whole) == count_kernels(columns - whole)


def test_sums_of_long_columns_do_not_fuse_into_lanes_along_another_axis() -> None:
    def divide_by_sums(rows: int) -> UOp:
        sums = make_reshape(make_reduce_axis(tensor(1, rows, 16), Op.ADD, [0]), (16, 1))
        return tensor(2, 16, 8) / make_expand(sums, (16, 8))

    assert [count_kernels(divide_by_sums(rows)) for rows in (8, 20_000)] == [1, 2]
    along = make_reshape(make_reduce_axis(tensor(1, 16, 2000), Op.ADD, [1]), (16, 1))
    assert count_kernels(tensor(2, 16, 8) / make_expand(along, (16, 8))) == 1


def test_a_kernel_reads_a_parameter_of_the_graph_that_is_numbered_as_its_own_result():
    # In the body of a loop, what is carried and is on no device is such a PARAM.
    given = UOp(Op.PARAM, float32, (), ParamArg(0, 8))
    (call,) = compile_graph(contiguous(given + 1)).iter_ops(Op.CALL)
    _, result, *read = call.src
    assert read == [given]
    loads = [n.memory.arg.slot for n in call.src[0].iter_ops(Op.INDEX)]
    assert sorted(loads) == [0, 1], "it writes argument 0 and reads argument 1"
    assert result.op is Op.BUFFER


def multiply_rows(rows: UOp, n_outputs: int) -> UOp:
    return matmul(rows, tensor(8, rows.shape[1], n_outputs))


def test_gathered_rows_are_copied_for_a_product_that_reads_them_many_times() -> None:
    rows = make_gather(X, tensor(5, 32, dtype=int32), 0)
    assert count_kernels(multiply_rows(rows, 96)) == 2
    assert count_kernels(multiply_rows(rows, 4)) == 1
    assert count_kernels(rows + rows) == 1


def test_a_single_gathered_row_and_rows_at_computed_indices_are_not_copied() -> None:
    assert count_kernels(multiply_rows(make_gather(X, tensor(5, 1, dtype=int32), 0), 96)) == 1
    counted = make_broadcasted_iota((32,), 0, int32) * 2
    assert count_kernels(multiply_rows(make_gather(X, counted, 0), 96)) == 1


def make_keys(values: UOp) -> UOp:
    """Integers in the order of floats: what a search compares."""
    bits = UOp(Op.BITCAST, int32, (values,))
    return make_alu(Op.WHERE, bits < 0, bits ^ 0x7FFFFFFF, bits)


def test_gathered_integers_computed_from_floats_are_one_table() -> None:
    edges = make_cast(make_broadcasted_iota((16,), 0, int32), float32) * 0.25 + 1.0
    found = make_gather(make_keys(edges / 3.0), tensor(5, 50_000, dtype=int32), 0)
    kernels = compile_graph(found)
    assert count_kernels(found) == 2
    # The table, the positions, and the result: no part of a key has a table of its own.
    assert [len(list(call.src[0].iter_ops(Op.PARAM))) for call in kernels.iter_ops(Op.CALL)] == [
        1,
        3,
    ]


def test_gathered_integers_computed_from_counters_are_recomputed() -> None:
    numbers = (make_broadcasted_iota((16,), 0, int32) * 3 + 1) ^ 5
    assert count_kernels(make_gather(numbers, tensor(5, 50_000, dtype=int32), 0)) == 1


def test_a_symbolic_size_has_no_cost_for_each_element() -> None:
    rows = UOp.variable("rows", 2, 64)
    whole = tensor(1, 64 * 128)

    def centred(x: UOp) -> UOp:
        mean = make_reduce_axis(x, Op.ADD, [1]) / 128.0
        difference = x - make_expand(mean, x.shape)
        return difference / make_expand(
            make_reduce_axis(difference * difference, Op.ADD, [1]), x.shape
        )

    part = make_reshape(make_shrink(whole, ((0, rows * 128),)), (rows, 128))
    known, symbolic = (
        count_ops(compile_graph(centred(x)), Op.DEFINE_REG)
        for x in (make_reshape(whole, (64, 128)), part)
    )
    assert known == symbolic


def test_a_kernel_has_a_limited_number_of_row_reductions() -> None:
    rows = tensor(1, 4096, 64)
    for i in range(3 * MAX_KERNEL_REDUCTIONS):
        # Without a factor a row is cheap enough to be computed again, which cuts the chain earlier.
        rows = (rows - make_expand(reduce(rows, 1) * (1 / 64), rows.shape)) * (1 + i / 64)
    assert count_reductions(compile_graph(contiguous(rows))) == [MAX_KERNEL_REDUCTIONS] * 3


def count_reductions(graph: UOp) -> list[int]:
    """The reductions of each kernel."""
    return [sum(1 for _ in call.src[0].iter_ops(Op.REDUCE)) for call in graph.iter_ops(Op.CALL)]


def sum_squares(x: UOp, axes: tuple[int, ...]) -> UOp:
    return make_reduce_axis(x * x, Op.ADD, axes)


@pytest.mark.parametrize("axes", [(1,), (0,), (0, 1)])
@pytest.mark.parametrize("is_balanced", [False, True])
def test_independent_reductions_share_as_few_kernels_as_they_may(
    axes: tuple[int, ...], is_balanced: bool
) -> None:
    n_reductions = 4 * MAX_KERNEL_REDUCTIONS
    terms = [sum_squares(tensor(i + 1, 8, 12), axes) for i in range(n_reductions)]
    while len(terms) > 1:
        n_summed = 2 if is_balanced else len(terms)
        terms = [
            functools.reduce(add, terms[i : i + n_summed]) for i in range(0, len(terms), n_summed)
        ]
    # Combining sums takes no kernel of its own: each kernel but the first adds its own to the
    # result of others.
    counts = count_reductions(compile_graph(terms[0]))
    assert counts == [MAX_KERNEL_REDUCTIONS] * 4


def test_independent_reductions_of_rows_of_symbolic_number_share_kernels() -> None:
    rows = UOp.variable("rows", 2, 64)
    parts = [
        make_reshape(make_shrink(tensor(i + 1, 64 * 12), ((0, rows * 12),)), (rows, 12))
        for i in range(3 * MAX_KERNEL_REDUCTIONS)
    ]
    total = functools.reduce(add, [sum_squares(part, (1,)) for part in parts])
    assert count_reductions(compile_graph(total)) == [MAX_KERNEL_REDUCTIONS] * 3


def test_a_reduction_is_stored_rather_than_the_row_that_it_is_combined_with() -> None:
    scales = [sum_squares(tensor(i + 2, 8, 512), (1,)) for i in range(MAX_KERNEL_REDUCTIONS + 1)]
    rows = functools.reduce(
        lambda rows, scale: rows * make_expand(scale, rows.shape), scales, tensor(1, 8, 512)
    )
    graph = compile_graph(rows)
    assert sorted(count_reductions(graph)) == [1, MAX_KERNEL_REDUCTIONS]
    assert sorted(
        call.src[0].src[0].body.location.memory.arg.size for call in graph.iter_ops(Op.CALL)
    ) == [8, 8 * 512]
