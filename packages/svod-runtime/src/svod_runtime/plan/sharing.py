"""Sharing patterns: overlaps between the buffers of a plan, on which levels and batches depend.

Two ops keep their order if both access a byte that one of them writes. This depends only on which
buffers overlap, and not on their addresses. Levels and steps of a pattern are therefore valid
whenever the pattern recurs. While each buffer has its own storage, as in nearly all calls, no
pattern needs to be computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from svod_device import Buffer

__all__ = ["Pattern", "Sharing"]

Pattern: TypeAlias = frozenset[tuple[tuple[int, int, int], ...]]
"""Groups of overlapping buffers, each with at least one replaceable buffer.

A member is the buffer index, and the ranks of its start and end among the bounds of its group.
"""

_NO_OVERLAPS: Pattern = frozenset()


class Sharing:
    """Overlaps of the replaceable buffers of a plan with each other and with all fixed buffers.

    Attributes:
        moving: indices of the replaceable buffers.
        pattern: current overlaps.
    """

    __slots__ = ("_fixed", "_is_disjoint", "_storages", "_used_storages", "moving", "pattern")

    def __init__(self, buffers: Sequence[Buffer], moving: Iterable[int]) -> None:
        self.moving = frozenset(moving)
        self._fixed: dict[int, list[int]] = {}
        for index, buffer in enumerate(buffers):
            if index not in self.moving:
                self._fixed.setdefault(buffer.storage_id, []).append(index)
        # All storages in use, and the storage of each replaceable buffer. Both are valid only
        # while no storage of a replaceable buffer holds a second buffer.
        self._used_storages: set[int] = set()
        self._storages: dict[int, int] = {}
        self._is_disjoint = False
        self.pattern = self._make_pattern(buffers, {})

    def follow(self, buffers: Sequence[Buffer], changes: Mapping[int, Buffer]) -> Pattern:
        """Return the pattern after `changes`, whose indices are all in `moving`."""
        if self._is_disjoint:
            # Remove all old storages first: buffers may be permuted among the changed slots.
            used, storages = self._used_storages, self._storages
            for index in changes:
                used.discard(storages[index])
            for index, buffer in changes.items():
                storage = storages[index] = buffer.storage_id
                if storage in used:
                    break
                used.add(storage)
            else:
                return self.pattern
        self.pattern = self._make_pattern(buffers, changes)
        return self.pattern

    def _make_pattern(self, buffers: Sequence[Buffer], changes: Mapping[int, Buffer]) -> Pattern:
        now = {index: changes.get(index) or buffers[index] for index in self.moving}
        on_storage: dict[int, list[int]] = {}
        for index, buffer in now.items():
            on_storage.setdefault(buffer.storage_id, []).append(index)
        self._is_disjoint = len(on_storage) == len(now) and self._fixed.keys().isdisjoint(
            on_storage
        )
        if self._is_disjoint:
            self._storages = {indices[0]: storage for storage, indices in on_storage.items()}
            self._used_storages = {*on_storage, *self._fixed}
            return _NO_OVERLAPS
        groups: list[tuple[tuple[int, int, int], ...]] = []
        for storage, indices in on_storage.items():
            fixed = self._fixed.get(storage, ())
            if len(indices) + len(fixed) > 1:
                intervals = [
                    (b.offset, b.offset + b.nbytes, i) for i in indices if (b := now[i]).nbytes
                ]
                intervals += [
                    (b.offset, b.offset + b.nbytes, i) for i in fixed if (b := buffers[i]).nbytes
                ]
                groups += _list_groups(sorted(intervals), self.moving)
        return frozenset(groups)


def _list_groups(
    intervals: Sequence[tuple[int, int, int]], moving: Set[int]
) -> list[tuple[tuple[int, int, int], ...]]:
    """Groups of overlapping intervals of one storage: (start, end, index) in order."""
    groups: list[list[tuple[int, int, int]]] = []
    group_end = 0
    for interval in intervals:
        start, end, _ = interval
        if groups and start < group_end:
            groups[-1].append(interval)
            group_end = max(group_end, end)
        else:
            groups.append([interval])
            group_end = end
    return [
        _rank(group)
        for group in groups
        if len(group) > 1 and any(index in moving for *_, index in group)
    ]


def _rank(group: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    # Ranks instead of offsets: equal overlaps at other offsets give the same pattern.
    bounds = sorted({bound for start, end, _ in group for bound in (start, end)})
    rank_of = {bound: rank for rank, bound in enumerate(bounds)}
    return tuple(sorted([(index, rank_of[start], rank_of[end]) for start, end, index in group]))
