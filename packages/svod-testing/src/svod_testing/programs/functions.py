"""More elementwise operations of random programs: functions on a part of the numbers, and functions
of two.
"""

# Meanings take arrays of any dtype.
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from svod_testing.programs.operation import Drawable, Drawn, Rounding, common, float_of

if TYPE_CHECKING:
    from svod_testing.programs.draw import Draw

__all__ = ["FUNCTIONS"]


def _draw_number(draw: Draw) -> Drawn:
    return (draw.numeric(lambda v: not v.dtype.startswith("uint")),), {}


def _draw_pair(draw: Draw) -> Drawn:
    first = draw.value()
    return (first, draw.partner(first)), {}


def _draw_numbers(draw: Draw) -> Drawn:
    first = draw.numeric(lambda v: not v.dtype.startswith("uint"))
    return (
        first,
        draw.partner(first, lambda v: v.dtype != "bool" and not v.dtype.startswith("uint")),
    ), {}


def _draw_floats(draw: Draw) -> Drawn:
    first = draw.floating()
    return (first, draw.partner(first, lambda v: v.is_float)), {}


def _draw_singles(draw: Draw) -> Drawn:
    first = draw.value(lambda v: v.dtype == "float32")
    return (first, draw.partner(first, lambda v: v.dtype == "float32")), {}


def _draw_bits(draw: Draw) -> Drawn:
    return (draw.value(lambda v: v.dtype in ("int32", "int8", "int64")),), {}


def _elu(a: Any) -> Any:
    return np.where(a > 0, a, np.expm1(np.minimum(a, 0)))


_gamma = np.vectorize(math.gamma, otypes=[np.float64])
_lgamma = np.vectorize(math.lgamma, otypes=[np.float64])

_FUNCTIONS: Final[tuple[tuple[str, str, Callable[[Any], Any]], ...]] = (
    ("asin", "({0}.sin() * 0.75).asin()", lambda a: np.arcsin(np.sin(a) * 0.75)),
    ("acos", "({0}.sin() * 0.75).acos()", lambda a: np.arccos(np.sin(a) * 0.75)),
    ("atanh", "({0}.sin() * 0.75).atanh()", lambda a: np.arctanh(np.sin(a) * 0.75)),
    ("acosh", "({0}.abs() + 1.5).acosh()", lambda a: np.arccosh(np.abs(a) + 1.5)),
    ("sinh", "{0}.clip(-5, 5).sinh()", lambda a: np.sinh(np.clip(a, -5, 5))),
    ("cosh", "{0}.clip(-5, 5).cosh()", lambda a: np.cosh(np.clip(a, -5, 5))),
    ("tan", "{0}.clip(-1, 1).tan()", lambda a: np.tan(np.clip(a, -1, 1))),
    ("log10", "({0}.abs() + 0.5).log10()", lambda a: np.log10(np.abs(a) + 0.5)),
    ("rad2deg", "{0}.rad2deg()", np.rad2deg),
    ("erfc", "{0}.erfc()", np.vectorize(math.erfc, otypes=[np.float64])),
    (
        "gamma",
        "({0}.abs().minimum(8) + 0.5).gamma()",
        lambda a: _gamma(np.minimum(np.abs(a), 8) + 0.5),
    ),
    ("lgamma", "({0}.abs() + 2.5).lgamma()", lambda a: _lgamma(np.abs(a) + 2.5)),
    ("i0", "{0}.clip(-5, 5).i0()", lambda a: np.i0(np.clip(a, -5, 5))),
    (
        "logit",
        "({0}.sin() * 0.25 + 0.5).logit()",
        lambda a: -np.log(1 / (np.sin(a) * 0.25 + 0.5) - 1),
    ),
    ("hardswish", "{0}.hardswish()", lambda a: a * np.clip(a + 3, 0, 6) / 6),
    (
        "selu",
        "{0}.selu()",
        lambda a: np.where(a > 0, 1.0, 1.6732632423543772) * _elu(a) * 1.0507009873554805,
    ),
)


