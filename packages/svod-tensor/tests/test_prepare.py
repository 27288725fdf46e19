from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from svod_codegen.backend import make_llvm_backend
from svod_device import (
    Buffer,
    HostAllocator,
    ProgramSpec,
    clear,
    get_allocator,
    register_allocator,
    register_backend,
)
from svod_dtype import float32, int32, uint8, void
from svod_ir import AxisType, Op, UOp
from svod_ir.testing import nodes
from svod_ir.testing.nodes import call, param, select, stack
from svod_runtime import (
    CachedKernel,
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    UnsupportedError,
    clear_custom_functions,
    register_custom_function,
)
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.engine.instantiate import instantiate_schedule
from svod_tensor.engine.prepare import prepare
from svod_tensor.engine.preschedule import create_pre_schedule
from svod_tensor.engine.schedule import Schedule, ScheduleItem, effect_of
from svod_tensor.engine.uncached import plan_schedule
from svod_tensor.errors import (
    BufferNotFoundError,
    EmptyScheduleError,
    ProgramMetadataError,
    ViewBoundsError,
)


def node(number, size=4, device="CPU", dtype=float32):
    return nodes.buffer(number, size, dtype, device)


def filled(values):
    buffer = Buffer(get_allocator("CPU"), float32, len(values))
    buffer.copyin(np.array(values, np.float32))
    return buffer


def add_one(target, source, size=4):
    r = UOp.range(size, 0, AxisType.LOOP)
    body = UOp.sink(param(0).index(r).store(param(1).index(r) + 1.0).end(r))
    return target.after(call(body, target, source))


def plan_of(root, inputs, **config):
    schedule = instantiate_schedule(create_pre_schedule(UOp.sink(root)), inputs, {})
    return plan_schedule(schedule, PrepareConfig(**config))


def test_releasing_a_plan_reports_memory_that_is_only_named_too():
    x, y, out = node(7), node(8), node(-1)
    chosen = select(stack(x, y), 1)
    inputs = {x: filled([1, 2, 3, 4]), y: filled([5, 6, 7, 8])}
    pre = create_pre_schedule(UOp.sink(add_one(out, chosen)))
    (item,) = instantiate_schedule(pre, inputs, {}).items
    assert (item.buffer_ids, item.alias_ids) == ((-1, 8), (7,))
    plan = plan_schedule(instantiate_schedule(pre, inputs, {}), PrepareConfig())
    removed = []
    plan.release_all_buffers(removed.append)
    assert sorted(removed) == [-1, 7, 8]
    plan.execute()
    assert plan.output_buffer.as_numpy().tolist() == [6, 7, 8, 9]


def test_a_copy_becomes_a_prepared_copy_and_moves_between_devices():
    x, far = node(7), node(-1, device="CPU:1")
    there = far.after(call(UOp(Op.COPY, float32, (param(1),), "CPU:1"), far, x))
    plan = plan_of(there, {x: filled([1, 2, 3, 4])})
    assert [type(op) for op in plan.prepared_ops] == [PreparedCopy]
    plan.execute()
    assert plan.output_buffer.device == "CPU:1"
    assert plan.output_buffer.as_numpy().tolist() == [1, 2, 3, 4]


def test_copies_views_and_custom_functions_are_detected_below_end():
    copy = UOp(Op.COPY, float32, (param(1),), "CPU")
    r = UOp.range(2, 0, AxisType.LOOP)
    assert effect_of(copy.end(r)) is copy
    assert effect_of(copy) is copy
    body = UOp.sink()
    assert effect_of(body) is body


def view_call(target, base, offset, size, dtype=float32):
    return target.after(call(UOp(Op.BUFFER_VIEW, dtype, (param(1),), (offset, size)), target, base))


def test_a_view_shares_the_storage_of_its_base_and_kernels_read_it():
    x, view, out = node(7), node(-1, 2), node(-2, 2)
    base = filled([1, 2, 3, 4])
    plan = plan_of(add_one(out, view_call(view, x, 8, 2), 2), {x: base})
    assert [type(op) for op in plan.prepared_ops] == [PreparedBufferView, PreparedKernel]
    assert plan.buffer(-1).storage_id == base.storage_id
    plan.execute()
    assert plan.output_buffer.as_numpy().tolist() == [4, 5]


