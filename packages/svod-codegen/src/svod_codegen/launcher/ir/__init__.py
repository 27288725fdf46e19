"""Thread pool and batch launcher, written in LLVM IR so that no C compiler is needed at install time.

`tables` runs tables of launches; `loops` runs tables with loops, with the entry and exit of loops in
`edges` and the layout of the table in `records`. `regions` has the threads that both use, `parking`
the differences between systems, and `module` assembles all of it."""

from __future__ import annotations

from svod_codegen.launcher.ir.module import EXPORTS, make_launcher_ir
from svod_codegen.launcher.ir.parking import Parking
from svod_codegen.launcher.ir.regions import PoolLayout

__all__ = ["EXPORTS", "Parking", "PoolLayout", "make_launcher_ir"]
