"""Live range of each intermediate of a plan.

Ops of one level may run concurrently, so a live range is counted in levels instead of positions.
Two buffers may share memory only if all ops of the first are on earlier levels than all ops of the
second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from svod_device import Buffer
from svod_ir import UOp
from svod_runtime.loops.body_order import BodyDependencies
from svod_runtime.ops.loop_bindings import CarriedOut, Slice, Whole
from svod_runtime.ops.prepared import (
    PreparedKernel,
    PreparedLoop,
    PreparedOp,
    get_written,
    list_local_views,
)

__all__ = ["LiveRange", "is_fresh", "list_live_ranges"]


@dataclass(slots=True)
class LiveRange:
    """Live range of one intermediate.

    Attributes:
        index: index of the buffer.
        buffer: the buffer before memory is shared.
        users: indices of the ops that access it.
        first: level of the first user, once levels are known.
        last: level of the last user.
    """

    index: int
    buffer: Buffer
    users: list[int]
    first: int = 0
    last: int = 0


def list_live_ranges(
    ops: Sequence[PreparedOp], order: Iterable[int], buffers: Sequence[Buffer], fixed: Iterable[int]
) -> list[LiveRange]:
    """Live ranges of the intermediates that may share memory, in the order of their first use.

    Excluded are buffers of copies, views, custom functions and partially storing kernels, and
    buffers that an iteration may leave unchanged. The result of a loop that may have zero
    iterations is included only without another reader, or if the branches of a switch fill it in
    every case.

    Args:
        ops: ops of a plan or of a loop body.
        order: a topological order of the ops.
        buffers: buffers that the ops index.
        fixed: buffers that never share memory.
    """
    fixed = set(fixed)
    conditional: dict[int, _Conditional] = {}
    ranges: dict[int, LiveRange] = {}
    for op_index in order:
        op = ops[op_index]
        written = get_written(op)
        kept = _list_kept(op)
        filled = set(_list_conditional(op))
        for index in filled - ranges.keys():
            conditional[index] = _Conditional(_get_switch(op))
        # An op may take a buffer twice, but is one user of it.
        for index in dict.fromkeys(op.buffer_indices):
            # A buffer that is read first holds data from before the execution or iteration.
            is_read_first = index not in ranges and index not in written
            if is_read_first or index in kept:
                fixed.add(index)
            if index in conditional and conditional[index].see(op, index in filled):
                del conditional[index]
            ranges.setdefault(index, LiveRange(index, buffers[index], [])).users.append(op_index)
    # A result that may stay unwritten keeps old data for its readers; without a reader, that data
    # does not matter.
    fixed.update(index for index in conditional if len(ranges[index].users) > 1)
    return [live_range for live_range in ranges.values() if live_range.index not in fixed]


@dataclass(slots=True)
class _Conditional:
    """Result of a loop that may not run: its switch, and the branches that filled it so far.

    Loops outside of a switch have no switch, nor do buffers that another op accessed too early.
    """

    switch: object
    branches: set[int] = field(default_factory=set[int])

    def see(self, op: PreparedOp, is_filled: bool) -> bool:
        """Record an access of `op`; True if all branches of the switch have filled the buffer."""
        if (
            not is_filled
            or not isinstance(op, PreparedLoop)
            or op.branch is None
            or _get_switch(op) != self.switch
        ):
            # A branch that fills the buffer later does not help the access before it.
            self.switch = None
            return False
        self.branches.add(op.branch)
        return len(self.branches) == op.n_branches


def _get_switch(op: PreparedOp) -> object:
    """Key shared by all branches of a switch: number of branches and source of the index."""
    if not isinstance(op, PreparedLoop) or op.branch is None:
        return None
    position = op.count_position
    return (
        op.n_branches,
        op.count,
        None if position is None or op.count is not None else op.buffer_indices[position],
    )


def _list_kept(op: PreparedOp) -> Collection[int]:
    """Buffers that may keep old data after the op, and buffers that have no live range."""
    match op:
        case PreparedKernel():
            return op.buffer_indices if op.is_partial else ()
        case PreparedLoop():
            return {op.buffer_indices[position] for position in _list_kept_positions(op)}
        case _:
            return op.buffer_indices


def _list_kept_positions(op: PreparedLoop) -> Iterator[int]:
    """Operands that an iteration writes but may leave partially unchanged."""
    body = op.body
    # The body's live ranges are the test for full writes: a buffer that an op may leave partly
    # unchanged has none.
    fully_written = {
        live_range.index
        for live_range in list_live_ranges(body.ops, BodyDependencies(op).order, body.buffers, ())
    }
    touched = {i for inner in body.ops for i in inner.buffer_indices}
    written = {i for inner in body.ops for i in get_written(inner)}
    for owner, views in list_local_views(body).items():
        indices = [view.local for view in views if view.local in touched]
        if written.isdisjoint(indices) or fully_written.issuperset(indices):
            continue
        match body.bindings[owner]:
            case Whole(position) | Slice(position):
                yield position
            case CarriedOut(index) if (spare := body.carried[index].spare) is not None:
                yield from (body.carried[index].result, spare)
            case _:
                pass  # an updated carry is fully written before the first iteration


def _list_conditional(op: PreparedOp) -> Iterator[int]:
    """Buffers that a loop fills only if it runs all iterations."""
    if not isinstance(op, PreparedLoop):
        return
    # A loop of zero iterations copies initial values to results; a branch that is not selected
    # copies nothing, since the selected one fills them.
    carried: set[int] = set() if op.branch is not None else {v.result for v in op.body.carried}
    fewest = int(op.count.vmin) if isinstance(op.count, UOp) else op.count or 0
    is_certain = fewest > 0 and op.branch is None
    # A known trip count is also the number of slices, so zero iterations leave no slice for a
    # reader.
    is_sized = op.count is not None and op.branch is None and op.body.go_on is None
    sliced = {b.position for b in op.body.bindings if isinstance(b, Slice)}
    for position in op.output_indices:
        if position not in carried and not (is_sized if position in sliced else is_certain):
            yield op.buffer_indices[position]


def is_fresh(buffer: Buffer) -> bool:
    """True if a buffer covers its own storage and has no memory yet."""
    return buffer.nbytes == buffer.storage_nbytes and not buffer.is_allocated
