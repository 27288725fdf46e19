"""Versions of memory: the version of a buffer that a node reads.

A buffer has one version for each write to it. The first is the BUFFER itself, each later one is

    AFTER(BUFFER, ASSIGN(target, value), NOOP 7)      target: a view of the previous version

The NOOP carries a unique write id, so that two equal assignments are never interned as one node.
Attached to it are the thread that assigned and, once the write is committed, the memory.

A write makes the new version the value of the cell that owns the memory; all other graphs keep
reading the version that they were built on. No memory is written until a reader of the new version
is realized. Readers of the version that is about to be overwritten are then computed in the same
program, and the scheduler orders them before the write (write-after-read hazard)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from threading import get_ident

from svod_ir import Op, UOp
from svod_ir.placement import is_file
from svod_tensor.engine import memory_nodes
from svod_tensor.options import DEFAULT_DEVICE

__all__ = [
    "copy_of",
    "find_target_version",
    "find_version",
    "find_whole_version",
    "get_pending_versions",
    "is_memory",
    "is_own_write",
    "is_pending_version",
    "iter_memories",
    "list_versions",
    "memory_of",
    "write_id_of",
    "write_of",
]

_TARGET_VIEWS = frozenset({Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.AS_COMPLEX})
_AS_COMPLEX = Op.AS_COMPLEX
# Module constants: looking up an enum member takes longer, and walks call these functions for every
# node.
_RESHAPE, _AFTER, _ASSIGN = Op.RESHAPE, Op.AFTER, Op.ASSIGN
# EXPAND repeats elements, so that a write to one would change several; a write goes through a
# DETACH without it (`cells.views.make_target`).
_VIEWS = _TARGET_VIEWS | {Op.EXPAND, Op.DETACH}
_WHOLE_VIEWS = frozenset({Op.BUFFER, Op.RESHAPE, Op.SHRINK, Op.AFTER, Op.MULTI, Op.AS_COMPLEX})


def is_memory(node: UOp) -> bool:
    """True if `node` is a whole buffer in order, after any writes, or is sharded into such buffers."""
    if node.op not in _WHOLE_VIEWS:
        return False
    shards = node.source.src if node.op is Op.MULTI else (node,)
    return all(0 in s.shape or _find_whole_memory(s) is not None for s in shards)


def _find_whole_memory(node: UOp) -> UOp | None:
    """The version or BUFFER that `node` is all of, in order, if any."""
    return find_whole_version(node) or memory_nodes.find_base(node)


def iter_memories(node: UOp) -> Iterable[UOp]:
    """BUFFERs that `node` is a view of: one, or one per shard; none if its value is computed."""
    return [memory_of(version) for version in list_versions(node)]


def find_version(node: UOp) -> UOp | None:
    """The version of memory that `node` is a view of, or None."""
    return _strip_views(node, _VIEWS)


def find_target_version(node: UOp) -> UOp | None:
    """`find_version` for a view that can be written to: no two of its elements share memory."""
    return _strip_views(node, _TARGET_VIEWS)


def list_versions(node: UOp) -> tuple[UOp, ...]:
    """The versions that `node` is a view of: one, or one for each shard with elements; empty if it
    is computed.
    """
    while node.op in _VIEWS:
        node = node.source
    shards = node.source.src if node.op is Op.MULTI else (node,)
    versions = [find_version(shard) for shard in shards if 0 not in shard.shape]
    return () if None in versions else tuple(version for version in versions if version is not None)


def find_whole_version(node: UOp) -> UOp | None:
    """The pending version that `node` is all of, in order; None if it is a part, or no write is
    pending.
    """
    while node.op is _RESHAPE or node.op is _AS_COMPLEX:
        node = node.source
    # The leading part of memory that has room for the largest value of a symbolic size.
    if node.arg == (0, None) and node.op is Op.SHRINK:
        node = node.source
    return node if is_pending_version(node) else None


def is_pending_version(node: UOp) -> bool:
    """True if `node` is the version of memory after a write that is not computed yet."""
    return node.op is _AFTER and node.dependency.op is _ASSIGN


def write_of(version: UOp) -> UOp:
    """The ASSIGN whose result is a pending version."""
    return version.dependency


def memory_of(version: UOp) -> UOp:
    """The BUFFER that `version` is a version of."""
    return version.source if version.op is Op.AFTER else version


def copy_of(node: UOp) -> UOp:
    """A copy of `node`, which is all of a buffer on one device, in other memory."""
    if 0 in node.shape:
        return node
    device = node.placement
    # Not CONTIGUOUS: of memory, it is an alias of that memory wherever the graph reads or writes
    # it.
    return UOp(
        Op.COPY,
        node.dtype,
        (node,),
        device if isinstance(device, str) and not is_file(device) else DEFAULT_DEVICE,
    )


def get_pending_versions(*roots: UOp) -> dict[UOp, UOp]:
    """The pending versions in graphs, each with the BUFFER that holds it once the write is
    computed.
    """
    root = roots[0] if len(roots) == 1 else UOp.sink(*roots)
    return {node: node.source for node in root.toposort() if is_pending_version(node)}


def write_id_of(version: UOp) -> UOp:
    """The NOOP with the unique id of the write that leads to a pending version."""
    _, write_id = version.dependencies
    return write_id


def is_own_write(version: UOp) -> bool:
    """True if this thread made the write that leads to a pending version."""
    return write_id_of(version).attached == get_ident()


def _strip_views(node: UOp, views: Collection[Op]) -> UOp | None:
    node = node.strip(views)
    return node if node.op is Op.BUFFER or is_pending_version(node) else None
