"""Watched plans: the kernel named for a NaN."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from svod_device import Buffer
from svod_dtype import DType, bfloat16, float16, float32, float64
from svod_ir.origins import Origin
from svod_runtime import ExecutionPlan, NonFiniteError

if TYPE_CHECKING:
    from conftest import Array, Plans
    from svod_runtime.plan.watch import Watched


def build(
    plans: Plans, output: int, watched: Watched = "nan", *, line: Origin | None = None
) -> ExecutionPlan:
    plans.builder.set_output_buffers([output])
    template = plans.builder.build_template(plans.buffers)
    origins = {} if line is None else {op.id: (line,) for op in template.ops}
    return template.bind(plans.buffers, origins=origins, watched=watched)


def logarithm(out: Array, x: Array) -> None:
    with np.errstate(all="ignore"):
        out[:] = np.log(x)


def test_the_first_kernel_that_produces_a_nan_is_named_and_later_ones_do_not_run(
    plans: Plans,
) -> None:
    x, y, z = plans.buffer(fill=-2.0), plans.buffer(), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [y], [x], name="shift"))
    plans.op(plans.kernel(logarithm, [z], [y], name="log", op_id=7))
    plans.op(plans.kernel(plans.add_one, [y], [z], name="last"))
    with pytest.raises(NonFiniteError) as caught:
        build(plans, y, line=Origin("/a/model.py", 3, "f", "log")).execute()
    error = caught.value
    assert str(error).splitlines()[:2] == [
        (
            "kernel log (op 7) produces nan from inputs without any: element 0 of its buffer 0, and 3"
            " more"
        ),
        "  note: it comes from model.py:3 log",
    ]
    assert (error.kernel, error.op_id, error.buffer, error.element, error.count) == (
        "log",
        7,
        0,
        0,
        4,
    )
    assert plans.names() == ["shift", "log"]


def test_a_kernel_that_reads_a_nan_may_write_one(plans: Plans) -> None:
    x, y = plans.buffer(fill=math.nan), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [y], [x]))
    build(plans, y).execute()
    assert all(map(math.isnan, plans.read(y)))


@pytest.mark.parametrize("watched", ["nan", "inf"])
def test_infinities_are_errors_only_if_watched(plans: Plans, watched: Watched) -> None:
    x, y = plans.buffer(fill=0.0), plans.buffer()
    plans.op(plans.kernel(logarithm, [y], [x]))
    plan = build(plans, y, watched)
    if watched == "nan":
        plan.execute()
        assert plans.read(y) == [-math.inf] * 4
    else:
        with pytest.raises(NonFiniteError, match="produces -inf"):
            plan.execute()


def test_old_nans_in_an_output_are_ignored_and_kept(plans: Plans) -> None:
    def first_half(out: Array) -> None:
        out[:2] = 5

    x = plans.buffer(fill=math.nan)
    plans.op(plans.kernel(first_half, [x]))
    build(plans, x).execute()
    np.testing.assert_array_equal(plans.read(x), [5, 5, math.nan, math.nan])


def test_zeros_written_over_nans_stay_zeros(plans: Plans) -> None:
    x = plans.buffer(fill=math.nan)
    plans.op(plans.kernel(plans.fill(0.0), [x]))
    build(plans, x).execute()
    assert plans.read(x) == [0.0] * 4


def test_the_same_nan_is_found_in_the_next_execution_too(plans: Plans) -> None:
    x, y = plans.buffer(fill=-2.0), plans.buffer()
    plans.op(plans.kernel(logarithm, [y], [x]))
    plan = build(plans, y)
    for _ in range(2):
        with pytest.raises(NonFiniteError):
            plan.execute()


@pytest.mark.parametrize(
    ("dtype", "large"), [(float64, 1e300), (float32, 3e38), (float16, 6e4), (bfloat16, 3e38)]
)
def test_numbers_that_are_large_for_their_dtype_are_finite(
    plans: Plans, dtype: DType, large: float
) -> None:
    x, y = (plans.add(Buffer(plans.allocator, dtype, 4)) for _ in range(2))
    plans.buffers[x].copyin(np.full(4, large).astype(dtype.numpy).tobytes())

    def move(*_: Array) -> None:
        plans.buffers[y].copyin(plans.buffers[x].to_bytes())

    def grow(*_: Array) -> None:
        with np.errstate(over="ignore"):
            plans.buffers[y].copyin((plans.buffers[x].as_numpy() * 8).astype(dtype.numpy).tobytes())

    plans.op(plans.kernel(move, [y], [x]))
    build(plans, y, "inf").execute()
    plans.builder.add_op(plans.kernel(grow, [y], [x]))
    plan = build(plans, y, "inf")
    if dtype is float64:
        plan.execute()
    else:
        with pytest.raises(NonFiniteError, match="produces inf"):
            plan.execute()


def test_a_watched_batch_runs_sequentially(plans: Plans) -> None:
    launcher = plans.launcher()
    x, y, z = plans.buffer(fill=1.0), plans.buffer(), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [y], [x], name="first", launcher=launcher))
    plans.op(plans.kernel(plans.add_one, [z], [y], name="second", launcher=launcher))
    build(plans, z).execute()
    assert (plans.names(), launcher.n_runs, plans.read(z)) == (["first", "second"], 0, [3.0] * 4)


def test_a_guard_gets_its_buffers_and_the_variables_after_each_execution(plans: Plans) -> None:
    seen: list[list[float]] = []
    x, y = plans.buffer(fill=1.0), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [y], [x]))
    plans.builder.set_output_buffers([x])
    plans.builder.set_guarded_buffers([y])
    template = plans.builder.build_template(plans.buffers)
    plan = template.bind(
        plans.buffers, guard=lambda buffers, _: seen.append(buffers[0].as_numpy().tolist())
    )
    plan.execute()
    plan.execute_profiled()
    assert seen == [[2.0] * 4] * 2
    assert plan.output_buffers == (plans.buffers[x],)
