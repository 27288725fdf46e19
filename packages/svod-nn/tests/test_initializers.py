from __future__ import annotations

import math

import numpy as np
import pytest

import svod_nn as nn
from svod_nn import initializers
from svod_nn.errors import EmptyParameterError, LayerArgumentError
from svod_tensor import Generator, Tensor, default_generator, jit

SHAPE = (64, 48, 3)
FAN_IN, FAN_OUT = 48 * 3, 64 * 3


@pytest.mark.parametrize(
    ("name", "arguments", "variance", "is_uniform"),
    [
        ("uniform", {"low": -2.0, "high": 2.0}, 16 / 12, True),
        ("normal", {"std": 0.5}, 0.25, False),
        ("xavier_uniform", {"gain": 2.0}, 4 * 2 / (FAN_IN + FAN_OUT), True),
        ("xavier_normal", {}, 2 / (FAN_IN + FAN_OUT), False),
        ("kaiming_uniform", {"slope": math.sqrt(5)}, 2 / 6 / FAN_IN, True),
        ("kaiming_normal", {"mode": "fan_out", "nonlinearity": "relu"}, 2 / FAN_OUT, False),
    ],
)
def test_random_values_have_the_variance_and_the_shape_of_their_distribution(
    name, arguments, variance, is_uniform
):
    x = getattr(initializers, name)(SHAPE, **arguments, generator=Generator(3)).numpy()
    assert x.shape == SHAPE
    assert abs(x.mean()) < 5 * math.sqrt(variance / x.size)
    np.testing.assert_allclose(x.var(), variance, rtol=0.05)
    largest = np.abs(x).max() / math.sqrt(variance)
    assert largest <= math.sqrt(3) + 1e-6 if is_uniform else 3 < largest < 6


def test_values_depend_on_the_generator_alone():
    first, again = (
        initializers.xavier_normal((3, 4), generator=Generator(5)).tolist() for _ in range(2)
    )
    assert first == again


def test_truncated_values_lie_within_bounds_that_are_values():
    x = initializers.truncated_normal(
        (500,), mean=1.0, std=10.0, low=-2.0, high=3.0, generator=Generator(2)
    ).numpy()
    assert -2 <= x.min() < -1.5
    assert 2.5 < x.max() <= 3


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3), (4, 4)])
def test_orthogonal_rows_or_columns_are_orthonormal(shape):
    x = (
        initializers.orthogonal(shape, gain=2.0, generator=Generator(1))
        .numpy()
        .reshape(shape[0], -1)
        / 2
    )
    product = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-6)


def test_invalid_arguments_are_errors():
    with pytest.raises(LayerArgumentError, match="at least 2 axes"):
        initializers.xavier_uniform((3,))
    with pytest.raises(LayerArgumentError, match="unsupported nonlinearity 'softmax'"):
        initializers.get_gain("softmax")


def make_models() -> list[nn.Module]:
    return [
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2),
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.PReLU(), nn.GroupNorm(2, 4)),
        nn.LSTM(3, 4, 2),
        nn.Embedding(5, 3, padding_idx=1),
        nn.Linear(4, 3).cast("bfloat16"),
        nn.Linear(0, 3),
    ]


def test_empty_weights_have_the_forms_of_others_and_are_loaded_to_the_same_model():
    generator = default_generator()
    before = generator.get_state()
    with nn.init_empty_weights():
        empty = make_models()
    assert generator.get_state() == before
    for found, wanted in zip(empty, make_models(), strict=True):
        states = found.state_dict(), wanted.state_dict()
        forms = [
            [(name, t.shape, t.dtype, t.device) for name, t in state.items()] for state in states
        ]
        assert forms[0] == forms[1]
        found.load_state_dict(states[1])
        for name, tensor in states[1].items():
            np.testing.assert_array_equal(
                found.state_dict()[name].numpy(), tensor.numpy(), err_msg=name
            )


def test_empty_weights_that_are_read_before_they_are_loaded_are_an_error():
    with nn.init_empty_weights():
        model, weights = (
            nn.Linear(2, 3),
            [
                initializers.constant((2,), 1.0),
                initializers.orthogonal((2, 2)),
                initializers.truncated_normal((2,)),
            ],
        )
    x = Tensor.ones(1, 2)
    for read in (
        lambda: model(x).numpy(),
        lambda: jit(model.forward)(x).numpy(),
        *(w.numpy for w in weights),
    ):
        with pytest.raises(EmptyParameterError, match="has no values"):
            read()
    assert "lazy" in repr(model.weight)
    model.load_state_dict({"weight": np.ones((3, 2))}, strict=False)
    with pytest.raises(EmptyParameterError, match=r"shape \(3,\)"):
        model(x).numpy()
    model.bias.assign(Tensor.zeros(3))
    assert model(x).tolist() == [[2, 2, 2]]
    # Outside of the block, and after an error in it, initializers give values again.
    with pytest.raises(KeyError), nn.init_empty_weights():
        raise KeyError
    assert np.isfinite(nn.Linear(2, 3).weight.numpy()).all()
