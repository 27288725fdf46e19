from __future__ import annotations

import copy
import gc
import pickle
import threading

import numpy as np
import pytest

from svod_ir import UOp
from svod_runtime import VariableBoundsError as RunVariableBoundsError
from svod_schedule import ConfigError, OptimizerConfig
from svod_tensor import PrepareConfig, Tensor, Variable, jit
from svod_tensor.engine import memory_nodes
from svod_tensor.errors import (
    BatchOutputError,
    BufferNotFoundError,
    EmptyScheduleError,
    SymbolicShapeError,
    VariableBoundsError,
    VariableConflictError,
)


def test_realizing_a_realized_tensor_has_no_effect():
    x = Tensor([1.0, 2.0])
    node = x.uop
    assert x.realize() is x
    assert x.uop is node


def test_realizing_a_constant_gives_it_a_buffer_and_does_not_affect_other_uses():
    x = Tensor(3.0)
    other = Tensor([1.0]) * Tensor(3.0)
    node = other.uop
    assert x.realize().is_realized
    assert other.uop is node
    assert other.tolist() == [3.0]


def test_an_empty_tensor_runs_no_kernel():
    x = Tensor.zeros(0, 3) + 1
    node = x.realize().uop
    assert x.uop is node
    assert x.numpy().shape == (0, 3)
    with pytest.raises(BufferNotFoundError):
        x.buffer()


def test_other_tensors_see_the_buffer_of_a_realized_node():
    x = Tensor([1.0, 2.0])
    y = x + 1
    z = y * 2
    w = Tensor.from_uop(y.uop)
    y.realize()
    assert not w.is_realized
    assert w.uop is y.uop
    assert len(z.prepare().kernels()) == 1
    assert y.uop in z.uop.toposort() or z.is_realized
    z2 = y * 2
    assert z2.tolist() == [4.0, 6.0]


def test_inputs_keep_their_buffers_and_intermediates_are_not_kept():
    gc.collect()
    before = _count_buffers()
    x = Tensor(np.ones((8, 8), np.float32))
    y = ((x @ x).contiguous() @ x).realize()
    assert _count_buffers() == before + 2
    assert memory_nodes.find_buffer(memory_nodes.find_base(x.uop)) is not None
    del x, y
    gc.collect()
    assert _count_buffers() == before


def _count_buffers():
    return sum(
        isinstance(node, UOp) and memory_nodes.find_buffer(node) is not None
        for node in gc.get_objects()
    )


def test_a_batch_computes_shared_nodes_once():
    x = Tensor(np.ones((4, 4), np.float32))
    shared = (x @ x).contiguous()
    a, b = shared + 1, shared * 2
    plan = Tensor.prepare_batch([a, b])
    assert len(plan.kernels()) == 2  # what is shared, and both results
    plan.execute()
    assert a.numpy()[0, 0] == 5
    assert b.numpy()[0, 0] == 8


def test_an_empty_batch_is_valid_and_an_empty_plan_is_an_error():
    Tensor.realize_batch([])
    Tensor.realize_batch([Tensor([1]), Tensor.zeros(0)])
    with pytest.raises(EmptyScheduleError, match="no tensors"):
        Tensor.prepare_batch([])
    with pytest.raises(EmptyScheduleError, match="all 2 tensors"):
        Tensor.prepare_batch([Tensor([1]), Tensor.zeros(0)])


def test_a_batch_may_name_a_tensor_twice_and_mix_realized_ones():
    x = Tensor([1.0, 2.0])
    y = x + 1
    z = x + 1
    Tensor.realize_batch([y, x, z, y])
    assert y.tolist() == z.tolist() == [2.0, 3.0]


def test_equal_tensors_of_a_batch_have_memory_of_their_own():
    first, second, third = Tensor.zeros(3), Tensor.zeros(3), Tensor([1.0]).expand(3)
    fourth = third.clone()
    Tensor.realize_batch([first, second, third, fourth])
    first += 1
    third = third + 1
    assert [t.tolist() for t in (first, second, third, fourth)] == [
        [1.0] * 3,
        [0.0] * 3,
        [2.0] * 3,
        [1.0] * 3,
    ]


def test_fewer_outputs_than_tensors_is_an_error_with_both_counts(monkeypatch):
    class Plan:
        num_outputs = 1
        num_kernels = 0
        output_buffers = ()

        def execute(self):
            pass

    monkeypatch.setattr("svod_tensor._realize.make_plan", lambda *_: Plan())
    x = Tensor([1.0])
    with pytest.raises(BatchOutputError, match="2 tensors are to be realized, but the plan has 1"):
        Tensor.prepare_batch([x + 1, x + 2])


