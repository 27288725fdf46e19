"""What svod keeps to be fast again: how full each cache is, how often it helped, and how to empty it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CacheCounts", "caches", "clear_caches"]


class CacheCounts(NamedTuple):
    """How full a cache is, and how often a look-up found (`hits`) or did not find (`misses`) what it wanted.

    `entries` may not exceed `max_entries`; `n_bytes` and `max_bytes` are 0 where only entries are counted.
    """

    entries: int
    hits: int
    misses: int
    max_entries: int = 0
    n_bytes: int = 0
    max_bytes: int = 0


def caches() -> dict[str, CacheCounts]:
    """The counts of each cache since the process began, or since `clear_caches`.

    - `schedule`: graphs that were cut into kernels (row of the process).
    - `kernel`: compiled kernels of the process.
    - `object`: compiled kernels on disk, which later processes use. Its hits and misses are this process's.
    """
    from svod_codegen.kernel_store import get_kernel_store
    from svod_tensor import kernel_cache, schedule_cache
    from svod_tensor.options import read_opt_cache_max

    stored = get_kernel_store().counts()
    return {
        "schedule": CacheCounts(schedule_cache.count_entries(), *schedule_cache.counts(), schedule_cache.MAX_ENTRIES),
        "kernel": CacheCounts(kernel_cache.count_entries(), *kernel_cache.counts(), read_opt_cache_max()),
        "object": CacheCounts(
            stored.entries, stored.hits, stored.misses, n_bytes=stored.n_bytes, max_bytes=stored.max_bytes
        ),
    }


def clear_caches(*, disk: bool = False) -> None:
    """Empty the caches of this process, and with `disk` the one that processes share; plans stay as they are."""
    from svod_codegen.kernel_store import get_kernel_store
    from svod_tensor import kernel_cache, schedule_cache

    schedule_cache.clear()
    kernel_cache.clear()
    get_kernel_store().clear(disk=disk)
