"""The process-wide tables of live cells, views and plans, and of computations that run.

The tables hold their entries weakly: a tensor that nobody refers to leaves its table.

What several threads may rely on:

- The node of a live cell changes under `lock` alone. A new cell is entered without it, so that one
  that is made of a node that another thread replaces meanwhile may keep the old one. That is found
  when it is computed: a write that is done leads to memory wherever it is still met
  (`overwriting.get_done`), and memory whose old content was kept for somebody has another BUFFER
  since (`retire`, `overwriting.catch_up`).
- Who computes looks at nodes, buffers and other computations in one go, under `lock`, and says what
  it touches and writes (`start_computation`). Nobody writes memory that the computation of another
  thread touches. Who has to wait looks again afterwards: an assignment that two threads need is
  done once.
- Compilation and execution hold no lock. Replacements that happen meanwhile keep values, and are
  followed (`Computation.nodes`); a tensor that was given another value in that time keeps it, and
  is computed again.
- While a function is captured, no other thread writes, computes writes, or captures
  (`wait_for_capture`), and what that function makes of placeholders is in a table of its own.
- A finalizer may run between any two steps of a thread, also while that holds `lock`, which is
  reentrant: it may enter, remove and replace nodes. Tables are therefore copied before they are
  walked, entries are removed by those that put them there, and nodes are read again before they are
  replaced.
- In the child of a fork there are no computations but those of its only thread.
"""

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
    "count_waiting",
    "end_capture",
    "end_computation",
    "find_capture",
    "get_successors",
    "get_version",
    "is_computing",
    "is_computing_here",
    "iter_cells",
    "iter_live",
    "iter_pending",
    "iter_pending_cells",
    "iter_plans",
    "lock",
    "note_read",
    "passed",
    "replace_computed",
    "replace_nodes",
    "retire",
    "start_capture",
    "start_computation",
    "wait_for_capture",
    "wait_if_refused",
]

_live = cast("dict[int, weakref.ref[Live]]", tables.live)
_pending = cast("dict[int, weakref.ref[Live]]", tables.pending)
# What is captured now, by the thread that runs it: one at most, the innermost of those inside each
# other.
_captures: dict[int, Capture] = {}
_successors: weakref.WeakKeyDictionary[UOp, UOp] = weakref.WeakKeyDictionary()
_versions: weakref.WeakKeyDictionary[UOp, UOp] = weakref.WeakKeyDictionary()
passed: weakref.WeakSet[Cell] = weakref.WeakSet()
"""The cells whose values were part of a graph that was computed for others; the lock is held."""
_plans: dict[int, weakref.ref[ExecutionPlan]] = {}
# Weakly, as tensors are: a capture that was left in the middle is nobody's any more.
_running: dict[int, weakref.ref[Computation]] = {}
_ended = threading.Condition(lock)
_waiting: list[int] = []
_refused: set[int] = set()


class Computation:
    """What a thread computes now.

    Attributes:
        thread: its number.
        touched: the storages that are read or written.
        written: those that are written, and had content before.
        nodes: by the id of each tensor that is computed, what it stands for as long as nobody gives
            it another value.
    """

    __slots__ = ("__weakref__", "nodes", "thread", "touched", "written")

    def __init__(
        self, touched: Collection[int], written: Collection[int], nodes: dict[int, UOp]
    ) -> None:
        self.thread = get_ident()
        self.touched, self.written, self.nodes = touched, written, nodes

    def is_in_the_way_of(self, other: Computation) -> bool:
        """Whether one of the two writes what the other one touches."""
        return not (
            set(self.written).isdisjoint(other.touched)
            and set(other.written).isdisjoint(self.touched)
        )


def iter_live() -> Iterator[Live]:
    """The live cells and views, as they were when the iteration began, but for what a function that
    is captured made.
    """
    return _iter(_live)


def iter_cells() -> Iterator[Cell]:
    """The cells among `iter_live`."""
    return (one.cell for one in _iter(_live) if one.cell is one)


