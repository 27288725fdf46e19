"""Calling convention of CPU kernels:

`void name(void **buffers, const int64_t *values, int64_t core_id)`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ABI_VERSION"]

ABI_VERSION: Final = 1
"""Part of the cache keys: a new version invalidates all cached objects."""
