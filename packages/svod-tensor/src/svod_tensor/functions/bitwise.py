"""Functions that call the methods of `Tensor` in `svod_tensor.ops.bitwise`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
]


@explained
def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that both `x1` and `x2` have. Shapes broadcast and dtypes promote.

    Raises:
        OperandError: if an operand is of floats.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_and(Tensor([12, 10]), 6).tolist()
        [4, 2]
    """
    return first_operand(x1, x2).bitwise_and(x2)


@explained
def bitwise_invert(x: Operand, /) -> Tensor:
    """All bits inverted; of bools, the logical not.

    Raises:
        OperandError: if the tensor is of floats.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_invert(Tensor([0, 5])).tolist()
        [-1, -6]
    """
    return to_tensor(x).bitwise_invert()


@explained
def bitwise_left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits moved to the left by `x2`; one that is not from 0 to bits - 1 gives 0. Shapes broadcast and dtypes
    promote.

    Raises:
        OperandError: if an operand is of floats, or both are bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_left_shift(Tensor([1, 3]), Tensor([4, 32])).tolist()
        [16, 0]
    """
    return first_operand(x1, x2).bitwise_left_shift(x2)


@explained
def bitwise_not(x: Operand, /) -> Tensor:
    """All bits inverted; of bools, the logical not.

    Raises:
        OperandError: if the tensor is of floats.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_not(Tensor([0, 5])).tolist()
        [-1, -6]
    """
    return to_tensor(x).bitwise_not()


@explained
def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that `x1` or `x2` has. Shapes broadcast and dtypes promote.

    Raises:
        OperandError: if an operand is of floats.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_or(Tensor([12, 10]), 6).tolist()
        [14, 14]
    """
    return first_operand(x1, x2).bitwise_or(x2)


@explained
def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits moved to the right by `x2`, keeping the sign. Shapes broadcast and dtypes promote.

    An amount that is not from 0 to bits - 1 moves all bits out: 0 is left, or -1 of what is negative.

    Raises:
        OperandError: if an operand is of floats, or both are bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_right_shift(Tensor([16, -16, -16]), Tensor([2, 2, 32])).tolist()
        [4, -4, -1]
    """
    return first_operand(x1, x2).bitwise_right_shift(x2)


@explained
def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that one of `x1` and `x2` has. Shapes broadcast and dtypes promote.

    Raises:
        OperandError: if an operand is of floats.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bitwise_xor(Tensor([12, 10]), 6).tolist()
        [10, 12]
    """
    return first_operand(x1, x2).bitwise_xor(x2)


@explained
def invert(x: Operand, /) -> Tensor:
    """All bits inverted; of bools, the logical not.

    Raises:
        OperandError: if the tensor is of floats.

    Example:
        >>> import svod_tensor as sv
        >>> sv.invert(Tensor([0, 5])).tolist()
        [-1, -6]
    """
    return to_tensor(x).invert()


@explained
def left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits moved to the left by `x2`; one that is not from 0 to bits - 1 gives 0. Shapes broadcast and dtypes
    promote.

    Raises:
        OperandError: if an operand is of floats, or both are bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.left_shift(Tensor([1, 3]), Tensor([4, 32])).tolist()
        [16, 0]
    """
    return first_operand(x1, x2).left_shift(x2)


@explained
def right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits moved to the right by `x2`, keeping the sign. Shapes broadcast and dtypes promote.

    An amount that is not from 0 to bits - 1 moves all bits out: 0 is left, or -1 of what is negative.

    Raises:
        OperandError: if an operand is of floats, or both are bools.

    Example:
        >>> import svod_tensor as sv
        >>> sv.right_shift(Tensor([16, -16, -16]), Tensor([2, 2, 32])).tolist()
        [4, -4, -1]
    """
    return first_operand(x1, x2).right_shift(x2)
