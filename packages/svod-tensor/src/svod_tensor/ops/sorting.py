"""Sorting: short rows and a few of the largest elements by kernels (`ordering`), the rest by the array library of the host.

There an element becomes the 64-bit integer `key << 32 | position`, whose key orders like the element: so
sorting integers in any way sorts the elements stably, and carries their positions along. Making the
integers and taking them apart is part of the kernels around; the sorting itself is a function on
arrays, since loops over independent elements, which kernels are, are no way to sort many.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

from svod_dtype import float32, int32, int64, promote_types, uint32
from svod_ir import ShapeError, SInt, make_gather
from svod_ir.custom_function import ArraySpec, make_custom_function
from svod_ir.sizes import max_size
from svod_tensor._shapes import check_within, normalize_axis
from svod_tensor._shards import bring_to
from svod_tensor.ops.indexing import look_up
from svod_tensor.ops.naming import operations
from svod_tensor.ops.operands import is_scalar
from svod_tensor.ops.ordering import find_order, pack_places
from svod_tensor.ops.theme import Theme
from svod_tensor.python_functions.sort_rows import SORT

if TYPE_CHECKING:
    from svod_tensor.ops.base import Operand

__all__ = ["Sorting", "ordered_key"]

T = TypeVar("T", bound=Theme)


_MAX_COMPARED: Final = 32
"""With how many values each element is compared; among more, they are sorted and each is searched for."""


@operations
class Sorting(Theme):
    """Orders, ranks and searches."""

    __slots__ = ()

    def argsort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Self:
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
            >>> Tensor([3, 1, 2]).argsort().tolist()
            [1, 2, 0]
        """
        axis = normalize_axis("argsort", axis, self.ndim)
        return self._order(axis, self.shape[axis], is_descending=descending)

    def sort(self, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Self:
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
            >>> Tensor([3, 1, 2]).sort(descending=True).tolist()
            [3, 2, 1]
        """
        return self._in_order(self.argsort(axis, descending=descending, stable=stable), axis)

    def topk(self, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Self, Self]:
        """The `k` largest elements in order, and their positions (int64); of equal ones the first come first.

        Args:
            k: how many.
            axis: along which.
            largest: whether the largest are meant, or the smallest.

        Raises:
            AxisError: if there is no such axis.
            ShapeError: if it has less than `k` elements.

        Example:
            >>> values, positions = Tensor([3, 1, 4, 2]).topk(2)
            >>> values.tolist(), positions.tolist()
            ([4, 3], [2, 0])
        """
        axis, k = normalize_axis("topk", axis, self.ndim), operator.index(k)
        size = self.shape[axis]
        if isinstance(size, int) and not 0 <= k <= size:
            raise ShapeError(operation="topk", shape=self.shape, problem=f"has {size} elements on axis {axis}, not {k}")
        check_within("topk", axis, k, 0, size)
        order = self._order(axis, k, is_descending=largest)
        return self._in_order(order, axis), order

    def _order(self, axis: int, n: SInt, *, is_descending: bool) -> Self:
        """The positions of the first `n` elements in order along `axis`."""
        size = self.shape[axis]
        if max_size(size) >= 1 << 31:
            raise ShapeError(operation="sort", shape=self.shape, problem=f"is too long on axis {axis}")
        moved = self.moveaxis(axis, -1)
        order = self.arange(size).cast(int64).broadcast_to(moved.shape)
        if max_size(size) < 2 or self.size == 0 or n == 0:
            return order._slice_axis(order.ndim - 1, 0, n).moveaxis(-1, axis).clone()
        keys = _keys_of_complex(moved) if moved.dtype.is_complex else (ordered_key(moved),)
        if is_descending:
            # Bits turned over order the other way round, and what is equal stays so.
            keys = tuple(key.bitwise_not() for key in keys)
        found = find_order(keys, n)
        if found is not None:
            # Elements of two bytes are looked up one by one, for which a kernel would take its lanes along what is compared.
            found = found.contiguous() if self.dtype.itemsize == 2 else found
            return found.moveaxis(-1, axis)
        words = [word for key in keys for word in _words_of(key)]
        for number, word in enumerate(words, 1):
            # Words of less weight only break ties, so that all of their order is needed.
            order = order._in_order(_argsort_words(word._in_order(order, -1), n if number == len(words) else size), -1)
        return order.moveaxis(-1, axis)

    def _in_order(self, order: Self, axis: int) -> Self:
        """`take_along_axis` of positions that are known to be there."""
        return self._make(look_up(self.uop, order.uop, normalize_axis("sort", axis, self.ndim)), order)

    def searchsorted(
        self, values: Operand, side: Literal["left", "right"] = "left", *, sorter: Self | None = None
    ) -> Self:
        """Where in this sorted tensor of one axis values can be inserted (int64), in the shape of `values`.

        Args:
            values: what is looked for; dtypes promote.
            side: `"left"` for the place before equal elements, `"right"` for that behind them.
            sorter: positions that sort this tensor, as `argsort` gives them, where it is not sorted itself.

        Raises:
            ShapeError: if this tensor has not one axis.

        Example:
            >>> Tensor([1, 3, 3, 5]).searchsorted([3, 4]).tolist()
            [1, 3]
        """
        if self.ndim != 1:
            raise ShapeError(operation="searchsorted", shape=self.shape, problem="is no sorted tensor of one axis")
        if sorter is not None:
            return self.take_along_axis(sorter, 0).searchsorted(values, side)
        # A Python number is weak: it is not rounded to float32 first.
        wanted = self._pair(values)[1] if is_scalar(values) else self._wrap(values)
        dtype = promote_types(self.dtype, wanted.dtype)
        (size,) = self.shape
        # Keys compare NaNs too, which come last.
        keys, sought = ordered_key(self.cast(dtype)), ordered_key(wanted.cast(dtype))
        place = sought.zeros_like(dtype=int64)
        step = 1 << max_size(size).bit_length()
        while step := step // 2:
            end = place.add(step)
            key = keys._make(make_gather(keys.uop, end.sub(1).uop, 0), sought)
            is_before = key.lt(sought) if side == "left" else key.le(sought)
            is_inside = end.le(size if isinstance(size, int) else self._make(size.cast(int64)))
            place = is_before.logical_and(is_inside).where(end, place)
        return place

    def isin(self, values: Operand, *, invert: bool = False) -> Self:
        """Whether each element is among `values`, as bools in the shape of this tensor.

        Args:
            values: what is looked for; dtypes promote.
            invert: whether it is asked which are not.

        Example:
            >>> Tensor([1, 2, 3]).isin([2, 5]).tolist()
            [False, True, False]
        """
        x, y = self._pair(values)
        y = y.flatten()
        # Complex numbers have no order in which a place could be searched.
        if max_size(y.size) <= _MAX_COMPARED or x.dtype.is_complex:
            found = x.unsqueeze(-1).eq(y).any(-1)
        else:
            # The place before which an element belongs is its own if it is there at all.
            y = y.sort()
            last = y.size - 1
            place = y.searchsorted(x)
            place = place.minimum(last if isinstance(last, int) else self._make(last.cast(int64)))
            found = x.eq(y._make(make_gather(y.uop, place.uop, 0), place))
        return found.logical_not() if invert else found


def ordered_key(x: T) -> T:
    """Signed integers of 32 or 64 bits that order like `x`."""
    if x.dtype.is_float and x.dtype.itemsize < 4:
        x = x.cast(float32)
    if x.dtype.is_float:
        bits = x.eq(0).where(x.zeros_like(), x).bitcast(int32 if x.dtype is float32 else int64)
        # Below zero, a larger pattern is a smaller number.
        return x.isnan().where(bits.dtype.max, bits.lt(0).where(bits.bitwise_xor(bits.dtype.max), bits))
    if x.dtype.itemsize < 4:
        return x.cast(int32)
    signed = int32 if x.dtype.itemsize == 4 else int64
    return x.bitcast(signed).bitwise_xor(signed.min) if x.dtype.is_unsigned else x


def _words_of(key: T) -> tuple[T, ...]:
    """Signed 32-bit words that order like `key`: the most significant one last."""
    if key.dtype is int32:
        return (key,)
    return key.cast(uint32).bitwise_xor(1 << 31).bitcast(int32), key.rshift(32).cast(int32)


def _keys_of_complex(x: T) -> tuple[T, ...]:
    """Keys that order complex numbers as numpy does: by real parts, then by imaginary ones, those with a NaN behind the rest."""
    has_nan = x.real.isnan().where(2, 0).add(x.imag.isnan().where(1, 0)).cast(int32)
    return ordered_key(x.imag), ordered_key(x.real), has_nan


def _argsort_words(key: T, n: SInt) -> T:
    """The first `n` positions in the stable order of 32-bit words along the last axis."""
    return _sort_rows(pack_places(key, key.arange(key.shape[-1]).cast(int64)), n).bitwise_and((1 << 32) - 1)


def _sort_rows(x: T, n: SInt) -> T:
    """The `n` smallest elements of each row in order."""
    whole = x if x.sharding is None else x.to(x.sharding.devices[0])
    node = make_custom_function(SORT, [ArraySpec(int64, (*x.shape[:-1], n))], [whole.contiguous().uop], [])
    return x.from_uop(node if x.sharding is None else bring_to(node, x.uop))
