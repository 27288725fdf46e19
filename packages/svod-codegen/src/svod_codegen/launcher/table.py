"""Batches of launches as one array that the native launcher walks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from _cffi_backend import FFI

from svod_codegen.launcher.pool import Pool, get_pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from svod_device import Launch

__all__ = ["CpuBatchLauncher", "CpuTable"]

_ffi: Final = FFI()


class CpuTable:
    """Launches in the launcher's form; keeps alive the programs and the arrays that it points to."""

    __slots__ = ("launches", "n_launches", "records")

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = tuple(launches)
        self.n_launches = len(self.launches)
        words: list[int] = []
        start = 0
        for end, launch in enumerate(self.launches, 1):
            if end == self.n_launches or self.launches[end].group != launch.group:
                words += _make_group(self.launches[start:end])
                start = end
        self.records = _ffi.new("int64_t[]", words)


class CpuBatchLauncher:
    """Runs tables of CPU launches, each with one foreign call."""

    def __init__(self, pool: Pool | None = None) -> None:
        self._pool = pool

    def make_table(self, launches: Sequence[Launch]) -> CpuTable:
        """Prepare launches.

        Raises:
            ValueError: A program has no native entry point.
        """
        return CpuTable(launches)

    def run(self, table: object) -> None:
        """Run the table to its end, with the interpreter lock released."""
        if not isinstance(table, CpuTable):
            raise TypeError(f"not a table of this launcher: {table!r}")
        pool = self._pool or get_pool()
        pool.run_table(pool.handle, table.records, table.n_launches)


def _make_group(group: Sequence[Launch]) -> list[int]:
    """The records of launches that may run at the same time; the first tells how many they are."""
    n_parts = sum([launch.n_parts for launch in group])
    words: list[int] = []
    for launch in group:
        entry = launch.program.entry
        if entry is None:
            raise ValueError(f"program {launch.program.name!r} has no native entry point and cannot run in a batch")
        buffers, values = launch.buffers.buffer_info()[0], launch.values.buffer_info()[0]
        words += (entry, buffers, values, launch.n_parts, len(group), n_parts)
    return words
