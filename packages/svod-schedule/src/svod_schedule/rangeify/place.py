"""Which device computes each node, and which COPYs move anything."""

from __future__ import annotations

from collections.abc import Sequence

from svod_ir.ops import Op
from svod_ir.placement import is_file
from svod_ir.uop import UOp

__all__ = ["is_transfer", "place_nodes"]


def is_transfer(node: UOp) -> bool:
    """Whether a node is a COPY of memory; a COPY of what is on no device only says where that is computed."""
    return node.op is Op.COPY and node.src[0].placement is not None


def place_nodes(order: Sequence[UOp], default_device: str) -> dict[UOp, str]:
    """The device that computes each node: its own, else that of the first node which reads it, else `default_device`."""
    devices: dict[UOp, str] = {}
    for node in reversed(order):
        own = node.placement
        device = own if isinstance(own, str) and not is_file(own) else devices.get(node, default_device)
        devices[node] = device
        for operand in node.src:
            if operand.placement is None:
                devices.setdefault(operand, device)
    return devices
