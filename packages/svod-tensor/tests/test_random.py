from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from svod_ir import OperandError, ShapeError
from svod_ir.evaluate import evaluate
from svod_tensor import Tensor
from svod_tensor.errors import IntegerOverflowError
from svod_tensor.ops.random.bits import random_words


def test_a_seed_fixes_the_numbers_whenever_they_are_computed():
    a, b = Tensor.rand(1000, seed=1), Tensor.rand(1000, seed=2)
    late = b.numpy(copy=True)
    early = a.numpy(copy=True)
    assert not np.array_equal(early, late)
    assert np.array_equal(Tensor.rand(1000, seed=1).numpy(), early)
    assert np.array_equal(Tensor.rand(10, 100, seed=1).numpy().reshape(-1), early)
    x = Tensor.rand(1000, seed=Tensor(1))
    assert np.array_equal(evaluate(x.uop), early)


def test_tensors_without_seed_differ_and_do_not_change():
    x = Tensor.rand(100)
    first = (x + 0).numpy(copy=True)
    assert np.array_equal(x.numpy(), first)
    assert not np.array_equal(Tensor.rand(100).numpy(), first)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_uniform_numbers_are_uniform(dtype):
    x = Tensor.rand(100_000, seed=3, dtype=dtype).numpy().astype(np.float64)
    assert x.min() >= 0
    assert x.max() < 1
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
    with pytest.raises(ShapeError, match="low >= high: 3 >= 3"):
        Tensor.randint(2, low=3, high=3)


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 2**64, "uint64"),
        (-(2**63), 2**63, "int64"),
        (5, 2**32 + 5, "int64"),
        (5, 2**32 + 6, "int64"),
        (-7, 2**62, "int64"),
        (2**63, 2**63 + 3, "uint64"),
        (-(2**63), -(2**63) + 3, "int64"),
        (-128, 128, "int8"),
        (0, 2, "bool"),
    ],
)
def test_integers_are_uniform_between_any_bounds(low, high, dtype):
    x = Tensor.randint(20_000, low=low, high=high, seed=5, dtype=dtype)
    assert x.dtype.name == dtype
    values = [int(v) for v in x.tolist()]
    assert low <= min(values)
    assert max(values) < high
    n_bins = min(high - low, 64)
    counts = np.bincount([(v - low) * n_bins // (high - low) for v in values], minlength=n_bins)
    assert stats.chisquare(counts).pvalue > 1e-3


def test_wide_intervals_are_scaled_exactly():
    count = 2**63 + 12345
    x = Tensor.randint(100, low=-(2**62), high=count - 2**62, seed=5).tolist()
    high, low = (words.tolist() for words in random_words("rand", 100, 5, None, None, n_words=2))
    assert x == [((h << 64 | w) * count >> 128) - 2**62 for h, w in zip(high, low, strict=True)]


def test_bounds_out_of_range_of_the_dtype_are_errors():
    for low, high in ((0, 129), (-129, 0)):
        with pytest.raises(IntegerOverflowError, match="int8"):
            Tensor.randint(2, low=low, high=high, dtype="int8")
    with pytest.raises(IntegerOverflowError):
        Tensor.randint(2, low=-1, high=2**64)
    assert set(Tensor.randint(100, low=0, high=2, dtype="float16").tolist()) == {0.0, 1.0}


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
