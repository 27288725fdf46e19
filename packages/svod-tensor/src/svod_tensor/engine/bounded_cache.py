"""A bounded map in memory that counts its look-ups; the oldest entry leaves first."""

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
    """At most `read_limit()` values by key, the last ones added; every method may be called from
    several threads.
    """

    def __init__(self, read_limit: Callable[[], int]) -> None:
        self._read_limit = read_limit
        # In the order of their additions.
        self._entries: dict[K, V] = {}
        self._lock = hold_across_fork(threading.RLock())
        self._counter = HitCounter()

    def find(self, key: K, is_usable: Callable[[V], bool] | None = None) -> V | None:
        """The value of this key if it `is_usable`, or None, which counts as a miss."""
        # One step of the interpreter: nobody waits for another look-up.
        found = self._entries.get(key)
        if found is not None and is_usable is not None and not is_usable(found):
            found = None
        self._counter.record(is_hit=found is not None)
        return found

    def add(self, key: K, value: V) -> V:
        """Keep a value, and return the one that is kept: the first, if two threads made it
        at once.
        """
        limit = self._read_limit()
        with self._lock:
            kept = self._entries.setdefault(key, value)
            while len(self._entries) > limit:
                del self._entries[next(iter(self._entries))]
        return kept

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of this key, which `make` makes where there is none."""
        found = self.find(key)
        return self.add(key, make()) if found is None else found

    def counts(self) -> CacheCounts:
        """How full it is, and what look-ups found."""
        return CacheCounts(
            len(self._entries), self._counter.hits, self._counter.misses, self._read_limit()
        )

    def clear(self) -> None:
        """Forget every value, and the counts."""
        with self._lock:
            self._entries.clear()
        self._counter.reset()
