"""Elementwise operations of random programs."""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from svod_dtype import promote_with_scalar, to_dtype
from svod_testing.programs.operation import Drawable, Drawn, common, float_of, is_float

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw
    from svod_testing.programs.oracle import Value

__all__ = ["ELEMENTWISE"]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _draw_one(draw: Draw) -> Drawn:
    return (draw.value(),), {}


def _draw_number(draw: Draw) -> Drawn:
    return (draw.numeric(lambda v: not v.dtype.startswith("uint")),), {}


def _draw_float(draw: Draw) -> Drawn:
    return (draw.floating(),), {}


def _draw_pair(draw: Draw) -> Drawn:
    first = draw.value()
    pair = [first, draw.partner(first)]
    draw.rng.shuffle(pair)
    return pair, {}


def _draw_numbers(draw: Draw) -> Drawn:
    first = draw.numeric()
    pair = [first, draw.partner(first, lambda v: v.dtype != "bool")]
    draw.rng.shuffle(pair)
    return pair, {}


def _draw_integers(draw: Draw) -> Drawn:
    first = draw.value(lambda v: not v.is_float)
    return (first, draw.partner(first, lambda v: not v.is_float)), {}


def _draw_divisible(draw: Draw) -> Drawn:
    def fits(value: Value) -> bool:
        return not value.is_float and value.dtype != "bool"

    first = draw.value(fits)
    return (first, draw.partner(first, fits)), {}


def _draw_with_constant(draw: Draw) -> Drawn:
    value = draw.numeric()
    is_whole = not draw.values[value].is_float or draw.chance(0.5)
    return (value,), {
        "c": draw.number(1, 5) if is_whole else draw.choose((0.5, -1.5, 2.25, 0.125, -1.0))
    }


def _draw_where(draw: Draw) -> Drawn:
    condition = draw.value_or_input(lambda v: v.dtype == "bool", draw.sizes(), "bool", 0)
    first = draw.partner(condition)
    shape = np.broadcast_shapes(draw.values[condition].shape, draw.values[first].shape)
    second = draw.partner(first, lambda v: _broadcasts(shape, v.shape))
    return (condition, first, second), {}


def _draw_where_constant(draw: Draw) -> Drawn:
    condition = draw.value_or_input(lambda v: v.dtype == "bool", draw.sizes(), "bool", 0)
    first = draw.partner(condition, lambda v: v.is_float)
    return (condition, first), {"c": draw.choose((0.0, -100.0, 1.0, -1.5, -math.inf))}


def _broadcasts(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(reversed(left), reversed(right), strict=False))


def _with_scalar(dtype: str, c: Any) -> str:
    return promote_with_scalar(to_dtype(dtype), c).name


def _as(array: Any, dtype: str) -> Any:
    return array.astype(np.float64 if is_float(dtype) else dtype, copy=False)


def _floor_divide(a: Any, b: Any) -> Any:
    _check_divisor(b)
    return np.where(
        b == 0, np.zeros_like(a), np.floor_divide(a, np.where(b == 0, np.ones_like(b), b))
    )


def _check_divisor(b: Any) -> None:
    if b.dtype.kind == "f" and not b.all():
        raise ZeroDivisionError


def _remainder(a: Any, b: Any) -> Any:
    _check_divisor(b)
    return np.where(b == 0, np.zeros_like(a), np.remainder(a, np.where(b == 0, np.ones_like(b), b)))


def _gelu(a: Any) -> Any:
    return a * (1 + _erf(a / math.sqrt(2))) / 2


def _softplus(a: Any) -> Any:
    return np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a)))


