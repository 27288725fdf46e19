"""Memory in graphs: BUFFER nodes, and the buffers behind them.

A buffer is attached to its BUFFER node and lives as long as that does, that is, as long as some
graph mentions it."""

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
    "remove_buffer",
]

ALIASES = frozenset({Op.AFTER, Op.MSTACK, Op.MSELECT, Op.RESHAPE, Op.CONTIGUOUS, Op.DETACH})
"""What an argument of a CALL is besides memory itself: other names of it."""

_ids = itertools.count(1)
_RESHAPE, _SHRINK, _BUFFER, _TRACED, _AS_COMPLEX = (
    Op.RESHAPE,
    Op.SHRINK,
    Op.BUFFER,
    Op.TRACED,
    Op.AS_COMPLEX,
)


def make_memory(dtype: DType, size: int, device: str, buffer: Buffer | None = None) -> UOp:
    """A new BUFFER of `size` elements, with `buffer` as its storage; without, it only stands for
    memory.
    """
    node = UOp(Op.BUFFER, dtype, (), BufferArg(next(_ids), size, device))
    node.attached = buffer
    return node


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
    """Let the BUFFER `node` have no storage any more."""
    node.attached = None


def find_base(node: UOp) -> UOp | None:
    """The BUFFER whose elements, from the first on, are those of `node` in order; None if there is
    none.

    That of complex numbers has their parts.

    A tensor with symbolic sizes is the first part of a buffer that has room for the largest ones.
    """
    # Members of an enum are looked up once: every argument of every call of a captured function
    # comes through here.
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
    """Whether `node` is a whole buffer under another shape, or consists of such shards, so that it
    needs no computation.
    """
    if node.op is Op.MULTI:
        return all(find_base(shard) is not None or 0 in shard.shape for shard in node.source.src)
    return find_base(node) is not None


def is_there(node: UOp) -> bool:
    """Whether a node is memory already, or has no elements."""
    return is_buffer_identity(node) or 0 in node.shape


def get_memory(source: UOp) -> UOp:
    """The BUFFER or PARAM whose content an argument of a CALL is.

    Raises:
        ScheduleError: if there is none.
    """
    node: UOp = source
    while node.op not in (Op.BUFFER, Op.PARAM, Op.DEFINE_LOCAL):
        if node.op is Op.MSELECT and node.source.op is Op.MSTACK:
            position: int = node.arg
            node = node.source.src[position]
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
