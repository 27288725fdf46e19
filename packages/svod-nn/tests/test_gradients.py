from __future__ import annotations

import numpy as np
import pytest

import svod_nn as nn
from svod_tensor import Generator, Tensor, jit


def make_loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return ((model(x) - y) ** 2).mean()


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((5, 3)).astype(np.float32), rng.standard_normal((5, 2)).astype(
        np.float32
    )


def test_gradients_have_the_names_of_parameters_and_the_values_of_the_formula(data):
    x, y = data
    model = nn.Linear(3, 2, generator=Generator(1))
    loss, gradients = nn.value_and_grad(model, make_loss)(Tensor(x), Tensor(y))
    assert list(gradients) == ["weight", "bias"]
    error = x @ model.weight.numpy().T + model.bias.numpy() - y
    np.testing.assert_allclose(loss.numpy(), (error**2).mean(), rtol=1e-5)
    np.testing.assert_allclose(
        gradients["weight"].numpy(), 2 * error.T @ x / error.size, rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(
        gradients["bias"].numpy(), 2 * error.sum(0) / error.size, rtol=1e-4, atol=1e-6
    )


def test_frozen_parameters_get_no_gradients_and_others_keep_theirs(data):
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    run = nn.value_and_grad(model, make_loss)
    every = {name: gradient.numpy() for name, gradient in run(*map(Tensor, data))[1].items()}
    model.freeze("0")
    found = run(*map(Tensor, data))[1]
    assert list(found) == ["2.weight", "2.bias"]
    for name, gradient in found.items():
        np.testing.assert_array_equal(gradient.numpy(), every[name])


def test_auxiliary_results_of_the_loss_are_returned(data):
    model = nn.Linear(3, 2)

    def run(model: nn.Module, x: Tensor, y: Tensor, *, scale: float):
        scores = model(x)
        return ((scores - y) ** 2).mean() * scale, {"scores": scores, "n": len(x)}

    (loss, more), gradients = nn.value_and_grad(model, run, has_aux=True)(
        *map(Tensor, data), scale=0.0
    )
    assert loss.item() == 0
    assert more["n"] == 5
    np.testing.assert_allclose(more["scores"].numpy(), model(Tensor(data[0])).numpy(), rtol=1e-6)
    assert not gradients["weight"].numpy().any()


def test_a_loss_that_fails_leaves_the_model_as_it_was():
    model = nn.Linear(3, 2)
    before = dict(vars(model))
    with pytest.raises(ZeroDivisionError):
        nn.value_and_grad(model, lambda model: 1 / 0)()
    assert all(vars(model)[name] is value for name, value in before.items())


def test_a_shared_weight_gets_the_sum_of_its_gradients():
    class Tied(nn.Module):
        def __init__(self):
            self.first, self.second = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
            self.second.weight = self.first.weight = Tensor(np.eye(2, dtype=np.float32))

        def forward(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))

    gradients = nn.value_and_grad(Tied(), lambda model, x: model(x).sum())(Tensor([[3.0, 4.0]]))[1]
    assert list(gradients) == ["first.weight"]
    assert gradients["first.weight"].tolist() == [[6, 8], [6, 8]]


@pytest.mark.parametrize("is_captured", [False, True])
def test_running_statistics_are_assigned_while_gradients_are_taken(is_captured: bool):
    rng = np.random.default_rng(0)
    model = nn.Sequential(
        nn.Linear(3, 4, generator=Generator(0)),
        nn.BatchNorm1d(4),
        nn.Linear(4, 1, generator=Generator(1)),
    )
    inner = model[0]

    def step(x: Tensor) -> Tensor:
        loss, gradients = nn.value_and_grad(model, lambda model, x: (model(x) ** 2).mean())(x)
        for name, parameter in model.trainable_parameters().items():
            parameter.assign(parameter - 0.1 * gradients[name])
        return loss

    run = jit(step) if is_captured else step
    mean, losses = np.zeros(4), []
    for _ in range(4):
        x = rng.standard_normal((16, 3)).astype(np.float32)
        hidden = x @ inner.weight.numpy().T + inner.bias.numpy()
        losses.append(run(Tensor(x)).item())
        mean = 0.9 * mean + 0.1 * hidden.mean(0)
        np.testing.assert_allclose(model[1].running_mean.numpy(), mean, rtol=1e-4, atol=1e-6)
    assert model[1].num_batches_tracked.item() == 4
    assert losses[-1] < losses[0]


def test_a_captured_step_trains_a_model_as_numpy_does(data):
    x, y = data
    model = nn.Linear(3, 2, generator=Generator(1))
    weight, bias = model.weight.numpy(copy=True), model.bias.numpy(copy=True)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss, gradients = nn.value_and_grad(model, make_loss)(x, y)
        for name, parameter in model.trainable_parameters().items():
            parameter.assign(parameter - 0.1 * gradients[name])
        return loss

    for _ in range(10):
        error = x @ weight.T + bias - y
        np.testing.assert_allclose(step(Tensor(x), Tensor(y)).numpy(), (error**2).mean(), rtol=1e-4)
        weight, bias = (
            weight - 0.2 * error.T @ x / error.size,
            bias - 0.2 * error.sum(0) / error.size,
        )
    np.testing.assert_allclose(model.weight.numpy(), weight, rtol=1e-4, atol=1e-6)


def test_a_batch_on_two_devices_trains_the_model_that_one_device_trains(data):
    x, y = (np.concatenate([part, part[::-1]]) for part in data)
    devices = ("CPU", "CPU:1")
    models = [
        nn.Sequential(
            nn.Linear(3, 4, generator=Generator(1)),
            nn.Tanh(),
            nn.Linear(4, 2, generator=Generator(2)),
        )
        for _ in range(2)
    ]
    models[1].shard(devices)
    for model, split in zip(models, (lambda t: t, lambda t: t.shard(devices, axis=0)), strict=True):

        @jit
        def step(x: Tensor, y: Tensor, model: nn.Module = model) -> Tensor:
            loss, gradients = nn.value_and_grad(model, make_loss)(x, y)
            for name, parameter in model.trainable_parameters().items():
                parameter.assign(parameter - 0.1 * gradients[name])
            return loss

        for _ in range(3):
            step(split(Tensor(x)), split(Tensor(y)))
    for name, wanted in models[0].state_dict().items():
        np.testing.assert_allclose(
            models[1].state_dict()[name].numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6
        )


def test_a_recurrent_layer_learns_to_sum_its_inputs():
    class Network(nn.Module):
        def __init__(self):
            self.cells = nn.LSTM(2, 6, generator=Generator(0))
            self.head = nn.Linear(6, 1, generator=Generator(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.cells(x)[0][-1])

    model = Network()
    optimizer = nn.Adam(model, lr=0.05)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss, gradients = nn.value_and_grad(model, make_loss)(x, y)
        optimizer.update(gradients)
        return loss

    x = np.random.default_rng(0).standard_normal((5, 8, 2)).astype(np.float32)
    given = Tensor(x), Tensor(x[..., :1].sum(0))
    losses = [step(*given).item() for _ in range(60)]
    assert losses[-1] < losses[0] / 10
