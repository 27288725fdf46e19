"""Functions that call the methods of `Tensor` in `svod_tensor.ops.sorting`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = [
    "argsort",
    "isin",
    "searchsorted",
    "sort",
    "topk",
]


@explained
def argsort(x: Operand, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions (int64) of the elements in order; equal elements keep theirs, and NaN counts as the largest value.

    Complex numbers are in order of their real parts, then of their imaginary parts, as in numpy.

    Args:
        axis: along which.
        descending: whether the largest comes first.
        stable: whether equal elements must keep their order, as they always do.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are 2^31 elements or more along it.

    Example:
        >>> import svod_tensor as sv
        >>> sv.argsort(Tensor([3, 1, 2])).tolist()
        [1, 2, 0]
    """
    return to_tensor(x).argsort(axis=axis, descending=descending, stable=stable)


@explained
def isin(x1: Operand, x2: Operand, /, *, invert: bool = False) -> Tensor:
    """Whether each element is among `x2`, as bools in the shape of `x1`.

    Args:
        x2: what is looked for; dtypes promote.
        invert: whether it is asked which are not.

    Example:
        >>> import svod_tensor as sv
        >>> sv.isin(Tensor([1, 2, 3]), [2, 5]).tolist()
        [False, True, False]
    """
    return first_operand(x1, x2).isin(x2, invert=invert)


@explained
def searchsorted(
    x1: Operand, x2: Operand, /, *, side: Literal["left", "right"] = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where in this sorted tensor of one axis values can be inserted (int64), in the shape of `x2`.

    Args:
        x2: what is looked for; dtypes promote.
        side: `"left"` for the place before equal elements, `"right"` for that behind them.
        sorter: positions that sort `x1`, as `argsort` gives them, where it is not sorted itself.

    Raises:
        ShapeError: if `x1` has not one axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.searchsorted(Tensor([1, 3, 3, 5]), [3, 4]).tolist()
        [1, 3]
    """
    return first_operand(x1, x2).searchsorted(x2, side=side, sorter=sorter)


@explained
def sort(x: Operand, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order; NaN counts as the largest value. `argsort` gives their positions.

    Complex numbers are in order of their real parts, then of their imaginary parts, as in numpy.

    Args:
        axis: along which.
        descending: whether the largest comes first.
        stable: whether equal elements must keep their order, as they always do.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if there are 2^31 elements or more along it.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sort(Tensor([3, 1, 2]), descending=True).tolist()
        [3, 2, 1]
    """
    return to_tensor(x).sort(axis=axis, descending=descending, stable=stable)


@explained
def topk(x: Operand, /, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest elements in order, and their positions (int64); of equal ones the first come first.

    Args:
        k: how many.
        axis: along which.
        largest: whether the largest are meant, or the smallest.

    Raises:
        AxisError: if there is no such axis.
        ShapeError: if it has less than `k` elements.

    Example:
        >>> import svod_tensor as sv
        >>> values, positions = sv.topk(Tensor([3, 1, 4, 2]), 2)
        >>> (values.tolist(), positions.tolist())
        ([4, 3], [2, 0])
    """
    return to_tensor(x).topk(k, axis, largest=largest)
