"""Sorting, by the array library of the host.

An element becomes the 64-bit integer `key << 32 | position`, whose key orders like the element: so
sorting integers in any way sorts the elements stably, and carries their positions along. Making the
integers and taking them apart is part of the kernels around; the sorting itself is a function on
arrays, since loops over independent elements, which kernels are, are no way to sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, TypeVar

from svod_dtype import float32, int32, int64, uint32, uint64
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.errors import AxisError, ShapeError
from svod_ir.sizes import max_size, normalize_size
from svod_ir.uop import SInt
from svod_tensor.ops.random import Random
from svod_tensor.shapes import check_within, normalize_axis
from svod_tensor.shards import bring_to

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Sorting"]

T = TypeVar("T", bound="Sorting")

_SORT: Final = "svod.sort"

_GROUPS_PER_RESULT: Final = 16
_LEAST_GROUPS: Final = 1024
_LEAST_GROUP_SIZE: Final = 4
"""Of what shape a row's groups are where a few of its elements are looked for; of shorter rows, all are partitioned."""


class Sorting(Random):
    """Orders and ranks."""

    __slots__ = ()

    def argsort(self, axis: int = -1, *, descending: bool = False) -> Self:
        """The positions (int64) of the elements in order along `axis`; equal elements keep their order.

        NaN counts as the largest value.
        """
        axis = normalize_axis("argsort", axis, self.ndim)
        return self._order(axis, self.shape[axis], is_descending=descending)

    def sort(self, axis: int = -1, *, descending: bool = False) -> tuple[Self, Self]:
        """The elements in order along `axis`, and their positions."""
        order = self.argsort(axis, descending=descending)
        return self._in_order(order, axis), order

    def topk(self, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Self, Self]:
        """The `k` largest (or smallest) elements along `axis`, in order, and their positions."""
        axis = normalize_axis("topk", axis, self.ndim)
        size = self.shape[axis]
        if isinstance(size, int) and not 0 <= k <= size:
            raise ShapeError(operation="topk", shape=self.shape, problem=f"has {size} elements on axis {axis}, not {k}")
        check_within("topk", axis, k, 0, size)
        order = self._order(axis, k, is_descending=largest)
        return self._in_order(order, axis), order

    def median(self, axis: int = -1) -> Self:
        """The middle element in order along `axis`; the lower of the two where there are two."""
        axis = normalize_axis("median", axis, self.ndim)
        size = self.shape[axis]
        if isinstance(size, int) and not size:
            raise AxisError(operation="median of an empty axis", axis=axis, ndim=self.ndim)
        check_within("median", axis, size, 1, None)
        values, _ = self.sort(axis)
        middle = normalize_size((size - 1) // 2)
        return values._slice_axis(axis, middle, middle + 1).squeeze(axis)

    def _order(self, axis: int, n: SInt, *, is_descending: bool) -> Self:
        """The positions of the first `n` elements in order along `axis`."""
        size = self.shape[axis]
        if max_size(size) >= 1 << 31:
            raise ShapeError(operation="sort", shape=self.shape, problem=f"is too long on axis {axis}")
        moved = self.moveaxis(axis, -1)
        order = self.arange(size).cast(int64).broadcast_to(moved.shape)
        if max_size(size) < 2 or self.size == 0 or n == 0:
            return order._slice_axis(order.ndim - 1, 0, n).moveaxis(-1, axis)
        words = _ordered_words(moved)
        for number, word in enumerate(words, 1):
            key = word._in_order(order, -1)
            key = key.bitwise_not() if is_descending else key
            # Words of less weight only break ties, so that all of their order is needed.
            order = order._in_order(_argsort_words(key, n if number == len(words) else size), -1)
        return order.moveaxis(-1, axis)

    def _in_order(self, order: Self, axis: int) -> Self:
        """`take_along_axis` of positions that are known to be there."""
        return self._look_up(order.uop, order, normalize_axis("sort", axis, self.ndim))


def _ordered_words(x: T) -> tuple[T, ...]:
    """Signed 32-bit words that order like `x`: the most significant one last."""
    if x.dtype.is_float and x.dtype.itemsize < 4:
        x = x.cast(float32)
    if x.dtype.is_float:
        bits = x.eq(0).where(x.zeros_like(), x).bitcast(int32 if x.dtype is float32 else int64)
        # Below zero, a larger pattern is a smaller number.
        x = x.isnan().where(bits.dtype.max, bits.lt(0).where(bits.bitwise_xor(bits.dtype.max), bits))
    if x.dtype.itemsize < 4 or x.dtype is int32:
        return (x.cast(int32),)
    flipped = 1 << 31
    if x.dtype is uint32:
        return (x.bitwise_xor(flipped).bitcast(int32),)
    wide = x.bitcast(int64).bitwise_xor(int64.min) if x.dtype is uint64 else x
    low = wide.cast(uint32).bitwise_xor(flipped).bitcast(int32)
    return low, wide.rshift(32).cast(int32)


def _argsort_words(key: T, n: SInt) -> T:
    """The first `n` positions in the stable order of 32-bit words along the last axis."""
    packed = key.cast(int64).lshift(32).bitwise_or(key.arange(key.shape[-1]).cast(int64))
    return _sort_rows(packed, n).bitwise_and((1 << 32) - 1)


def _sort_rows(x: T, n: SInt) -> T:
    """The `n` smallest elements of each row in order."""
    from svod_tensor.array_functions import register_custom_function  # loads the runtime

    register_custom_function(_SORT, _sort)
    whole = x if x.sharding is None else x.to(x.sharding.devices[0])
    node = make_custom_function(_SORT, [ArraySpec(int64, (*x.shape[:-1], n))], [whole.contiguous().uop], [])
    return x.from_uop(node if x.sharding is None else bring_to(node, x.uop))


def _sort(out: NDArray[np.int64], x: NDArray[np.int64]) -> None:
    n, size = out.shape[-1], x.shape[-1]
    n_groups = max(_GROUPS_PER_RESULT * n, _LEAST_GROUPS)
    if size >= _LEAST_GROUP_SIZE * n_groups:
        for row, result in zip(x.reshape(-1, size), out.reshape(-1, n), strict=True):
            result[:] = _select(row, n, n_groups)
        return
    if n < size:
        x = x.copy()
        x.partition(n - 1, axis=-1)
    out[...] = x[..., :n]
    out.sort(axis=-1)


def _select(row: NDArray[np.int64], n: int, n_groups: int) -> NDArray[np.int64]:
    """The `n` smallest elements of a long row, in order.

    Of the smallest ones of `n_groups` groups, `n` are at most as large as the n-th: so are the results, and few others.
    """
    import numpy as np

    depth = row.size // n_groups
    least = row[: depth * n_groups].reshape(depth, n_groups).min(0)
    least.partition(n - 1)
    found = row[row <= least[n - 1]]
    found.partition(n - 1)
    return np.sort(found[:n])
