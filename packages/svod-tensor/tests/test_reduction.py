from __future__ import annotations

import math

import numpy as np
import pytest

from svod_ir import AxisError, OperandError, ShapeError
from svod_tensor import Tensor
from svod_tensor.errors import EmptyReductionError
from svod_testing import check, make_array

AXES = [None, 0, 1, -1, (0, 2), (0, 1, 2), ()]
REDUCTIONS = ["sum", "prod", "max", "min", "mean", "var", "std", "any", "all"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", AXES)
def test_reductions_agree_with_numpy(rng, name, axis):
    a = make_array(rng, (3, 7, 5), "float32") / 2
    for keepdims in (False, True):
        expected = getattr(np, name)(a.astype(np.float64), axis=axis, keepdims=keepdims)
        expected = expected if name in ("any", "all") else expected.astype(np.float32)
        check(getattr(Tensor(a), name)(axis, keepdims=keepdims), expected, rtol=2e-5)


@pytest.mark.parametrize(
    "shape", [(1,), (1, 1), (1000,), (513, 3), (3, 2049), (70000,), (2, 300, 7)]
)
def test_sums_and_extrema_agree_with_numpy_on_long_axes(rng, shape):
    a = make_array(rng, shape, "float32")
    for axis in (None, 0, -1):
        check(
            Tensor(a).sum(axis),
            a.astype(np.float64).sum(axis).astype(np.float32),
            rtol=1e-5,
            atol=2e-3,
        )
        check(Tensor(a).max(axis), a.max(axis))
        check(Tensor(a).argmin(axis), a.argmin(axis))


def test_a_float32_sum_is_at_least_as_accurate_as_pairwise(rng):
    a = rng.random(1_000_003).astype(np.float32)
    exact = a.astype(np.float64).sum()
    assert (
        abs(Tensor(a).sum().item() - exact)
        <= max(abs(float(a.sum()) - exact), np.spacing(np.float32(exact))) * 2
    )


SUMS = {
    "bool": "int32",
    "int8": "int32",
    "int16": "int32",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint32",
    "uint16": "uint32",
    "uint32": "uint32",
    "uint64": "uint64",
}
"""The dtype of an integer -> that of its sums.

Source: the array API standard, `sum`, with int32 as the default dtype of integers.
"""


@pytest.mark.parametrize("dtype", SUMS)
def test_integer_sums_have_the_default_dtype_of_integers_or_their_own_if_that_is_wider(rng, dtype):
    a, kind = make_array(rng, (300, 4), dtype), SUMS[dtype]
    check(Tensor(a).sum(), a.sum(dtype=kind))
    check(Tensor(a).sum(0), a.sum(0, dtype=kind))
    check(Tensor(a[:3]).prod(1), a[:3].prod(1, dtype=kind))
    check(Tensor(a).cumsum(0), a.cumsum(0, dtype=kind))
    check(Tensor(a[:3]).cumprod(1), a[:3].cumprod(1, dtype=kind))
    check(Tensor(a).trace(), a.trace(dtype=kind))
    check(Tensor(a).nansum(0), a.sum(0, dtype=kind))
    check(Tensor(a).count_nonzero(0), np.count_nonzero(a, 0))
    check(Tensor(a).sum(0, dtype="int64"), a.sum(0, dtype=np.int64))
    check(Tensor(a).sum(0, dtype="int32"), a.sum(0, dtype=np.int32))
    check(Tensor(a).max(0), a.max(0))
    check(Tensor(a).mean(0), a.mean(0).astype(np.float32), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_accumulate_in_float32(dtype):
    x = Tensor.full((4096,), 1.0, dtype=dtype)
    assert x.sum().item() == 4096.0
    assert x.mean().item() == 1.0
    assert x.sum().dtype.name == dtype


def test_nan_is_the_extremum():
    a = np.array([[1.0, np.nan, 2.0], [3.0, -np.inf, 0.0]], np.float32)
    for name in ("max", "min", "argmax", "argmin"):
        check(getattr(Tensor(a), name)(1), getattr(np, name)(a, axis=1))
    check(Tensor(a).cummax(1), np.maximum.accumulate(a, 1))


@pytest.mark.parametrize("dtype", ["float32", "int8", "uint64", "bool"])
def test_argmax_gives_the_first_occurrence(rng, dtype):
    a = make_array(rng, (6, 50), dtype)
    a[:, 20:] = a[:, :30]
    for axis in (None, 0, 1):
        check(Tensor(a).argmax(axis), a.argmax(axis))
        check(Tensor(a).argmin(axis), a.argmin(axis))
    check(Tensor(a).argmax(1, keepdims=True), a.argmax(1, keepdims=True))
    assert Tensor([-np.inf, -np.inf]).argmax().item() == 0


def test_reductions_over_empty_axes():
    empty = Tensor.zeros(0, 3)
    check(empty.sum(0), np.zeros(3, np.float32))
    check(empty.prod(), np.array(1, np.float32))
    assert empty.any().item() is False
    assert empty.all().item() is True
    assert empty.sum(1).shape == (0,)
    assert np.isnan(empty.mean().item())
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(
            EmptyReductionError,
            match=r"zero-size array to reduction operation, which has no identity: axis 0 of shape \(0, 3\)",
        ):
            getattr(empty, name)(0)
    assert empty.max(1).shape == (0,)


def test_axes_are_checked():
    for wrong in (
        lambda: Tensor.zeros(2).sum(1),
        lambda: Tensor(1.0).sum(0),
        lambda: Tensor.zeros(2, 2).argmax(-3),
        lambda: Tensor.zeros(2).cumsum(2),
    ):
        with pytest.raises(AxisError):
            wrong()
    with pytest.raises(ShapeError, match=r"sum: repeated axis in \(0, -2\)"):
        Tensor.zeros(2, 2).sum((0, -2))


def test_var_takes_a_correction(rng):
    a = make_array(rng, (5, 9), "float32")
    check(Tensor(a).var(1, correction=1), a.var(1, ddof=1), rtol=1e-5)
    check(Tensor(a).std(correction=1), a.std(ddof=1), rtol=1e-5)


def test_logsumexp_does_not_overflow(rng):
    a = make_array(rng, (4, 6), "float32") * 100
    check(
        Tensor(a).logsumexp(1),
        np.logaddexp.reduce(a.astype(np.float64), 1).astype(np.float32),
        rtol=1e-6,
    )
    assert Tensor([-np.inf, -np.inf]).logsumexp().item() == -np.inf
    assert Tensor([np.inf, 1.0]).logsumexp().item() == np.inf


def test_norms(rng):
    a = make_array(rng, (4, 6), "float32")
    for order in (1, 2, 3, np.inf):
        check(
            Tensor(a).norm(1, ord=order), np.linalg.norm(a, order, 1).astype(np.float32), rtol=1e-5
        )


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8", "bool", "float16"])
def test_cumulative_reductions_agree_with_numpy(rng, dtype):
    a = (
        make_array(rng, (4, 11), dtype)
        if dtype != "float16"
        else (make_array(rng, (4, 11), "float32") / 8).astype(np.float16)
    )
    wide = a.astype(np.float64) if np.dtype(dtype).kind == "f" else a
    for axis in (None, 0, 1):
        expected = np.cumsum(wide, axis)
        check(
            Tensor(a).cumsum(axis),
            expected.astype(SUMS.get(dtype, dtype)),
            rtol=2e-3 if dtype == "float16" else 1e-5,
        )
    if dtype != "float16":
        expected = np.cumprod(wide, 1)
        check(Tensor(a).cumprod(1), expected.astype(SUMS.get(dtype, dtype)), rtol=1e-5)
        check(Tensor(a).cummin(0), np.minimum.accumulate(a, 0))


def test_running_reductions_of_long_axes(rng):
    a = rng.integers(-5, 5, 5000)
    check(Tensor(a).cumsum(0), np.cumsum(a))
    assert Tensor.zeros(0).cumsum(0).shape == (0,)
    assert Tensor(5.0).cumsum().tolist() == [5.0]


def test_a_reduction_fuses_with_its_producers_and_consumers(rng):
    a = make_array(rng, (31, 17), "float32")
    x = Tensor(a)
    check((x * 2 + 1).sum(1).exp().log() - 1, (a * 2 + 1).sum(1) - 1, rtol=1e-4, atol=1e-3)
    check(x - x.mean(1, keepdims=True), a - a.mean(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_moments_of_large_integers_do_not_overflow(name):
    a = np.array([2**31 - 1, -(2**31), 5, 2**24 + 1], np.int32)
    check(getattr(Tensor(a), name)(), np.float32(getattr(np, name)(a)), rtol=1e-6)
    assert Tensor(np.full(100_000, 16777217, np.int64)).mean().item() == np.float32(16777217)


@pytest.mark.parametrize("ord", [0, 1, 2, 3, 0.5, -1, -2, -0.5, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_norms_of_every_order_agree_with_numpy(rng, ord, dtype):
    a = rng.standard_normal((5, 6)).astype(dtype)
    a[0, 2] = 0
    wide = a.astype(np.float64)
    with np.errstate(divide="ignore"):
        for axis in (0, 1):
            check(
                Tensor(a).norm(axis, ord=ord),
                np.linalg.norm(wide, ord, axis).astype(dtype),
                rtol=1e-3 if dtype == "float16" else 1e-5,
            )
        expected = np.linalg.norm(wide.ravel(), ord).astype(dtype)
    check(
        Tensor(a).vector_norm(ord=ord, keepdims=True),
        expected.reshape(1, 1),
        rtol=1e-3 if dtype == "float16" else 1e-5,
    )


@pytest.mark.parametrize("ord", ["fro", 1, -1, np.inf, -np.inf])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_of_matrices_agree_with_numpy(rng, ord, keepdims):
    a = rng.standard_normal((2, 5, 6)).astype(np.float32)
    check(
        Tensor(a).matrix_norm(ord=ord, keepdims=keepdims),
        np.linalg.norm(a, ord, (1, 2), keepdims),
        rtol=1e-5,
    )


def test_unknown_norms_are_errors():
    x = Tensor.ones(2, 3)
    check(x.norm(ord="fro"), np.float32(math.sqrt(6)))
    for ord in ("max", 3):
        with pytest.raises(OperandError, match="matrix_norm"):
            x.matrix_norm(ord=ord)
    for tensor, ord in ((x, "nuc"), (x[0], "fro")):
        with pytest.raises(
            OperandError, match='norm: expected a number as ord, or "fro" for two axes, got'
        ):
            tensor.norm(ord=ord)
    with pytest.raises(AxisError, match="matrix_norm"):
        x[0].matrix_norm()


@pytest.mark.filterwarnings("ignore:.*NaN")
@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanmax", "nanmin"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions_without_nans(rng, name, axis):
    a = rng.integers(-4, 5, (6, 5)).astype(np.float32)
    a[0, 1], a[2], a[:, 3], a[4, 0] = np.nan, np.nan, np.nan, np.inf
    with np.errstate(invalid="ignore"):
        check(getattr(Tensor(a), name)(axis), getattr(np, name)(a, axis), rtol=1e-6)
    assert getattr(Tensor(a), name)(axis, keepdims=True).ndim == 2
    whole = rng.integers(1, 3, (4,)).astype(np.int32)
    assert getattr(Tensor(whole), name)().item() == pytest.approx(getattr(np, name)(whole))
