"""rangeify: `Graph` → `RangedGraph`. Movement becomes index arithmetic over RANGEs; what is stored becomes BUFFERIZE."""

from __future__ import annotations

from collections.abc import Callable

from svod_ir.uop import UOp
from svod_schedule.rangeify.all_reduce import all_reduce
from svod_schedule.rangeify.limit_buffers import limit_buffers
from svod_schedule.rangeify.permute_early import permute_early
from svod_schedule.rangeify.place import place_nodes
from svod_schedule.rangeify.protect_assigned import protect_assigned
from svod_schedule.rangeify.pull import pull_values
from svod_schedule.rangeify.results import mark_results
from svod_schedule.rangeify.shard_values import shard_values
from svod_schedule.rangeify.split_reduce import split_reduce
from svod_schedule.rangeify.storage import choose_stored

__all__ = [
    "all_reduce", "limit_buffers", "mark_results", "permute_early", "protect_assigned", "range_values", "shard_values", "split_reduce",
]  # fmt: skip


def _always(_device: str) -> bool:
    return True


def range_values(sink: UOp, default_device: str = "CPU", has_private_rows: Callable[[str], bool] = _always) -> UOp:
    """Decide what is stored, and write each stored node as an expression over loops.

    Args:
        default_device: computes what comes from no memory and is read by nobody who does.
        has_private_rows: whether a thread of a device has memory of its own for rows.
    """
    devices = place_nodes(sink.toposort(), default_device)
    return pull_values(sink, choose_stored(sink, lambda node: has_private_rows(devices[node])), devices)