def test_a_view_of_a_view_and_of_another_dtype():
    x, first, second = node(7), node(-1, 8, dtype=uint8), node(-2, 1, dtype=int32)
    base = filled([1, 2, 3, 4])
    plan = plan_of(view_call(second, view_call(first, x, 8, 8, uint8), 4, 1, int32), {x: base})
    plan.execute()
    assert plan.output_buffer.as_numpy().view(np.float32).tolist() == [4.0]
    assert (plan.output_buffer.storage_id, plan.output_buffer.offset) == (base.storage_id, 12)


def test_a_view_out_of_its_base_is_an_error_with_the_numbers():
    x, view = node(7), node(-1, 4)
    with pytest.raises(
        ViewBoundsError, match="view 0 of buffer 7 takes 16 bytes at offset 8, but there are 16"
    ):
        plan_of(view_call(view, x, 8, 4), {x: filled([1, 2, 3, 4])})


def custom_call(target, source, kind="double"):
    variable = UOp.variable("n", 0, 9)
    return target.after(call(UOp(Op.CUSTOM_FUNCTION, void, (variable,), kind), target, source))


def test_a_custom_function_gets_its_buffers_variables_and_operands():
    seen = {}

    def double(buffers, variables, operands):
        seen.update(variables)
        seen["operands"] = [o.op for o in operands]
        buffers[0].as_numpy()[:] = buffers[1].as_numpy() * 2

    register_custom_function("double", double)
    try:
        x, mid, out = node(7), node(-1), node(-2)
        plan = plan_of(add_one(out, custom_call(mid, x)), {x: filled([1, 2, 3, 4])})
        assert [type(op) for op in plan.prepared_ops] == [PreparedCustomFunction, PreparedKernel]
        plan.execute_with_vars({"n": 5})
        assert plan.output_buffer.as_numpy().tolist() == [3, 5, 7, 9]
        assert seen == {"n": 5, "operands": [Op.DEFINE_VAR]}
    finally:
        clear_custom_functions()


def test_an_unknown_custom_function_is_passed_through():
    x, out = node(7), node(-1)
    plan = plan_of(custom_call(out, x, "nobody"), {x: filled([1, 2, 3, 4])})
    with pytest.raises(UnsupportedError, match="nobody"):
        plan.execute()


def test_one_storage_is_one_buffer_of_the_plan():
    x, y, out = node(7), node(8), node(-1)
    shared = filled([1, 2, 3, 4])
    r = UOp.range(4, 0, AxisType.LOOP)
    body = UOp.sink(param(0).index(r).store(param(1).index(r) + param(2).index(r)).end(r))
    plan = plan_of(out.after(call(body, out, x, y)), {x: shared, y: shared})
    assert len(plan.buffers) == 2
    assert plan.buffer(7) is plan.buffer(8)
    plan.execute()
    assert plan.output_buffer.as_numpy().tolist() == [2, 4, 6, 8]


def test_arguments_follow_the_kernels_slots():
    # Slot 1 is not read, so the compiled kernel takes slots 0 and 2 alone.
    x, y, out = node(7), node(8), node(-1)
    r = UOp.range(4, 0, AxisType.LOOP)
    body = UOp.sink(param(0).index(r).store(param(2).index(r) * 3.0).end(r))
    plan = plan_of(out.after(call(body, out, x, y)), {x: filled([0] * 4), y: filled([1, 2, 3, 4])})
    kernel = plan.kernels()[0]
    assert kernel.kernel.spec.globals == (0, 2)
    plan.execute()
    assert plan.output_buffer.as_numpy().tolist() == [3, 6, 9, 12]


def test_outputs_of_a_kernel_are_named_by_position_not_by_slot():
    # Slot 0 is not read, so that slot 1, which is written, is the first buffer of the compiled
    # kernel.
    x, y, out, last = node(7), node(8), node(-1), node(-2)
    r = UOp.range(4, 0, AxisType.LOOP)
    body = UOp.sink(param(1).index(r).store(param(2).index(r) * 3.0).end(r))
    written = out.after(call(body, x, out, y))
    plan = plan_of(add_one(last, written), {x: filled([0] * 4), y: filled([1, 2, 3, 4])})
    first = plan.prepared_ops[0]
    assert first.kernel.spec.outs == (1,)
    assert [plan.buffers[first.buffer_indices[p]] for p in first.output_indices] == [
        plan.buffer(-1)
    ]
    assert [set(level) for level in plan.levels] == [{0}, {1}]
    plan.execute()
    assert plan.output_buffer.as_numpy().tolist() == [4, 7, 10, 13]


