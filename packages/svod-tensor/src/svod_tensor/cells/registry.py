"""Process-wide tables of live cells, views and plans, and of running computations.

The tables hold their entries weakly: a tensor without references leaves its table.

Guarantees for threads:

- The node of a live cell changes only under `lock`. A new cell is entered without the lock, so a
  cell built on a node that another thread replaces meanwhile may keep the old node. This is
  detected when the cell is computed: a committed write is replaced by its memory wherever it is met
  (`overwriting.get_committed`), and an invalidated BUFFER has a successor (`invalidate`,
  `overwriting.resolve_stale_nodes`).
- A thread that wants to compute reads nodes, buffers and other computations in one critical
  section, and registers the storages that it touches and writes (`start_computation`). No thread
  writes memory that a computation of another thread touches. A thread that had to wait decides
  again, so that a write that two threads need is done once.
- Compilation and execution do not hold the lock. Replacements made meanwhile preserve values and
  are tracked (`Computation.nodes`). A tensor that got another value meanwhile keeps it, and is
  computed again.
- While a function is captured, no other thread writes, computes writes, or captures
  (`wait_for_capture`). Tensors that the function creates are in a table of their own.
- A finalizer may run between any two steps of a thread, even while the thread holds the reentrant
  `lock`: it may enter, remove and replace nodes. Tables are therefore copied before they are
  walked, entries are removed only by the code that added them, and nodes are read again before they
  are replaced.
- In the child of a fork, only computations of the thread that forked exist."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, cast

from svod_ir import UOp
from svod_tensor.cells import tables
from svod_tensor.cells.tables import lock

if TYPE_CHECKING:
    from svod_runtime import ExecutionPlan
    from svod_tensor.cells.cell import Cell, Live
    from svod_tensor.cells.recording import Capture

__all__ = [
    "Computation",
    "add_plan",
    "check_not_capturing",
    "clear",
    "computed_inside_others",
    "count_waiting",
    "end_capture",
    "end_computation",
    "find_capture",
    "get_latest_version",
    "get_successors",
    "invalidate",
    "is_computing",
    "is_computing_here",
    "iter_cells",
    "iter_live",
    "iter_pending",
    "iter_pending_cells",
    "iter_plans",
    "lock",
    "record_read_of",
    "replace_computed",
    "replace_nodes",
    "start_capture",
    "start_computation",
    "wait_for_capture",
    "wait_if_refused",
]

_live = cast("dict[int, weakref.ref[Live]]", tables.live)
_pending = cast("dict[int, weakref.ref[Live]]", tables.pending)
# The running capture by thread, at most one entry; of nested captures the innermost.
_captures: dict[int, Capture] = {}
# Weak keys: a replacement is of use only as long as something can still read the old node.
_successors: weakref.WeakKeyDictionary[UOp, UOp] = weakref.WeakKeyDictionary()
_latest_of: weakref.WeakKeyDictionary[UOp, UOp] = weakref.WeakKeyDictionary()
computed_inside_others: weakref.WeakSet[Cell] = weakref.WeakSet()
"""Pending cells whose values were part of a graph that was computed for other cells; guarded by
`lock`.
"""
_plans: dict[int, weakref.ref[ExecutionPlan]] = {}
# Weak, as tensors are: an abandoned computation must not block others for ever.
_running: dict[int, weakref.ref[Computation]] = {}
# On `lock` itself, so that a waiting thread releases it however often it has acquired it.
_ended = threading.Condition(lock)
_waiting: list[int] = []
_refused: set[int] = set()


class Computation:
    """Compilation and execution of one program by a thread.

    Attributes:
        thread: the thread's identifier.
        touched: the storages that are read or written.
        written: the storages that are written and had elements before.
        nodes: the node of each computed tensor by the tensor's id, updated with every replacement
            that preserves its value.
    """

    __slots__ = ("__weakref__", "nodes", "thread", "touched", "written")

    def __init__(
        self, touched: Collection[int], written: Collection[int], nodes: dict[int, UOp]
    ) -> None:
        self.thread = get_ident()
        self.touched, self.written, self.nodes = touched, written, nodes

    def conflicts_with(self, other: Computation) -> bool:
        """Whether one computation writes a storage that the other one touches."""
        return not (
            set(self.written).isdisjoint(other.touched)
            and set(other.written).isdisjoint(self.touched)
        )


def iter_live() -> Iterator[Live]:
    """The live cells and views at the start of the iteration, except tensors that a running capture
    created.
    """
    return _iter(_live)


def iter_cells() -> Iterator[Cell]:
    """The cells among `iter_live`."""
    return (tensor.cell for tensor in _iter(_live) if tensor.cell is tensor)


def iter_pending() -> Iterator[Live]:
    """The live cells without memory of their own, and views of such cells; the caller holds `lock`."""
    # A copy: creating the pairs may trigger the garbage collector, whose finalizers remove entries.
    for key, ref in _pending.copy().items():
        tensor = ref()
        if tensor is None:
            # Not removed here: the id may be another tensor's by now, and the weak reference's
            # callback has removed this entry.
            continue
        if tensor.cell.is_donated or tensor.cell.is_realized:
            _pending.pop(key, None)
        else:
            yield tensor


def iter_pending_cells() -> Iterator[Cell]:
    """The cells among `iter_pending`; the caller holds `lock`."""
    return (tensor.cell for tensor in iter_pending() if tensor.cell is tensor)


def _iter(table: Mapping[int, weakref.ref[Live]]) -> Iterator[Live]:
    for ref in list(table.values()):
        tensor = ref()
        if tensor is not None and not tensor.cell.is_donated:
            yield tensor


def start_capture(capture: Capture) -> None:
    """Record tensors that this thread creates from now on in a table of their own; the caller holds
    `lock`.

    The caller has waited until no other thread captures (`wait_for_capture`). An outer capture of
    this thread resumes afterwards."""
    thread = get_ident()
    capture.outer = _captures.get(thread)
    _captures[thread] = capture
    tables.captured.setdefault(thread, []).append(cast("tables.Table", capture.created))


def find_capture() -> Capture | None:
    """The running capture of this thread, or None."""
    return _captures.get(get_ident()) if _captures else None


def record_read_of(tensor: Live) -> None:
    """Record the read of a tensor in the running capture, if it existed before the capture."""
    capture, cell = find_capture(), tensor.cell
    if capture is None:
        return
    while capture.existed_before(cell):
        if capture.outer is None:
            capture.record_read(cell)
            return
        capture = capture.outer


def check_not_capturing(action: str) -> None:
    """Raise if this thread is running a capture, during which `action` is impossible.

    Raises:
        CaptureError: if the capture is of a function.
        TraceError: if the capture is of the body of a loop.
    """
    capture = find_capture()
    if capture is not None:
        raise capture.make_error(action)


def end_capture() -> None:
    """Register the capture's surviving tensors as live and wake the waiting threads."""
    with lock:
        thread = get_ident()
        ended = _captures.pop(thread)
        tables.captured[thread].pop()
        if ended.outer is None:
            del tables.captured[thread]
        else:
            _captures[thread] = ended.outer
        for tensor in _iter(ended.created):
            if id(tensor) not in ended.dead:
                tables.add(tensor)
        if ended.outer is None:
            _ended.notify_all()


