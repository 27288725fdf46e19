"""The other names of the array API standard and of numpy, and what is composed of operations."""

from __future__ import annotations

import numpy as np
import pytest

from svod_ir.errors import OperandError, ShapeError
from svod_tensor import Tensor, Variable
from svod_tensor.testing import check, make_array

FLOATS = ["float16", "float32", "float64"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -2.5, 7.0, 1e-4, -1e4]
OTHER_NAMES = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg", "power": "pow",
    "mod": "remainder", "rint": "round", "invert": "bitwise_not", "left_shift": "lshift", "right_shift": "rshift",
    "bitwise_invert": "bitwise_not", "bitwise_left_shift": "lshift", "bitwise_right_shift": "rshift", "ravel": "flatten",
    "permute_dims": "permute", "unstack": "unbind", "radians": "deg2rad", "degrees": "rad2deg",
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_other_names_are_the_same_operations(name):
    assert getattr(Tensor, name) is getattr(Tensor, OTHER_NAMES[name])


@pytest.mark.parametrize("dtype", FLOATS)
def test_cube_roots_are_within_two_units_in_the_last_place(rng, dtype):
    info = np.finfo(dtype)
    sizes = 2.0 ** rng.uniform(np.log2(float(info.smallest_subnormal)), np.log2(float(info.max)), 2000)
    a = np.concatenate([sizes, -sizes, [8.0, 27.0, -64.0, float(info.max), float(info.smallest_subnormal)]]).astype(
        dtype
    )
    check(Tensor(a).cbrt(), np.cbrt(a), rtol=2 * float(info.eps), atol=0.0)
    check(Tensor(np.array(SPECIAL[:7], dtype)).cbrt(), np.cbrt(np.array(SPECIAL[:7], dtype)))
    assert np.signbit(Tensor(np.array([-0.0], dtype)).cbrt().numpy())[0]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["fmax", "fmin", "heaviside", "nextafter", "fmod", "copysign"])
def test_pairs_of_special_values_agree_with_numpy(name, dtype):
    x, y = (grid.ravel() for grid in np.meshgrid(*(np.array(SPECIAL, dtype),) * 2))
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    found = getattr(Tensor(x), name)(Tensor(y))
    check(found, expected)
    # numpy's own nextafter of float16 keeps the sign of the first of two zeros.
    if name == "nextafter" and dtype != "float16":
        np.testing.assert_array_equal(np.signbit(found.numpy()), np.signbit(expected))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_remainders_that_round_toward_zero_of_integers(rng, dtype):
    x, y = make_array(rng, (50,), dtype), make_array(rng, (50,), dtype)
    y[::7] = 0
    with np.errstate(all="ignore"):
        check(Tensor(x).fmod(Tensor(y)), np.fmod(x, y))


def test_degrees_and_radians(rng):
    a = make_array(rng, (20,), "float32")
    check(Tensor(a).deg2rad(), np.deg2rad(a), rtol=1e-6)
    check(Tensor(a).rad2deg(), np.rad2deg(a), rtol=1e-6)
    check(Tensor([True, False]).cast("int32").positive(), np.array([1, 0], np.int32))
    with pytest.raises(OperandError):
        Tensor([True]).positive()


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "uint8"])
@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("shape", [(7, 5), (1, 3), (0, 2)])
def test_differences_of_neighbours(rng, shape, n, dtype):
    a = make_array(rng, shape, dtype)
    for axis in (0, 1, -1):
        check(Tensor(a).diff(n, axis), np.diff(a, n, axis))
    check(Tensor(a).diff(prepend=Tensor(a), append=Tensor(a)), np.diff(a, prepend=a, append=a))


def test_running_sums_may_begin_with_their_neutral_element(rng):
    a = make_array(rng, (3, 4), "int32")
    wanted = {"dtype": np.int32, "include_initial": True}
    check(Tensor(a).cumulative_sum(1, include_initial=True), np.cumulative_sum(a, axis=1, **wanted))
    check(Tensor(a).cumulative_prod(0, include_initial=True), np.cumulative_prod(a, axis=0, **wanted))
    check(Tensor(a[0]).cumulative_sum(), np.cumulative_sum(a[0], dtype=np.int32))
    with pytest.raises(ShapeError, match="say which one"):
        Tensor(a).cumulative_sum()


def test_traces_and_transposes(rng):
    a = make_array(rng, (2, 3, 4), "float32")
    check(Tensor(a).trace(), np.trace(a, axis1=-2, axis2=-1), rtol=1e-6)
    check(Tensor(a).matrix_transpose(), np.matrix_transpose(a))


@pytest.mark.parametrize("axes", [0, 1, 2, ((1, 2), (0, 1)), ((2,), (1,)), ((0, 1), (2, 0))])
def test_products_are_summed_over_shared_axes(rng, axes):
    a, b = rng.integers(-5, 5, (3, 4, 5)).astype(np.float32), rng.integers(-5, 5, (4, 5, 3)).astype(np.float32)
    b = {0: b[:2, 0, 0], 1: np.moveaxis(b, 1, 0)}.get(axes, b) if isinstance(axes, int) else b
    check(Tensor(a).tensordot(Tensor(b), axes), np.tensordot(a, b, axes))


def test_sums_of_products_that_do_not_fit_are_an_error():
    with pytest.raises(ShapeError, match="does not fit"):
        Tensor.zeros(3, 4).tensordot(Tensor.zeros(5, 4), 1)
    with pytest.raises(ShapeError, match="no 3 axes"):
        Tensor.zeros(3, 4).tensordot(Tensor.zeros(5, 4), 3)


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


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8", "int64", "uint64", "float64"])
@pytest.mark.parametrize("size", [0, 1, 2, 7, 8, 100])
@pytest.mark.parametrize("side", ["left", "right"])
def test_places_in_a_sorted_tensor(rng, dtype, size, side):
    a = np.sort(make_array(rng, (size,), dtype))
    a[size // 2 : size // 2 + 3] = a[size // 2] if size else 0
    values = np.concatenate([make_array(rng, (20,), dtype), a]).reshape(-1, 1)
    check(Tensor(a).searchsorted(Tensor(values), side), np.searchsorted(a, values, side))


def test_places_of_nans_zeros_and_symbolic_sizes():
    a = np.array([-np.inf, -1, 0, 2, np.inf, np.nan], np.float32)
    values = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1], np.float32)
    for side in ("left", "right"):
        check(Tensor(a).searchsorted(Tensor(values), side), np.searchsorted(a, values, side))
    n = Variable("n", 1, 6)
    for size in (2, 5):
        check(Tensor(a)[: n.bind(size)].searchsorted(Tensor(values)), np.searchsorted(a[:size], values))
    assert Tensor(a).searchsorted(1.5).item() == 3
    with pytest.raises(ShapeError, match="one axis"):
        Tensor([[1.0]]).searchsorted(1.0)


def test_membership(rng):
    a, b = rng.integers(0, 9, (3, 5)), rng.integers(0, 9, (2, 2))
    check(Tensor(a).isin(Tensor(b)), np.isin(a, b))
    check(Tensor(a).isin([1, 2], invert=True), np.isin(a, [1, 2], invert=True))


def test_tensors_get_the_shape_that_they_broadcast_to():
    x, y = Tensor.broadcast_arrays(Tensor.zeros(3, 1), Tensor.zeros(4))
    assert x.shape == y.shape == (3, 4)