def test_a_kernel_with_gated_stores_is_marked_as_partial():
    r = UOp.range(4, 0, AxisType.LOOP)
    for gate, is_partial in ((None, False), (r.alu(Op.LT, UOp.const(r.dtype, 2)), True)):
        body = UOp.sink(param(0).index(r, gate=gate).store(param(1).index(r) + 1.0).end(r))
        x, out = node(7), node(-1)
        plan = plan_of(out.after(call(body, out, x)), {x: filled([1, 2, 3, 4])})
        assert [op.is_partial for op in plan.prepared_ops] == [is_partial]


def test_the_plan_is_on_the_first_device_that_is_no_disk(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(np.arange(4, dtype=np.float32).tobytes())
    plan = (Tensor.from_file(path).cast("float32") + 1).prepare()
    assert plan.device == "CPU"


def test_an_empty_schedule_and_an_unknown_output_are_errors():
    with pytest.raises(EmptyScheduleError):
        plan_schedule(Schedule([], ()), PrepareConfig())
    x, out = node(7), node(-1)
    schedule = instantiate_schedule(
        create_pre_schedule(UOp.sink(add_one(out, x))), {x: filled([1] * 4)}, {}
    )
    with pytest.raises(BufferNotFoundError, match="output -9"):
        plan_schedule(Schedule(schedule.items, (-9,)), PrepareConfig())


@pytest.mark.parametrize(
    ("globals_", "outs", "n_buffers", "problem"),
    [
        ((0,), (0,), 0, "its call has no buffers"),
        ((), (0,), 2, "it has no buffer parameters"),
        ((0, 1), (), 2, "it writes nothing"),
        ((1,), (0,), 2, "it writes slot 0, which is not among its parameters"),
        ((0, 3), (0,), 2, "it has a parameter for slot 3, which its call does not have"),
    ],
)
def test_each_contradiction_of_a_compiled_kernel_is_an_error_of_its_own(
    globals_, outs, n_buffers, problem
):
    spec = ProgramSpec("k", "", "CPU", globals=globals_, outs=outs)
    x, out = node(7), node(-1)
    (item,) = instantiate_schedule(
        create_pre_schedule(UOp.sink(add_one(out, x))), {x: filled([1] * 4)}, {}
    ).items
    item = ScheduleItem(
        0, item.kernel, item.ast, item.buffers[:n_buffers], item.buffer_ids[:n_buffers]
    )
    with pytest.raises(ProgramMetadataError, match=problem):
        prepare(Schedule([item], (-1,)), {(item.ast, "CPU"): CachedKernel(None, spec)})


def test_schedule_loops_fix_their_variables():
    out = node(-1)
    r = UOp.range(4, 0, AxisType.LOOP)
    counter = UOp.variable("i", 0, 3)
    body = UOp.sink(param(0).index(counter).store(counter.cast(float32) * 10.0))
    bind = nodes.bind(counter, r)
    plan = plan_of(out.after(call(body, out, bind).end(r)), {})
    assert len(plan.prepared_ops) == 4
    plan.execute_with_vars({"i": 3})
    assert plan.output_buffer.as_numpy().tolist() == [0, 10, 20, 30]


@pytest.mark.parametrize("is_safe", [True, False])
def test_a_plugin_s_backend_declares_whether_its_kernels_run_concurrently(is_safe):
    register_allocator("SIDE", HostAllocator)
    register_backend(
        "SIDE.llvm",
        lambda device: replace(make_llvm_backend(device), is_host_parallel_safe=is_safe),
    )
    try:
        plan = Tensor.stack([Tensor([1.0, 2.0], device="SIDE") + n for n in range(2)]).prepare()
        kernels = [op.kernel for op in plan.prepared_ops if isinstance(op, PreparedKernel)]
        assert kernels
        assert {kernel.is_host_parallel_safe for kernel in kernels} == {is_safe}
        plan.execute()
        assert plan.output_buffers[0].as_numpy().tolist() == [1, 2, 2, 3]
    finally:
        clear()