def wait_for_capture() -> bool:
    """Wait while another thread captures a function; the caller holds `lock`, and must read all
    state again if this returns True.
    """
    thread = get_ident()
    waited = False
    while _captures and thread not in _captures:
        waited = True
        _wait(thread)
    return waited


def _wait(thread: int) -> None:
    _waiting.append(thread)
    try:
        # With a timeout: if an interrupt drops a computation's last reference, no thread notifies.
        _ended.wait(timeout=1)
    finally:
        _waiting.remove(thread)


def add_plan(plan: ExecutionPlan) -> None:
    """Register `plan` to be notified when memory that it uses is donated."""
    key = id(plan)
    _plans[key] = weakref.ref(plan, lambda _: _plans.pop(key, None))


def iter_plans() -> Iterator[ExecutionPlan]:
    """The live plans at the start of the iteration."""
    return (plan for ref in list(_plans.values()) if (plan := ref()) is not None)


def replace_computed(node: UOp, cell: Cell) -> None:
    """Rebind graphs that were built on `node`, the former value of `cell`, to the cell's memory;
    the caller holds `lock`.
    """
    _pending.pop(id(cell), None)
    # A bare constant is cheaper to recompute than to read. `cell.node` is made only if another
    # pending graph may read it.
    if node.src and next(iter_pending(), None) is not None:
        replace_nodes({node: cell.node})