def test_a_plan_reads_new_inputs_each_time():
    x = Tensor.empty(3)
    y = x * 2
    plan = y.prepare()
    for value in (1.0, 5.0):
        x.buffer().copyin(np.full(3, value, np.float32))
        plan.execute()
        assert y.tolist() == [value * 2] * 3


def test_plan_outputs_keep_the_order_of_their_tensors():
    x = Tensor([1.0, 2.0])
    tensors = [x + i for i in range(5)]
    plan = Tensor.prepare_batch(tensors)
    plan.execute()
    assert [b.as_numpy()[0] for b in plan.output_buffers] == [1.0 + i for i in range(5)]
    assert [t.tolist()[0] for t in tensors] == [1.0 + i for i in range(5)]


def test_a_configuration_reaches_the_optimizer():
    x = Tensor(np.arange(1024, dtype=np.float32))
    y = x + 1
    plan = y.prepare_with(PrepareConfig(opts=()))
    plan.execute()
    assert not plan.kernels()[0].kernel.spec.ast.arg.applied_opts
    z = (x + 2).realize_with(PrepareConfig(opts=(), disable_schedule_cache=True))
    np.testing.assert_array_equal(z.numpy(), np.arange(1024, dtype=np.float32) + 2)


def test_an_optimizer_configuration_is_accepted_as_prepare_configuration(monkeypatch):
    monkeypatch.setenv("SVOD_MEMORY_PLANNER", "disabled")
    config, x = OptimizerConfig(strategy="none"), Tensor(np.arange(1024, dtype=np.float32))
    plans = [(x + 1).prepare_with(config), Tensor.prepare_batch_with([x + 1], config)]
    jitted = jit(lambda x: x + 1, config=config)
    for plan in plans:
        assert plan.kernels()[0].kernel.spec.ast.arg.applied_opts == ()
        assert plan.memory_report.mode == "disabled"
    total = x + 3
    Tensor.realize_batch_with([total], config)
    for result, added in (((x + 1).realize_with(config), 1), (total, 3), (jitted(x), 1)):
        np.testing.assert_array_equal(result.numpy(), np.arange(1024, dtype=np.float32) + added)


@pytest.mark.parametrize("config", ["beam", 4, {"opts": ()}])
def test_an_invalid_configuration_is_an_error_that_shows_it(config):
    calls = [
        (Tensor([1.0]) + 1).realize_with,
        (Tensor([1.0]) + 1).prepare_with,
        lambda c: jit(abs, config=c),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match="is not a PrepareConfig or an OptimizerConfig"):
            call(config)


def test_variables_check_their_bounds():
    with pytest.raises(VariableBoundsError, match="5 to 2 hold no value"):
        Variable("n", 5, 2)
    with pytest.raises(VariableBoundsError, match="9 is outside 1 to 8") as caught:
        Variable("n", 1, 8).bind(9)
    assert isinstance(caught.value, ValueError)


def test_two_values_for_one_variable_are_an_error_with_both():
    n = Variable("n", 1, 8)
    x = Tensor(np.arange(8, dtype=np.float32))
    with pytest.raises(VariableConflictError, match="'n' is bound to 2 and to 3"):
        (x[: n.bind(2)].sum() + x[: n.bind(3)].sum()).realize()


def test_one_plan_serves_all_values_of_a_variable():
    n = Variable("n", 1, 8)
    x = Tensor(np.arange(8, dtype=np.float32))
    y = x[: n.bind(3)].sum()
    plan = y.prepare()
    plan.execute()
    assert y.item() == 3
    for value in (1, 8, 5):
        plan.execute_with_vars({"n": value})
        assert y.item() == sum(range(value))
    with pytest.raises(RunVariableBoundsError):
        plan.execute_with_vars({"n": 9})


def test_a_tensor_with_a_symbolic_size_reads_as_its_bound_size():
    n = Variable("n", 1, 8)
    x = Tensor(np.arange(24, dtype=np.float32).reshape(8, 3))
    part = x[: n.bind(2)] * 10
    assert part.tolist() == [[0.0, 10.0, 20.0], [30.0, 40.0, 50.0]]
    assert part.is_realized
    assert (part + 1).sum().item() == 150 + 6
    with pytest.raises(SymbolicShapeError):
        len(part)


