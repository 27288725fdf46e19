from __future__ import annotations

import numpy as np
import pytest

from svod_ir.errors import OperandError, ShapeError
from svod_ir.evaluate import evaluate
from svod_tensor import Tensor


def test_a_seed_fixes_the_numbers_whenever_they_are_computed():
    a, b = Tensor.rand(1000, seed=1), Tensor.rand(1000, seed=2)
    late = b.numpy(copy=True)
    early = a.numpy(copy=True)
    assert not np.array_equal(early, late)
    assert np.array_equal(Tensor.rand(1000, seed=1).numpy(), early)
    assert np.array_equal(Tensor.rand(10, 100, seed=1).numpy().reshape(-1), early)
    assert np.array_equal(evaluate(Tensor.rand(1000, seed=1).uop), early)


def test_tensors_without_seed_differ_and_do_not_change():
    x = Tensor.rand(100)
    first = (x + 0).numpy(copy=True)
    assert np.array_equal(x.numpy(), first)
    assert not np.array_equal(Tensor.rand(100).numpy(), first)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_uniform_numbers_are_uniform(dtype):
    x = Tensor.rand(100_000, seed=3, dtype=dtype).numpy().astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1 or dtype == "float16"
    assert abs(x.mean() - 0.5) < 0.005
    counts, _ = np.histogram(x, 20, (0, 1))
    assert np.abs(counts - 5000).max() < 400
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02


def test_normal_numbers_are_normal():
    x = Tensor.randn(100_000, seed=4).numpy().astype(np.float64)
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 0.015
    assert abs(x.std() - 1) < 0.01
    assert abs((x**4).mean() - 3) < 0.15


def test_integers_fill_their_interval():
    x = Tensor.randint(10_000, low=-3, high=4, seed=5)
    assert sorted(set(x.tolist())) == list(range(-3, 4))
    assert x.dtype.name == "int32"
    assert Tensor.randint(2, low=2**40, high=2**40 + 1).tolist() == [2**40] * 2
    with pytest.raises(ShapeError, match="no integer"):
        Tensor.randint(2, low=3, high=3)


def test_dropout_keeps_the_mean():
    x = Tensor.ones(100_000).dropout(0.25, seed=6)
    values = x.numpy()
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs(values.mean() - 1) < 0.01
    assert Tensor.ones(3).dropout(0).tolist() == [1.0] * 3
    assert Tensor.ones(3).dropout(1).tolist() == [0.0] * 3
    with pytest.raises(OperandError, match="probability"):
        Tensor.ones(3).dropout(2)


def test_random_tensors_have_float_dtypes_and_any_shape():
    assert Tensor.rand(0, 3).tolist() == []
    assert Tensor.randn().shape == ()
    with pytest.raises(OperandError, match="floating-point"):
        Tensor.rand(2, dtype="int32")
