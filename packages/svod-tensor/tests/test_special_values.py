"""Every operator on the values at which formulas break, in every dtype, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from svod_tensor import Tensor

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]

UNARY = {
    name: name
    for name in (
        "abs",
        "sign",
        "square",
        "floor",
        "ceil",
        "trunc",
        "sqrt",
        "exp",
        "exp2",
        "log",
        "log2",
        "log10",
        "log1p",
        "expm1",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "isnan",
        "isinf",
        "isfinite",
        "signbit",
        "logical_not",
        "cbrt",
        "positive",
        "deg2rad",
        "rad2deg",
        "round",
    )
} | {
    "neg": "negative",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "bitwise_not": "invert",
}
BINARY = {
    name: name
    for name in (
        "add",
        "multiply",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "floor_divide",
        "remainder",
        "fmod",
        "power",
        "hypot",
        "copysign",
        "logaddexp",
        "heaviside",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
    )
} | {"sub": "subtract", "div": "divide", "atan2": "arctan2"}
REDUCTIONS = (
    "prod",
    "max",
    "min",
    "any",
    "all",
    "mean",
    "var",
    "argmax",
    "argmin",
    "cumprod",
    "count_nonzero",
    "nanmax",
    "nanmin",
    "nanprod",
    "nanmean",
)
UNSPECIFIED_ZEROS = {
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "mean",
    "nanmean",
    "max",
    "min",
    "nanmax",
    "nanmin",
    "argmax",
    "argmin",
}
"""Functions of which neither standard says the sign of a zero."""


def special_values(dtype):
    kind = np.dtype(dtype).kind
    if kind == "b":
        return np.array([False, True])
    if kind == "f":
        info = np.finfo(dtype)
        numbers = [
            0.0,
            -0.0,
            1,
            -1,
            0.5,
            -0.5,
            -2.5,
            3.5,
            7,
            1e4,
            np.inf,
            -np.inf,
            np.nan,
            info.max,
            -info.max,
            info.tiny,
        ]
        return np.array([*numbers, info.smallest_subnormal, -info.smallest_subnormal], dtype)
    info = np.iinfo(dtype)
    numbers = [
        0,
        1,
        2,
        3,
        7,
        100,
        info.max,
        info.max - 1,
        *((info.min, info.min + 1, -1, -2, -7) if kind == "i" else ()),
    ]
    return np.array(numbers, dtype)


def check_values(found, expected, operands, *, has_zeros=True):
    """Assert that values agree to three units in the last place, and signs of zeros too."""
    actual, expected = found.numpy(), np.asarray(expected)
    assert actual.shape == expected.shape
    if not found.dtype.is_float:
        np.testing.assert_array_equal(actual, expected.astype(actual.dtype))
        return
    info = np.finfo(actual.dtype)
    wanted = expected.astype(actual.dtype).astype(np.float64)
    value = actual.astype(np.float64)
    error = 3 * float(info.eps) * np.abs(wanted) + 2 * float(info.smallest_subnormal)
    is_right = (
        (value == wanted) | (np.isnan(value) & np.isnan(wanted)) | (np.abs(value - wanted) <= error)
    )
    if has_zeros:
        is_right &= (value != 0) | (wanted != 0) | (np.signbit(value) == np.signbit(wanted))
    wrong = np.argwhere(~is_right)
    assert not len(wrong), [
        (*(o[tuple(i)] for o in operands), value[tuple(i)], wanted[tuple(i)]) for i in wrong[:5]
    ]


def widen(array):
    """Floats as float64, in which numpy rounds none of these results."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def skip_quotients_beyond_53_bits(name, x, y):
    """The last bits of larger quotients are rounded in another way."""
    if name != "floor_divide" or x.dtype.kind != "f":
        return np.ones(x.shape, bool)
    return ~(np.abs(widen(x) / widen(y)) >= 2.0**53) | np.isinf(x) | (y == 0)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_functions_of_special_values_agree_with_numpy(dtype):
    x = special_values(dtype)
    found, expected = {}, {}
    for name, reference in UNARY.items():
        if (name == "bitwise_not") == (dtype in FLOATS) or (
            dtype == "bool" and name in ("sign", "neg", "positive")
        ):
            continue
        tensor = found[name] = getattr(Tensor(x), name)()
        y = x.astype(tensor.dtype.numpy) if tensor.dtype.is_float else x
        expected[name] = getattr(np, reference)(
            widen(y) if name != "square" or y.dtype.kind == "f" else y
        )
    Tensor.realize_batch(found.values())
    for name, tensor in found.items():
        check_values(tensor, expected[name], (x,))


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_functions_of_pairs_of_special_values_agree_with_numpy(dtype):
    x, y = (grid.ravel() for grid in np.meshgrid(*(special_values(dtype),) * 2))
    takes_integers = {"bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"}
    is_refused = {
        "floor_divide",
        "remainder",
        "fmod",
        "power",
        "left_shift",
        "right_shift",
        "sub",
        "heaviside",
    }
    found = {}
    for name, reference in BINARY.items():
        if (dtype in FLOATS and name in takes_integers) or (dtype == "bool" and name in is_refused):
            continue
        keep = skip_quotients_beyond_53_bits(name, x, y)
        if name == "power" and dtype not in FLOATS:
            # numpy refuses negative exponents.
            keep &= y >= 0
        a, b = x[keep], y[keep]
        tensor = getattr(Tensor(a), name)(Tensor(b))
        wide = (a, b)
        if tensor.dtype.is_float:
            wide = tuple(v.astype(tensor.dtype.numpy).astype(np.float64) for v in wide)
        found[name] = (tensor, getattr(np, reference)(*wide), (a, b))
    Tensor.realize_batch([tensor for tensor, *_ in found.values()])
    for name, (tensor, expected, inputs) in found.items():
        check_values(tensor, expected, inputs, has_zeros=name not in UNSPECIFIED_ZEROS)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_reductions_of_special_values_agree_with_numpy(dtype):
    values = special_values(dtype)
    ordinary = values[:8]
    sets = [ordinary, values[:1], values[1:2], values[:0], np.asarray(values[1])]
    sets += [values[[0, 2, 10]], values[[12, 0]], values[[10, 11]]] if dtype in FLOATS else [values]
    for name in REDUCTIONS:
        for x in sets:
            if not x.size and name in ("max", "min", "argmax", "argmin", "nanmax", "nanmin"):
                continue
            if dtype in ("int64", "uint64") and x is values and name in ("mean", "var", "nanmean"):
                # Not even float64 adds these without loss.
                continue
            tensor = getattr(Tensor(x), name)()
            options = (
                {"dtype": x.dtype}
                if name in ("prod", "cumprod", "nanprod") and dtype in ("int64", "uint64")
                else {}
            )
            expected = getattr(np, name)(widen(x), **options)
            check_values(tensor, expected, (), has_zeros=name not in UNSPECIFIED_ZEROS)
