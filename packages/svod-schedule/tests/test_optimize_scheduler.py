"""What each Opt does to a kernel, when it is refused, and that no sequence of them changes what a
kernel computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_dtype import float32, index, int32
from svod_ir import AxisType, IROptions, KernelInfo, Op, Opt, OptOp, Target, UOp, make_scan_axis
from svod_ir.testing import assert_same, count_examples
from svod_ir.testing.nodes import param, reduce_over
from svod_ir.testing.programs import tensor
from svod_ir.uop import to_node
from svod_schedule.errors import OptError
from svod_schedule.linearize import linearize
from svod_schedule.optimize import Scheduler, apply_opts
from svod_schedule.pipeline import Context, run_pipeline

CPU = Target.generic(cores=4)
WIDE = replace(CPU, vector_bits=512, vector_registers=32, has_masked_access=True, has_gather=True)
GPU = replace(CPU, has_local=True, has_shared=True, shared_bytes=4096, max_local=64)

N = UOp.variable("n", 4, 40)
"""A size that is known when the kernel runs."""


def make_copy(*sizes: int | UOp, kinds: tuple[AxisType, ...] = ()) -> UOp:
    """A kernel that doubles an array of these sizes, its loops in order."""
    ranges = tuple(
        UOp.range(s, i, (*kinds, *[AxisType.LOOP] * len(sizes))[i]) for i, s in enumerate(sizes)
    )
    position: UOp = UOp.const(index, 0)
    for r, size in zip(ranges, sizes, strict=True):
        position = position * to_node(size) + r
    out, x = (param(slot, 4096) for slot in (0, 1))
    store = out.index(position).store(x.index(position) * 2)
    return UOp.sink(store.end(*ranges), arg=KernelInfo())


def make_scan_of_product() -> UOp:
    """Running sums over the rows of products of four matrices (6, 8) and one (8, 12)."""
    out, x, w = (param(slot, size) for slot, size in enumerate((4 * 6 * 12, 4 * 6 * 8, 8 * 12)))
    batch, column = UOp.range(4, 0, AxisType.LOOP), UOp.range(12, 1, AxisType.LOOP)
    row, k = UOp.range(6, 2, AxisType.SCAN), UOp.range(8, 3, AxisType.REDUCE)
    product = reduce_over(x.index((batch * 6 + row) * 8 + k) * w.index(k * 12 + column), k)
    running = UOp(Op.SCAN, product.dtype, (product, row), Op.ADD)
    store = out.index((batch * 6 + row) * 12 + column).store(running)
    return UOp.sink(store.end(batch, column, row), arg=KernelInfo())


def make_sum(rows: int, columns: int | UOp) -> UOp:
    """A kernel that adds up each row."""
    row, column = UOp.range(rows, 0, AxisType.LOOP), UOp.range(columns, 1, AxisType.REDUCE)
    out, x = (param(slot, 4096) for slot in (0, 1))
    value = reduce_over(x.index(row * to_node(columns) + column), column)
    return UOp.sink(out.index(row).store(value).end(row), arg=KernelInfo())


def make_product(rows: int, columns: int, n: int | UOp) -> UOp:
    """A kernel that multiplies a (rows, n) matrix by the transpose of a (columns, n) matrix."""
    row, column = (UOp.range(size, i, AxisType.LOOP) for i, size in enumerate((rows, columns)))
    k = UOp.range(n, 2, AxisType.REDUCE)
    out, x, y = (param(slot, 4096) for slot in (0, 1, 2))
    value = reduce_over(x.index(row * n + k) * y.index(column * n + k), k)
    return UOp.sink(
        out.index(row * columns + column).store(value).end(row, column), arg=KernelInfo()
    )


def make_batched_product(batch: int, rows: int, columns: int, n: int) -> UOp:
    """A kernel that multiplies `batch` (rows, n) matrices by the transpose of one (columns, n)
    matrix.
    """
    b, row, column = (
        UOp.range(size, i, AxisType.LOOP) for i, size in enumerate((batch, rows, columns))
    )
    k = UOp.range(n, 3, AxisType.REDUCE)
    out, x, y = (param(slot, 4096) for slot in (0, 1, 2))
    value = reduce_over(x.index((b * rows + row) * n + k) * y.index(column * n + k), k)
    return UOp.sink(
        out.index((b * rows + row) * columns + column).store(value).end(b, row, column),
        arg=KernelInfo(),
    )


def make_parts(size: int) -> UOp:
    """A kernel that fills the first elements of another array."""
    r = UOp.range(size, 9, AxisType.LOOP)
    return UOp.sink(param(7, size).index(r).store(UOp.const(float32, 1.0)).end(r), arg=KernelInfo())


def make_update(size: int) -> UOp:
    """A kernel that doubles an array in place."""
    r = UOp.range(size, 0, AxisType.LOOP)
    location = param(0, size).index(r)
    other = param(0, size).index(UOp.const(index, size - 1) - r)
    return UOp.sink(location.store(other * 2).end(r), arg=KernelInfo())


def make_shared_row(rows: int, columns: int) -> UOp:
    """A kernel that writes the same row to each row of a matrix, and to a vector."""
    row, column = UOp.range(rows, 0, AxisType.LOOP), UOp.range(columns, 1, AxisType.LOOP)
    out, vector, x = (param(slot, 4096) for slot in (0, 1, 2))
    value = x.index(column) * 2
    return UOp.sink(
        out.index(row * columns + column).store(value).end(row, column),
        vector.index(column).store(value).end(column),
        arg=KernelInfo(),
    )


def applied(sink: UOp, *opts: Opt, target: Target = CPU) -> Scheduler:
    scheduler = Scheduler(sink, target)
    for opt in opts:
        scheduler.apply_opt(opt)
    return scheduler


def forms(scheduler: Scheduler) -> list[tuple[str, object]]:
    return [(r.arg[1].name, size) for r, size in zip(scheduler.axes, scheduler.shape, strict=True)]


def compiled(sink: UOp, opts: tuple[Opt, ...], target: Target) -> tuple[UOp, ...]:
    context = Context(target=target, opts=opts, options=IROptions(check=True))
    return linearize(run_pipeline("lower", apply_opts(sink, target, opts), context))


def test_axes_are_listed_by_rank_and_then_from_outer_to_inner() -> None:
    assert forms(Scheduler(make_sum(6, 8), CPU)) == [("LOOP", 6), ("REDUCE", 8)]
    swapped = make_copy(4, 8, kinds=(AxisType.UPCAST, AxisType.LOOP))
    assert forms(Scheduler(swapped, CPU)) == [("LOOP", 8), ("UPCAST", 4)]


def test_only_reduced_axes_are_counted_by_unroll() -> None:
    assert [r.arg[1] for r in Scheduler(make_sum(6, 8), CPU).reduced_axes] == [AxisType.REDUCE]


def test_a_size_that_varies_is_given_as_a_node() -> None:
    assert Scheduler(make_copy(N), CPU).shape == [N]


EFFECTS: dict[str, tuple[UOp, tuple[Opt, ...], Target, list[tuple[str, object]]]] = {
    "upcast splits off the inner part": (
        make_copy(6, 16),
        (Opt(OptOp.UPCAST, 1, 4),),
        CPU,
        [("LOOP", 6), ("LOOP", 4), ("UPCAST", 4)],
    ),
    "upcast by 0 takes the whole axis": (
        make_copy(6, 16),
        (Opt(OptOp.UPCAST, 1, 0),),
        CPU,
        [("LOOP", 6), ("UPCAST", 16)],
    ),
    "upcast by the size takes the whole axis": (
        make_copy(6, 16),
        (Opt(OptOp.UPCAST, 1, 16),),
        CPU,
        [("LOOP", 6), ("UPCAST", 16)],
    ),
    "overlap rounds the number of tiles up": (
        make_copy(19),
        (Opt(OptOp.OVERLAP, 0, 8),),
        CPU,
        [("LOOP", 3), ("UPCAST", 8)],
    ),
    "overlap by 0 takes the whole axis": (
        make_copy(6, 19),
        (Opt(OptOp.OVERLAP, 1, 0),),
        CPU,
        [("LOOP", 6), ("UPCAST", 19)],
    ),
    "align adds a tile if the first one may begin before a row": (
        make_copy(6, 23),
        (Opt(OptOp.ALIGN, 1, 8),),
        CPU,
        [("LOOP", 6), ("LOOP", 4), ("UPCAST", 8)],
    ),
    "unroll splits off reduced elements": (
        make_sum(6, 16),
        (Opt(OptOp.UNROLL, 0, 4),),
        CPU,
        [("LOOP", 6), ("REDUCE", 4), ("UNROLL", 4)],
    ),
    "unroll by 0 takes the whole axis": (
        make_sum(6, 16),
        (Opt(OptOp.UNROLL, 0, 0),),
        CPU,
        [("LOOP", 6), ("UNROLL", 16)],
    ),
    "unroll reduces what is left over by itself": (
        make_sum(6, 19),
        (Opt(OptOp.UNROLL, 0, 8),),
        CPU,
        [("LOOP", 6), ("REDUCE", 3), ("REDUCE", 2), ("UNROLL", 8)],
    ),
    "unroll joins a single element left over without a loop": (
        make_sum(6, 17),
        (Opt(OptOp.UNROLL, 0, 8),),
        CPU,
        [("LOOP", 6), ("REDUCE", 2), ("UNROLL", 8)],
    ),
    "padto rounds an output axis up": (
        make_copy(6, 19),
        (Opt(OptOp.PADTO, 1, 8),),
        CPU,
        [("LOOP", 6), ("LOOP", 24)],
    ),
    "padto rounds a reduced axis up": (
        make_sum(6, 19),
        (Opt(OptOp.PADTO, 1, 8),),
        CPU,
        [("LOOP", 6), ("REDUCE", 24)],
    ),
    "thread gives each part consecutive elements": (
        make_copy(8, 16),
        (Opt(OptOp.THREAD, 0, 4),),
        CPU,
        [("THREAD", 4), ("LOOP", 2), ("LOOP", 16)],
    ),
    "thread splits what it does not divide into parts that overlap": (
        make_copy(19),
        (Opt(OptOp.THREAD, 0, 4),),
        CPU,
        [("THREAD", 4), ("LOOP", 5)],
    ),
    "local splits off work-items": (
        make_copy(64),
        (Opt(OptOp.LOCAL, 0, 16),),
        GPU,
        [("LOOP", 4), ("LOCAL", 16)],
    ),
    "group shares the inner part of a reduction": (
        make_sum(6, 64),
        (Opt(OptOp.GROUP, 0, 16),),
        GPU,
        [("LOOP", 6), ("GROUP_REDUCE", 16), ("REDUCE", 4)],
    ),
    "grouptop shares the outer part of a reduction": (
        make_sum(6, 64),
        (Opt(OptOp.GROUPTOP, 0, 16),),
        GPU,
        [("LOOP", 6), ("GROUP_REDUCE", 16), ("REDUCE", 4)],
    ),
    "split takes iterations of a loop inside all others": (
        make_copy(8, 6),
        (Opt(OptOp.SPLIT, 0, 4),),
        CPU,
        [("LOOP", 2), ("LOOP", 6), ("LOOP", 4)],
    ),
    "split lets the last iterations overlap": (
        make_copy(9, 6),
        (Opt(OptOp.SPLIT, 0, 4),),
        CPU,
        [("LOOP", 3), ("LOOP", 6), ("LOOP", 4)],
    ),
    "an even split repeats no iteration of a kernel that reads what it writes": (
        make_update(24),
        (Opt(OptOp.SPLIT, 0, 8),),
        CPU,
        [("LOOP", 3), ("LOOP", 8)],
    ),
    "swap exchanges two loops": (
        make_copy(6, 16),
        (Opt(OptOp.SWAP, 0, 1),),
        CPU,
        [("LOOP", 16), ("LOOP", 6)],
    ),
    "pack fills private memory in loops of its own": (
        make_product(6, 8, 16),
        (Opt(OptOp.PACK, 0),),
        CPU,
        [("LOOP", 6), ("LOOP", 8), ("LOOP", 16), ("REDUCE", 16)],
    ),
    "nolocals changes no axis": (
        make_copy(6, 16),
        (Opt(OptOp.NOLOCALS),),
        CPU,
        [("LOOP", 6), ("LOOP", 16)],
    ),
}


@pytest.mark.parametrize("case", EFFECTS)
def test_an_opt_makes_the_axes_that_it_should(case: str) -> None:
    sink, opts, target, expected = EFFECTS[case]
    assert forms(applied(sink, *opts, target=target)) == expected


@pytest.mark.parametrize("case", [c for c in EFFECTS if EFFECTS[c][2] is CPU])
def test_an_opt_preserves_the_results(case: str) -> None:
    sink, opts, target, _ = EFFECTS[case]
    assert_same(sink, applied(sink, *opts, target=target).finish())
    assert_same(sink, compiled(sink, opts, target))


def test_a_thread_walks_through_consecutive_elements() -> None:
    scheduler = applied(make_copy(16), Opt(OptOp.THREAD, 0, 4))
    thread, loop = scheduler.axes
    (position,) = {n.src[1] for n in scheduler.sink.iter_ops(Op.INDEX)}
    assert position is thread * 4 + loop


def test_grouptop_takes_the_outer_part_and_group_the_inner() -> None:
    group = applied(make_sum(1, 64), Opt(OptOp.GROUP, 0, 16), target=GPU)
    top = applied(make_sum(1, 64), Opt(OptOp.GROUPTOP, 0, 16), target=GPU)
    for scheduler, stride in ((group, 1), (top, 4)):
        shared = next(r for r in scheduler.axes if r.arg[1] is AxisType.GROUP_REDUCE)
        read = next(n for n in scheduler.sink.iter_ops(Op.INDEX) if shared in n.ranges)
        first, second = (read.src[1].substitute({shared: UOp.const(index, v)}) for v in (0, 1))
        ranges = {r: UOp.const(index, 0) for r in scheduler.axes}
        assert second.substitute(ranges).vmin - first.substitute(ranges).vmin == stride


def test_the_last_overlapping_tile_ends_at_the_end() -> None:
    scheduler = applied(make_copy(19), Opt(OptOp.OVERLAP, 0, 8))
    positions = {n.src[1] for n in scheduler.sink.iter_ops(Op.INDEX)}
    assert {p.vmax for p in positions} == {18}


def test_aligned_tiles_write_every_row_at_multiples_of_a_vector() -> None:
    n_rows, size, lanes = 6, 77, CPU.lanes(float32)
    sink = applied(make_copy(n_rows, size), Opt(OptOp.ALIGN, 1, lanes)).sink
    (store,) = sink.iter_ops(Op.STORE)
    row, tile, lane = (next(r for r in store.ranges if r.arg[0] == i) for i in (0, 1, 2))
    for i in range(n_rows):
        starts = [
            int(
                store.location.position.substitute(
                    {row: UOp.const(index, i), tile: UOp.const(index, j), lane: UOp.const(index, 0)}
                ).vmin
            )
            for j in range(int(tile.vmax) + 1)
        ]
        assert {s for start in starts for s in range(start, start + lanes)} == set(
            range(i * size, (i + 1) * size)
        )
        # The first and last tiles begin and end with the row.
        inner = [s for s in starts if i * size < s < (i + 1) * size - lanes]
        assert inner
        assert all(s % lanes == 0 for s in inner)


def test_padto_gates_every_access_along_the_axis_and_no_other() -> None:
    scheduler = applied(make_sum(6, 19), Opt(OptOp.PADTO, 1, 8))
    gates = {n.src[0].arg.slot: n.gate for n in scheduler.sink.iter_ops(Op.INDEX)}
    assert gates[0] is None
    assert gates[1] is not None


@pytest.mark.parametrize("case", EFFECTS)
def test_the_opts_of_a_kernel_make_the_same_kernel_again(case: str) -> None:
    sink, opts, target, _ = EFFECTS[case]
    finished = applied(sink, *opts, target=target).finish()
    assert finished.arg.applied_opts == opts
    assert apply_opts(sink, target, finished.arg.applied_opts) is finished


def test_a_copy_of_a_scheduler_is_independent() -> None:
    scheduler = applied(make_copy(64), Opt(OptOp.NOLOCALS), target=GPU)
    other = scheduler.copy()
    other.apply_opt(Opt(OptOp.UPCAST, 0, 4))
    assert scheduler.applied_opts == [Opt(OptOp.NOLOCALS)]
    assert not other.try_opt(Opt(OptOp.LOCAL, 0, 4))


def test_a_restored_scheduler_allows_workgroups_again() -> None:
    scheduler = applied(make_copy(64), target=GPU)
    earlier = scheduler.copy()
    scheduler.apply_opt(Opt(OptOp.NOLOCALS))
    scheduler.restore(earlier)
    scheduler.apply_opt(Opt(OptOp.LOCAL, 0, 4))
    assert scheduler.applied_opts == [Opt(OptOp.LOCAL, 0, 4)]


NAMES: dict[str, tuple[UOp, tuple[Opt, ...], str]] = {
    "of an elementwise kernel": (make_copy(6, 16), (), "E_L6_L16"),
    "of a reduction": (make_sum(6, 16), (), "r_L6_R16"),
    "with vectors and threads": (
        make_copy(8, 16),
        (Opt(OptOp.UPCAST, 1, 8), Opt(OptOp.THREAD, 0, 4)),
        "E_t4_L2_L2_u8",
    ),
    "of a reduction whose whole axis is unrolled": (
        make_sum(6, 16),
        (Opt(OptOp.UNROLL, 0, 0),),
        "r_L6_r16",
    ),
    "with a size that varies": (make_copy(N), (), "E_Lv"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_kernel_name_says_what_its_axes_are(case: str) -> None:
    sink, opts, expected = NAMES[case]
    assert applied(sink, *opts).finish().arg.name == expected


REFUSED: dict[str, tuple[UOp, tuple[Opt, ...], Target, str]] = {
    "no such axis": (
        make_copy(6, 16),
        (Opt(OptOp.UPCAST, 2, 2),),
        CPU,
        "axis 2 is out of bounds for 2 such axes",
    ),
    "no axis given": (
        make_copy(6),
        (Opt(OptOp.UPCAST, None, 2),),
        CPU,
        "it needs an axis",
    ),
    "a negative axis": (
        make_copy(6),
        (Opt(OptOp.UPCAST, -1, 2),),
        CPU,
        "axis -1 is out of bounds for 1 such axes",
    ),
    "no reduced axis": (
        make_copy(6),
        (Opt(OptOp.UNROLL, 0, 2),),
        CPU,
        "axis 0 is out of bounds for 0 such axes",
    ),
    "upcast of a reduced axis": (
        make_sum(6, 16),
        (Opt(OptOp.UPCAST, 1, 2),),
        CPU,
        "axis 1 is REDUCE, expected GLOBAL or LOCAL or LOOP",
    ),
    "upcast of lanes": (
        make_copy(6),
        (Opt(OptOp.UPCAST, 0, 0), Opt(OptOp.UPCAST, 0, 2)),
        CPU,
        "axis 0 is UPCAST, expected GLOBAL or LOCAL or LOOP",
    ),
    "upcast by what does not divide": (
        make_copy(19),
        (Opt(OptOp.UPCAST, 0, 8),),
        CPU,
        "8 does not divide the axis of 19",
    ),
    "upcast by 1": (
        make_copy(19),
        (Opt(OptOp.UPCAST, 0, 1),),
        CPU,
        "the amount 1 is not between 2 and 256",
    ),
    "upcast by a negative amount": (
        make_copy(6),
        (Opt(OptOp.UPCAST, 0, -2),),
        CPU,
        "the amount -2 is not between 2 and 256",
    ),
    "upcast beyond the limit": (
        make_copy(512),
        (Opt(OptOp.UPCAST, 0, 0),),
        CPU,
        "the amount 512 is not between 2 and 256",
    ),
    "upcast of the whole of a size that varies": (
        make_copy(N),
        (Opt(OptOp.UPCAST, 0, 0),),
        CPU,
        "it needs an amount, since the axis has no constant size",
    ),
    "upcast without an amount": (
        make_copy(6),
        (Opt(OptOp.UPCAST, 0),),
        CPU,
        "it needs an amount, since the axis has no constant size",
    ),
    "overlap of an axis that may be too short": (
        make_copy(N),
        (Opt(OptOp.OVERLAP, 0, 8),),
        CPU,
        "the axis may be shorter than 8",
    ),
    "overlap where the kernel reads what it writes": (
        make_update(19),
        (Opt(OptOp.OVERLAP, 0, 8),),
        CPU,
        "the kernel reads what it writes",
    ),
    "align of rows that begin at a multiple": (
        make_copy(6, 32),
        (Opt(OptOp.ALIGN, 1, 8),),
        CPU,
        "all its results are stored at whole vectors, or none",
    ),
    "align of an axis along which nothing is stored": (
        make_copy(6, 19),
        (Opt(OptOp.ALIGN, 0, 4),),
        CPU,
        "all its results are stored at whole vectors, or none",
    ),
    "align where a row is used by other rows": (
        make_shared_row(6, 19),
        (Opt(OptOp.ALIGN, 0, 8),),
        CPU,
        "it is shared by loops over other rows",
    ),
    "unroll of more than there is": (
        make_sum(6, 5),
        (Opt(OptOp.UNROLL, 0, 8),),
        CPU,
        "the axis of 5 is shorter than 8",
    ),
    "padto by 1": (make_copy(6), (Opt(OptOp.PADTO, 0, 1),), CPU, "the amount is not at least 2"),
    "padto of lanes": (
        make_copy(6),
        (Opt(OptOp.UPCAST, 0, 0), Opt(OptOp.PADTO, 0, 4)),
        CPU,
        "axis 0 is UPCAST, expected GLOBAL or GROUP_REDUCE or LOCAL or LOOP or REDUCE",
    ),
    "thread of a reduced axis": (
        make_sum(6, 16),
        (Opt(OptOp.THREAD, 1, 4),),
        CPU,
        "axis 1 is REDUCE, expected LOOP",
    ),
    "thread on one core": (
        make_copy(8),
        (Opt(OptOp.THREAD, 0, 2),),
        replace(CPU, cores=1),
        "THREAD needs a CPU target with at least two cores",
    ),
    "thread on a target with workgroups": (
        make_copy(8),
        (Opt(OptOp.THREAD, 0, 2),),
        GPU,
        "THREAD needs a CPU target with at least two cores",
    ),
    "thread twice": (
        make_copy(8, 8),
        (Opt(OptOp.THREAD, 0, 2), Opt(OptOp.THREAD, 1, 2)),
        CPU,
        "the kernel has a THREAD axis already",
    ),
    "more threads than cores": (
        make_copy(64),
        (Opt(OptOp.THREAD, 0, 8),),
        CPU,
        "the amount 8 is not between 2 and 4",
    ),
    "thread of an axis that is too short": (
        make_copy(3),
        (Opt(OptOp.THREAD, 0, 4),),
        CPU,
        "the axis may be shorter than 4",
    ),
    "thread where the kernel reads what it writes": (
        make_update(19),
        (Opt(OptOp.THREAD, 0, 4),),
        CPU,
        "the kernel reads what it writes",
    ),
    "local without workgroups": (
        make_copy(64),
        (Opt(OptOp.LOCAL, 0, 16),),
        CPU,
        "the target has no workgroups",
    ),
    "local after nolocals": (
        make_copy(64),
        (Opt(OptOp.NOLOCALS), Opt(OptOp.LOCAL, 0, 16)),
        GPU,
        "NOLOCALS was applied",
    ),
    "a workgroup that is too large": (
        make_copy(64, 64),
        (Opt(OptOp.LOCAL, 0, 16), Opt(OptOp.LOCAL, 1, 16)),
        GPU,
        "a workgroup of 256 exceeds 64",
    ),
    "group without shared memory": (
        make_sum(6, 64),
        (Opt(OptOp.GROUP, 0, 16),),
        replace(GPU, has_shared=False),
        "the target has no shared memory",
    ),
    "group by what does not divide": (
        make_sum(6, 60),
        (Opt(OptOp.GROUP, 0, 16),),
        GPU,
        "16 does not divide the axis of 60",
    ),
    "group of more than shared memory holds": (
        make_sum(6, 64),
        (Opt(OptOp.GROUPTOP, 0, 32),),
        replace(GPU, shared_bytes=64),
        "it needs 144 bytes of shared memory, more than 64",
    ),
    "split of a loop into itself": (
        make_copy(6),
        (Opt(OptOp.SPLIT, 0, 6),),
        CPU,
        "the axis may have a size of 6 or less",
    ),
    "split of a loop into single iterations": (
        make_copy(6),
        (Opt(OptOp.SPLIT, 0, 1),),
        CPU,
        "the amount 1 is not between 2 and 1048576",
    ),
    "split where the kernel reads what it writes": (
        make_update(19),
        (Opt(OptOp.SPLIT, 0, 8),),
        CPU,
        "the kernel reads what it writes",
    ),
    "swap of an axis with itself": (
        make_copy(6, 16),
        (Opt(OptOp.SWAP, 1, 1),),
        CPU,
        "both axes are the same",
    ),
    "swap of loops of two kinds": (
        make_sum(6, 16),
        (Opt(OptOp.SWAP, 0, 1),),
        CPU,
        "axis 1 is REDUCE, expected LOOP",
    ),
    "swap with no axis": (
        make_copy(6, 16),
        (Opt(OptOp.SWAP, 0, 5),),
        CPU,
        "axis 5 is out of bounds for 2 such axes",
    ),
    "tensor cores after another opt": (
        make_copy(64),
        (Opt(OptOp.UPCAST, 0, 4), Opt(OptOp.TC, 0, 0)),
        CPU,
        "it must come first",
    ),
    "tensor cores that the target lacks": (
        make_copy(64),
        (Opt(OptOp.TC, 0, 0),),
        CPU,
        "core 0 is out of bounds for 0 tensor cores",
    ),
    "pack of a loop around no reduction": (
        make_copy(6, 16),
        (Opt(OptOp.PACK, 0),),
        CPU,
        "no load of a reduction is repeated inside the loop",
    ),
    "pack of a loop whose inner loops read other elements each": (
        make_sum(6, 16),
        (Opt(OptOp.PACK, 0),),
        CPU,
        "no load of a reduction is repeated inside the loop",
    ),
    "pack of rows that a scan goes over": (
        make_scan_of_product(),
        (Opt(OptOp.PACK, 0),),
        CPU,
        "a packed axis has no constant size",
    ),
    "pack of a reduced axis": (
        make_sum(6, 16),
        (Opt(OptOp.PACK, 1),),
        CPU,
        "the target has no shared memory",
    ),
    "pack of a reduced axis by no work-items": (
        make_sum(6, 16),
        (Opt(OptOp.PACK, 1),),
        GPU,
        "no work-items of a workgroup compute results",
    ),
    "pack of a reduced axis of which each work-item reads its own row": (
        make_sum(6, 16),
        (Opt(OptOp.LOCAL, 0, 3), Opt(OptOp.PACK, 2)),
        GPU,
        "no two work-items read the same elements",
    ),
    "pack of a reduction by work-items": (
        make_sum(6, 64),
        (Opt(OptOp.GROUP, 0, 4), Opt(OptOp.PACK, 2)),
        GPU,
        "no work-items of a workgroup compute results",
    ),
    "a second pack of a reduced axis": (
        make_product(8, 8, 16),
        (Opt(OptOp.LOCAL, 0, 4), Opt(OptOp.UNROLL, 0, 4), Opt(OptOp.PACK, 3), Opt(OptOp.PACK, 3)),
        GPU,
        "shared memory holds tiles already",
    ),
    "work-items for what is packed already": (
        make_product(8, 8, 16),
        (
            Opt(OptOp.LOCAL, 0, 4),
            Opt(OptOp.UNROLL, 0, 4),
            Opt(OptOp.PACK, 3),
            Opt(OptOp.LOCAL, 1, 4),
        ),
        GPU,
        "PACK has distributed the tiles already",
    ),
    "upcast of a shared tile": (
        make_product(8, 8, 16),
        (
            Opt(OptOp.LOCAL, 0, 4),
            Opt(OptOp.UNROLL, 0, 4),
            Opt(OptOp.PACK, 3),
            Opt(OptOp.UPCAST, 1, 4),
        ),
        GPU,
        "shared memory holds one tile at a time",
    ),
    "unroll of a packed reduction": (
        make_product(8, 8, 16),
        (
            Opt(OptOp.LOCAL, 0, 4),
            Opt(OptOp.UNROLL, 0, 4),
            Opt(OptOp.PACK, 3),
            Opt(OptOp.UNROLL, 0, 2),
        ),
        GPU,
        "shared memory holds one tile at a time",
    ),
    "a tile larger than shared memory": (
        make_product(64, 64, 256),
        (
            Opt(OptOp.UPCAST, 0, 8),
            Opt(OptOp.LOCAL, 0, 8),
            Opt(OptOp.LOCAL, 0, 8),
            Opt(OptOp.UNROLL, 0, 32),
            Opt(OptOp.PACK, 4),
        ),
        GPU,
        "it needs 11264 bytes of shared memory, more than 4096",
    ),
    "work-items and a group beyond the workgroup": (
        make_sum(32, 64),
        (Opt(OptOp.LOCAL, 0, 16), Opt(OptOp.GROUP, 0, 8)),
        GPU,
        "a workgroup of 128 exceeds 64",
    ),
    "padded work-items beyond the workgroup": (
        make_copy(64),
        (Opt(OptOp.LOCAL, 0, 64), Opt(OptOp.PADTO, 0, 96)),
        GPU,
        "a workgroup of 96 exceeds 64",
    ),
    "work-items beyond a dimension": (
        make_copy(67),
        (Opt(OptOp.LOCAL, 0, 67),),
        replace(GPU, max_local=128, max_local_dims=(16, 4, 2)),
        "a workgroup of 67 does not fit into dimensions of (16, 4, 2)",
    ),
    "pack on a target with workgroups": (
        make_sum(6, 16),
        (Opt(OptOp.PACK, 0),),
        GPU,
        "private memory is filled in a loop over the results of one thread",
    ),
    "upcast of packed rows": (
        make_product(6, 8, 16),
        (Opt(OptOp.PACK, 0), Opt(OptOp.UPCAST, 0, 2)),
        CPU,
        "private memory holds one row at a time",
    ),
    "split of packed rows": (
        make_product(6, 8, 16),
        (Opt(OptOp.PACK, 0), Opt(OptOp.SPLIT, 0, 3)),
        CPU,
        "private memory holds one row at a time",
    ),
    "split of a loop that fills private memory": (
        make_product(6, 8, 16),
        (Opt(OptOp.PACK, 0), Opt(OptOp.SPLIT, 2, 4)),
        CPU,
        "axis 2 is not a loop over all results",
    ),
    "threads along one of two parts": (
        UOp.sink(*make_copy(6).src, *make_parts(7).src, arg=KernelInfo()),
        (Opt(OptOp.THREAD, 0, 2),),
        CPU,
        "axis 0 is not a loop over all results",
    ),
    "pack of rows of a size that varies": (
        make_product(6, 8, N),
        (Opt(OptOp.PACK, 0),),
        CPU,
        "a packed axis has no constant size",
    ),
    "a second pack that exceeds a stack together with the first": (
        make_product(4, 511, 513),
        (Opt(OptOp.PACK, 0), Opt(OptOp.PACK)),
        CPU,
        "more than 1048576 bytes of private memory, which is on the stack of a thread",
    ),
    "nolocals after a workgroup": (
        make_copy(64),
        (Opt(OptOp.LOCAL, 0, 16), Opt(OptOp.NOLOCALS)),
        GPU,
        "the kernel uses workgroups already",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_opt_has_a_reason_and_leaves_the_kernel_unchanged(case: str) -> None:
    sink, (*earlier, last), target, reason = REFUSED[case]
    scheduler = applied(sink, *earlier, target=target)
    before = scheduler.sink
    with pytest.raises(OptError) as error:
        scheduler.apply_opt(last)
    assert (error.value.opt, error.value.reason) == (last, reason)
    assert scheduler.sink is before
    assert scheduler.applied_opts == earlier
    assert not scheduler.try_opt(last)


@pytest.mark.parametrize(
    "opts",
    [
        (Opt(OptOp.UPCAST, 0, 2), Opt(OptOp.PACK, 1)),
        (Opt(OptOp.UPCAST, 2, 0), Opt(OptOp.PACK, 0)),
        (
            Opt(OptOp.UPCAST, 2, 0),
            Opt(OptOp.UPCAST, 1, 3),
            Opt(OptOp.THREAD, 0, 2),
            Opt(OptOp.PACK, 1),
        ),
    ],
    ids=["a tile of a loop around it", "one panel for all", "one panel for each thread"],
)
def test_a_pack_holds_all_that_the_loops_inside_it_read_again(opts: tuple[Opt, ...]) -> None:
    kernel = make_batched_product(4, 6, 8, 16)
    assert_same(kernel, compiled(kernel, opts, CPU))


def test_the_message_of_a_refusal_names_the_opt_and_the_reason() -> None:
    with pytest.raises(OptError) as error:
        applied(make_copy(19), Opt(OptOp.UPCAST, 0, 8))
    assert str(error.value) == "UPCAST(0, 8) does not apply: 8 does not divide the axis of 19"


def test_a_reduction_around_another_is_not_grouped() -> None:
    inner, outer = UOp.range(8, 1, AxisType.REDUCE), UOp.range(16, 0, AxisType.REDUCE)
    out, x = (param(slot, 128) for slot in (0, 1))
    row = reduce_over(x.index(outer * 8 + inner), inner)
    total = reduce_over(row * row, outer)
    sink = UOp.sink(out.index(UOp.const(index, 0)).store(total), arg=KernelInfo())
    with pytest.raises(OptError, match="the reduction contains another one"):
        applied(sink, Opt(OptOp.GROUP, 0, 4), target=GPU)


_AMOUNTS = st.sampled_from((0, 2, 3, 4, 5, 7, 8, 16))
OPTS = st.one_of(
    st.builds(
        Opt,
        st.sampled_from(
            (
                OptOp.UPCAST,
                OptOp.OVERLAP,
                OptOp.ALIGN,
                OptOp.UNROLL,
                OptOp.PADTO,
                OptOp.PACK,
                OptOp.SPLIT,
            )
        ),
        st.integers(0, 4),
        _AMOUNTS,
    ),
    st.builds(Opt, st.just(OptOp.THREAD), st.integers(0, 2), st.sampled_from((0, 2, 3, 4))),
    st.builds(Opt, st.just(OptOp.SWAP), st.integers(0, 3), st.integers(0, 3)),
)


@settings(max_examples=count_examples(4), deadline=None, suppress_health_check=list(HealthCheck))
@given(wishes=st.lists(OPTS, min_size=1, max_size=6), target=st.sampled_from((CPU, WIDE)))
def test_any_opts_preserve_the_results(kernel: UOp, wishes: list[Opt], target: Target) -> None:
    scheduler = Scheduler(kernel, target)
    for opt in wishes:
        scheduler.try_opt(opt)
    opts = tuple(scheduler.applied_opts)
    optimized = scheduler.finish()
    assert apply_opts(kernel, target, opts) is optimized
    assert_same(kernel, optimized)
    assert_same(kernel, compiled(kernel, opts, target))


def test_a_scan_stays_inside_the_turns_of_a_split_loop(make_kernel: Callable[[UOp], UOp]) -> None:
    sink = make_kernel(make_scan_axis(tensor(1, 6, 16), Op.ADD, 0))
    assert_same(sink, compiled(sink, (Opt(OptOp.SPLIT, 0, 4),), CPU))


@pytest.mark.parametrize("target", [CPU, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize(
    "opts",
    [
        (Opt(OptOp.PACK),),
        (Opt(OptOp.SWAP, 0, 1), Opt(OptOp.PACK, 0)),
        (Opt(OptOp.SWAP, 0, 1), Opt(OptOp.PACK, 0), Opt(OptOp.UNROLL, 0, 0)),
        (Opt(OptOp.THREAD, 0, 2), Opt(OptOp.PACK, 0)),
        (Opt(OptOp.UPCAST, 1, 4), Opt(OptOp.PACK)),
    ],
)
def test_packed_operands_inside_a_scan(opts: tuple[Opt, ...], target: Target) -> None:
    kernel = make_scan_of_product()
    assert any(n.op is Op.DEFINE_REG for n in apply_opts(kernel, target, opts).toposort())
    assert_same(kernel, compiled(kernel, opts, target))


GPU_OPTS = st.builds(
    Opt,
    st.sampled_from(
        (
            OptOp.LOCAL,
            OptOp.GROUP,
            OptOp.GROUPTOP,
            OptOp.UPCAST,
            OptOp.UNROLL,
            OptOp.PADTO,
            OptOp.SWAP,
            OptOp.PACK,
        )
    ),
    st.integers(0, 5),
    _AMOUNTS,
)


@settings(max_examples=count_examples(3), deadline=None, suppress_health_check=list(HealthCheck))
@given(wishes=st.lists(GPU_OPTS, min_size=1, max_size=5))
def test_any_opts_of_workgroups_preserve_the_results(kernel: UOp, wishes: list[Opt]) -> None:
    scheduler = Scheduler(kernel, GPU)
    for opt in wishes:
        scheduler.try_opt(opt)
    assert_same(kernel, compiled(kernel, tuple(scheduler.applied_opts), GPU))


@settings(max_examples=count_examples(6), deadline=None)
@given(st.lists(OPTS, min_size=1, max_size=4), st.integers(4, 40))
def test_any_opts_preserve_the_results_of_symbolic_sizes(wishes: list[Opt], n: int) -> None:
    for sink in (make_copy(5, N), make_copy(N, 8), make_sum(5, N)):
        scheduler = Scheduler(sink, CPU)
        for opt in wishes:
            scheduler.try_opt(opt)
        assert_same(
            sink,
            compiled(sink, tuple(scheduler.applied_opts), CPU),
            inputs={N: n, N.with_dtype(int32): n},
        )


@pytest.mark.parametrize("n", [4, 7, 8, 31, 40])
def test_a_symbolic_axis_is_tiled_like_a_constant_one(n: int) -> None:
    padded = (Opt(OptOp.PADTO, 0, 8), Opt(OptOp.UPCAST, 0, 4))
    for sink, opts in (
        (make_sum(5, N), (Opt(OptOp.UNROLL, 0, 8),)),
        (make_sum(5, N), (Opt(OptOp.UNROLL, 0, 8), Opt(OptOp.UNROLL, 1, 2))),
        (make_copy(N), padded),
        (make_copy(N, 3), (*padded, Opt(OptOp.THREAD, 0, 2))),
    ):
        scheduler = Scheduler(sink, CPU)
        scheduler.apply_opt(opts[0])
        for opt in opts[1:]:
            scheduler.try_opt(opt)
        assert_same(
            sink,
            compiled(sink, tuple(scheduler.applied_opts), CPU),
            inputs={N: n, N.with_dtype(int32): n},
        )
    assert applied(make_copy(N), *padded).finish().arg.name == "E_Lv_u4"
