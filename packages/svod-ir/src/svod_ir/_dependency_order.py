"""The order in which things run that wait for each other: kernels of a schedule, and ops of
a plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

__all__ = ["Rank", "sort_by_dependencies"]

Rank: TypeAlias = int | tuple[int, int]


def sort_by_dependencies(
    predecessors: Sequence[Collection[int]],
    rank: Callable[[int], Rank] = lambda position: position,
    finish: Callable[[int], Iterable[int]] = lambda position: (),
) -> list[int]:
    """Positions in a topological order, the lowest rank first where there is a choice.

    Args:
        predecessors: for each position, the different positions that must come before it.
        rank: of a position that can come next; itself by default.
        finish: called with each position that is taken; it gives those whose ranks have changed.

    Returns:
        All positions, less those that wait for a cycle.

    Example:
        >>> sort_by_dependencies([{2}, set(), set()])
        [1, 2, 0]
    """
    n_missing = [len(earlier) for earlier in predecessors]
    followers: list[list[int]] = [[] for _ in predecessors]
    for position, earlier in enumerate(predecessors):
        for p in earlier:
            followers[p].append(position)
    ready = [(rank(position), position) for position, n in enumerate(n_missing) if n == 0]
    heapq.heapify(ready)
    order: dict[int, None] = {}
    while ready:
        _, position = heapq.heappop(ready)
        if position in order:
            # It was there under another rank too.
            continue
        order[position] = None
        changed = {p for p in finish(position) if n_missing[p] == 0 and p not in order}
        for follower in followers[position]:
            n_missing[follower] -= 1
            if n_missing[follower] == 0:
                changed.add(follower)
        for other in sorted(changed):
            heapq.heappush(ready, (rank(other), other))
    return list(order)
