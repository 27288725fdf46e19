"""Caching allocator: freed blocks are kept for reuse within a budget of bytes, with LRU eviction."""

from __future__ import annotations

import threading
from collections import deque
from itertools import count

from svod_device._protocols import Allocator, ClosableAllocator, Memory
from svod_device._wrapped import WrappedAllocator
from svod_device.errors import OutOfMemoryError
from svod_ir.forks import hold_across_fork

__all__ = ["CachingAllocator"]

# Size classes. Steps of a cache line keep small blocks tight; steps of a page let large requests of
# slightly different sizes share blocks.
_SMALL, _SMALL_STEP, _LARGE_STEP = 4096, 64, 4096

# Length of the queue of returned blocks at which `free` files them. It bounds the memory that the
# queue hides from the budget.
_MAX_RETURNED = 16


class CachingAllocator(WrappedAllocator):
    """Allocator that caches the freed blocks of an inner allocator. Plugins may wrap their own.

    Sizes are rounded up to multiples of 64 bytes, above 4 KiB to multiples of 4 KiB. A cached block
    serves requests of exactly its rounded size. `in_use_bytes` counts allocated blocks,
    `cached_bytes` cached blocks; `cached_bytes` never exceeds `budget_bytes`.

    Example:
        >>> from svod_device import CachingAllocator, HostAllocator
        >>> allocator = CachingAllocator(HostAllocator(), budget_bytes=1 << 20)
        >>> block = allocator.allocate(100)
        >>> allocator.free(block)
        >>> allocator.cached_bytes
        128
        >>> allocator.allocate(120).address == block.address
        True
        >>> allocator.free(allocator.allocate(5000))
        >>> allocator.empty_cache()  # 5000 bytes are two pages
        8192
        >>> allocator.close()
    """

    def __init__(self, inner: Allocator, budget_bytes: int) -> None:
        super().__init__(inner)
        self.budget_bytes = budget_bytes
        self._in_use_bytes = self._cached_bytes = 0
        self._lock = hold_across_fork(threading.RLock())
        # Cached blocks by size, the most recently freed last. Serial numbers order the blocks of
        # all sizes for eviction.
        self._by_size: dict[int, deque[tuple[int, Memory]]] = {}
        self._serial = count()
        # A finalizer may run anywhere, even in a thread that holds the lock, and may itself
        # allocate. So `free` must not wait for the lock: it appends to this queue. The next request
        # of the same size takes the block from here, as in a loop that allocates and frees;
        # otherwise the next holder of the lock files it. Until then the block counts as in use.
        self._returned: deque[Memory] = deque()

    @property
    def in_use_bytes(self) -> int:
        """Total bytes of allocated blocks."""
        with self._lock:
            self._file_returned()
            return self._in_use_bytes

    @property
    def cached_bytes(self) -> int:
        """Total bytes of cached blocks."""
        with self._lock:
            self._file_returned()
            return self._cached_bytes

    def allocate(self, nbytes: int) -> Memory:
        """Return a cached block of this size or a new block.

        If the inner allocator is out of memory, empty the cache and retry once.

        Raises:
            OutOfMemoryError: if the retry fails.
        """
        step = _SMALL_STEP if nbytes <= _SMALL else _LARGE_STEP
        capacity = -(-nbytes // step) * step
        returned = self._returned
        if returned:
            # `pop` is atomic: two threads never get the same block. The queue may have become empty
            # since the test above.
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
        # Up to `_MAX_RETURNED` blocks of this size fit into the unused budget, so leaving them in
        # the queue cannot exceed it.
        if (
            len(returned) < _MAX_RETURNED
            and memory.capacity * _MAX_RETURNED <= self.budget_bytes - self._cached_bytes
        ):
            return
        # Never wait here: this may be a finalizer in the thread that holds the lock.
        if self._lock.acquire(False):
            try:
                self._file_returned()
            finally:
                self._lock.release()

    def empty_cache(self) -> int:
        """Return all cached blocks to the inner allocator, and return their total bytes."""
        with self._lock:
            self._file_returned()
            blocks = [memory for same_size in self._by_size.values() for _, memory in same_size]
            released = self._cached_bytes
            self._by_size.clear()
            self._cached_bytes = 0
        # Outside the lock, since the inner allocator may be slow.
        for memory in blocks:
            self.inner.free(memory)
        return released

    def close(self) -> None:
        """Drop all cached blocks, and close the inner allocator if it is closable."""
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
                # Creating a deque may trigger garbage collection, and a finalizer may have
                # inserted a deque of this size meanwhile: `setdefault` keeps that one.
                same_size = self._by_size.setdefault(capacity, deque())
            same_size.append((next(self._serial), memory))
            self._cached_bytes += capacity
        while self._cached_bytes > self.budget_bytes:
            oldest = min(
                [blocks for blocks in list(self._by_size.values()) if blocks], key=_oldest_serial
            )
            memory = oldest.popleft()[1]
            self._cached_bytes -= memory.capacity
            self.inner.free(memory)


def _oldest_serial(blocks: deque[tuple[int, Memory]]) -> int:
    return blocks[0][0]
