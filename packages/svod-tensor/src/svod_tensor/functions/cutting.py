"""Functions that call the methods of `Tensor` in `svod_tensor.ops.cutting`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor._shapes import Axes
    from svod_tensor.ops.base import Amounts, Operand
    from svod_tensor.ops.cutting import PadMode

__all__ = [
    "diag",
    "diagonal",
    "pad",
    "roll",
    "tril",
    "triu",
]


@explained
def diag(x: Operand, /, k: int = 0) -> Tensor:
    """The matrix with these elements on diagonal `k` and 0 elsewhere, of one axis; of two, that diagonal.

    Args:
        k: which one, above the main one where it is positive.

    Raises:
        ShapeError: if there is another number of axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.diag(Tensor([1, 2])).tolist()
        [[1, 0], [0, 2]]
    """
    return to_tensor(x).diag(k)


@explained
def diagonal(x: Operand, /, offset: int = 0) -> Tensor:
    """The elements `[..., i, i + offset]` of the last two axes, as a new tensor of shape (..., n).

    Args:
        offset: which diagonal, above the main one where it is positive.

    Raises:
        AxisError: if there are less than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.diagonal(Tensor([[1, 2, 3], [4, 5, 6]])).tolist()
        [1, 5]
    """
    return to_tensor(x).diagonal(offset)


@explained
def pad(
    x: Operand, /, padding: Amounts | Sequence[Amounts], *, mode: PadMode = "constant", constant_values: complex = 0
) -> Tensor:
    """`x` with `constant_values`, or elements of its own, before and after each axis; negative amounts crop it.

    Args:
        padding: a pair `(before, after)` for each axis, one by one or as a sequence; one pair alone is that of all
            axes, and a number stands for a pair of it, as in numpy. None leaves an axis as it is.
        mode: `"constant"`; `"edge"` (or `"replicate"`) for the last element again, `"reflect"` for those before it
            in reverse, `"symmetric"` for the same with the last one, `"wrap"` (or `"circular"`) for those of the
            other end.
        constant_values: what is added, in the dtype of `x`.

    Raises:
        ShapeError: if there are not as many pairs as axes, or there is nothing to repeat.
        OperandError: if the mode is not known.
        IntegerOverflowError: if the dtype does not hold what is added.

    Example:
        >>> import svod_tensor as sv
        >>> sv.pad(Tensor([[1, 2]]), ((0, 1), (1, 0)), constant_values=9).tolist()
        [[9, 1, 2], [9, 9, 9]]
    """
    return to_tensor(x).pad(padding, mode=mode, constant_values=constant_values)


@explained
def roll(x: Operand, /, shift: int | Sequence[int], *, axis: Axes = None) -> Tensor:
    """The elements, moved by `shift` along an axis; those that leave at the end come back at the start.

    Args:
        shift: how far, or how far on each of several axes.
        axis: along which; None rolls the elements in row-major order.

    Raises:
        ShapeError: if there are not as many shifts as axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.roll(Tensor([1, 2, 3, 4]), 1).tolist()
        [4, 1, 2, 3]
    """
    return to_tensor(x).roll(shift, axis=axis)


@explained
def tril(x: Operand, /, *, k: int = 0) -> Tensor:
    """The elements on and below diagonal `k` of the last two axes, zero above it.

    The main diagonal is 0, those above it are positive.

    Raises:
        AxisError: if there are less than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.tril(Tensor([[1, 2], [3, 4]]), k=-1).tolist()
        [[0, 0], [3, 0]]
    """
    return to_tensor(x).tril(k=k)


@explained
def triu(x: Operand, /, *, k: int = 0) -> Tensor:
    """The elements on and above diagonal `k` of the last two axes, zero below it.

    The main diagonal is 0, those above it are positive.

    Raises:
        AxisError: if there are less than two axes.

    Example:
        >>> import svod_tensor as sv
        >>> sv.triu(Tensor([[1, 2], [3, 4]])).tolist()
        [[1, 2], [0, 4]]
    """
    return to_tensor(x).triu(k=k)
