"""Steps of optimizers on a network of which each device has the whole: those of one device."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import svod_nn as nn
from svod_tensor import Generator, Tensor, jit

DEVICES = ("CPU", "CPU:1")
OPTIMIZERS: dict[str, Callable[[nn.Module], nn.optimizers.Optimizer]] = {
    "SGD": lambda model: nn.SGD(model, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda model: nn.Adam(model, lr=0.05, amsgrad=True),
    "Adafactor": lambda model: nn.Adafactor(model, lr=0.05),
    "LAMB": lambda model: nn.LAMB(model, lr=0.05),
}


def train(name: str, *, is_split: bool) -> list[np.ndarray]:
    model = nn.Sequential(
        nn.Linear(3, 4, generator=Generator(1)), nn.Tanh(), nn.Linear(4, 2, generator=Generator(2))
    )
    if is_split:
        model.shard(DEVICES)
    optimizer = OPTIMIZERS[name](model)

    @jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss, gradients = nn.value_and_grad(model, lambda model, x, y: nn.mse_loss(model(x), y))(
            x, y
        )
        optimizer.update(gradients, when=loss < 1e6)
        return loss

    rng = np.random.default_rng(0)
    for _ in range(4):
        x, y = (Tensor(rng.normal(size=(6, n)).astype(np.float32)) for n in (3, 2))
        step(*((t.shard(DEVICES, axis=0) for t in (x, y)) if is_split else (x, y)))
    for parameter in model.state_dict().values():
        for shard in parameter.shards()[1:] if is_split else ():
            np.testing.assert_array_equal(shard.numpy(), parameter.shards()[0].numpy())
    state = [t for t in optimizer.state_dict().values() if isinstance(t, Tensor)]
    return [t.numpy() for t in (*model.state_dict().values(), *state)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_and_state_on_shards_are_those_of_one_device(name: str) -> None:
    for found, expected in zip(
        train(name, is_split=True), train(name, is_split=False), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_parameters_on_several_devices_are_changed_where_they_are() -> None:
    weights = {"a": Tensor([1.0, 2.0], device="CPU"), "b": Tensor([1.0, 2.0], device="CPU:1")}
    optimizer = nn.Adam(weights, lr=0.1)
    optimizer.update({name: Tensor([0.5, -0.5], device=w.device) for name, w in weights.items()})
    assert [w.device for w in weights.values()] == ["CPU", "CPU:1"]
    np.testing.assert_array_equal(weights["a"].numpy(), weights["b"].numpy())


def test_state_of_one_device_is_loaded_to_shards() -> None:
    gradient = Tensor([0.5, -0.5])
    one, split = Tensor([1.0, 2.0]), Tensor([1.0, 2.0]).shard(DEVICES).realize()
    first = nn.Adam({"w": one}, lr=0.1)
    first.update({"w": gradient})
    second = nn.Adam({"w": split}, lr=0.1)
    second.load_state_dict(first.state_dict())
    split.assign(one.shard(DEVICES)).realize()
    first.update({"w": gradient})
    second.update({"w": gradient.shard(DEVICES)})
    np.testing.assert_allclose(split.numpy(), one.numpy(), rtol=1e-6)
