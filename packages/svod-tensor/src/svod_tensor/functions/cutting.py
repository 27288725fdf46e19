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
    from svod_tensor.ops.base import Operand

__all__ = [
    "roll",
    "tril",
    "triu",
]


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
