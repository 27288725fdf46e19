"""Trigonometric and hyperbolic functions, and angles. Integers and bools are computed as float32.

sin, cos, tan, sinh, cosh and tanh are ops of the IR; the inverse functions are composed here. For
dtypes narrower than float64 they are computed in float64, so that cancellation inside a formula
stays below the last bit of the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from svod_dtype import float64
from svod_ir import Op
from svod_tensor._data import make_constant
from svod_tensor.ops.core.gradient_rules import with_rule
from svod_tensor.ops.core.operands import promote_to_float, through_float64, to_float
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.core.reuse import reuse_graph
from svod_tensor.ops.core.rounding import rounds_once
from svod_tensor.ops.elementwise.complex_functions import apply_function, compute_function
from svod_tensor.ops.elementwise.partials import ACOS, ACOSH, ASIN, ASINH, ATAN, ATAN2, ATANH

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "deg2rad",
    "rad2deg",
    "sin",
    "sinh",
    "tan",
    "tanh",
]


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def sin(x: Tensor, /) -> Tensor:
    """Sine of angles in radians. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sin(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.8415], dtype=float32)
    """
    return apply_function(Op.SIN, to_float(x))


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def cos(x: Tensor, /) -> Tensor:
    """Cosine of angles in radians. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cos(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([1.    , 0.5403], dtype=float32)
    """
    return apply_function(Op.COS, to_float(x))


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def tan(x: Tensor, /) -> Tensor:
    """Tangent of angles in radians. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.tan(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 1.5574], dtype=float32)
    """
    return apply_function(Op.TAN, to_float(x))


@operation(
    test="test_functions.py::test_special_values_agree_with_numpy",
    standard=True,
    aliases=("arcsin",),
)
@reuse_graph
def asin(x: Tensor, /) -> Tensor:
    """Inverse sine, in [-pi/2, pi/2]; NaN outside of [-1, 1]. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.asin(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 1.5708], dtype=float32)
    """
    if x.dtype.is_complex:
        return compute_function("asin", x)
    return through_float64(lambda x: with_rule(ASIN, _asin(x), (x,)), x)


@operation(
    test="test_functions.py::test_special_values_agree_with_numpy",
    standard=True,
    aliases=("arccos",),
)
@reuse_graph
def acos(x: Tensor, /) -> Tensor:
    """Inverse cosine, in [0, pi]; NaN outside of [-1, 1]. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.acos(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([1.5708, 0.    ], dtype=float32)
    """
    if x.dtype.is_complex:
        return compute_function("acos", x)
    return through_float64(lambda x: with_rule(ACOS, _acos(x), (x,)), x)


@operation(
    test="test_functions.py::test_special_values_agree_with_numpy",
    standard=True,
    aliases=("arctan",),
)
@reuse_graph
def atan(x: Tensor, /) -> Tensor:
    """Inverse tangent, in [-pi/2, pi/2]. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.atan(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.7854], dtype=float32)
    """
    if x.dtype.is_complex:
        return compute_function("atan", x)
    return through_float64(lambda x: with_rule(ATAN, _odd(x, _atan_of_positive), (x,)), x)


@operation(
    test="test_functions.py::test_atan2_agrees_with_numpy_in_every_quadrant",
    standard=True,
    aliases=("arctan2",),
)
@reuse_graph
def atan2(x1: Tensor, x2: Operand, /) -> Tensor:
    """Inverse tangent of `x1 / x2` in the quadrant of the point (x2, x1), in [-pi, pi]; signs of
    zeros are respected. Shapes broadcast and dtypes promote. Integers become float32.

    Source: C11, F.10.1.4.

    Example:
        >>> import svod_tensor as sv
        >>> sv.atan2(sv.Tensor([1.0, 0.0]), [0.0, -1.0]).round(4).numpy()
        array([1.5708, 3.1416], dtype=float32)
    """
    up, right = promote_to_float(x1, x2)
    wide = up.cast(float64), right.cast(float64)
    return with_rule(ATAN2, _atan2(*wide), wide).cast(up.dtype)


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def sinh(x: Tensor, /) -> Tensor:
    """Hyperbolic sine. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sinh(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 1.1752], dtype=float32)
    """
    return apply_function(Op.SINH, to_float(x))


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def cosh(x: Tensor, /) -> Tensor:
    """Hyperbolic cosine. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cosh(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([1.    , 1.5431], dtype=float32)
    """
    return apply_function(Op.COSH, to_float(x))


@operation(test="test_functions.py::test_special_values_agree_with_numpy", standard=True)
def tanh(x: Tensor, /) -> Tensor:
    """Hyperbolic tangent. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.tanh(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.7616], dtype=float32)
    """
    return apply_function(Op.TANH, to_float(x))


@operation(
    test="test_functions.py::test_special_values_agree_with_numpy",
    standard=True,
    aliases=("arcsinh",),
)
@reuse_graph
def asinh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic sine. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.asinh(sv.Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.8814], dtype=float32)
    """
    if x.dtype.is_complex:
        return compute_function("asinh", x)
    return through_float64(lambda x: with_rule(ASINH, _odd(x, _asinh_of_positive), (x,)), x)


