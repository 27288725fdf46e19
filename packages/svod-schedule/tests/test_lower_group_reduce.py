"""Workgroups: parts of a reduction meet in shared memory, and one work-item stores the result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from svod_ir import Op, Opt, OptOp, Target, UOp, make_reduce_axis, make_reshape
from svod_ir.testing import assert_same
from svod_ir.testing.nodes import buffer
from svod_schedule.linearize import linearize
from svod_schedule.pipeline import Context, run_pipeline

GPU = replace(
    Target.generic(),
    has_local=True,
    has_shared=True,
    shared_bytes=1 << 15,
    max_local=256,
    max_global=(1 << 30,) * 3,
)


@pytest.mark.parametrize(
    "opts",
    [
        (Opt(OptOp.PADTO, 0, 8), Opt(OptOp.UPCAST, 0, 8), Opt(OptOp.GROUP, 0, 8)),
        (Opt(OptOp.PADTO, 0, 4), Opt(OptOp.OVERLAP, 0, 4), Opt(OptOp.GROUP, 0, 16)),
    ],
    ids=str,
)
def test_one_member_stores_a_vector_of_which_a_part_is_beyond_the_end(
    opts: tuple[Opt, ...],
) -> None:
    x = make_reshape(buffer(1, 16 * 13, device="GPU"), (16, 13))
    context = Context(target=GPU, device="GPU", opts=opts)
    ranged = run_pipeline("rangeify", UOp.sink(make_reduce_axis(x, Op.ADD, (0,))), context)
    body = next(run_pipeline("kernelize", ranged, context).iter_ops(Op.CALL)).src[0]
    assert_same(
        body, linearize(run_pipeline("lower", run_pipeline("optimize", body, context), context))
    )


@pytest.mark.parametrize("shape", [(6, 64), (12, 48), (6, 128), (6, 16)])
@pytest.mark.parametrize("group", [OptOp.GROUP, OptOp.GROUPTOP])
@pytest.mark.parametrize("before", [(), (Opt(OptOp.LOCAL, 0, 3),), (Opt(OptOp.UPCAST, 0, 2),)])
def test_a_grouped_sum_equals_the_sum(
    shape: tuple[int, int], group: OptOp, before: tuple[Opt, ...]
) -> None:
    x = make_reshape(buffer(1, shape[0] * shape[1], device="GPU"), shape)
    context = Context(target=GPU, device="GPU", opts=(*before, Opt(group, 0, 8)))
    ranged = run_pipeline("rangeify", UOp.sink(make_reduce_axis(x, Op.ADD, (1,))), context)
    body = next(run_pipeline("kernelize", ranged, context).iter_ops(Op.CALL)).src[0]
    linear = linearize(run_pipeline("lower", run_pipeline("optimize", body, context), context))
    assert any(n.op is Op.BARRIER for n in linear)
    assert any(n.op is Op.DEFINE_LOCAL for n in linear)
    assert_same(body, linear)
