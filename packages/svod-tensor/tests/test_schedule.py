from __future__ import annotations

import numpy as np
import pytest

from svod_device import Buffer, get_allocator, get_device
from svod_dtype import float32, index
from svod_ir.ops import Op
from svod_ir.testing import nodes
from svod_ir.testing.nodes import bind, buffer
from svod_ir.uop import UOp
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.engine import caches as engine_caches
from svod_tensor.engine import compute
from svod_tensor.engine.build import make_result, normalize_graph, normalize_results
from svod_tensor.engine.caches import KERNELS, SCHEDULES, TEMPLATES
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


def test_memory_that_no_device_is_named_for_has_the_size_that_it_says():
    x = buffer(8, device="CPU:1")
    numbers = set()
    for size in (1, 6):
        for out in (nodes.local(0, size), nodes.param(1, size)):
            pre = create_pre_schedule(UOp.sink(out.after(call(out, x))))
            (item,) = instantiate_schedule(pre, {x: storage("CPU:1")}, {}).items
            assert (item.buffers[0].size, item.buffers[0].dtype, item.buffers[0].device) == (size, float32, "CPU:1")
            numbers.add(item.buffer_ids[0])
    assert len(numbers) == 2
    assert max(numbers) < -(1 << 39)


def test_only_variables_that_a_kernel_reads_reach_it():
    n, out = UOp.variable("n", 0, 9), buffer(-1)
    bound = bind(n, 3)
    pre = create_pre_schedule(
        UOp.sink(out.after(call(out, variables=(n,)).with_src((*call(out, variables=(n,)).src, bound))))
    )
    (item,) = instantiate_schedule(pre, {}, {"n": 3, "m": 4}).items
    assert item.fixedvars == {"n": 3}
    assert item.loop_var_names == frozenset()
    assert len(item.buffers) == 1


def test_nothing_to_run_is_an_error():
    with pytest.raises(EmptyScheduleError):
        instantiate_schedule(PreSchedule((), (), ()), {}, {})


def test_normalising_forgets_buffers_and_values_and_nothing_else():
    def graph(a, b, n):
        bound = bind(UOp.variable("n", 0, 9), n)
        return UOp.sink(a + b + bound.cast(float32))

    one, two = normalize_graph(graph(buffer(1), buffer(2), 3)), normalize_graph(graph(buffer(8), buffer(9), 5))
    assert one.sink is two.sink
    assert one.params == (buffer(1), buffer(2))
    assert normalize_graph(graph(buffer(1), buffer(1), 3)).sink is not one.sink
    assert normalize_graph(graph(buffer(1, device="CPU:1"), buffer(2, device="CPU:1"), 3)).sink is not one.sink
    assert not list(one.sink.iter_ops(Op.BUFFER, Op.BIND))


def test_a_graph_names_the_devices_that_compute_it_and_first_that_of_values_without_memory():
    far, disk = buffer(1, device="CPU:1"), buffer(2, device="DISK:/tmp/data")
    nothing = UOp.const(float32, 2.0)
    for roots, devices, has_files in (
        ((far + far,), ("CPU:1",), False),
        ((far + far, nothing), ("CPU", "CPU:1"), False),
        ((nothing,), ("CPU",), False),
        ((disk + disk,), ("CPU",), True),
        ((disk + disk, far), ("CPU", "CPU:1"), True),
        ((UOp(Op.COPY, float32, (far,), "CPU:2"), far + far), ("CPU:1", "CPU:2"), False),
    ):
        found = normalize_graph(UOp.sink(*roots))
        assert (found.devices, found.has_files) == (devices, has_files)


def test_results_are_normalised_as_the_sink_that_holds_them():
    x, y = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    state = Tensor([5.0, 6.0])
    state.assign(x + state)
    values = [(x + 1).uop, (x + y).uop, state.uop]
    for some in (values, values[:1], values[2:]):
        found = normalize_results(some)
        expected = normalize_graph(UOp.sink(*map(make_result, some)))
        assert found.sink is expected.sink
        assert (found.params, found.values, found.devices) == (expected.params, expected.values, expected.devices)
    assert [node.op for node in normalize_results(values[:2]).sink.src] == [Op.CONTIGUOUS] * 2


def test_equal_graphs_on_other_buffers_hit_the_schedule_cache():
    SCHEDULES.clear()
    for value in (1.0, 2.0, 3.0):
        x = Tensor([value, value])
        assert (x * 7 + 5).sum().item() == 2 * (value * 7 + 5)
        assert SCHEDULES.counts().entries == 1
    (Tensor([1.0, 2.0, 3.0]) * 7 + 5).sum().realize()
    assert SCHEDULES.counts().entries == 2


def test_a_cached_schedule_holds_no_buffer():
    SCHEDULES.clear()
    (Tensor([1.0]) + 1).realize()
    (((graph, *_), pre),) = SCHEDULES._entries.items()
    for root in (graph, *(n for item in pre.items for n in (item.kernel, item.ast, *item.memory)), *pre.outputs):
        assert all(n.arg.id < 0 for n in root.iter_ops(Op.BUFFER))


def test_restoring_gives_the_buffers_of_this_call():
    x = Tensor([1.0, 2.0])
    normalized = normalize_graph(UOp.sink(x.uop + x.uop))
    param = next(normalized.sink.iter_ops(Op.PARAM))
    out = buffer(-1)
    pre = create_pre_schedule(UOp.sink(out.after(call(out, param))))
    assert restore_pre_schedule(pre, normalized).items[0].memory == (out, next(x.uop.iter_ops(Op.BUFFER)))


