"""The process-wide tables of live tensors, of plans and of computations that run, and the buffers behind BUFFER nodes.

The tables hold their entries weakly: a tensor that nobody refers to leaves its table. A buffer is attached to its BUFFER
node and lives as long as that does, that is, as long as some graph mentions it.

What several threads may rely on:

- The node of a live tensor changes under `lock` alone. A new tensor is entered without it, so that a tensor that is made of
  a node that another thread replaces meanwhile may keep the old one. It has the same value: what an assignment that is done
  leads to is memory wherever it is still met (`states.find_done`).
- Who computes looks at nodes, buffers and other computations in one go, under `lock`, and says what it touches and writes
  (`start_computation`). Nobody writes memory that the computation of another thread touches. Who has to wait looks again
  afterwards: an assignment that two threads need is done once.
- Compilation and execution hold no lock. Replacements that happen meanwhile keep values, and are followed
  (`Computation.nodes`); a tensor that was given another value in that time keeps it, and is computed again.
- An assignment in a function that is being captured counts as a computation that writes, until the capture ends: no other
  thread computes with placeholders.
- A finalizer may run between any two steps of a thread, also while that holds `lock`, which is reentrant: it may enter, remove
  and replace nodes. Tables are therefore copied before they are walked, entries are removed by those that put them there, and
  nodes are read again before they are replaced.
- In the child of a fork there are no computations but those of its only thread.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from svod_ir.args import BufferArg
from svod_ir.forks import hold_across_fork
from svod_ir.ops import Op
from svod_ir.uop import UOp

if TYPE_CHECKING:
    from svod_device import Buffer
    from svod_dtype import DType
    from svod_runtime import ExecutionPlan
    from svod_tensor.ops.base import TensorBase

__all__ = [
    "Computation",
    "add_plan",
    "add_plan_values",
    "add_tensor",
    "clear",
    "count_waiting",
    "end_computation",
    "extend_computation",
    "find_base",
    "find_buffer",
    "find_plan_values",
    "is_buffer_identity",
    "iter_plans",
    "iter_tensors",
    "lock",
    "make_memory",
    "note_new_node",
    "remove_buffer",
    "remove_tensor",
    "replace_nodes",
    "start_computation",
]

lock = hold_across_fork(threading.RLock())
"""Held while a tensor's node is replaced, and while it is decided what to compute."""

_tensors: dict[int, weakref.ref[TensorBase]] = {}
# Those of them that need computing, and new ones that nobody looked at: a process has thousands of tensors that need none.
_pending: dict[int, weakref.ref[TensorBase]] = {}
_plans: weakref.WeakSet[ExecutionPlan] = weakref.WeakSet()
_ids = itertools.count(1)
# Weakly, as tensors are: a capture that was left in the middle is nobody's any more.
_running: dict[int, weakref.ref[Computation]] = {}
_ended = threading.Condition(lock)
_waiting: list[int] = []
_RESHAPE, _SHRINK, _BUFFER = Op.RESHAPE, Op.SHRINK, Op.BUFFER


class Computation:
    """What a thread computes now.

    Attributes:
        thread: its number.
        touched: the storages that are read or written.
        written: those that are written, and had content before.
        nodes: by the id of each tensor that is computed, what it stands for as long as nobody gives it another value.
    """

    __slots__ = ("__weakref__", "nodes", "thread", "touched", "written")

    def __init__(self, touched: Collection[int], written: Collection[int], nodes: dict[int, UOp]) -> None:
        self.thread = threading.get_ident()
        self.touched, self.written, self.nodes = touched, written, nodes

    def is_in_the_way_of(self, other: Computation) -> bool:
        """Whether one of the two writes what the other one touches."""
        return not (set(self.written).isdisjoint(other.touched) and set(other.written).isdisjoint(self.touched))


def make_memory(dtype: DType, size: int, device: str, buffer: Buffer | None = None) -> UOp:
    """A new BUFFER of `size` elements, with `buffer` as its storage; without, it only stands for memory."""
    node = UOp(Op.BUFFER, dtype, (), BufferArg(next(_ids), size, device))
    node.attached = buffer
    return node


def add_tensor(tensor: TensorBase) -> None:
    """Let `tensor` see later realizations of nodes in its graph."""
    # Who is looked up is alive, so that its id is nobody else's.
    key = id(tensor)
    _tensors[key] = _pending[key] = weakref.ref(tensor, partial(_forget, key))


def _forget(key: int, _: object = None) -> None:
    _tensors.pop(key, None)
    _pending.pop(key, None)


def remove_tensor(tensor: TensorBase) -> None:
    """Let `tensor` be none of the live ones any more."""
    _forget(id(tensor))


def note_new_node(tensor: TensorBase) -> None:
    """Look at `tensor` again, which stands for another node now; the caller holds `lock`."""
    ref = _tensors.get(id(tensor))
    if ref is not None:
        _pending[id(tensor)] = ref


def remove_buffer(node: UOp) -> None:
    """Let the BUFFER `node` have no storage any more."""
    node.attached = None


def find_buffer(node: UOp) -> Buffer | None:
    """The storage of a BUFFER node, or None."""
    return cast("Buffer | None", node.attached)


