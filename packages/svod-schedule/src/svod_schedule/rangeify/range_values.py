"""range-values: choose the values to materialize, and write each as an expression over loops.

before → after:

    EXPAND(RESHAPE(x))      BUFFERIZE(INDEX(x, i), i, j), with RANGEs i and j
"""

from __future__ import annotations

from collections.abc import Callable

from svod_ir import UOp
from svod_schedule.rangeify.analysis.devices import assign_devices
from svod_schedule.rangeify.analysis.stored_nodes import choose_stored
from svod_schedule.rangeify.expressions.pull_values import pull_values

__all__ = ["range_values"]


def _always(_device: str) -> bool:
    return True


def range_values(
    sink: UOp, default_device: str = "CPU", has_private_rows: Callable[[str], bool] = _always
) -> UOp:
    """Decide which nodes are materialized, and write each of them as an expression over loops.

    Args:
        default_device: device of the values that neither read memory nor have a reader that does.
        has_private_rows: whether a thread of a device has private memory for rows.
    """
    devices = assign_devices(sink.toposort(), default_device)
    return pull_values(
        sink, choose_stored(sink, lambda node: has_private_rows(devices[node])), devices
    )
