"""The thread pool and the batch launcher, written as LLVM IR so that no C compiler is needed at
install time.

`tables` walks launches; `loops` walks launches with loops around them, with `edges`, what is done
where a loop begins and ends, on `records`. `regions` are the threads that both use, `parking` is
what differs between systems, and `module` puts all of it together."""

from __future__ import annotations

from svod_codegen.launcher.ir.module import EXPORTS, make_launcher_ir
from svod_codegen.launcher.ir.parking import Parking
from svod_codegen.launcher.ir.regions import PoolLayout

__all__ = ["EXPORTS", "Parking", "PoolLayout", "make_launcher_ir"]
