"""The convention between kernels of the CPU and their callers:

`void name(void **buffers, const int64_t *values, int64_t core_id)`.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ABI_VERSION"]

ABI_VERSION: Final = 1
"""A change makes all cached objects unusable."""
