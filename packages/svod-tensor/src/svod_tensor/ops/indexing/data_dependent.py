"""Operations with a data-dependent shape: they realize their operand, and raise in a captured
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
    """Result of `unique_all`.

    Attributes:
        values: the sorted unique elements.
        indices: index of the first occurrence of each value in the flattened tensor (int64).
        inverse_indices: for each element, its index in `values` (int64).
        counts: number of occurrences of each value (int64).
    """

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCountsResult(NamedTuple):
    """Result of `unique_counts`: two fields of `UniqueAllResult`."""

    values: Tensor
    counts: Tensor


class UniqueInverseResult(NamedTuple):
    """Result of `unique_inverse`: two fields of `UniqueAllResult`."""

    values: Tensor
    inverse_indices: Tensor


@operation(test="test_selecting.py::test_nonzero_agrees_with_numpy", standard=True)
def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the indices (int64) of the nonzero elements, in row-major order: a tensor per axis.

    Raises:
        ShapeError: if `x` is 0-d.
        DataDependentShapeError: in a captured function.

    Example:
        >>> import svod_tensor as sv
        >>> rows, columns = sv.nonzero(sv.Tensor([[0, 5], [7, 0]]))
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
    # A byte for each element is copied to the host, whatever the dtype.
    nonzero_indices = np.nonzero(read_values(x.cast(bool_), "nonzero"))
    return tuple(as_tensor(axis_indices.astype(np.int64), x) for axis_indices in nonzero_indices)


@operation(test="test_selecting.py::test_nonzero_agrees_with_numpy")
def argwhere(x: Tensor, /) -> Tensor:
    """Return the indices (int64) of the nonzero elements, in row-major order: shape (n, ndim).

    Raises:
        DataDependentShapeError: in a captured function.

    Example:
        >>> import svod_tensor as sv
        >>> sv.argwhere(sv.Tensor([[0, 5], [7, 0]])).tolist()
        [[0, 1], [1, 0]]
    """
    import numpy as np

    return as_tensor(np.argwhere(read_values(x.cast(bool_), "argwhere")).astype(np.int64), x)


@operation(test="test_selecting.py::test_slices_are_selected_by_a_condition", is_function=False)
def compress(x: Tensor, /, condition: Operand, axis: int | None = None) -> Tensor:
    """Return the slices along an axis where the 1-d `condition` is True; it may be shorter than the
    axis.

    Args:
        condition: 1-d booleans, one for each slice.
        axis: the axis to select along; None flattens first.

    Raises:
        AxisError: if `axis` is out of bounds.
        ShapeError: if `condition` is not 1-d, or longer than the axis.
        DataDependentShapeError: in a captured function, if the condition is a tensor.

    Example:
        >>> from svod_tensor import Tensor
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


@operation(test="test_selecting.py::test_unique_elements_agree_with_numpy", standard=True)
def unique_all(x: Tensor, /) -> UniqueAllResult:
    """Find the sorted unique elements, the index of their first occurrences, the inverse indices,
    and their counts.

    NaNs are distinct from each other, and come last.

    Returns:
        `values` of shape (k,), `indices` of the first occurrences in the flattened tensor (k,),
        `inverse_indices` into `values` in the shape of `x`, and `counts` (k,); the latter three are
        int64.

    Raises:
        DataDependentShapeError: in a captured function.

    Example:
        >>> import svod_tensor as sv
        >>> result = sv.unique_all(sv.Tensor([3, 1, 3]))
        >>> (result.values.tolist(), result.indices.tolist(), result.inverse_indices.tolist(), result.counts.tolist())
        ([1, 3], [1, 0], [1, 0, 1], [1, 2])
    """
    import numpy as np

    flat = x.flatten()
    (size,) = concrete_shape("unique_all", flat.shape)
    order = flat.argsort().detach()
    in_order = flat.take(order)
    if not size:
        return UniqueAllResult(in_order, order, order.reshape(x.shape), order.clone())
    # NaN differs from NaN, so that each is a value of its own, as the array API standard says. Only
    # this mask is read; the elements stay on their device.
    is_new = slice_axis(in_order, 0, 1, size).ne(slice_axis(in_order, 0, 0, size - 1))
    first = np.concatenate([[0], np.flatnonzero(read_values(is_new, "unique")) + 1]).astype(
        np.int64
    )
    counts = np.diff(first, append=size).astype(np.int64)
    inverse_in_order = as_tensor(np.repeat(np.arange(len(first)), counts).astype(np.int64), x)
    # Back from sorted to original order: the inverse permutation.
    inverse = order.zeros_like().put_along_axis(order, inverse_in_order, 0)
    return UniqueAllResult(
        in_order.take(first), order.take(first), inverse.reshape(x.shape), as_tensor(counts, x)
    )


@operation(test="test_selecting.py::test_unique_elements_agree_with_numpy", standard=True)
def unique_counts(x: Tensor, /) -> UniqueCountsResult:
    """Find the sorted unique elements and their counts (int64).

    Raises:
        DataDependentShapeError: in a captured function.

    Example:
        >>> import svod_tensor as sv
        >>> values, counts = sv.unique_counts(sv.Tensor([3, 1, 3]))
        >>> (values.tolist(), counts.tolist())
        ([1, 3], [1, 2])
    """
    result = x.unique_all()
    return UniqueCountsResult(result.values, result.counts)


@operation(test="test_selecting.py::test_unique_elements_agree_with_numpy", standard=True)
def unique_inverse(x: Tensor, /) -> UniqueInverseResult:
    """Find the sorted unique elements and the inverse indices (int64), in the shape of `x`.

    Raises:
        DataDependentShapeError: in a captured function.

    Example:
        >>> import svod_tensor as sv
        >>> values, inverse = sv.unique_inverse(sv.Tensor([3, 1, 3]))
        >>> (values.tolist(), inverse.tolist())
        ([1, 3], [1, 0, 1])
    """
    result = x.unique_all()
    return UniqueInverseResult(result.values, result.inverse_indices)


@operation(test="test_selecting.py::test_unique_elements_agree_with_numpy", standard=True)
def unique_values(x: Tensor, /) -> Tensor:
    """Find the sorted unique elements. NaNs are distinct from each other, and come last.

    Raises:
        DataDependentShapeError: in a captured function.

    Example:
        >>> import svod_tensor as sv
        >>> sv.unique_values(sv.Tensor([[3, 1], [3, 2]])).tolist()
        [1, 2, 3]
    """
    return x.unique_all().values


def repeat_each(x: Tensor, repeats: TensorBase | Sequence[int], axis: int) -> Tensor:
    """Repeat each slice along an axis by its element of `repeats`."""
    import numpy as np

    (size,) = concrete_shape("repeat", (x.shape[axis],))
    counts = read_values(repeats, "repeat")
    if counts.dtype.kind not in "iu" and counts.size:
        raise OperandError(
            operation="repeat", found=f"repeats of {counts.dtype}", expected="integers"
        )
    times = counts.astype(np.int64)
    if times.ndim > 1 or times.size not in (1, size) or (times < 0).any():
        problem = f"repeats must be one or {size} non-negative counts"
        raise ShapeError(operation="repeat", shape=counts.shape, problem=problem)
    # One count serves all slices.
    each = np.broadcast_to(times.reshape(-1), (size,))
    return x.take(np.repeat(np.arange(size), each).astype(np.int64), axis)
