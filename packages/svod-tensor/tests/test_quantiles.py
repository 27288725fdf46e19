from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from svod_ir import AxisError, OperandError
from svod_tensor import Tensor, jit
from svod_tensor.errors import EmptyReductionError
from svod_tensor.ops.statistics.quantiles import QuantileMethod
from svod_testing import check


@pytest.mark.parametrize("method", get_args(QuantileMethod))
def test_quantiles_of_every_method_agree_with_numpy(rng, method):
    a, parts = rng.normal(size=(4, 8)), np.linspace(0, 1, 33)
    check(Tensor(a).quantile(parts, 1, method=method), np.quantile(a, parts, 1, method=method))
    check(Tensor(a).percentile(30, 0, method=method), np.percentile(a, 30, 0, method=method))
    a[a < -0.5] = np.nan
    check(
        Tensor(a).nanquantile([0.2, 0.7], 0, method=method),
        np.nanquantile(a, [0.2, 0.7], 0, method=method),
    )


@pytest.mark.parametrize("axis", [None, 1, (0, -1)])
@pytest.mark.parametrize("q", [0.3, [[0.5], [1.0]]])
def test_the_axes_of_q_come_first(rng, axis, q):
    a = rng.normal(size=(4, 3, 5)).astype("f4")
    check(Tensor(a).quantile(q, axis), np.quantile(a, q, axis).astype("f4"))
    check(
        Tensor(a).quantile(q, axis, keepdims=True),
        np.quantile(a, q, axis, keepdims=True).astype("f4"),
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int32", "uint8", "bool"])
def test_medians_agree_with_numpy(rng, dtype):
    a = (rng.normal(size=(4, 6)) * 5).astype(dtype)
    wanted = a.dtype if a.dtype.kind == "f" else np.float32
    check(Tensor(a).median(1), np.median(a, 1).astype(wanted))
    check(Tensor(a).median(keepdims=True), np.median(a, keepdims=True).astype(wanted))
    check(Tensor(a).median((0, 1)), np.asarray(np.median(a)).astype(wanted))


def test_quantiles_without_nans_agree_with_numpy(rng):
    a = rng.normal(size=(3, 4, 5))
    a[rng.random(a.shape) < 0.3] = np.nan
    check(Tensor(a).nanmedian((0, 2)), np.nanmedian(a, (0, 2)))
    check(Tensor(a).nanpercentile([10, 50], (0, 1)), np.nanpercentile(a, [10, 50], (0, 1)))
    assert np.isnan(Tensor([np.nan, np.nan]).nanmedian().item())


def test_a_nan_is_in_every_quantile_of_its_row_and_infinities_stay():
    assert np.isnan(Tensor([[1.0, np.nan], [1.0, 2.0]]).quantile(0.0, 1).numpy()).tolist() == [
        True,
        False,
    ]
    inf = Tensor([-np.inf, -np.inf, 1.0, np.inf, np.inf])
    assert inf.quantile([0.0, 0.1, 0.5, 0.9, 1.0]).tolist() == [
        -np.inf,
        -np.inf,
        1.0,
        np.inf,
        np.inf,
    ]


def test_a_quantile_may_be_a_tensor_in_a_captured_function(rng):
    a = rng.normal(size=9)
    find = jit(lambda x, q: x.quantile(q))
    for q in (0.1, 0.8):
        check(find(Tensor(a), Tensor(q, dtype="float64")), np.quantile(a, q))
    assert np.isnan(Tensor(a).quantile(Tensor([1.5])).item())


def test_invalid_quantiles_are_errors():
    with pytest.raises(
        OperandError, match=r"quantile: expected q in the range \[0, 1\], got q=\[0\.5, 1\.2\]"
    ):
        Tensor([1.0]).quantile([0.5, 1.2])
    with pytest.raises(
        OperandError,
        match=r"quantile: expected one of the methods linear, lower, higher,.*'middle'",
    ):
        Tensor([1.0]).quantile(0.5, method="middle")
    with pytest.raises(EmptyReductionError):
        Tensor.zeros(2, 0).median()
    with pytest.raises(AxisError):
        Tensor.zeros(2, 3).median(2)
