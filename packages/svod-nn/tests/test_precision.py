"""Narrow floats in the middle, float32 at both ends; and a scale that finds itself how large it may
be.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import svod_nn as nn
from svod_nn.errors import LayerArgumentError
from svod_tensor import Tensor, grad, jit

RNG = np.random.default_rng(11)


class Network(nn.Module):
    """Notes what it computes in.

    It is smooth: a rounded value below zero does not change a derivative by much.
    """

    def __init__(self) -> None:
        self.first, self.second = nn.Linear(5, 7), nn.Linear(7, 3)
        self.seen: list[str] = []

    def forward(self, x: Tensor, places: Tensor) -> dict[str, Tensor]:
        hidden = self.first(x).tanh()
        self.seen.append(hidden.dtype.name)
        return {"scores": self.second(hidden), "places": places}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_model_computes_in_narrow_floats_and_its_gradients_are_float32(dtype: str) -> None:
    model = Network()
    x, places = Tensor(RNG.normal(size=(4, 5)).astype(np.float32)), Tensor([1, 2, 0, 1])
    result = nn.in_precision(model, dtype)(x, places=places)
    assert (model.seen, result["scores"].dtype.name, result["places"].dtype.name) == (
        [dtype],
        "float32",
        "int32",
    )
    assert {p.dtype.name for p in model.parameters()} == {"float32"}
    wide = model(x, places)["scores"].numpy()
    np.testing.assert_allclose(result["scores"].numpy(), wide, atol=0.05)
    assert (result["scores"].numpy() != wide).any()

    def loss(weight: Tensor, precise: bool) -> Tensor:
        with model.replaced({"first.weight": weight}):
            called = model if precise else nn.in_precision(model, dtype)
            return nn.cross_entropy(called(x, places)["scores"], places)

    found = grad(lambda w: loss(w, False))(model.first.weight)
    assert found.dtype.name == "float32"
    np.testing.assert_allclose(
        found.numpy(), grad(lambda w: loss(w, True))(model.first.weight).numpy(), atol=0.02
    )


class Total(nn.Module):
    """Sums products in float64, which float32 would round."""

    def __init__(self) -> None:
        self.weight = Tensor([1.0, 1.0]).realize()

    def forward(self, x: Tensor) -> list[Tensor]:
        product = self.weight.mul(x)
        return [product, product.cast("float64").sum()]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_float64_result_of_a_model_is_not_rounded(dtype: str) -> None:
    product, total = nn.in_precision(Total(), dtype)(Tensor([1.0, 2.0**-30]))
    small = 2.0**-30 if dtype == "bfloat16" else 0.0
    assert (product.dtype.name, product.tolist()) == ("float32", [1.0, small])
    assert (total.dtype.name, total.item()) == ("float64", 1.0 + small)


class Descent:
    """One parameter that goes against its gradient, if it may."""

    def __init__(self) -> None:
        self.weight = Tensor([1.0, 2.0]).realize()
        self.n_steps = Tensor.zeros(()).realize()

    def update(self, gradients: Mapping[str, Tensor], *, when: Tensor | None = None) -> None:
        assert when is not None
        self.weight.assign(when.where(self.weight - gradients["weight"], self.weight))
        self.n_steps.assign(when.where(self.n_steps + 1, self.n_steps))


def test_bad_steps_are_left_out_and_the_scale_follows_as_that_of_torch() -> None:
    scaling, optimizer = nn.LossScale(initial=8.0, growth_interval=2), Descent()

    @jit
    def step(gradient: Tensor) -> Tensor:
        return scaling.update(optimizer, {"weight": gradient * scaling.scale})

    seen: list[tuple[bool, float, int]] = []
    for gradient in (
        [1.0, 0.0],
        [0.0, 1.0],
        [np.inf, 0.0],
        [0.0, np.nan],
        [0.5, 0.0],
        [0.5, 0.0],
        [0.0, 0.5],
    ):
        is_good = step(Tensor(np.array(gradient, np.float32))).item()
        seen.append((is_good, scaling.scale.item(), scaling.n_good.item()))
    # torch.amp.GradScaler(init_scale=8, growth_interval=2) gives these.
    assert seen == [
        (True, 8, 1),
        (True, 16, 0),
        (False, 8, 0),
        (False, 4, 0),
        (True, 4, 1),
        (True, 8, 0),
        (True, 8, 1),
    ]
    assert optimizer.weight.tolist() == [-1, 0.5]
    assert optimizer.n_steps.item() == 5


def test_an_optimizer_leaves_a_bad_step_out_with_all_its_state() -> None:
    model, x = nn.Linear(3, 2), Tensor(RNG.normal(size=(4, 3)).astype(np.float32))
    optimizer, scaling = nn.Adam(model, lr=0.1), nn.LossScale(initial=1024.0)

    @jit
    def step(x: Tensor) -> Tensor:
        def loss(model: nn.Module, x: Tensor) -> Tensor:
            return scaling.scale_loss(nn.in_precision(model, "float16")(x).square().mean())

        return scaling.update(optimizer, nn.value_and_grad(model, loss)(x)[1])

    def read() -> dict[str, bytes]:
        return {
            name: t.numpy().tobytes()
            for name, t in {**model.state_dict(), **optimizer.state_dict()}.items()
        }

    first = read()
    assert step(x).item()
    second = read()
    assert all(first[name] != second[name] for name in model.state_dict())
    assert not step(x * 1e6).item()
    assert read() == second
    assert step(x).item()
    assert (optimizer.state["step"].item(), scaling.scale.item()) == (2, 512)


def test_a_scale_never_becomes_infinite() -> None:
    scaling = nn.LossScale(initial=2.0**127, growth_interval=1)
    scaling.adapt(Tensor(True))
    assert scaling.scale.item() == 2.0**127


def test_small_gradients_of_float16_survive() -> None:
    weight = Tensor([1.0]).realize()

    def loss(w: Tensor) -> Tensor:
        return w.cast("float16").cast("float32").sum() * 1e-9

    assert grad(loss)(weight).tolist() == [0]
    scaling = nn.LossScale()
    scaled = grad(lambda w: scaling.scale_loss(loss(w)))(weight)
    np.testing.assert_allclose(
        scaling.unscale({"weight": scaled})[0]["weight"].numpy(), [1e-9], rtol=1e-3
    )


def test_a_scale_that_goes_the_wrong_way_is_an_error() -> None:
    for options in (
        {"initial": 0.0},
        {"growth_factor": 0.5},
        {"backoff_factor": 2.0},
        {"growth_interval": 0},
    ):
        with pytest.raises(LayerArgumentError, match="LossScale"):
            nn.LossScale(**options)  # pyright: ignore[reportArgumentType]


def test_a_scaled_loss_is_a_tensor():
    with pytest.raises(
        LayerArgumentError, match="scale_loss: expected a tensor as loss, got float"
    ):
        nn.LossScale().scale_loss(2.0)
    with pytest.raises(LayerArgumentError, match="adapt: expected a tensor as is_good, got bool"):
        nn.LossScale().adapt(True)
