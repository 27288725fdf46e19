"""Functions that call the methods of `Tensor` in `svod_tensor.ops.arithmetic`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "abs",
    "add",
    "ceil",
    "divide",
    "floor",
    "floor_divide",
    "fmod",
    "lerp",
    "mod",
    "multiply",
    "negative",
    "positive",
    "pow",
    "power",
    "reciprocal",
    "remainder",
    "rint",
    "round",
    "sign",
    "square",
    "subtract",
    "true_divide",
    "trunc",
]


@explained
def abs(x: Operand, /) -> Tensor:
    """The absolute value, in the dtype of `x`; that of the smallest signed integer wraps to itself.

    That of complex numbers is a float: the square root of the sum of the squares of both parts.

    Example:
        >>> import svod_tensor as sv
        >>> sv.abs(Tensor([1.5, -2.0])).tolist()
        [1.5, 2.0]
    """
    return to_tensor(x).abs()


@explained
def add(x1: Operand, x2: Operand, /) -> Tensor:
    """The sum with `x2`; of bools it is the logical or. Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.add(Tensor([1, 2]), Tensor([[10], [20]])).tolist()
        [[11, 12], [21, 22]]
    """
    return first_operand(x1, x2).add(x2)


@explained
def ceil(x: Operand, /) -> Tensor:
    """The smallest integer that is not below each element, in the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ceil(Tensor([-1.5, 1.5])).tolist()
        [-1.0, 2.0]
    """
    return to_tensor(x).ceil()


@explained
def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """The quotient by `x2`; integers are divided as float32. Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.divide(Tensor([1, 2]), 4).tolist()
        [0.25, 0.5]
    """
    return first_operand(x1, x2).divide(x2)


@explained
def floor(x: Operand, /) -> Tensor:
    """The largest integer that is not above each element, in the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.floor(Tensor([-1.5, 1.5])).tolist()
        [-2.0, 1.0]
    """
    return to_tensor(x).floor()


@explained
def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """The quotient by `x2`, rounded toward negative infinity. Shapes broadcast and dtypes promote.

    An integer divided by zero gives 0, or an error in a plan that checks its operands.

    Raises:
        OperandError: if both are bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.floor_divide(Tensor([-7, 7, 7]), Tensor([2, 2, 0])).tolist()
        [-4, 3, 0]
    """
    return first_operand(x1, x2).floor_divide(x2)


@explained
def fmod(x1: Operand, x2: Operand, /) -> Tensor:
    """The remainder of division by `x2`, truncated toward zero: it has the sign of `x1`. Shapes broadcast and
    dtypes promote.

    An integer divided by zero leaves 0, or is an error in a plan that checks its operands.

    Raises:
        OperandError: if both are bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.fmod(Tensor([-7, 7]), 3).tolist()
        [-1, 1]
    """
    return first_operand(x1, x2).fmod(x2)


@explained
def lerp(x: Operand, end: Operand, weight: Operand, /) -> Tensor:
    """`x + (end - x) * weight`: `x` where `weight` is 0, `end` where it is 1. Shapes broadcast and dtypes
    promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.lerp(Tensor([0.0, 10.0]), 20.0, 0.25).tolist()
        [5.0, 12.5]
    """
    return first_operand(x, end, weight).lerp(end, weight)


@explained
def mod(x1: Operand, x2: Operand, /) -> Tensor:
    """`x - (x // other) * x2`: it has the sign of `x2`. Shapes broadcast and dtypes promote.

    An integer divided by zero leaves 0, or is an error in a plan that checks its operands. The remainder of floats
    is exact, however large the quotient is, before `x2` is added where the signs differ.

    Raises:
        OperandError: if both are bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.mod(Tensor([-7, 7, 7]), Tensor([3, -3, 0])).tolist()
        [2, -2, 0]
    """
    return first_operand(x1, x2).mod(x2)


@explained
def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """The product with `x2`; of bools it is the logical and. Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.multiply(Tensor([1, 2]), [3, 4]).tolist()
        [3, 8]
    """
    return first_operand(x1, x2).multiply(x2)


@explained
def negative(x: Operand, /) -> Tensor:
    """The negative, in the dtype of `x`; unsigned integers wrap.

    Raises:
        OperandError: if the tensor is of bools, as in numpy.

    Example:
        >>> import svod_tensor as sv
        >>> sv.negative(Tensor([1, -2])).tolist()
        [-1, 2]
    """
    return to_tensor(x).negative()


@explained
def positive(x: Operand, /) -> Tensor:
    """The same values as a new tensor.

    Raises:
        OperandError: if the tensor is of bools, as in numpy.

    Example:
        >>> import svod_tensor as sv
        >>> sv.positive(Tensor([1, -2])).tolist()
        [1, -2]
    """
    return to_tensor(x).positive()


@explained
def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """`x1` to the power of `x2`. Shapes broadcast and dtypes promote.

    Integer powers wrap; a negative integer exponent gives the integer part of the true value, which is 0 unless the
    base is 1 or -1.

    Raises:
        OperandError: if both are bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.pow(Tensor([2.0, 9.0]), 0.5).round(4).numpy()
        array([1.4142, 3.    ], dtype=float32)
    """
    return first_operand(x1, x2).pow(x2)


@explained
def power(x1: Operand, x2: Operand, /) -> Tensor:
    """`x1` to the power of `x2`. Shapes broadcast and dtypes promote.

    Integer powers wrap; a negative integer exponent gives the integer part of the true value, which is 0 unless the
    base is 1 or -1.

    Raises:
        OperandError: if both are bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.power(Tensor([2.0, 9.0]), 0.5).round(4).numpy()
        array([1.4142, 3.    ], dtype=float32)
    """
    return first_operand(x1, x2).power(x2)


@explained
def reciprocal(x: Operand, /) -> Tensor:
    """`1 / x`. Integers become float32.

    Example:
        >>> import svod_tensor as sv
        >>> sv.reciprocal(Tensor([4.0, -0.5, 0.0])).tolist()
        [0.25, -2.0, inf]
    """
    return to_tensor(x).reciprocal()


@explained
def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """`x - (x // other) * x2`: it has the sign of `x2`. Shapes broadcast and dtypes promote.

    An integer divided by zero leaves 0, or is an error in a plan that checks its operands. The remainder of floats
    is exact, however large the quotient is, before `x2` is added where the signs differ.

    Raises:
        OperandError: if both are bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.remainder(Tensor([-7, 7, 7]), Tensor([3, -3, 0])).tolist()
        [2, -2, 0]
    """
    return first_operand(x1, x2).remainder(x2)


@explained
def rint(x: Operand, /) -> Tensor:
    """The nearest integer, in the dtype of `x`; halves go to the even one. Of complex numbers, each part is rounded.

    Example:
        >>> import svod_tensor as sv
        >>> sv.rint(Tensor([0.5, 1.5, 2.5])).tolist()
        [0.0, 2.0, 2.0]
    """
    return to_tensor(x).rint()


@explained
def round(x: Operand, /) -> Tensor:
    """The nearest integer, in the dtype of `x`; halves go to the even one. Of complex numbers, each part is rounded.

    Example:
        >>> import svod_tensor as sv
        >>> sv.round(Tensor([0.5, 1.5, 2.5])).tolist()
        [0.0, 2.0, 2.0]
    """
    return to_tensor(x).round()


@explained
def sign(x: Operand, /) -> Tensor:
    """-1, 0 or 1 in the dtype of `x`, and NaN for NaN; of a complex number, `x / abs(x)`, and 0 for 0.

    A complex number with one infinite part has the direction of that part, and with two the sign is NaN, as in numpy.

    Raises:
        OperandError: if the tensor is of bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sign(Tensor([-3.0, 0.0, 0.5])).tolist()
        [-1.0, 0.0, 1.0]
    """
    return to_tensor(x).sign()


@explained
def square(x: Operand, /) -> Tensor:
    """Each element times itself, in the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.square(Tensor([-3, 2])).tolist()
        [9, 4]
    """
    return to_tensor(x).square()


@explained
def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """`x1` minus `x2`. Shapes broadcast and dtypes promote.

    Raises:
        OperandError: if both are bools, as in numpy.

    Example:
        >>> import svod_tensor as sv
        >>> sv.subtract(Tensor([1, 2]), 0.5).tolist()
        [0.5, 1.5]
    """
    return first_operand(x1, x2).subtract(x2)


@explained
def true_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """The quotient by `x2`; integers are divided as float32. Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.true_divide(Tensor([1, 2]), 4).tolist()
        [0.25, 0.5]
    """
    return first_operand(x1, x2).true_divide(x2)


@explained
def trunc(x: Operand, /) -> Tensor:
    """Each element without its fraction, in the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.trunc(Tensor([-1.5, 1.5])).tolist()
        [-1.0, 1.0]
    """
    return to_tensor(x).trunc()
