"""Assembly of the launcher's LLVM IR module for a system."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from svod_codegen.launcher.ir.edges import EDGES
from svod_codegen.launcher.ir.loops import LOOPS
from svod_codegen.launcher.ir.parking import Parking, make_platform
from svod_codegen.launcher.ir.records import RECORDS
from svod_codegen.launcher.ir.regions import NO_WORKERS, WORKERS, PoolLayout
from svod_codegen.launcher.ir.tables import TABLES

__all__ = ["EXPORTS", "make_launcher_ir"]

EXPORTS: Final = (
    "svod_run_table",
    "svod_run_loops",
    "svod_launch",
    "svod_stop_workers",
    "svod_reset_after_fork",
)

_STACK_BYTES: Final = (
    8 << 20
)  # kernels have packed panels on the stack; the default on some systems is only 128 KiB


def make_launcher_ir(machine: str, system: str, parking: Parking) -> str:
    """Make the launcher's module for an architecture ("x86_64", "aarch64", ...) and system ("linux",
    "darwin", ...).
    """
    platform = make_platform(machine, system, parking)
    workers = NO_WORKERS if parking == "none" else WORKERS
    text = TABLES + EDGES + LOOPS + workers + platform.declarations + platform.now
    values = asdict(platform) | {"stack_bytes": _STACK_BYTES}
    # The offsets come last, since the platform's snippets refer to them too.
    values |= {name: offset for name, offset in vars(PoolLayout).items() if name.isupper()}
    for record in RECORDS:
        values |= {
            f"{record.__name__}.{field}": position for position, field in enumerate(record._fields)
        }
        values[f"{record.__name__}.words"] = len(record._fields)
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", str(value))
    return text
