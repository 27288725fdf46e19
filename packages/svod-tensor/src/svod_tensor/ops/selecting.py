"""Elements that values choose: how many there are is known when those are computed, which these operations do at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Self, TypeVar

from svod_dtype import bool_
from svod_ir import OperandError, ShapeError
from svod_tensor._shapes import concrete_shape, normalize_axis
from svod_tensor.ops.base import TensorBase
from svod_tensor.ops.index_items import read_values
from svod_tensor.ops.naming import operations
from svod_tensor.ops.theme import Theme

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Selecting", "UniqueAllResult", "UniqueCountsResult", "UniqueInverseResult"]

T = TypeVar("T")


class UniqueAllResult(NamedTuple, Generic[T]):
    """What `unique_all` gives.

    Attributes:
        values: the different elements in order.
        indices: where each of them is first, among all elements in row-major order (int64).
        inverse_indices: for each element, its place among `values` (int64).
        counts: how often each of them is there (int64).
    """

    values: T
    indices: T
    inverse_indices: T
    counts: T


class UniqueCountsResult(NamedTuple, Generic[T]):
    """What `unique_counts` gives: two fields of `UniqueAllResult`."""

    values: T
    counts: T


class UniqueInverseResult(NamedTuple, Generic[T]):
    """What `unique_inverse` gives: two fields of `UniqueAllResult`."""

    values: T
    inverse_indices: T


@operations
class Selecting(Theme):
    """Selections whose shape depends on values, which are computed at once; errors in a captured function."""

    __slots__ = ()

    def nonzero(self) -> tuple[Self, ...]:
        """The positions (int64) of the elements that are not zero, in row-major order: a tensor for each axis.

        Raises:
            ShapeError: if there are no axes.
            DataDependentShapeError: in a function that is captured.

        Example:
            >>> rows, columns = Tensor([[0, 5], [7, 0]]).nonzero()
            >>> rows.tolist(), columns.tolist()
            ([0, 1], [1, 0])
        """
        import numpy as np

        if not self.ndim:
            raise ShapeError(operation="nonzero", shape=(), problem="has no axes: use x.reshape(1)")
        found = np.nonzero(read_values(self.cast(bool_), "nonzero"))
        return tuple(self._wrap(places.astype(np.int64)) for places in found)

    def argwhere(self) -> Self:
        """The positions (int64) of the elements that are not zero, in row-major order: shape (n, axes).

        Raises:
            DataDependentShapeError: in a function that is captured.

        Example:
            >>> Tensor([[0, 5], [7, 0]]).argwhere().tolist()
            [[0, 1], [1, 0]]
        """
        import numpy as np

        return self._wrap(np.argwhere(read_values(self.cast(bool_), "argwhere")).astype(np.int64))

    def compress(self, condition: Operand, axis: int | None = None) -> Self:
        """The slices along an axis where `condition`, which has one axis, holds; it may be shorter than the axis.

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
            return self.flatten().compress(condition, 0)
        axis = normalize_axis("compress", axis, self.ndim)
        (size,) = concrete_shape("compress", (self.shape[axis],))
        known = read_values(condition, "compress")
        if known.ndim != 1 or len(known) > size:
            problem = f"is no condition of one axis for {size} slices"
            raise ShapeError(operation="compress", shape=known.shape, problem=problem)
        return self.take(np.nonzero(known)[0].astype(np.int64), axis)

    def unique_all(self) -> UniqueAllResult[Self]:
        """The distinct elements in order, the position of the first of each, the index of each element among them, and their counts.

        A NaN differs from every other, and is among the last.

        Raises:
            DataDependentShapeError: in a function that is captured.

        Example:
            >>> found = Tensor([3, 1, 3]).unique_all()
            >>> found.values.tolist(), found.indices.tolist(), found.inverse_indices.tolist(), found.counts.tolist()
            ([1, 3], [1, 0], [1, 0, 1], [1, 2])
        """
        import numpy as np

        flat = self.flatten()
        (size,) = concrete_shape("unique_all", flat.shape)
        order = flat.argsort().detach()
        in_order = flat.take(order)
        if not size:
            return UniqueAllResult(in_order, order, order.reshape(self.shape), order.clone())
        is_new = in_order._slice_axis(0, 1, size).ne(in_order._slice_axis(0, 0, size - 1))
        first = np.concatenate([[0], np.flatnonzero(read_values(is_new, "unique")) + 1]).astype(np.int64)
        counts = np.diff(first, append=size).astype(np.int64)
        number = self._wrap(np.repeat(np.arange(len(first)), counts).astype(np.int64))
        inverse = order.zeros_like().put_along_axis(order, number, 0)
        return UniqueAllResult(
            in_order.take(first), order.take(first), inverse.reshape(self.shape), self._wrap(counts)
        )  # fmt: skip

    def unique_counts(self) -> UniqueCountsResult[Self]:
        """The distinct elements in order, and their counts (int64).

        Raises:
            DataDependentShapeError: in a function that is captured.

        Example:
            >>> values, counts = Tensor([3, 1, 3]).unique_counts()
            >>> values.tolist(), counts.tolist()
            ([1, 3], [1, 2])
        """
        found = self.unique_all()
        return UniqueCountsResult(found.values, found.counts)

    def unique_inverse(self) -> UniqueInverseResult[Self]:
        """The distinct elements in order, and the index of each element among them (int64), in the shape of this tensor.

        Raises:
            DataDependentShapeError: in a function that is captured.

        Example:
            >>> values, places = Tensor([3, 1, 3]).unique_inverse()
            >>> values.tolist(), places.tolist()
            ([1, 3], [1, 0, 1])
        """
        found = self.unique_all()
        return UniqueInverseResult(found.values, found.inverse_indices)

    def unique_values(self) -> Self:
        """The distinct elements in order. A NaN differs from every other, and is among the last.

        Raises:
            DataDependentShapeError: in a function that is captured.

        Example:
            >>> Tensor([[3, 1], [3, 2]]).unique_values().tolist()
            [1, 2, 3]
        """
        return self.unique_all().values

    def _repeat_each(self, repeats: TensorBase | Sequence[int], axis: int) -> Self:
        """Each slice along an axis as often as its element of `repeats` says."""
        import numpy as np

        (size,) = concrete_shape("repeat", (self.shape[axis],))
        counts = read_values(repeats, "repeat")
        if counts.dtype.kind not in "iu" and counts.size:
            raise OperandError(operation="repeat", found=f"repeats of {counts.dtype}", expected="integers")
        times = counts.astype(np.int64)
        if times.ndim > 1 or times.size not in (1, size) or (times < 0).any():
            problem = f"is no number of repetitions for each of {size} elements"
            raise ShapeError(operation="repeat", shape=counts.shape, problem=problem)
        each = np.broadcast_to(times.reshape(-1), (size,))
        return self.take(np.repeat(np.arange(size), each).astype(np.int64), axis)