def iter_pending() -> Iterator[Live]:
    """Those of `iter_live` that are not in memory of their own, and views of such cells; the caller
    holds `lock`.
    """
    # Making pairs may be what makes the garbage collector run, and entries leave.
    for key, ref in _pending.copy().items():
        one = ref()
        if one is None:
            # Its place may be another one's by now; `_forget` emptied it.
            continue
        if one.cell.is_given_away or one.cell.is_realized:
            _pending.pop(key, None)
        else:
            yield one


def iter_pending_cells() -> Iterator[Cell]:
    """The cells among `iter_pending`; the caller holds `lock`."""
    return (one.cell for one in iter_pending() if one.cell is one)


def _iter(table: Mapping[int, weakref.ref[Live]]) -> Iterator[Live]:
    for ref in list(table.values()):
        one = ref()
        if one is not None and not one.cell.is_given_away:
            yield one


def start_capture(capture: Capture) -> None:
    """Let what this thread makes from now on be in a table of its own; the caller holds `lock`.

    No other thread captures anything: `wait_for_capture` came before. What this one is inside of
    goes on afterwards."""
    thread = get_ident()
    capture.outer = _captures.get(thread)
    _captures[thread] = capture
    tables.captured.setdefault(thread, []).append(cast("tables.Table", capture.made))


def find_capture() -> Capture | None:
    """The capture that this thread is running, or None."""
    return _captures.get(get_ident()) if _captures else None


def note_read(content: Live) -> None:
    """Let a function that this thread captures know that it reads a tensor."""
    capture, cell = find_capture(), content.cell
    if capture is None:
        return
    while capture.is_known(cell):
        if capture.outer is None:
            capture.record_read(cell)
            return
        capture = capture.outer


def check_not_capturing(action: str) -> None:
    """Raise if this thread is running a capture, during which `action` is impossible.

    Raises:
        CaptureError: if it is.
        TraceError: if what it runs is the body of a loop.
    """
    capture = find_capture()
    if capture is not None:
        raise capture.make_error(action)


def end_capture() -> None:
    """Let what is left of what the captured function made be live as everything else, and those
    continue that waited.
    """
    with lock:
        thread = get_ident()
        ended = _captures.pop(thread)
        tables.captured[thread].pop()
        if ended.outer is None:
            del tables.captured[thread]
        else:
            _captures[thread] = ended.outer
        for one in _iter(ended.made):
            if id(one) not in ended.spent:
                tables.add(one)
        if ended.outer is None:
            _ended.notify_all()


