from __future__ import annotations

import pytest

from svod_device import Buffer, get_allocator
from svod_dtype import float32, index
from svod_ir import AxisType, Op, UOp
from svod_ir.testing import nodes
from svod_ir.testing.nodes import bind, buffer
from svod_tensor import Tensor
from svod_tensor.engine.build import normalize_graph
from svod_tensor.engine.instantiate import instantiate_schedule, restore_pre_schedule
from svod_tensor.engine.preschedule import PreSchedule, create_pre_schedule
from svod_tensor.errors import BufferNotFoundError, EmptyScheduleError


def call(*arguments, variables=()):
    zero = UOp.const(index, 0)
    params = [nodes.param(slot) for slot in range(len(arguments))]
    value = UOp.const(float32, 1.0)
    for part in (*(p.index(zero) for p in params[1:]), *(v.cast(float32) for v in variables)):
        value = value + part
    return nodes.call(UOp.sink(params[0].index(zero).store(value)), *arguments)


def storage(device="CPU"):
    return Buffer(get_allocator(device), float32, 4)


def test_inputs_come_first_and_intermediates_are_shared_between_calls():
    x, mid, out = buffer(7), buffer(-1), buffer(-2)
    pre = create_pre_schedule(UOp.sink(out.after(call(out, mid.after(call(mid, x)), x))))
    given = storage()
    result = instantiate_schedule(pre, {x: given}, {})
    first, second = result.items
    assert first.buffers[1] is given
    assert second.buffers[2] is given
    assert second.buffers[1] is first.buffers[0]
    assert first.buffer_ids == (-1, 7)
    assert result.output_ids == (-2,)
    assert not first.buffers[0].is_allocated


def test_each_instantiation_has_its_own_intermediates():
    mid, out = buffer(-1), buffer(-2)
    pre = create_pre_schedule(UOp.sink(out.after(call(out, mid.after(call(mid))))))
    one, two = instantiate_schedule(pre, {}, {}), instantiate_schedule(pre, {}, {})
    assert one.items[0].buffers[0].storage_id != two.items[0].buffers[0].storage_id


def test_an_input_without_buffer_is_an_error():
    x, out = buffer(7), buffer(-1)
    pre = create_pre_schedule(UOp.sink(out.after(call(out, x))))
    with pytest.raises(BufferNotFoundError, match="7"):
        instantiate_schedule(pre, {}, {})


def test_new_buffers_follow_the_first_source_that_is_no_disk(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(16))
    x, y = buffer(7, device=f"DISK:{path}"), buffer(8, device="CPU:1")
    out = nodes.param(0)
    pre = create_pre_schedule(UOp.sink(out.after(call(out, x, y))))
    inputs = {x: storage(f"DISK:{path}"), y: storage("CPU:1")}
    assert instantiate_schedule(pre, inputs, {}).items[0].buffers[0].device == "CPU:1"
    pre = create_pre_schedule(UOp.sink(out.after(call(out, x))))
    assert instantiate_schedule(pre, inputs, {}).items[0].buffers[0].device == "CPU"


def test_memory_without_a_device_has_its_declared_size():
    x = buffer(8, device="CPU:1")
    numbers = set()
    for size in (1, 6):
        for out in (nodes.local(0, size), nodes.param(1, size)):
            pre = create_pre_schedule(UOp.sink(out.after(call(out, x))))
            (item,) = instantiate_schedule(pre, {x: storage("CPU:1")}, {}).items
            assert (item.buffers[0].size, item.buffers[0].dtype, item.buffers[0].device) == (
                size,
                float32,
                "CPU:1",
            )
            numbers.add(item.buffer_ids[0])
    assert len(numbers) == 2
    assert max(numbers) < -(1 << 39)


def test_only_variables_that_a_kernel_reads_reach_it():
    n, out = UOp.variable("n", 0, 9), buffer(-1)
    bound = bind(n, 3)
    pre = create_pre_schedule(
        UOp.sink(
            out.after(call(out, variables=(n,)).with_src((*call(out, variables=(n,)).src, bound)))
        )
    )
    (item,) = instantiate_schedule(pre, {}, {"n": 3, "m": 4}).items
    assert item.fixedvars == {"n": 3}
    assert item.loop_var_names == frozenset()
    assert len(item.buffers) == 1


def test_a_reader_of_a_loop_waits_for_the_last_iteration():
    one, two, out = buffer(-1), buffer(-2), buffer(-3)
    r = UOp.range(UOp.const(index, 3), 0, AxisType.LOOP)
    counter = bind(UOp.variable("i", 0, 7), r)
    filled = one.after(call(one, counter).end(r))
    scaled = two.after(call(two, filled, counter).end(r))
    pre = create_pre_schedule(UOp.sink(out.after(call(out, scaled))))
    items = instantiate_schedule(pre, {}, {}).items
    assert [item.kernel_id for item in items] == [0, 1, 0, 1, 0, 1, 2]
    assert [item.dependencies for item in items] == [(), (0,), (), (2,), (), (4,), (5,)]


def test_an_empty_schedule_is_an_error():
    with pytest.raises(EmptyScheduleError):
        instantiate_schedule(PreSchedule((), (), ()), {}, {})


def test_restoring_gives_the_buffers_of_this_call():
    x = Tensor([1.0, 2.0])
    normalized = normalize_graph(UOp.sink(x.uop + x.uop))
    param = next(normalized.sink.iter_ops(Op.PARAM))
    out = buffer(-1)
    pre = create_pre_schedule(UOp.sink(out.after(call(out, param))))
    assert restore_pre_schedule(pre, normalized).items[0].memory == (
        out,
        next(x.uop.iter_ops(Op.BUFFER)),
    )
