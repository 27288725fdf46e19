"""Functions that call the methods of `Tensor` in `svod_tensor.ops.joining`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_ir import SInt
    from svod_tensor.ops.base import Operand

__all__ = [
    "repeat",
    "repeat_interleave",
    "split",
    "tile",
    "unstack",
]


@explained
def repeat(x: Operand, repeats: int | Sequence[int] | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element several times in a row; `tile` repeats the whole tensor.

    Args:
        repeats: how often, or how often each slice along the axis; a tensor is computed.
        axis: along which; None flattens first.

    Raises:
        ShapeError: if there are not as many numbers as slices, or one is negative.
        DataDependentShapeError: in a function that is captured, if the numbers are a tensor.

    Example:
        >>> import svod_tensor as sv
        >>> sv.repeat(Tensor([1, 2]), 2).tolist()
        [1, 1, 2, 2]
    """
    return to_tensor(x).repeat(repeats, axis=axis)


@explained
def repeat_interleave(x: Operand, repeats: int | Sequence[int] | Tensor, /, axis: int | None = None) -> Tensor:
    """Each element several times in a row; `tile` repeats the whole tensor.

    Args:
        repeats: how often, or how often each slice along the axis; a tensor is computed.
        axis: along which; None flattens first.

    Raises:
        ShapeError: if there are not as many numbers as slices, or one is negative.
        DataDependentShapeError: in a function that is captured, if the numbers are a tensor.

    Example:
        >>> import svod_tensor as sv
        >>> sv.repeat_interleave(Tensor([1, 2]), 2).tolist()
        [1, 1, 2, 2]
    """
    return to_tensor(x).repeat_interleave(repeats, axis)


@explained
def split(x: Operand, sizes: int | Sequence[int], /, axis: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes along an axis: views.

    Args:
        sizes: of the parts; an int gives parts of that size, the last one possibly smaller.
        axis: along which.

    Raises:
        ShapeError: if the sizes do not add up to that of the axis.
        SymbolicShapeError: if the size of the axis is symbolic.

    Example:
        >>> import svod_tensor as sv
        >>> [part.tolist() for part in sv.split(Tensor([1, 2, 3, 4, 5]), 2)]
        [[1, 2], [3, 4], [5]]
    """
    return to_tensor(x).split(sizes, axis)


@explained
def tile(x: Operand, repetitions: SInt | Sequence[SInt], /) -> Tensor:
    """The whole tensor again and again: `repetitions[i]` times along axis i.

    Args:
        repetitions: one for each axis, or for more, which are then added in front; one by one or as a sequence.

    Raises:
        ShapeError: if a count is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.tile(Tensor([1, 2]), (2, 2)).tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    return to_tensor(x).tile(repetitions)


@explained
def unstack(x: Operand, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along `axis`, each without it: views.

    Raises:
        SymbolicShapeError: if the size of the axis is symbolic.

    Example:
        >>> import svod_tensor as sv
        >>> [row.tolist() for row in sv.unstack(Tensor([[1, 2], [3, 4]]))]
        [[1, 2], [3, 4]]
    """
    return to_tensor(x).unstack(axis=axis)
