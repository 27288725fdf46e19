"""Graphs that grow from one iteration of a loop to the next are computed before they outgrow what
one program can be compiled for.

The result of a program does not depend on when a tensor is computed, so this module may choose the
moment:

- A repetitive graph with more nodes than one program is made for is computed segment by segment,
  all by one program.
- New cells are inspected at intervals, and their graphs computed if they have grown that far
  without being read.
- If the graph of a pending tensor was part of two computed graphs, the second computation keeps its
  value, so that it is not computed a third time."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Final, Protocol

from svod_ir import Op, UOp, get_logger
from svod_ir.ops import MARKS, MOVEMENT
from svod_tensor.cells import overwriting, registry, tables
from svod_tensor.cells.cell import Cell
from svod_tensor.cells.derivatives import is_differentiating
from svod_tensor.engine import versions
from svod_tensor.engine.memory_nodes import find_buffer, is_there
from svod_tensor.engine.observe import describing
from svod_tensor.engine.repetition import (
    MAX_FACTOR,
    MIN_PERIODS,
    find_repetition,
    get_limit,
    has_outgrown,
    is_computable,
)
from svod_tensor.options import resolve_config

if TYPE_CHECKING:
    from svod_tensor.cells.cell import Live
    from svod_tensor.options import PrepareConfig

__all__ = ["compute_outgrown", "compute_repeated", "list_kept"]

MAX_KEPT_BYTES: Final = 1 << 26
"""Maximum size in bytes of a tensor that is kept without being asked for, unless its inputs are
larger.
"""

MIN_WRITING_NODES: Final = 512
"""Minimum number of nodes of a segment that writes. After each segment all pending graphs are
walked several times, since every write makes a new version of the memory.
"""

_log = get_logger("tensor")


class _Compute(Protocol):
    """Signature of `realize_tensors`, which is passed in because its module imports this one."""

    def __call__(
        self, tensors: Sequence[Live], config: PrepareConfig, *, is_segment: bool = False
    ) -> None: ...


class _Thread(threading.local):
    """State of the calling thread.

    Attributes:
        is_busy: whether it computes a segment, to which this module must not apply again.
        period: the number of nodes in an iteration of the writing loop whose graph was cut last, 0
            before the first cut.
    """

    is_busy = False
    period = 0


_thread = _Thread()


@contextmanager
def _marking_busy() -> Generator[None]:
    _thread.is_busy = True
    try:
        yield
    finally:
        _thread.is_busy = False


def compute_repeated(tensors: Sequence[Live], config: PrepareConfig, compute: _Compute) -> None:
    """Compute the repetitive part of the graph of `tensors` if it has outgrown one program, so that
    the tensors read its last values.
    """
    if not _thread.is_busy and not is_differentiating():
        order = _list_nodes(tensors)
        if has_outgrown(order):
            _compute_order(order, config, compute)


def _compute_order(order: Sequence[UOp], config: PrepareConfig, compute: _Compute) -> None:
    if not is_computable(order):
        return
    with _marking_busy():
        if any(map(versions.is_pending_version, order)):
            period, n_segments = _compute_writes(order, config, compute)
        else:
            period, n_segments = _compute_values(order, config, compute)
    if n_segments:
        _log.info("realize.split", nodes=len(order), period=period, segments=n_segments)


def _compute_values(
    order: Sequence[UOp], config: PrepareConfig, compute: _Compute
) -> tuple[int, int]:
    """Compute a repetitive part that writes no memory; return its period and number of segments."""
    with registry.lock:
        nodes = set(order)
        kept = {
            cell.node
            for cell in registry.iter_pending_cells()
            if cell.node in nodes and _is_worth_memory(cell.node)
        }
    repetition = find_repetition(order, kept)
    if repetition is None:
        return 0, 0
    memory: dict[UOp, UOp] = {}
    # If another thread writes this memory between two segments, these cells keep the old version.
    read = {node: Cell(node) for node in order if node.op is Op.BUFFER}
    for segment, values in enumerate(repetition.values):
        # The graph of this segment starts at the values stored by the previous one. Other pending
        # graphs are rebound once, after the last segment.
        new = [node for node in values if node not in memory]
        with registry.lock:
            moved = {node: cell.node for node, cell in read.items() if cell.node is not node}
            cells = [Cell(node) for node in UOp.sink(*new).substitute({**moved, **memory}).src]
        memory = {node: memory[node] for node in values if node in memory}
        with describing(_describe(len(order), repetition.period, segment)):
            compute(cells, config, is_segment=True)
        memory.update((node, cell.node) for node, cell in zip(new, cells, strict=True))
    registry.replace_nodes(memory)
    return repetition.period, len(repetition.values)


def _compute_writes(
    order: Sequence[UOp], config: PrepareConfig, compute: _Compute
) -> tuple[int, int]:
    """Compute a repetitive part that writes memory; return its period and number of segments."""
    n_nodes, n_segments, period = len(order), 0, _thread.period
    writers = _list_writers()
    order = _sort_by_assignment(_sort(writers))
    min_periods = MIN_PERIODS if has_outgrown(order) else 2
    # The writes of other tensors may depend on a bound variable.
    while is_computable(order):
        repetition = find_repetition(order, min_periods=min_periods, min_nodes=MIN_WRITING_NODES)
        # A graph below the limit is cut only as the next segment of a loop that was cut before.
        if repetition is None or (min_periods == 2 and repetition.period != period):
            break
        period, min_periods = repetition.period, 2
        # The remaining graph now reads new versions of the memory, so the repetition must be
        # searched for again.
        cells = [
            Cell(node, owns=versions.is_pending_version(node)) for node in repetition.values[0]
        ]
        with describing(_describe(n_nodes, period, n_segments)):
            compute(cells, config)
        n_segments += 1
        order = _sort_by_assignment(_list_nodes(writers))
    _thread.period = period if n_segments else 0
    return period, n_segments


def _list_writers() -> list[Cell]:
    """The live cells whose graphs write memory. Computing a write also computes all readers of the
    version that it overwrites.
    """
    with registry.lock:
        cells = list(registry.iter_pending_cells())
        writing: set[UOp] = set()
        for node in _list_nodes(cells):
            if versions.is_pending_version(node) or not writing.isdisjoint(node.src):
                writing.add(node)
        return [cell for cell in cells if cell.node in writing]


def _sort_by_assignment(order: Sequence[UOp]) -> list[UOp]:
    """The nodes of a graph in topological order, with pending assignments in program order.

    The first iterations of all tensors that a loop updates then come before its later iterations,
    whether or not these tensors read one another."""
    pending = sorted(
        filter(versions.is_pending_version, order),
        key=lambda version: versions.write_id_of(version).arg,
    )
    return [*UOp.sink(*pending, *order[-1].src).toposort()[:-1], order[-1]]


def _describe(n_nodes: int, period: int, number: int) -> str:
    return f"graph, segment {number + 1} of {n_nodes} nodes that repeat every {period}"


def _list_nodes(tensors: Sequence[Live]) -> list[UOp]:
    """The graph of `tensors` on the present versions of memory."""
    order = _sort(tensors)
    if any(node.op is Op.BUFFER and find_buffer(node) is None for node in order):
        # An operation that was built while this thread computed may read an invalidated BUFFER.
        with registry.lock:
            if overwriting.resolve_stale_nodes():
                return _sort(tensors)
    return order


def _sort(tensors: Sequence[Live]) -> list[UOp]:
    return UOp.sink(*[tensor.node for tensor in tensors if not tensor.cell.is_donated]).toposort()


def list_kept(tensors: Sequence[Live]) -> list[Cell]:
    """The live cells to compute along with `tensors`: their values are part of this graph and were
    part of another computed graph before.
    """
    if _thread.is_busy or is_differentiating():
        return []
    with registry.lock:
        known = {id(tensor.cell) for tensor in tensors}
        nodes: set[UOp] | None = None
        kept: list[Cell] = []
        for cell in registry.iter_pending_cells():
            if id(cell) in known or not _needs_computation(cell.node):
                continue
            # Built on demand: most graphs are read while no other tensor is pending.
            nodes = set(_list_nodes(tensors)) if nodes is None else nodes
            if cell.node in nodes:
                if cell in registry.computed_inside_others and _is_worth_memory(cell.node):
                    kept.append(cell)
                registry.computed_inside_others.add(cell)
        if kept:
            _log.info("realize.kept", tensors=len(kept))
        return kept


def _needs_computation(node: UOp) -> bool:
    """True if a node is more than a view of memory or of an input."""
    while node.op in MOVEMENT or node.op in MARKS:
        node = node.source
    return (
        bool(node.src)
        and versions.find_version(node) is None
        and node.op is not Op.MULTI
        and not is_there(node)
    )


def _is_worth_memory(node: UOp) -> bool:
    """True if a value is not much larger than the memory that it is computed from. Values without
    inputs are not kept.
    """
    sizes = [size for size in node.shape if isinstance(size, int)]
    if len(sizes) < len(node.shape):
        return False
    order = node.toposort()
    read = sum(n.arg.size * n.dtype.itemsize for n in order if n.op is Op.BUFFER)
    return (
        read > 0
        and prod(sizes) * node.dtype.itemsize <= max(read, MAX_KEPT_BYTES)
        and is_computable(order)
    )


def compute_outgrown(cell: Cell, compute: _Compute) -> None:
    """Compute the graph of a new cell if it has outgrown one program without being read, and if
    this thread may compute.
    """
    if not _may_compute():
        return
    order, limit = _list_growing(cell)
    # A graph without writes waits until it is read: a plan that is prepared from it must read its
    # inputs again at each execution.
    if len(order) <= limit or not any(map(versions.is_pending_version, order)):
        return
    config = resolve_config(None)
    _compute_order(order, config, compute)
    order, _ = _list_growing(cell)
    if has_outgrown(order, MAX_FACTOR):
        _log.info("realize.split", nodes=len(order), period=0, segments=1)
        with registry.lock:
            nodes = set(order)
            values = [
                pending
                for pending in registry.iter_pending_cells()
                if pending.node in nodes and _is_worth_memory(pending.node)
            ]
        with _marking_busy(), describing(f"graph, {len(order)} nodes that no read asked for"):
            compute([cell, *values], config)


def _list_growing(cell: Cell) -> tuple[list[UOp], int]:
    """The graph that a new cell is part of, and its maximum number of nodes; also schedule the next
    inspection.
    """
    order = _list_nodes((cell,))
    limit = get_limit(order)
    if any(map(versions.is_pending_version, order)):
        # A loop's step counter is written, too, with a tiny graph: count the nodes of all pending
        # cells.
        with registry.lock:
            order = _list_nodes(list(registry.iter_pending_cells()))
        limit = _get_writing_limit() or get_limit(order)
    # Half of the remaining distance to the limit, so that walks cost amortized constant time per
    # node.
    tables.set_next_check(max(len(order), limit - len(order)) // 2)
    return order, limit


def _get_writing_limit() -> int:
    """The number of pending nodes at which the loop that was cut last has another segment; 0 before
    the first cut.
    """
    return (
        MIN_WRITING_NODES + max(MIN_WRITING_NODES // 2, 4 * _thread.period) if _thread.period else 0
    )


def _may_compute() -> bool:
    """Whether this thread may compute now: not during a capture, a derivative, a locked section or
    another computation.
    """
    if _thread.is_busy or tables.captured or is_differentiating():
        return False
    return not (tables.is_locked_here() or registry.is_computing_here())
