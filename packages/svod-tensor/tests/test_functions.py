from __future__ import annotations

import math

import numpy as np
import pytest

from svod_ir import OperandError
from svod_tensor import PrepareConfig, Tensor
from svod_testing import check, make_array

FLOATS = ["float16", "float32", "float64"]

# name here, name in numpy, and where it is defined
FUNCTIONS = [
    ("exp", "exp", -80, 80),
    ("exp2", "exp2", -120, 120),
    ("log", "log", 1e-30, 1e30),
    ("log2", "log2", 1e-30, 1e30),
    ("log10", "log10", 1e-30, 1e30),
    ("sin", "sin", -100, 100),
    ("cos", "cos", -100, 100),
    ("tan", "tan", -100, 100),
    ("tanh", "tanh", -20, 20),
    ("sqrt", "sqrt", 0, 1e30),
    ("expm1", "expm1", -50, 50),
    ("log1p", "log1p", -0.999, 1e20),
    ("sinh", "sinh", -80, 80),
    ("cosh", "cosh", -80, 80),
    ("asinh", "arcsinh", -1e20, 1e20),
    ("acosh", "arccosh", 1, 1e20),
    ("atanh", "arctanh", -0.999, 0.999),
    ("asin", "arcsin", -1, 1),
    ("acos", "arccos", -1, 1),
    ("atan", "arctan", -1e10, 1e10),
]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-30, -1e-30, 1e-8, 0.5, -0.5]


def _inputs(rng, low, high, dtype):
    spread = rng.uniform(low, high, 300)
    near = np.clip(rng.standard_normal(300), low, high)
    small = np.clip(rng.standard_normal(100) * 1e-6, low, high)
    return np.concatenate([spread, near, small]).astype(dtype)


def _ulps(found, exact, dtype):
    with np.errstate(all="ignore"):
        return np.abs(found.astype(np.longdouble) - exact) / np.spacing(
            np.abs(exact).astype(dtype)
        ).astype(np.longdouble)


@pytest.mark.parametrize(("name", "reference", "low", "high"), FUNCTIONS)
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1.0), ("float64", 3.0)])
def test_functions_are_accurate_to_one_ulp(rng, name, reference, low, high, dtype, limit):
    a = _inputs(rng, low, high, dtype)
    exact = getattr(np, reference)(a.astype(np.longdouble))
    found = getattr(Tensor(a), name)().numpy()
    assert found.dtype == dtype
    assert _ulps(found, exact, dtype).max() <= limit


@pytest.mark.parametrize(("name", "reference", "low", "high"), FUNCTIONS)
def test_special_values_agree_with_numpy(name, reference, low, high):
    a = np.array(SPECIAL, np.float32)
    with np.errstate(all="ignore"):
        expected = getattr(np, reference)(a.astype(np.float64)).astype(np.float32)
    found = getattr(Tensor(a), name)()
    check(found, expected, rtol=1e-6, atol=0)
    zero = np.abs(expected) == 0
    np.testing.assert_array_equal(np.signbit(found.numpy())[zero], np.signbit(expected)[zero])


def test_erf_and_sigmoid(rng):
    a = _inputs(rng, -5, 5, "float32")
    check(
        Tensor(a).erf(),
        np.array([math.erf(float(v)) for v in a], np.float32),
        rtol=1e-6,
        atol=1e-30,
    )
    check(
        Tensor(a).sigmoid(), (1 / (1 + np.exp(-a.astype(np.float64)))).astype(np.float32), rtol=1e-6
    )
    assert Tensor([-1000.0, 1000.0]).sigmoid().tolist() == [0.0, 1.0]


def test_rsqrt_and_reciprocal(rng):
    a = np.abs(_inputs(rng, 0.1, 100, "float32")) + np.float32(0.01)
    check(Tensor(a).rsqrt(), (1 / np.sqrt(a.astype(np.float64))).astype(np.float32), rtol=1e-6)
    check(Tensor(a).reciprocal(), 1 / a)


