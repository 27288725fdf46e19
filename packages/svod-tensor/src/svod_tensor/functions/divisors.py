"""Functions that call the methods of `Tensor` in `svod_tensor.ops.divisors`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "gcd",
    "lcm",
]


@explained
def gcd(x1: Operand, x2: Operand, /) -> Tensor:
    """The greatest common divisor of the absolute values, 0 for two zeros. Shapes broadcast and dtypes promote.

    Args:
        x2: integers.

    Raises:
        OperandError: if one is not of integers.

    Example:
        >>> import svod_tensor as sv
        >>> sv.gcd(Tensor([12, -9, 0]), Tensor([18, 6, 5])).tolist()
        [6, 3, 5]
    """
    return first_operand(x1, x2).gcd(x2)


@explained
def lcm(x1: Operand, x2: Operand, /) -> Tensor:
    """The least common multiple of the absolute values, 0 if one is 0. Shapes broadcast and dtypes promote; overflow wraps.

    Args:
        x2: integers.

    Raises:
        OperandError: if one is not of integers.

    Example:
        >>> import svod_tensor as sv
        >>> sv.lcm(Tensor([12, -9, 0]), Tensor([18, 6, 5])).tolist()
        [36, 18, 0]
    """
    return first_operand(x1, x2).lcm(x2)
