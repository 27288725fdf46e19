"""Linux's permission to use AMX, without which the first tile instruction raises SIGILL.

A process requests it once. The permission belongs to the process, so it also applies to existing
threads and forked children, but not after exec. It costs nothing until a thread uses a tile: only
then the kernel allocates the memory to save the thread's tiles.

The kernel refuses if it was built or booted without AMX, if a seccomp filter denies the call, or if
a thread has an alternate signal stack that is too small for tiles.

Source: Linux, Documentation/arch/x86/xstate.rst; arch/x86/kernel/fpu/xstate.c, xstate_request_perm.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Final

__all__ = ["may_use_tiles"]

_ARCH_PRCTL: Final = 158
_ARCH_REQ_XCOMP_PERM: Final = 0x1023
_TILE_DATA: Final = 18  # index of the tile data among the components of XSAVE


@cache
def may_use_tiles() -> bool:
    """Request permission to use tiles, and return whether it was granted; only for processors with
    tiles.
    """
    if sys.platform != "linux":
        return False
    # Imported here: processors without tiles never come this far.
    import ctypes

    system_call = ctypes.CDLL(None).syscall
    system_call.restype = ctypes.c_long
    return (
        system_call(
            ctypes.c_long(_ARCH_PRCTL),
            ctypes.c_long(_ARCH_REQ_XCOMP_PERM),
            ctypes.c_long(_TILE_DATA),
        )
        == 0
    )