_FUNCTIONS: Final[tuple[tuple[str, str, Callable[[Any], Any]], ...]] = (
    ("exp", "{0}.clip(-5, 5).exp()", lambda a: np.exp(np.clip(a, -5, 5))),
    ("exp2", "{0}.clip(-5, 5).exp2()", lambda a: np.exp2(np.clip(a, -5, 5))),
    ("expm1", "{0}.clip(-5, 5).expm1()", lambda a: np.expm1(np.clip(a, -5, 5))),
    ("log", "({0}.abs() + 0.5).log()", lambda a: np.log(np.abs(a) + 0.5)),
    ("log2", "({0}.abs() + 0.5).log2()", lambda a: np.log2(np.abs(a) + 0.5)),
    ("log1p", "{0}.abs().log1p()", lambda a: np.log1p(np.abs(a))),
    ("sqrt", "{0}.abs().sqrt()", lambda a: np.sqrt(np.abs(a))),
    ("rsqrt", "({0}.abs() + 1).rsqrt()", lambda a: 1 / np.sqrt(np.abs(a) + 1)),
    ("reciprocal", "({0}.abs() + 1).reciprocal()", lambda a: 1 / (np.abs(a) + 1)),
    ("sin", "{0}.sin()", np.sin),
    ("cos", "{0}.cos()", np.cos),
    ("tanh", "{0}.tanh()", np.tanh),
    ("atan", "{0}.atan()", np.arctan),
    ("asinh", "{0}.asinh()", np.arcsinh),
    ("erf", "{0}.erf()", lambda a: _erf(a) if a.size else a),
    ("sigmoid", "{0}.sigmoid()", lambda a: 1 / (1 + np.exp(-a))),
    ("cbrt", "{0}.cbrt()", np.cbrt),
    ("silu", "{0}.silu()", lambda a: a / (1 + np.exp(-a))),
    ("gelu", "{0}.clip(-4, 9).gelu()", lambda a: _gelu(np.clip(a, -4, 9)) if a.size else a),
    ("softplus", "{0}.softplus()", _softplus),
    ("mish", "{0}.mish()", lambda a: a * np.tanh(_softplus(a))),
    ("elu", "{0}.elu()", lambda a: np.where(a > 0, a, np.expm1(np.minimum(a, 0)))),
    ("hardsigmoid", "{0}.hardsigmoid()", lambda a: np.clip(a + 3, 0, 6) / 6),
    ("softsign", "{0}.softsign()", lambda a: a / (1 + np.abs(a))),
    ("deg2rad", "{0}.deg2rad()", np.deg2rad),
)

_KEPT: Final[tuple[tuple[str, str, Callable[[Any], Any]], ...]] = (
    ("neg", "-{0}", np.negative),
    ("abs", "{0}.abs()", np.abs),
    ("sign", "{0}.sign()", np.sign),
    ("square", "{0}.square()", np.square),
    ("floor", "{0}.floor()", lambda a: np.floor(a) if a.dtype.kind == "f" else a),
    ("ceil", "{0}.ceil()", lambda a: np.ceil(a) if a.dtype.kind == "f" else a),
    ("trunc", "{0}.trunc()", lambda a: np.trunc(a) if a.dtype.kind == "f" else a),
    ("round", "{0}.round()", lambda a: np.round(a) if a.dtype.kind == "f" else a),
    ("relu", "{0}.relu()", lambda a: np.maximum(a, 0)),
    ("relu6", "{0}.relu6()", lambda a: np.clip(a, 0, 6)),
)


def _iter_unary() -> Iterator[Drawable]:
    for name, code, meaning in _FUNCTIONS:
        yield Drawable(
            name,
            code,
            lambda a, f=meaning: f(a.astype(np.float64)),
            float_of,
            _draw_number,
            "absolutely" if name == "gelu" else "always",
            weight=0.3,
        )
    for name, code, meaning in _KEPT:
        yield Drawable(
            name,
            code,
            meaning,
            lambda d: d,
            _draw_number,
            "rarely",
            orders=name == "sign",
            weight=0.4,
        )
    for name, meaning in (
        ("isnan", np.isnan),
        ("isinf", np.isinf),
        ("isfinite", np.isfinite),
        ("signbit", np.signbit),
    ):
        yield Drawable(name, f"{{0}}.{name}()", meaning, lambda d: "bool", _draw_float, weight=0.1)
    yield Drawable(
        "logical_not",
        "{0}.logical_not()",
        np.logical_not,
        lambda d: "bool",
        _draw_one,
        orders=True,
        weight=0.4,
    )
    yield Drawable(
        "bitwise_not",
        "~{0}",
        np.invert,
        lambda d: d,
        lambda d: ((d.value(lambda v: not v.is_float),), {}),
        weight=0.4,
    )


