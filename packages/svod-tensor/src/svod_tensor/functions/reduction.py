"""Functions that call the methods of `Tensor` in `svod_tensor.ops.reduction`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor._shapes import Axes
    from svod_tensor.ops.base import DTypeLike, Operand

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "max",
    "min",
    "nanmax",
    "nanmin",
    "nanprod",
    "nansum",
    "prod",
    "sum",
]


@explained
def all(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether no element is zero, as bools; True over no elements.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.all(Tensor([[2, 1], [0, 1]]), axis=1).tolist()
        [True, False]
    """
    return to_tensor(x).all(axis=axis, keepdims=keepdims)


@explained
def amax(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The largest element, in the dtype of `x`; NaN if there is a NaN.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.amax(Tensor([[1, 5], [3, 4]]), axis=1).tolist()
        [5, 4]
    """
    return to_tensor(x).amax(axis, keepdims=keepdims)


@explained
def amin(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element, in the dtype of `x`; NaN if there is a NaN.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.amin(Tensor([[1, 5], [3, 4]]), axis=1, keepdims=True).tolist()
        [[1], [3]]
    """
    return to_tensor(x).amin(axis, keepdims=keepdims)


@explained
def any(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether an element is not zero, as bools; False over no elements.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.any(Tensor([[0, 1], [0, 0]]), axis=1).tolist()
        [True, False]
    """
    return to_tensor(x).any(axis=axis, keepdims=keepdims)


@explained
def argmax(x: Operand, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position (int64) of the largest element; of several the first. A NaN counts as the largest.

    Args:
        axis: along which; None for the position among all elements in row-major order.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.argmax(Tensor([[1, 5], [7, 4]]), axis=1).tolist()
        [1, 0]
    """
    return to_tensor(x).argmax(axis=axis, keepdims=keepdims)


@explained
def argmin(x: Operand, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The position (int64) of the smallest element; of several the first. A NaN counts as the smallest.

    Args:
        axis: along which; None for the position among all elements in row-major order.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.argmin(Tensor([[1, 5], [7, 4]])).item()
        0
    """
    return to_tensor(x).argmin(axis=axis, keepdims=keepdims)


@explained
def count_nonzero(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero (int64).

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.count_nonzero(Tensor([[0, 5], [3, 4]]), axis=1).tolist()
        [1, 2]
    """
    return to_tensor(x).count_nonzero(axis=axis, keepdims=keepdims)


@explained
def max(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest element, in the dtype of `x`; NaN if there is a NaN.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.max(Tensor([[1, 5], [3, 4]]), axis=1).tolist()
        [5, 4]
    """
    return to_tensor(x).max(axis=axis, keepdims=keepdims)


@explained
def min(x: Operand, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest element, in the dtype of `x`; NaN if there is a NaN.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.min(Tensor([[1, 5], [3, 4]]), axis=1, keepdims=True).tolist()
        [[1], [3]]
    """
    return to_tensor(x).min(axis=axis, keepdims=keepdims)


@explained
def nanmax(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The largest element that is no NaN, in the dtype of `x`; NaN where there is none.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanmax(Tensor([1.0, float('nan'), 2.0])).item()
        2.0
    """
    return to_tensor(x).nanmax(axis, keepdims=keepdims)


@explained
def nanmin(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element that is no NaN, in the dtype of `x`; NaN where there is none.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.
        EmptyReductionError: if there are no elements.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanmin(Tensor([1.0, float('nan'), 2.0])).item()
        1.0
    """
    return to_tensor(x).nanmin(axis, keepdims=keepdims)


@explained
def nanprod(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The product without NaNs, in the dtype that `prod` has.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanprod(Tensor([3.0, float('nan'), 2.0])).item()
        6.0
    """
    return to_tensor(x).nanprod(axis, keepdims=keepdims)


@explained
def nansum(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """The sum without NaNs, in the dtype that `sum` has.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nansum(Tensor([1.0, float('nan'), 2.0])).item()
        3.0
    """
    return to_tensor(x).nansum(axis, keepdims=keepdims)


@explained
def prod(x: Operand, /, *, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Tensor:
    """The product, 1 over no elements. Narrow floats are multiplied in float32 and rounded once.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.
        dtype: of the result and the products; by default as for `sum`.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.prod(Tensor([[1, 2], [3, 4]]), axis=1).tolist()
        [2, 12]
    """
    return to_tensor(x).prod(axis=axis, keepdims=keepdims, dtype=dtype)


@explained
def sum(x: Operand, /, *, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False) -> Tensor:
    """The sum, 0 over no elements. Narrow floats are added in float32 and rounded once.

    Args:
        axis: one axis, several, or None for all.
        keepdims: whether the axes stay, with size 1.
        dtype: of the result and the additions; by default that of `x`, and of bools and narrow integers
            int32 (uint32).

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.sum(Tensor([[1, 2], [3, 4]]), axis=0).tolist()
        [4, 6]
    """
    return to_tensor(x).sum(axis=axis, keepdims=keepdims, dtype=dtype)
