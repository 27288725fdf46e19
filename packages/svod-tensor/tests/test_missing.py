from __future__ import annotations

import numpy as np
import pytest

from svod_ir import OperandError
from svod_tensor import Tensor
from svod_testing import check


@pytest.fixture
def holes(rng):
    a = rng.normal(size=(3, 4, 5))
    a[rng.random(a.shape) < 0.3] = np.nan
    a[0, 0, :4] = [np.nan, -np.inf, np.inf, 1.0]
    return a


@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
def test_moments_without_nans_agree_with_numpy(rng, axis):
    a = rng.normal(size=(3, 6, 5))
    a[rng.random(a.shape) < 0.2] = np.nan
    check(Tensor(a).nanvar(axis, correction=1), np.nanvar(a, axis, ddof=1))
    check(Tensor(a).nanstd(axis, keepdims=True), np.nanstd(a, axis, keepdims=True))
    check(Tensor(a[0].astype("f2")).nanvar(), np.nanvar(a[0].astype("f4")).astype("f2"))
    assert np.isnan(Tensor([1.0, np.nan]).nanvar(correction=1).item())


@pytest.mark.parametrize("axis", [None, 0, 2])
def test_nanargmax_agrees_with_numpy(holes, axis):
    check(Tensor(holes).nanargmax(axis), np.nanargmax(holes, axis))
    check(Tensor(holes).nanargmin(axis), np.nanargmin(holes, axis))
    assert Tensor([np.nan, -np.inf]).nanargmax().item() == 1
    assert Tensor([3, 1, 2]).nanargmin().item() == 1


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2", "bfloat16", "float16"])
def test_nanargmax_of_narrow_floats(dtype: str) -> None:
    x = Tensor([1.0, np.nan, 3.0, -2.0]).cast(dtype)
    assert (x.nanargmax().item(), x.nanargmin().item()) == (2, 3)


@pytest.mark.parametrize("axis", [None, 1])
def test_nancumsum_agrees_with_numpy(rng, axis):
    a = rng.normal(size=(3, 4))
    a[rng.random(a.shape) < 0.3] = np.nan
    check(Tensor(a).nancumsum(axis), np.nancumsum(a, axis))
    check(Tensor(a).nancumprod(axis), np.nancumprod(a, axis))
    check(Tensor([1, 2]).nancumsum(dtype="int64"), np.array([1, 3]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_nan_to_num_replaces_nan_and_infinities(dtype):
    a = np.array([np.nan, np.inf, -np.inf, 1.5], dtype)
    check(Tensor(a).nan_to_num(), np.nan_to_num(a))
    check(Tensor(a).nan_to_num(1.0, 2.0, 3.0), np.nan_to_num(a, True, 1.0, 2.0, 3.0))
    assert Tensor([1, 2]).nan_to_num().tolist() == [1, 2]


def test_nan_functions_of_complex_numbers():
    a = np.array([1 + 2j, complex(np.nan, 1), complex(np.inf, np.nan)])
    np.testing.assert_array_equal(Tensor(a).nan_to_num().numpy(), np.nan_to_num(a))
    np.testing.assert_array_equal(Tensor(a[:2]).nancumsum().numpy(), np.nancumsum(a[:2]))
    with pytest.raises(OperandError, match="nanvar: expected a real dtype, got complex128"):
        Tensor(a).nanvar()
