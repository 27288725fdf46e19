"""Which device computes each node, and which nodes have memory of their own whatever reads them."""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import void
from svod_ir import Op, UOp
from svod_ir.custom_function import read_signature
from svod_ir.placement import is_file

__all__ = ["get_read_whole", "is_always_stored", "is_transfer", "place_nodes"]

_TRANSFERS = frozenset({Op.COPY, Op.BUFFER_VIEW, Op.CUSTOM_FUNCTION})
_ALWAYS_STORED = frozenset({Op.CONTIGUOUS, Op.SCAN_AXIS, Op.ASSIGN})


def is_always_stored(node: UOp) -> bool:
    """Whether a node is computed once, into memory, wherever it stands."""
    return node.op in _ALWAYS_STORED or is_transfer(node)


def is_transfer(node: UOp) -> bool:
    """Whether a node fills memory without a kernel: a COPY or a view of memory, or a custom function.

    A COPY of what is on no device only says where that is computed.
    """
    if node.op not in _TRANSFERS:
        return False
    if node.op is Op.COPY:
        return node.source.placement is not None
    return node.op is Op.BUFFER_VIEW or (node.op is Op.CUSTOM_FUNCTION and node.dtype is not void)


def get_read_whole(node: UOp) -> tuple[UOp, ...]:
    """The operands of a transfer that it takes as memory."""
    return read_signature(node).read if node.op is Op.CUSTOM_FUNCTION else node.src[:1]


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
