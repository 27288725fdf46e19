"""Functions that call the methods of `Tensor` in `svod_tensor.ops.selecting`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.selecting import UniqueAllResult, UniqueCountsResult, UniqueInverseResult

__all__ = [
    "argwhere",
    "nonzero",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


@explained
def argwhere(x: Operand, /) -> Tensor:
    """The positions (int64) of the elements that are not zero, in row-major order: shape (n, axes).

    Raises:
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> sv.argwhere(Tensor([[0, 5], [7, 0]])).tolist()
        [[0, 1], [1, 0]]
    """
    return to_tensor(x).argwhere()


@explained
def nonzero(x: Operand, /) -> tuple[Tensor, ...]:
    """The positions (int64) of the elements that are not zero, in row-major order: a tensor for each axis.

    Raises:
        ShapeError: if there are no axes.
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> rows, columns = sv.nonzero(Tensor([[0, 5], [7, 0]]))
        >>> (rows.tolist(), columns.tolist())
        ([0, 1], [1, 0])
    """
    return to_tensor(x).nonzero()


@explained
def unique_all(x: Operand, /) -> UniqueAllResult[Tensor]:
    """The distinct elements in order, the position of the first of each, the index of each element among them, and their counts.

    A NaN differs from every other, and is among the last.

    Raises:
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> found = sv.unique_all(Tensor([3, 1, 3]))
        >>> (found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist(), found.counts.tolist())
        ([1, 3], [1, 0], [1, 0, 1], [1, 2])
    """
    return to_tensor(x).unique_all()


@explained
def unique_counts(x: Operand, /) -> UniqueCountsResult[Tensor]:
    """The distinct elements in order, and their counts (int64).

    Raises:
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> values, counts = sv.unique_counts(Tensor([3, 1, 3]))
        >>> (values.tolist(), counts.tolist())
        ([1, 3], [1, 2])
    """
    return to_tensor(x).unique_counts()


@explained
def unique_inverse(x: Operand, /) -> UniqueInverseResult[Tensor]:
    """The distinct elements in order, and the index of each element among them (int64), in the shape of `x`.

    Raises:
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> values, places = sv.unique_inverse(Tensor([3, 1, 3]))
        >>> (values.tolist(), places.tolist())
        ([1, 3], [1, 0, 1])
    """
    return to_tensor(x).unique_inverse()


@explained
def unique_values(x: Operand, /) -> Tensor:
    """The distinct elements in order. A NaN differs from every other, and is among the last.

    Raises:
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> sv.unique_values(Tensor([[3, 1], [3, 2]])).tolist()
        [1, 2, 3]
    """
    return to_tensor(x).unique_values()
