"""Recurrent layers agree with PyTorch, if it is installed (`tox run -e loops-torch`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor, gru, lstm, rnn

torch = pytest.importorskip("torch", reason="torch is not installed", exc_type=ImportError)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


LAYERS = {
    "lstm": (torch.nn.LSTM, lstm, {}),
    "gru": (torch.nn.GRU, gru, {}),
    "rnn": (torch.nn.RNN, rnn, {}),
} | {"relu": (torch.nn.RNN, rnn, {"nonlinearity": "relu"})}


def compute(
    kind: str, x: Any, states: Any, *, bias: bool = True, **options: Any
) -> tuple[list[Any], list[Any]]:
    """Output and final states of both libraries for an input and initial states."""
    layer, function, more = LAYERS[kind]
    torch.manual_seed(0)
    module = layer(x.shape[-1], 5, bias=bias, **options, **more)
    hx = None if states is None else [torch.from_numpy(s) for s in states]
    with torch.no_grad():
        output, ends = module(torch.from_numpy(x), hx and (tuple(hx) if kind == "lstm" else hx[0]))
    wanted = [output, *(ends if kind == "lstm" else (ends,))]
    weights = {name: Tensor(p.detach().numpy()) for name, p in module.named_parameters()}
    given = None if states is None else [Tensor(s) for s in states]
    output, ends = function(
        Tensor(x),
        weights,
        given and (tuple(given) if kind == "lstm" else given[0]),
        **options,
        **more,
    )
    found = [output, *(ends if kind == "lstm" else (ends,))]
    return [t.numpy() for t in found], [t.numpy() for t in wanted]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("num_layers", [1, 3])
@pytest.mark.parametrize("kind", LAYERS)
def test_layers_agree_with_torch(
    rng: np.random.Generator, kind: str, num_layers: int, bidirectional: bool, bias: bool
) -> None:
    x = rng.standard_normal((7, 3, 4)).astype("float32")
    n = num_layers * (1 + bidirectional)
    states = [rng.standard_normal((n, 3, 5)).astype("float32") for _ in range(1 + (kind == "lstm"))]
    for hx in (None, states):
        found, wanted = compute(
            kind, x, hx, num_layers=num_layers, bidirectional=bidirectional, bias=bias
        )
        for ours, theirs in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", LAYERS)
def test_shapes_agree_with_torch(rng: np.random.Generator, kind: str) -> None:
    for shape, options in (
        ((6, 2, 4), {"batch_first": True}),
        ((6, 4), {}),
        ((6, 4), {"batch_first": True}),
        ((1, 1, 1), {}),
    ):
        found, wanted = compute(
            kind, rng.standard_normal(shape).astype("float32"), None, bidirectional=True, **options
        )
        for ours, theirs in zip(found, wanted, strict=True):
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_parameters_may_be_listed_in_the_order_of_torch(rng: np.random.Generator) -> None:
    module = torch.nn.LSTM(4, 5, num_layers=2, bidirectional=True)
    x = rng.standard_normal((7, 3, 4)).astype("float32")
    weights = [Tensor(p.detach().numpy()) for p in module.parameters()]
    output, _ = lstm(Tensor(x), weights, num_layers=2, bidirectional=True)
    with torch.no_grad():
        np.testing.assert_allclose(
            output.numpy(), module(torch.from_numpy(x))[0].numpy(), rtol=1e-5, atol=1e-5
        )
