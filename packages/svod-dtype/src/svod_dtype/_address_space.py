"""Address spaces of memory objects."""

from __future__ import annotations

from enum import Enum

__all__ = ["AddressSpace"]


class AddressSpace(Enum):
    """Address space of a memory object.

    GLOBAL: device buffers. LOCAL: shared by a workgroup. REG: private to a thread.
    """

    GLOBAL = "global"
    LOCAL = "local"
    REG = "reg"
