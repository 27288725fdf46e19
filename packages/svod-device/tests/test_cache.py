"""Caching allocator: reuse, budget, exhaustion, finalizers."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, strategies as st

from svod_device import (
    Allocator,
    Buffer,
    CachingAllocator,
    HostAllocator,
    Memory,
    OutOfMemoryError,
    get_allocator,
    release_memory,
)
from svod_dtype import uint8


class Limited(HostAllocator):
    """Allocator with limited memory that counts its calls."""

    def __init__(self, limit: int = 1 << 30) -> None:
        super().__init__("CPU")
        self.limit, self.used, self.n_allocated, self.freed = limit, 0, 0, list[int]()

    def allocate(self, nbytes: int) -> Memory:
        if self.used + nbytes > self.limit:
            raise MemoryError("full")
        self.used += nbytes
        self.n_allocated += 1
        return super().allocate(nbytes)

    def free(self, memory: Memory) -> None:
        self.used -= memory.capacity
        self.freed.append(memory.capacity)


def test_a_freed_block_serves_the_next_request_of_its_size() -> None:
    inner = Limited()
    cache = CachingAllocator(inner, 1 << 20)
    first = cache.allocate(100)
    cache.free(first)
    assert (cache.in_use_bytes, cache.cached_bytes) == (0, 128)
    assert cache.allocate(120).address == first.address
    assert (cache.in_use_bytes, cache.cached_bytes) == (128, 0)
    assert cache.allocate(100).address != first.address
    assert inner.n_allocated == 2


def test_the_most_recently_freed_block_is_reused_first() -> None:
    cache = CachingAllocator(HostAllocator(), 1 << 20)
    blocks = [cache.allocate(64) for _ in range(3)]
    for block in blocks:
        cache.free(block)
    assert [cache.allocate(64).address for _ in range(3)] == [b.address for b in reversed(blocks)]


def test_the_least_recently_freed_blocks_are_evicted_first() -> None:
    inner = Limited()
    cache = CachingAllocator(inner, 300)
    small, middle, large = cache.allocate(64), cache.allocate(128), cache.allocate(192)
    for block in (small, middle, large):
        cache.free(block)
    assert inner.freed == [64, 128]
    assert cache.cached_bytes == 192
    assert cache.allocate(192) == large


def test_a_block_larger_than_the_budget_is_not_cached_and_evicts_no_block() -> None:
    inner = Limited()
    cache = CachingAllocator(inner, 128)
    kept, large = cache.allocate(64), cache.allocate(4096)
    cache.free(kept)
    cache.free(large)
    assert inner.freed == [4096]
    assert cache.cached_bytes == 64


def test_a_failed_allocation_empties_the_cache_and_retries() -> None:
    inner = Limited(limit=1024)
    cache = CachingAllocator(inner, 1 << 20)
    cache.free(cache.allocate(1000))
    assert cache.cached_bytes == 1024
    assert cache.allocate(500).capacity == 512
    assert inner.freed == [1024]


def test_out_of_memory_reports_the_request_and_the_usage() -> None:
    cache = CachingAllocator(Limited(limit=4096), 1 << 20)
    held = cache.allocate(2000)
    cache.free(cache.allocate(1024))
    with pytest.raises(OutOfMemoryError) as caught:
        cache.allocate(3 << 20)
    assert (
        str(caught.value)
        == "out of memory on CPU: tried to allocate 3145728 bytes (3.0 MiB) with 2048 bytes"
        " (2.0 KiB) in use\n  note: 1024 bytes (1.0 KiB) of cached blocks were released before the"
        " retry\n  hint: delete unused tensors and plans, or reduce the size of the largest tensors"
    )
    assert isinstance(caught.value, MemoryError)
    assert held.capacity == 2048


def test_a_huge_allocation_on_the_host_is_out_of_memory() -> None:
    with pytest.raises(OutOfMemoryError, match="tried to allocate 4611686018427387904 bytes"):
        Buffer(CachingAllocator(HostAllocator(), 1 << 20), uint8, 1 << 62).ensure_allocated()


def test_a_free_does_not_wait_for_the_lock() -> None:
    cache = CachingAllocator(HostAllocator(), 1 << 20)
    block = cache.allocate(64)
    with cache._lock:  # the state in which a finalizer runs during an allocation
        cache.free(block)
        assert cache.allocate(64).address == block.address
        cache.free(block)
    assert cache.allocate(64).address == block.address
    assert (cache.in_use_bytes, cache.cached_bytes) == (64, 0)


@given(st.lists(st.tuples(st.integers(1, 9000), st.booleans()), max_size=60), st.integers(0, 20000))
def test_byte_counts_match_a_model(requests: list[tuple[int, bool]], budget: int) -> None:
    inner = Limited()
    cache = CachingAllocator(inner, budget)
    held: list[Memory] = []
    for nbytes, is_freed in requests:
        block = cache.allocate(nbytes)
        assert block.capacity >= nbytes
        assert block.address not in {b.address for b in held}
        held.append(block)
        if is_freed:
            cache.free(held.pop(len(held) // 2))
        assert cache.in_use_bytes == sum(b.capacity for b in held)
        assert cache.cached_bytes <= budget
        assert inner.used == cache.in_use_bytes + cache.cached_bytes
    cached = cache.cached_bytes
    assert cache.empty_cache() == cached
    assert inner.used == sum(b.capacity for b in held)


def test_threads_never_get_the_same_block() -> None:
    cache = CachingAllocator(HostAllocator(), 1 << 20)
    errors: list[str] = []

    def work(mark: int) -> None:
        for _ in range(300):
            buffer = Buffer(cache, uint8, 64)
            buffer.copyin(bytes([mark]) * 64)
            if buffer.to_bytes() != bytes([mark]) * 64:
                errors.append("torn")

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert isinstance(cache, Allocator)


def test_a_finalizer_may_allocate_while_its_thread_files_returned_blocks() -> None:
    class Reentrant(Limited):
        """Allocator whose `free` allocates, like a finalizer that runs at any step."""

        def free(self, memory: Memory) -> None:
            super().free(memory)
            if len(self.freed) < 20:
                cache.free(cache.allocate(64))

    inner = Reentrant()
    cache = CachingAllocator(inner, 300)

    def work() -> None:
        blocks = [cache.allocate(size) for size in (64, 128, 192, 64, 1024)]
        for block in blocks:
            cache.free(block)
        done.append(cache.allocate(64).capacity)

    done: list[int] = []
    # A deadlock fails instead of blocking the suite.
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert done == [64]
    assert cache.in_use_bytes == 64
    assert cache.cached_bytes == sum(len(b) * size for size, b in cache._by_size.items()) <= 300
    assert inner.used == cache.in_use_bytes + cache.cached_bytes


def test_release_memory_empties_the_caches_of_all_devices() -> None:
    allocators = [get_allocator(name) for name in ("CPU", "CPU:1")]
    release_memory()
    kept = [Buffer.make_factory(allocator, uint8, 1 << 16)() for allocator in allocators]
    for allocator in allocators:
        allocator.free(allocator.allocate(1 << 20))
    assert release_memory() == 2 << 20
    assert [a.cached_bytes for a in allocators if isinstance(a, CachingAllocator)] == [0, 0]
    assert all(buffer.is_allocated for buffer in kept)
