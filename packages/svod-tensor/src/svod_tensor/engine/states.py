"""Memory that is written: which content of a buffer a node reads.

A buffer has one state after each write to it. The first is the BUFFER itself, a later one

    AFTER(BUFFER, ASSIGN(target, value), NOOP 7)      target: a view of the state before

Two assignments are never one node, since each has a number. To that is attached which thread
assigned, and the memory once the assignment is done.

A write puts the new state into the cell that owns the memory; all other graphs keep reading the
state that they were built on. Nothing is written until something that reads the new state is
realized. What still reads a state that is about to be overwritten is then computed together with
it, and the scheduler lets it read first."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from threading import get_ident

from svod_ir import Op, UOp
from svod_ir.placement import is_file
from svod_tensor.engine import memory_nodes
from svod_tensor.options import DEFAULT_DEVICE

__all__ = [
    "copy_of",
    "effect_of_state",
    "find_state",
    "find_target_state",
    "find_whole_state",
    "get_written",
    "is_later_state",
    "is_memory",
    "is_own",
    "iter_memories",
    "list_states",
    "mark_of",
    "memory_of",
]

_TARGET_VIEWS = frozenset({Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP, Op.AS_COMPLEX})
_AS_COMPLEX = Op.AS_COMPLEX
_RESHAPE, _AFTER, _ASSIGN = Op.RESHAPE, Op.AFTER, Op.ASSIGN
_VIEWS = _TARGET_VIEWS | {Op.EXPAND, Op.DETACH}
_WHOLES = frozenset({Op.BUFFER, Op.RESHAPE, Op.SHRINK, Op.AFTER, Op.MULTI, Op.AS_COMPLEX})


def is_memory(node: UOp) -> bool:
    """Whether `node` is all of a buffer in order, after any assignments, or consists of such
    shards.
    """
    if node.op not in _WHOLES:
        return False
    shards = node.source.src if node.op is Op.MULTI else (node,)
    return all(0 in s.shape or _find_whole(s) is not None for s in shards)


def _find_whole(node: UOp) -> UOp | None:
    """The state that `node` is all of, in order, if any."""
    return find_whole_state(node) or memory_nodes.find_base(node)


def iter_memories(node: UOp) -> Iterable[UOp]:
    """The BUFFERs that `node` is a view of."""
    return [memory_of(state) for state in list_states(node)]


def find_state(node: UOp) -> UOp | None:
    """The state of a buffer that `node` is a view of, or None."""
    return _below(node, _VIEWS)


def find_target_state(node: UOp) -> UOp | None:
    """`find_state` of a view that can be written to, each element of which has a place of
    its own.
    """
    return _below(node, _TARGET_VIEWS)


def list_states(node: UOp) -> tuple[UOp, ...]:
    """The states that `node` is a view of: one, or one for each shard with elements; none where it
    is computed.
    """
    while node.op in _VIEWS:
        node = node.source
    shards = node.source.src if node.op is Op.MULTI else (node,)
    found = [find_state(shard) for shard in shards if 0 not in shard.shape]
    return () if None in found else tuple(state for state in found if state is not None)


def find_whole_state(node: UOp) -> UOp | None:
    """The state that `node` is all of, in order; None where it is a part, or no assignment is
    pending.
    """
    while node.op is _RESHAPE or node.op is _AS_COMPLEX:
        node = node.source
    if node.arg == (0, None) and node.op is Op.SHRINK:
        node = node.source
    return node if is_later_state(node) else None


def is_later_state(node: UOp) -> bool:
    """Whether `node` is the content of memory after an assignment that is not done yet."""
    return node.op is _AFTER and node.dependency.op is _ASSIGN


def effect_of_state(state: UOp) -> UOp:
    """The ASSIGN that leads to a state that is not the first."""
    return state.dependency


def memory_of(state: UOp) -> UOp:
    """The BUFFER that a state is the content of."""
    return state.source if state.op is Op.AFTER else state


def copy_of(node: UOp) -> UOp:
    """The content that `node` is all of, on one device, in other memory."""
    if 0 in node.shape:
        return node
    place = node.placement
    # A CONTIGUOUS of memory would stand for that memory wherever the graph reads it, or writes it.
    return UOp(
        Op.COPY,
        node.dtype,
        (node,),
        place if isinstance(place, str) and not is_file(place) else DEFAULT_DEVICE,
    )


def get_written(*roots: UOp) -> dict[UOp, UOp]:
    """The pending states in graphs, and the BUFFER that has their content once the graphs were
    computed.
    """
    root = roots[0] if len(roots) == 1 else UOp.sink(*roots)
    return {node: node.source for node in root.toposort() if is_later_state(node)}


def mark_of(state: UOp) -> UOp:
    """The NOOP with the number of the assignment that leads to a pending state."""
    _, mark = state.dependencies
    return mark


def is_own(state: UOp) -> bool:
    """Whether a pending state is one that this thread assigned."""
    return mark_of(state).attached == get_ident()


def _below(node: UOp, views: Collection[Op]) -> UOp | None:
    node = node.strip(views)
    return node if node.op is Op.BUFFER or is_later_state(node) else None
