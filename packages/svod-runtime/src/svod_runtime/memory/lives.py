"""Live range of each intermediate of a plan.

Ops of one level may run at the same time, so that a life is counted in levels and not in positions:
two buffers may share memory only if every op that touches the first is on an earlier level than
every op that touches the second."""

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
    list_parts,
)

__all__ = ["Life", "is_fresh", "list_lives"]


@dataclass(slots=True)
class Life:
    """One intermediate.

    Attributes:
        index: of the buffer.
        buffer: as long as it shares no memory.
        users: the indices of the ops that touch it.
        first: the level of the first of them, once there are levels.
        last: that of the last one.
    """

    index: int
    buffer: Buffer
    users: list[int]
    first: int = 0
    last: int = 0


def list_lives(
    ops: Sequence[PreparedOp], order: Iterable[int], buffers: Sequence[Buffer], fixed: Iterable[int]
) -> list[Life]:
    """The intermediates that may share memory, in the order of their first use; those in `fixed`
    never do.

    What copies, views and custom functions touch is left alone, and so is what a kernel touches
    that stores in part, and what an iteration of a loop may leave as it was. What a loop fills that
    may run no iteration is shared only if nobody else reads it, or if one of the branches of a
    switch fills it in any case."""
    fixed = set(fixed)
    unsure: dict[int, _Unsure] = {}
    lives: dict[int, Life] = {}
    for number in order:
        op = ops[number]
        written = get_written(op)
        kept = _list_kept(op)
        filled = set(_list_unsure(op))
        for index in filled - lives.keys():
            unsure[index] = _Unsure(_get_switch(op))
        for index in dict.fromkeys(op.buffer_indices):
            is_read_first = index not in lives and index not in written
            if is_read_first or index in kept:
                fixed.add(index)
            if index in unsure and unsure[index].see(op, index in filled):
                del unsure[index]
            lives.setdefault(index, Life(index, buffers[index], [])).users.append(number)
    fixed.update(index for index in unsure if len(lives[index].users) > 1)
    return [life for life in lives.values() if life.index not in fixed]


@dataclass(slots=True)
class _Unsure:
    """What a loop fills that may not run: by which switch, and in which of its branches so far.

    The switch is None for other loops, and once somebody else touched the buffer before all
    branches did."""

    switch: object
    branches: set[int] = field(default_factory=set[int])

    def see(self, op: PreparedOp, is_filled: bool) -> bool:
        """Note that an op touches the buffer, and say whether all branches of the switch
        filled it.
        """
        if (
            not is_filled
            or not isinstance(op, PreparedLoop)
            or op.branch is None
            or _get_switch(op) != self.switch
        ):
            self.switch = None
            return False
        self.branches.add(op.branch)
        return len(self.branches) == op.n_branches


def _get_switch(op: PreparedOp) -> object:
    """The same for all branches of a switch: how many there are, and what says which one runs."""
    if not isinstance(op, PreparedLoop) or op.branch is None:
        return None
    position = op.count_position
    return (
        op.n_branches,
        op.count,
        None if position is None or op.count is not None else op.buffer_indices[position],
    )


def _list_kept(op: PreparedOp) -> Collection[int]:
    """The buffers that hold afterwards, as far as is known, some of what was in them before;
    whatever is no life, too.
    """
    match op:
        case PreparedKernel():
            return op.buffer_indices if op.is_partial else ()
        case PreparedLoop():
            return {op.buffer_indices[position] for position in _list_kept_positions(op)}
        case _:
            return op.buffer_indices


def _list_kept_positions(op: PreparedLoop) -> Iterator[int]:
    """The operands that an iteration writes, but may leave parts of as they were, or of the
    iteration before.
    """
    body = op.body
    whole = {
        life.index for life in list_lives(body.ops, BodyDependencies(op).order, body.buffers, ())
    }
    touched = {i for inner in body.ops for i in inner.buffer_indices}
    written = {i for inner in body.ops for i in get_written(inner)}
    for owner, parts in list_parts(body).items():
        indices = [part.local for part in parts if part.local in touched]
        if written.isdisjoint(indices) or whole.issuperset(indices):
            continue
        match body.bindings[owner]:
            case Whole(position) | Slice(position):
                yield position
            case CarriedOut(number) if (spare := body.carried[number].spare) is not None:
                yield from (body.carried[number].result, spare)
            case _:
                pass  # what is changed in place is filled before the first iteration


def _list_unsure(op: PreparedOp) -> Iterator[int]:
    """The buffers that a loop fills only if it runs, and to its end."""
    if not isinstance(op, PreparedLoop):
        return
    carried: set[int] = set() if op.branch is not None else {v.result for v in op.body.carried}
    fewest = int(op.count.vmin) if isinstance(op.count, UOp) else op.count or 0
    is_certain = fewest > 0 and op.branch is None
    is_sized = op.count is not None and op.branch is None and op.body.go_on is None
    sliced = {b.position for b in op.body.bindings if isinstance(b, Slice)}
    for position in op.output_indices:
        if position not in carried and not (is_sized if position in sliced else is_certain):
            yield op.buffer_indices[position]


def is_fresh(buffer: Buffer) -> bool:
    """Whether a buffer has storage of its own without content."""
    return buffer.nbytes == buffer.storage_nbytes and not buffer.is_allocated
