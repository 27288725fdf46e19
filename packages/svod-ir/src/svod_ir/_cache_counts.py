"""How full a cache is and how often it helped: what every bounded cache counts, in memory and on
disk.

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
    """How full a cache is, and how often a look-up found (`hits`) or did not find (`misses`) what
    it wanted.

    A cache in memory holds at most `max_entries`, one on disk at most `max_bytes`; the other bound
    is 0."""

    entries: int
    hits: int
    misses: int
    max_entries: int = 0
    n_bytes: int = 0
    max_bytes: int = 0


class HitCounter:
    """Counts look-ups; every method may be called from several threads."""

    __slots__ = ("_lock", "hits", "misses")

    def __init__(self) -> None:
        self.hits = self.misses = 0
        self._lock = hold_across_fork(threading.RLock())

    def record(self, *, is_hit: bool) -> None:
        """Count one look-up."""
        with self._lock:
            self.hits += is_hit
            self.misses += not is_hit

    def withdraw_hit(self) -> None:
        """Count a hit as a miss after all."""
        with self._lock:
            self.hits -= 1
            self.misses += 1

    def reset(self) -> None:
        """Start again at 0."""
        with self._lock:
            self.hits = self.misses = 0
