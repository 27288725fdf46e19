"""Where a memory object lives."""

from __future__ import annotations

from enum import Enum

__all__ = ["AddressSpace"]


class AddressSpace(Enum):
    """GLOBAL: a device's buffers. LOCAL: shared by one workgroup. REG: private to one thread."""

    GLOBAL = "global"
    LOCAL = "local"
    REG = "reg"