def _atan2(a: Any, b: Any) -> Any:
    """Zeros have a sign, which is not the same in every order of computing."""
    if not (a.all() and b.all()):
        raise ValueError("zeros")
    return np.arctan2(a.astype(np.float64), b)


def _iter_binary() -> Iterator[Drawable]:
    pairs: tuple[tuple[str, str, Callable[..., Any]], ...] = (
        ("add", "{0} + {1}", np.add),
        ("mul", "{0} * {1}", np.multiply),
        ("maximum", "{0}.maximum({1})", np.maximum),
        ("minimum", "{0}.minimum({1})", np.minimum),
    )
    for name, code, meaning in pairs:
        yield Drawable(name, code, meaning, common, _draw_pair, "rarely", converts=True, weight=1.5)
    yield Drawable(
        "sub", "{0} - {1}", np.subtract, common, _draw_numbers, "rarely", converts=True, weight=3
    )
    yield Drawable(
        "div",
        "{0} / ({1}.abs() + 1)",
        lambda a, b: a / (np.abs(b) + np.ones_like(b)).astype(np.float64),
        lambda *d: float_of(common(*d)),
        _draw_numbers,
        "always",
        weight=1.5,
    )
    yield Drawable(
        "floor_divide",
        "{0} // {1}",
        _floor_divide,
        common,
        _draw_numbers,
        "rarely",
        converts=True,
        orders=True,
        weight=0.3,
    )
    yield Drawable(
        "remainder",
        "{0} % {1}",
        _remainder,
        common,
        _draw_numbers,
        "rarely",
        converts=True,
        orders=True,
        weight=0.3,
    )
    for name, sign, meaning in (
        ("eq", "==", np.equal),
        ("ne", "!=", np.not_equal),
        ("lt", "<", np.less),
        ("le", "<=", np.less_equal),
        ("gt", ">", np.greater),
        ("ge", ">=", np.greater_equal),
    ):
        yield Drawable(
            name,
            f"{{0}} {sign} {{1}}",
            meaning,
            lambda *d: "bool",
            _draw_pair,
            compares=True,
            converts=True,
            weight=0.7,
        )
    for name, sign, meaning in (
        ("and", "&", np.bitwise_and),
        ("or", "|", np.bitwise_or),
        ("xor", "^", np.bitwise_xor),
    ):
        yield Drawable(
            name, f"{{0}} {sign} {{1}}", meaning, common, _draw_integers, converts=True, weight=0.4
        )
    for name, meaning in (("gcd", np.gcd), ("lcm", np.lcm)):
        yield Drawable(
            name,
            f"{{0}}.{name}({{1}})",
            meaning,
            common,
            _draw_divisible,
            converts=True,
            weight=0.1,
        )
    yield Drawable(
        "logical_and",
        "{0}.logical_and({1})",
        np.logical_and,
        lambda *d: "bool",
        _draw_pair,
        orders=True,
        weight=0.3,
    )
    yield Drawable(
        "shift",
        "({0} << 2) ^ ({0} >> 1)",
        lambda a: (a << 2) ^ (a >> 1),
        lambda d: d,
        lambda d: ((d.integer(),), {}),
        weight=0.2,
    )
    yield Drawable(
        "atan2",
        "{0}.atan2({1})",
        _atan2,
        lambda *d: float_of(common(*d)),
        _draw_numbers,
        "always",
        converts=True,
        orders=True,
        weight=0.2,
    )
    yield Drawable(
        "lerp",
        "{0}.lerp({1}, 0.25)",
        lambda a, b: a + (b - a) * 0.25,
        lambda *d: float_of(common(*d)),
        lambda d: _draw_floats(d),
        "rarely",
        converts=True,
        weight=0.2,
    )


def _draw_floats(draw: Draw) -> Drawn:
    first = draw.floating()
    return (first, draw.partner(first, lambda v: v.is_float)), {}


def _with_number(function: Callable[..., Any], a: Any, c: Any) -> Any:
    x = _as(a, _with_scalar(a.dtype.name, c))
    return function(x, np.asarray(c).astype(x.dtype))


def _draw_cast(draw: Draw) -> Drawn:
    dtypes = (
        "float32",
        "float32",
        "float32",
        "int32",
        "bool",
        "float16",
        "float64",
        "bfloat16",
        "int64",
    )
    return (draw.value(),), {"to": draw.choose(dtypes)}


