from __future__ import annotations

import numpy as np
import pytest

from svod_ir import ShapeError
from svod_tensor import Tensor, logcumsumexp
from svod_testing import check, make_array


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "uint8"])
@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("shape", [(7, 5), (1, 3), (0, 2)])
def test_diff_agrees_with_numpy(rng, shape, n, dtype):
    a = make_array(rng, shape, dtype)
    for axis in (0, 1, -1):
        check(Tensor(a).diff(n, axis), np.diff(a, n, axis))
    check(Tensor(a).diff(prepend=Tensor(a), append=Tensor(a)), np.diff(a, prepend=a, append=a))


def test_cumulative_sums_may_include_the_initial_element(rng):
    a = make_array(rng, (3, 4), "int32")
    wanted = {"dtype": np.int32, "include_initial": True}
    check(Tensor(a).cumulative_sum(1, include_initial=True), np.cumulative_sum(a, axis=1, **wanted))
    check(
        Tensor(a).cumulative_prod(0, include_initial=True), np.cumulative_prod(a, axis=0, **wanted)
    )
    check(Tensor(a[0]).cumulative_sum(), np.cumulative_sum(a[0], dtype=np.int32))
    with pytest.raises(
        ShapeError, match="cumulative_sum: axis is required for a tensor of dimension 2"
    ):
        Tensor(a).cumulative_sum()


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "uint8"])
@pytest.mark.parametrize("shape", [(7, 5), (1, 3), (3, 1), (0, 2), (40,)])
def test_cumargmax_agrees_with_argmax_of_each_prefix(rng, shape, dtype):
    a = make_array(rng, shape, dtype)
    if dtype == "float32" and a.size > 9:
        a.flat[rng.integers(0, a.size, 3)] = np.nan, np.inf, -np.inf
        a = np.round(a)
    for axis in range(-1, a.ndim):
        for name, function in (("cumargmax", np.argmax), ("cumargmin", np.argmin)):
            wanted = np.zeros(shape, np.int64)
            for n in range(shape[axis] if a.size else 0):
                part = np.take(a, range(n + 1), axis)
                np.moveaxis(wanted, axis, 0)[n] = function(part, axis)
            check(getattr(Tensor(a), name)(axis), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(9, 5), (1, 3), (0, 2), (200,)])
def test_running_logsumexp_agrees_with_numpy_in_float64(rng, shape, dtype):
    a = (rng.standard_normal(shape) * 30).astype(dtype)
    for axis in range(-1, a.ndim):
        found = logcumsumexp(Tensor(a), axis)
        assert found.dtype.name == ("float32" if dtype == "int32" else dtype)
        wanted = np.logaddexp.accumulate(a.astype("float64"), axis)
        np.testing.assert_allclose(
            found.numpy(), wanted, rtol=1e-12 if dtype == "float64" else 1e-6, atol=1e-6
        )
    np.testing.assert_allclose(
        logcumsumexp(Tensor(a)).numpy(),
        np.logaddexp.accumulate(a.astype("float64").ravel()),
        rtol=1e-6,
    )


def test_running_logsumexp_of_infinities_and_nans():
    inf, nan = np.inf, np.nan
    for a in (
        [-inf, -inf, 1, inf, inf, 2],
        [1, -inf, nan, inf],
        [inf, -inf, 0],
        [-1e30, 1e30, -inf],
        [-inf] * 5,
    ):
        with np.errstate(invalid="ignore"):
            wanted = np.logaddexp.accumulate(np.array(a))
        np.testing.assert_allclose(logcumsumexp(Tensor(a), 0).numpy(), wanted, rtol=1e-6)


def test_running_logsumexp_of_narrow_floats_is_rounded_once(rng):
    a = (rng.standard_normal(60) * 4).astype("float16")
    check(
        logcumsumexp(Tensor(a), 0), np.logaddexp.accumulate(a.astype("float64")).astype("float16")
    )
