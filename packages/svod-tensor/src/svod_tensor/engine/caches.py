"""What svod keeps to be fast again: how full each cache is, how often it helped, and how to empty it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from svod_ir.cache_counts import CacheCounts

if TYPE_CHECKING:
    from svod_codegen.disk_store import DiskStore

__all__ = ["CacheCounts", "caches", "clear_caches"]


def caches() -> dict[str, CacheCounts]:
    """The counts of each cache since the process began, or since `clear_caches`.

    - `schedule`: graphs that were cut into kernels.
    - `kernel`: compiled kernels of the process.
    - `stored_kernel`: whole kernels on disk, which later processes use.
    - `object`: compiled objects on disk, for kernels that another state of svod's code made alike.
    - `search`: what searches and `svod_tensor.tune` found, on disk.

    What is on disk is everyone's; the hits and misses are this process's.
    """
    from svod_tensor.engine import build as schedule_cache
    from svod_tensor.engine import kernel_cache

    on_disk = {name: store.counts() for name, store in _get_stores().items()}
    return {"schedule": schedule_cache.counts(), "kernel": kernel_cache.counts(), **on_disk}


def clear_caches(*, disk: bool = False) -> None:
    """Empty the caches of this process, and with `disk` those that processes share; plans stay as they are."""
    from svod_tensor.engine import build as schedule_cache
    from svod_tensor.engine import kernel_cache
    from svod_tensor.tuning import records, tuned

    schedule_cache.clear()
    kernel_cache.clear()
    tuned.clear()
    records.clear()
    for store in _get_stores().values():
        store.clear(disk=disk)


def _get_stores() -> dict[str, DiskStore]:
    from svod_codegen.disk_store import get_disk_store
    from svod_codegen.kernel_store import get_kernel_store
    from svod_tensor.tuning import tuned

    return {"stored_kernel": get_kernel_store().store, "object": get_disk_store("objects"), "search": tuned.get_store()}
