"""Execution of plans: order, batches, groups, threads, variables, profiles, custom functions,
errors.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from svod_device import Buffer, Dims, HostAllocator, Program, Variable
from svod_device.testing import AsynchronousAllocator
from svod_dtype import float32
from svod_ir import UOp
from svod_ir.origins import Origin
from svod_ir.testing import count_examples
from svod_runtime import (
    ExecutionError,
    PlanError,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    ProfileError,
    UnsupportedError,
    VariableBoundsError,
    clear_custom_functions,
    register_custom_function,
)
from svod_runtime.kernels.arrangement import MAX_BATCH_WORK
from svod_runtime.kernels.kernel_state import KernelState
from svod_runtime.plan.execute import _wait_for_all
from svod_runtime.plan.sharing import Sharing

if TYPE_CHECKING:
    from conftest import Array, Plans

Together = Callable[[Callable[[], None], Callable[[], None]], None]

N = Variable("n", 1, 10)
BIG = 1 << 20


def write_n(out: Array, n: int) -> None:
    out[:] = n


def test_a_chain_of_kernels_fills_the_output(plans: Plans) -> None:
    source, middle, out = plans.buffer(4, 1), plans.buffer(), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [middle], [source]))
    plans.op(plans.kernel(plans.add_one, [out], [middle]))
    plan = plans.build(out)
    plan.execute()
    assert plans.read(out) == [3] * 4
    plans.buffers[source].copyin(np.full(4, 10, np.float32))
    plan.execute()
    assert plans.read(out) == [12] * 4
    assert plans.names() == ["k1", "k2"] * 2


def test_a_run_of_kernels_is_one_foreign_call(plans: Plans) -> None:
    launcher = plans.launcher()
    chain = [plans.buffer(4, 1), *(plans.buffer() for _ in range(5))]
    for source, out in pairwise(chain):
        plans.op(plans.kernel(plans.add_one, [out], [source], launcher=launcher))
    plan = plans.build(chain[-1])
    assert plan.num_calls == 1
    plan.execute()
    plan.execute()
    assert launcher.n_runs == 2
    assert len(launcher.tables) == 1
    assert plans.read(chain[-1]) == [6] * 4
    assert [launch.group for launch in launcher.tables[0]] == [0, 1, 2, 3, 4]


def test_other_ops_than_kernels_split_the_batch(plans: Plans) -> None:
    launcher, other = plans.launcher(), plans.launcher()
    a, b, c = plans.buffer(4, 1), plans.buffer(), plans.buffer()
    plans.op(plans.kernel(plans.add_one, [b], [a], launcher=launcher))
    plans.op(plans.kernel(plans.add_one, [b], [b], launcher=launcher))
    plans.op(PreparedCopy(50, (c, b)))
    plans.op(plans.kernel(plans.add_one, [c], [c], launcher=launcher))
    plans.op(plans.kernel(plans.add_one, [c], [c], launcher=other))
    plans.op(plans.kernel(plans.add_one, [c], [c]))
    plan = plans.build(c)
    assert plan.num_calls == 5
    plan.execute()
    assert plans.read(c) == [6] * 4
    assert [len(table) for table in launcher.tables] == [2, 1]
    assert (launcher.n_runs, other.n_runs) == (2, 1)


def test_a_view_needs_no_call(plans: Plans) -> None:
    launcher = plans.launcher()
    base, out = plans.buffer(8, 3), plans.buffer()
    view = plans.view(base, 4, 4)
    plans.op(plans.kernel(plans.fill(7), [base], launcher=launcher))
    plans.op(PreparedBufferView(60, (view, base), 16, 16))
    plans.op(plans.kernel(plans.add_one, [out], [view], launcher=launcher))
    plan = plans.build(out)
    assert plan.num_calls == 1
    plan.execute()
    assert plans.read(out) == [8] * 4


def test_views_follow_a_replaced_base(plans: Plans) -> None:
    base, out = plans.buffer(8, 3), plans.buffer()
    view = plans.view(base, 2, 6)
    inner = plans.view(view, 2, 4)
    plans.op(PreparedBufferView(60, (view, base), 8, 24))
    plans.op(PreparedBufferView(61, (inner, view), 8, 16))
    plans.op(plans.kernel(plans.add_one, [out], [inner]))
    plan = plans.build(out)
    data = Buffer(plans.allocator, float32, 8)
    data.copyin(np.arange(8, dtype=np.float32))
    plan.replace_buffer(base, data)
    plan.execute()
    assert plans.read(out) == [5, 6, 7, 8]
    # An interrupt came before all buffers were in their places.
    plan._buffers[base] = plans.buffers[base]
    plan._is_stale = True
    plan.execute()
    assert plans.read(out) == [4] * 4


def test_independent_kernels_form_one_group(plans: Plans) -> None:
    launcher = plans.launcher()
    source, x, y, z = plans.buffer(), plans.buffer(), plans.buffer(), plans.buffer()
    for out in (x, y):
        plans.op(plans.kernel(plans.add_one, [out], [source], launcher=launcher, n_bytes=BIG))
    plans.op(plans.kernel(plans.add_one, [z], [x], launcher=launcher, n_bytes=BIG))
    plans.build(x, y, z).execute()
    assert [launch.group for launch in launcher.tables[0]] == [0, 0, 1]


@pytest.mark.parametrize(
    ("n_bytes", "global_size", "is_safe"),
    [(64, (1, 1, 1), True), (BIG, (8, 1, 1), True), (BIG, (1, 1, 1), False)],
    ids=["too small to pay for a thread", "uses all cores already", "not safe beside others"],
)
def test_kernels_unsafe_to_parallelize_have_their_own_group(
    plans: Plans, n_bytes: int, global_size: tuple[int, int, int], is_safe: bool
) -> None:
    launcher = plans.launcher()
    outs = [plans.buffer() for _ in range(3)]
    for out in outs:
        plans.op(
            plans.kernel(
                plans.fill(1),
                [out],
                launcher=launcher,
                n_bytes=n_bytes,
                global_size=global_size,
                is_safe=is_safe,
            )
        )
    plans.build(*outs).execute()
    assert [launch.group for launch in launcher.tables[0]] == [0, 1, 2]


def test_independent_kernels_without_a_launcher_run_at_the_same_time(plans: Plans) -> None:
    x, y = plans.buffer(), plans.buffer()
    barrier = threading.Barrier(2, timeout=300)

    def meet(out: Array) -> None:
        barrier.wait()
        out[:] = 1

    for out in (x, y):
        plans.op(plans.kernel(meet, [out], n_bytes=BIG))
    plan = plans.build(x, y)
    assert plan.num_calls == 1
    plan.execute()
    assert plans.read(x) == plans.read(y) == [1] * 4


def test_an_error_in_one_of_several_parallel_kernels_is_raised(plans: Plans) -> None:
    x, y = plans.buffer(), plans.buffer()

    def fail(out: Array) -> None:
        raise ZeroDivisionError("by zero")

    plans.op(plans.kernel(plans.fill(1), [x], n_bytes=BIG))
    plans.op(plans.kernel(fail, [y], n_bytes=BIG, name="divide"))
    with pytest.raises(
        ExecutionError, match=r"kernel divide \(op 2\) failed: ZeroDivisionError: by zero"
    ):
        plans.build(x, y).execute()
    assert plans.read(x) == [1] * 4


def test_a_plan_executed_by_two_threads_runs_one_after_the_other(
    plans: Plans, two_threads: Together
) -> None:
    out = plans.buffer()
    inside: list[int] = []
    most: list[int] = []

    def body(out: Array) -> None:
        inside.append(1)
        most.append(len(inside))
        for _ in range(200):
            out[:] = out + 1
        inside.pop()

    plans.op(plans.kernel(body, [out]))
    plan = plans.build(out)
    two_threads(
        lambda: [plan.execute() for _ in range(20)] and None,
        lambda: [plan.execute() for _ in range(20)] and None,
    )
    assert set(most) == {1}
    assert plans.read(out) == [8000] * 4


def test_two_plans_run_at_the_same_time(
    two_threads: Together, request: pytest.FixtureRequest
) -> None:
    barrier = threading.Barrier(2, timeout=300)

    def meet(out: Array) -> None:
        barrier.wait()

    built = []
    for _ in range(2):
        plans = type(request.getfixturevalue("plans"))()
        out = plans.buffer()
        plans.op(plans.kernel(meet, [out]))
        built.append(plans.build(out))
    two_threads(built[0].execute, built[1].execute)
    assert barrier.n_waiting == 0


def test_a_batch_that_fails_names_its_kernels(plans: Plans) -> None:
    def fail(out: Array) -> None:
        raise RuntimeError("device lost")

    launcher, out = plans.launcher(), plans.buffer()
    for _ in range(5):
        plans.op(plans.kernel(fail, [out], launcher=launcher))
    with pytest.raises(ExecutionError) as caught:
        plans.build(out).execute()
    assert (
        str(caught.value)
        == "batch of kernels k1, k2, k3, k4, ... failed: RuntimeError: device lost"
    )


def test_a_copy_copies_all_bytes_in_order(plans: Plans) -> None:
    source, out = plans.buffer(4, 2), plans.buffer()
    plans.op(plans.kernel(plans.fill(5), [source]))
    plans.op(PreparedCopy(9, (out, source)))
    plans.op(plans.kernel(plans.fill(6), [source]))
    plans.build(out).execute()
    assert (plans.read(out), plans.read(source)) == ([5] * 4, [6] * 4)


def test_a_copy_that_fails_names_its_op(plans: Plans) -> None:
    class Broken(HostAllocator):
        is_host_addressable = False

        def copy_in(self, address: int, source: memoryview) -> None:
            raise OSError("bus error")

    plans.add(Buffer(Broken("FAR"), float32, 4))
    source = plans.buffer()
    plans.op(PreparedCopy(9, (0, source)))
    with pytest.raises(ExecutionError) as caught:
        plans.build(source).execute()
    assert str(caught.value) == "copy (op 9) failed: bus error"


def test_a_view_at_another_offset_shows_both_intervals(plans: Plans) -> None:
    base = plans.buffer(8)
    view = plans.view(base, 4, 4)
    ran = plans.buffer()
    plans.op(plans.kernel(plans.fill(1), [ran]))
    plans.op(PreparedBufferView(60, (view, base), 8, 16))
    plan = plans.build(base)
    number = plans.buffers[base].storage_id
    with pytest.raises(ExecutionError) as caught:
        plan.execute()
    assert (
        str(caught.value)
        == f"buffer view (op 60) failed: view is [storage {number}, offset 16, 16 bytes], "
        f"expected [storage {number}, offset 8, 16 bytes]"
    )
    assert plans.names() == []


@pytest.mark.parametrize(("offset", "size"), [(16, 12), (12, 16)])
def test_each_part_of_a_view_is_verified(plans: Plans, offset: int, size: int) -> None:
    base = plans.buffer(8)
    view = plans.view(base, 4, 4)
    plans.op(PreparedBufferView(60, (view, base), offset, size))
    with pytest.raises(ExecutionError, match=r"buffer view \(op 60\)"):
        plans.build(base).execute()


def test_a_view_of_another_storage_is_rejected(plans: Plans) -> None:
    base, other = plans.buffer(8), plans.buffer(8)
    view = plans.view(other, 0, 4)
    plans.op(PreparedBufferView(60, (view, base), 0, 16))
    with pytest.raises(ExecutionError, match=r"view is .*, expected"):
        plans.build(base).execute()


def test_variables_change_without_a_new_plan_and_keep_their_last_value(plans: Plans) -> None:
    x, y = plans.buffer(), plans.buffer()
    m = Variable("m", 0, 100)
    launcher = plans.launcher()
    plans.op(plans.kernel(write_n, [x], variables=[N], values=[3], launcher=launcher))
    plans.op(plans.kernel(write_n, [y], variables=[m], values=[40], launcher=launcher))
    plan = plans.build(x, y)
    plan.execute()
    assert (plans.read(x)[0], plans.read(y)[0]) == (3, 40)
    plan.execute_with_vars({"n": 7})
    assert (plans.read(x)[0], plans.read(y)[0]) == (7, 40)
    plan.execute_with_vars({"m": 50, "unused": 1 << 80})
    assert (plans.read(x)[0], plans.read(y)[0]) == (7, 50)
    plan.execute()
    assert (plans.read(x)[0], plans.read(y)[0]) == (7, 50)
    assert len(launcher.tables) == 1


@pytest.mark.parametrize("value", [0, 11, -5])
def test_a_value_outside_the_bounds_changes_and_runs_nothing(plans: Plans, value: int) -> None:
    out = plans.buffer()
    m = Variable("m", 0, 100)
    plans.op(
        plans.kernel(lambda out, m, n: write_n(out, m + n), [out], variables=[m, N], values=[0, 3])
    )
    plan = plans.build(out)
    with pytest.raises(VariableBoundsError) as caught:
        plan.execute_with_vars({"m": 50, "n": value})
    assert (
        str(caught.value) == f"variable n = {value} is outside its bounds [1, 10]\n"
        "  hint: buffers are sized for the largest value; declare the variable with wider bounds"
    )
    assert isinstance(caught.value, ValueError)
    assert plans.names() == []
    plan.execute()
    assert plans.read(out)[0] == 3


def test_a_value_that_is_no_integer_changes_nothing(plans: Plans) -> None:
    out = plans.buffer()
    plans.op(plans.kernel(write_n, [out], variables=[N], values=[3]))
    plan = plans.build(out)
    with pytest.raises(TypeError):
        plan.execute_with_vars({"n": 2.5})
    plan.execute_with_vars({"n": np.int32(4)})
    assert plans.read(out)[0] == 4


def test_fixed_variables_and_the_core_number_are_never_touched(plans: Plans) -> None:
    x, y = plans.buffer(), plans.buffer()
    core = Variable("core_id", 0, 3)
    plans.op(plans.kernel(write_n, [x], variables=[N], values=[2], fixedvars={"n": 2}))
    plans.op(plans.kernel(write_n, [y], variables=[core, N], values=[4]))
    plan = plans.build(x, y)
    plan.execute_with_vars({"n": 9, "core_id": 1000})
    assert (plans.read(x)[0], plans.read(y)[0]) == (2, 9)


@pytest.mark.parametrize("given", [(2, 7, 7), (7, 4), (4, 7)])
def test_a_variable_is_set_where_another_kernel_has_the_value_already(
    plans: Plans, given: tuple[int, ...]
) -> None:
    x, y, z = plans.buffer(), plans.buffer(), plans.buffer()
    plans.op(plans.kernel(write_n, [x], variables=[N], values=[4]))
    plans.op(plans.kernel(write_n, [y], variables=[N], values=[7]))
    plans.op(plans.kernel(write_n, [z], variables=[N], values=[2], fixedvars={"n": 2}))
    plan = plans.build(x, y, z)
    for n in given:
        plan.execute_with_vars({"n": n})
        assert [plans.read(i)[0] for i in (x, y, z)] == [n, n, 2]


def test_a_fixed_variable_accepts_any_value_for_its_name_elsewhere(plans: Plans) -> None:
    out = plans.buffer()
    plans.op(plans.kernel(write_n, [out], variables=[N], values=[2], fixedvars={"n": 2}))
    plans.build(out).execute_with_vars({"n": 5000})
    assert plans.read(out)[0] == 2


def test_launch_sizes_follow_the_variables(plans: Plans) -> None:
    out = plans.buffer()
    launcher = plans.launcher()
    n = UOp.variable("n", 1, 10)
    for chosen in (launcher, None):
        plans.op(
            plans.kernel(
                lambda out, n: None,
                [out],
                variables=[N],
                values=[3],
                global_size=(n * 4, 2, 1),
                launcher=chosen,
            )
        )
    plan = plans.build(out)
    plan.execute()
    plan.execute_with_vars({"n": 5})
    plan.execute_with_vars({"n": 5})
    assert plans.log == [("k1", (12, 2, 1)), ("k2", (12, 2, 1))] + 2 * [
        ("k1", (20, 2, 1)),
        ("k2", (20, 2, 1)),
    ]
    assert len(launcher.tables) == 2
    assert [kernel.global_size for kernel in plan.kernels()] == [(20, 2, 1)] * 2


def test_a_batch_is_rebuilt_when_a_launch_size_changes(plans: Plans) -> None:
    x, y, launcher = plans.buffer(), plans.buffer(), plans.launcher()
    for name, out in (("n", x), ("m", y)):
        size, variable = UOp.variable(name, 1, 10), Variable(name, 1, 10)
        plans.op(
            plans.kernel(
                lambda *_: None,
                [out],
                variables=[variable],
                values=[3],
                global_size=(size, 1, 1),
                launcher=launcher,
            )
        )
    plan = plans.build(x, y)
    for values in ({"n": 5}, {"m": 7}, {"n": 5, "m": 7}):
        plan.execute_with_vars(values)
    assert [size[0] for _, size in plans.log] == [5, 3, 5, 7, 5, 7]
    assert len(launcher.tables) == 3


def test_launch_sizes_use_fixed_variables(plans: Plans) -> None:
    out = plans.buffer()
    i = UOp.variable("i", 0, 7)
    plans.op(plans.kernel(lambda out: None, [out], fixedvars={"i": 6}, global_size=(i, 1, 1)))
    plans.build(out).execute()
    assert plans.log == [("k1", (6, 1, 1))]


def test_a_value_for_the_name_of_a_fixed_variable_neither_changes_nor_spoils_a_launch_size(
    plans: Plans,
) -> None:
    out = plans.buffer()
    sizes = (8 - UOp.variable("n", 1, 10), 1, 1)
    for fixed in ({"n": 2}, {}):
        kernel = plans.kernel(
            lambda out, n: None,
            [out],
            variables=[N],
            values=[2],
            fixedvars=fixed,
            global_size=sizes,
            name="fixed" if fixed else "free",
        )
        plans.op(kernel)
    plan = plans.build(out)
    plan.execute_with_vars({"n": 5})
    assert plans.log == [("fixed", (6, 1, 1)), ("free", (3, 1, 1))]
    # The size of one kernel would be 0, that of the other is what it was.
    with pytest.raises(ExecutionError, match="kernel free"):
        plan.execute_with_vars({"n": 8})


def test_an_invalid_launch_size_leaves_the_plan_unchanged(plans: Plans) -> None:
    out = plans.buffer()
    n = UOp.variable("n", 1, 10)
    plans.op(
        plans.kernel(
            lambda out, n: None,
            [out],
            variables=[N],
            values=[8],
            global_size=(n - 5, 1, 1),
            name="tail",
        )
    )
    plan = plans.build(out)
    with pytest.raises(ExecutionError) as caught:
        plan.execute_with_vars({"n": 5})
    assert str(caught.value).startswith("kernel tail (op 1) failed: launch size n")
    assert str(caught.value).endswith("dimension 0 is 0, not positive")
    plan.execute()
    assert plans.log == [("tail", (3, 1, 1))]


def test_each_kernel_has_a_profile_in_order(plans: Plans) -> None:
    launcher = plans.launcher()
    a, b, c = plans.buffer(4, 1), plans.buffer(), plans.buffer()
    plans.op(
        plans.kernel(
            plans.add_one, [b], [a], launcher=launcher, name="first", n_operations=4, n_bytes=32
        )
    )
    plans.op(PreparedCopy(50, (c, b)))
    plans.op(plans.kernel(plans.add_one, [c], [c], name="second"))
    plan = plans.build(c)
    profiles = plan.execute_profiled()
    assert [p.name for p in profiles] == ["first", "second"]
    assert plans.read(c) == [3] * 4
    assert [(p.device, p.n_buffers, p.n_operations, p.n_bytes) for p in profiles] == [
        ("CPU", 2, 4, 32),
        ("CPU", 2, 0, 32),
    ]
    first = profiles[0]
    assert first.elapsed_ns > 0
    assert first.kernel is plans.kernels[0]
    assert first.gflops == 4 / first.elapsed_ns
    assert first.gigabytes_per_second == 32 / first.elapsed_ns
    assert first.elapsed_us == first.elapsed_ns / 1000
    assert "first on CPU, 2 buffers" in str(first)
    assert launcher.n_runs == 0


def test_a_report_excludes_the_warm_up_run(plans: Plans) -> None:
    out = plans.buffer(4, 0)
    plans.op(plans.kernel(plans.add_one, [out], [out], name="count"))
    plan = plans.build(out)
    report = plan.profile(n_runs=3)
    assert plans.read(out) == [4] * 4
    assert (report.n_runs, [s.n_launches for s in report.summaries()]) == (3, [3])
    with pytest.raises(ProfileError, match="n_runs must be at least 1, got 0"):
        plan.profile(n_runs=0)


def test_a_report_uses_the_requested_variables(plans: Plans) -> None:
    out = plans.buffer()
    plans.op(plans.kernel(write_n, [out], variables=[N], values=[3]))
    plan = plans.build(out)
    plan.profile({"n": 6}, n_runs=1)
    assert plans.read(out)[0] == 6


def test_origins_are_in_profiles_and_errors(plans: Plans) -> None:
    line, problems = Origin("/home/me/model.py", 3, "forward", "add"), list[str]()

    def work(out: Array) -> None:
        if problems:
            raise RuntimeError(problems[0])

    out = plans.buffer()
    op = plans.kernel(work, [out], name="work")
    plans.op(op)
    plans.builder.set_output_buffers([out])
    template = plans.builder.build_template(plans.buffers)
    plan = template.bind(plans.buffers, origins={op.id: (line,)})
    (profile,) = plan.execute_profiled()
    assert profile.origins == (line,)
    assert str(profile).endswith("  work on CPU, 1 buffers, from model.py:3 add")
    assert str(replace(profile, origins=())).endswith("  work on CPU, 1 buffers")
    assert [k.origins for k in plan.kernels()] == [(line,)]
    assert template.bind(plans.buffers).execute_profiled()[0].origins == ()
    problems.append("device lost")
    with pytest.raises(ExecutionError) as caught:
        plan.execute()
    assert (
        str(caught.value)
        == f"kernel work (op {op.id}) failed: RuntimeError: device lost\n  note: it comes from"
        " model.py:3 add"
    )


class QueuedProgram:
    """A program whose launches are pending until its device is waited for."""

    entry: int | None = None

    def __init__(self, inner: Program, allocator: AsynchronousAllocator) -> None:
        self.inner, self.allocator, self.name = inner, allocator, inner.name

    def __call__(
        self,
        buffers: Sequence[int],
        values: Sequence[int],
        global_size: Dims,
        local_size: Dims | None = None,
    ) -> None:
        addresses, numbers = list(buffers), list(values)
        self.allocator.enqueue(lambda: self.inner(addresses, numbers, global_size, local_size))


def test_the_profile_of_a_kernel_includes_asynchronous_work(plans: Plans) -> None:
    plans.allocator = allocator = AsynchronousAllocator("CPU")
    a, b, c = plans.buffer(4, 1), plans.buffer(), plans.buffer()

    def work(out: Array, source: Array) -> None:
        time.sleep(0.01)
        out[:] = source + 1

    for out, source in ((b, a), (c, b)):
        op = plans.kernel(work, [out], [source], is_safe=False)
        plans.op(
            replace(
                op, kernel=replace(op.kernel, program=QueuedProgram(op.kernel.program, allocator))
            )
        )
    plan = plans.build(c)
    profiles = plan.execute_profiled()
    assert [profile.elapsed_ns >= 10_000_000 for profile in profiles] == [True, True]
    assert allocator.n_pending == 0
    # Without a profile nobody waits before the result is read.
    plan.execute()
    assert allocator.n_pending == 2
    assert plans.read(c) == [3.0] * 4


def test_device_timers_take_precedence(plans: Plans) -> None:
    class Timed:
        entry = None

        def __init__(self, program: Program) -> None:
            self.name, self.program = program.name, program

        def __call__(
            self,
            buffers: Sequence[int],
            values: Sequence[int],
            global_size: Dims,
            local_size: Dims | None = None,
        ) -> None:
            raise AssertionError("profiling takes the call that is timed")

        def timed_call(
            self,
            buffers: Sequence[int],
            values: Sequence[int],
            global_size: Dims,
            local_size: Dims | None = None,
        ) -> int:
            self.program(buffers, values, global_size, local_size)
            return 12_345

    out = plans.buffer()
    op = plans.kernel(plans.fill(7), [out])
    plans.op(replace(op, kernel=replace(op.kernel, program=Timed(op.kernel.program))))
    (profile,) = plans.build(out).execute_profiled()
    assert profile.elapsed_ns == 12_345
    assert plans.read(out) == [7] * 4


def test_parallel_kernels_are_profiled_sequentially(plans: Plans) -> None:
    outs = [plans.buffer() for _ in range(3)]
    for out in outs:
        plans.op(plans.kernel(plans.fill(1), [out], n_bytes=BIG))
    assert [p.name for p in plans.build(*outs).execute_profiled()] == ["k1", "k2", "k3"]


def test_profiled_execution_takes_variables(plans: Plans) -> None:
    out = plans.buffer()
    plans.op(plans.kernel(write_n, [out], variables=[N], values=[3]))
    plan = plans.build(out)
    assert len(plan.execute_with_vars_profiled({"n": 6})) == 1
    assert plans.read(out)[0] == 6
    with pytest.raises(VariableBoundsError):
        plan.execute_with_vars_profiled({"n": 60})


def test_a_custom_function_gets_buffers_variables_and_attributes(plans: Plans) -> None:
    seen: list[tuple[list[float], dict[str, int], Sequence[UOp]]] = []

    def double(
        buffers: Sequence[Buffer], variables: Mapping[str, int], attrs: Sequence[UOp]
    ) -> None:
        seen.append((buffers[0].as_numpy().tolist(), dict(variables), attrs))
        array = buffers[0].as_numpy()
        array *= 2

    register_custom_function("double", double)
    source, out = plans.buffer(2, 3), plans.buffer(2)
    attr = UOp.variable("n", 1, 10)
    plans.op(plans.kernel(plans.add_one, [out], [source]))
    plans.op(
        PreparedCustomFunction(
            70, "double", (out,), (attr,), variables=(N,), values={"n": 4}, fixedvars={"i": 1}
        )
    )
    plans.op(plans.kernel(plans.add_one, [out], [out]))
    plan = plans.build(out)
    plan.execute()
    assert plans.read(out) == [9, 9]
    plan.execute_with_vars({"n": 5, "i": 8})
    assert seen == [([4, 4], {"n": 4, "i": 1}, (attr,)), ([4, 4], {"n": 5, "i": 1}, (attr,))]
    with pytest.raises(VariableBoundsError):
        plan.execute_with_vars({"n": 11})
    assert plan.execute_profiled() and plans.read(out) == [9, 9]


def test_an_unregistered_kind_raises_its_own_error(plans: Plans) -> None:
    register_custom_function("known", lambda buffers, variables, attrs: None)
    out = plans.buffer()
    plans.op(PreparedCustomFunction(70, "EncDec", (out,)))
    with pytest.raises(UnsupportedError) as caught:
        plans.build(out).execute()
    assert (
        str(caught.value) == "custom function 'EncDec' is not registered\n"
        "  note: registered kinds: known\n"
        "  hint: register it: svod_runtime.register_custom_function('EncDec', function)"
    )
    assert (caught.value.kind, isinstance(caught.value, NotImplementedError)) == ("EncDec", True)


def test_a_built_in_function_is_never_cleared_but_can_be_overridden(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    # What is built in stays for the whole process, and so for the other tests.
    monkeypatch.setattr("svod_runtime.ops.custom_functions._built_in", {})
    register_custom_function("kind", lambda *_: seen.append("built in"), is_built_in=True)
    plans.op(PreparedCustomFunction(70, "kind", (plans.buffer(),)))
    plan = plans.build(0)
    plan.execute()
    register_custom_function("kind", lambda *_: seen.append("own"))
    plan.execute()
    clear_custom_functions()
    plan.execute()
    assert seen == ["built in", "own", "built in"]


def test_errors_of_custom_functions_keep_their_type_and_name_the_op(
    plans: Plans,
) -> None:
    def refuse(
        buffers: Sequence[Buffer], variables: Mapping[str, int], attrs: Sequence[UOp]
    ) -> None:
        raise UnsupportedError(kind="codec", known=())

    def fail(buffers: Sequence[Buffer], variables: Mapping[str, int], attrs: Sequence[UOp]) -> None:
        raise KeyError("x")

    register_custom_function("refuse", refuse)
    register_custom_function("fail", fail)
    out = plans.buffer()
    plans.op(PreparedCustomFunction(70, "refuse", (out,)))
    with pytest.raises(UnsupportedError, match="custom function 'codec' is not registered"):
        plans.build(out).execute()
    register_custom_function("refuse", fail)
    with pytest.raises(KeyError, match="x") as caught:
        plans.builder.build().execute()
    assert caught.value.__notes__ == ["raised by custom function 'refuse' (op 70)"]


@settings(max_examples=count_examples(60), deadline=None)
@given(data=st.data())
def test_random_plans_over_one_arena_agree_with_running_them_in_order(
    data: st.DataObject, request: pytest.FixtureRequest
) -> None:
    plans: Plans = type(request.getfixturevalue("plans"))()
    arena = plans.buffer(24)
    model = np.zeros(24, np.float32)
    slots = [(start, size) for start in (0, 4, 8, 12) for size in (4, 8, 12)]
    handles = {slot: plans.view(arena, *slot) for slot in slots}
    launcher = plans.launcher()
    for number in range(data.draw(st.integers(1, 12))):
        (out, n), (source, m) = data.draw(st.sampled_from(slots)), data.draw(st.sampled_from(slots))
        n = min(n, m)
        if out < source + n and source < out + n and (out, n) != (source, n):
            continue  # A kernel over partly overlapping arguments has no defined result.
        target, origin = handles.get((out, n)), handles.get((source, n))
        assert target is not None and origin is not None

        def body(x: Array, y: Array, number: int = number) -> None:
            x[:] = y * 2 + number

        if data.draw(st.booleans()):
            plans.op(
                plans.kernel(
                    body,
                    [target],
                    [origin],
                    launcher=data.draw(st.sampled_from([launcher, None])),
                    n_bytes=BIG,
                )
            )
            model[out : out + n] = model[source : source + n] * 2 + number
        else:
            plans.op(PreparedCopy(500 + number, (target, origin)))
            model[out : out + n] = model[source : source + n].copy()
    plans.build(arena).execute()
    assert plans.read(arena) == model.tolist()


def test_long_batches_are_split_so_that_signals_are_handled(plans: Plans) -> None:
    launcher = plans.launcher()
    out = plans.buffer()
    for work in (MAX_BATCH_WORK // 2, MAX_BATCH_WORK // 2, 5, 5, 2 * MAX_BATCH_WORK, 5):
        plans.op(plans.kernel(plans.fill(1), [out], launcher=launcher, n_operations=work))
    plan = plans.build(out)
    assert [len(table) for table in launcher.tables] == [2, 2, 1, 1]
    plan.execute()
    assert plans.names() == ["k1", "k2", "k3", "k4", "k5", "k6"]


class _Interrupting:
    """A collection that is interrupted when it is listed for the second time."""

    n_lists = 0

    def __iter__(self) -> Iterator[KernelState]:
        self.n_lists += 1
        if self.n_lists > 1:
            raise KeyboardInterrupt
        return iter(())


def test_a_plan_recovers_from_an_interrupt_while_buffers_are_replaced(
    plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, out = plans.buffer(4, 1), plans.buffer(4, 2), plans.buffer()
    launcher = plans.launcher()

    def add(out: Array, x: Array, y: Array, n: int) -> None:
        out[:] = x + y + n

    plans.op(
        plans.kernel(add, [out], [first, second], variables=[N], values=[3], launcher=launcher)
    )
    plan = plans.build(out)
    fresh = [Buffer(HostAllocator(), float32, 4) for _ in range(2)]
    for buffer, value in zip(fresh, (10, 20), strict=True):
        buffer.copyin(np.full(4, value, np.float32))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Sharing, "follow", interrupt)
        with pytest.raises(KeyboardInterrupt):
            plan.replace_buffers({first: fresh[0], second: fresh[1]})
    plan.replace_buffers({first: fresh[0], second: fresh[1]})
    with monkeypatch.context() as patch:
        # The values are set by then, and the steps are not made.
        patch.setattr(plan, "_varying_states", _Interrupting())
        with pytest.raises(KeyboardInterrupt):
            plan.execute_with_vars({"n": 5})
    plan.execute()
    assert plans.read(out) == [35] * 4


def test_threads_execute_one_plan_on_buffers_of_their_own(plans: Plans) -> None:
    given, out = plans.buffer(4, 1), plans.buffer()

    def add(out: Array, x: Array, n: int) -> None:
        out[:] = x + n

    plans.op(
        plans.kernel(add, [out], [given], variables=[N], values=[3], launcher=plans.launcher())
    )
    plan = plans.build(out)
    wrong: list[float] = []

    def work(value: int) -> None:
        for n in range(1, 9):
            source, target = (Buffer(HostAllocator(), float32, 4) for _ in range(2))
            source.copyin(np.full(4, value, np.float32))
            plan.execute_on({given: source, out: target}, {"n": n})
            wrong.extend(x for x in target.as_numpy().tolist() if x != value + n)

    threads = [threading.Thread(target=work, args=(value,)) for value in (10, 20, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_rejected_replacement_runs_nothing(plans: Plans) -> None:
    out = plans.buffer(4, 7)
    plans.op(plans.kernel(plans.fill(1), [out]))
    plan = plans.build(out)
    with pytest.raises(PlanError, match="cannot replace"):
        plan.execute_on({out: Buffer(HostAllocator(), float32, 5)}, {})
    assert plans.names() == []
    assert plans.read(out) == [7] * 4


def test_parallel_kernels_are_waited_for_when_one_is_interrupted(plans: Plans) -> None:
    x, y = plans.buffer(), plans.buffer()
    is_interrupted = threading.Event()

    def interrupt(_: Array) -> None:
        is_interrupted.set()
        raise KeyboardInterrupt

    def fill_late(out: Array) -> None:
        assert is_interrupted.wait(300)
        out[:] = 3

    plans.op(plans.kernel(interrupt, [x], n_bytes=1 << 20))
    plans.op(plans.kernel(fill_late, [y], n_bytes=1 << 20))
    plan = plans.build(x, y)
    with pytest.raises(KeyboardInterrupt):
        plan.execute()
    assert plans.read(y) == [3] * 4


def test_an_interrupt_of_the_wait_is_raised_when_all_are_done() -> None:
    asked: list[str] = []

    class Late(Future[None]):
        def __init__(self, name: str, n_interrupts: int) -> None:
            super().__init__()
            self.name, self.n_interrupts = name, n_interrupts

        def exception(self, timeout: float | None = None) -> BaseException | None:
            asked.append(self.name)
            self.n_interrupts -= 1
            if self.n_interrupts >= 0:
                raise KeyboardInterrupt
            return ValueError(self.name)

    with pytest.raises(KeyboardInterrupt):
        _wait_for_all([Late("first", 0), Late("second", 2), Late("third", 0)])
    assert asked[-1] == "third"
    assert asked.count("second") == 3
    assert [str(error) for error in _wait_for_all([Late("first", 0), Late("second", 0)])] == [
        "first",
        "second",
    ]
