"""Topological sorting by dependencies: of the kernels of a schedule, and of the ops of a plan."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

__all__ = ["Rank", "sort_by_dependencies"]

Rank: TypeAlias = int | tuple[int, ...]


def sort_by_dependencies(
    predecessors: Sequence[Collection[int]],
    rank: Callable[[int], Rank] = lambda index: index,
    finish: Callable[[int], Iterable[int]] = lambda index: (),
) -> list[int]:
    """Sort indices topologically; of several candidates, the one of lowest rank comes first.

    Args:
        predecessors: for each index, the distinct indices that must come before it.
        rank: the rank of a candidate; its index by default.
        finish: called with each index that is placed; returns the indices whose ranks have changed.

    Returns:
        All indices, without the ones that depend on a cycle.

    Example:
        >>> from svod_ir import sort_by_dependencies
        >>> sort_by_dependencies([{2}, set(), set()])
        [1, 2, 0]
    """
    n_missing = [len(earlier) for earlier in predecessors]
    followers: list[list[int]] = [[] for _ in predecessors]
    for index, earlier in enumerate(predecessors):
        for p in earlier:
            followers[p].append(index)
    ready = [(rank(index), index) for index, n in enumerate(n_missing) if n == 0]
    heapq.heapify(ready)
    order: dict[int, None] = {}
    while ready:
        _, index = heapq.heappop(ready)
        if index in order:
            # A stale entry of another rank.
            continue
        order[index] = None
        changed = {p for p in finish(index) if n_missing[p] == 0 and p not in order}
        for follower in followers[index]:
            n_missing[follower] -= 1
            if n_missing[follower] == 0:
                changed.add(follower)
        # Sorted, since a rank may depend on the order of the calls. A heap entry cannot be changed:
        # a candidate of another rank is pushed again, and the stale entry skipped above.
        for candidate in sorted(changed):
            heapq.heappush(ready, (rank(candidate), candidate))
    return list(order)
