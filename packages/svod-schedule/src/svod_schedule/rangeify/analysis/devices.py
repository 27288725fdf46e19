"""The device that computes each node, and the nodes that are always materialized."""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import void
from svod_ir import Op, UOp
from svod_ir.custom_function import read_signature
from svod_ir.loops import find_count
from svod_ir.placement import is_file

__all__ = [
    "assign_devices",
    "get_memory_operands",
    "is_always_stored",
    "is_transfer",
    "list_memory_operand_indices",
]

_TRANSFERS = frozenset({Op.COPY, Op.BUFFER_VIEW, Op.CUSTOM_FUNCTION, Op.RESULT})
_VARIABLES = frozenset({Op.BIND, Op.DEFINE_VAR})
# Scans and scatters are sequential: a reader would repeat all of them for each of its elements.
_ALWAYS_STORED = frozenset({Op.CONTIGUOUS, Op.SCAN_AXIS, Op.SCATTER, Op.ASSIGN})


def is_always_stored(node: UOp) -> bool:
    """Whether a node is materialized in every graph."""
    return node.op in _ALWAYS_STORED or is_transfer(node)


def is_transfer(node: UOp) -> bool:
    """Whether a node fills memory without a kernel: a COPY or a view of memory, a custom function,
    or a loop.

    A COPY of a value without a device is no transfer: it only names the device that computes it.
    """
    if node.op not in _TRANSFERS:
        return False
    if node.op is Op.COPY:
        return node.source.placement is not None
    return node.op is not Op.CUSTOM_FUNCTION or node.dtype is not void


def get_memory_operands(node: UOp) -> tuple[UOp, ...]:
    """Return the operands that a transfer takes as memory; for a RESULT, the operands that its loop
    takes.
    """
    match node.op:
        case Op.CUSTOM_FUNCTION:
            return read_signature(node).arrays
        case Op.RESULT:
            return _get_loop_memory(node.source)
        case _:
            return node.src[:1]


def list_memory_operand_indices(node: UOp) -> range | tuple[int, ...]:
    """Return the indices of the operands that a transfer, a loop or a switch takes as memory."""
    match node.op:
        case Op.CUSTOM_FUNCTION if node.dtype is not void:
            signature = read_signature(node)
            end = len(node.src) - len(signature.scalars)
            return range(end - len(signature.arrays), end)
        case Op.LOOP | Op.SWITCH:
            read = set(_get_loop_memory(node))
            first = 0 if _is_count_read(node) else 1
            return tuple(i for i, operand in enumerate(node.src) if i >= first and operand in read)
        case Op.COPY | Op.BUFFER_VIEW if is_transfer(node):
            return (0,)
        case _:
            return ()


def _is_count_read(loop: UOp) -> bool:
    return loop.op is Op.SWITCH or find_count(loop) is None


def _get_loop_memory(loop: UOp) -> tuple[UOp, ...]:
    count, *operands = loop.src
    # The host passes variables by value.
    return tuple(
        s
        for s in ((count, *operands) if _is_count_read(loop) else operands)
        if s.op not in _VARIABLES
    )


def assign_devices(order: Sequence[UOp], default_device: str) -> dict[UOp, str]:
    """Assign a device to each node: its own, else the device of a reader, else `default_device`."""
    devices: dict[UOp, str] = {}
    # Readers come before their operands, so that a value without a device gets one of a reader's;
    # the first reader in this order decides.
    for node in reversed(order):
        own = node.placement
        device = (
            own if isinstance(own, str) and not is_file(own) else devices.get(node, default_device)
        )
        devices[node] = device
        for operand in node.src:
            if operand.placement is None:
                devices.setdefault(operand, device)
    return devices
