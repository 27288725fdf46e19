"""Networks as arguments of captured functions: one plan for each of a few, then one for all."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import svod_nn as nn
from svod_tensor import Tensor, jit
from svod_tensor.capture.function import MAX_NETWORKS

X = np.arange(8, dtype="float32").reshape(2, 4) / 7


def make_network(width: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 2))


def apply(network: nn.Module, x: Tensor) -> Tensor:
    return network(x).tanh()


def check(captured: object, network: nn.Module) -> None:
    assert callable(captured)
    np.testing.assert_allclose(
        captured(network, Tensor(X)).numpy(), apply(network, Tensor(X)).numpy(), rtol=1e-6
    )


def test_networks_of_one_structure_share_a_plan_and_are_not_kept() -> None:
    captured, references = jit(apply), []
    for n in range(40):
        network = make_network()
        references.append(weakref.ref(network))
        check(captured, network)
        network[0].weight = Tensor(np.full((3, 4), n / 10, "float32"))
        check(captured, network)
    del network
    gc.collect()
    assert captured.n_captures == 1
    assert not any(reference() is not None for reference in references)


def test_networks_of_other_structure_have_other_plans() -> None:
    captured = jit(apply)
    for n in range(MAX_NETWORKS + 6):
        check(captured, make_network(3 + n % 2))
    assert captured.n_captures == 2


def test_a_few_networks_have_plans_of_their_own() -> None:
    captured = jit(apply)
    networks = [make_network() for _ in range(MAX_NETWORKS)]
    for _ in range(2):
        for network in networks:
            check(captured, network)
    assert captured.n_captures == MAX_NETWORKS


def test_steps_that_train_ever_new_networks_train_each() -> None:
    def train(network: nn.Module, optimizer: nn.SGD, x: Tensor) -> Tensor:
        loss, gradients = nn.value_and_grad(network, lambda model, x: (model(x) ** 2).mean())(x)
        optimizer.update(gradients)
        return loss

    captured = jit(train)
    for _ in range(MAX_NETWORKS + 3):
        network, plain = make_network(), make_network()
        plain.load_state_dict(
            {name: t.numpy(copy=True) for name, t in network.state_dict().items()}
        )
        optimizer, other = nn.SGD(network, 0.1), nn.SGD(plain, 0.1)
        for _ in range(3):
            loss = captured(network, optimizer, Tensor(X)).item()
            assert loss == pytest.approx(train(plain, other, Tensor(X)).item(), rel=1e-5)
        for name, value in plain.state_dict().items():
            np.testing.assert_allclose(network.state_dict()[name].numpy(), value.numpy(), rtol=1e-5)


def test_a_function_that_sets_an_attribute_of_its_network_is_captured_for_each() -> None:
    def count(network: nn.Module, x: Tensor) -> Tensor:
        network.note = "seen"
        return network(x)

    captured = jit(count)
    for _ in range(MAX_NETWORKS + 3):
        network = make_network()
        np.testing.assert_allclose(
            captured(network, Tensor(X)).numpy(), network(Tensor(X)).numpy(), rtol=1e-6
        )