def _iter_with_constants() -> Iterator[Drawable]:
    for name, code, meaning in (
        ("add_constant", "{0} + {c}", np.add),
        ("mul_constant", "{0} * {c}", np.multiply),
        ("constant_sub", "{c} - {0}", lambda a, c: c - a),
        ("maximum_constant", "{0}.maximum({c})", np.maximum),
    ):
        yield Drawable(
            name,
            code,
            lambda a, c, f=meaning: _with_number(f, a, c),
            _with_scalar,
            _draw_with_constant,
            "rarely",
            weight=0.8,
        )
    yield Drawable(
        "div_constant",
        "{0} / {c}",
        lambda a, c: a / c,
        lambda d, c: float_of(d),
        _draw_with_constant,
        "rarely",
        weight=0.8,
    )
    yield Drawable(
        "remainder_constant",
        "{0} % {c}",
        lambda a, c: _remainder(a, np.asarray(c, a.dtype)),
        lambda d, c: d,
        lambda d: ((d.integer(),), {"c": d.number(1, 5)}),
        weight=0.4,
    )
    yield Drawable(
        "floor_divide_constant",
        "{0} // {c}",
        lambda a, c: _floor_divide(a, np.asarray(c, a.dtype)),
        lambda d, c: d,
        lambda d: ((d.integer(),), {"c": d.number(1, 5)}),
        weight=0.4,
    )
    yield Drawable(
        "gt_constant",
        "{0} > {c}",
        lambda a, c: a > c,
        lambda d, c: "bool",
        _draw_with_constant,
        compares=True,
        weight=0.8,
    )
    yield Drawable(
        "eq_constant",
        "{0} == {c}",
        lambda a, c: a == c,
        lambda d, c: "bool",
        _draw_with_constant,
        compares=True,
        weight=0.4,
    )
    yield Drawable(
        "pow_constant",
        "{0} ** {c}",
        lambda a, c: a**c,
        lambda d, c: d,
        lambda d: ((d.numeric(),), {"c": d.number(0, 3)}),
        "rarely",
        weight=0.4,
    )
    yield Drawable(
        "clip",
        "{0}.clip({low}, {high})",
        lambda a, low, high: np.clip(a, low, high),
        lambda d, low, high: d,
        lambda d: ((d.numeric(lambda v: not v.dtype.startswith("uint")),), {"low": -1, "high": 2}),
        weight=0.4,
    )


def _iter_selections() -> Iterator[Drawable]:
    yield Drawable(
        "where",
        "{0}.where({1}, {2})",
        lambda c, a, b: np.where(c, *_alike(a, b)),
        lambda c, *d: common(*d),
        _draw_where,
        weight=3,
    )
    yield Drawable(
        "where_constant",
        "{0}.where({1}, {c})",
        lambda m, a, c: np.where(m, a, c),
        lambda m, d, c: d,
        _draw_where_constant,
        weight=2,
    )
    yield Drawable(
        "masked_fill",
        "{1}.masked_fill({0}, {c})",
        lambda m, a, c: np.where(m, c, a),
        lambda m, d, c: d,
        _draw_where_constant,
        weight=1,
    )
    yield Drawable(
        "cast",
        "{0}.cast({to})",
        lambda a, to: _cast(a, to),
        lambda d, to: to,
        _draw_cast,
        "rarely",
        orders=True,
        weight=1,
    )


def _alike(a: Any, b: Any) -> tuple[Any, Any]:
    if a.dtype.kind == "f" or b.dtype.kind == "f":
        return a.astype(np.float64), b.astype(np.float64)
    dtype = common(a.dtype.name, b.dtype.name)
    return _as(a, dtype), _as(b, dtype)


def _cast(array: Any, to: str) -> Any:
    if array.dtype.kind == "f" and to in ("int32", "int64") and not (np.abs(array) < 2**30).all():
        raise ValueError("out of range")
    return array.astype(np.float64 if is_float(to) else to)


ELEMENTWISE: Final = (*_iter_unary(), *_iter_binary(), *_iter_with_constants(), *_iter_selections())
