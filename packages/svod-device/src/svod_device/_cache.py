"""`CachingAllocator`: keeps freed blocks for reuse, least recently used out first, within a budget
of bytes.
"""

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
_MAX_RETURNED = 16


class CachingAllocator(WrappedAllocator):
    """An allocator that reuses the blocks of another one. Plugins may wrap theirs in it.

    Sizes are rounded up (to 64 bytes, from 4 KiB on to 4 KiB), and a cached block serves requests
    of exactly its rounded size. `in_use_bytes` counts blocks that are handed out, `cached_bytes`
    those that wait; the latter never exceeds `budget_bytes`.

    Example:
        >>> from svod_device import HostAllocator
        >>> allocator = CachingAllocator(HostAllocator(), budget_bytes=1 << 20)
        >>> block = allocator.allocate(100)
        >>> allocator.free(block)
        >>> allocator.cached_bytes
        128
        >>> allocator.allocate(120).address == block.address
        True
    """

    def __init__(self, inner: Allocator, budget_bytes: int) -> None:
        super().__init__(inner)
        self.budget_bytes = budget_bytes
        self._in_use_bytes = self._cached_bytes = 0
        self._lock = hold_across_fork(threading.RLock())
        # The cached blocks, for each size the latest last, with a number that grows from one to the
        # next.
        self._by_size: dict[int, deque[tuple[int, Memory]]] = {}
        self._serial = count()
        # A finalizer may run anywhere, also in this thread while it holds the lock, and may
        # allocate itself. What is freed is appended here, so that nobody waits for that. The next
        # one who asks for a block of the same size gets it, as each call of a loop does; else a
        # holder of the lock files it. Until then it counts as handed out.
        self._returned: deque[Memory] = deque()

    @property
    def in_use_bytes(self) -> int:
        """The bytes of the blocks that are handed out."""
        with self._lock:
            self._file_returned()
            return self._in_use_bytes

    @property
    def cached_bytes(self) -> int:
        """The bytes of the blocks that wait."""
        with self._lock:
            self._file_returned()
            return self._cached_bytes

    def allocate(self, nbytes: int) -> Memory:
        """A cached block of this size or a new one; when there is none, empty the cache and try
        once more.

        Raises:
            OutOfMemoryError: if there is no such block after that.
        """
        step = _SMALL_STEP if nbytes <= _SMALL else _LARGE_STEP
        capacity = -(-nbytes // step) * step
        returned = self._returned
        if returned:
            # Two threads never get the same one.
            try:
                memory = returned.pop()
            except IndexError:
                pass
            else:
                if memory.capacity == capacity:
                    return memory
                returned.append(memory)
        with self._lock:
            self._file_returned()
            same_size = self._by_size.get(capacity)
            if same_size:
                memory = same_size.pop()[1]
                self._cached_bytes -= capacity
                self._in_use_bytes += capacity
                return memory
        try:
            memory = self.inner.allocate(capacity)
        except MemoryError:
            memory = self._retry(nbytes, capacity)
        if memory.capacity != capacity:
            memory = memory._replace(capacity=capacity)
        with self._lock:
            self._in_use_bytes += capacity
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
        returned = self._returned
        returned.append(memory)
        # What waits to be filed never exceeds the budget: there are no more of such blocks, and
        # nothing else is added to those filed.
        if (
            len(returned) < _MAX_RETURNED
            and memory.capacity * _MAX_RETURNED <= self.budget_bytes - self._cached_bytes
        ):
            return
        if self._lock.acquire(False):
            try:
                self._file_returned()
            finally:
                self._lock.release()

    def empty_cache(self) -> int:
        """Give every cached block back to the inner allocator, and return how many bytes these
        were.
        """
        with self._lock:
            self._file_returned()
            blocks = [memory for same_size in self._by_size.values() for _, memory in same_size]
            released = self._cached_bytes
            self._by_size.clear()
            self._cached_bytes = 0
        for memory in blocks:
            self.inner.free(memory)
        return released

    def close(self) -> None:
        """Forget every block, and let the inner allocator close its device if it can."""
        with self._lock:
            self._returned.clear()
            self._by_size.clear()
            self._cached_bytes = 0
        if isinstance(self.inner, ClosableAllocator):
            self.inner.close()

    def _file_returned(self) -> None:
        returned = self._returned
        while returned:
            memory = returned.popleft()
            capacity = memory.capacity
            self._in_use_bytes -= capacity
            if capacity > self.budget_bytes:
                self.inner.free(memory)
                continue
            same_size = self._by_size.get(capacity)
            if same_size is None:
                # A new deque may be what makes the garbage collector run, and a finalizer come
                # first.
                same_size = self._by_size.setdefault(capacity, deque())
            same_size.append((next(self._serial), memory))
            self._cached_bytes += capacity
        while self._cached_bytes > self.budget_bytes:
            oldest = min(
                [blocks for blocks in list(self._by_size.values()) if blocks], key=_number_of_first
            )
            memory = oldest.popleft()[1]
            self._cached_bytes -= memory.capacity
            self.inner.free(memory)


def _number_of_first(blocks: deque[tuple[int, Memory]]) -> int:
    return blocks[0][0]
