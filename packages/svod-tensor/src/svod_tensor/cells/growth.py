"""Graphs that grow from one iteration of a loop to the next: they are computed before they outgrow
what one program is made for.

Nothing that a tensor means depends on when it is computed, so that the system chooses the moment:

- A graph that repeats itself, and has more nodes than one program is made for, is computed one
  segment of the repetition after the other, all by one program.
- Tensors that are built without being read are looked at from time to time, and computed so when
  they have grown that far.
- A live tensor through which two computed graphs went is kept by the second one, so that nothing is
  computed a third time.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Final, Protocol

from svod_ir import Op, Sharding, UOp, get_logger
from svod_ir.ops import MARKS, MOVEMENT
from svod_tensor.cells import overwriting, registry, tables
from svod_tensor.cells.cell import Cell
from svod_tensor.cells.derivatives import is_taking_derivatives
from svod_tensor.engine import states
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
"""Bytes that a tensor which is kept unasked may take, where the memory that it is computed from is
no larger.
"""

MIN_WRITING_NODES: Final = 512
"""Nodes of a segment that writes: after each, all pending graphs are walked several times, as each
state of memory has a new name.
"""

_log = get_logger("tensor")


class _Compute(Protocol):
    """`realize_tensors`, which stands above this module."""

    def __call__(
        self, tensors: Sequence[Live], config: PrepareConfig, *, is_apart: bool = False
    ) -> None: ...


class _Thread(threading.local):
    """State of the calling thread.

    Attributes:
        is_busy: whether it computes part of a graph, for which no rule of this module applies
            again.
        period: the number of nodes in an iteration of the writing loop whose graph was cut last, 0
            if there was none.
    """

    is_busy = False
    period = 0


_thread = _Thread()


@contextmanager
def _being_busy() -> Generator[None]:
    _thread.is_busy = True
    try:
        yield
    finally:
        _thread.is_busy = False


def compute_repeated(tensors: Sequence[Live], config: PrepareConfig, compute: _Compute) -> None:
    """Compute the repeated part of the graph of `tensors`, if it has outgrown one program, so that
    they read its last values.
    """
    if not _thread.is_busy and not is_taking_derivatives():
        order = _list_nodes(tensors)
        if has_outgrown(order):
            _compute_order(order, config, compute)


def _compute_order(order: Sequence[UOp], config: PrepareConfig, compute: _Compute) -> None:
    if not is_computable(order):
        return
    with _being_busy():
        if any(map(states.is_later_state, order)):
            period, n_segments = _compute_writes(order, config, compute)
        else:
            period, n_segments = _compute_values(order, config, compute)
    if n_segments:
        _log.info("realize.split", nodes=len(order), period=period, segments=n_segments)


def _compute_values(
    order: Sequence[UOp], config: PrepareConfig, compute: _Compute
) -> tuple[int, int]:
    """Compute a repeated part that writes to no memory; return its period and the number of its
    segments.
    """
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
    # Another thread that writes memory between two segments leaves the old content to these cells.
    read = {node: Cell(node) for node in order if node.op is Op.BUFFER}
    for number, values in enumerate(repetition.values):
        # The graph before this segment ends at the values that are stored: other tensors are told
        # of them at last.
        new = [node for node in values if node not in memory]
        with registry.lock:
            moved = {node: cell.node for node, cell in read.items() if cell.node is not node}
            cells = [Cell(node) for node in UOp.sink(*new).substitute({**moved, **memory}).src]
        memory = {node: memory[node] for node in values if node in memory}
        with describing(_describe(len(order), repetition.period, number)):
            compute(cells, config, is_apart=True)
        memory.update((node, cell.node) for node, cell in zip(new, cells, strict=True))
    registry.replace_nodes(memory)
    return repetition.period, len(repetition.values)


def _compute_writes(
    order: Sequence[UOp], config: PrepareConfig, compute: _Compute
) -> tuple[int, int]:
    """Compute a repeated part that writes to memory; return its period and the number of its
    segments.
    """
    n_nodes, n_segments, period = len(order), 0, _thread.period
    writers = _list_writers()
    order = _sort_by_assignment(_sort(writers))
    min_periods = MIN_PERIODS if has_outgrown(order) else 2
    while True:
        repetition = find_repetition(order, min_periods=min_periods, min_nodes=MIN_WRITING_NODES)
        # A graph that has not outgrown one program is cut as the next part of a loop that has.
        if repetition is None or (min_periods == 2 and repetition.period != period):
            break
        period, min_periods = repetition.period, 2
        # After each segment the graph reads other versions of that memory, so that the next one is
        # looked for anew.
        cells = [Cell(node, owns=states.is_later_state(node)) for node in repetition.values[0]]
        with describing(_describe(n_nodes, period, n_segments)):
            compute(cells, config)
        n_segments += 1
        order = _sort_by_assignment(_list_nodes(writers))
    _thread.period = period if n_segments else 0
    return period, n_segments


def _list_writers() -> list[Cell]:
    """The live cells whose graphs write to memory: to write is to compute all that reads the old
    content.
    """
    with registry.lock:
        cells = list(registry.iter_pending_cells())
        writing: set[UOp] = set()
        for node in _list_nodes(cells):
            if states.is_later_state(node) or not writing.isdisjoint(node.src):
                writing.add(node)
        return [cell for cell in cells if cell.node in writing]


def _sort_by_assignment(order: Sequence[UOp]) -> list[UOp]:
    """The nodes of a graph, operands first, and each pending assignment after the earlier ones.

    The first iterations of all tensors that a loop updates come before its later ones, whether or
    not these tensors read one another."""
    pending = sorted(
        filter(states.is_later_state, order), key=lambda state: states.mark_of(state).arg
    )
    return [*UOp.sink(*pending, *order[-1].src).toposort()[:-1], order[-1]]


def _describe(n_nodes: int, period: int, number: int) -> str:
    return f"graph, segment {number + 1} of {n_nodes} nodes that repeat every {period}"


def _list_nodes(tensors: Sequence[Live]) -> list[UOp]:
    """The graph of `tensors`, which reads the present versions of memory."""
    order = _sort(tensors)
    if any(node.op is Op.BUFFER and find_buffer(node) is None for node in order):
        # An operation that was being built when this thread computed may have taken an older node.
        with registry.lock:
            if overwriting.catch_up():
                return _sort(tensors)
    return order


def _sort(tensors: Sequence[Live]) -> list[UOp]:
    return UOp.sink(*[one.node for one in tensors if not one.cell.is_given_away]).toposort()


def list_kept(tensors: Sequence[Live]) -> list[Cell]:
    """The live cells to compute along with `tensors`: their values are part of that graph, and were
    part of another before.
    """
    if _thread.is_busy or is_taking_derivatives():
        return []
    with registry.lock:
        known = {id(one.cell) for one in tensors}
        nodes: set[UOp] | None = None
        kept: list[Cell] = []
        for cell in registry.iter_pending_cells():
            if id(cell) in known or not _is_computed(cell.node):
                continue
            # Most graphs are read while nothing else is pending.
            nodes = set(_list_nodes(tensors)) if nodes is None else nodes
            if cell.node in nodes:
                if cell in registry.passed and _is_worth_memory(cell.node):
                    kept.append(cell)
                registry.passed.add(cell)
        if kept:
            _log.info("realize.kept", tensors=len(kept))
        return kept


def _is_computed(node: UOp) -> bool:
    """Whether a node is more than a view of something."""
    while node.op in MOVEMENT or node.op in MARKS:
        node = node.source
    return (
        bool(node.src)
        and states.find_state(node) is None
        and node.op is not Op.MULTI
        and not is_there(node)
    )


def _is_worth_memory(node: UOp) -> bool:
    """Whether a value takes no more than what it is computed from, or little; what is computed from
    nothing is not kept.
    """
    sizes = [size for size in node.shape if isinstance(size, int)]
    if node.placement.__class__ is Sharding or len(sizes) < len(node.shape):
        return False
    order = node.toposort()
    read = sum(n.arg.size * n.dtype.itemsize for n in order if n.op is Op.BUFFER)
    return (
        read > 0
        and prod(sizes) * node.dtype.itemsize <= max(read, MAX_KEPT_BYTES)
        and is_computable(order)
    )


def compute_outgrown(cell: Cell, compute: _Compute) -> None:
    """Compute the graph of a new cell if nobody read it for so long that it has outgrown one
    program, and if this thread may.
    """
    if not _may_compute():
        return
    order, limit = _look_at(cell)
    # A graph that writes nothing waits until it is read: a plan that is prepared from it reads its
    # inputs again at each execution.
    if len(order) <= limit or not any(map(states.is_later_state, order)):
        return
    config = resolve_config(None)
    _compute_order(order, config, compute)
    order, _ = _look_at(cell)
    if has_outgrown(order, MAX_FACTOR):
        _log.info("realize.split", nodes=len(order), period=0, segments=1)
        with registry.lock:
            nodes = set(order)
            parts = [
                one
                for one in registry.iter_pending_cells()
                if one.node in nodes and _is_worth_memory(one.node)
            ]
        with _being_busy(), describing(f"graph, {len(order)} nodes that no read asked for"):
            compute([cell, *parts], config)


def _look_at(cell: Cell) -> tuple[list[UOp], int]:
    """The graph that a new cell is part of, and how many nodes it may have; also choose when to
    look again.
    """
    order = _list_nodes((cell,))
    limit = get_limit(order)
    if any(map(states.is_later_state, order)):
        # The number of a step is written, too, but few nodes lead to it.
        with registry.lock:
            order = _list_nodes(list(registry.iter_pending_cells()))
        limit = _get_writing_limit() or get_limit(order)
    # A graph as large as a model's is not walked again before it may have doubled.
    tables.set_next_look(max(len(order), limit - len(order)) // 2)
    return order, limit


def _get_writing_limit() -> int:
    """The number of pending nodes at which the loop that was cut last has another segment, or 0
    before the first cut.
    """
    return (
        MIN_WRITING_NODES + max(MIN_WRITING_NODES // 2, 4 * _thread.period) if _thread.period else 0
    )


def _may_compute() -> bool:
    """Whether nothing that this thread does excludes a computation: a capture, a derivative, a
    lock, another computation.
    """
    if _thread.is_busy or tables.captured or is_taking_derivatives():
        return False
    return not (tables.is_locked_here() or registry.is_computing_here())
