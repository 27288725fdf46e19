"""Sorting, by a bitonic network on packed keys.

An element becomes the 64-bit integer `key << 32 | position`, whose key orders like the element: so
one comparison sorts stably and carries the position along. A stage of the network compares each
element with the one whose position differs in one bit; which bit is read from memory, so that all
stages are one kernel, compiled once.

Source: Batcher, Sorting networks and their applications (1968).
"""

from __future__ import annotations

from typing import Self, TypeVar

from svod_dtype import float32, int32, int64, uint32, uint64
from svod_ir.errors import AxisError, ShapeError
from svod_ir.sizes import max_size, normalize_size
from svod_tensor.ops.random import Random
from svod_tensor.shapes import check_within, normalize_axis
from svod_tensor.shards import bring_to

__all__ = ["Sorting"]

T = TypeVar("T", bound="Sorting")


class Sorting(Random):
    """Orders and ranks."""

    __slots__ = ()

    def argsort(self, axis: int = -1, *, descending: bool = False) -> Self:
        """The positions (int64) of the elements in order along `axis`; equal elements keep their order.

        NaN counts as the largest value.
        """
        axis = normalize_axis("argsort", axis, self.ndim)
        size = self.shape[axis]
        if max_size(size) >= 1 << 31:
            raise ShapeError(operation="argsort", shape=self.shape, problem=f"is too long on axis {axis}")
        moved = self.moveaxis(axis, -1)
        order = self.arange(size).cast(int64).broadcast_to(moved.shape)
        if max_size(size) < 2 or self.size == 0:
            return order.moveaxis(-1, axis)
        for word in _ordered_words(moved):
            key = word.take_along_axis(order, -1) if word.ndim else word
            key = key.bitwise_not() if descending else key
            order = order.take_along_axis(_argsort_words(key), -1)
        return order.moveaxis(-1, axis)

    def sort(self, axis: int = -1, *, descending: bool = False) -> tuple[Self, Self]:
        """The elements in order along `axis`, and their positions."""
        order = self.argsort(axis, descending=descending)
        return self.take_along_axis(order, axis), order

    def topk(self, k: int, axis: int = -1, *, largest: bool = True) -> tuple[Self, Self]:
        """The `k` largest (or smallest) elements along `axis`, in order, and their positions."""
        axis = normalize_axis("topk", axis, self.ndim)
        size = self.shape[axis]
        if isinstance(size, int) and not 0 <= k <= size:
            raise ShapeError(operation="topk", shape=self.shape, problem=f"has {size} elements on axis {axis}, not {k}")
        check_within("topk", axis, k, 0, size)
        order = self.argsort(axis, descending=largest)._slice_axis(axis, 0, k)
        return self.take_along_axis(order, axis), order

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


def _argsort_words(key: T) -> T:
    """The stable order of 32-bit words along the last axis."""
    size = key.shape[-1]
    # A symbolic axis is sorted in the room that its largest size needs: what is beyond it comes last.
    width = 1 << (max_size(size) - 1).bit_length()
    packed = key.cast(int64).lshift(32).bitwise_or(key.arange(size).cast(int64))
    packed = packed.pad(*((0, 0),) * (key.ndim - 1), (0, width - size), value=int64.max).contiguous()
    position = key.arange(width)
    block = 2
    while block <= width:
        step = block // 2
        while step:
            packed = _compare(packed, position, block, step)
            step //= 2
        block *= 2
    return packed[..., :size].bitwise_and((1 << 32) - 1)


def _compare(packed: T, position: T, block: int, step: int) -> T:
    """One stage: the smaller of each pair first in every other block, last in the others."""
    numbers = packed.from_uop(bring_to(type(packed)([block, step]).uop, packed.uop))
    partner = packed.take(position.bitwise_xor(numbers[1]), -1)
    is_first = position.bitwise_and(numbers[1]).eq(0)
    is_ascending = position.bitwise_and(numbers[0]).eq(0)
    return is_first.eq(is_ascending).where(packed.minimum(partner), packed.maximum(partner)).contiguous()
