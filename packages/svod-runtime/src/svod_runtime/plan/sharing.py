"""Buffers of a plan that share bytes: of all that a replaced buffer changes, the part that levels
and batches depend on.

Two ops keep their order if both touch a byte that one of them writes. Whether they do follows from
which of the buffers that they take overlap, wherever these lie. So what was arranged for a pattern
of overlaps is right whenever the pattern comes again, and nothing needs arranging while each buffer
has a storage of its own, as in nearly all calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from svod_device import Buffer

__all__ = ["Pattern", "Sharing"]

Pattern: TypeAlias = frozenset[tuple[tuple[int, int, int], ...]]
"""Groups of buffers that overlap, one or more of which move.

Each is an index, and where the buffer starts and ends among the starts and ends of its group.
"""

_NOTHING: Pattern = frozenset()


class Sharing:
    """How the buffers of a plan that move, since they are replaced, share bytes with each other and
    with those that stay.

    Attributes:
        moving: their indices.
        pattern: what they share now.
    """

    __slots__ = ("_is_apart", "_resting", "_storages", "_taken", "moving", "pattern")

    def __init__(self, buffers: Sequence[Buffer], moving: Iterable[int]) -> None:
        self.moving = frozenset(moving)
        self._resting: dict[int, list[int]] = {}
        for index, buffer in enumerate(buffers):
            if index not in self.moving:
                self._resting.setdefault(buffer.storage_id, []).append(index)
        # The storages that are in use, and those of buffers that move, as long as none of them
        # holds another buffer too.
        self._taken: set[int] = set()
        self._storages: dict[int, int] = {}
        self._is_apart = False
        self.pattern = self._make_pattern(buffers, {})

    def follow(self, buffers: Sequence[Buffer], changes: Mapping[int, Buffer]) -> Pattern:
        """The pattern when `changes`, which are among those that move, are in the place of
        `buffers`.
        """
        if self._is_apart:
            # What is new may be what another one was before: that goes first.
            taken, storages = self._taken, self._storages
            for index in changes:
                taken.discard(storages[index])
            for index, buffer in changes.items():
                storage = storages[index] = buffer.storage_id
                if storage in taken:
                    break
                taken.add(storage)
            else:
                return self.pattern
        self.pattern = self._make_pattern(buffers, changes)
        return self.pattern

    def _make_pattern(self, buffers: Sequence[Buffer], changes: Mapping[int, Buffer]) -> Pattern:
        now = {index: changes.get(index) or buffers[index] for index in self.moving}
        on_storage: dict[int, list[int]] = {}
        for index, buffer in now.items():
            on_storage.setdefault(buffer.storage_id, []).append(index)
        self._is_apart = len(on_storage) == len(now) and self._resting.keys().isdisjoint(on_storage)
        if self._is_apart:
            self._storages = {indices[0]: storage for storage, indices in on_storage.items()}
            self._taken = {*on_storage, *self._resting}
            return _NOTHING
        groups: list[tuple[tuple[int, int, int], ...]] = []
        for storage, indices in on_storage.items():
            beside = self._resting.get(storage, ())
            if len(indices) + len(beside) > 1:
                parts = [
                    (b.offset, b.offset + b.nbytes, i) for i in indices if (b := now[i]).nbytes
                ]
                parts += [
                    (b.offset, b.offset + b.nbytes, i) for i in beside if (b := buffers[i]).nbytes
                ]
                groups += _list_groups(sorted(parts), self.moving)
        return frozenset(groups)


def _list_groups(
    parts: Sequence[tuple[int, int, int]], moving: Set[int]
) -> list[tuple[tuple[int, int, int], ...]]:
    """The groups of overlapping parts of one storage: (start, end, index) in order."""
    groups: list[list[tuple[int, int, int]]] = []
    group_end = 0
    for part in parts:
        start, end, _ = part
        if groups and start < group_end:
            groups[-1].append(part)
            group_end = max(group_end, end)
        else:
            groups.append([part])
            group_end = end
    return [
        _rank(group)
        for group in groups
        if len(group) > 1 and any(index in moving for *_, index in group)
    ]


def _rank(group: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int, int], ...]:
    bounds = sorted({bound for start, end, _ in group for bound in (start, end)})
    rank_of = {bound: rank for rank, bound in enumerate(bounds)}
    return tuple(sorted([(index, rank_of[start], rank_of[end]) for start, end, index in group]))
