"""What functions take for a tensor: a tensor, or what makes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_dtype import promote_with_scalar
from svod_tensor.ops.operands import is_scalar
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["first_operand", "to_tensor"]


def to_tensor(x: Operand) -> Tensor:
    """`x` itself where it is a tensor, else a tensor of its numbers."""
    return x if isinstance(x, Tensor) else Tensor(x)


def first_operand(x1: Operand, x2: Operand) -> Tensor:
    """`x1` as a tensor; a number beside a tensor is weak, as it is on the other side.

    Raises:
        IntegerOverflowError: if the dtype of the tensor does not hold the number.
    """
    if isinstance(x1, Tensor):
        return x1
    if is_scalar(x1) and isinstance(x2, Tensor):
        return Tensor.full((), x1, dtype=promote_with_scalar(x2.dtype, x1))
    return Tensor(x1)