def test_other_values_of_a_variable_reuse_the_schedule():
    from svod_tensor.engine.caches import SCHEDULES

    n = Variable("n", 1, 100)
    x = Tensor(np.arange(100, dtype=np.float32)).realize()
    x[: n.bind(7)].mean().realize()
    entries = SCHEDULES.counts().entries
    assert x[: n.bind(70)].mean().item() == pytest.approx(34.5)
    assert SCHEDULES.counts().entries == entries


def test_a_chain_of_a_hundred_thousand_additions_is_built_and_freed():
    x = Tensor([1.0, 2.0])
    y = x
    for _ in range(100_000):
        y = y + x
    assert y.shape == (2,)
    assert "lazy ADD" in repr(y)
    assert y.uop.content_hash
    del y
    gc.collect()


def test_a_long_chain_computes():
    x = Tensor([1.0, 2.0])
    y = x
    for _ in range(5000):
        y = y + x
    assert y.tolist() == [5001.0, 10002.0]


def test_threads_build_and_realize_at_once():
    errors: list[BaseException] = []
    base = Tensor(np.arange(64, dtype=np.float32))

    def work(seed: int) -> None:
        try:
            for i in range(8):
                expected = (np.arange(64, dtype=np.float32) * (seed + 1) + i).sum()
                assert (base * (seed + 1) + i).sum().item() == pytest.approx(expected)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_threads_may_realize_the_same_tensor():
    x = Tensor(np.ones((32, 32), np.float32))
    y = (x @ x).softmax()
    barrier = threading.Barrier(4)
    results: list[np.ndarray] = []

    def work() -> None:
        barrier.wait()
        results.append(y.numpy(copy=True))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(np.array_equal(r, results[0]) for r in results)


def test_the_time_of_realization_never_changes_values(rng):
    a = rng.standard_normal((6, 6)).astype(np.float32)

    def run(moments: set[int]) -> np.ndarray:
        x = Tensor(a)
        for step in range(6):
            x = [
                lambda v: v @ v.T,
                lambda v: v.softmax(),
                lambda v: v[::-1] + 1,
                lambda v: v - v.mean(0),
                lambda v: v.cumsum(1),
                lambda v: v.T * 2,
            ][step](x)
            if step in moments:
                x.realize()
        return x.numpy(copy=True)

    expected = run(set())
    for moments in ({0}, {1, 3}, {2, 4}, {0, 1, 2, 3, 4, 5}):
        np.testing.assert_allclose(run(moments), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "bfloat16", "float8_e5m2"])
def test_a_pickled_tensor_is_its_elements(dtype: str) -> None:
    for x in (
        Tensor([[0, 1, 2], [3, 4, 5]]).cast(dtype),
        Tensor(1).cast(dtype),
        Tensor.zeros(0, 2, dtype=dtype),
    ):
        stored = pickle.dumps(x)
        x.realize().assign(x.zeros_like()).realize()
        y = pickle.loads(stored)
        assert (y.dtype, y.shape, y.device) == (x.dtype, x.shape, "CPU")
        assert y.cast("int32").numpy().ravel().tolist() in (
            [0, 1, 2, 3, 4, 5],
            [0, 1, 1, 1, 1, 1],
            [1],
            [],
        )


def test_a_pickled_tensor_keeps_its_device() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    for placed in (x.to("CPU:1"), x.shard(("CPU", "CPU:1"), 0), x.shard(("CPU", "CPU:1"))):
        y = pickle.loads(pickle.dumps(placed))
        assert (y.device, y.sharding, y.tolist()) == (placed.device, placed.sharding, x.tolist())


def test_copy_and_deepcopy_share_no_memory() -> None:
    x = Tensor([1, 2, 3])
    shallow, deep = copy.copy(x), copy.deepcopy({"x": x})["x"]
    Tensor.realize_batch([shallow, deep])
    x.assign(x * 0).realize()
    assert (shallow.tolist(), deep.tolist()) == ([1, 2, 3], [1, 2, 3])


def test_plans_whose_realized_tensors_differ_in_size_are_two() -> None:
    for size in (4, 6):
        x, y = Tensor(np.arange(size)).realize(), Tensor.zeros(2, 3)
        plan = Tensor.prepare_batch([x, y])
        plan.execute()
        assert plan.output_buffers[0].as_numpy().tolist() == list(range(size))
