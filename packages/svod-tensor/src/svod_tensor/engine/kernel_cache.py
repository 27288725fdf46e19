"""Compiled kernels by what they compute, bounded: the oldest leaves first (`SVOD_OPT_CACHE_MAX`)."""

from __future__ import annotations

from typing import Final, NamedTuple

from svod_runtime import CachedKernel
from svod_tensor.engine.bounded_cache import BoundedCache
from svod_tensor.options import read_opt_cache_max

__all__ = ["KernelKey", "add_kernel", "clear", "counts", "find_kernel"]


class KernelKey(NamedTuple):
    """What a compiled kernel depends on; its name is not among it.

    `opening` is that of the device: a kernel that was loaded on one opening cannot run on another.
    """

    ast_hash: str
    device: str
    compiler: str
    config: str
    opening: int = 0


_cache: Final = BoundedCache[KernelKey, CachedKernel](read_opt_cache_max)

find_kernel = _cache.find
add_kernel = _cache.add
counts = _cache.counts
clear = _cache.clear