def _iter_unary() -> Iterator[Drawable]:
    for name, code, meaning in _FUNCTIONS:
        yield Drawable(
            name,
            code,
            lambda a, f=meaning: f(a.astype(np.float64)),
            float_of,
            _draw_number,
            "always",
            weight=0.15,
        )
    yield Drawable(
        "leaky_relu",
        "{0}.leaky_relu(0.25)",
        lambda a: np.where(a < 0, a * 0.25, a),
        lambda d: d,
        lambda d: ((d.floating(),), {}),
        "rarely",
        weight=0.2,
    )
    yield Drawable(
        "positive", "+{0}.positive()", lambda a: a, lambda d: d, _draw_number, weight=0.1
    )
    yield Drawable(
        "detach", "{0}.detach()", lambda a: a, lambda d: d, lambda d: ((d.value(),), {}), weight=0.1
    )
    yield Drawable(
        "bitcast",
        '({0} ^ -1).bitcast("u" + {0}.dtype.name)',
        lambda a: (a ^ -1).view("u" + a.dtype.name),
        lambda d: "u" + d,
        _draw_bits,
        weight=0.2,
    )


def _fmod(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f" and not b.all():
        raise ZeroDivisionError
    return np.where(b == 0, np.zeros_like(a), np.fmod(a, np.where(b == 0, np.ones_like(b), b)))


def _copysign(a: Any, b: Any) -> Any:
    """Zeros have a sign, which is not the same in every order of computing."""
    if not b.all():
        raise ValueError("zeros")
    return np.copysign(a.astype(np.float64), b)


def _heaviside(a: Any, b: Any) -> Any:
    return np.heaviside(a.astype(np.float64), b.astype(np.float64))


def _nextafter(a: Any, b: Any) -> Any:
    return np.nextafter(a.astype(np.float32), b.astype(np.float32))


def _float_of_common(*dtypes: str) -> str:
    return float_of(common(*dtypes))


def _iter_binary() -> Iterator[Drawable]:
    def binary(
        name: str,
        meaning: Callable[..., Any],
        dtype: Callable[..., str],
        draw: Callable[[Draw], Drawn],
        rounding: Rounding = "never",
        *,
        compares: bool = False,
        orders: bool = False,
        weight: float = 0.2,
    ) -> Drawable:
        return Drawable(
            name,
            f"{{0}}.{name}({{1}})",
            meaning,
            dtype,
            draw,
            rounding,
            compares=compares,
            orders=orders,
            converts=True,
            weight=weight,
        )

    yield binary("fmod", _fmod, common, _draw_numbers, "rarely", orders=True)
    yield binary("fmax", np.fmax, common, _draw_pair)
    yield binary("fmin", np.fmin, common, _draw_pair)
    yield binary("copysign", _copysign, _float_of_common, _draw_numbers, "rarely", orders=True)
    yield binary("heaviside", _heaviside, _float_of_common, _draw_numbers, orders=True)
    yield binary(
        "hypot",
        lambda a, b: np.hypot(a.astype(np.float64), b),
        _float_of_common,
        _draw_numbers,
        "always",
    )
    yield binary(
        "logaddexp",
        lambda a, b: np.logaddexp(a.astype(np.float64), b),
        _float_of_common,
        _draw_numbers,
        "absolutely",
    )
    yield binary("isclose", np.isclose, lambda *d: "bool", _draw_floats, compares=True)
    yield binary("nextafter", _nextafter, common, _draw_singles, "rarely", compares=True)
    yield binary(
        "logical_or", np.logical_or, lambda *d: "bool", _draw_pair, orders=True, weight=0.3
    )
    yield binary("logical_xor", np.logical_xor, lambda *d: "bool", _draw_pair, orders=True)


FUNCTIONS: Final = (*_iter_unary(), *_iter_binary())
