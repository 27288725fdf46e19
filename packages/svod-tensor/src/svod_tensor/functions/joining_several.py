"""Functions of several tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["meshgrid"]


def meshgrid(*arrays: Operand, indexing: str = "xy") -> tuple[Tensor, ...]:
    """For each of `arrays`, tensors of one axis, its coordinates at all points of their grid.

    Args:
        arrays: the coordinates along each axis.
        indexing: `"ij"` for results of shape (n0, n1, ...), `"xy"` with the first two axes exchanged, as for an image.

    Raises:
        OperandError: if `indexing` is something else.

    Example:
        >>> import svod_tensor as sv
        >>> x, y = sv.meshgrid(Tensor([1, 2, 3]), Tensor([10, 20]))
        >>> x.tolist(), y.tolist()
        ([[1, 2, 3], [1, 2, 3]], [[10, 10, 10], [20, 20, 20]])
    """
    return Tensor.meshgrid(*map(to_tensor, arrays), indexing=indexing)
