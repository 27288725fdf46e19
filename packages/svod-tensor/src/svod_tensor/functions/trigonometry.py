"""Functions that call the methods of `Tensor` in `svod_tensor.ops.trigonometry`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "rad2deg",
    "radians",
    "sin",
    "sinh",
    "tan",
    "tanh",
]


@explained
def acos(x: Operand, /) -> Tensor:
    """The angle from 0 to pi with this cosine; NaN outside -1 to 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.acos(Tensor([0.0, 1.0])).round(4).numpy()
        array([1.5708, 0.    ], dtype=float32)
    """
    return to_tensor(x).acos()


@explained
def acosh(x: Operand, /) -> Tensor:
    """The number, not negative, with this hyperbolic cosine; NaN below 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.acosh(Tensor([1.0, 2.0])).round(4).numpy()
        array([0.   , 1.317], dtype=float32)
    """
    return to_tensor(x).acosh()


@explained
def arccos(x: Operand, /) -> Tensor:
    """The angle from 0 to pi with this cosine; NaN outside -1 to 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.arccos(Tensor([0.0, 1.0])).round(4).numpy()
        array([1.5708, 0.    ], dtype=float32)
    """
    return to_tensor(x).arccos()


@explained
def arccosh(x: Operand, /) -> Tensor:
    """The number, not negative, with this hyperbolic cosine; NaN below 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.arccosh(Tensor([1.0, 2.0])).round(4).numpy()
        array([0.   , 1.317], dtype=float32)
    """
    return to_tensor(x).arccosh()


@explained
def arcsin(x: Operand, /) -> Tensor:
    """The angle from -pi/2 to pi/2 with this sine; NaN outside -1 to 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.arcsin(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 1.5708], dtype=float32)
    """
    return to_tensor(x).arcsin()


@explained
def arcsinh(x: Operand, /) -> Tensor:
    """The number with this hyperbolic sine. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.arcsinh(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.8814], dtype=float32)
    """
    return to_tensor(x).arcsinh()


@explained
def arctan(x: Operand, /) -> Tensor:
    """The angle from -pi/2 to pi/2 with this tangent. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.arctan(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.7854], dtype=float32)
    """
    return to_tensor(x).arctan()


@explained
def arctan2(x1: Operand, x2: Operand, /) -> Tensor:
    """The angle of the point (`x2`, this), from -pi to pi, with the signs of zeros respected. Shapes broadcast and
    dtypes promote.

    Source: C11, F.10.1.4.

    Example:
        >>> import svod_tensor as sv
        >>> sv.arctan2(Tensor([1.0, 0.0]), [0.0, -1.0]).round(4).numpy()
        array([1.5708, 3.1416], dtype=float32)
    """
    return first_operand(x1, x2).arctan2(x2)


@explained
def arctanh(x: Operand, /) -> Tensor:
    """The number with this hyperbolic tangent; NaN outside -1 to 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.arctanh(Tensor([0.0, 0.5])).round(4).numpy()
        array([0.    , 0.5493], dtype=float32)
    """
    return to_tensor(x).arctanh()


@explained
def asin(x: Operand, /) -> Tensor:
    """The angle from -pi/2 to pi/2 with this sine; NaN outside -1 to 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.asin(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 1.5708], dtype=float32)
    """
    return to_tensor(x).asin()


@explained
def asinh(x: Operand, /) -> Tensor:
    """The number with this hyperbolic sine. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.asinh(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.8814], dtype=float32)
    """
    return to_tensor(x).asinh()


@explained
def atan(x: Operand, /) -> Tensor:
    """The angle from -pi/2 to pi/2 with this tangent. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.atan(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.7854], dtype=float32)
    """
    return to_tensor(x).atan()


@explained
def atan2(x1: Operand, x2: Operand, /) -> Tensor:
    """The angle of the point (`x2`, this), from -pi to pi, with the signs of zeros respected. Shapes broadcast and
    dtypes promote.

    Source: C11, F.10.1.4.

    Example:
        >>> import svod_tensor as sv
        >>> sv.atan2(Tensor([1.0, 0.0]), [0.0, -1.0]).round(4).numpy()
        array([1.5708, 3.1416], dtype=float32)
    """
    return first_operand(x1, x2).atan2(x2)


@explained
def atanh(x: Operand, /) -> Tensor:
    """The number with this hyperbolic tangent; NaN outside -1 to 1. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.atanh(Tensor([0.0, 0.5])).round(4).numpy()
        array([0.    , 0.5493], dtype=float32)
    """
    return to_tensor(x).atanh()


@explained
def cos(x: Operand, /) -> Tensor:
    """The cosine of angles in radians. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cos(Tensor([0.0, 1.0])).round(4).numpy()
        array([1.    , 0.5403], dtype=float32)
    """
    return to_tensor(x).cos()


@explained
def cosh(x: Operand, /) -> Tensor:
    """The hyperbolic cosine. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cosh(Tensor([0.0, 1.0])).round(4).numpy()
        array([1.    , 1.5431], dtype=float32)
    """
    return to_tensor(x).cosh()


@explained
def deg2rad(x: Operand, /) -> Tensor:
    """Degrees as radians. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.deg2rad(Tensor([180.0])).round(4).numpy()
        array([3.1416], dtype=float32)
    """
    return to_tensor(x).deg2rad()


@explained
def degrees(x: Operand, /) -> Tensor:
    """Radians as degrees. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.degrees(Tensor([1.0])).round(4).numpy()
        array([57.2958], dtype=float32)
    """
    return to_tensor(x).degrees()


@explained
def rad2deg(x: Operand, /) -> Tensor:
    """Radians as degrees. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.rad2deg(Tensor([1.0])).round(4).numpy()
        array([57.2958], dtype=float32)
    """
    return to_tensor(x).rad2deg()


@explained
def radians(x: Operand, /) -> Tensor:
    """Degrees as radians. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.radians(Tensor([180.0])).round(4).numpy()
        array([3.1416], dtype=float32)
    """
    return to_tensor(x).radians()


@explained
def sin(x: Operand, /) -> Tensor:
    """The sine of angles in radians. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sin(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.8415], dtype=float32)
    """
    return to_tensor(x).sin()


@explained
def sinh(x: Operand, /) -> Tensor:
    """The hyperbolic sine. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sinh(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 1.1752], dtype=float32)
    """
    return to_tensor(x).sinh()


@explained
def tan(x: Operand, /) -> Tensor:
    """The tangent of angles in radians. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.tan(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 1.5574], dtype=float32)
    """
    return to_tensor(x).tan()


@explained
def tanh(x: Operand, /) -> Tensor:
    """The hyperbolic tangent. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.tanh(Tensor([0.0, 1.0])).round(4).numpy()
        array([0.    , 0.7616], dtype=float32)
    """
    return to_tensor(x).tanh()
