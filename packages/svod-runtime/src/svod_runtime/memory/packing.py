"""Packing of blocks into one arena, so that simultaneously live blocks do not overlap.

This is dynamic storage allocation with known live ranges, which is NP-hard. Blocks are placed
sequentially at the lowest free offset, in several orders, and the smallest result is kept. The peak
of live bytes is a lower bound; the search ends close to it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

__all__ = ["Block", "Packing", "get_peak_bytes", "pack"]

_TOLERANCE: Final = 1.02
"""Ratio to the lower bound below which a packing is not improved."""
_MAX_TRIES: Final = 8
_MAX_PLACEMENTS: Final = 8_000
"""Limits on the orders tried after the first, and on the blocks placed for them: some tenths of a
second.
"""
_MAX_ROUNDS: Final = 40
"""Number of attempts to find a common free offset before a block goes above all overlapping ones.
"""


class Block(NamedTuple):
    """Size in bytes and live range, from `first` to `last` inclusive."""

    size: int
    first: int
    last: int


class Packing(NamedTuple):
    """Offset of each block, and total size."""

    offsets: Sequence[int]
    size: int


def get_peak_bytes(blocks: Sequence[Block]) -> int:
    """Return the peak of live bytes: a lower bound of every packing."""
    change = [0] * (2 + max((b.last for b in blocks), default=-1))
    for block in blocks:
        change[block.first] += block.size
        change[block.last + 1] -= block.size
    return max(accumulate(change))


def pack(blocks: Sequence[Block]) -> Packing:
    """Choose an offset for each block."""
    target = get_peak_bytes(blocks) * _TOLERANCE
    by_size, *alternatives = _make_orders(blocks)
    best = _place_in_order(blocks, by_size)
    n_tries = min(_MAX_TRIES, _MAX_PLACEMENTS // max(1, len(blocks)))
    for order in alternatives[:n_tries]:
        if best.size > target:
            best = min(best, _place_in_order(blocks, order), key=lambda p: p.size)
    return _raise_highest(blocks, by_size, best, target, n_tries - len(alternatives))


def _make_orders(blocks: Sequence[Block]) -> list[list[int]]:
    """Placement orders: by size, by length of the live range, by area, and by time."""
    indices = range(len(blocks))
    return [
        sorted(indices, key=lambda n: (-blocks[n].size, blocks[n].first)),
        sorted(indices, key=lambda n: (-_duration(blocks[n]), -blocks[n].size)),
        sorted(indices, key=lambda n: (-blocks[n].size * _duration(blocks[n]), blocks[n].first)),
        sorted(indices, key=lambda n: (blocks[n].first, -blocks[n].size)),
    ]


def _raise_highest(
    blocks: Sequence[Block], order: list[int], best: Packing, target: float, n_tries: int
) -> Packing:
    """Repeatedly move the blocks that end at the top to the front of the order."""
    current = best
    for _ in range(n_tries):
        if best.size <= target:
            break
        is_highest = [
            offset + block.size == current.size
            for offset, block in zip(current.offsets, blocks, strict=True)
        ]
        order = sorted(order, key=lambda n: not is_highest[n])
        current = _place_in_order(blocks, order)
        best = min(best, current, key=lambda p: p.size)
    return best


def _duration(block: Block) -> int:
    return block.last - block.first + 1


def _place_in_order(blocks: Sequence[Block], order: Sequence[int]) -> Packing:
    space = _FreeSpace(1 + max((b.last for b in blocks), default=0))
    offsets = [0] * len(blocks)
    for index in order:
        offsets[index] = space.allocate(blocks[index])
    return Packing(
        offsets,
        max(
            (offset + block.size for offset, block in zip(offsets, blocks, strict=True)), default=0
        ),
    )


class _FreeSpace:
    """Occupied intervals over time: a segment tree, so that a long live range is stored in few
    nodes.

    A node stores the intervals of blocks inserted at the node itself, which are occupied throughout
    its times, and the intervals occupied at any of its times.
    """

    def __init__(self, n_times: int) -> None:
        self._n_leaves = 1 << (n_times - 1).bit_length()
        self._throughout: dict[int, _Intervals] = {}
        self._at_any: dict[int, _Intervals] = {}

    def allocate(self, block: Block) -> int:
        """Reserve the lowest offset that is free throughout the live range of `block`, and return
        it.
        """
        nodes = self._cover(block.first, block.last)
        above = {parent for node in nodes for parent in _iter_parents(node)}
        occupied = [t for node in nodes if (t := self._at_any.get(node)) is not None]
        occupied += [t for node in above if (t := self._throughout.get(node)) is not None]
        start = _get_common_offset(occupied, block.size)
        if block.size:
            for node in nodes:
                self._throughout.setdefault(node, _Intervals()).add(start, start + block.size)
                self._at_any.setdefault(node, _Intervals()).add(start, start + block.size)
            for node in above:
                self._at_any.setdefault(node, _Intervals()).add(start, start + block.size)
        return start

    def _cover(self, first: int, last: int) -> list[int]:
        """Fewest nodes that cover exactly these times."""
        nodes: list[int] = []
        low, high = first + self._n_leaves, last + self._n_leaves + 1
        while low < high:
            if low & 1:
                nodes.append(low)
                low += 1
            if high & 1:
                high -= 1
                nodes.append(high)
            low >>= 1
            high >>= 1
        return nodes


def _get_common_offset(occupied: Sequence[_Intervals], size: int) -> int:
    """Lowest offset that is free in all of `occupied`, or an offset above all after too many
    rounds.
    """
    start = 0
    for _ in range(_MAX_ROUNDS):
        candidate = start
        for intervals in occupied:
            candidate = intervals.get_free(candidate, size)
        if candidate == start:
            return start
        start = candidate
    return max(intervals.ends[-1] for intervals in occupied)


def _iter_parents(node: int) -> Iterator[int]:
    while node > 1:
        node >>= 1
        yield node


class _Intervals:
    """Sorted disjoint intervals."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def get_free(self, start: int, size: int) -> int:
        """Return the lowest offset, from `start` on, with `size` free bytes."""
        position = bisect_right(self.ends, start)
        while position < len(self.starts) and self.starts[position] < start + size:
            start = self.ends[position]
            position += 1
        return start

    def add(self, start: int, end: int) -> None:
        """Mark the bytes from `start` to `end` as occupied."""
        # Adjacent intervals merge as well, which keeps the lists short.
        low, high = bisect_left(self.ends, start), bisect_right(self.starts, end)
        if low < high:
            start, end = min(start, self.starts[low]), max(end, self.ends[high - 1])
        self.starts[low:high] = [start]
        self.ends[low:high] = [end]