def test_atan2_agrees_with_numpy_in_every_quadrant(rng):
    special = np.array([(y, x) for y in SPECIAL for x in SPECIAL], np.float32)
    y = np.concatenate([special[:, 0], _inputs(rng, -5, 5, "float32")])
    x = np.concatenate([special[:, 1], _inputs(rng, -5, 5, "float32")[::-1]])
    expected = np.arctan2(y.astype(np.float64), x.astype(np.float64)).astype(np.float32)
    found = Tensor(y).atan2(Tensor(x))
    check(found, expected, rtol=1e-6, atol=0)
    zero = expected == 0
    np.testing.assert_array_equal(np.signbit(found.numpy())[zero], np.signbit(expected)[zero])


def test_two_argument_functions_agree_with_numpy(rng):
    a, b = _inputs(rng, -50, 50, "float32"), _inputs(rng, -50, 50, "float32")[::-1].copy()
    check(Tensor(a).hypot(Tensor(b)), np.hypot(a, b), rtol=1e-6)
    check(Tensor(a).copysign(Tensor(b)), np.copysign(a, b))
    check(
        Tensor(a).logaddexp(Tensor(b)),
        np.logaddexp(a.astype(np.float64), b).astype(np.float32),
        rtol=2e-6,
    )
    assert Tensor([-np.inf]).logaddexp(Tensor([-np.inf])).tolist() == [-np.inf]


def test_integers_are_computed_as_float32():
    assert str(Tensor([1, 2]).exp().dtype) == "float32"
    assert str(Tensor([True]).sqrt().dtype) == "float32"
    assert str(Tensor([1.0], dtype="float16").sinh().dtype) == "float16"


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "sqrt", "atan", "expm1", "erf"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_round_once(rng, name, dtype):
    a = np.abs(rng.standard_normal(100).astype(np.float32)) + np.float32(0.1)
    narrow = Tensor(a).cast(dtype)
    wide = getattr(narrow.cast("float32"), name)().cast(dtype)
    np.testing.assert_array_equal(
        getattr(narrow, name)().cast("float32").numpy(), wide.cast("float32").numpy()
    )


def test_numbers_below_1_have_no_inverse_hyperbolic_cosine():
    x = np.array([0.5, 0.0, -1.0, -2.0, -1e9, -1e30, -np.inf, np.nan], np.float32)
    assert np.isnan(Tensor(x).acosh().numpy()).all()
    assert np.isnan(Tensor(np.array([-(2**31), -(2**63)], np.int64)).acosh().numpy()).all()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_trigonometric_functions_of_narrow_floats_also_without_opts(name, dtype):
    x = np.array([0.5, 3.0, -100.0, 1000.0, 60000.0], np.float32)
    narrow = Tensor(x, dtype=dtype)
    found = getattr(narrow, name)().realize_with(PrepareConfig(opts=()))
    exact = getattr(np, name)(narrow.cast("float32").numpy().astype(np.float64))
    np.testing.assert_allclose(
        found.cast("float32").numpy(), exact, rtol=2.0**-8 if dtype == "bfloat16" else 2.0**-10
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_cube_roots_are_within_two_ulps(rng, dtype):
    info = np.finfo(dtype)
    sizes = 2.0 ** rng.uniform(
        np.log2(float(info.smallest_subnormal)), np.log2(float(info.max)), 2000
    )
    a = np.concatenate(
        [sizes, -sizes, [8.0, 27.0, -64.0, float(info.max), float(info.smallest_subnormal)]]
    ).astype(dtype)
    check(Tensor(a).cbrt(), np.cbrt(a), rtol=2 * float(info.eps), atol=0.0)
    check(Tensor(np.array(SPECIAL[:7], dtype)).cbrt(), np.cbrt(np.array(SPECIAL[:7], dtype)))
    assert np.signbit(Tensor(np.array([-0.0], dtype)).cbrt().numpy())[0]


def test_degrees_and_radians(rng):
    a = make_array(rng, (20,), "float32")
    check(Tensor(a).deg2rad(), np.deg2rad(a), rtol=1e-6)
    check(Tensor(a).rad2deg(), np.rad2deg(a), rtol=1e-6)
    check(Tensor([True, False]).cast("int32").positive(), np.array([1, 0], np.int32))
    with pytest.raises(OperandError):
        Tensor([True]).positive()
