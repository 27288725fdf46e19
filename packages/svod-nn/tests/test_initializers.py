from __future__ import annotations

import math

import numpy as np
import pytest

from svod_nn import initializers
from svod_nn.errors import LayerArgumentError
from svod_tensor import Generator

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
def test_random_values_have_the_variance_and_the_shape_of_their_distribution(name, arguments, variance, is_uniform):
    x = getattr(initializers, name)(SHAPE, **arguments, generator=Generator(3)).numpy()
    assert x.shape == SHAPE
    assert abs(x.mean()) < 5 * math.sqrt(variance / x.size)
    np.testing.assert_allclose(x.var(), variance, rtol=0.05)
    largest = np.abs(x).max() / math.sqrt(variance)
    assert largest <= math.sqrt(3) + 1e-6 if is_uniform else 3 < largest < 6


def test_values_depend_on_the_generator_alone():
    first, again = (initializers.xavier_normal((3, 4), generator=Generator(5)).tolist() for _ in range(2))
    assert first == again


def test_truncated_values_lie_within_bounds_that_are_values():
    x = initializers.truncated_normal((500,), mean=1.0, std=10.0, low=-2.0, high=3.0, generator=Generator(2)).numpy()
    assert -2 <= x.min() < -1.5
    assert 2.5 < x.max() <= 3


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3), (4, 4)])
def test_orthogonal_rows_or_columns_are_orthonormal(shape):
    x = initializers.orthogonal(shape, gain=2.0, generator=Generator(1)).numpy().reshape(shape[0], -1) / 2
    product = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-6)


def test_mistakes_name_what_is_wrong():
    with pytest.raises(LayerArgumentError, match="no axis of inputs"):
        initializers.xavier_uniform((3,))
    with pytest.raises(LayerArgumentError, match="'softmax' is none of linear"):
        initializers.get_gain("softmax")
