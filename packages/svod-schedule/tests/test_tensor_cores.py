"""Tensor cores: which products they take, and that a kernel that uses one computes what the plain
kernel does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_dtype import DType, bfloat16, float32, int8, int16, int32, int64, uint8
from svod_ir import (
    AxisType,
    IROptions,
    KernelInfo,
    Op,
    Opt,
    OptOp,
    SInt,
    Target,
    TensorCore,
    UOp,
    format_opts,
    make_expand,
    make_permute,
    make_reduce_axis,
    make_reshape,
)
from svod_ir.testing import assert_same, count_examples
from svod_ir.testing.nodes import param, reduce_over
from svod_ir.testing.programs import fit, matmul, reduce, tensor
from svod_ir.uop import to_node
from svod_schedule.errors import OptError
from svod_schedule.linearize import linearize
from svod_schedule.optimize import Scheduler, apply_opts, choose
from svod_schedule.optimize.cost_model.expected_time import estimate_cost
from svod_schedule.optimize.opts.actions import iter_actions, iter_neighbours
from svod_schedule.pipeline import Context, run_pipeline

BYTES = TensorCore((16, 1, 4), 4, (uint8, int8, int32), cycles=0.5)
WORDS = TensorCore((8, 1, 2), 2, (int16, int16, int32), cycles=0.5)
HALVES = TensorCore((16, 1, 2), 2, (bfloat16, bfloat16, float32), cycles=0.5)
SQUARE = TensorCore((4, 4, 8), 4, (uint8, int8, int32), cycles=1.0, tiles=8)
HALF_SQUARE = TensorCore((4, 3, 4), 2, (bfloat16, bfloat16, float32), cycles=1.0, tiles=8)
CORES = (BYTES, WORDS, HALVES, SQUARE, HALF_SQUARE)
TARGET = replace(
    Target.generic(cores=2),
    vector_bits=512,
    vector_registers=32,
    has_masked_access=True,
    has_gather=True,
    tensor_cores=CORES,
)
OPERANDS: dict[TensorCore, list[tuple[DType, DType]]] = {
    BYTES: [(uint8, int8), (int8, uint8)],
    WORDS: [(int16, int16), (int8, int8), (uint8, int16)],
    HALVES: [(bfloat16, bfloat16)],
    SQUARE: [(uint8, int8)],
    HALF_SQUARE: [(bfloat16, bfloat16)],
}
MakeKernel = Callable[[UOp], UOp]


def make_matrix(
    number: int, rows: int, columns: int, dtype: DType, *, is_transposed: bool = False
) -> UOp:
    if is_transposed:
        return make_permute(tensor(number, columns, rows, dtype=dtype), (1, 0))
    return tensor(number, rows, columns, dtype=dtype)


def multiply(x: UOp, y: UOp, total: DType) -> UOp:
    return matmul(x.cast(total), y.cast(total))


def compiled(sink: UOp, opts: tuple[Opt, ...], target: Target = TARGET) -> tuple[UOp, ...]:
    context = Context(target=target, opts=opts, options=IROptions(check=True))
    return linearize(run_pipeline("lower", apply_opts(sink, target, opts), context))


def check(sink: UOp, opts: tuple[Opt, ...], target: Target = TARGET) -> None:
    """The kernel with these Opts computes the same, before and after it is lowered, and has
    a WMMA.
    """
    optimized = apply_opts(sink, target, opts)
    assert optimized.arg.applied_opts == opts
    assert_same(sink, optimized)
    linear = compiled(sink, opts, target)
    assert any(n.op is Op.WMMA for n in linear)
    assert_same(sink, linear)


SIZES = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 20))
LATER = st.lists(
    st.one_of(
        st.builds(
            Opt,
            st.sampled_from(
                (OptOp.UPCAST, OptOp.OVERLAP, OptOp.UNROLL, OptOp.PACK, OptOp.SPLIT, OptOp.PADTO)
            ),
            st.integers(0, 2),
            st.sampled_from((0, 2, 3)),
        ),
        st.just(Opt(OptOp.PACK)),
        st.builds(Opt, st.just(OptOp.THREAD), st.integers(0, 2), st.just(2)),
        st.builds(Opt, st.just(OptOp.SWAP), st.integers(0, 2), st.integers(0, 2)),
    ),
    max_size=5,
)


def draw_product(make_kernel: MakeKernel, data: st.DataObject) -> tuple[TensorCore, UOp]:
    """A core, and a product of matrices of its dtypes in some order of their axes."""
    core = data.draw(st.sampled_from(CORES))
    x, y = data.draw(st.sampled_from(OPERANDS[core]))
    m, n, k = (data.draw(SIZES) for _ in range(3))
    left = make_matrix(1, m, k, x, is_transposed=data.draw(st.booleans()))
    right = make_matrix(2, k, n, y, is_transposed=data.draw(st.booleans()))
    sink = make_kernel(multiply(left, right, core.dtypes[2]))
    return core, sink


@settings(max_examples=count_examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_opts_after_tc_preserve_the_results(
    make_kernel: MakeKernel, data: st.DataObject
) -> None:
    core, sink = draw_product(make_kernel, data)
    scheduler = Scheduler(sink, TARGET)
    if not scheduler.try_opt(Opt(OptOp.TC, data.draw(st.integers(0, 1)), CORES.index(core))):
        return
    for opt in data.draw(LATER):
        scheduler.try_opt(opt)
    check(sink, tuple(scheduler.applied_opts))


EPILOGUES: dict[str, Callable[[UOp], UOp]] = {
    "a bias, an activation and a conversion": lambda p: (
        (
            (p + fit(tensor(3, int(p.shape[-1]), dtype=int32), p.shape)).alu(Op.MAX, 0) // 8  # pyright: ignore[reportArgumentType]
        ).cast(int8)
    ),
    "a scale in float": lambda p: p.cast(float32) * 0.25,
    "another axis order": lambda p: make_permute(p, tuple(reversed(range(len(p.shape))))),
}


@pytest.mark.parametrize("core", [BYTES, SQUARE], ids=str)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_the_epilogue_of_a_product_stays_in_its_kernel(
    make_kernel: MakeKernel, core: TensorCore, epilogue: str
) -> None:
    product = multiply(tensor(1, 6, 10, dtype=uint8), tensor(2, 10, 20, dtype=int8), int32)
    sink = make_kernel(EPILOGUES[epilogue](product))
    tc = Opt(OptOp.TC, 0, CORES.index(core))
    check(sink, (tc,))
    check(sink, (tc, Opt(OptOp.UPCAST, 1, 0), Opt(OptOp.PACK, 0)))
    check(sink, (tc, Opt(OptOp.OVERLAP, 0, 2)))


@pytest.mark.parametrize("k", [8, 13])
@pytest.mark.parametrize(
    "opts",
    [(), (Opt(OptOp.PACK), Opt(OptOp.PACK, 0)), (Opt(OptOp.UPCAST, 0, 2), Opt(OptOp.PACK, 0))],
)
def test_operands_may_be_integers_known_to_be_small(
    make_kernel: MakeKernel, k: int, opts: tuple[Opt, ...]
) -> None:
    x, y = (
        tensor(1, 6, k, dtype=uint8).cast(int32),
        make_matrix(2, k, 20, int8, is_transposed=True).cast(int32),
    )
    check(make_kernel(matmul(x - 3, y + 5)), (Opt(OptOp.TC, 0, CORES.index(WORDS)), *opts))
    check(make_kernel(matmul(x & 127, y >> 1)), (Opt(OptOp.TC, 0, CORES.index(SQUARE)), *opts))


def test_batches_are_loops_around_the_tiles(make_kernel: MakeKernel) -> None:
    sink = make_kernel(
        multiply(tensor(1, 3, 5, 8, dtype=uint8), tensor(2, 3, 8, 16, dtype=int8), int32)
    )
    for core in (BYTES, SQUARE):
        check(sink, (Opt(OptOp.TC, 0, CORES.index(core)), Opt(OptOp.PACK, 0), Opt(OptOp.PACK, 1)))


def test_other_reduced_axes_stay_loops(make_kernel: MakeKernel) -> None:
    x, y = tensor(1, 6, 3, 8, dtype=uint8), tensor(2, 16, 8, 3, dtype=int8)
    left = fit(make_permute(x, (0, 1, 2)).cast(int32), (16, 6, 3, 8))
    right = make_permute(fit(make_permute(y, (0, 2, 1)).cast(int32), (6, 16, 3, 8)), (1, 0, 2, 3))
    sink = make_kernel(make_reduce_axis(left * right, Op.ADD, [2, 3]))
    for core in (BYTES, SQUARE):
        check(sink, (Opt(OptOp.TC, 0, CORES.index(core)), Opt(OptOp.PACK, 0)))


def test_two_sums_over_one_axis_have_separate_accumulators() -> None:
    row, column, k = (
        UOp.range(n, i, t)
        for i, (n, t) in enumerate(((6, AxisType.LOOP), (16, AxisType.LOOP), (10, AxisType.REDUCE)))
    )
    out, x, y = (param(i, 256, d) for i, d in enumerate((int32, uint8, int8)))
    left = x.index(row * 10 + k).cast(int32)
    product = reduce_over(left * y.index(k * 16 + column).cast(int32), k)
    total = reduce_over(left, k)
    sink = UOp.sink(
        out.index(row * 16 + column).store(product - total * 3).end(row, column), arg=KernelInfo()
    )
    check(sink, (Opt(OptOp.TC, 0, 0), Opt(OptOp.UPCAST, 0, 2)))
    check(sink, (Opt(OptOp.TC, 0, 3), Opt(OptOp.PACK, 0)))


def test_a_tile_of_several_rows_is_stored_to_private_memory_as_it_is(
    make_kernel: MakeKernel,
) -> None:
    product = multiply(tensor(1, 8, 16, dtype=uint8), tensor(2, 16, 8, dtype=int8), int32)
    opts = (
        Opt(OptOp.TC, 0, 3),
        Opt(OptOp.UPCAST, 1, 2),
        Opt(OptOp.UPCAST, 0, 2),
        Opt(OptOp.UNROLL, 0, 2),
    )
    for node in compiled(make_kernel(product + 1), opts):
        if node.dtype.lanes == 16 and node.dtype.scalar is int32:
            assert node.op in (Op.WMMA, Op.LOAD, Op.INDEX, Op.AFTER, Op.DEFINE_REG, Op.VCONST), node


def test_packed_operands_are_read_as_whole_vectors(make_kernel: MakeKernel) -> None:
    product = multiply(
        tensor(1, 9, 21, dtype=uint8), make_matrix(2, 21, 40, int8, is_transposed=True), int32
    )
    for core in (BYTES, SQUARE):
        n, _, k = core.dims
        opts = (
            Opt(OptOp.TC, 0, CORES.index(core)),
            Opt(OptOp.SWAP, 0, 1),
            Opt(OptOp.PACK, 0),
            Opt(OptOp.PACK, 1),
        )
        wmmas = [u for u in compiled(make_kernel(product), opts) if u.op is Op.WMMA]
        for a, b, _ in (w.src for w in wmmas):
            assert (a.op, b.op) == (Op.LOAD, Op.LOAD)
            assert not any(
                x.op is Op.PARAM or x.gate is not None
                for x in (a.src[0], b.src[0])
                if x.op is Op.INDEX
            )
            assert b.dtype.lanes == n * k


def test_the_vectors_of_a_transposed_operand_are_packed_sequentially(
    make_kernel: MakeKernel,
) -> None:
    """Each reads from as many rows as it has columns; so many lines of memory at once are still in
    the cache at the next step.
    """
    product = multiply(
        tensor(1, 4, 40, dtype=uint8), make_matrix(2, 40, 64, int8, is_transposed=True), int32
    )
    opts = (Opt(OptOp.TC, 0, 0), Opt(OptOp.SWAP, 0, 1), Opt(OptOp.UPCAST, 0, 4), Opt(OptOp.PACK, 0))
    check(make_kernel(product), opts)
    loads = [
        n
        for n in compiled(make_kernel(product), opts)
        if n.op is Op.LOAD and n.dtype.scalar is int8
    ]
    assert [n.dtype.lanes for n in loads].count(BYTES.group) == BYTES.dims[0]


def test_rows_that_are_contiguous_when_read_are_stored_as_scalars(
    make_kernel: MakeKernel,
) -> None:
    """Two rows of a transposed operand are read as one vector, and packed far from each other."""
    rows = make_permute(tensor(1, 4, 9, 4, dtype=uint8), (0, 2, 1))
    columns = make_expand(make_reshape(tensor(2, 9, 20, dtype=int8), (1, 9, 20)), (4, 9, 20))
    target = replace(TARGET, tensor_cores=(SQUARE,))
    sink = make_kernel(multiply(rows, columns, int32))
    opts = (Opt(OptOp.TC, 0, 0), Opt(OptOp.UPCAST, 0, 2), Opt(OptOp.PACK), Opt(OptOp.PACK, 1))
    check(sink, opts, target)


def test_a_loop_of_one_iteration_has_no_repeated_load_to_pack(
    make_kernel: MakeKernel,
) -> None:
    """Four rows are one tile, and its loop stands outside: all columns would be packed in it."""
    core = TensorCore((16, 16, 32), 2, (bfloat16, bfloat16, float32), cycles=16.0, tiles=8)
    columns = make_matrix(2, 2048, 5632, bfloat16, is_transposed=True)
    sink = make_kernel(multiply(tensor(1, 4, 2048, dtype=bfloat16), columns, float32))
    target = replace(TARGET, tensor_cores=(core,))
    opts = chosen(sink, target)
    assert opts[0].op is OptOp.TC
    packed = [n.arg.size for n in apply_opts(sink, target, opts).iter_ops(Op.DEFINE_REG)]
    assert packed
    assert max(packed) <= 2 * 16 * 2048


def test_more_than_a_stack_holds_is_not_packed(make_kernel: MakeKernel) -> None:
    sink = make_kernel(matmul(tensor(1, 64, 4096), tensor(2, 4096, 512)))
    scheduler = Scheduler(sink, replace(TARGET, tensor_cores=()))
    assert not scheduler.try_opt(Opt(OptOp.PACK))
    assert scheduler.try_opt(Opt(OptOp.SWAP, 0, 1))
    assert scheduler.try_opt(Opt(OptOp.PACK))


def test_a_reduction_of_a_tensor_core_is_neither_grouped_nor_padded(
    make_kernel: MakeKernel,
) -> None:
    sink = make_kernel(
        multiply(tensor(1, 16, 64, dtype=uint8), tensor(2, 64, 16, dtype=int8), int32)
    )
    target = replace(TARGET, has_local=True, has_shared=True, shared_bytes=4096, max_local=64)
    scheduler = Scheduler(sink, target)
    scheduler.apply_opt(Opt(OptOp.TC, 0, 0))
    (depth,) = (i for i, r in enumerate(scheduler.axes) if r.arg.kind is AxisType.REDUCE)
    for opt, reason in (
        (Opt(OptOp.GROUP, 0, 2), "it does not follow TC"),
        (Opt(OptOp.PADTO, depth, 3), "a tensor core takes the axis in whole steps"),
    ):
        with pytest.raises(OptError, match=reason):
            scheduler.apply_opt(opt)


@pytest.mark.parametrize("core", [BYTES, SQUARE])
def test_a_product_that_is_added_to_its_output_is_added_once(core: TensorCore) -> None:
    row, column = (UOp.range(size, i, AxisType.LOOP) for i, size in enumerate((5, 18)))
    k = UOp.range(8, 2, AxisType.REDUCE)
    out, x, y = (param(slot, 400, dtype) for slot, dtype in enumerate((int32, uint8, int8)))
    factors = x.index(row * 8 + k).cast(int32) * y.index(k * 18 + column).cast(int32)
    location = out.index(row * 18 + column)
    store = location.store(location + reduce_over(factors, k))
    sink = UOp.sink(store.end(row, column), arg=KernelInfo())
    check(sink, (Opt(OptOp.TC, 0, CORES.index(core)),))


def test_a_long_sum_of_vectors_is_taken_in_blocks_and_one_of_tiles_is_not(
    make_kernel: MakeKernel,
) -> None:
    product = multiply(
        tensor(1, 3, 5000, dtype=bfloat16), tensor(2, 5000, 16, dtype=bfloat16), float32
    )
    sink = make_kernel(product)
    for core, has_blocks in ((HALVES, True), (HALF_SQUARE, False)):
        linear = compiled(sink, (Opt(OptOp.TC, 0, CORES.index(core)),))
        assert (
            sum(n.op is Op.RANGE and n.arg[1] is AxisType.REDUCE for n in linear) > 1
        ) is has_blocks


def make_square(x: DType, y: DType, total: DType) -> UOp:
    return multiply(tensor(1, 8, 8, dtype=x), tensor(2, 8, 8, dtype=y), total)


REFUSED: dict[str, tuple[Callable[[], UOp], Opt, str]] = {
    "no such core": (
        lambda: make_square(uint8, int8, int32),
        Opt(OptOp.TC, 0, 9),
        "core 9 is out of bounds for 5 tensor cores",
    ),
    "no such way": (
        lambda: make_square(uint8, int8, int32),
        Opt(OptOp.TC, 4, 0),
        "layout 4 is out of bounds for 1 layouts",
    ),
    "no way given": (
        lambda: make_square(uint8, int8, int32),
        Opt(OptOp.TC, None, 0),
        "it needs a layout",
    ),
    "no sum": (lambda: tensor(1, 8) * 2, Opt(OptOp.TC, 0, 0), "the kernel has no reduction"),
    "a sum of no products": (
        lambda: reduce(tensor(1, 4, 8), 1),
        Opt(OptOp.TC, 0, 0),
        "the kernel has no sum of products of two loads",
    ),
    "a maximum": (
        lambda: reduce(tensor(1, 4, 8) * tensor(2, 4, 8), 1, Op.MAX),
        Opt(OptOp.TC, 0, 0),
        "the kernel has no sum of products of two loads",
    ),
    "another sum": (
        lambda: make_square(uint8, int8, int64),
        Opt(OptOp.TC, 0, 0),
        "the products are added up in int64, not in int32",
    ),
    "operands that do not fit": (
        lambda: make_square(uint8, uint8, int32),
        Opt(OptOp.TC, 0, 0),
        "the operands are uint8 and uint8, but the core takes uint8 and int8",
    ),
    "integers that may be too large": (
        lambda: matmul(
            tensor(1, 8, 8, dtype=uint8).cast(int32) - 3, tensor(2, 8, 8, dtype=int8).cast(int32)
        ),
        Opt(OptOp.TC, 0, 0),
        "the operands are int32 and int8, but the core takes uint8 and int8",
    ),
    "a vector times itself": (
        lambda: reduce(
            tensor(1, 4, 8, dtype=uint8).cast(int32) * tensor(2, 4, 8, dtype=int8).cast(int32), 1
        ),
        Opt(OptOp.TC, 0, 0),
        "no axis of the results belongs to a single operand",
    ),
    "one row where the core has several": (
        lambda: multiply(tensor(1, 1, 8, dtype=uint8), tensor(2, 8, 8, dtype=int8), int32),
        Opt(OptOp.TC, 0, 3),
        "no axis of the results belongs to a single operand",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_has_a_reason_and_leaves_the_kernel_unchanged(
    make_kernel: MakeKernel, case: str
) -> None:
    make, opt, reason = REFUSED[case]
    scheduler = Scheduler(make_kernel(make()), TARGET)
    before = scheduler.sink
    with pytest.raises(OptError) as error:
        scheduler.apply_opt(opt)
    assert (error.value.opt, error.value.reason) == (opt, reason)
    assert scheduler.sink is before
    assert scheduler.applied_opts == []


def test_the_steps_of_a_core_are_not_padded(make_kernel: MakeKernel) -> None:
    scheduler = Scheduler(make_kernel(make_square(uint8, int8, int32)), TARGET)
    scheduler.apply_opt(Opt(OptOp.TC, 0, 0))
    steps = next(i for i, r in enumerate(scheduler.axes) if r.arg[1] is AxisType.REDUCE)
    with pytest.raises(OptError, match="a tensor core takes the axis in whole steps"):
        scheduler.apply_opt(Opt(OptOp.PADTO, steps, 4))


def chosen(sink: UOp, target: Target = TARGET) -> tuple[Opt, ...]:
    return choose(sink, target).opts


CHOICES: dict[str, tuple[tuple[DType, DType], int, tuple[TensorCore, ...], str]] = {
    "rows that are read where they lie": (
        (uint8, int8),
        16,
        (BYTES,),
        "TC(0, 0) SWAP(0, 1) UPCAST(0, 0) UPCAST(0, 4) THREAD(0, 2) PACK()",
    ),
    "rows whose ends are filled up": (
        (uint8, int8),
        17,
        (BYTES,),
        "TC(0, 0) UPCAST(1, 0) UPCAST(0, 4) THREAD(0, 2) PACK() PACK(1)",
    ),
    "operands that are widened": (
        (int8, int8),
        16,
        (BYTES, WORDS),
        "TC(0, 1) UPCAST(1, 4) UPCAST(0, 4) THREAD(0, 2) PACK() PACK(1)",
    ),
    "operands in the order that the core takes": (
        (int8, uint8),
        16,
        (BYTES,),
        "TC(0, 0) UPCAST(0, 0) UPCAST(0, 8) THREAD(0, 2) PACK() PACK(1)",
    ),
    "tiles of several rows": (
        (uint8, int8),
        16,
        (SQUARE,),
        "TC(0, 0) UPCAST(1, 2) UPCAST(0, 2) THREAD(0, 2) PACK() PACK(1)",
    ),
}
"""Dtypes and length of the operands of a product of 32 rows and 64 columns, what the target has,
and what is chosen.
"""


@pytest.mark.parametrize("case", CHOICES)
def test_heuristics_give_a_product_to_a_core(make_kernel: MakeKernel, case: str) -> None:
    (x, y), k, cores, expected = CHOICES[case]
    target = replace(TARGET, tensor_cores=cores)
    sink = make_kernel(multiply(tensor(1, 32, k, dtype=x), tensor(2, k, 64, dtype=y), int32))
    opts = chosen(sink, target)
    assert format_opts(opts) == expected
    assert any(n.op is Op.WMMA for n in compiled(sink, opts, target))


PLAIN: dict[str, Callable[[], UOp]] = {
    "a single row and a transposed matrix": lambda: multiply(
        tensor(1, 1, 64, dtype=uint8), make_matrix(2, 64, 64, int8, is_transposed=True), int32
    ),
    "a single row that vectors need not widen": lambda: multiply(
        tensor(1, 1, 64, dtype=bfloat16), tensor(2, 64, 64, dtype=bfloat16), float32
    ),
    "a single column": lambda: multiply(
        tensor(1, 64, 64, dtype=uint8), tensor(2, 64, 1, dtype=int8), int32
    ),
    "operands that no core takes": lambda: matmul(tensor(1, 32, 32), tensor(2, 32, 32)),
    "no product": lambda: reduce(tensor(1, 32, 32), 1),
    "a core that is no faster": lambda: matmul(
        tensor(1, 32, 3, dtype=bfloat16).cast(float32),
        tensor(2, 3, 5, dtype=bfloat16).cast(float32),
    ),
}


@pytest.mark.parametrize("case", PLAIN)
def test_heuristics_leave_other_kernels_to_vectors(make_kernel: MakeKernel, case: str) -> None:
    sink = make_kernel(PLAIN[case]())
    assert chosen(sink) == chosen(sink, replace(TARGET, tensor_cores=()))


def test_a_single_row_pays_for_a_core_where_vectors_are_widened(make_kernel: MakeKernel) -> None:
    sink = make_kernel(
        multiply(tensor(1, 1, 64, dtype=uint8), tensor(2, 64, 64, dtype=int8), int32)
    )
    opts = chosen(sink)
    assert opts[0].op is OptOp.TC
    assert_same(sink, compiled(sink, opts))


@pytest.mark.parametrize(
    ("n_rows", "depth", "is_packed"),
    [
        (16, 16, False),
        (32, 16, True),
        # A loop of 1 to 4 tiles is expected to run twice.
        (UOp.variable("n", 2, 32), 16, False),
        (UOp.variable("n", 2, 64), 16, True),
        # A tail of the depth is filled up with zeros in the panel.
        (16, 18, True),
    ],
)
def test_columns_are_packed_for_more_than_a_few_tiles(
    n_rows: SInt, depth: int, *, is_packed: bool
) -> None:
    sink = make_varying_product(n_rows, 96, depth)
    target = replace(TARGET, cores=1, tensor_cores=(BYTES,))
    opts = chosen(sink, target)
    assert any(opt.op is OptOp.PACK for opt in opts) == is_packed, format_opts(opts)
    inputs = {} if isinstance(n_rows, int) else {n_rows: 23, n_rows.with_dtype(int32): 23}
    assert_same(sink, compiled(sink, opts, target), inputs=inputs)


def test_heuristics_use_no_core_slower_than_vectors(make_kernel: MakeKernel) -> None:
    sink = make_kernel(
        multiply(tensor(1, 32, 16, dtype=uint8), tensor(2, 16, 64, dtype=int8), int32)
    )
    slow = replace(TARGET, tensor_cores=(replace(BYTES, cycles=4.0),))
    assert chosen(sink, slow) == chosen(sink, replace(TARGET, tensor_cores=()))


@settings(max_examples=count_examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_choice_of_the_heuristics_preserves_the_results_of_a_product(
    make_kernel: MakeKernel, data: st.DataObject
) -> None:
    core, sink = draw_product(make_kernel, data)
    target = replace(TARGET, tensor_cores=(core,))
    opts = chosen(sink, target)
    assert_same(sink, compiled(sink, opts, target))


VARYING = UOp.variable("n", 1, 40)
LONG = UOp.variable("n", 16, 40)


def make_varying_product(m: SInt, n: SInt, k: SInt) -> UOp:
    kinds = (AxisType.LOOP, AxisType.LOOP, AxisType.REDUCE)
    row, column, depth = (
        UOp.range(size, i, kind)
        for i, (size, kind) in enumerate(zip((m, n, k), kinds, strict=True))
    )
    out, x, y = (param(i, 4096, d) for i, d in enumerate((int32, uint8, int8)))
    product = x.index(row * to_node(k) + depth).cast(int32) * y.index(
        depth * to_node(n) + column
    ).cast(int32)
    value = reduce_over(product, depth)
    return UOp.sink(
        out.index(row * to_node(n) + column).store(value).end(row, column), arg=KernelInfo()
    )


@pytest.mark.parametrize(
    ("core", "axis", "size"),
    [
        (BYTES, 0, VARYING),
        (SQUARE, 0, LONG),
        (SQUARE, 1, VARYING),
        (BYTES, 1, LONG),
        (BYTES, 2, VARYING),
        (SQUARE, 2, LONG),
    ],
)
def test_sizes_may_vary(core: TensorCore, axis: int, size: UOp) -> None:
    m, n, k = (size if i == axis else 18 for i in range(3))
    sink, target = make_varying_product(m, n, k), replace(TARGET, tensor_cores=(core,))
    opts = chosen(sink, target)
    assert opts[0].op is OptOp.TC
    linear = compiled(sink, opts, target)
    for value in (int(size.vmin), 23):
        assert_same(sink, linear, inputs={size: value, size.with_dtype(int32): value})


def find_cost(sink: UOp, opts: tuple[Opt, ...], target: Target = TARGET) -> float:
    return estimate_cost(apply_opts(sink, target, opts), target).seconds


def test_the_cost_model_knows_how_fast_a_core_is(make_kernel: MakeKernel) -> None:
    sink = make_kernel(
        multiply(tensor(1, 256, 256, dtype=uint8), tensor(2, 256, 256, dtype=int8), int32)
    )
    alone = replace(TARGET, tensor_cores=(BYTES,))
    opts = chosen(sink, alone)
    plain = chosen(sink, replace(TARGET, tensor_cores=()))
    assert find_cost(sink, opts, alone) < find_cost(sink, plain, alone) / 2
    slow = replace(TARGET, tensor_cores=(replace(BYTES, cycles=8.0),))
    assert find_cost(sink, opts, slow) > 4 * find_cost(sink, opts, alone)
    # What is not packed is put together again in each step.
    assert find_cost(sink, (Opt(OptOp.TC, 0, 0),), alone) > 2 * find_cost(sink, opts, alone)


def test_a_search_tries_every_core_that_supports_the_product(make_kernel: MakeKernel) -> None:
    sink = make_kernel(multiply(tensor(1, 8, 8, dtype=uint8), tensor(2, 8, 8, dtype=int8), int32))
    actions = {opt for opt in iter_actions(Scheduler(sink, TARGET)) if opt.op is OptOp.TC}
    assert actions == {Opt(OptOp.TC, 0, CORES.index(core)) for core in (BYTES, WORDS, SQUARE)} | {
        Opt(OptOp.TC, 1, 1)
    }

    def apply(opts: tuple[Opt, ...]) -> Scheduler | None:
        scheduler = Scheduler(sink, TARGET)
        return scheduler if all(scheduler.try_opt(opt) for opt in opts) else None

    plain = (Opt(OptOp.UPCAST, 1, 0), Opt(OptOp.UPCAST, 0, 4))
    assert {
        opts for opts in iter_neighbours(plain, apply) if opts[:1] and opts[0].op is OptOp.TC
    } >= {(a,) for a in actions}
    tiled = (Opt(OptOp.TC, 0, 0), Opt(OptOp.UPCAST, 0, 2))
    assert (Opt(OptOp.TC, 0, 3), Opt(OptOp.UPCAST, 0, 2)) in set(iter_neighbours(tiled, apply))


@pytest.mark.parametrize(("n_rows", "uses_core"), [(2, False), (8, False), (16, True)])
def test_a_weight_that_few_rows_stream_is_read_without_a_core(
    make_kernel: MakeKernel, n_rows: int, uses_core: bool
) -> None:
    target = replace(TARGET, tensor_cores=(HALVES,), l2_bytes=1 << 20)
    rows, weight = (
        tensor(1, n_rows, 1024, dtype=bfloat16),
        tensor(2, 1024, 4096, dtype=bfloat16),
    )
    chosen = choose(make_kernel(multiply(rows, weight, float32)), target)
    assert any(opt.op is OptOp.TC for opt in chosen.opts) is uses_core
