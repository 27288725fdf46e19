"""Statistics of a bounded cache, in memory or on disk: its size, hits and misses.

Example:
    >>> from svod_ir import CacheCounts, HitCounter
    >>> table, counter = {}, HitCounter()
    >>> for key in "abca":
    ...     counter.record(is_hit=key in table)
    ...     table[key] = key.upper()
    >>> CacheCounts(len(table), counter.hits, counter.misses, max_entries=100)
    CacheCounts(entries=3, hits=1, misses=3, max_entries=100, n_bytes=0, max_bytes=0)
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from svod_ir.forks import hold_across_fork

__all__ = ["CacheCounts", "HitCounter"]


class CacheCounts(NamedTuple):
    """Size of a cache, and its numbers of hits and misses.

    A cache in memory is bounded by `max_entries`, a cache on disk by `max_bytes`; the other bound
    is 0.
    """

    entries: int
    hits: int
    misses: int
    max_entries: int = 0
    n_bytes: int = 0
    max_bytes: int = 0


class HitCounter:
    """Thread-safe counter of cache hits and misses.

    Example:
        >>> from svod_ir import HitCounter
        >>> counter = HitCounter()
        >>> counter.record(is_hit=True)
        >>> counter.withdraw_hit()  # the entry turned out to be damaged
        >>> counter.hits, counter.misses
        (0, 1)
        >>> counter.reset()
        >>> counter.misses
        0
    """

    __slots__ = ("_lock", "hits", "misses")

    def __init__(self) -> None:
        self.hits = self.misses = 0
        # `+=` on an attribute is not atomic.
        self._lock = hold_across_fork(threading.RLock())

    def record(self, *, is_hit: bool) -> None:
        """Count one look-up."""
        with self._lock:
            self.hits += is_hit
            self.misses += not is_hit

    def withdraw_hit(self) -> None:
        """Turn the last hit into a miss."""
        with self._lock:
            self.hits -= 1
            self.misses += 1

    def reset(self) -> None:
        """Reset both counts to 0."""
        with self._lock:
            self.hits = self.misses = 0
