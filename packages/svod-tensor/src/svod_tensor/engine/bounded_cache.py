"""Bounded in-memory cache that counts hits and misses, with first-in-first-out eviction."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from svod_ir import CacheCounts, HitCounter
from svod_ir.forks import hold_across_fork

__all__ = ["BoundedCache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Map of at most `read_limit()` values; the oldest entry is evicted first. Every method is
    thread-safe.
    """

    def __init__(self, read_limit: Callable[[], int]) -> None:
        self._read_limit = read_limit
        # Insertion order is eviction order.
        self._entries: dict[K, V] = {}
        self._lock = hold_across_fork(threading.RLock())
        self._counter = HitCounter()

    def find(self, key: K, is_usable: Callable[[V], bool] | None = None) -> V | None:
        """The value of this key if it `is_usable`; None, which counts as a miss, otherwise."""
        # A dict look-up is atomic, so no lock is taken.
        value = self._entries.get(key)
        if value is not None and is_usable is not None and not is_usable(value):
            value = None
        self._counter.record(is_hit=value is not None)
        return value

    def add(self, key: K, value: V) -> V:
        """Store a value and return the stored one: the first, if two threads made it at the same
        time.
        """
        limit = self._read_limit()
        with self._lock:
            kept = self._entries.setdefault(key, value)
            # The oldest, not the least recently used: a hit then changes nothing and needs no lock.
            while len(self._entries) > limit:
                del self._entries[next(iter(self._entries))]
        return kept

    def replace(self, key: K, value: V) -> None:
        """Store a value in the place of that of an equal key."""
        with self._lock:
            self._entries[key] = value

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of this key, computed by `make` if missing."""
        value = self.find(key)
        return self.add(key, make()) if value is None else value

    def list_values(self) -> list[V]:
        """The values, oldest first."""
        with self._lock:
            return list(self._entries.values())

    def counts(self) -> CacheCounts:
        """Number of entries, hits and misses, and the limit."""
        return CacheCounts(
            len(self._entries), self._counter.hits, self._counter.misses, self._read_limit()
        )

    def clear(self) -> None:
        """Remove all values and reset the counts."""
        with self._lock:
            self._entries.clear()
        self._counter.reset()
