"""Functions that call the methods of `Tensor` in `svod_tensor.ops.cumulative`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import DTypeLike, Operand

__all__ = [
    "cumulative_prod",
    "cumulative_sum",
    "diff",
]


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
    return to_tensor(x).diff(n=n, axis=axis, prepend=prepend, append=append)
