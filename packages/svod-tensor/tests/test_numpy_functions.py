"""numpy's functions on tensors compute what numpy computes, as tensors where there is a
counterpart.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from scipy import special

from svod_tensor import Tensor, grad, jit
from svod_tensor._numpy_functions import FUNCTIONS, UFUNCS
from svod_tensor._numpy_libraries import LIBRARIES

A = np.array([[0.5, -1.25, 2.0], [3.5, 0.25, -0.75]], np.float32)
B = np.array([[2.0, 0.5, -1.5], [0.25, 4.0, 1.0]], np.float32)
M, J = np.array([[5, -7, 2], [1, 9, 4]], np.int32), np.array([[2, 3, 1], [4, 2, 3]], np.int32)
INTEGERS = {
    "bitwise_count",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
    "gcd",
    "lcm",
}
POSITIVE = {
    "arccosh": 4.0,
    "log": 2.0,
    "log2": 2.0,
    "log10": 2.0,
    "log1p": 2.0,
    "sqrt": 2.0,
    "power": 2.0,
}


def check(found, expected, rtol=2e-6):
    assert isinstance(found, Tensor)
    array = found.numpy()
    assert array.shape == np.shape(expected)
    np.testing.assert_allclose(array, expected, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_functions_of_elements_agree_with_numpy(name):
    function = getattr(np, name, None)
    if function is None:
        pytest.skip("this numpy has no such function")
    operands = (M, J) if name in INTEGERS else (A, B)
    if name in POSITIVE:
        operands = tuple(abs(x) + POSITIVE[name] for x in operands)
    if name in ("arcsin", "arccos", "arctanh"):
        operands = tuple(x / 8 for x in operands)
    if name == "matmul":
        operands = operands[0], operands[1].T
    if name == "ldexp":
        operands = A, J
    operands = operands[: function.nin]
    expected = function(*operands)
    if function.nout == 2:
        for found, array in zip(function(*map(Tensor, operands)), expected, strict=True):
            check(found, array)
        return
    check(function(*map(Tensor, operands)), expected)
    if function.nin == 2:
        check(function(operands[0], Tensor(operands[1])), expected)
        check(function(Tensor(operands[0]), operands[1]), expected)
        if name not in ("matmul", "vecdot", "ldexp"):
            check(
                function(3, Tensor(operands[1])), function(operands[0].dtype.type(3), operands[1])
            )
            check(
                function(Tensor(operands[0]), 2), function(operands[0], operands[0].dtype.type(2))
            )


def test_operators_of_arrays_and_tensors_give_tensors():
    t = Tensor(B)
    for found, expected in (
        (A + t, A + B),
        (A - t, A - B),
        (A * t, A * B),
        (A / t, A / B),
        (A // t, A // B),
        (A % t, A % B),
        (A @ t.T, A @ B.T),
        (np.abs(A) ** t, np.abs(A) ** B),
        (t > A, A < B),
        (t <= A, A >= B),
        (t == A, A == B),
        (M & Tensor(J), M & J),
        (np.float32(2) - t, np.float32(2) - B),
        (np.int64(2) * t, 2 * B),
        (np.float64(0.5) * t, np.float32(0.5) * B),
    ):
        check(found, expected)
    # A number of numpy that is none of Python's promotes as its array does, one of Python's does
    # not.
    assert (np.float64(2) * t).dtype == "float32"
    assert (np.float32(2) * Tensor([1], dtype="int8")).dtype == "float32"
    assert np.add(t, A, dtype="f8").dtype == "float64"


def test_numbers_stay_weak_on_either_side():
    x = Tensor([1, 2], dtype="int8")
    assert np.add(3, x).dtype == np.subtract(3, x).dtype == np.multiply(x, 3).dtype == "int8"
    assert np.true_divide(1, x).dtype == "float32"
    assert np.arctan2(0.5, x).numpy().tolist() == pytest.approx(
        np.arctan2(np.float32(0.5), [1, 2]).tolist()
    )


def test_results_are_stored_in_the_requested_buffers():
    t, out = Tensor(B), np.zeros_like(A)
    assert np.add(A, t, out=out) is out
    assert np.array_equal(out, A + B)
    array = A.copy()
    array += t
    assert type(array) is np.ndarray
    assert np.array_equal(array, A + B)
    target = Tensor(np.zeros((2, 3)))
    assert np.multiply(t, 2.0, out=target) is target
    assert np.array_equal(target.numpy(), B * 2.0)
    assert target.dtype == "float64"
    with pytest.raises(TypeError, match="same_kind"):
        np.add(t, 1.5, out=np.zeros((2, 3), np.int32))


def test_methods_of_functions_agree_with_numpy():
    t = Tensor(A)
    check(np.add.reduce(t), np.add.reduce(A))
    check(np.maximum.reduce(t, axis=1, keepdims=True), np.maximum.reduce(A, axis=1, keepdims=True))
    check(np.multiply.reduce(t, axis=None), np.multiply.reduce(A, axis=None))
    check(np.add.accumulate(t, axis=1), np.add.accumulate(A, axis=1))
    check(np.minimum.accumulate(t), np.minimum.accumulate(A))
    check(np.subtract.outer(t, B[0]), np.subtract.outer(A, B[0]))
    for found, expected in zip(np.divmod(t, B), np.divmod(A, B), strict=True):
        check(found, expected)


def test_functions_without_a_counterpart_return_arrays():
    t, mask = Tensor(A), A > 0
    for call in (
        np.spacing,
        lambda x: special.ellipk(x * 0.01),
        lambda x: special.jv(1, x),
        lambda x: np.add.reduceat(x, [0, 1]),
        lambda x: np.add.reduce(x, where=mask),
        lambda x: np.sum(x, initial=1),
        lambda x: np.sum(x, axis=0, where=mask),
        lambda x: np.add(x, 1, out=np.zeros_like(A), where=mask),
        lambda x: np.max(x, initial=99.0),
    ):
        found = call(t)
        assert not isinstance(found, Tensor)
        np.testing.assert_array_equal(found, call(A))
    target = Tensor(np.zeros_like(A))
    assert np.add(t, 1, out=target, where=mask) is target
    check(target, np.where(mask, A + 1, 0))
    target = Tensor(np.zeros((2, 3)))
    assert special.ellipk(t * 0.01, out=target) is target
    np.testing.assert_allclose(target.numpy(), special.ellipk(A * 0.01), rtol=1e-6)


def test_two_results_of_a_function_agree_with_numpy():
    x = np.float32([1.5, -2.25, 3.0, -0.0, math.inf, -math.inf, math.nan, -0.5])
    for function in (np.modf, np.frexp):
        for found, expected in zip(function(Tensor(x)), function(x), strict=True):
            assert isinstance(found, Tensor)
            is_finite = np.isfinite(x) | (function is np.modf)
            np.testing.assert_array_equal(found.numpy()[is_finite], expected[is_finite])
            if function is np.modf:
                np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(expected))


@pytest.mark.parametrize("function", [np.add, np.multiply, np.maximum])
def test_functions_at_repeated_indices_write_to_tensors_and_arrays(function):
    index, values = [0, 1, 0], np.float32([[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    expected, target, array = A.copy(), Tensor(A), A.copy()
    function.at(expected, index, values)
    view = target[0]
    function.at(target, Tensor(index), Tensor(values))
    function.at(array, Tensor(index), Tensor(values))
    np.testing.assert_array_equal(target.numpy(), expected)
    np.testing.assert_array_equal(array, expected)
    np.testing.assert_array_equal(view.numpy(), expected[0])


def test_functions_of_foreign_arrays_are_dispatched_to_them():
    t = Tensor(A)

    class Other:
        def __array_ufunc__(self, *_args, **_kwargs):
            return "theirs"

    assert np.add(t, Other()) == "theirs"


CALLS = {
    "amax": lambda x: np.amax(x, 1),
    "max": lambda x: np.max(x, axis=(0, 1)),
    "min": lambda x: np.min(x, axis=0, keepdims=True),
    "amin": lambda x: np.amin(x, axis=-1),
    "any": lambda x: np.any(x > 3),
    "all": lambda x: np.all(x > -9, axis=0),
    "argmax": lambda x: np.argmax(x, axis=1),
    "argmin": lambda x: np.argmin(x),
    "count_nonzero": lambda x: np.count_nonzero(x > 0, axis=1),
    "nanmax": lambda x: np.nanmax(x, axis=0),
    "nanmin": lambda x: np.nanmin(x),
    "sum": lambda x: np.sum(x, axis=0),
    "prod": lambda x: np.prod(x, 1, keepdims=True),
    "nansum": lambda x: np.nansum(x, 1),
    "nanprod": lambda x: np.nanprod(x),
    "mean": lambda x: np.mean(x, (0, 1)),
    "std": lambda x: np.std(x, axis=1, ddof=1),
    "var": lambda x: np.var(x, 0),
    "nanmean": lambda x: np.nanmean(x, axis=0),
    "cumsum": lambda x: np.cumsum(x),
    "cumprod": lambda x: np.cumprod(x, axis=1),
    "concatenate": lambda x: np.concatenate([x, B, x], axis=1),
    "stack": lambda x: np.stack((x, x), axis=1),
    "where": lambda x: np.where(x > 0, x, 0.5),
    "transpose": lambda x: np.transpose(x),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "reshape": lambda x: np.reshape(x, (3, -1)),
    "ravel": lambda x: np.ravel(x),
    "squeeze": lambda x: np.squeeze(x[:1], axis=0),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "flip": lambda x: np.flip(x, 1),
    "roll": lambda x: np.roll(x, 1, axis=1),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 2, 3)),
    "tril": lambda x: np.tril(x, -1),
    "triu": lambda x: np.triu(x, k=1),
    "pad": lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=7),
    "take": lambda x: np.take(x, [2, 0], axis=1),
    "take_along_axis": lambda x: np.take_along_axis(x, np.array([[1], [0]]), axis=1),
    "repeat": lambda x: np.repeat(x, 2, axis=0),
    "tile": lambda x: np.tile(x, (2, 1)),
    "sort": lambda x: np.sort(x),
    "argsort": lambda x: np.argsort(x, axis=0),
    "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), [0.0, 1.0]),
    "isin": lambda x: np.isin(x, [0.5, 2.0]),
    "diff": lambda x: np.diff(x, axis=1),
    "clip": lambda x: np.clip(x, -1, 1),
    "round": lambda x: np.round(x, 1),
    "around": lambda x: np.around(x),
    "isclose": lambda x: np.isclose(x, A + 1e-9),
    "dot": lambda x: np.dot(x, B.T),
    "outer": lambda x: np.outer(x, B),
    "tensordot": lambda x: np.tensordot(x, B, axes=([1], [1])),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, B),
    "linalg.norm": lambda x: np.linalg.norm(x, axis=1),
    "zeros_like": lambda x: np.zeros_like(x),
    "ones_like": lambda x: np.ones_like(x, dtype="f8"),
    "full_like": lambda x: np.full_like(x, 2.5),
    "empty_like": lambda x: np.empty_like(x) * 0,
    "copy": lambda x: np.copy(x),
    "diag": lambda x: np.diag(x, 1),
    "kron": lambda x: np.kron(x, B),
    "i0": lambda x: np.i0(x),
    "sinc": lambda x: np.sinc(x),
    "quantile": lambda x: np.quantile(x, [0.2, 0.5], axis=1),
    "percentile": lambda x: np.percentile(x, 30, method="hazen"),
    "nanquantile": lambda x: np.nanquantile(x, 0.3, axis=0, keepdims=True),
    "nanpercentile": lambda x: np.nanpercentile(x, 30),
    "median": lambda x: np.median(x, axis=0),
    "nanmedian": lambda x: np.nanmedian(x),
    "nanvar": lambda x: np.nanvar(x, axis=1, ddof=1),
    "nanstd": lambda x: np.nanstd(x),
    "nanargmax": lambda x: np.nanargmax(x, axis=1),
    "nanargmin": lambda x: np.nanargmin(x),
    "nancumsum": lambda x: np.nancumsum(x, axis=1),
    "nancumprod": lambda x: np.nancumprod(x),
    "digitize": lambda x: np.digitize(x, [0.0, 1.0], right=True),
    "convolve": lambda x: np.convolve(x[0], B[1], "same"),
    "correlate": lambda x: np.correlate(x[0], B[1], mode="full"),
    "trapezoid": lambda x: np.trapezoid(x, dx=0.5, axis=0),
    "interp": lambda x: np.interp(x, [-1.0, 0.5], [2.0, 3.0], left=0.0),
    "polyval": lambda x: np.polyval(x[0], B),
    "gradient": lambda x: np.gradient(x, 2.0, axis=1),
    "cov": lambda x: np.cov(x, bias=True),
    "corrcoef": lambda x: np.corrcoef(x[:, :2]),
    "histogram": lambda x: np.histogram(x, bins=4, range=(-1, 4))[0],
    "partition": lambda x: np.partition(x, (0, 1, 2), axis=1),
    "argpartition": lambda x: np.argpartition(x, (0, 1, 2), axis=1),
    "vstack": lambda x: np.vstack([x, x[0]]),
    "hstack": lambda x: np.hstack([x, x]) + np.hstack([x[0], x[1]]),
    "dstack": lambda x: np.dstack([x, x]),
    "atleast_1d": lambda x: np.atleast_1d(x[0, 0]),
    "atleast_2d": lambda x: np.atleast_2d(x[0]),
    "atleast_3d": lambda x: np.atleast_3d(x) + np.atleast_3d(x[0]),
    "array": lambda x: np.array([[1, 2]], "f8", ndmin=3, like=x),
    "asarray": lambda x: np.asarray(x, dtype="f8", like=x),
    "asanyarray": lambda x: np.asanyarray([1, 2], like=x),
    "ascontiguousarray": lambda x: np.ascontiguousarray([1.5], like=x),
    "arange": lambda x: np.arange(2, 7, 2, like=x),
    "empty": lambda x: np.empty((2, 0), like=x),
    "eye": lambda x: np.eye(3, k=1, like=x),
    "frombuffer": lambda x: np.frombuffer(b"\1\2", "u1", like=x),
    "fromfunction": lambda x: np.fromfunction(lambda i: i * 2, (3,), like=x),
    "fromiter": lambda x: np.fromiter([1, 2], "i4", like=x),
    "full": lambda x: np.full(3, 2.5, "f4", like=x),
    "identity": lambda x: np.identity(2, like=x),
    "ones": lambda x: np.ones((2, 1), like=x),
    "tri": lambda x: np.tri(3, like=x),
    "zeros": lambda x: np.zeros(2, "?", like=x),
}
PLAIN = {
    "shape": lambda x: np.shape(x),
    "ndim": lambda x: np.ndim(x),
    "size": lambda x: np.size(x),
    "result_type": lambda x: np.result_type(x, "f8"),
    "allclose": lambda x: np.allclose(x, A),
    "array_equal": lambda x: np.array_equal(x, A + 1),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_functions_of_arrays_agree_with_numpy(name):
    check(CALLS[name](Tensor(A)), CALLS[name](A))


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_queries_of_arrays_agree_with_numpy(name):
    assert PLAIN[name](Tensor(A)) == PLAIN[name](A)


def test_every_counterpart_is_tried():
    newer = {"permute_dims", "linalg.matmul"}
    assert set(CALLS) | set(PLAIN) | newer == set(FUNCTIONS) - set(LIBRARIES)
    if hasattr(np, "permute_dims"):
        check(np.permute_dims(Tensor(A), (1, 0)), A.T)
        check(np.linalg.matmul(Tensor(A), B.T), A @ B.T)


ARGUMENTS = {
    "full_like of another shape": lambda x: np.full_like(x, 2, dtype="int64", shape=(2, 2)),
    "full_like of one size": lambda x: np.full_like(x, 2, shape=3, order="C", subok=False),
    "zeros_like of another shape": lambda x: np.zeros_like(x, shape=()),
    "ones_like by name": lambda x: np.ones_like(a=x, shape=(1,)),
    "empty_like by name": lambda x: np.empty_like(prototype=x, shape=(0,)),
    "einsum in a dtype": lambda x: np.einsum("ij,kj->ik", x, x, dtype="f8", optimize=True),
    "einsum, order and casting": lambda x: np.einsum("ij->ji", x, order="K", casting="safe"),
    "sort, kind": lambda x: np.sort(x, 0, kind="stable"),
    "sort, stable": lambda x: np.sort(x, axis=None, stable=True),
    "argsort, kind": lambda x: np.argsort(x, axis=1, kind="mergesort"),
    "nansum in a dtype": lambda x: np.nansum(x, axis=0, dtype="f8"),
    "nanprod in a dtype": lambda x: np.nanprod(x, dtype="f8"),
    "isin, assume_unique": lambda x: np.isin(
        x, [0.5], assume_unique=True, invert=True, kind="sort"
    ),
    "copy, order": lambda x: np.copy(x, order="K", subok=True),
    "ravel in C order": lambda x: np.ravel(x, order="C"),
    "ravel in Fortran order": lambda x: np.ravel(x, "F"),
    "broadcast_to, subok": lambda x: np.broadcast_to(x, (2, 2, 3), subok=True),
    "svd": lambda x: np.linalg.svd(x, full_matrices=False)[1],
    "svd, values only": lambda x: np.linalg.svd(x, compute_uv=False),
    "qr": lambda x: abs(np.linalg.qr(x)[1]),
    "qr, the triangle only": lambda x: abs(np.linalg.qr(x, mode="r")),
    "cholesky": lambda x: np.linalg.cholesky(np.einsum("ij,kj->ik", x, x)),
    "eigh": lambda x: np.linalg.eigh(np.einsum("ij,kj->ik", x, x))[0],
    "eigvalsh": lambda x: np.linalg.eigvalsh(np.einsum("ij,kj->ik", x, x)),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_functions_take_the_arguments_of_numpy(case):
    check(ARGUMENTS[case](Tensor(A)), ARGUMENTS[case](A))


def test_arguments_that_only_numpy_knows_lead_to_arrays():
    weighted = np.quantile(Tensor(A), 0.5, method="inverted_cdf", weights=np.ones_like(A))
    assert weighted == np.quantile(A, 0.5, method="inverted_cdf", weights=np.ones_like(A))
    assert (np.reshape(Tensor(A), -1, order="F") == A.reshape(-1, order="F")).all()
    assert np.tile(A=Tensor(A), reps=2).shape == (2, 6)
    assert np.size(Tensor(A), axis=1) == 3


def test_arrays_of_other_libraries_implement_operators_with_tensors():
    class Column:
        def __array__(self, dtype=None, copy=None):
            raise AssertionError("the values of a column are not read")

        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return ufunc.__name__, len(inputs)

        def __radd__(self, other):
            return "radd", type(other).__name__

    assert Tensor(A) + Column() == ("radd", "Tensor")
    assert np.add(Tensor(A), Column()) == ("add", 2)
    with pytest.raises(TypeError, match="unsupported operand"):
        Tensor(A) - Column()


def test_a_tensor_weighs_as_much_as_its_elements():
    assert sys.getsizeof(Tensor.zeros(1000)) > 4000
    assert Tensor.__array_priority__ > A.__array_priority__


def test_norms_agree_with_numpy():
    for order, axis in (
        (None, None),
        (None, 0),
        (1, 1),
        (np.inf, 0),
        (None, (0, 1)),
        ("fro", None),
        (2, 0),
    ):
        check(np.linalg.norm(Tensor(A), order, axis), np.linalg.norm(A, order, axis))


def test_other_functions_read_the_values_as_before():
    assert np.array_equal(
        np.histogram_bin_edges(Tensor(A), bins=3), np.histogram_bin_edges(A, bins=3)
    )
    assert np.array_equal(np.column_stack([Tensor(A[0]), A[1]]), np.column_stack([A[0], A[1]]))
    np.testing.assert_allclose(Tensor(A), A)


def test_graphs_captured_functions_and_derivatives_go_through():
    x = Tensor(A)
    assert not np.tanh(x * 2).is_realized
    loss = lambda x: np.sum(np.square(np.sin(x)) * B)  # noqa: E731
    check(grad(loss)(x), 2 * np.sin(A) * np.cos(A) * B, rtol=1e-5)
    check(jit(loss)(x), loss(A), rtol=1e-5)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap", "linear_ramp"])
def test_padding_by_elements_of_an_array_agrees_with_numpy(mode):
    found = np.pad(Tensor(A), ((1, 1), (0, 2)), mode=mode)
    assert isinstance(found, Tensor) == (mode != "linear_ramp")
    np.testing.assert_allclose(np.asarray(found), np.pad(A, ((1, 1), (0, 2)), mode=mode))


@pytest.mark.parametrize("name", ["det", "inv", "slogdet", "eigvals", "svdvals"])
def test_numpy_linalg_functions_agree_with_linalg(name):
    a = np.random.default_rng(3).normal(size=(2, 3, 3))
    found, expected = getattr(np.linalg, name)(Tensor(a)), getattr(np.linalg, name)(a)
    for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, expected)), strict=True):
        assert isinstance(x, Tensor)
        np.testing.assert_allclose(x.numpy(), y, rtol=1e-9)
    b = a[..., :1]
    np.testing.assert_allclose(
        np.linalg.solve(a, Tensor(b)).numpy(), np.linalg.solve(a, b), rtol=1e-9
    )


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_numpy_fft_functions_agree_with_fft(name):
    a, function = np.random.default_rng(3).normal(size=(4, 6)), getattr(np.fft, name)
    for options in ({}, {"n": 5, "axis": 0, "norm": "ortho"}):
        found = function(Tensor(a), **options)
        assert isinstance(found, Tensor)
        np.testing.assert_allclose(found.numpy(), function(a, **options), rtol=1e-9, atol=1e-12)
