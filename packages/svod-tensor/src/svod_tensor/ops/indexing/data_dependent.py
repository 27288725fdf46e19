"""Selections whose shape depends on values, which are computed at once; errors in a captured
function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from svod_dtype import bool_
from svod_ir import OperandError, ShapeError, format_shape
from svod_tensor._shapes import concrete_shape, normalize_axis
from svod_tensor.ops.core.base import TensorBase
from svod_tensor.ops.core.operands import as_tensor, slice_axis
from svod_tensor.ops.core.operation import operation
from svod_tensor.ops.indexing.index_items import read_values

if TYPE_CHECKING:
    from svod_tensor.ops.core.base import Operand
    from svod_tensor.tensor import Tensor

__all__ = [
    "UniqueAllResult",
    "UniqueCountsResult",
    "UniqueInverseResult",
    "argwhere",
    "compress",
    "nonzero",
    "repeat_each",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAllResult(NamedTuple):
    """What `unique_all` gives.

    Attributes:
        values: the different elements in order.
        indices: where each of them is first, among all elements in row-major order (int64).
        inverse_indices: for each element, its place among `values` (int64).
        counts: how often each of them is there (int64).
    """

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` gives: two fields of `UniqueAllResult`."""

    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` gives: two fields of `UniqueAllResult`."""

    values: Tensor
    inverse_indices: Tensor


@operation(
    test="test_selecting.py::test_positions_of_what_is_not_zero_agree_with_numpy", standard=True
)
def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The positions (int64) of the elements that are not zero, in row-major order: a tensor for
    each axis.

    Raises:
        ShapeError: if there are no axes.
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> rows, columns = sv.nonzero(Tensor([[0, 5], [7, 0]]))
        >>> (rows.tolist(), columns.tolist())
        ([0, 1], [1, 0])
    """
    import numpy as np

    if not x.ndim:
        raise ShapeError(
            operation="nonzero",
            shape=(),
            problem="nonzero of a 0-d tensor is not allowed: use x.reshape(1)",
        )
    found = np.nonzero(read_values(x.cast(bool_), "nonzero"))
    return tuple(as_tensor(places.astype(np.int64), x) for places in found)


@operation(test="test_selecting.py::test_positions_of_what_is_not_zero_agree_with_numpy")
def argwhere(x: Tensor, /) -> Tensor:
    """The positions (int64) of the elements that are not zero, in row-major order: shape (n, axes).

    Raises:
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> sv.argwhere(Tensor([[0, 5], [7, 0]])).tolist()
        [[0, 1], [1, 0]]
    """
    import numpy as np

    return as_tensor(np.argwhere(read_values(x.cast(bool_), "argwhere")).astype(np.int64), x)


@operation(test="test_selecting.py::test_slices_are_selected_by_a_condition", is_function=False)
def compress(x: Tensor, /, condition: Operand, axis: int | None = None) -> Tensor:
    """The slices along an axis where `condition`, which has one axis, holds; it may be shorter than
    the axis.

    Args:
        condition: a bool for each slice.
        axis: along which; None flattens first.

    Raises:
        ShapeError: if the condition has not one axis, or is longer.
        DataDependentShapeError: in a function that is captured, if the condition is a tensor.

    Example:
        >>> Tensor([[1, 2], [3, 4]]).compress([False, True], axis=0).tolist()
        [[3, 4]]
    """
    import numpy as np

    if axis is None:
        return x.flatten().compress(condition, 0)
    axis = normalize_axis("compress", axis, x.ndim)
    (size,) = concrete_shape("compress", (x.shape[axis],))
    known = read_values(condition, "compress")
    if known.ndim != 1 or len(known) > size:
        problem = f"condition must be 1-d with at most {size} elements: {format_shape(known.shape)}"
        raise ShapeError(operation="compress", shape=known.shape, problem=problem)
    return x.take(np.nonzero(known)[0].astype(np.int64), axis)


@operation(test="test_selecting.py::test_different_elements_agree_with_numpy", standard=True)
def unique_all(x: Tensor, /) -> UniqueAllResult:
    """The distinct elements in order, the position of the first of each, the index of each element
    among them, and their counts.

    A NaN differs from every other, and is among the last.

    Raises:
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> found = sv.unique_all(Tensor([3, 1, 3]))
        >>> (found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist(), found.counts.tolist())
        ([1, 3], [1, 0], [1, 0, 1], [1, 2])
    """
    import numpy as np

    flat = x.flatten()
    (size,) = concrete_shape("unique_all", flat.shape)
    order = flat.argsort().detach()
    in_order = flat.take(order)
    if not size:
        return UniqueAllResult(in_order, order, order.reshape(x.shape), order.clone())
    is_new = slice_axis(in_order, 0, 1, size).ne(slice_axis(in_order, 0, 0, size - 1))
    first = np.concatenate([[0], np.flatnonzero(read_values(is_new, "unique")) + 1]).astype(
        np.int64
    )
    counts = np.diff(first, append=size).astype(np.int64)
    number = as_tensor(np.repeat(np.arange(len(first)), counts).astype(np.int64), x)
    inverse = order.zeros_like().put_along_axis(order, number, 0)
    return UniqueAllResult(
        in_order.take(first), order.take(first), inverse.reshape(x.shape), as_tensor(counts, x)
    )


@operation(test="test_selecting.py::test_different_elements_agree_with_numpy", standard=True)
def unique_counts(x: Tensor, /) -> UniqueCountsResult:
    """The distinct elements in order, and their counts (int64).

    Raises:
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> values, counts = sv.unique_counts(Tensor([3, 1, 3]))
        >>> (values.tolist(), counts.tolist())
        ([1, 3], [1, 2])
    """
    found = x.unique_all()
    return UniqueCountsResult(found.values, found.counts)


@operation(test="test_selecting.py::test_different_elements_agree_with_numpy", standard=True)
def unique_inverse(x: Tensor, /) -> UniqueInverseResult:
    """The distinct elements in order, and the index of each element among them (int64), in the
    shape of `x`.

    Raises:
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> values, places = sv.unique_inverse(Tensor([3, 1, 3]))
        >>> (values.tolist(), places.tolist())
        ([1, 3], [1, 0, 1])
    """
    found = x.unique_all()
    return UniqueInverseResult(found.values, found.inverse_indices)


@operation(test="test_selecting.py::test_different_elements_agree_with_numpy", standard=True)
def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements in order. A NaN differs from every other, and is among the last.

    Raises:
        DataDependentShapeError: in a function that is captured.

    Example:
        >>> import svod_tensor as sv
        >>> sv.unique_values(Tensor([[3, 1], [3, 2]])).tolist()
        [1, 2, 3]
    """
    return x.unique_all().values


def repeat_each(x: Tensor, repeats: TensorBase | Sequence[int], axis: int) -> Tensor:
    """Each slice along an axis as often as its element of `repeats` says."""
    import numpy as np

    (size,) = concrete_shape("repeat", (x.shape[axis],))
    counts = read_values(repeats, "repeat")
    if counts.dtype.kind not in "iu" and counts.size:
        raise OperandError(
            operation="repeat", found=f"repeats of {counts.dtype}", expected="integers"
        )
    times = counts.astype(np.int64)
    if times.ndim > 1 or times.size not in (1, size) or (times < 0).any():
        problem = f"repeats must be one count or {size} counts, and not negative"
        raise ShapeError(operation="repeat", shape=counts.shape, problem=problem)
    each = np.broadcast_to(times.reshape(-1), (size,))
    return x.take(np.repeat(np.arange(size), each).astype(np.int64), axis)
