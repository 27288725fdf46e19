from __future__ import annotations

import numpy as np
import pytest

from svod_ir import OperandError, ShapeError
from svod_tensor import Tensor
from svod_testing import check


def test_covariances_agree_with_numpy(rng):
    x, y = rng.normal(size=(2, 3, 7))
    often, heavy = np.array([1, 2, 0, 3, 1, 1, 2]), rng.random(7)
    check(Tensor(x).cov(), np.cov(x))
    check(Tensor(x).cov(y, correction=0), np.cov(x, y, ddof=0))
    check(Tensor(x).cov(rowvar=False), np.cov(x, rowvar=False))
    check(Tensor(x[0]).cov(), np.cov(x[0]))
    check(Tensor(x).cov(fweights=often), np.cov(x, fweights=often))
    check(Tensor(x).cov(aweights=heavy), np.cov(x, aweights=heavy))
    check(Tensor(x).cov(fweights=often, aweights=heavy), np.cov(x, fweights=often, aweights=heavy))
    check(Tensor(often).cov(), np.cov(often).astype("f4"))
    check(Tensor(x).corrcoef(y), np.corrcoef(x, y))
    check(Tensor(x[0]).corrcoef(), np.corrcoef(x[0]))
    with pytest.raises(ShapeError, match=r"cov: input must have at most 2 dimensions: \(2, 2, 2\)"):
        Tensor.zeros(2, 2, 2).cov()


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32"])
def test_histograms_agree_with_numpy(rng, dtype):
    a = (rng.normal(size=(20, 10)) * 3).astype(dtype)
    wanted = a.dtype if a.dtype.kind == "f" else np.float32
    for options in (
        {},
        {"bins": 7, "range": (-1, 2)},
        {"bins": [-2, -1, 0, 3]},
        {"bins": 5, "density": True},
    ):
        counts, edges = Tensor(a).histogram(**options)
        expected, places = np.histogram(a, **options)
        check(counts, expected.astype(wanted) if "density" in options else expected, rtol=1e-5)
        np.testing.assert_allclose(edges.numpy(), places, rtol=1e-6)
    weights = rng.random((20, 10))
    check(Tensor(a).histogram(6, weights=weights)[0], np.histogram(a, 6, weights=weights)[0])


def test_histograms_of_empty_constant_and_nan_samples():
    check(Tensor(np.ones(3)).histogram(6)[0], np.histogram(np.ones(3), 6)[0])
    check(Tensor(np.ones(0)).histogram(6)[0], np.zeros(6, np.int64))
    assert Tensor([np.nan, 0.5, 1.0, 7.0]).histogram(2, (0, 1))[0].tolist() == [0, 2]
    with pytest.raises(OperandError, match="histogram: expected at least 1 bin, got 0"):
        Tensor([1.0]).histogram(0)
    with pytest.raises(OperandError, match=r"a pair of finite numbers \(lowest, highest\)"):
        Tensor([1.0]).histogram(2, (3, 1))


@pytest.mark.parametrize("right", [False, True])
def test_digitize_handles_increasing_and_decreasing_edges(rng, right):
    edges = np.array([-1, 0, 0.5, 2])
    a = np.concatenate([rng.normal(size=50), edges])
    check(Tensor(a).digitize(edges, right), np.digitize(a, edges, right))
    check(Tensor(a).digitize(edges[::-1].copy(), right), np.digitize(a, edges[::-1], right))
    check(Tensor([1, 2]).digitize([2], right), np.digitize([1, 2], [2], right))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_of_every_length_agree_with_numpy(rng, mode):
    for n, m in ((1, 1), (5, 2), (2, 5), (4, 4), (6, 3)):
        x, y = rng.normal(size=n), rng.normal(size=m)
        check(Tensor(x).convolve(y, mode), np.convolve(x, y, mode))
        check(Tensor(x).correlate(y, mode), np.correlate(x, y, mode))
    bits = np.array([True, False, True])
    check(Tensor(bits).convolve(bits, mode), np.convolve(bits, bits, mode))
    large = np.array([2**40, 3])
    check(Tensor(large).convolve(large[::-1].copy(), mode), np.convolve(large, large[::-1], mode))


def test_convolve_requires_1d_tensors():
    with pytest.raises(ShapeError, match=r"convolve: input must be 1-d and not empty: \(2, 2\)"):
        Tensor.zeros(2, 2).convolve([1.0])
    with pytest.raises(OperandError, match=r"correlate: expected mode .* got mode='all'"):
        Tensor([1.0]).correlate([1.0], "all")


@pytest.mark.parametrize("shape", [(1, 4), (2, 4), (3,), (1,), ()])
@pytest.mark.parametrize("name", ["fweights", "aweights"])
def test_covariances_need_a_weight_for_each_observation(name, shape):
    with pytest.raises(
        ShapeError, match=r"cov: expected 4 weights, one per observation, got shape \("
    ):
        Tensor(np.ones((2, 4), np.float32)).cov(**{name: Tensor(np.ones(shape, np.int64))})
