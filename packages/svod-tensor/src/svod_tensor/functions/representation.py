"""Functions that call the methods of `Tensor` in `svod_tensor.ops.representation`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "bitwise_count",
    "frexp",
    "ldexp",
]


@explained
def bitwise_count(x: Operand, /) -> Tensor:
    """The number of bits set in the absolute value of each element, in uint8.

    Raises:
        OperandError: if `x` is not of integers.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_count(Tensor([7, -8, 0])).tolist()
        [3, 1, 0]
    """
    return to_tensor(x).bitwise_count()


@explained
def frexp(x: Operand, /) -> tuple[Tensor, Tensor]:
    """Mantissas from 1/2 to below 1 and exponents (int32): `x = mantissa * 2 ** exponent`. Integers become
    float32.

    What is 0, infinite or NaN is its own fraction, with the exponent 0.

    Example:
        >>> import svod_tensor as sv
        >>> fractions, exponents = sv.frexp(Tensor([8.0, 0.75]))
        >>> (fractions.tolist(), exponents.tolist())
        ([0.5, 0.75], [4, 0])
    """
    return to_tensor(x).frexp()


@explained
def ldexp(x1: Operand, x2: Operand, /) -> Tensor:
    """`x * 2 ** x2`, rounded once. Shapes broadcast; integers become float32.

    Args:
        x2: integers.

    Raises:
        OperandError: if the exponents are no integers.

    Example:
        >>> import svod_tensor as sv
        >>> sv.ldexp(Tensor([0.5, 3.0]), [4, -1]).tolist()
        [8.0, 1.5]
    """
    return first_operand(x1, x2).ldexp(x2)
