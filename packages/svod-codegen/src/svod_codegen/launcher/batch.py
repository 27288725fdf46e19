"""Batch launcher of CPU kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from svod_codegen.launcher.loops import CpuLoopTable
from svod_codegen.launcher.pool import Pool, get_pool
from svod_codegen.launcher.table import CpuTable
from svod_device import Move, Repeat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from svod_device import BatchItem, Launch

__all__ = ["CPU_LAUNCHER", "CpuBatchLauncher"]


class CpuBatchLauncher:
    """Launcher of tables of CPU launches, with or without loops, by one native call per table."""

    runs_loops: bool = True

    def __init__(self, pool: Pool | None = None) -> None:
        self._pool = pool

    def make_table(self, launches: Sequence[BatchItem]) -> CpuTable | CpuLoopTable:
        """Prepare launches, copies and loops.

        Raises:
            ValueError: A program has no native entry point, or a loop is malformed.
        """
        if any(isinstance(item, Repeat | Move) for item in launches):
            return CpuLoopTable(launches)
        return CpuTable(cast("Sequence[Launch]", launches), self._pool or get_pool())

    def run(self, table: object) -> None:
        """Run a table to its end, with the GIL released.

        A table with loops returns to Python from time to time, between two iterations, so that a
        `KeyboardInterrupt` can end it."""
        if isinstance(table, CpuTable):
            table.run()
        elif isinstance(table, CpuLoopTable):
            pool = self._pool or get_pool()
            is_unfinished = pool.run_loops(pool.handle, table.state, 0)
            while is_unfinished:
                is_unfinished = pool.run_loops(pool.handle, table.state, 1)
        else:
            raise TypeError(f"not a table of this launcher: {table!r}")


CPU_LAUNCHER: Final = CpuBatchLauncher()
"""Launcher of the process's pool, shared by all CPU devices, so that one call may run kernels of
several devices.
"""
