"""The order in which things run that wait for each other: kernels of a schedule, and ops of a plan."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

__all__ = ["sort_by_dependencies"]


def sort_by_dependencies(predecessors: Sequence[Collection[int]]) -> list[int]:
    """Positions in a topological order, the smallest first where there is a choice.

    Args:
        predecessors: for each position, the different positions that must come before it.

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
    ready = [position for position, n in enumerate(n_missing) if n == 0]
    order: list[int] = []
    while ready:
        position = heapq.heappop(ready)
        order.append(position)
        for follower in followers[position]:
            n_missing[follower] -= 1
            if n_missing[follower] == 0:
                heapq.heappush(ready, follower)
    return order
