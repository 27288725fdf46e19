"""Linux's permission to use AMX: without it, the first tile instruction ends the process with
SIGILL.

A process asks once. The kernel keeps the answer with the process and not with the thread, so that
it holds for threads that exist already, and passes it on to forked children; after exec a process
asks anew. Until a thread uses a tile it costs nothing: only then the kernel gives this thread the
room to save its tiles.

The kernel refuses where it was built or started without AMX, where a filter of system calls says
no, and where a thread has an alternative stack for signals that tiles do not fit on.

Source: Linux, Documentation/arch/x86/xstate.rst; arch/x86/kernel/fpu/xstate.c, xstate_request_perm.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Final

__all__ = ["may_use_tiles"]

_ARCH_PRCTL: Final = 158
_ARCH_REQ_XCOMP_PERM: Final = 0x1023
_TILE_DATA: Final = 18  # the number of the tiles' content among the parts of a thread's state


@cache
def may_use_tiles() -> bool:
    """Whether this process may use tiles, having asked for it; only for processors that
    have some.
    """
    if sys.platform != "linux":
        return False
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
