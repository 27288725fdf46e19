"""Functions that call the methods of `Tensor` in `svod_tensor.ops.logic`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "heaviside",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "where",
]


@explained
def heaviside(x1: Operand, x2: Operand, /) -> Tensor:
    """0 for negative numbers, 1 for positive ones, `x2` for zeros, and NaN for NaN. Integers become float32.

    Shapes broadcast and dtypes promote.

    Example:
        >>> import svod_tensor as sv
        >>> sv.heaviside(Tensor([-2.0, 0.0, 3.0]), 0.5).tolist()
        [0.0, 0.5, 1.0]
    """
    return first_operand(x1, x2).heaviside(x2)


@explained
def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether an element and that of `x2` are both not zero, as bools. Shapes broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logical_and(Tensor([0, 1, 2]), [True, True, False]).tolist()
        [False, True, False]
    """
    return first_operand(x1, x2).logical_and(x2)


@explained
def logical_not(x: Operand, /) -> Tensor:
    """Whether each element is zero, as bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logical_not(Tensor([0.0, 1.5])).tolist()
        [True, False]
    """
    return to_tensor(x).logical_not()


@explained
def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether an element or that of `x2` is not zero, as bools. Shapes broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logical_or(Tensor([0, 0, 2]), [True, False, False]).tolist()
        [True, False, True]
    """
    return first_operand(x1, x2).logical_or(x2)


@explained
def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Whether one of an element and that of `x2` is not zero, as bools. Shapes broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.logical_xor(Tensor([0, 1, 2]), 1).tolist()
        [True, False, False]
    """
    return first_operand(x1, x2).logical_xor(x2)


@explained
def where(condition: Operand, x1: Operand, x2: Operand, /) -> Tensor:
    """Elements of `x1` where this tensor of bools holds, else of `x2`; `Tensor.where(c, x1, x2)` reads as numpy's.

    The shapes of all three broadcast, and the dtypes of `x1` and `x2` promote.

    Raises:
        OperandError: if `condition` is not of bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.where(Tensor([True, False]), Tensor([1, 2]), 0).tolist()
        [1, 0]
    """
    return first_operand(condition, x1, x2).where(x1, x2)
