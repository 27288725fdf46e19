"""What the heuristics' choices have in common, whatever they are for one kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from svod_dtype import DType, bfloat16, float16, float32, float64, int32, uint8
from svod_ir import (
    AxisType,
    KernelInfo,
    Op,
    Opt,
    OptOp,
    Target,
    UOp,
    make_alu,
    make_expand,
    make_flip,
    make_gather,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_shrink,
)
from svod_ir.testing import assert_same
from svod_ir.testing.nodes import param
from svod_ir.testing.programs import linear, matmul, reduce, softmax, tensor
from svod_schedule.linearize import linearize
from svod_schedule.optimize import Chosen, Scheduler, apply_opts, choose
from svod_schedule.optimize.heuristics import vectors
from svod_schedule.optimize.heuristics.constants import MIN_THREADED_WORK
from svod_schedule.optimize.heuristics.facts import make_facts
from svod_schedule.optimize.heuristics.proposals import answer
from svod_schedule.pipeline import Context, run_pipeline

AVX2 = Target.generic(cores=4)
AVX512 = replace(
    AVX2, vector_bits=512, vector_registers=32, has_masked_access=True, has_gather=True
)
NEON = replace(AVX2, vector_bits=128, vector_registers=32)
TARGETS = {"avx2": AVX2, "avx512": AVX512, "neon": NEON}

MakeKernel = Callable[[UOp], UOp]


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return TARGETS[request.param]


def lower(kernel: UOp, target: Target) -> tuple[UOp, ...]:
    return linearize(run_pipeline("lower", apply_opts(kernel, target), Context(target=target)))


def widths(nodes: tuple[UOp, ...], op: Op, slot: int | None = None) -> set[int]:
    """The lanes of what is loaded or stored, in all memory or in that of one argument."""
    locations = [n.src[0] for n in nodes if n.op is op]
    return {
        x.dtype.lanes
        for x in locations
        if x.src[0].op is Op.PARAM and slot in (None, x.src[0].arg.slot)
    }


def opts_of(chosen: Chosen, *ops: OptOp) -> list[Opt]:
    return [o for o in chosen.opts if o.op in ops]


def test_no_kernel_changes_its_meaning(kernel: UOp, target: Target) -> None:
    assert_same(kernel, lower(kernel, target))


def test_the_choice_is_the_same_every_time_and_can_be_replayed(kernel: UOp, target: Target) -> None:
    chosen = apply_opts(kernel, target)
    assert apply_opts(kernel, target) is chosen
    assert apply_opts(kernel, target, chosen.arg.applied_opts) is chosen


def test_no_kernel_of_few_elements_is_split_over_threads(kernel: UOp, target: Target) -> None:
    assert not opts_of(choose(kernel, target), OptOp.THREAD)


def test_no_choice_is_made_that_the_target_forbids(kernel: UOp) -> None:
    gpu = replace(AVX2, has_local=True, has_shared=True, shared_bytes=4096, max_local=64)
    assert not opts_of(choose(kernel, gpu), OptOp.THREAD, OptOp.PACK)


def test_an_elementwise_kernel_loads_and_stores_whole_vectors(
    make_kernel: MakeKernel, target: Target
) -> None:
    nodes = lower(make_kernel(tensor(1, 64, 64) * tensor(2, 64, 64) + 1), target)
    for op in (Op.LOAD, Op.STORE):
        (lanes,) = widths(nodes, op)
        assert lanes % target.lanes(float32) == 0


@pytest.mark.parametrize("dtype", [float64, float32, uint8])
def test_the_widest_dtype_decides_how_many_lanes_there_are(
    make_kernel: MakeKernel, target: Target, dtype: DType
) -> None:
    graph = tensor(1, 4096, dtype=dtype)
    (lanes,) = widths(lower(make_kernel(make_alu(Op.ADD, graph, graph)), target), Op.STORE)
    assert lanes % target.lanes(dtype) == 0


def test_rows_whose_size_no_vector_divides_are_covered_by_whole_vectors(
    make_kernel: MakeKernel, target: Target
) -> None:
    kernel = make_kernel(make_shrink(tensor(1, 8, 200), [(0, 8), (3, 198)]) * 2)
    (lanes,) = widths(lower(kernel, target), Op.STORE)
    assert lanes % target.lanes(float32) == 0


def test_lanes_are_never_taken_along_an_axis_that_jumps(
    make_kernel: MakeKernel, target: Target
) -> None:
    flipped = make_kernel(make_flip(tensor(1, 64, 64), (False, True)) * 2)
    nodes = lower(flipped, target)
    positions = [
        n.src[0].src[1] for n in nodes if n.op is Op.LOAD and n.src[0].src[0].op is Op.PARAM
    ]
    assert all(p.dtype.lanes == 1 for p in positions)


def test_the_sum_of_a_row_is_vectorized_along_the_row(
    make_kernel: MakeKernel, target: Target
) -> None:
    nodes = lower(make_kernel(reduce(tensor(1, 8, 1024), 1)), target)
    (lanes,) = widths(nodes, Op.LOAD)
    assert lanes == target.lanes(float32) * (lanes // target.lanes(float32)) > 1


def test_the_sum_of_a_column_is_vectorized_across_the_columns(
    make_kernel: MakeKernel, target: Target
) -> None:
    nodes = lower(make_kernel(reduce(tensor(1, 1024, 64), 0)), target)
    assert not [n for n in nodes if n.op is Op.REDUCE]
    (lanes,) = widths(nodes, Op.STORE)
    assert lanes % target.lanes(float32) == 0


def test_an_axis_shorter_than_a_vector_becomes_a_partial_vector(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(make_shrink(tensor(1, 64, 8), [(0, 64), (0, 5)]) * 2)
    assert widths(lower(kernel, AVX2), Op.STORE) == {4}


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_a_matmul_gets_a_register_tile_that_fits_the_registers(
    make_kernel: MakeKernel, target: Target, layout: str
) -> None:
    weight = tensor(2, 128, 96) if layout == "columns" else make_permute(tensor(2, 96, 128), (1, 0))
    nodes = lower(make_kernel(matmul(tensor(1, 64, 128), weight)), target)
    accumulators = {n for n in nodes if n.op is Op.DEFINE_REG and n.arg[1] == 1}
    n_registers = sum(max(1, n.dtype.lanes // target.lanes(float32)) for n in accumulators)
    assert target.vector_registers // 4 <= n_registers <= target.vector_registers


def test_a_bias_does_not_take_the_tile_away(make_kernel: MakeKernel, target: Target) -> None:
    bare = choose(
        make_kernel(matmul(tensor(1, 64, 128), make_permute(tensor(2, 96, 128), (1, 0)))), target
    )
    biased = choose(
        make_kernel(linear(tensor(1, 64, 128), tensor(2, 96, 128), tensor(3, 96))), target
    )
    assert opts_of(biased, OptOp.UPCAST, OptOp.OVERLAP) == opts_of(
        bare, OptOp.UPCAST, OptOp.OVERLAP
    )


def strided_product(n_channels: int, n_places: int) -> UOp:
    """`filters @ image`, of which every second column is read, as a convolution with a
    stride does.
    """
    image = make_shrink(
        make_reshape(tensor(1, 256, 2 * n_places), (256, n_places, 2)),
        [(0, 256), (0, n_places), (0, 1)],
    )
    return matmul(tensor(2, n_channels, 256), make_reshape(image, (256, n_places)))


def test_filters_become_lanes_where_the_pixels_of_an_image_cannot(
    make_kernel: MakeKernel, target: Target
) -> None:
    kernel = make_kernel(strided_product(128, 49))
    assert opts_of(choose(kernel, target), OptOp.PACK)
    fused = {
        n.dtype.lanes for n in lower(kernel, target) if n.op is Op.MUL and n.dtype.kind == "float"
    }
    assert fused and all(lanes % target.lanes(float32) == 0 for lanes in fused)


def test_a_tile_shares_what_is_loaded_in_vectors(make_kernel: MakeKernel, target: Target) -> None:
    image = make_expand(make_reshape(tensor(1, 16, 128, 128), (1, 16, 128, 128)), (8, 16, 128, 128))
    filters = make_expand(make_reshape(tensor(2, 8, 16), (8, 16, 1, 1)), (8, 16, 128, 128))
    nodes = lower(make_kernel(make_reshape(reduce(image * filters, 1), (8, 128, 128))), target)
    loads = [n for n in nodes if n.op is Op.LOAD and n.src[0].src[0].op is Op.PARAM]
    n_vectors = sum(n.dtype.lanes > 1 for n in loads)
    assert n_vectors < len(loads) - n_vectors


def test_the_operand_with_more_rows_to_serve_is_packed(make_kernel: MakeKernel) -> None:
    def packed(n_rows: int) -> int:
        kernel = make_kernel(
            matmul(tensor(1, n_rows, 1024), make_permute(tensor(2, 768, 1024), (1, 0)))
        )
        chosen = choose(kernel, AVX512)
        assert opts_of(chosen, OptOp.PACK)
        register = next(n for n in chosen.scheduler.sink.iter_ops(Op.DEFINE_REG) if n.arg[1] > 1)
        fill = next(
            n for n in chosen.scheduler.sink.iter_ops(Op.STORE) if register in n.src[0].toposort()
        )
        return next(n.src[0].arg.slot for n in fill.src[1].toposort() if n.op is Op.INDEX)

    # Few rows are turned round themselves; for many it is the weights, so that results are stored
    # in vectors.
    assert (packed(128), packed(2048)) == (1, 2)


def test_a_transposed_weight_is_packed_in_whole_vectors(make_kernel: MakeKernel) -> None:
    product = matmul(tensor(1, 128, 512), make_permute(tensor(2, 512, 512), (1, 0)))
    target = replace(AVX512, cores=1)
    kernel = make_kernel(product)
    assert opts_of(choose(kernel, target), OptOp.PACK)
    nodes = lower(kernel, target)
    # Read as vectors along the rows of the weight, transposed in registers, stored as vectors.
    assert widths(nodes, Op.LOAD, 2) == {8}
    stored = [n.location for n in nodes if n.op is Op.STORE]
    assert min(location.dtype.lanes for location in stored) == 8
    assert all(
        location.position.dtype.lanes == 1 for location in stored
    )  # the first of adjacent ones


@pytest.mark.parametrize("n_rows", [2, 8, 16, 24, 48, 64])
def test_few_rows_take_lanes_along_a_long_reduction_and_copy_nothing(
    make_kernel: MakeKernel, n_rows: int
) -> None:
    kernel = make_kernel(matmul(tensor(1, n_rows, 512), make_permute(tensor(2, 768, 512), (1, 0))))
    chosen = choose(kernel, replace(AVX512, cores=1))
    assert not opts_of(chosen, OptOp.PACK)
    assert [o.amount for o in opts_of(chosen, OptOp.UNROLL)] == [16]


def transposed_product(n_rows: int, depth: int, n_columns: int) -> UOp:
    """`x.T @ w.T`: rows are contiguous in `x`, and the reduction in `w`."""
    rows = make_permute(tensor(1, depth, n_rows), (1, 0))
    return matmul(rows, make_permute(tensor(2, n_columns, depth), (1, 0)))


@pytest.mark.parametrize("n_rows", [5, 9, 16])
def test_rows_become_lanes_where_the_weight_is_transposed(
    make_kernel: MakeKernel, n_rows: int
) -> None:
    chosen = choose(make_kernel(transposed_product(n_rows, 640, 768)), replace(AVX512, cores=1))
    assert not opts_of(chosen, OptOp.PACK, OptOp.UNROLL)
    lanes = opts_of(chosen, OptOp.UPCAST, OptOp.OVERLAP)[0]
    # Axis 1 after the swap that puts the longer axis outside.
    assert (lanes.axis, lanes.amount) == (1, {5: 4, 9: 8, 16: 16}[n_rows])


@pytest.mark.parametrize("n_rows", [2, 3, 4])
def test_the_reduction_is_vectorized_for_fewer_rows(make_kernel: MakeKernel, n_rows: int) -> None:
    chosen = choose(make_kernel(transposed_product(n_rows, 640, 768)), replace(AVX512, cores=1))
    assert [o.amount for o in opts_of(chosen, OptOp.UNROLL)] == [16]


@pytest.mark.parametrize(("depth", "amount"), [(2048, 8), (2064, 12)])
def test_rows_of_a_tile_do_not_evict_each_other(
    make_kernel: MakeKernel, depth: int, amount: int
) -> None:
    target = replace(AVX512, cores=1, l1_bytes=32 << 10)
    chosen = choose(make_kernel(transposed_product(16, depth, 768)), target)
    assert amount in {o.amount for o in opts_of(chosen, OptOp.UPCAST, OptOp.OVERLAP) if o.axis == 0}


def test_rows_in_several_axes_are_counted_together(make_kernel: MakeKernel) -> None:
    rows = make_permute(tensor(1, 512, 4, 512), (1, 0, 2))
    weight = make_reshape(tensor(2, 768, 512), (1, 1, 768, 512))
    shape = (4, 512, 768, 512)
    product = make_expand(make_reshape(rows, (4, 512, 1, 512)), shape) * make_expand(weight, shape)
    assert opts_of(choose(make_kernel(reduce(product, 3)), AVX512), OptOp.PACK)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("n_rows", [16, 17, 24, 31])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_rows_that_fill_one_panel_are_not_the_ones_that_are_packed(
    make_kernel: MakeKernel, n_rows: int, cores: int, is_transposed: bool
) -> None:
    # One panel is for all results: on one core there is no loop left in which to copy it.
    weight = make_permute(tensor(2, 768, 120), (1, 0)) if is_transposed else tensor(2, 120, 768)
    kernel = make_kernel(matmul(tensor(1, n_rows, 120), weight))
    scheduler = choose(kernel, replace(AVX512, cores=cores)).scheduler
    registers = [n for n in scheduler.sink.iter_ops(Op.DEFINE_REG) if n.arg[1] > 1]
    fills = [
        n
        for n in scheduler.sink.iter_ops(Op.STORE)
        if any(r in n.src[0].toposort() for r in registers)
    ]
    copied = {n.src[0].arg.slot for f in fills for n in f.src[1].toposort() if n.op is Op.INDEX}
    assert copied == {2}


@pytest.mark.parametrize("layout", ["x @ w", "x.T @ w", "x @ w.T", "x.T @ w.T"])
@pytest.mark.parametrize("dtype", [float16, bfloat16, uint8], ids=str)
def test_rows_of_narrow_numbers_are_converted_once_for_a_panel(
    make_kernel: MakeKernel, dtype: DType, layout: str
) -> None:
    n_rows, n_columns, depth = 37, 17, 9
    is_turned, is_transposed = layout.startswith("x.T"), layout.endswith("w.T")
    x = tensor(1, *((depth, n_rows) if is_turned else (n_rows, depth)), dtype=dtype)
    w = tensor(2, *((n_columns, depth) if is_transposed else (depth, n_columns)), dtype=dtype)
    operands = (
        make_permute(n, (1, 0)) if t else n for n, t in ((x, is_turned), (w, is_transposed))
    )
    kernel = make_kernel(matmul(*(n.cast(float32) for n in operands)))
    chosen = choose(kernel, AVX512)
    assert len(opts_of(chosen, OptOp.PACK)) == 2
    optimized = chosen.scheduler.finish()
    (product,) = optimized.iter_ops(Op.REDUCE)
    assert {n.dtype for n in product.source.src} == {float32}
    assert all(n.op is Op.INDEX and n.memory.op is Op.AFTER for n in product.source.src)
    if dtype is float16:
        assert_same(kernel, optimized)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("n_columns", [16, 17, 24, 40])
def test_a_few_strided_columns_are_packed_once_for_all_rows(
    make_kernel: MakeKernel, n_columns: int, cores: int
) -> None:
    kernel = make_kernel(matmul(tensor(1, 4096, 8), make_permute(tensor(2, n_columns, 8), (1, 0))))
    scheduler = choose(kernel, replace(AVX512, cores=cores)).scheduler
    registers = [n for n in scheduler.sink.iter_ops(Op.DEFINE_REG) if n.arg[1] > 1]
    fills = [
        n
        for n in scheduler.sink.iter_ops(Op.STORE)
        if any(r in n.src[0].toposort() for r in registers)
    ]
    copied = {n.src[0].arg.slot for f in fills for n in f.src[1].toposort() if n.op is Op.INDEX}
    assert copied == {2}


def test_a_kernel_with_much_work_is_split_over_all_threads_once(
    make_kernel: MakeKernel, target: Target
) -> None:
    (opt,) = opts_of(choose(make_kernel(tensor(1, 1 << 20) * 2), target), OptOp.THREAD)
    assert opt.amount == target.cores


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
def test_there_are_as_many_parts_as_cores(make_kernel: MakeKernel, cores: int) -> None:
    opts = opts_of(
        choose(make_kernel(tensor(1, 1 << 20) * 2), replace(AVX2, cores=cores)), OptOp.THREAD
    )
    assert [o.amount for o in opts] == ([cores] if cores > 1 else [])


SHARED = replace(AVX2, cores=2, parts_per_core=8)


@pytest.mark.parametrize(
    ("size", "n_parts"),
    [
        (1 << 22, 16),
        # Few elements are not worth many parts.
        (1 << 18, 4),
        (1 << 16, 2),
    ],
)
def test_a_target_whose_threads_share_parts_gets_several_per_core(
    make_kernel: MakeKernel, size: int, n_parts: int
) -> None:
    kernel = make_kernel(tensor(1, size) * 2)
    (opt,) = opts_of(choose(kernel, SHARED), OptOp.THREAD)
    assert opt.amount == n_parts


def test_threads_split_the_loop_that_has_many_iterations(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(make_permute(tensor(1, 1000, 2, 500), (1, 0, 2)) * 2)
    (opt,) = opts_of(choose(kernel, replace(SHARED, parts_per_core=1)), OptOp.THREAD)
    assert (opt.axis, opt.amount) == (0, 2)
    (opt,) = opts_of(choose(kernel, SHARED), OptOp.THREAD)
    assert opt.axis == 1
    assert opt.amount > 8


@pytest.mark.parametrize(("size", "n_parts"), [(1024, 16), (1029, 7), (1021, 16)])
def test_an_update_in_place_has_even_parts(size: int, n_parts: int) -> None:
    rows, columns = UOp.range(size, 0, AxisType.LOOP), UOp.range(2048, 1, AxisType.LOOP)
    x = param(0, size * 2048).index(rows * 2048 + columns)
    kernel = UOp.sink(x.store(x * 2).end(rows, columns), arg=KernelInfo())
    chosen = choose(kernel, SHARED)
    (opt,) = opts_of(chosen, OptOp.THREAD)
    assert opt.amount == n_parts
    assert bool(opts_of(chosen, OptOp.PADTO)) == (size % n_parts != 0)


def test_rows_that_no_number_of_parts_divides_overlap(make_kernel: MakeKernel) -> None:
    scheduler = choose(make_kernel(softmax(tensor(1, 499, 512))), SHARED).scheduler
    thread = next(r for r in scheduler.axes if r.arg[1] is AxisType.THREAD)
    assert 2 < int(thread.vmax) + 1 < 499


@pytest.mark.parametrize("size", [MIN_THREADED_WORK // 2, MIN_THREADED_WORK * 2])
def test_only_work_above_the_threshold_is_split(make_kernel: MakeKernel, size: int) -> None:
    opts = opts_of(choose(make_kernel(tensor(1, size) * 2), AVX2), OptOp.THREAD)
    assert bool(opts) == (size > MIN_THREADED_WORK)


def test_sequential_loops_do_not_multiply_each_others_work(
    make_kernel: MakeKernel,
) -> None:
    small = make_kernel(softmax(tensor(1, 8, 32)))
    assert not opts_of(choose(small, AVX2), OptOp.THREAD)


def test_softmax_of_many_rows_is_split_by_rows(make_kernel: MakeKernel) -> None:
    scheduler = choose(make_kernel(softmax(tensor(1, 512, 512))), AVX2).scheduler
    thread = next(r for r in scheduler.axes if r.arg[1] is AxisType.THREAD)
    assert int(thread.vmax) + 1 == AVX2.cores
    assert all(thread in n.ranges for n in scheduler.sink.iter_ops(Op.REDUCE))


def test_vectors_overlap_along_a_row_in_private_memory(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(softmax(tensor(1, 6, 500)))
    chosen = choose(kernel, replace(AVX512, cores=1))
    assert any(n.op is Op.DEFINE_REG for n in kernel.toposort())
    # The loop that fills the row, and the one that stores it.
    assert [o.axis for o in opts_of(chosen, OptOp.OVERLAP)] == [1, 2]
    assert not opts_of(chosen, OptOp.PADTO)


def look_up(dtype: DType) -> UOp:
    positions = make_alu(Op.ADD, tensor(2, 256, dtype=int32), tensor(3, 256, dtype=int32))
    return make_gather(tensor(1, 100, dtype=dtype), positions, 0)


def test_a_lookup_is_gathered_for_lanes_where_the_target_can(make_kernel: MakeKernel) -> None:
    kernel = make_kernel(look_up(float32))
    assert [o.amount for o in opts_of(choose(kernel, AVX512), OptOp.UPCAST)] == [64]
    assert not opts_of(choose(kernel, AVX2), OptOp.UPCAST)
    assert_same(kernel, lower(kernel, AVX512))


def test_narrow_elements_are_gathered_as_scalars(make_kernel: MakeKernel) -> None:
    assert not opts_of(choose(make_kernel(look_up(uint8)), AVX512), OptOp.UPCAST)


def test_loops_that_select_a_panel_go_outwards_even_if_one_of_them_cannot() -> None:
    class Reluctant(Scheduler):
        def try_opt(self, opt: Opt) -> bool:
            return opt != Opt(OptOp.SWAP, 3, 4) and super().try_opt(opt)

    rows, panels = make_permute(tensor(1, 6, 8, 64, 256), (1, 0, 2, 3)), tensor(2, 16, 512, 256)
    shape = (8, 6, 16, 64, 512, 256)
    left = make_expand(make_reshape(rows, (8, 6, 1, 64, 1, 256)), shape)
    right = make_expand(make_reshape(panels, (1, 1, 16, 1, 512, 256)), shape)
    context = Context(target=Target.generic(cores=1))
    graph = run_pipeline(
        "rangeify", UOp.sink(make_reduce_axis(left * right, Op.ADD, (5,))), context
    )
    (call,) = run_pipeline("kernelize", graph, context).iter_ops(Op.CALL)
    kernel = run_pipeline("optimize", call.src[0], context, until="apply-opts")
    scheduler = Reluctant(kernel, context.target)
    list(answer(scheduler, vectors.iter_questions(make_facts(kernel, context.target), scheduler)))
    assert scheduler.applied_opts[:2] == [Opt(OptOp.SWAP, 1, 2), Opt(OptOp.SWAP, 0, 1)]