def wait_for_capture() -> bool:
    """Wait while another thread captures a function; the caller holds `lock`, and looks again at
    what it knew if this is true.
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
        # An interrupt may lose a computation without a word.
        _ended.wait(timeout=1)
    finally:
        _waiting.remove(thread)


def add_plan(plan: ExecutionPlan) -> None:
    """Let `plan` be told when memory that it uses is given away."""
    key = id(plan)
    _plans[key] = weakref.ref(plan, lambda _: _plans.pop(key, None))


def iter_plans() -> Iterator[ExecutionPlan]:
    """The plans that are kept by somebody, as they were when the iteration began."""
    return (plan for ref in list(_plans.values()) if (plan := ref()) is not None)


def replace_computed(node: UOp, cell: Cell) -> None:
    """Let what was built on `node`, which `cell` was until it was computed, read its memory; the
    caller holds `lock`.
    """
    _pending.pop(id(cell), None)
    # A bare constant is cheaper to write again than to read. The cell gets a node only if somebody
    # may read it.
    if node.src and next(iter_pending(), None) is not None:
        replace_nodes({node: cell.node})


def replace_nodes(replacements: Mapping[UOp, UOp]) -> None:
    """Put each value in the place of its key in the graphs of all live cells, in one walk over
    them; views follow.
    """
    if not replacements:
        return
    with lock:
        pending = list(iter_pending())
        if not pending:
            return
        cells = [one.cell for one in pending if one.cell is one]
        new_of = _substitute(list(dict.fromkeys(cell.node for cell in cells)), replacements)
        for cell in cells:
            node = cell.node
            # A finalizer may have given it another node just now.
            new = new_of[node] if node in new_of else node.substitute(replacements)
            if new is not node:
                cell.set_node(new)
        for computation in _list_running():
            for key, node in list(computation.nodes.items()):
                computation.nodes[key] = new_of.get(node, node)
        for one in pending:
            followed = one.follow(new_of)
            if followed is not None:
                before, now = followed
                for computation in _list_running():
                    if computation.nodes.get(id(one)) is before:
                        computation.nodes[id(one)] = now


def _substitute(roots: Sequence[UOp], replacements: Mapping[UOp, UOp]) -> dict[UOp, UOp]:
    return dict(zip(roots, UOp.sink(*roots).substitute(replacements).src, strict=True))


def retire(versions: Mapping[UOp, UOp], successors: Mapping[UOp, UOp]) -> None:
    """Let BUFFERs stand for nothing any more, of which `versions` has others for the same memory
    with its new content.

    Graphs that still read one of them were built on the old content: `successors` has what that is
    now, for these BUFFERs or nodes over them, as far as anybody kept it. The caller holds `lock`.
    """
    # However often memory is written, a former name of it leads to the last one.
    for former, memory in list(_versions.items()):
        if memory in versions:
            _versions[former] = versions[memory]
    for memory in versions:
        memory.attached = None
    _versions.update(versions)
    _successors.update(successors)


def get_version(memory: UOp) -> UOp:
    """The BUFFER that stands now for what `memory` was made for."""
    return _versions.get(memory, memory)


def get_successors() -> dict[UOp, UOp]:
    """What became of the nodes that are retired and still somewhere."""
    return {**dict(_versions), **dict(_successors)}


def start_computation(
    touched: Collection[int], written: Collection[int], nodes: dict[int, UOp]
) -> Computation | None:
    """Enter a computation, which ends with `end_computation` or when nobody refers to it; the
    caller holds `lock`.

    Nothing is in the way of a computation inside another one of the same thread, which would wait
    for itself.

    Returns:
        None if the computation of another thread is in the way: what the caller looked at before
            may have changed after
        `wait_if_refused`.
    """
    made = Computation(touched, written, nodes)
    others = _list_running()
    is_inner = any(other.thread == made.thread for other in others)
    if not is_inner and any(made.is_in_the_way_of(other) for other in others):
        _refused.add(made.thread)
        return None
    _add_running(made)
    return made


def wait_if_refused() -> None:
    """Wait for the end of a computation if the last one that this thread wanted to start was
    refused; the caller holds `lock`.
    """
    thread = get_ident()
    if thread in _refused:
        _refused.discard(thread)
        _wait(thread)


def is_computing() -> bool:
    """Whether some thread computes now; the caller holds `lock`."""
    return bool(_running)


def is_computing_here() -> bool:
    """Whether this thread is inside a computation, as a function of Python in a plan is."""
    thread = get_ident()
    return any(computation.thread == thread for computation in _list_running())


def end_computation(computation: Computation) -> None:
    """Let those continue that waited for a computation."""
    with lock:
        _running.pop(id(computation), None)
        if _waiting:
            _ended.notify_all()


def _add_running(computation: Computation) -> None:
    key = id(computation)
    _running[key] = weakref.ref(computation, lambda _: _running.pop(key, None))


def _list_running() -> list[Computation]:
    return (
        [found for ref in list(_running.values()) if (found := ref()) is not None]
        if _running
        else []
    )


def count_waiting() -> int:
    """How many threads wait for the computation of another one."""
    return len(_waiting)


def _forget_others() -> None:
    thread = get_ident()
    for computation in _list_running():
        if computation.thread != thread:
            _running.pop(id(computation), None)
    for other in set(_captures) - {thread}:
        del _captures[other], tables.captured[other]
    _waiting.clear()
    _refused.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_others)


def clear() -> None:
    """Forget every tensor and plan, for tests."""
    with lock:
        _live.clear()
        _pending.clear()
        _plans.clear()
        passed.clear()
        _running.clear()
