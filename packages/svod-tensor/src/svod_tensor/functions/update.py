"""Functions that call the methods of `Tensor` in `svod_tensor.ops.update`, as the array API standard has them."""

# Written by tools/functions.py from svod_tensor/ops/standard.py and the methods: change those.

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_tensor.functions._operands import first_operand, to_tensor
from svod_tensor.ops.argument_names import explained
from svod_tensor.tensor import Tensor

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand
    from svod_tensor.ops.index_items import IndexItem
    from svod_tensor.ops.reductions_at import ReductionAt

__all__ = [
    "bincount",
    "index_add",
    "scatter",
    "scatter_add",
    "scatter_reduce",
]


@explained
def bincount(x: Operand, /, weights: Operand | None = None, minlength: int = 0, *, n_bins: int | None = None) -> Tensor:
    """How many elements are 0, 1, ... (int64), or the sum of the weights of each, in the dtype of these: shape (bins,).

    The largest element says how many bins there are, so that `x` is computed; `n_bins` says it without that.

    Args:
        weights: broadcasts to the shape of `x`.
        minlength: there are at least as many bins.
        n_bins: there are as many bins; what falls into none of them is left out.

    Raises:
        OperandError: if `x` is not of integers, or has negative ones, for which there are no bins, while
            `n_bins` is not given.
        DataDependentShapeError: in a function that is captured, without `n_bins`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.bincount(Tensor([0, 2, 2, 7]), n_bins=3).tolist()
        [1, 0, 2]
        >>> sv.bincount(Tensor([0, 2, 2]), minlength=5).tolist()
        [1, 0, 2, 0, 0]
    """
    return to_tensor(x).bincount(weights, minlength, n_bins=n_bins)


@explained
def index_add(x: Operand, /, axis: int, indices: IndexItem, value: Operand) -> Tensor:
    """`x` with slices of `value` added to its own along an axis, in torch's order of arguments.

    Args:
        axis: along which.
        indices: to which of the slices each is added; one that is named several times gets each.
        value: broadcasts to the slices that are named, and gets the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.index_add(Tensor([[0, 0], [0, 0]]), 0, Tensor([1, 1]), Tensor([[1, 2], [3, 4]])).tolist()
        [[0, 0], [4, 6]]
    """
    return first_operand(x, value).index_add(axis, indices, value)


@explained
def scatter(x: Operand, /, axis: int, indices: Tensor, value: Operand) -> Tensor:
    """`x` with `value` at the elements that `gather(axis, indices)` reads; of several for one, the last stays.

    Args:
        axis: along which.
        indices: as `gather` takes them: on other axes they may be shorter than `x`.
        value: broadcasts to the shape of `indices`, and gets the dtype of `x`.

    Raises:
        OperandError: if the indices are no integers.
        ShapeError: if `indices` has another number of axes, or is longer on another one.
        BroadcastError: if the value does not broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> sv.scatter(Tensor([[1, 2], [3, 4]]), 1, Tensor([[0], [1]]), 9).tolist()
        [[9, 2], [3, 9]]
    """
    return first_operand(x, value).scatter(axis, indices, value)


@explained
def scatter_add(x: Operand, /, axis: int, indices: Tensor, value: Operand) -> Tensor:
    """`x` with `value` added to the elements that `gather(axis, indices)` reads, in torch's order of
    arguments.

    Args:
        axis: along which.
        indices: integers; a place that is named several times gets each value.
        value: broadcasts to the shape of `indices`, and gets the dtype of `x`.

    Example:
        >>> import svod_tensor as sv
        >>> sv.scatter_add(Tensor([[0, 0]]), 1, Tensor([[1, 1]]), Tensor([[2, 3]])).tolist()
        [[0, 5]]
    """
    return first_operand(x, value).scatter_add(axis, indices, value)


@explained
def scatter_reduce(
    x: Operand, /, axis: int, indices: Tensor, value: Operand, reduce: ReductionAt, *, include_self: bool = True
) -> Tensor:
    """`x` with what is written to each place by `scatter`, reduced to one element, in torch's order of arguments.

    What is no place of `indices` stays as it is. Sums are added by kernels, the others found by numpy on the host. The
    derivative of an extreme goes to equal elements in equal parts.

    Args:
        axis: along which.
        indices: integers, negative ones counted from the end, as `gather` takes them. A position out of range is
            left out, or is an error in a plan that checks its operands.
        value: broadcasts to the shape of `indices`, and gets the dtype of `x`.
        reduce: `"sum"`, `"prod"`, `"mean"` (of integers rounded down), `"amax"` or `"amin"`.
        include_self: whether the element that was there counts.

    Raises:
        OperandError: if there is no such reduction, or none of complex numbers, or the positions are no integers.
        ShapeError: if `indices` has another number of axes.
        BroadcastError: if the values do not broadcast.

    Example:
        >>> import svod_tensor as sv
        >>> x, indices = (Tensor([1, 2, 3]), Tensor([0, 0, 2]))
        >>> sv.scatter_reduce(x, 0, indices, Tensor([4, 5, 6]), 'prod').tolist()
        [20, 2, 18]
        >>> sv.scatter_reduce(x, 0, indices, Tensor([4, 5, 6]), 'amax', include_self=False).tolist()
        [5, 2, 6]
    """
    return first_operand(x, value).scatter_reduce(axis, indices, value, reduce, include_self=include_self)
