"""Loops over results become the grid of a launch, within the limits of its dimensions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import pytest
from hypothesis import given, settings, strategies as st

from svod_dtype import index
from svod_ir import (
    AxisType,
    KernelInfo,
    Op,
    Opt,
    OptOp,
    Target,
    UOp,
    make_permute,
    make_reduce_axis,
    make_reshape,
)
from svod_ir.evaluate import evaluate
from svod_ir.testing import assert_same, count_examples
from svod_ir.testing.nodes import buffer, group, param
from svod_schedule._launch_grid import arrange_axes
from svod_schedule.optimize import Scheduler
from svod_schedule.pipeline import Context, compile_kernel, run_pipeline

GPU = replace(
    Target.generic(), has_local=True, has_shared=True, shared_bytes=1 << 15, max_local=256
)


def make_axes(*sizes: int) -> list[UOp]:
    return [UOp.range(UOp.const(index, size), i, AxisType.GLOBAL) for i, size in enumerate(sizes)]


def dims_of(sizes: tuple[int, ...], limits: tuple[int, ...] = ()) -> list[int]:
    return [
        int(size.arg) for group in arrange_axes(make_axes(*sizes), limits) for size in group.sizes
    ]


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ((7,), (), [7]),
        ((2, 3, 4), (), [4, 3, 2]),
        ((7, 5, 4, 3), (), [12, 5, 7]),
        ((2, 3, 4, 5, 6), (), [6, 20, 6]),
        ((100_000,), (65535, 65535, 65535), [50_000, 2]),
        ((100_000, 64), (65535, 65535, 65535), [64, 50_000, 2]),
        ((100_000, 64), (1 << 31, 65535, 65535), [6_400_000]),
    ],
)
def test_axes_take_dimensions_from_the_innermost_on(
    sizes: tuple[int, ...], limits: tuple[int, ...], expected: list[int]
) -> None:
    assert dims_of(sizes, limits) == expected


def test_a_prime_axis_over_the_limit_exceeds_it() -> None:
    (group,) = arrange_axes(make_axes(65537), (65535,) * 3)
    assert group.exceeds_limit


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ((100, 100), (16, 16, 16), [([10, 10], False), ([100], True)]),
        ((90, 80), (40, 40, 100), [([40, 2], False), ([90], False)]),
        ((90, 30), (40, 40, 40), [([30], False), ([30, 3], False)]),
    ],
)
def test_a_free_dimension_is_taken_once(
    sizes: tuple[int, ...], limits: tuple[int, ...], expected: list[tuple[list[int], bool]]
) -> None:
    groups = arrange_axes(make_axes(*sizes), limits)
    assert [
        ([int(size.arg) for size in group.sizes], group.exceeds_limit) for group in groups
    ] == expected


@settings(deadline=None, max_examples=count_examples(30))
@given(
    st.lists(st.integers(2, 4), min_size=1, max_size=4),
    st.sampled_from([(), (6, 6, 6), (1 << 20, 4, 4), (30, 30)]),
)
def test_every_position_of_the_axes_is_one_of_the_launch(
    sizes: list[int], limits: tuple[int, ...]
) -> None:
    groups = arrange_axes(make_axes(*sizes), limits)
    values = {axis: value for group in groups for axis, value in group.values("idx").items()}
    specials = sorted(
        {s for v in values.values() for s in v.iter_ops(Op.SPECIAL)}, key=lambda s: s.arg
    )
    assert len(specials) <= 3
    assert prod(int(s.vmax) + 1 for s in specials) == prod(sizes)
    positions: set[tuple[int, ...]] = {()}
    for special in specials:
        positions = {(*p, i) for p in positions for i in range(int(special.vmax) + 1)}
    seen = {
        tuple(
            int(evaluate(values[a].substitute(dict(zip(specials, map(_const, p), strict=True)))))
            for a in values
        )
        for p in positions
    }
    assert len(seen) == prod(sizes)


def _const(value: int) -> UOp:
    return UOp.const(index, value)


def make_kernel(shape: tuple[int, ...], *, is_reduced: bool = False) -> UOp:
    x = make_reshape(buffer(1, prod(shape), device="GPU"), shape)
    y = (
        make_reduce_axis(x, Op.ADD, (len(shape) - 1,))
        if is_reduced
        else make_permute(x, tuple(range(len(shape)))[::-1])
    )
    context = Context(target=GPU, device="GPU")
    ranged = run_pipeline("rangeify", UOp.sink(y), context)
    return next(run_pipeline("kernelize", ranged, context).iter_ops(Op.CALL)).src[0]


@pytest.mark.parametrize("limits", [(), (8, 8, 8), (64, 2, 2), (1, 1, 1), (5,)])
@pytest.mark.parametrize(
    ("shape", "opts"),
    [
        ((13,), ()),
        ((2, 3, 2, 3, 2), ()),
        ((37, 5), (Opt(OptOp.PADTO, 0, 4), Opt(OptOp.LOCAL, 0, 4))),
        ((30, 6), (Opt(OptOp.LOCAL, 0, 3), Opt(OptOp.LOCAL, 1, 2), Opt(OptOp.UPCAST, 0, 2))),
        ((17, 3, 4), (Opt(OptOp.NOLOCALS),)),
    ],
)
def test_a_grid_beyond_the_limits_runs_in_a_loop(
    shape: tuple[int, ...], opts: tuple[Opt, ...], limits: tuple[int, ...]
) -> None:
    kernel = make_kernel(shape)
    target = replace(GPU, max_global=limits)
    _, linear = compile_kernel(kernel, Context(target=target, opts=opts))
    for special in {n for n in linear if n.op is Op.SPECIAL and not n.arg.startswith("l")}:
        assert not limits or int(special.vmax) < limits[int(special.arg[-1])]
    assert_same(kernel, linear)


@pytest.mark.parametrize("limits", [(), (4, 2, 2), (1,)])
@pytest.mark.parametrize("group", [OptOp.GROUP, OptOp.GROUPTOP])
def test_work_items_of_a_group_synchronize_in_each_iteration(
    group: OptOp, limits: tuple[int, ...]
) -> None:
    kernel = make_kernel((19, 32), is_reduced=True)
    _, linear = compile_kernel(
        kernel,
        Context(
            target=replace(GPU, max_global=limits), opts=(Opt(OptOp.PADTO, 0, 2), Opt(group, 0, 8))
        ),
    )
    assert_same(kernel, linear)


def test_without_workgroups_the_grid_counts_items() -> None:
    _, linear = compile_kernel(make_kernel((6, 4)), Context(target=GPU, opts=()))
    assert {n.arg for n in linear if n.op is Op.SPECIAL} == {"idx0", "idx1"}
    assert not any(n.op is Op.RANGE for n in linear)


def test_members_beyond_three_dimensions_share_them() -> None:
    kernel = make_kernel((4, 4, 4, 4))
    opts = tuple(Opt(OptOp.LOCAL, axis, 2) for axis in range(4))
    _, linear = compile_kernel(
        kernel, Context(target=replace(GPU, max_local_dims=(8, 8, 2)), opts=opts)
    )
    work_items = {
        n.arg: int(n.vmax) + 1 for n in linear if n.op is Op.SPECIAL and n.arg.startswith("l")
    }
    assert prod(work_items.values()) == 16
    assert work_items.get("lidx2", 1) <= 2
    assert_same(kernel, linear)


def make_two_stores() -> UOp:
    """A sum and a product of two matrices, the product transposed."""
    total, product, x, y = (param(slot, 28) for slot in range(4))
    row, column = (UOp.range(size, i, AxisType.LOOP) for i, size in enumerate((7, 4)))
    left, right = (operand.index(row * 4 + column) for operand in (x, y))
    stores = (
        total.index(row * 4 + column).store(left + right),
        product.index(column * 7 + row).store(left * right),
    )
    return UOp.sink(group(*stores).end(row, column), arg=KernelInfo())


def make_two_nests() -> UOp:
    """Two effects: the second one reads the elements of the first one in reverse."""
    total, turned, x = (param(slot, 28) for slot in range(3))
    first = [UOp.range(size, i, AxisType.LOOP) for i, size in enumerate((7, 4))]
    second = [UOp.range(size, 2 + i, AxisType.LOOP) for i, size in enumerate((7, 4))]
    at, there = (row * 4 + column for row, column in (first, second))
    fill = total.index(at).store(x.index(at) * 2.0).end(*first)
    turn = turned.index(there).store(total.after(fill).index(27 - there)).end(*second)
    return UOp.sink(fill, turn, arg=KernelInfo())


@pytest.mark.parametrize("limits", [(), (3, 2, 2), (1, 1, 1)])
@pytest.mark.parametrize(
    "opts", [(), (Opt(OptOp.LOCAL, 0, 7), Opt(OptOp.LOCAL, 1, 2)), (Opt(OptOp.NOLOCALS),)]
)
@pytest.mark.parametrize("make", [make_two_stores, make_two_nests])
def test_several_effects_on_a_grid(
    make: Callable[[], UOp], opts: tuple[Opt, ...], limits: tuple[int, ...]
) -> None:
    kernel, target = make(), replace(GPU, max_global=limits)
    scheduler = Scheduler(kernel, target)
    for opt in opts:
        scheduler.try_opt(opt)
    context = Context(target=target, opts=tuple(scheduler.applied_opts))
    assert_same(kernel, compile_kernel(kernel, context)[1])


def test_only_a_kernel_of_one_effect_is_spread_over_the_grid() -> None:
    grids = [
        {
            n.arg
            for n in compile_kernel(make(), Context(target=GPU, opts=()))[1]
            if n.op is Op.SPECIAL
        }
        for make in (make_two_stores, make_two_nests)
    ]
    assert grids == [{"idx0", "idx1"}, set()]