def iter_tensors() -> Iterator[TensorBase]:
    """The live tensors, as they were when the iteration began."""
    for ref in list(_tensors.values()):
        tensor = ref()
        if tensor is not None:
            yield tensor


def add_plan(plan: ExecutionPlan) -> None:
    """Let `plan` be told when memory that it uses is given away."""
    _plans.add(plan)


def add_plan_values(place: UOp, values: Mapping[str, int]) -> None:
    """Say that `place` stands for what `values`, the changing values of a plan, say at any time."""
    place.attached = values


def find_plan_values(place: UOp) -> Mapping[str, int] | None:
    """The values that a node stands for one of, or None."""
    return cast("Mapping[str, int] | None", place.attached)


def iter_plans() -> Iterator[ExecutionPlan]:
    """The plans that are kept by somebody, as they were when the iteration began."""
    yield from list(_plans)


def replace_nodes(replacements: Mapping[UOp, UOp]) -> None:
    """Put each value in the place of its key in the graphs of all live tensors, in one walk over them."""
    if not replacements:
        return
    with lock:
        pending = _find_pending()
        if not pending:
            return
        new_of = _substitute(list(dict.fromkeys(t.uop for t in pending)), replacements)
        for tensor in pending:
            node = tensor.uop
            # A finalizer may have given it another node just now.
            new = new_of[node] if node in new_of else node.substitute(replacements)
            if new is not node:
                tensor.set_node(new)
        for computation in _find_running():
            for key, node in list(computation.nodes.items()):
                computation.nodes[key] = new_of.get(node, node)


def _substitute(roots: Sequence[UOp], replacements: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
    return dict(zip(roots, UOp.sink(*roots).substitute(replacements).src, strict=True))


def _find_pending() -> list[TensorBase]:
    """The live tensors that need computing."""
    found: list[TensorBase] = []
    for key, ref in list(_pending.items()):
        tensor = ref()
        if tensor is None:
            # Its place may be another one's by now; `_forget` emptied it.
            continue
        if is_buffer_identity(tensor.uop):
            _pending.pop(key, None)
        else:
            found.append(tensor)
    return found


def start_computation(touched: Collection[int], written: Collection[int], nodes: dict[int, UOp]) -> Computation | None:
    """Enter a computation, which ends with `end_computation` or when nobody refers to it; the caller holds `lock`.

    Nothing is in the way of a computation inside another one of the same thread, which would wait for itself.

    Returns:
        None after waiting for another thread: what the caller looked at before may have changed meanwhile.
    """
    made = Computation(touched, written, nodes)
    others = _find_running()
    is_inner = any(other.thread == made.thread for other in others)
    if not is_inner and any(made.is_in_the_way_of(other) for other in others):
        _waiting.append(made.thread)
        try:
            # An interrupt may lose a computation without a word.
            _ended.wait(timeout=1)
        finally:
            _waiting.remove(made.thread)
        return None
    _add_running(made)
    return made


def extend_computation(computation: Computation | None, storage: int) -> Computation:
    """Let a computation write one more storage; without one, a new one is entered. The caller holds `lock`.

    Nobody is waited for: this is for what is not written before the computation ends.
    """
    if computation is None:
        computation = Computation((), (), {})
        _add_running(computation)
    computation.touched = {*computation.touched, storage}
    computation.written = {*computation.written, storage}
    return computation


def end_computation(computation: Computation) -> None:
    """Let those continue that waited for a computation."""
    with lock:
        _running.pop(id(computation), None)
        if _waiting:
            _ended.notify_all()


def _add_running(computation: Computation) -> None:
    key = id(computation)
    _running[key] = weakref.ref(computation, lambda _: _running.pop(key, None))


def _find_running() -> list[Computation]:
    return [found for ref in list(_running.values()) if (found := ref()) is not None] if _running else []


def count_waiting() -> int:
    """How many threads wait for the computation of another one."""
    return len(_waiting)


def _forget_others() -> None:
    thread = threading.get_ident()
    for computation in _find_running():
        if computation.thread != thread:
            _running.pop(id(computation), None)
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_others)


def is_buffer_identity(node: UOp) -> bool:
    """Whether `node` is a whole buffer under another shape, or consists of such shards, so that it needs no computation."""
    if node.op is Op.MULTI:
        return all(find_base(shard) is not None or 0 in shard.shape for shard in node.src[0].src)
    return find_base(node) is not None


def find_base(node: UOp) -> UOp | None:
    """The BUFFER whose elements, from the first on, are those of `node` in order; None if there is none.

    A tensor with symbolic sizes is the first part of a buffer that has room for the largest ones.
    """
    # Members of an enum are looked up once: every argument of every call of a captured function comes through here.
    while node.op is _RESHAPE:
        node = node.src[0]
    op = node.op
    if op is _BUFFER:
        return node
    return node.src[0] if op is _SHRINK and node.arg == (0, None) and node.src[0].op is _BUFFER else None


def clear() -> None:
    """Forget every tensor and plan, for tests."""
    with lock:
        _tensors.clear()
        _pending.clear()
        _plans.clear()
        _running.clear()
