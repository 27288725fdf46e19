"""`CachingAllocator`: keeps freed blocks for reuse, least recently used out first, within a budget of bytes."""

from __future__ import annotations

import threading
from collections import deque
from itertools import count

from svod_device._protocols import Allocator, ClosableAllocator, Memory
from svod_device._wrapped import WrappedAllocator
from svod_device.errors import OutOfMemoryError
from svod_ir.forks import hold_across_fork

__all__ = ["CachingAllocator"]

_SMALL, _SMALL_STEP, _LARGE_STEP = 4096, 64, 4096


class CachingAllocator(WrappedAllocator):
    """An allocator that reuses the blocks of another one. Plugins may wrap theirs in it.

    Sizes are rounded up (to 64 bytes, from 4 KiB on to 4 KiB), and a cached block serves requests of
    exactly its rounded size. `in_use_bytes` counts blocks that are handed out, `cached_bytes` those
    that wait; the latter never exceeds `budget_bytes`.
    """

    def __init__(self, inner: Allocator, budget_bytes: int) -> None:
        super().__init__(inner)
        self.budget_bytes = budget_bytes
        self.in_use_bytes = self.cached_bytes = 0
        self._lock = hold_across_fork(threading.RLock())
        # The cached blocks, for each size the latest last, with a number that grows from one to the next.
        self._by_size: dict[int, deque[tuple[int, Memory]]] = {}
        self._serial = count()
        # A finalizer may run anywhere, also in this thread while it holds the lock, and may allocate itself. What is freed
        # is appended here, so that nobody waits for that, and the next holder of the lock files the blocks.
        self._returned: deque[Memory] = deque()

    def allocate(self, nbytes: int) -> Memory:
        """A cached block of this size or a new one; when there is none, empty the cache and try once more.

        Raises:
            OutOfMemoryError: if there is no such block after that.
        """
        step = _SMALL_STEP if nbytes <= _SMALL else _LARGE_STEP
        capacity = -(-nbytes // step) * step
        with self._lock:
            if self._returned:
                self._file_returned()
            same_size = self._by_size.get(capacity)
            if same_size:
                memory = same_size.pop()[1]
                self.cached_bytes -= capacity
                self.in_use_bytes += capacity
                return memory
        try:
            memory = self.inner.allocate(capacity)
        except MemoryError:
            memory = self._retry(nbytes, capacity)
        if memory.capacity != capacity:
            memory = memory._replace(capacity=capacity)
        with self._lock:
            self.in_use_bytes += capacity
        return memory

    def _retry(self, nbytes: int, capacity: int) -> Memory:
        released = self.empty_cache()
        try:
            return self.inner.allocate(capacity)
        except MemoryError as error:
            raise OutOfMemoryError(
                device=self.device, nbytes=nbytes, in_use=self.in_use_bytes, released=released
            ) from error

    def free(self, memory: Memory) -> None:
        """Put a block into the cache."""
        self._returned.append(memory)
        if self._lock.acquire(False):
            try:
                self._file_returned()
            finally:
                self._lock.release()

    def empty_cache(self) -> int:
        """Give every cached block back to the inner allocator, and return how many bytes these were."""
        with self._lock:
            self._file_returned()
            blocks = [memory for same_size in self._by_size.values() for _, memory in same_size]
            released = self.cached_bytes
            self._by_size.clear()
            self.cached_bytes = 0
        for memory in blocks:
            self.inner.free(memory)
        return released

    def close(self) -> None:
        """Forget every block, and let the inner allocator close its device if it can."""
        with self._lock:
            self._returned.clear()
            self._by_size.clear()
            self.cached_bytes = 0
        if isinstance(self.inner, ClosableAllocator):
            self.inner.close()

    def _file_returned(self) -> None:
        returned = self._returned
        while returned:
            memory = returned.popleft()
            capacity = memory.capacity
            self.in_use_bytes -= capacity
            if capacity > self.budget_bytes:
                self.inner.free(memory)
                continue
            same_size = self._by_size.get(capacity)
            if same_size is None:
                # A new deque may be what makes the garbage collector run, and a finalizer come first.
                same_size = self._by_size.setdefault(capacity, deque())
            same_size.append((next(self._serial), memory))
            self.cached_bytes += capacity
        while self.cached_bytes > self.budget_bytes:
            oldest = min([blocks for blocks in list(self._by_size.values()) if blocks], key=_number_of_first)
            memory = oldest.popleft()[1]
            self.cached_bytes -= memory.capacity
            self.inner.free(memory)


def _number_of_first(blocks: deque[tuple[int, Memory]]) -> int:
    return blocks[0][0]
