"""What functions take for a tensor: a tensor, or what makes one."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from svod_dtype import promote_types, promote_with_scalar
from svod_tensor.ops.theme import is_scalar, take_digits
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["first_operand", "to_tensor", "to_tensors"]


def to_tensor(x: Operand) -> Tensor:
    """`x` itself where it is a tensor, else a tensor of its numbers."""
    return x if isinstance(x, Tensor) else Tensor(x)


def to_tensors(*operands: Operand) -> list[Tensor]:
    """The operands as tensors; Python's floats have the digits of the others' dtypes."""
    tensors = [to_tensor(x) for x in operands]
    if all(made is x for made, x in zip(tensors, operands, strict=True)):
        return tensors
    dtype = reduce(promote_types, (made.dtype for made in tensors))
    return [take_digits(made, x, dtype) for made, x in zip(tensors, operands, strict=True)]


def first_operand(x1: Operand, *others: Operand | None) -> Tensor:
    """`x1` as a tensor; numbers beside a tensor are weak, as they are on the other side.

    Raises:
        IntegerOverflowError: if the dtype of the tensor does not hold the number.
    """
    if isinstance(x1, Tensor):
        return x1
    if is_scalar(x1) and len(others) == 1 and isinstance(others[0], Tensor):
        return Tensor.full((), x1, dtype=promote_with_scalar(others[0].dtype, x1))
    return to_tensors(x1, *(x for x in others if x is not None and not is_scalar(x)))[0]
