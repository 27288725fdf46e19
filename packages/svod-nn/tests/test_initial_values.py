"""Initial values of networks: computed together before the first read, and never where a state is
loaded before.
"""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import svod_nn as nn
from svod_nn import initializers
from svod_tensor import (
    Generator,
    Tensor,
    _realize,
    default_generator,
    is_deferred,
    jit,
    manual_seed,
    scan,
)


def make_network() -> nn.Module:
    return nn.Sequential(
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2),
        nn.Linear(8, 4),
        nn.BatchNorm1d(4),
        nn.PReLU(),
        nn.Linear(4, 4, bias=False),
    )


def list_tensors(model: nn.Module) -> list[Tensor]:
    return [p.tensor for p in model._iter_tensors()]


def count_deferred(model: nn.Module) -> int:
    return sum(map(is_deferred, list_tensors(model)))


def get_values(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}


def assert_same(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def record_computations(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Jobs that are planned from now on: one for each batch that is computed."""
    made: list[object] = []
    make_plan = _realize.make_plan

    def record(job, *args, **kwargs):
        made.append(job)
        return make_plan(job, *args, **kwargs)

    monkeypatch.setattr(_realize, "make_plan", record)
    return made


def test_a_network_that_is_built_and_loaded_computes_no_initial_values(monkeypatch):
    state = get_values(make_network())
    computed = record_computations(monkeypatch)
    model = make_network()
    assert computed == []
    assert count_deferred(model) == len(list_tensors(model))
    model.load_state_dict({name: value + 1 for name, value in state.items()})
    assert count_deferred(model) == 0
    # The values of the state are copied in one batch; no random numbers are computed.
    assert len(computed) <= 1
    assert_same(get_values(model), {name: value + 1 for name, value in state.items()})


READS: dict[str, Callable[[nn.Module], object]] = {
    "call": lambda model: model.eval()(Tensor.ones(3, 8)),
    "parameters": lambda model: list(model.parameters()),
    "named_parameters": lambda model: list(model.named_parameters()),
    "buffers": lambda model: list(model.buffers()),
    "state_dict": lambda model: model.state_dict(),
    "trainable_parameters": lambda model: model.trainable_parameters(),
    "optimizer": lambda model: nn.AdamW(model),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_the_first_read_computes_all_initial_values_in_one_batch(read, monkeypatch):
    model = make_network()
    computed = record_computations(monkeypatch)
    read(model)
    assert count_deferred(model) == 0
    assert all(tensor.is_realized for tensor in list_tensors(model))
    assert len(computed) <= 2 if read is READS["optimizer"] else len(computed) == 1


def test_values_depend_on_the_order_of_construction_and_not_on_the_order_of_reads():
    manual_seed(7)
    first, second = make_network(), make_network()
    state = default_generator().get_state()
    forward = get_values(first), get_values(second)
    manual_seed(7)
    first, second = make_network(), make_network()
    assert default_generator().get_state() == state
    Tensor.rand(3).numpy()
    backward = get_values(second), get_values(first)
    assert_same(forward[0], backward[1])
    assert_same(forward[1], backward[0])
    assert not np.array_equal(forward[0]["1.weight"], forward[1]["1.weight"])


def test_a_loaded_network_advances_the_generator_like_one_that_is_read():
    manual_seed(3)
    state = get_values(make_network())
    wanted = Tensor.rand(4).tolist()
    manual_seed(3)
    make_network().load_state_dict(state)
    assert Tensor.rand(4).tolist() == wanted


def test_values_are_the_same_at_each_read_and_for_each_way_to_read():
    def make() -> Tensor:
        return initializers.xavier_normal((5, 7), generator=Generator(11))

    wanted = make().realize().numpy()
    x = make()
    np.testing.assert_array_equal(x.numpy(), wanted)
    np.testing.assert_array_equal(x.numpy(), wanted)
    x = make()
    np.testing.assert_allclose((x * 1).numpy(), wanted, rtol=1e-6)
    np.testing.assert_array_equal(x.numpy(), wanted)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(make())).numpy(), wanted)
    np.testing.assert_array_equal(copy.deepcopy(make()).numpy(), wanted)
    x = make()
    copied = copy.copy(x)
    copied.assign(copied * 0).realize()
    np.testing.assert_array_equal(x.numpy(), wanted)
    assert not copied.numpy().any()


@pytest.mark.parametrize("shape", [(1, 1), (0, 3), (3, 0), (97, 13), (300, 301)])
def test_shapes_of_all_sizes_have_the_values_of_their_generator(shape):
    values = [initializers.uniform(shape, -1, 1, generator=Generator(5)) for _ in range(2)]
    Tensor.realize_batch(values)
    assert values[0].shape == shape
    np.testing.assert_array_equal(values[0].numpy(), values[1].numpy())
    model = nn.Linear(shape[1], shape[0])
    assert model(Tensor.ones(2, shape[1])).numpy().shape == (2, shape[0])
    assert model.state_dict()["weight"].shape == shape


def test_copies_and_pickles_of_a_fresh_network_have_its_values_and_memory_of_their_own():
    manual_seed(1)
    wanted = get_values(make_network())
    for duplicate in (copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))):
        manual_seed(1)
        model = make_network()
        other = duplicate(model)
        other[1].weight.assign(other[1].weight * 0).realize()
        assert_same(get_values(model), wanted)
        assert not other[1].weight.numpy().any()
        other.load_state_dict(wanted)
        assert_same(get_values(other), wanted)


def test_no_two_parameters_share_memory_unless_they_are_one_tensor():
    model = nn.Sequential(nn.LayerNorm(4), nn.LayerNorm(4), nn.Linear(4, 4), nn.Linear(4, 4))
    model[3].weight = model[2].weight
    tensors = list(model.parameters())
    memories = [tensor.content.find_memory() for tensor in tensors]
    assert None not in memories
    assert len({memory.storage_id for memory in memories}) == len(tensors) == 7
    model[0].weight.assign(Tensor.full((4,), 5.0)).realize()
    assert model[1].weight.tolist() == [1, 1, 1, 1]
    model[2].weight.assign(Tensor.zeros(4, 4)).realize()
    assert not model[3].weight.numpy().any()


def test_a_captured_function_reads_the_initial_values_from_memory():
    manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    x = Tensor.ones(3, 6)
    f = jit(lambda x: model(x))
    first, second = f(x).numpy(), f(x).numpy()
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(model(x).numpy(), first, rtol=1e-5)
    assert all(tensor.is_realized for tensor in list_tensors(model))
    assert f.n_captures == 1
    # An assignment afterwards is seen by the same plan: the parameters are inputs and no part of
    # it.
    model.load_state_dict({name: value * 0 for name, value in get_values(model).items()})
    assert not f(x).numpy().any()
    assert f.n_captures == 1


class Hidden(nn.Module):
    """Reads its parameter by a name that its code does not show."""

    def __init__(self) -> None:
        self.weights = {"a": [initializers.uniform((3,), generator=Generator(1))]}

    def forward(self, x: Tensor) -> Tensor:
        for name in vars(self):
            for value in getattr(self, name).values():
                x = x * value[0]
        return x


@pytest.mark.parametrize("make", [Hidden, lambda: nn.Linear(3, 3)], ids=["dynamic names", "layer"])
@pytest.mark.parametrize("how", ["forward", "argument", "method", "scan"])
def test_parameters_that_captures_read_in_any_way_have_memory_afterwards(make, how):
    model, x = make(), Tensor.ones(2, 3)
    wanted = copy.deepcopy(model)(x).numpy()
    if how == "forward":
        f = jit(model.forward)
    elif how == "argument":
        captured = jit(lambda model, x: model(x))
        f = functools.partial(captured, model)
    elif how == "method":
        f = jit(model.__call__)
    else:
        f = jit(lambda x: scan(lambda carry, row: (carry, model(row)), Tensor(0.0), x)[1])
    np.testing.assert_allclose(f(x).numpy(), wanted, rtol=1e-5)
    assert all(tensor.is_realized for tensor in list_tensors(model))
    np.testing.assert_allclose(f(x).numpy(), wanted, rtol=1e-5)


def test_only_networks_that_a_capture_reads_are_computed():
    used, unused = nn.Linear(3, 2), nn.Linear(3, 2)
    jit(lambda x: used(x))(Tensor.ones(3)).numpy()
    assert count_deferred(used) == 0
    assert count_deferred(unused) == 2


def test_a_step_of_training_that_is_captured_changes_fresh_parameters():
    model = nn.Linear(3, 2)
    manual_seed(2)
    before = get_values(model)
    model = copy.deepcopy(model)
    optimizer = nn.SGD(model, 0.1)
    step = nn.value_and_grad(model, lambda model, x: model(x).sum())

    @jit
    def train(x: Tensor) -> Tensor:
        loss, gradients = step(x)
        optimizer.update(gradients)
        return loss

    for _ in range(2):
        train(Tensor.ones(4, 3)).numpy()
    np.testing.assert_allclose(model.bias.numpy(), before["bias"] - 0.8, rtol=1e-5)
    np.testing.assert_allclose(model.weight.numpy(), before["weight"] - 0.8, rtol=1e-5)


def test_gradients_and_loops_read_the_initial_values():
    manual_seed(4)
    model = nn.Linear(3, 3, bias=False)
    wanted = copy.deepcopy(model).weight.numpy()
    x = Tensor.ones(3)
    loss, gradients = nn.value_and_grad(model, lambda model, x: (model(x) ** 2).sum())(x)
    np.testing.assert_allclose(loss.numpy(), (wanted.sum(1) ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(
        gradients["weight"].numpy(), np.outer(2 * wanted.sum(1), np.ones(3)), rtol=1e-5
    )
    fresh = copy.deepcopy(nn.Linear(3, 3, bias=False))
    end, _ = scan(lambda carry, _: (fresh(carry), carry), x, Tensor.zeros(3))
    w = fresh.weight.numpy()
    np.testing.assert_allclose(end.numpy(), w @ w @ w @ np.ones(3), rtol=1e-4)


def test_a_prepared_plan_keeps_the_initial_values():
    model = nn.Linear(3, 2, bias=False)
    y = (model.weight * 2).sum()
    plan = y.prepare()
    plan.execute()
    first = y.item()
    plan.execute()
    assert y.item() == first
    np.testing.assert_allclose(first, model.weight.numpy().sum() * 2, rtol=1e-5)


def test_conversions_before_a_state_is_loaded_compute_nothing(monkeypatch):
    manual_seed(6)
    wanted = get_values(nn.Linear(4, 3).cast("float16"))
    manual_seed(6)
    model = nn.Linear(4, 3)
    model.weight.realize()
    assert_same(get_values(model.cast("float16")), wanted)
    computed = record_computations(monkeypatch)
    model = nn.Linear(4, 3).cast("float16").to("CPU")
    assert computed == []
    model.load_state_dict(wanted)
    assert len(computed) <= 1
    assert_same(get_values(model), wanted)


def test_a_part_of_a_state_leaves_the_other_parameters_at_their_initial_values():
    manual_seed(8)
    wanted = get_values(nn.Linear(4, 3))
    manual_seed(8)
    model = nn.Linear(4, 3)
    model.load_state_dict({"weight": np.zeros((3, 4))}, strict=False)
    assert is_deferred(model.bias)
    np.testing.assert_array_equal(model.bias.numpy(), wanted["bias"])
    assert not model.weight.numpy().any()


def test_networks_that_are_never_read_are_freed():
    model = nn.Linear(4, 3)
    cell = weakref.ref(model.weight.content)
    del model
    gc.collect()
    assert cell() is None


def test_a_padding_row_is_zero_and_other_rows_are_random():
    manual_seed(9)
    wanted = nn.Embedding(5, 3).weight.numpy()
    manual_seed(9)
    weight = nn.Embedding(5, 3, padding_idx=1).weight
    assert is_deferred(weight)
    np.testing.assert_array_equal(weight.numpy()[[0, 2, 3, 4]], wanted[[0, 2, 3, 4]])
    assert not weight.numpy()[1].any()


def test_threads_that_read_a_fresh_network_see_the_same_values():
    manual_seed(10)
    x = Tensor.ones(2, 8).realize()
    wanted = make_network().eval()(x).numpy()
    for captures in (False, True):
        manual_seed(10)
        model = make_network().eval()
        call = jit(lambda x, model=model: model(x)) if captures else model
        found: list[np.ndarray] = []
        threads = [
            threading.Thread(target=lambda call=call, found=found: found.append(call(x).numpy()))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        for value in found:
            np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
def test_recurrent_networks_run_eagerly_and_captured_from_their_initial_values(make):
    manual_seed(12)
    first, second = make(3, 4, 2), make(3, 4, 2)
    x = Tensor.ones(5, 2, 3)
    captured = jit(lambda x: first(x)[0])(x).numpy()
    manual_seed(12)
    again = make(3, 4, 2)
    np.testing.assert_allclose(again(x)[0].numpy(), captured, rtol=1e-5, atol=1e-6)
    assert count_deferred(first) == count_deferred(again) == 0
    assert count_deferred(second) == len(list_tensors(second))


def test_sharded_and_moved_parameters_are_computed_when_they_are_read():
    manual_seed(13)
    wanted = get_values(nn.Linear(3, 4))
    manual_seed(13)
    model = nn.Linear(3, 4).shard(("CPU", "CPU:1"))
    assert count_deferred(model) == 2
    assert_same(get_values(model), wanted)
    assert all(tensor.is_realized for tensor in list_tensors(model))
