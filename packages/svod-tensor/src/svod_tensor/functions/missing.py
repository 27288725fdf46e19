"""Functions that call the methods of `Tensor` in `svod_tensor.ops.missing`, as the array API standard has them."""

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
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanstd",
    "nanvar",
]


@explained
def nan_to_num(x: Operand, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Numbers in place of NaN and the infinities, in the dtype of `x`.

    Args:
        nan: in place of NaN.
        posinf: in place of infinity; by default the largest finite number.
        neginf: in place of minus infinity; by default the smallest finite number.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nan_to_num(Tensor([1.0, float('nan')]), 5.0).tolist()
        [1.0, 5.0]
    """
    return to_tensor(x).nan_to_num(nan, posinf, neginf)


@explained
def nanargmax(x: Operand, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position (int64) of the largest element that is not NaN, the first of several; 0 where there is none.

    Args:
        axis: along which; None flattens first.
        keepdims: whether the axis stays, with size 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanargmax(Tensor([float('nan'), 1.0, 3.0])).item()
        2
    """
    return to_tensor(x).nanargmax(axis, keepdims=keepdims)


@explained
def nanargmin(x: Operand, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position (int64) of the smallest element that is not NaN, the first of several; 0 where there is none.

    Args:
        axis: along which; None flattens first.
        keepdims: whether the axis stays, with size 1.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanargmin(Tensor([float('nan'), 1.0, 3.0])).item()
        1
    """
    return to_tensor(x).nanargmin(axis, keepdims=keepdims)


@explained
def nancumprod(x: Operand, /, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """`cumprod` in which NaNs count as 1.

    Args:
        axis: along which; None flattens first.
        dtype: of the result and the products; by default as for `prod`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nancumprod(Tensor([2.0, float('nan'), 3.0])).tolist()
        [2.0, 2.0, 6.0]
    """
    return to_tensor(x).nancumprod(axis, dtype=dtype)


@explained
def nancumsum(x: Operand, /, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """`cumsum` in which NaNs count as 0.

    Args:
        axis: along which; None flattens first.
        dtype: of the result and the additions; by default as for `sum`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nancumsum(Tensor([1.0, float('nan'), 3.0])).tolist()
        [1.0, 1.0, 4.0]
    """
    return to_tensor(x).nancumsum(axis, dtype=dtype)


@explained
def nanstd(x: Operand, /, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """The square root of `nanvar`.

    Args:
        axis: one axis, several, or None for all.
        correction: what the number of elements is reduced by in the variance.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanstd(Tensor([1.0, float('nan'), 3.0])).item()
        1.0
    """
    return to_tensor(x).nanstd(axis, correction=correction, keepdims=keepdims)


@explained
def nanvar(x: Operand, /, axis: Axes = None, *, correction: float = 0, keepdims: bool = False) -> Tensor:
    """The variance of the elements that are not NaN; NaN where there are no more of them than `correction`.

    Args:
        axis: one axis, several, or None for all.
        correction: what their number is reduced by.
        keepdims: whether the axes stay, with size 1.

    Raises:
        AxisError: if there is no such axis.

    Example:
        >>> import svod_tensor as sv
        >>> sv.nanvar(Tensor([1.0, float('nan'), 3.0])).item()
        1.0
    """
    return to_tensor(x).nanvar(axis, correction=correction, keepdims=keepdims)
