"""Tensors on several devices give what one device gives."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_device import UnknownDeviceError
from svod_ir import AxisError, DeviceMismatchError, Op, Sharding, print_graph
from svod_ir.evaluate import evaluate
from svod_ir.testing import assert_close, count_examples, graphs, random_inputs, tolerance
from svod_tensor import PrepareConfig, Tensor, Variable, grad, jit
from svod_tensor.errors import ShardError, SymbolicShapeError

TWO, THREE = ("CPU", "CPU:1"), ("CPU", "CPU:1", "CPU:2")


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a_tensor_is_split_along_an_axis():
    x = Tensor(random(5, 4)).shard(TWO, axis=0)
    assert (x.shape, x.device, x.sharding) == ((5, 4), TWO, Sharding(TWO, 0, (3, 2)))
    first, second = x.shards()
    assert (first.shape, first.device, second.shape, second.device) == (
        (3, 4),
        "CPU",
        (2, 4),
        "CPU:1",
    )
    np.testing.assert_array_equal(x.numpy(), random(5, 4))
    np.testing.assert_array_equal(second.numpy(), random(5, 4)[3:])
    assert second.buffer().device == "CPU:1"
    assert x.is_realized


def test_each_device_has_the_whole_tensor_by_default():
    x = Tensor(random(5, 4)).shard(TWO)
    assert x.sharding == Sharding(TWO)
    for shard in x.shards():
        np.testing.assert_array_equal(shard.numpy(), random(5, 4))


def test_one_device_needs_no_shards():
    x = Tensor(random(4)).shard(("CPU:1",), axis=0)
    assert (x.device, x.sharding, len(x.shards())) == ("CPU:1", None, 1)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ShardError, "needs at least one device", lambda x: x.shard(())),
        (ShardError, "got a device twice: CPU, CPU", lambda x: x.shard(("CPU", "CPU:0"), axis=0)),
        (
            AxisError,
            "shard: axis 2 is out of bounds for a tensor of dimension 2",
            lambda x: x.shard(TWO, axis=2),
        ),
        (UnknownDeviceError, "QPU", lambda x: x.shard(("CPU", "QPU"))),
        (ShardError, "each shard has its own", lambda x: x.shard(TWO).buffer()),
        (DeviceMismatchError, r"CPU \+ CPU:1 and CPU", lambda x: x.shard(TWO) + x),
        (
            DeviceMismatchError,
            r"CPU \+ CPU:1 and CPU \+ CPU:1 \+ CPU:2",
            lambda x: x.shard(TWO) + x.shard(THREE),
        ),
        (
            DeviceMismatchError,
            r"x\.shard\(\('CPU', 'CPU:1'\)\)",
            lambda x: x.shard(TWO, 0).assign(x),
        ),
    ],
)
def test_invalid_arguments_are_errors_at_the_call(error, message, call):
    with pytest.raises(error, match=message):
        call(Tensor(random(3, 4)))


def test_a_symbolic_axis_cannot_be_split_and_others_can():
    n = Variable("n", 1, 8)
    x = Tensor(random(8, 6))[: n.bind(5)]
    with pytest.raises(SymbolicShapeError):
        x.shard(TWO, axis=0)
    y = (x.shard(TWO, axis=1) * 2).sum(0)
    assert y.sharding == Sharding(TWO, 0, (3, 3))
    np.testing.assert_allclose(y.numpy(), (random(8, 6)[:5] * 2).sum(0), rtol=1e-5)


@pytest.mark.parametrize("devices", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize(("left", "right"), list(product((None, 0, 1), repeat=2)), ids=str)
def test_products_of_sharded_matrices(devices, left, right):
    a, b = random(7, 6), random(6, 5, seed=1)
    found = Tensor(a).shard(devices, left) @ Tensor(b).shard(devices, right)
    np.testing.assert_allclose(found.numpy(), a @ b, rtol=1e-5, atol=1e-6)


def test_a_product_has_the_sharding_of_its_operands():
    x, w = Tensor(random(8, 6)), Tensor(random(6, 4))
    assert (x.shard(TWO, 0) @ w.shard(TWO)).sharding == Sharding(TWO, 0, (4, 4))
    assert (x.shard(TWO) @ w.shard(TWO, 1)).sharding == Sharding(TWO, 1, (2, 2))
    assert (x.shard(TWO, 1) @ w.shard(TWO, 0)).sharding == Sharding(TWO)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize(
    "name", ["sum", "prod", "max", "min", "mean", "argmax", "cumsum", "softmax", "std"]
)
def test_reductions_over_the_split_axis_and_over_the_other(name, axis):
    a = random(5, 7)
    for over in (0, 1) if name in ("cumsum", "softmax", "argmax") else (0, 1, (0, 1)):
        expected = getattr(Tensor(a), name)(over).numpy()
        found = getattr(Tensor(a).shard(TWO, axis), name)(over)
        assert found.device == TWO
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=1e-6)


def test_a_sum_over_the_split_axis_gives_each_device_the_same_bits():
    total = Tensor(random(300, 41)).shard(THREE, 0).sum(0)
    assert len({shard.numpy().tobytes() for shard in total.shards()}) == 1


@pytest.mark.parametrize("shape", [(70_001,), (5, 16_001)], ids=str)
def test_a_large_sum_is_reduced_in_parts(shape):
    a = random(4, *shape)
    found = Tensor(a).shard(("CPU", "CPU:1", "CPU:2", "CPU:3"), 0).realize().sum(0)
    plan = found.prepare()
    plan.execute()
    np.testing.assert_allclose(found.numpy(), a.sum(0), rtol=1e-5, atol=1e-5)
    copied = [
        plan.buffers[op.buffer_indices[0]].size
        for op in plan.prepared_ops
        if not hasattr(op, "kernel")
    ]
    assert len(copied) == 2 * 4 * 3
    assert max(copied) <= a[0].size / 2


@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.permute(2, 0, 1),
        lambda x: x.reshape(6, 20),
        lambda x: x.reshape(24, 5),
        lambda x: x.reshape(3, 2, 2, 2, 5),
        lambda x: x.flatten(),
        lambda x: x.flip((0, 2)),
        lambda x: x.pad(((1, 2), (0, 1), (3, 0))),
        lambda x: x[1:5, :, ::2],
        lambda x: x[-1],
        lambda x: x[:, 0:1] * 2,
        lambda x: x[:1].squeeze(0),
        lambda x: x.unsqueeze(0).expand(2, 6, 4, 5),
        lambda x: x[Tensor([3, 0, 5]).shard(TWO)],
        lambda x: x[:, :, Tensor([3, 0, 1]).shard(TWO, 0)],
        lambda x: x.cat(x * 2, axis=0),
        lambda x: Tensor.stack([x, x], axis=1),
        lambda x: x.roll(2, 0),
        lambda x: x.sort(0),
        lambda x: (x > 0).where(x, 0.0).cast("int8"),
        lambda x: x + Tensor.arange(5).cast("float32"),
        lambda x: x.zeros_like() + x.ones_like(),
        lambda x: x.contiguous().clone(),
    ],
)
def test_movement_of_a_sharded_tensor(move, axis):
    a = random(6, 4, 5)
    whole = Tensor(a)
    # The same function on one device gives the expected values.
    expected = move(_OneDevice.of(whole)).numpy()
    found = move(whole.shard(TWO, axis))
    assert found.device == TWO
    np.testing.assert_array_equal(found.numpy(), expected)


class _OneDevice(Tensor):
    """A tensor for which index tensors of the cases above are on one device as well."""

    __slots__ = ()

    @classmethod
    def of(cls, x: Tensor) -> Tensor:
        return cls.from_uop(x.uop)

    def __getitem__(self, index):
        parts = index if isinstance(index, tuple) else (index,)
        return super().__getitem__(
            tuple(p.to("CPU") if isinstance(p, Tensor) else p for p in parts)
        )


def test_shards_move_to_one_device_and_to_another_split():
    a = random(6, 4)
    x = Tensor(a).shard(TWO, 0)
    assert x.to("CPU:2").device == "CPU:2"
    np.testing.assert_array_equal(x.to("CPU:2").numpy(), a)
    np.testing.assert_array_equal((x.to("CPU:1") * 2).numpy(), a * 2)
    for devices, axis in ((TWO, 1), (TWO, None), (THREE, 0), (TWO, 0)):
        other = x.shard(devices, axis)
        assert (other.device, other.sharding and other.sharding.axis) == (devices, axis)
        np.testing.assert_array_equal(other.numpy(), a)
    assert x.shard(TWO, 0).uop is x.uop


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("n_taken", [1, 3])
@pytest.mark.parametrize("split_of_indices", [None, 0, 1])
def test_elements_taken_along_another_axis_stay_on_their_devices(size, n_taken, split_of_indices):
    a, indices = random(size, 4), np.random.default_rng(1).integers(-4, 4, (size, n_taken))
    x, i = Tensor(a).shard(TWO, 0), Tensor(indices).shard(TWO, split_of_indices)
    taken = x.take_along_axis(i, 1)
    assert taken.sharding == x.sharding
    np.testing.assert_array_equal(taken.numpy(), np.take_along_axis(a, indices, 1))
    gradient = grad(lambda x: (x.take_along_axis(i, 1) ** 2).sum())(x)
    expected = np.zeros_like(a)
    np.add.at(
        expected, (np.arange(size)[:, None], indices % 4), 2 * np.take_along_axis(a, indices, 1)
    )
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-5)


def test_a_replicated_tensor_is_read_from_its_device():
    x = Tensor(random(4)).shard(TWO).realize()
    (kernel,) = (x.to("CPU:1") + 1).prepare().execute_profiled()
    assert kernel.device == "CPU:1"


@pytest.mark.parametrize("size", [0, 1, 2])
def test_there_may_be_more_devices_than_elements(size):
    x = Tensor(random(size, 3)).shard(THREE, 0)
    assert x.sharding is not None and x.sharding.sizes == tuple(int(n < size) for n in range(3))
    np.testing.assert_array_equal((x * 2).numpy(), random(size, 3) * 2)
    np.testing.assert_allclose(x.sum(0).numpy(), random(size, 3).sum(0))


def test_each_kernel_of_a_plan_runs_on_the_device_of_its_shard():
    x = Tensor(random(8, 6)).shard(TWO, 0).realize()
    y = (x * 2).sum(1)
    plan = y.prepare()
    assert sorted(p.device for p in plan.execute_profiled()) == ["CPU", "CPU:1"]
    assert len(plan.levels) == 1
    np.testing.assert_allclose(y.numpy(), (random(8, 6) * 2).sum(1), rtol=1e-5)


def test_equal_shards_share_one_compiled_kernel():
    x = Tensor(random(8, 6)).shard(TWO, 0).realize()
    near, far = (planned.kernel.spec for planned in (x * 2).sum(1).prepare().kernels())
    assert (near.source, near.device, far.device) == (far.source, "CPU", "CPU:1")


def test_a_plan_reads_new_shards_each_time():
    x = Tensor.empty(4, 3).shard(TWO, 0).realize()
    y = (x + 1).sum(0)
    plan = y.prepare()
    for value in (1.0, 2.0):
        for shard in x.shards():
            shard.buffer().copyin(np.full(6, value, np.float32))
        plan.execute()
        np.testing.assert_array_equal(y.numpy(), np.full(3, 4 * (value + 1)))


def test_tensors_of_one_sharded_node_read_its_shards():
    x = Tensor(random(6, 4)).shard(TWO, 0)
    middle = (x * 3).contiguous()
    end = middle.sum(1)
    middle.realize()
    assert sum(n.op is Op.CONTIGUOUS for n in end.uop.toposort()) == 0
    np.testing.assert_allclose(end.numpy(), (random(6, 4) * 3).sum(1), rtol=1e-5)


def test_a_single_shard_cannot_be_written():
    x = Tensor(random(4, 3)).shard(TWO, 0)
    with pytest.raises(
        ShardError, match=r"assign: a shard is a view of another tensor\n.*x\[index\] = value"
    ):
        x.shards()[0].assign(0.0)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_each_device_writes_its_own_shard(axis):
    x = Tensor(np.ones((5, 4), np.float32)).shard(TWO, axis).realize()
    memory = [shard.buffer().address for shard in x.shards()]
    flat, before = x.reshape(20), x * 2
    x.assign(x + Tensor.arange(4).cast("float32"))
    expected = np.ones((5, 4)) + np.arange(4)
    np.testing.assert_array_equal(x.numpy(), expected)
    np.testing.assert_array_equal(flat.numpy(), expected.reshape(20))
    np.testing.assert_array_equal(before.numpy(), 2 * np.ones((5, 4)))
    assert [shard.buffer().address for shard in x.shards()] == memory
    x[1:4, ::2] = 7.0
    expected[1:4, ::2] = 7.0
    np.testing.assert_array_equal(x.numpy(), expected)


def test_a_shard_shares_no_memory_with_its_source():
    x = Tensor(random(3)).clone().realize()
    whole = x.shard(TWO).realize()
    x.assign(x * 0)
    np.testing.assert_array_equal(whole.numpy(), random(3))
    whole.assign(whole * 2)
    np.testing.assert_array_equal(whole.numpy(), random(3) * 2)
    np.testing.assert_array_equal(x.numpy(), np.zeros(3))


@pytest.mark.parametrize(
    "view",
    [lambda x: x[1:3], lambda x: x.reshape(12), lambda x: x.T],
    ids=["part", "shape", "axes"],
)
def test_a_write_to_a_view_of_shards_reaches_them(view):
    a = random(4, 3)
    x = Tensor(a).shard(TWO, 0).realize()
    memory = [shard.buffer().address for shard in x.shards()]
    view(x).assign(0.0)
    view(a)[...] = 0.0
    np.testing.assert_array_equal(x.numpy(), a)
    assert [shard.buffer().address for shard in x.shards()] == memory
    computed = view(x * 2)
    assert computed.assign(0.0) is computed
    np.testing.assert_array_equal(computed.numpy(), np.zeros(computed.shape))


def step(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """One step of gradient descent for a linear model, whose parameters are assigned."""
    error = x @ w + b - y
    w.assign(w - x.T @ error * 0.05)
    b.assign(b - error.sum(0) * 0.05)
    return (error * error).mean()


@pytest.mark.parametrize("devices", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("is_captured", [False, True], ids=["eager", "jit"])
def test_training_on_parts_of_the_data_is_training_on_all_of_it(devices, is_captured):
    data = [random(10, 4), random(10, 3, seed=1), random(4, 3, seed=2), random(3, seed=3)]
    x, y, w, b = (Tensor(a).clone().realize() for a in data)
    sx, sy = x.shard(devices, 0).realize(), y.shard(devices, 0).realize()
    sw, sb = w.shard(devices).realize(), b.shard(devices).realize()
    run = jit(step) if is_captured else step
    for _ in range(4):
        loss, sharded_loss = step(x, y, w, b), run(sx, sy, sw, sb)
        Tensor.realize_batch([loss, sharded_loss, w, b, sw, sb])
        np.testing.assert_allclose(sharded_loss.numpy(), loss.numpy(), rtol=1e-5)
    np.testing.assert_allclose(sw.numpy(), w.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sb.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    assert len({shard.numpy().tobytes() for shard in sw.shards()}) == 1


def test_a_captured_function_takes_and_gives_sharded_tensors():
    double = jit(lambda x: (x * 2, x.sum(0)))
    for seed in (0, 1):
        a = random(5, 3, seed=seed)
        twice, total = double(Tensor(a).shard(TWO, 0))
        assert (twice.sharding, total.sharding) == (Sharding(TWO, 0, (3, 2)), Sharding(TWO))
        np.testing.assert_allclose(twice.numpy(), a * 2)
        np.testing.assert_allclose(total.numpy(), a.sum(0), rtol=1e-5)
    double(Tensor(random(5, 3)).shard(TWO, 1))
    assert double.n_captures == 2
    assert "on CPU + CPU:1 along axis 1" in double.explain()


def test_the_memory_of_a_donated_sharded_tensor_is_reused():
    double = jit(lambda x: x * 2, donate="x")
    x = Tensor(random(4, 3)).shard(TWO, 0).realize()
    memory = [shard.buffer().address for shard in x.shards()]
    y = double(x)
    np.testing.assert_allclose(y.numpy(), random(4, 3) * 2)
    assert [shard.buffer().address for shard in y.shards()] == memory


@st.composite
def programs(draw: st.DrawFn) -> tuple[Any, dict[Any, Any], dict[Any, Tensor]]:
    """A random graph, the arrays that its inputs hold, and a tensor for each, spread in a way of
    its own.
    """
    graph = draw(graphs(max_ops=8, max_elements=64))
    devices = draw(st.sampled_from((TWO, THREE)))
    arrays = random_inputs(graph, seed=draw(st.integers(0, 3)))
    tensors: dict[Any, Tensor] = {}
    # A buffer may be read in one shape, in several, and as it is.
    for view in graph.iter_ops(Op.BUFFER, Op.RESHAPE):
        if view.op is Op.RESHAPE and view.src[0].op is not Op.BUFFER:
            continue
        array = arrays[view.src[0] if view.op is Op.RESHAPE else view].reshape(view.shape)
        axis = (
            draw(st.one_of(st.none(), st.integers(0, len(view.shape) - 1))) if view.shape else None
        )
        tensors[view] = Tensor(array).shard(devices, axis)
    return graph, arrays, tensors


def test_shards_without_elements_are_gathered_to_their_whole_shape():
    x = Tensor(np.ones((2, 4), np.float32)).shard(("CPU", "CPU:1"), 1)
    nothing = x[:0, :3].cumsum(1)
    assert nothing.shape == (0, 3)
    np.testing.assert_array_equal(nothing.pad((0, 1), (0, 0)).numpy(), np.zeros((1, 3), np.float32))


@pytest.mark.parametrize("planner", ["arena", "disabled"])
def test_a_sharded_program_agrees_with_the_reference(planner):
    @settings(
        max_examples=count_examples(40), deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(programs())
    def run(program: tuple[Any, dict[Any, Any], dict[Any, Tensor]]) -> None:
        graph, arrays, tensors = program
        expected = evaluate(graph, {n: a.copy() for n, a in arrays.items()})
        tensor = Tensor.from_uop(graph.substitute({view: t.uop for view, t in tensors.items()}))
        tensor.realize_with(PrepareConfig(memory_planner=planner, opts=()))
        found = tensor.numpy()
        assert found.shape == expected.shape
        assert_close(
            found, expected, loose=tolerance(graph), what=f"the value of\n{print_graph(graph)}"
        )

    run()
