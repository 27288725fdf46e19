"""BUFFER nodes: memory in graphs, with its buffers.

A buffer is attached to its BUFFER node and lives as long as the node, that is, as long as some
graph refers to it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, cast

from svod_ir import BufferArg, Op, UOp
from svod_tensor.errors import BufferNotFoundError, ScheduleError

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_dtype import DType

__all__ = [
    "ALIASES",
    "find_base",
    "find_buffer",
    "get_buffer",
    "get_memory",
    "is_buffer_identity",
    "is_there",
    "make_memory",
    "make_memory_like",
    "remove_buffer",
]

ALIASES = frozenset({Op.AFTER, Op.MSTACK, Op.MSELECT, Op.RESHAPE, Op.CONTIGUOUS, Op.DETACH})
"""Operations that name the same memory as their source, where an argument of a CALL is not a BUFFER
or PARAM itself.
"""

_ids = itertools.count(1)
_RESHAPE, _SHRINK, _BUFFER, _TRACED, _AS_COMPLEX = (
    Op.RESHAPE,
    Op.SHRINK,
    Op.BUFFER,
    Op.TRACED,
    Op.AS_COMPLEX,
)


def make_memory(dtype: DType, size: int, device: str, buffer: Buffer | None = None) -> UOp:
    """Return a new BUFFER of `size` elements with `buffer` as its storage, or without storage."""
    node = UOp(Op.BUFFER, dtype, (), BufferArg(next(_ids), size, device))
    node.attached = buffer
    return node


def make_memory_like(node: UOp, buffer: Buffer) -> UOp:
    """Return a new BUFFER with the size, dtype and device of the BUFFER `node` and another storage."""
    return make_memory(node.dtype, node.arg.size, node.arg.device, buffer)


def find_buffer(node: UOp) -> Buffer | None:
    """The storage of a BUFFER node, or None."""
    return cast("Buffer | None", node.attached)


def get_buffer(node: UOp) -> Buffer:
    """The storage of a BUFFER node.

    Raises:
        BufferNotFoundError: if it has none.
    """
    buffer = find_buffer(node)
    if buffer is None:
        raise BufferNotFoundError(node=node)
    return buffer


def remove_buffer(node: UOp) -> None:
    """Detach the storage from the BUFFER `node`."""
    node.attached = None


def find_base(node: UOp) -> UOp | None:
    """The BUFFER whose leading elements are the elements of `node` in order; None if there is none.

    The buffer of complex numbers holds their real and imaginary parts. A tensor with symbolic sizes
    is the first part of a buffer that has room for the largest ones."""
    # Enum members are bound to module constants, not looked up: every argument of every call of a
    # captured function comes through here.
    while node.op is _RESHAPE or node.op is _TRACED or node.op is _AS_COMPLEX:
        node = node.source
    op = node.op
    if op is _BUFFER:
        return node
    return (
        node.source
        if op is _SHRINK and node.arg == (0, None) and node.source.op is _BUFFER
        else None
    )


def is_buffer_identity(node: UOp) -> bool:
    """True if `node` is a whole buffer under another shape, or is sharded into such buffers, so
    that it needs no computation.
    """
    if node.op is Op.MULTI:
        return all(find_base(shard) is not None or 0 in shard.shape for shard in node.source.src)
    return find_base(node) is not None


def is_there(node: UOp) -> bool:
    """True if `node` is memory already, or has no elements."""
    return is_buffer_identity(node) or 0 in node.shape


def get_memory(source: UOp) -> UOp:
    """The BUFFER or PARAM that an argument of a CALL refers to.

    Raises:
        ScheduleError: if there is none.
    """
    node: UOp = source
    while node.op not in (Op.BUFFER, Op.PARAM, Op.DEFINE_LOCAL):
        if node.op is Op.MSELECT and node.source.op is Op.MSTACK:
            index: int = node.arg
            node = node.source.src[index]
        elif node.op in ALIASES:
            node = node.source
        else:
            raise ScheduleError(
                rule=(
                    "an argument of a CALL is AFTER, BUFFER, PARAM, DEFINE_LOCAL, MSELECT, MSTACK"
                    " or BIND"
                ),
                found=node,
            )
    return node
