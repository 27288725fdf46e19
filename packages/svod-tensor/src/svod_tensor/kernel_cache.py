"""Compiled kernels by what they compute, bounded: the oldest leaves first (`SVOD_OPT_CACHE_MAX`)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

from svod_runtime import CachedKernel
from svod_tensor.options import read_opt_cache_max

__all__ = ["KernelKey", "add_kernel", "clear", "count_entries", "counts", "find_kernel"]


class KernelKey(NamedTuple):
    """What a compiled kernel depends on; its name is not among it."""

    ast_hash: str
    device: str
    compiler: str
    config: str


_entries: OrderedDict[KernelKey, CachedKernel] = OrderedDict()
_lock = threading.Lock()
_counts = [0, 0]
"""Hits and misses."""


def find_kernel(key: KernelKey) -> CachedKernel | None:
    """The kernel of this key, or None."""
    with _lock:
        found = _entries.get(key)
        _counts[found is None] += 1
        return found


def add_kernel(key: KernelKey, kernel: CachedKernel) -> CachedKernel:
    """Keep a kernel, and return the one that is kept: the first, if two threads made it at once."""
    limit = read_opt_cache_max()
    with _lock:
        kept = _entries.setdefault(key, kernel)
        while len(_entries) > limit:
            _entries.popitem(last=False)
        return kept


def count_entries() -> int:
    """How many kernels are cached."""
    return len(_entries)


def counts() -> tuple[int, int]:
    """How many look-ups found a kernel, and how many did not."""
    return _counts[0], _counts[1]


def clear() -> None:
    """Forget every kernel, and the counts; plans keep theirs."""
    with _lock:
        _entries.clear()
        _counts[:] = [0, 0]
