"""Functions that call the methods of `Tensor` in `svod_tensor.ops.indexing`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.index_items import IndexItem

__all__ = [
    "take",
    "take_along_axis",
]


@explained
def take(x: Operand, indices: IndexItem, /, *, axis: int | None = None) -> Tensor:
    """The elements at `indices` along an axis: the axis becomes the axes of `indices`.

    Args:
        indices: integers, negative ones counted from the end. Known ones (ints, lists, arrays) are checked; a
            position of a tensor that is out of range reads as 0, or is an error in a plan that checks its operands.
        axis: along which; None flattens first.

    Raises:
        IndexOutOfRangeError: if a known position is out of range.
        IndexKindError: if the positions are no integers.
        OperandError: if the mode is not known.

    Example:
        >>> import svod_tensor as sv
        >>> sv.take(Tensor([[1, 2, 3], [4, 5, 6]]), [2, 0], axis=1).tolist()
        [[3, 1], [6, 4]]
    """
    return to_tensor(x).take(indices, axis=axis)


@explained
def take_along_axis(x: Operand, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """At each place of `indices`, the element with that position along `axis` and the place's own elsewhere.

    Args:
        indices: integers, negative ones counted from the end; it has as many axes as `x`, and may be
            shorter on each. A position out of range reads as 0, or is an error in a plan that checks its operands.
        axis: along which.

    Raises:
        OperandError: if the positions are no integers.
        ShapeError: if `indices` has another number of axes, or is longer on another one.

    Example:
        >>> import svod_tensor as sv
        >>> x = Tensor([[3, 1, 2], [6, 5, 4]])
        >>> sv.take_along_axis(x, x.argsort(1), axis=1).tolist()
        [[1, 2, 3], [4, 5, 6]]
    """
    return to_tensor(x).take_along_axis(indices, axis=axis)
