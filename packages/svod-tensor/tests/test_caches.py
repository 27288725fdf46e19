from __future__ import annotations

import numpy as np
import pytest

from svod_device import get_device
from svod_dtype import float32
from svod_ir import Op, UOp
from svod_schedule import OptimizerConfig
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.engine import caches as engine_caches, compute
from svod_tensor.engine.build import build_sink
from svod_tensor.engine.caches import BINARIES, KERNELS, SCHEDULES, TEMPLATES, make_binary_key
from svod_tensor.engine.job import Inputs, Job
from svod_tensor.engine.memory_nodes import get_buffer
from svod_tensor.engine.preschedule import PreSchedule


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
    for root in (
        graph,
        *(n for item in pre.items for n in (item.kernel, item.ast, *item.memory)),
        *pre.outputs,
    ):
        assert all(n.arg.id < 0 for n in root.iter_ops(Op.BUFFER))


def test_both_paths_give_equal_results(rng):
    a = rng.standard_normal((9, 9)).astype(np.float32)
    results = [
        (Tensor(a) @ Tensor(a) + 1)
        .softmax()
        .realize_with(PrepareConfig(disable_schedule_cache=flag))
        .numpy(copy=True)
        for flag in (False, False, True)
    ]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("asks", ["the variable", "the caller"])
def test_without_the_schedule_cache_each_computation_is_scheduled(monkeypatch, asks):
    made = []
    make = compute.make_pre_schedule
    monkeypatch.setattr(
        compute, "make_pre_schedule", lambda *arguments: made.append(1) or make(*arguments)
    )
    if asks == "the variable":
        monkeypatch.setenv("SVOD_DISABLE_SCHEDULE_CACHE", "1")
    config = (
        PrepareConfig.from_env()
        if asks == "the variable"
        else PrepareConfig(disable_schedule_cache=True)
    )
    assert config.disable_schedule_cache
    SCHEDULES.clear()
    for n in range(1, 4):
        x = Tensor([float(n), 2.0]) * 11 - 3
        found = x.tolist() if asks == "the variable" else x.realize_with(config).tolist()
        assert found == [n * 11 - 3, 19]
        assert len(made) == n
    assert SCHEDULES.counts()[:3] == (0, 0, 0)


def test_an_explicit_field_overrides_the_environment_variable(monkeypatch):
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


def test_results_of_another_compiler_are_not_used(odd_plan):
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


def test_binaries_are_shared_by_devices_of_one_kind_and_by_one_compiler_only(odd_plan):
    for cache in (SCHEDULES, KERNELS, BINARIES):
        cache.clear()
    compiler = get_device("ODD").compiler.inner
    for compiler.cache_key, name, n_compiled in (
        ("one", "ODD", 1),
        ("two", "ODD", 2),
        ("one", "ODD", 2),
    ):
        SCHEDULES.clear()
        KERNELS.clear()
        (Tensor([1.0, 2.0], device=name) * 3).prepare()
        assert BINARIES.counts().misses == n_compiled


def test_plans_of_one_schedule_differ_in_how_they_are_compiled_and_planned():
    SCHEDULES.clear()
    TEMPLATES.clear()

    def prepare(**fields):
        x = Tensor(np.ones((8, 8), np.float32))
        for _ in range(4):
            x = (x @ x).contiguous()
        return x.prepare_with(PrepareConfig(**fields))

    modes = ("arena", "remap", "disabled", "arena")
    assert [prepare(memory_planner=mode).memory_report.mode for mode in modes] == list(modes)
    plain = prepare(optimizer=OptimizerConfig(strategy="none")).kernels()[0]
    assert plain.kernel is not prepare().kernels()[0].kernel
    assert SCHEDULES.counts().misses == 1
    assert TEMPLATES.counts().entries == 4


def test_plans_of_one_schedule_differ_by_their_donated_inputs():
    TEMPLATES.clear()
    for is_donated in (False, True, False):
        x, y = (Tensor(np.full(64, n, np.float32)).clone().realize() for n in (2, 3))
        total = (x * y + 1).contiguous() * 2
        plan = total.prepare(donate=[x] if is_donated else [])
        plan.execute()
        assert total.numpy().tolist() == [14.0] * 64
        assert plan.memory_report.n_donated == is_donated
        assert y.numpy().tolist() == [3.0] * 64


def test_plans_of_one_schedule_differ_in_the_order_of_their_outputs():
    TEMPLATES.clear()
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 1, 2)):
        x = Tensor([1.0, 2.0]).clone().realize()
        tensors = [x, x + 10, x * 100]
        plan = Tensor.prepare_batch([tensors[n] for n in order])
        plan.execute()
        found = [buffer.as_numpy().tolist() for buffer in plan.output_buffers]
        assert found == [[[1.0, 2.0], [11.0, 12.0], [100.0, 200.0]][n] for n in order]
    # What is only an output has any size and dtype.
    for other in (np.ones(3, np.float32), np.ones(3, np.int64), np.ones(5, np.float32)):
        x, y = Tensor([1.0, 2.0]).clone().realize(), Tensor(other).clone().realize()
        plan = Tensor.prepare_batch([y, x + 10])
        plan.execute()
        assert [b.as_numpy().tolist() for b in plan.output_buffers] == [
            other.tolist(),
            [11.0, 12.0],
        ]


def test_the_key_of_a_plan_includes_aliasing_of_inputs_and_observation_of_the_result():
    x, y = Tensor([1.0, 2.0]).clone().realize(), Tensor([3.0, 4.0]).clone().realize()
    graph = build_sink(UOp.sink((x + y).uop))
    buffers = tuple(map(get_buffer, graph.params))
    pre, config = PreSchedule((), (), ()), PrepareConfig()

    def make_key(*given, guard=None):
        return engine_caches.make_template_key(
            pre, Job(graph, Inputs(graph.params, given, None), guard), config
        )

    distinct = make_key(*buffers)
    assert distinct == make_key(*reversed(buffers))
    assert distinct != make_key(buffers[0], buffers[0])
    assert distinct != make_key(*buffers, guard=print)


def test_kernels_depend_on_their_device_and_binaries_on_its_kind(odd_plan):
    for cache in (SCHEDULES, KERNELS, BINARIES):
        cache.clear()
    kernels = []
    for device in ("ODD", "ODD:1"):
        result = Tensor([1.0, 2.0], device=device) * 3
        (kernel,) = result.prepare().kernels()
        kernels.append(kernel.kernel)
        assert result.device == device
    assert kernels[0] is not kernels[1]
    assert BINARIES.counts()[:3] == (1, 1, 1)
    # Equal compilers of two kinds of devices.
    for name in ("ODD", "ODD:1"):
        get_device(name).compiler.inner.cache_key = get_device("CPU").compiler.cache_key
    keys = {make_binary_key(kernels[0].spec, get_device(name)) for name in ("ODD", "ODD:1", "CPU")}
    assert len(keys) == 2


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


def test_an_invalid_size_gives_a_warning_and_the_default_cache(monkeypatch):
    KERNELS.clear()
    monkeypatch.setenv("SVOD_OPT_CACHE_MAX", "lots")
    with pytest.warns(
        UserWarning,
        match="SVOD_OPT_CACHE_MAX must be a positive integer, got 'lots'; 4096 is used",
    ):
        assert (Tensor([1.0, 2.0]) * 77.5).tolist() == [77.5, 155.0]
    with pytest.warns(UserWarning, match="4096"):
        assert KERNELS.counts()[::3] == (1, 4096)
