"""Functions of several tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor, to_tensors
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["concat", "meshgrid", "stack"]


def concat(arrays: Iterable[Operand], /, *, axis: int | None = 0) -> Tensor:
    """All `arrays` one behind the other; their dtypes promote.

    Args:
        arrays: tensors that have the same sizes on every other axis.
        axis: along which; None flattens them first.

    Raises:
        ShapeError: if another axis has another size, or there are none.

    Example:
        >>> import svod_tensor as sv
        >>> sv.concat([Tensor([1, 2]), Tensor([3])]).tolist()
        [1, 2, 3]
    """
    return Tensor.concat(to_tensors(*arrays), axis=axis)


def stack(arrays: Iterable[Operand], /, *, axis: int = 0) -> Tensor:
    """All `arrays` side by side along a new axis; their dtypes promote.

    Args:
        arrays: tensors of one shape.
        axis: the place of the new axis in the result.

    Raises:
        ShapeError: if their shapes differ, or there are none.

    Example:
        >>> import svod_tensor as sv
        >>> sv.stack([Tensor([1, 2]), Tensor([3, 4])], axis=1).tolist()
        [[1, 3], [2, 4]]
    """
    return Tensor.stack(to_tensors(*arrays), axis=axis)


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
