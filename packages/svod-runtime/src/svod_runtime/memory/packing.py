"""Packing: where blocks of bytes lie in one piece of memory, so that those that live at the same
time do not meet.

This is dynamic storage allocation with known lifetimes, which is NP-hard: blocks are placed one
after the other at the lowest free place, in several orders, and the best result counts. No result
is shorter than the largest sum of sizes at any time; the search ends when that is nearly reached.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

__all__ = ["Block", "Packing", "get_most_live", "pack"]

_NEAR_ENOUGH: Final = 1.02
"""A packing that is longer than the bound by no more than this is not improved."""
_MAX_TRIES: Final = 8
_MAX_PLACEMENTS: Final = 8_000
"""How many orders are tried after the first, and how many blocks placed for that: some tenths of a
second.
"""
_MAX_ROUNDS: Final = 40
"""How often a place is raised before a block goes above all that it must not meet."""


class Block(NamedTuple):
    """So many bytes from one time to another, both included."""

    size: int
    first: int
    last: int


class Packing(NamedTuple):
    """The start of each block, and the end of the last one."""

    starts: Sequence[int]
    size: int


def get_most_live(blocks: Sequence[Block]) -> int:
    """The largest sum of sizes at any time: no packing takes less."""
    change = [0] * (2 + max((b.last for b in blocks), default=-1))
    for block in blocks:
        change[block.first] += block.size
        change[block.last + 1] -= block.size
    return max(accumulate(change))


def pack(blocks: Sequence[Block]) -> Packing:
    """A place for each block."""
    enough = get_most_live(blocks) * _NEAR_ENOUGH
    by_size, *others = _make_orders(blocks)
    best = _place_in_order(blocks, by_size)
    n_tries = min(_MAX_TRIES, _MAX_PLACEMENTS // max(1, len(blocks)))
    for order in others[:n_tries]:
        if best.size > enough:
            best = min(best, _place_in_order(blocks, order), key=lambda p: p.size)
    return _raise_highest(blocks, by_size, best, enough, n_tries - len(others))


def _make_orders(blocks: Sequence[Block]) -> list[list[int]]:
    """Large blocks first, those that live long first, and by time."""
    numbers = range(len(blocks))
    return [
        sorted(numbers, key=lambda n: (-blocks[n].size, blocks[n].first)),
        sorted(numbers, key=lambda n: (-_duration(blocks[n]), -blocks[n].size)),
        sorted(numbers, key=lambda n: (-blocks[n].size * _duration(blocks[n]), blocks[n].first)),
        sorted(numbers, key=lambda n: (blocks[n].first, -blocks[n].size)),
    ]


def _raise_highest(
    blocks: Sequence[Block], order: list[int], best: Packing, enough: float, n_tries: int
) -> Packing:
    """Place what lies highest before everything else, again and again."""
    current = best
    for _ in range(n_tries):
        if best.size <= enough:
            break
        is_highest = [
            start + block.size == current.size
            for start, block in zip(current.starts, blocks, strict=True)
        ]
        order = sorted(order, key=lambda n: not is_highest[n])
        current = _place_in_order(blocks, order)
        best = min(best, current, key=lambda p: p.size)
    return best


def _duration(block: Block) -> int:
    return block.last - block.first + 1


def _place_in_order(blocks: Sequence[Block], order: Sequence[int]) -> Packing:
    taken = _TakenSpace(1 + max((b.last for b in blocks), default=0))
    starts = [0] * len(blocks)
    for number in order:
        starts[number] = taken.place(blocks[number])
    return Packing(
        starts,
        max((start + block.size for start, block in zip(starts, blocks, strict=True)), default=0),
    )


class _TakenSpace:
    """What is taken at each time: a binary tree over the times, so that a long life is entered in
    few nodes.

    A node has what is taken throughout its times by blocks that were entered right there, and what
    is taken at any of its times.
    """

    def __init__(self, n_times: int) -> None:
        self._n_leaves = 1 << (n_times - 1).bit_length()
        self._throughout: dict[int, _Intervals] = {}
        self._at_any: dict[int, _Intervals] = {}

    def place(self, block: Block) -> int:
        """Take the lowest place that is free throughout the life of `block`, and return where it
        starts.
        """
        nodes = self._cover(block.first, block.last)
        above = {parent for node in nodes for parent in _iter_parents(node)}
        taken = [t for node in nodes if (t := self._at_any.get(node)) is not None]
        taken += [t for node in above if (t := self._throughout.get(node)) is not None]
        start = _get_common_place(taken, block.size)
        if block.size:
            for node in nodes:
                self._throughout.setdefault(node, _Intervals()).add(start, start + block.size)
                self._at_any.setdefault(node, _Intervals()).add(start, start + block.size)
            for node in above:
                self._at_any.setdefault(node, _Intervals()).add(start, start + block.size)
        return start

    def _cover(self, first: int, last: int) -> list[int]:
        """The fewest nodes that hold exactly these times."""
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


def _get_common_place(taken: Sequence[_Intervals], size: int) -> int:
    """The lowest place that is free in all of `taken`, as far as the search goes."""
    start = 0
    for _ in range(_MAX_ROUNDS):
        found = start
        for intervals in taken:
            found = intervals.get_free(found, size)
        if found == start:
            return start
        start = found
    return max(intervals.ends[-1] for intervals in taken)


def _iter_parents(node: int) -> Iterator[int]:
    while node > 1:
        node >>= 1
        yield node


class _Intervals:
    """Sorted intervals that do not touch each other."""

    __slots__ = ("ends", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def get_free(self, start: int, size: int) -> int:
        """The lowest place from `start` on with `size` free bytes."""
        position = bisect_right(self.ends, start)
        while position < len(self.starts) and self.starts[position] < start + size:
            start = self.ends[position]
            position += 1
        return start

    def add(self, start: int, end: int) -> None:
        """Take the bytes from `start` to `end`."""
        low, high = bisect_left(self.ends, start), bisect_right(self.starts, end)
        if low < high:
            start, end = min(start, self.starts[low]), max(end, self.ends[high - 1])
        self.starts[low:high] = [start]
        self.ends[low:high] = [end]