def replace_nodes(replacements: Mapping[UOp, UOp]) -> None:
    """Substitute nodes in the graphs of all live cells, in one walk over them, and refresh the
    views.
    """
    if not replacements:
        return
    with lock:
        pending = list(iter_pending())
        if not pending:
            return
        cells = [tensor.cell for tensor in pending if tensor.cell is tensor]
        new_of = _substitute(list(dict.fromkeys(cell.node for cell in cells)), replacements)
        for cell in cells:
            node = cell.node
            # A finalizer may have set another node since the list was made.
            new = new_of[node] if node in new_of else node.substitute(replacements)
            if new is not node:
                cell.set_node(new)
        for computation in _list_running():
            for key, node in list(computation.nodes.items()):
                computation.nodes[key] = new_of.get(node, node)
        for tensor in pending:
            change = tensor.follow(new_of)
            if change is not None:
                before, now = change
                for computation in _list_running():
                    if computation.nodes.get(id(tensor)) is before:
                        computation.nodes[id(tensor)] = now


def _substitute(roots: Sequence[UOp], replacements: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
    return dict(zip(roots, UOp.sink(*roots).substitute(replacements).src, strict=True))


def invalidate(new_buffers: Mapping[UOp, UOp], successors: Mapping[UOp, UOp]) -> None:
    """Detach the storage of BUFFERs; `new_buffers` has another BUFFER on the same memory, now a new
    version, for each.

    Graphs that still read an invalidated BUFFER were built on the old version: `successors` has
    equivalent nodes for these BUFFERs or nodes over them, as far as the old elements were kept. The
    caller holds `lock`."""
    # Keep chains flat: every old BUFFER of a memory maps to its latest one.
    for former, memory in list(_latest_of.items()):
        if memory in new_buffers:
            _latest_of[former] = new_buffers[memory]
    for memory in new_buffers:
        memory.attached = None
    _latest_of.update(new_buffers)
    _successors.update(successors)


def get_latest_version(memory: UOp) -> UOp:
    """The BUFFER of the latest version of the memory that `memory` was made for."""
    return _latest_of.get(memory, memory)


def get_successors() -> dict[UOp, UOp]:
    """Replacements of all invalidated nodes that are still referenced."""
    return {**dict(_latest_of), **dict(_successors)}


def start_computation(
    touched: Collection[int], written: Collection[int], nodes: dict[int, UOp]
) -> Computation | None:
    """Register a computation, which ends with `end_computation` or when its last reference is
    dropped; the caller holds `lock`.

    A nested computation of the same thread is never refused: it would wait for itself.

    Returns:
        None if it conflicts with the computation of another thread. The caller then calls
            `wait_if_refused` and reads all state again.
    """
    computation = Computation(touched, written, nodes)
    running = _list_running()
    is_inner = any(c.thread == computation.thread for c in running)
    # A host function in a plan may compute tensors: its computation must not wait for the plan.
    if not is_inner and any(computation.conflicts_with(c) for c in running):
        _refused.add(computation.thread)
        return None
    _refused.discard(computation.thread)
    _add_running(computation)
    return computation


def wait_if_refused() -> None:
    """Wait for the end of a computation if this thread's last `start_computation` was refused; the
    caller holds `lock`.
    """
    thread = get_ident()
    if thread in _refused:
        _refused.discard(thread)
        _wait(thread)


def is_computing() -> bool:
    """Whether any thread is computing; the caller holds `lock`."""
    return bool(_running)


def is_computing_here() -> bool:
    """Whether this thread is inside a computation, such as a host function in a plan."""
    thread = get_ident()
    return any(computation.thread == thread for computation in _list_running())


def end_computation(computation: Computation) -> None:
    """Unregister a computation and wake the waiting threads."""
    with lock:
        _running.pop(id(computation), None)
        if _waiting:
            _ended.notify_all()


def _add_running(computation: Computation) -> None:
    key = id(computation)
    _running[key] = weakref.ref(computation, lambda _: _running.pop(key, None))


def _list_running() -> list[Computation]:
    return (
        [computation for ref in list(_running.values()) if (computation := ref()) is not None]
        if _running
        else []
    )


def count_waiting() -> int:
    """Number of threads that wait for another thread's computation or capture."""
    return len(_waiting)


def _drop_other_threads() -> None:
    thread = get_ident()
    for computation in _list_running():
        if computation.thread != thread:
            _running.pop(id(computation), None)
    for stale in set(_captures) - {thread}:
        del _captures[stale], tables.captured[stale]
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_other_threads)


def clear() -> None:
    """Remove every tensor and plan from the tables, for tests."""
    with lock:
        _live.clear()
        _pending.clear()
        _plans.clear()
        computed_inside_others.clear()
        _running.clear()
