"""Thread pool of the process: its memory, its native functions, and its lifetime across forks and
exit.
"""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final, cast

# Only the C extension of cffi: the `cffi` package imports a C parser, which takes 80 ms.
from _cffi_backend import FFI

from svod_codegen._loader import load_internal
from svod_codegen.launcher.ir import EXPORTS, Parking, PoolLayout, make_launcher_ir
from svod_codegen.llvm.target import get_machine
from svod_codegen.options import CodegenOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from svod_codegen._loader import LoadedCode

__all__ = ["Pool", "get_parking", "get_pool"]

_SPINS: Final = 2000
"""Number of pauses before a worker sleeps, 20 to 90 us: longer than the gap between two kernels of a
plan.
"""

_ALIGNMENT: Final = 64

_ffi: Final = FFI()


class Pool:
    """Threads that run the parts of kernels together with the thread that launches them.

    `n_threads` includes the launching thread. Workers start at the first launch with several parts,
    sleep while idle, and are started again in the child of a fork. Launches may come from any
    thread; a launch that finds the pool busy runs all its parts itself, so it never blocks and never
    nests."""

    def __init__(self, n_threads: int, *, parking: Parking | None = None) -> None:
        self.n_threads = n_threads
        self.parking: Parking = parking or get_parking()
        self._code = _load_launcher(self.parking)  # keeps the native functions alive
        self._memory = _ffi.new("char[]", PoolLayout.HANDLES + 8 * n_threads + _ALIGNMENT)
        base = int(_ffi.cast("uintptr_t", self._memory))
        address = base + -base % _ALIGNMENT
        words = cast("list[int]", _ffi.cast("int64_t *", address))
        words[PoolLayout.WANTED // 8] = n_threads - 1
        words[PoolLayout.SPINS // 8] = _SPINS
        # Workers look for parts before the first region divides any.
        words[PoolLayout.N_QUEUES // 8] = 1
        self._words = words
        self.handle = _ffi.cast("void *", address)
        run_table, run_loops, launch, stop, reset = (self._code.addresses[name] for name in EXPORTS)
        self.run_table = cast(
            "Callable[[object, object, int], None]",
            _ffi.cast("void (*)(void *, void *, int64_t)", run_table),
        )
        """(handle, table, number of launches): run a whole table."""
        self.run_loops = cast(
            "Callable[[object, object, int], int]",
            _ffi.cast("int64_t (*)(void *, void *, int64_t)", run_loops),
        )
        """(handle, state, is_resumed): run a table with loops; return 1 if it has to be called again
        with is_resumed.
        """
        self.launch = cast(
            "Callable[[object, object, object, object, int], int]",
            _ffi.cast("int64_t (*)(void *, void *, void *, void *, int64_t)", launch),
        )
        """(handle, entry, buffers, values, n_parts): run one kernel, and return its time in
        nanoseconds.
        """
        self._stop = cast("Callable[[object], None]", _ffi.cast("void (*)(void *)", stop))
        self._reset = cast("Callable[[object], None]", _ffi.cast("void (*)(void *)", reset))

    @property
    def n_workers(self) -> int:
        """Number of workers, asleep or not."""
        return self._words[PoolLayout.N_WORKERS // 8]

    @property
    def n_sleeping(self) -> int:
        """Number of workers that sleep, or are about to."""
        return self._words[PoolLayout.SLEEPERS // 8] & 0xFFFFFFFF

    def stop(self) -> None:
        """End the workers and wait for them; the next launch with several parts starts new ones."""
        self._stop(self.handle)

    def reset_after_fork(self) -> None:
        """Forget the workers of the parent process; must be called in the child before any other
        method.
        """
        self._reset(self.handle)


@cache
def get_pool() -> Pool:
    """Return the pool of this process, with `SVOD_THREADS` threads, or one per usable core."""
    pool = Pool(CodegenOptions.from_env().threads)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=pool.reset_after_fork)
    atexit.register(pool.stop)
    return pool


def get_parking() -> Parking:
    """Return the primitive for sleeping threads on this system."""
    if sys.platform == "linux" and get_machine() in ("x86_64", "aarch64"):
        return "futex"
    return "none" if sys.platform == "win32" else "condition"


@cache
def _load_launcher(parking: Parking) -> LoadedCode:
    return load_internal(make_launcher_ir(get_machine(), sys.platform, parking), EXPORTS)
