"""Functions that call the methods of `Tensor` in `svod_tensor.ops.cumulative`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import DTypeLike, Operand

__all__ = [
    "cumargmax",
    "cumargmin",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
]


@explained
def cumargmax(x: Operand, /, axis: int) -> Tensor:
    """Where the largest of the first 1, 2, ... elements along `axis` is, in int64: the first of several, or the first NaN.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumargmax(Tensor([1, 3, 2, 3, 4]), 0).tolist()
        [0, 1, 1, 1, 4]
    """
    return to_tensor(x).cumargmax(axis)


@explained
def cumargmin(x: Operand, /, axis: int) -> Tensor:
    """Where the smallest of the first 1, 2, ... elements along `axis` is, in int64: the first of several, or the first NaN.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumargmin(Tensor([3, 1, 2, 1]), 0).tolist()
        [0, 1, 1, 1]
    """
    return to_tensor(x).cumargmin(axis)


@explained
def cummax(x: Operand, /, axis: int) -> Tensor:
    """The largest of the first 1, 2, ... elements along `axis`, in the shape and dtype of `x`; a NaN stays the
    largest.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cummax(Tensor([1, 3, 2]), 0).tolist()
        [1, 3, 3]
    """
    return to_tensor(x).cummax(axis)


@explained
def cummin(x: Operand, /, axis: int) -> Tensor:
    """The smallest of the first 1, 2, ... elements along `axis`, in the shape and dtype of `x`; a NaN stays
    the smallest.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cummin(Tensor([3, 1, 2]), 0).tolist()
        [3, 1, 1]
    """
    return to_tensor(x).cummin(axis)


@explained
def cumprod(x: Operand, /, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """The products of the first 1, 2, ... elements along an axis, in the shape of `x`.

    Args:
        axis: along which; None flattens first.
        dtype: of the result and the products; by default as for `prod`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumprod(Tensor([[1, 2], [3, 4]])).tolist()
        [1, 2, 6, 24]
    """
    return to_tensor(x).cumprod(axis, dtype=dtype)


@explained
def cumsum(x: Operand, /, axis: int | None = None, *, dtype: DTypeLike | None = None) -> Tensor:
    """The sums of the first 1, 2, ... elements along an axis, in the shape of `x`.

    Args:
        axis: along which; None flattens first.
        dtype: of the result and the additions; by default as for `sum`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumsum(Tensor([[1, 2], [3, 4]]), 0).tolist()
        [[1, 2], [4, 6]]
    """
    return to_tensor(x).cumsum(axis, dtype=dtype)


@explained
def cumulative_prod(
    x: Operand, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """`cumprod` as the array API standard has it.

    Args:
        axis: along which; it may be left out where there is one axis.
        dtype: of the result and the products; by default as for `prod`.
        include_initial: whether a 1 stands before the products, so that the axis is longer by one.

    Raises:
        ShapeError: if the axis is left out where there are several.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumulative_prod(Tensor([2, 3, 4]), include_initial=True).tolist()
        [1, 2, 6, 24]
    """
    return to_tensor(x).cumulative_prod(axis=axis, dtype=dtype, include_initial=include_initial)


@explained
def cumulative_sum(
    x: Operand, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Tensor:
    """`cumsum` as the array API standard has it.

    Args:
        axis: along which; it may be left out where there is one axis.
        dtype: of the result and the additions; by default as for `sum`.
        include_initial: whether a 0 stands before the sums, so that the axis is longer by one.

    Raises:
        ShapeError: if the axis is left out where there are several.

    Example:
        >>> import svod_tensor as sv
        >>> sv.cumulative_sum(Tensor([1, 2, 3]), include_initial=True).tolist()
        [0, 1, 3, 6]
    """
    return to_tensor(x).cumulative_sum(axis=axis, dtype=dtype, include_initial=include_initial)


@explained
def diff(
    x: Operand, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours along an axis, which is shorter by `n` then; of bools, whether they differ.

    Args:
        n: how often differences are taken.
        axis: along which.
        prepend: joined before the elements, along `axis`.
        append: joined behind them.

    Raises:
        OperandError: if `n` is negative.

    Example:
        >>> import svod_tensor as sv
        >>> sv.diff(Tensor([1, 4, 9, 16])).tolist()
        [3, 5, 7]
        >>> sv.diff(Tensor([1, 4, 9, 16]), n=2).tolist()
        [2, 2]
    """
    return first_operand(x, prepend, append).diff(n=n, axis=axis, prepend=prepend, append=append)
