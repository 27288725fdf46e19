"""Functions of the namespace agree with array-api-strict on random arrays; `tox run -e interop`
runs more.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import drawn_calls
import svod_tensor as sv
from svod_ir.testing import count_examples

xp = pytest.importorskip("array_api_strict")

FLOATS, SIGNED, UNSIGNED = ("float32", "float64"), ("int8", "int32", "int64"), ("uint8", "uint64")
INTEGERS, NUMBERS = (*SIGNED, *UNSIGNED), (*FLOATS, *SIGNED, *UNSIGNED)
EVERY = ("bool", *NUMBERS)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, math.inf, -math.inf, math.nan, 1e-3, 100.0)

COMPLEX_ONLY = {"conj", "imag", "real"}
"""Functions for complex numbers."""
Drawn = tuple[tuple[Any, ...], dict[str, Any]]


def is_function(name: str) -> bool:
    found = getattr(xp, name)
    return inspect.isfunction(found) and "strict" not in name


STANDARD = [name for name in xp.__all__ if is_function(name) and name not in COMPLEX_ONLY]


class Draw(drawn_calls.Draw):
    """Arguments with arrays of real numbers, integers and bools."""

    def shape(self, low: int = 0, high: int = 3) -> tuple[int, ...]:
        # Few sizes, so that few kernels are compiled; some axes are empty.
        return self.one_of(
            *[
                s
                for s in ((), (3,), (1,), (0,), (2, 3), (3, 1), (2, 1, 3), (2, 0, 3))
                if low <= len(s) <= high
            ]
        )

    def full_shape(self, low: int = 0, high: int = 3) -> tuple[int, ...]:
        return self.one_of(
            *[s for s in ((), (3,), (1,), (2, 3), (3, 1), (2, 1, 3)) if low <= len(s) <= high]
        )

    def array(self, dtypes: tuple[str, ...], shape: tuple[int, ...] | None = None) -> np.ndarray:
        shape = self.shape() if shape is None else shape
        dtype = np.dtype(self.one_of(*dtypes))
        if dtype.kind == "b":
            return np.asarray(self.rng.integers(0, 2, shape).astype(bool))
        if dtype.kind == "f":
            return np.asarray(self.mix(shape, SPECIAL, 0.4, 3).astype(dtype))
        low = 0 if dtype.kind == "u" else -9
        return np.asarray(self.rng.integers(low, 10, shape).astype(dtype))

    def axis(self, array: np.ndarray) -> int:
        return self.one_of(*range(-array.ndim, array.ndim))

    def axes(self, array: np.ndarray) -> Any:
        choices = [None, *range(-array.ndim, array.ndim)]
        return self.one_of(*choices, *([(0, -1)] if array.ndim > 1 else []))

    def pair(self, dtypes: tuple[str, ...]) -> tuple[Any, Any]:
        """Two arrays whose shapes broadcast and whose dtypes promote, or an array and a number, in
        either order.
        """
        group = self.one_of(
            *[g for g in (("bool",), FLOATS, SIGNED, UNSIGNED) if set(g) <= set(dtypes)]
        )
        first = self.array(group)
        if self.data.draw(st.integers(0, 3)) == 0:
            number = {"b": True, "f": 1.5, "i": 2, "u": 3}[first.dtype.kind]
            return self.one_of((first, number), (number, first))
        return first, self.array(group, self.one_of(first.shape, (), tuple(1 for _ in first.shape)))


def finite(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    # Functions of numpy return a scalar for a 0-d array.
    return np.asarray(np.nan_to_num(array, posinf=9, neginf=-9))


def one(dtypes: tuple[str, ...]) -> Any:
    return lambda d: ((d.array(dtypes),), {})


def two(dtypes: tuple[str, ...]) -> Any:
    return lambda d: (d.pair(dtypes), {})


def reduction(dtypes: tuple[str, ...], *, full: bool = False, **options: Any) -> Any:
    def make(d: Draw) -> Drawn:
        x = d.array(dtypes, d.full_shape() if full else d.shape())
        more = {name: d.one_of(*choices) for name, choices in options.items()}
        return (x,), {"axis": d.axes(x), "keepdims": d.flip(), **more}

    return make


def position(d: Draw) -> Drawn:
    x = d.array(NUMBERS, d.full_shape())
    return (x,), {"axis": None if x.ndim == 0 else d.one_of(None, d.axis(x)), "keepdims": d.flip()}


def order(d: Draw) -> Drawn:
    x = d.array(NUMBERS, d.shape(1))
    # The standard does not define the order of NaN.
    return (np.nan_to_num(x),), {"axis": d.axis(x), "descending": d.flip(), "stable": True}


def running(d: Draw) -> Drawn:
    x = np.asarray(np.clip(np.nan_to_num(d.array(NUMBERS, d.shape(1))), -2, 2))
    return (x,), {"axis": d.axis(x), "include_initial": d.flip()}


def quotient(d: Draw) -> Drawn:
    group = d.one_of(FLOATS, SIGNED, UNSIGNED)
    x = d.array(group, d.one_of((3,), (2, 3)))
    y = d.array(group, x.shape)
    return (x, y if y.dtype.kind == "f" else np.where(y == 0, y.dtype.type(7), y)), {}


def shift(d: Draw) -> Drawn:
    x = d.array(INTEGERS)
    return (x, np.asarray(np.abs(d.array((x.dtype.name,), x.shape)) % 7).astype(x.dtype)), {}


def power(d: Draw) -> Drawn:
    x, y = d.pair(NUMBERS)
    if isinstance(y, np.ndarray) and y.dtype.kind in "iu":
        y = np.asarray(np.abs(y) % 4).astype(y.dtype)
    return (x, y), {}


def product(d: Draw) -> Drawn:
    dtype = d.one_of("float32", "float64", "int32")
    left, right = d.one_of(
        ((2, 3), (3, 4)), ((3,), (3,)), ((2, 2, 3), (3, 4)), ((2, 3), (3,)), ((2, 0), (0, 3))
    )
    return (
        np.nan_to_num(d.array((dtype,), left), posinf=3, neginf=-3),
        np.nan_to_num(d.array((dtype,), right), posinf=3, neginf=-3),
    ), {}


def with_axis(low: int, **names: Any) -> Any:
    def make(d: Draw) -> Drawn:
        x = d.array(EVERY, d.shape(low))
        return (x,), {"axis": d.axis(x), **names}

    return make


def limits(d: Draw) -> Drawn:
    x = d.array(NUMBERS)
    low, high = (2, 5) if x.dtype.kind != "f" else (-1.5, 1.5)
    return (x,), d.one_of({"min": low}, {"max": high}, {"min": low, "max": high}, {})


def moved(d: Draw) -> Drawn:
    x = d.array(EVERY, (2, 3, 4))
    return (x, *d.one_of((0, -1), ((0, 1), (2, 0)), ((2,), (0,)))), {}


def taken(d: Draw) -> Drawn:
    x = d.array(EVERY, d.one_of((3,), (2, 3)))
    return (x, d.rng.integers(-2, 2, (4,))), {"axis": d.axis(x)}


def taken_along(d: Draw) -> Drawn:
    x = d.array(EVERY, (2, 3))
    return (x, d.rng.integers(-2, 2, (2, 3))), {"axis": d.axis(x)}


def differences(d: Draw) -> Drawn:
    x = np.nan_to_num(
        d.array(("float32", "float64", "int32", "int64"), (2, 3)), posinf=3, neginf=-3
    )
    return (x,), {
        "axis": d.axis(x),
        "n": d.one_of(1, 2),
        **d.one_of({}, {"prepend": x, "append": x}),
    }


def sought(d: Draw) -> Drawn:
    x, y = np.nan_to_num(d.array(("float32", "int32"), (3,))), d.array(("float32", "int32"), (2, 3))
    order = np.argsort(x)
    side = {"side": d.one_of("left", "right")}
    y = np.nan_to_num(y.astype(x.dtype))
    return d.one_of(((x[order], y), side), ((x, y), {**side, "sorter": order}))


def members(d: Draw) -> Drawn:
    x = d.array(SIGNED)
    return (x, d.array((x.dtype.name,))), {"invert": d.flip()}


def chosen(d: Draw) -> Drawn:
    x, y = d.pair(NUMBERS)
    return (d.array(("bool",), np.shape(x) if isinstance(x, np.ndarray) else ()), x, y), {}


def like(**names: Any) -> Any:
    def make(d: Draw) -> Drawn:
        return (d.array(EVERY), *names.values()), {"dtype": d.one_of(None, "float32", "int64")}

    return make


def made(*shapes: Any) -> Any:
    return lambda d: (d.one_of(*shapes), {"dtype": d.one_of(None, "float64", "int32", "bool")})


def reshaped(d: Draw) -> Drawn:
    return (d.array(EVERY, (2, 3)), d.one_of((6,), (3, 2), (1, 6, 1), (-1, 2))), {
        "copy": d.one_of(None, True)
    }


def spread(d: Draw) -> Drawn:
    return (d.array(EVERY, d.one_of((3,), (2, 1), ())), (2, 3)), {}


def contracted(d: Draw) -> Drawn:
    x = d.array(("int32",), (2, 3, 4))
    return d.one_of(
        ((x, x), {"axes": 3}),
        ((x, x[0].T), {"axes": ((2, 1), (0, 1))}),
        ((x, x[0]), {"axes": ([1, 2], [0, 1])}),
    )


def rolled(d: Draw) -> Drawn:
    x = d.array(EVERY, (2, 3))
    return (x, *d.one_of((1,), (-2,))), {"axis": d.one_of(None, 0, 1, (0, 1))}


def repeated(d: Draw) -> Drawn:
    x = d.array(EVERY)
    # The order of several NaNs, and the sign of zeros that are equal, are nobody's.
    return (np.asarray(np.abs(finite(x))) if x.dtype.kind != "b" else x,), {}


def several(d: Draw) -> Drawn:
    group = d.one_of(FLOATS, SIGNED)
    return ([d.array(group, (2, 3)) for _ in range(3)],), {"axis": d.one_of(0, 1, -1)}


ONE_FLOAT = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "reciprocal",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]
ONE_NUMBER = [
    "abs",
    "ceil",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "negative",
    "positive",
    "round",
    "sign",
    "square",
    "trunc",
]
TWO_FLOATS = ["atan2", "copysign", "divide", "hypot", "logaddexp"]
TWO_NUMBERS = [
    "add",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "maximum",
    "minimum",
    "multiply",
    "subtract",
]
CALLS = {
    **dict.fromkeys(ONE_FLOAT, one(FLOATS)),
    **dict.fromkeys(ONE_NUMBER, one(NUMBERS)),
    **dict.fromkeys(TWO_FLOATS, two(FLOATS)),
    **dict.fromkeys(TWO_NUMBERS, two(NUMBERS)),
    **dict.fromkeys(("equal", "not_equal"), two(EVERY)),
    **dict.fromkeys(("floor_divide", "remainder"), quotient),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), two(("bool", *INTEGERS))),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), shift),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), two(("bool",))),
    **dict.fromkeys(("all", "any", "count_nonzero"), reduction(EVERY)),
    **dict.fromkeys(("argmax", "argmin"), position),
    **dict.fromkeys(("max", "min"), reduction(NUMBERS, full=True)),
    **dict.fromkeys(("argsort", "sort"), order),
    **dict.fromkeys(("cumulative_prod", "cumulative_sum"), running),
    **dict.fromkeys(("prod", "sum"), reduction(NUMBERS)),
    **dict.fromkeys(("std", "var"), reduction(FLOATS, full=True, correction=(0.0, 0.5))),
    **dict.fromkeys(("unique_all", "unique_counts", "unique_inverse", "unique_values"), repeated),
    "nonzero": lambda d: ((d.array(EVERY, d.shape(1)),), {}),
    **dict.fromkeys(
        ("tril", "triu"), lambda d: ((d.array(EVERY, d.shape(2)),), {"k": d.one_of(-1, 0, 2)})
    ),
    **dict.fromkeys(("ones", "zeros", "empty"), made((3,), ((2, 3),), ((),), ((0, 2),))),
    **dict.fromkeys(("ones_like", "zeros_like", "empty_like"), like()),
    **dict.fromkeys(("concat", "stack"), several),
    "arange": lambda d: (
        d.one_of((5,), (1, 7, 2), (3.0, -1.0, -0.5), (0,)),
        {"dtype": d.one_of(None, "float64")},
    ),
    "asarray": lambda d: ((d.one_of([[1.0, 2.0]], True, [], [[True], [False]], 2.5),), {}),
    "astype": lambda d: ((finite(d.array(EVERY)), d.one_of("bool", "float32", "int64")), {}),
    "bitwise_invert": one(("bool", *INTEGERS)),
    "logical_not": one(("bool",)),
    "nextafter": two(FLOATS),
    "pow": power,
    "broadcast_arrays": lambda d: ((d.array(EVERY, (2, 1)), d.array(EVERY, (3,))), {}),
    "broadcast_shapes": lambda d: (d.one_of(((2, 1), (3,)), ((), (1, 4)), ()), {}),
    "broadcast_to": spread,
    "can_cast": lambda d: (
        d.one_of(("int8", "int16"), ("float64", "float32"), ("uint8", "int16"), ("int8", "uint8")),
        {},
    ),
    "clip": limits,
    "diff": differences,
    "expand_dims": lambda d: ((d.array(EVERY, (2, 3)), d.one_of(-3, -1, 0, 1, 2)), {}),
    "eye": lambda d: (
        d.one_of((3,), (2, 4)),
        {"k": d.one_of(-1, 0, 2), "dtype": d.one_of(None, "int32")},
    ),
    "flip": lambda d: ((x := d.array(EVERY, d.shape(1)),), {"axis": d.axes(x)}),
    "full": lambda d: (d.one_of(((2, 3), 7.5), (3, True), ((), 2.0)), {}),
    "full_like": like(fill_value=1),
    "isdtype": lambda d: (
        (d.one_of(*EVERY), d.one_of("bool", "integral", "numeric", ("real floating", "bool"))),
        {},
    ),
    "isin": members,
    "linspace": lambda d: ((0.5, 4.5, d.one_of(0, 1, 5)), {"endpoint": d.flip()}),
    "matmul": product,
    "matrix_transpose": lambda d: ((d.array(EVERY, d.shape(2)),), {}),
    "mean": reduction(FLOATS, full=True),
    "meshgrid": lambda d: ((x := d.array(EVERY, (3,)), x[:2]), {"indexing": d.one_of("xy", "ij")}),
    "moveaxis": moved,
    "permute_dims": lambda d: ((d.array(EVERY, (2, 3, 4)), d.one_of((2, 0, 1), (0, -1, 1))), {}),
    "repeat": with_axis(1),
    "reshape": reshaped,
    "result_type": lambda d: (
        d.one_of(("int8", "uint8"), ("float32", "float64"), ("int32", 1)),
        {},
    ),
    "roll": rolled,
    "searchsorted": sought,
    "squeeze": lambda d: ((d.array(EVERY, (1, 3, 1)), d.one_of(0, -1, (0, 2))), {}),
    "take": taken,
    "take_along_axis": taken_along,
    "tensordot": contracted,
    "tile": lambda d: ((d.array(EVERY, (2, 3)), d.one_of((2,), (2, 1), (1, 2, 2), (0, 1))), {}),
    "unstack": with_axis(1),
    "vecdot": lambda d: (
        (d.array(("int32", "int64"), (2, 3)), d.array(("int32",), (2, 3))),
        {"axis": d.one_of(-1, -2)},
    ),
    "where": chosen,
}
CALLS["repeat"] = lambda d: (
    (x := d.array(EVERY, d.shape(1)), d.one_of(0, 1, 3)),
    {"axis": d.one_of(None, d.axis(x))},
)

NAMED = {"from_dlpack", "finfo", "iinfo", "__array_namespace_info__"}
"""What packages/svod-tensor/tests/test_namespace.py tries: it has nothing to draw, or is not of
arrays.
"""

DTYPES = {"can_cast", "isdtype", "result_type"}
"""Functions whose strings are dtypes."""

DEFAULTS = {"arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros", "full_like"}
"""Functions whose result has the library's default dtype of a kind where none is asked for: float32
and int32 here.
"""
ACCUMULATED = {"cumulative_prod", "cumulative_sum", "prod", "sum", "trace"}
"""Functions whose integers have at least the default dtype."""


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    """Negate the result: array-api-strict 2.6 does not pass `invert` to numpy."""
    found = xp.isin(x1, x2)
    return xp.logical_not(found) if invert else found


ORACLE: dict[str, Callable[..., Any]] = {"isin": isin}
"""Definitions of functions that the oracle does not compute as the standard says."""


def translate(namespace: Any, value: Any) -> Any:
    """A drawn argument, for one of the two."""
    if isinstance(value, np.ndarray):
        return namespace.asarray(value)
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [namespace.asarray(v) for v in value]
    return value


def call(namespace: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    dtypes = {"bool", *NUMBERS, "int16"}

    def to_dtype(value: Any, is_dtype: bool) -> Any:
        is_named = is_dtype and isinstance(value, str) and value in dtypes
        return getattr(namespace, value) if is_named else value

    is_kind = name == "isdtype"
    given = [
        to_dtype(translate(namespace, v), name in DTYPES | {"astype"} and not (is_kind and i))
        for i, v in enumerate(args)
    ]
    named = {k: to_dtype(translate(namespace, v), k == "dtype") for k, v in kwargs.items()}
    function = ORACLE.get(name) if namespace is xp else None
    return (function or getattr(namespace, name))(*given, **named)


def compare(name: str, found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            compare(name, a, b)
        return
    if not isinstance(expected, xp._array_object.Array):
        assert (
            found == expected
            if isinstance(expected, (bool, int))
            else str(found) == str(expected).split(".")[-1]
        )
        return
    theirs = np.asarray(expected)
    ours = found.numpy()
    assert ours.shape == theirs.shape
    if name in DEFAULTS:
        assert ours.dtype.kind == theirs.dtype.kind
    elif name in ACCUMULATED and theirs.dtype.kind in "iu":
        assert ours.dtype.kind == theirs.dtype.kind
        ours = ours.astype(theirs.dtype)
    else:
        assert ours.dtype == theirs.dtype
    if name.startswith("empty"):
        return
    if theirs.dtype.kind == "f":
        tolerance = 1e-5 if ours.dtype == np.float32 or theirs.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(np.signbit(ours[ours == 0]), np.signbit(theirs[ours == 0]))
    else:
        np.testing.assert_array_equal(ours, theirs)


def test_every_function_of_the_standard_is_tried() -> None:
    assert set(STANDARD) == set(CALLS) | NAMED


@pytest.mark.parametrize("name", STANDARD)
def test_a_function_takes_every_call_of_the_standard(name: str) -> None:
    """Ours may take more: arguments by position that the standard takes by name only, and others
    with defaults.
    """
    ours = inspect.signature(getattr(sv, name))
    theirs = list(inspect.signature(getattr(xp, name)).parameters.values())
    by_position = [p for p in theirs if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in by_position)
    for count in range(needed, len(by_position) + 1):
        for named in (set[str](), {p.name for p in theirs if p.kind is p.KEYWORD_ONLY}):
            bound = ours.bind(
                *(p.name for p in by_position[:count]), **dict.fromkeys(named, "named")
            )
            assert named <= bound.arguments.keys()
    first_named = next(
        (i for i, p in enumerate(by_position) if p.kind is p.POSITIONAL_OR_KEYWORD),
        len(by_position),
    )
    names = [p.name for p in by_position[first_named:]]
    assert ours.bind(
        *(p.name for p in by_position[:first_named]), **{n: n for n in names}
    ).arguments.keys() >= set(names)
    for parameter in theirs:
        is_undefined = parameter.default is parameter.empty or "Undef" in repr(parameter.default)
        if parameter.name in ours.parameters and not is_undefined:
            assert ours.parameters[parameter.name].default == parameter.default


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_function_agrees_with_the_oracle(name: str) -> None:
    @settings(max_examples=count_examples(4))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        args, kwargs = CALLS[name](Draw(data))
        with np.errstate(all="ignore"):
            expected = call(xp, name, args, kwargs)
        compare(name, call(sv, name, args, kwargs), expected)

    check()
