"""Functions that call the methods of `Tensor` in `svod_tensor.ops.indexing`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import DTypeLike, Operand
    from svod_tensor.ops.index_items import IndexItem

__all__ = [
    "embedding",
    "gather",
    "masked_fill",
    "masked_select",
    "one_hot",
    "take",
    "take_along_axis",
]


@explained
def embedding(x: Operand, weight: Tensor, /) -> Tensor:
    """The rows of `weight` at the positions in `x`, in the shape of `x` and a row.

    A position out of range reads as zeros, or is an error in a plan that checks its operands.

    Raises:
        OperandError: if `x` is not of integers.
        ShapeError: if `weight` has no axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.embedding(Tensor([1, 0, 1]), Tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
        [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]
    """
    return to_tensor(x).embedding(weight)


@explained
def gather(x: Operand, /, axis: int, indices: Tensor) -> Tensor:
    """The elements at `indices` along `axis`, as PyTorch takes them. Other axes may be shorter than those of `x`.

    Args:
        axis: along which.
        indices: as `take_along_axis` takes them, but nothing broadcasts: of a shorter axis, the first slices are read.

    Raises:
        OperandError: if the indices are no integers.
        ShapeError: if `indices` has another number of axes, or is longer on another one.

    Example:
        >>> import svod_tensor as sv
        >>> sv.gather(Tensor([[1, 2], [3, 4]]), 1, Tensor([[0, 0], [1, 0]])).tolist()
        [[1, 1], [4, 3]]
        >>> sv.gather(Tensor([[1, 2], [3, 4]]), 1, Tensor([[1]])).tolist()
        [[2]]
    """
    return to_tensor(x).gather(axis, indices)


@explained
def masked_fill(x: Operand, mask: Tensor, value: bool | int | float | Tensor, /) -> Tensor:
    """`value` where `mask` holds, the elements of `x` elsewhere. All shapes broadcast, and the dtypes promote.

    Raises:
        OperandError: if the mask is not of bools.

    Example:
        >>> import svod_tensor as sv
        >>> x = Tensor([1, -2, 3])
        >>> sv.masked_fill(x, x < 0, 0).tolist()
        [1, 0, 3]
    """
    return to_tensor(x).masked_fill(mask, value)


@explained
def masked_select(x: Operand, mask: object, /) -> Tensor:
    """The elements where `mask` holds, as a tensor of one axis for those of the mask; a mask that is a tensor is
    computed.

    Raises:
        DataDependentShapeError: in a function that is captured, if the mask is a tensor.
        OperandError: if it is no mask.

    Example:
        >>> import svod_tensor as sv
        >>> sv.masked_select(Tensor([1, 2, 3]), [True, False, True]).tolist()
        [1, 3]
    """
    return to_tensor(x).masked_select(mask)


@explained
def one_hot(x: Operand, /, n_classes: int, *, dtype: DTypeLike | None = None) -> Tensor:
    """1 at the position that each element names along a new last axis, 0 elsewhere; only 0 where that is out of range.

    Args:
        n_classes: the size of the new axis.
        dtype: of the result; by default int64.

    Raises:
        OperandError: if `x` is not of integers.
        ShapeError: if `n_classes` is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.one_hot(Tensor([0, 2]), 3).tolist()
        [[1, 0, 0], [0, 0, 1]]
    """
    return to_tensor(x).one_hot(n_classes, dtype=dtype)


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
    """The elements at `indices` along `axis`, as numpy and the array API standard take them. Other axes broadcast.

    Args:
        indices: integers, negative ones counted from the end, of any size along `axis`. An index out of range reads
            as 0, or is an error in a plan that checks its operands.
        axis: along which.

    Raises:
        OperandError: if the indices are no integers.
        ShapeError: if `indices` has another number of axes.
        BroadcastError: if the sizes of another axis differ and neither is 1.

    Example:
        >>> import svod_tensor as sv
        >>> x = Tensor([[3, 1, 2], [6, 5, 4]])
        >>> sv.take_along_axis(x, x.argsort(1), axis=1).tolist()
        [[1, 2, 3], [4, 5, 6]]
    """
    return to_tensor(x).take_along_axis(indices, axis=axis)
