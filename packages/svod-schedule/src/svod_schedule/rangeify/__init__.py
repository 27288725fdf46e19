"""rangeify: `Graph` → `RangedGraph`. Movement becomes index arithmetic over RANGEs; what is stored becomes BUFFERIZE."""

from __future__ import annotations

from svod_ir.uop import UOp
from svod_schedule.rangeify.permute_early import permute_early
from svod_schedule.rangeify.protect_assigned import protect_assigned
from svod_schedule.rangeify.pull import pull_values
from svod_schedule.rangeify.results import mark_results
from svod_schedule.rangeify.split_reduce import split_reduce
from svod_schedule.rangeify.storage import choose_stored

__all__ = ["mark_results", "permute_early", "protect_assigned", "range_values", "split_reduce"]


def range_values(sink: UOp, default_device: str = "CPU", *, has_private_rows: bool = True) -> UOp:
    """Decide what is stored, and write each stored node as an expression over loops."""
    return pull_values(sink, choose_stored(sink, has_private_rows=has_private_rows), default_device)