@operation(
    test="test_functions.py::test_special_values_agree_with_numpy",
    standard=True,
    aliases=("arccosh",),
)
@reuse_graph
def acosh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic cosine, non-negative; NaN below 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.acosh(sv.Tensor([1.0, 2.0])).round(4).numpy()
        array([0.   , 1.317], dtype=float32)
    """
    if x.dtype.is_complex:
        return compute_function("acosh", x)
    return through_float64(lambda x: with_rule(ACOSH, _acosh(x), (x,)), x)


@operation(
    test="test_functions.py::test_special_values_agree_with_numpy",
    standard=True,
    aliases=("arctanh",),
)
@reuse_graph
def atanh(x: Tensor, /) -> Tensor:
    """Inverse hyperbolic tangent; NaN outside of [-1, 1]. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.atanh(sv.Tensor([0.0, 0.5])).round(4).numpy()
        array([0.    , 0.5493], dtype=float32)
    """
    if x.dtype.is_complex:
        return compute_function("atanh", x)
    return through_float64(lambda x: with_rule(ATANH, _odd(x, _atanh_of_positive), (x,)), x)


@operation(test="test_functions.py::test_degrees_and_radians", aliases=("radians",))
@rounds_once
def deg2rad(x: Tensor, /) -> Tensor:
    """Convert angles from degrees to radians. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.deg2rad(sv.Tensor([180.0])).round(4).numpy()
        array([3.1416], dtype=float32)
    """
    return to_float(x).mul(math.pi / 180.0)


@operation(test="test_functions.py::test_degrees_and_radians", aliases=("degrees",))
@rounds_once
def rad2deg(x: Tensor, /) -> Tensor:
    """Convert angles from radians to degrees. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.rad2deg(sv.Tensor([1.0])).round(4).numpy()
        array([57.2958], dtype=float32)
    """
    return to_float(x).mul(180.0 / math.pi)


def _odd(x: Tensor, positive: Callable[[Tensor], Tensor]) -> Tensor:
    """Extend `positive`, a function for x >= 0, to an odd function; -0.0 gives -0.0."""
    result = positive(x.abs())
    return x.eq(0).where(x, x.lt(0).where(result.neg(), result))


def _asinh_of_positive(a: Tensor) -> Tensor:
    squared = a.mul(a)
    # sqrt(a^2 + 1) - 1 without cancellation for small a.
    small = a.add(squared.div(squared.add(1).sqrt().add(1))).log1p()
    # Above 2**28, as in fdlibm, 1 is negligible beside a^2, which would overflow later.
    return a.lt(2.0**28).where(small, a.log().add(math.log(2.0)))


def _atanh_of_positive(a: Tensor) -> Tensor:
    # log((1 + a) / (1 - a)) / 2, accurate near 0.
    return a.mul(2).div(a.neg().add(1)).log1p().mul(0.5)


def _acosh(x: Tensor) -> Tensor:
    excess = x.sub(1)
    small = excess.add(excess.mul(2).add(excess.mul(excess)).sqrt()).log1p()
    # NaN below 1 is explicit: for large negative numbers the formula may cancel to a finite value.
    result = x.lt(2.0**28).where(small, x.log().add(math.log(2.0)))
    return x.lt(1.0).where(math.nan, result)


_ATAN = (
    -0.3333333333333022,
    0.19999999999104784,
    -0.14285714196535948,
    0.11111106703916425,
    -0.09090783536571995,
    0.07690083462408763,
    -0.0664124715511082,
    0.05693169444550421,
    -0.04360838557183534,
    0.021280300976936225,
)
"""Coefficients of P in atan(t) = t + t^3 P(t^2) for |t| <= tan(pi / 8), minimax (Remez) with
relative error 3.5e-17.
"""


_HALF_PI, _HALF_PI_ERROR = math.pi / 2, 6.123233995736766e-17
"""pi / 2 as the sum of the nearest float64 and its rounding error."""


def _atan_of_positive(a: Tensor) -> Tensor:
    """Range reduction at tan(pi / 8) and tan(3 pi / 8): x below, (x - 1) / (x + 1) between, -1 / x
    above.
    """
    is_small, is_large = a.le(math.tan(math.pi / 8)), a.gt(math.tan(3 * math.pi / 8))
    t = is_small.where(a, is_large.where(a.reciprocal().neg(), a.sub(1).div(a.add(1))))
    z = t.mul(t)
    p = z.mul(_ATAN[-1])
    for coefficient in reversed(_ATAN[1:-1]):
        p = p.add(coefficient).mul(z)
    half_pi, half_pi_error = (
        a.from_uop(make_constant(constant, a.dtype)) for constant in (_HALF_PI, _HALF_PI_ERROR)
    )
    error = is_small.where(0.0, is_large.where(half_pi_error, _HALF_PI_ERROR / 2))
    base = is_small.where(0.0, is_large.where(half_pi, _HALF_PI / 2))
    return base.add(t.add(t.mul(z).mul(p.add(_ATAN[0])).add(error)))


def _other_leg(a: Tensor) -> Tensor:
    """Compute sqrt(1 - a^2) without cancellation."""
    # As a product: a^2 would lose the digits of 1 - a near 1.
    return a.neg().add(1).mul(a.add(1)).sqrt()


def _asin(x: Tensor) -> Tensor:
    return _odd(x, lambda a: _atan_of_positive(a.div(_other_leg(a))))


def _acos(x: Tensor) -> Tensor:
    # Near 1 the angle is computed from its sine, near -1 from the angle of -x.
    angle = _atan_of_positive(_other_leg(x).div(x.abs()))
    return x.lt(0).where(angle.neg().add(_HALF_PI_ERROR * 2).add(math.pi), angle)


def _atan2(up: Tensor, right: Tensor) -> Tensor:
    """Source: C11, F.10.1.4."""
    a, b = up.abs(), right.abs()
    both_infinite = a.isinf().logical_and(b.isinf())
    ratio = a.eq(0).where(right.isnan().where(right, 0.0), both_infinite.where(1.0, a.div(b)))
    angle = _atan_of_positive(ratio)
    angle = right.signbit().where(angle.neg().add(_HALF_PI_ERROR * 2).add(math.pi), angle)
    return up.signbit().where(angle.neg(), angle)
