"""Memory that is written: which content of a buffer a graph reads, and who must read before it changes.

A buffer has one state after each assignment to it. The first is the BUFFER itself, a later one

    AFTER(BUFFER, ASSIGN(target, value), NOOP 7)      target: a view of the state before

Two assignments are never one node, since each has a number. What is attached to that says that the assignment is done.

An assignment moves every live tensor that is a plain view of the buffer to the new state; all other
graphs keep reading the state that they were built on. Nothing is written until something that reads the new
state is realized. What still reads a state that is about to be overwritten is then computed together
with it, and the scheduler lets it read first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from svod_dtype import void
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor import registry
from svod_tensor.capture import find_capture
from svod_tensor.origins import add_line

if TYPE_CHECKING:
    from svod_tensor.ops.base import TensorBase

__all__ = [
    "assign", "effect_of_state", "find_done", "find_overtaken", "find_readers", "find_state", "find_states", "find_target_state",
    "find_targets", "find_whole_state", "find_written", "is_later_state", "make_writable", "memory_of",
    "settle",
]  # fmt: skip

_TARGET_VIEWS = frozenset({Op.RESHAPE, Op.PERMUTE, Op.SHRINK, Op.FLIP})
_RESHAPE, _AFTER, _ASSIGN = Op.RESHAPE, Op.AFTER, Op.ASSIGN
_numbers = itertools.count(1)
_VIEWS = _TARGET_VIEWS | {Op.EXPAND, Op.DETACH}


def find_state(node: UOp) -> UOp | None:
    """The state of a buffer that `node` is a view of, or None."""
    return _below(node, _VIEWS)


def find_target_state(node: UOp) -> UOp | None:
    """`find_state` of a view that can be written to, each element of which has a place of its own."""
    return _below(node, _TARGET_VIEWS)


def find_states(node: UOp) -> tuple[UOp, ...]:
    """The states that `node` is a view of: one, or one for each shard with elements; none where it is computed."""
    while node.op in _VIEWS:
        node = node.src[0]
    shards = node.src[0].src if node.op is Op.MULTI else (node,)
    found = [find_state(shard) for shard in shards if 0 not in shard.shape]
    return () if None in found else tuple(state for state in found if state is not None)


def find_targets(node: UOp) -> tuple[UOp, ...]:
    """The shards of a tensor on several devices, if all of those with elements can be written to."""
    if node.op is not Op.MULTI:
        return ()
    shards = node.src[0].src
    return shards if all(0 in s.shape or find_target_state(s) is not None for s in shards) else ()


def find_whole_state(node: UOp) -> UOp | None:
    """The state that `node` is all of, in order; None where it is a part, or no assignment is pending."""
    while node.op is _RESHAPE:
        node = node.src[0]
    if node.arg == (0, None) and node.op is Op.SHRINK:
        node = node.src[0]
    return node if is_later_state(node) else None


def is_later_state(node: UOp) -> bool:
    """Whether `node` is the content of memory after an assignment that is not done yet."""
    return node.op is _AFTER and node.src[1].op is _ASSIGN


def effect_of_state(state: UOp) -> UOp:
    """The ASSIGN that leads to a state that is not the first."""
    return state.src[1]


def memory_of(state: UOp) -> UOp:
    """The BUFFER that a state is the content of."""
    return state.src[0] if state.op is Op.AFTER else state


def assign(target: UOp, value: UOp) -> None:
    """Let every live view of the buffer below `target` read it as `value` leaves it, once that is computed."""
    with registry.lock:
        state = find_target_state(target)
        assert state is not None, target
        own = make_writable(state)
        written = UOp(Op.ASSIGN, target.dtype, (target.substitute({state: own}), value))
        number = UOp(Op.NOOP, void, (), next(_numbers))
        new = UOp(Op.AFTER, own.dtype, (memory_of(own), written, number))
        add_line(new)
        _move_views(own, new)
        capture = find_capture()
        if capture is not None:
            capture.record_state(new, own)


def make_writable(node: UOp) -> UOp:
    """The state below a view, on memory that may be written.

    Memory that belongs to somebody else, such as a numpy array, is copied, and every view of it moved.
    """
    state = find_state(node)
    assert state is not None, node
    buffer = registry.find_buffer(memory_of(state))
    return state if buffer is None or buffer.is_writable else _copy_shared(state)


def find_readers(memories: set[UOp]) -> list[TensorBase]:
    """The live tensors that are computed from the content of `memories`, and are no views of it."""
    with registry.lock:
        tensors = [t for t in registry.iter_tensors() if not find_states(t.uop)]
        return [t for t in tensors if memories & _read_states(t.uop, {})]


def find_written(*roots: UOp) -> dict[UOp, UOp]:
    """The pending states in graphs, and the BUFFER that has their content once the graphs were computed."""
    root = roots[0] if len(roots) == 1 else UOp.sink(*roots)
    return {node: node.src[0] for node in root.toposort() if is_later_state(node)}


def find_overtaken(nodes: Sequence[UOp]) -> list[TensorBase]:
    """The live tensors that must be computed together with `nodes`: they read content that `nodes` overwrite.

    The caller holds `registry.lock`.
    """
    found: list[TensorBase] = []
    known = set(nodes)
    while True:
        written = find_written(*known)
        if not written:
            return []
        overwritten = {find_target_state(effect_of_state(state).src[0]) for state in written}
        new = [t for t in registry.iter_tensors() if t.uop not in known and overwritten & _read_states(t.uop, written)]
        if not new:
            return found
        found += new
        known.update(t.uop for t in new)


def settle(written: Mapping[UOp, UOp], others: Mapping[UOp, UOp] | None = None) -> None:
    """Let each pending state in `written`, which is done or left to a plan, be the content of its memory everywhere.

    With `others`, more nodes are replaced in the same walk.
    """
    with registry.lock:
        for state, memory in written.items():
            state.src[2].attached = memory
        registry.replace_nodes({**written, **(others or {})})


def find_done(written: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
    """Those of the pending states that are settled: a tensor was made of one just when another thread replaced it."""
    return {state: memory for state, memory in written.items() if state.src[2].attached is not None}


def _below(node: UOp, views: Iterable[Op]) -> UOp | None:
    while node.op in views:
        node = node.src[0]
    return node if node.op is Op.BUFFER or is_later_state(node) else None


def _move_views(old: UOp, new: UOp) -> None:
    capture = find_capture()
    for tensor in registry.iter_tensors():
        states = find_states(tensor.uop)
        if old in states:
            if capture is not None:
                capture.record_move(tensor, tensor.uop)
            # What other shards were assigned may have been made from the old state.
            tensor.set_node(tensor.uop.substitute({**{state: state for state in states}, old: new}))


def _copy_shared(buffer_node: UOp) -> UOp:
    """Memory of its own for a tensor whose memory belongs to somebody else, such as a numpy array."""
    from svod_device import copy_buffer
    from svod_tensor import storage

    shared = registry.find_buffer(buffer_node)
    assert shared is not None
    copied = storage.allocate(shared.device, shared.dtype, shared.size)
    copy_buffer(copied, shared)
    own = registry.make_memory(buffer_node.dtype, shared.size, shared.device, copied)
    _move_views(buffer_node, own)
    return own


def _read_states(root: UOp, written: dict[UOp, UOp]) -> set[UOp]:
    """The states whose content the graph of `root` needs besides those that computing `written` gives."""
    found: set[UOp] = set()
    seen: set[UOp] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is Op.BUFFER:
            found.add(node)
        elif is_later_state(node):
            found.add(node)
            stack.extend(_needed_for(node, written))
        else:
            stack.extend(node.src)
    return found


def _needed_for(state: UOp, written: dict[UOp, UOp]) -> list[UOp]:
    """What must be read to reach a state: the values of the assignments up to it that are not among `written`."""
    needed: list[UOp] = []
    while is_later_state(state) and state not in written:
        target, value = effect_of_state(state).src
        needed.append(value)
        below = find_target_state(target)
        assert below is not None, target
        state = below
    return needed
