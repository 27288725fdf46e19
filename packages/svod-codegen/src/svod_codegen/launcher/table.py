"""Tables of launches without loops, as an array for the native launcher."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from _cffi_backend import FFI

if TYPE_CHECKING:
    from collections.abc import Sequence

    from svod_codegen.launcher.pool import Pool
    from svod_device import Launch

__all__ = ["CpuTable", "make_group"]

_ffi: Final = FFI()


class CpuTable:
    """Launches in the launcher's format. It keeps the programs and arrays alive that it points to.

    `run` runs them in a pool.
    """

    __slots__ = ("launches", "n_launches", "records", "run")

    def __init__(self, launches: Sequence[Launch], pool: Pool) -> None:
        self.launches = tuple(launches)
        self.n_launches = len(self.launches)
        words: list[int] = []
        start = 0
        for end, launch in enumerate(self.launches, 1):
            if end == self.n_launches or self.launches[end].group != launch.group:
                words += make_group(self.launches[start:end])
                start = end
        self.records = _ffi.new("int64_t[]", words)
        # Bound once, since a plan of small kernels spends its time on such lookups.
        self.run = partial(pool.run_table, pool.handle, self.records, self.n_launches)


def make_group(group: Sequence[Launch]) -> list[int]:
    """Make the records of launches that may run at the same time; the first record has their number."""
    n_parts = sum([launch.n_parts for launch in group])
    words: list[int] = []
    for launch in group:
        entry = launch.program.entry
        if entry is None:
            raise ValueError(
                f"program {launch.program.name!r} has no native entry point and cannot run in a"
                " batch"
            )
        # Addresses of arrays, which the caller keeps alive and writes before each run.
        buffers, values = launch.buffers.buffer_info()[0], launch.values.buffer_info()[0]
        words += (entry, buffers, values, launch.n_parts, len(group), n_parts)
    return words
