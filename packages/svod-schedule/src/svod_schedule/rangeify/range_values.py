"""range-values: choose what is stored, and write it as expressions over loops.

before → after:

    EXPAND(RESHAPE(x))      BUFFERIZE(INDEX(x, i), i, j), with RANGEs i and j
"""

from __future__ import annotations

from collections.abc import Callable

from svod_ir import UOp
from svod_schedule.rangeify.analysis.devices import place_nodes
from svod_schedule.rangeify.analysis.stored_nodes import choose_stored
from svod_schedule.rangeify.expressions.pull_values import pull_values

__all__ = ["range_values"]


def _always(_device: str) -> bool:
    return True


def range_values(
    sink: UOp, default_device: str = "CPU", has_private_rows: Callable[[str], bool] = _always
) -> UOp:
    """Decide what is stored, and write each stored node as an expression over loops.

    Args:
        default_device: computes what comes from no memory and is read by nobody who does.
        has_private_rows: whether a thread of a device has memory of its own for rows.
    """
    devices = place_nodes(sink.toposort(), default_device)
    return pull_values(
        sink, choose_stored(sink, lambda node: has_private_rows(devices[node])), devices
    )