def test_both_paths_give_equal_results(rng):
    a = rng.standard_normal((9, 9)).astype(np.float32)
    results = [
        (Tensor(a) @ Tensor(a) + 1).softmax().realize_with(PrepareConfig(disable_schedule_cache=flag)).numpy(copy=True)
        for flag in (False, False, True)
    ]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("asks", ["the variable", "the caller"])
def test_whoever_turns_the_schedule_cache_off_schedules_each_time(monkeypatch, asks):
    made = []
    make = compute.make_pre_schedule
    monkeypatch.setattr(compute, "make_pre_schedule", lambda *arguments: made.append(1) or make(*arguments))
    if asks == "the variable":
        monkeypatch.setenv("SVOD_DISABLE_SCHEDULE_CACHE", "1")
    config = PrepareConfig.from_env() if asks == "the variable" else PrepareConfig(disable_schedule_cache=True)
    assert config.disable_schedule_cache
    SCHEDULES.clear()
    for n in range(1, 4):
        x = Tensor([float(n), 2.0]) * 11 - 3
        found = x.tolist() if asks == "the variable" else x.realize_with(config).tolist()
        assert found == [n * 11 - 3, 19]
        assert len(made) == n
    assert SCHEDULES.counts()[:3] == (0, 0, 0)


def test_a_field_that_the_caller_sets_wins_over_the_variable(monkeypatch):
    monkeypatch.setenv("SVOD_DISABLE_SCHEDULE_CACHE", "1")
    SCHEDULES.clear()
    (Tensor([1.0]) * 13).realize_with(PrepareConfig(disable_schedule_cache=False))
    assert SCHEDULES.counts().entries == 1


def test_the_schedule_cache_is_bounded_and_forgets_the_oldest(monkeypatch):
    def is_cached(n):
        graph = UOp.sink(UOp.const(float32, n))
        hits = SCHEDULES.counts().hits
        SCHEDULES.get((graph,), lambda: PreSchedule((), (), ()))
        return SCHEDULES.counts().hits > hits

    SCHEDULES.clear()
    monkeypatch.setattr(engine_caches, "MAX_SCHEDULES", 2)
    assert [is_cached(n) for n in (0, 1, 0, 2, 3)] == [False, False, True, False, False]
    assert SCHEDULES.counts()[:4] == (2, 1, 4, 2)
    assert [is_cached(n) for n in (2, 3, 1)] == [True, True, False]
    SCHEDULES.clear()
    assert SCHEDULES.counts()[:3] == (0, 0, 0)


def test_templates_of_plans_are_bounded(monkeypatch):
    TEMPLATES.clear()
    monkeypatch.setattr(engine_caches, "MAX_TEMPLATES", 2)
    for size in range(1, 5):
        (Tensor([1.0] * size) * 21).realize()
    assert TEMPLATES.counts().entries == 2


def test_equal_kernels_are_compiled_once():
    KERNELS.clear()
    x = Tensor(np.ones((5, 5), np.float32))
    y = x
    for _ in range(4):
        y = (y * 3).contiguous()
    plan = y.prepare()
    assert len(plan.kernels()) == 4
    assert len({k.kernel for k in plan.kernels()}) == 1
    assert KERNELS.counts().entries == 1
    again = (Tensor(np.zeros((5, 5), np.float32)) * 3).prepare()
    assert again.kernels()[0].kernel is plan.kernels()[0].kernel


def test_what_another_compiler_made_is_not_used(odd_plan):
    SCHEDULES.clear()
    KERNELS.clear()
    compiler, x, kernels = get_device("ODD").compiler.inner, Tensor([1.0, 2.0], device="ODD"), []
    for compiler.cache_key in ("one", "two", "one"):
        (kernel,) = (x * 3).prepare().kernels()
        kernels.append(kernel.kernel)
    assert kernels[0] is kernels[2] is not kernels[1]
    assert SCHEDULES.counts()[:3] == (2, 1, 2)
    SCHEDULES.clear()
    # Now the kernels alone decide.
    for compiler.cache_key, expected in (("two", kernels[1]), ("one", kernels[0]), ("three", None)):
        (kernel,) = (x * 3).prepare().kernels()
        assert (kernel.kernel in kernels) == (expected is not None)
        assert expected is None or kernel.kernel is expected


def test_the_kernel_cache_is_bounded_and_forgets_the_oldest(monkeypatch):
    KERNELS.clear()
    monkeypatch.setenv("SVOD_OPT_CACHE_MAX", "2")
    x = Tensor([1.0, 2.0])
    for n in range(4):
        (x * (n + 2.5)).realize()
    assert KERNELS.counts().entries == 2
    assert KERNELS.counts().max_entries == 2
    SCHEDULES.clear()  # which keeps the kernels of its plans
    made = KERNELS.counts().misses
    for n in (3, 2):
        (x * (n + 2.5)).realize()
    assert KERNELS.counts().misses == made
    (x * 2.5).realize()
    assert KERNELS.counts().misses == made + 1
    KERNELS.clear()


def test_a_size_that_means_nothing_gives_a_warning_and_the_usual_cache(monkeypatch):
    KERNELS.clear()
    monkeypatch.setenv("SVOD_OPT_CACHE_MAX", "lots")
    with pytest.warns(UserWarning, match="SVOD_OPT_CACHE_MAX is 'lots', which is no positive integer; 4096 is used"):
        assert (Tensor([1.0, 2.0]) * 77.5).tolist() == [77.5, 155.0]
    with pytest.warns(UserWarning, match="4096"):
        assert KERNELS.counts()[::3] == (1, 4096)
