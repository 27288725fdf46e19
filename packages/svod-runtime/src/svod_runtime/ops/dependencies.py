"""Dependencies of a plan's ops: declared dependencies, and hazards on shared memory.

Ops are listed in schedule order. A declared dependency names an op by id, or by its index in the
plan. An id that repeats (an unrolled schedule loop) refers to the latest earlier op with that id.
Two ops that access the same bytes, at least one writing, always keep their order. Hazards are found
by intervals of a storage and not by buffer handles.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from svod_device import Buffer
from svod_ir import sort_by_dependencies
from svod_runtime.errors import DependencyError
from svod_runtime.ops.prepared import (
    PreparedBufferView,
    PreparedCopy,
    PreparedKernel,
    PreparedLoop,
    PreparedOp,
    get_phase,
)

__all__ = [
    "Access",
    "Dependencies",
    "HazardMap",
    "get_hazards",
    "iter_accesses",
    "list_accesses",
    "list_waits",
    "make_levels",
    "order_ops",
    "resolve_dependencies",
]


def resolve_dependencies(
    ops: Sequence[PreparedOp], instance_dependencies: Sequence[Sequence[int]]
) -> list[set[int]]:
    """Resolve the declared dependencies of each op to indices.

    Raises:
        DependencyError: if an id or index is unknown, an op depends on itself, or the table of
            instance dependencies has another length than the table of ops.
    """
    if len(instance_dependencies) != len(ops):
        problem = (
            f"expected instance dependencies for {len(ops)} ops, got {len(instance_dependencies)}"
        )
        raise DependencyError(problem=problem, op_ids=[op.id for op in ops])
    predecessors = _resolve_ids(ops)
    for index, (op, indices) in enumerate(zip(ops, instance_dependencies, strict=True)):
        for position in indices:
            if not 0 <= position < len(ops):
                problem = (
                    f"op {op.id} depends on op index {position}, out of bounds for {len(ops)} ops"
                )
                raise DependencyError(problem=problem, op_ids=[op.id])
            if position == index:
                raise DependencyError(
                    problem=f"op {op.id} depends on itself by op index {index}", op_ids=[op.id]
                )
            predecessors[index].add(position)
    return predecessors


def _resolve_ids(ops: Sequence[PreparedOp]) -> list[set[int]]:
    # With unique ids, an op may also name a later op; the topological sort orders them.
    position_of = {op.id: index for index, op in enumerate(ops)}
    is_repeated = len(position_of) < len(ops)
    if is_repeated:
        # Filled op by op below, so that an id means its latest earlier op.
        position_of = {}
    predecessors: list[set[int]] = []
    for index, op in enumerate(ops):
        resolved: set[int] = set()
        for op_id in op.dependencies:
            if op_id not in position_of:
                earlier = " before it (ids repeat)" if is_repeated else ""
                problem = f"op {op.id} depends on op id {op_id}, which does not exist{earlier}"
                raise DependencyError(problem=problem, op_ids=[op.id, op_id])
            if position_of[op_id] == index:
                raise DependencyError(problem=f"op {op.id} depends on itself", op_ids=[op.id])
            resolved.add(position_of[op_id])
        predecessors.append(resolved)
        if is_repeated:
            position_of[op.id] = index
    return predecessors


class Dependencies:
    """Dependencies between the ops of a plan: declared ones, and hazards that follow from the
    buffers.

    Attributes:
        declared: for each op the indices of its declared predecessors.
        order: a topological order, the smallest index first among ready ops.
    """

    def __init__(self, ops: Sequence[PreparedOp], declared: Sequence[set[int]]) -> None:
        """Raises DependencyError if the dependencies form a cycle."""
        self._ops, self.declared, self.order = ops, declared, order_ops(ops, declared)

    def get_predecessors(self, buffers: Sequence[Buffer]) -> list[set[int]]:
        """Return the indices of each op's predecessors on these buffers."""
        # Hazards need an order of the accesses: the one that declared dependencies allow, not the
        # listed one.
        hazards = get_hazards([self._iter_accesses(op, buffers) for op in self._ops], self.order)
        return [d | h for d, h in zip(self.declared, hazards, strict=True)]

    def get_levels(self, buffers: Sequence[Buffer]) -> list[list[int]]:
        """Return the levels of the ops on these buffers, as `make_levels` does."""
        return make_levels(self.get_predecessors(buffers), list_waits(self._ops))

    def _iter_accesses(self, op: PreparedOp, buffers: Sequence[Buffer]) -> Iterable[Access]:
        return iter_accesses(op, buffers)


def order_ops(ops: Sequence[PreparedOp], predecessors: Sequence[set[int]]) -> list[int]:
    """Return a topological order, the smallest index first among ready ops.

    Raises:
        DependencyError: if the dependencies form a cycle; it lists the blocked ids.
    """
    order = sort_by_dependencies(predecessors)
    if len(order) != len(ops):
        blocked = [ops[index].id for index in sorted(set(range(len(ops))) - set(order))]
        raise DependencyError(
            problem=f"a cycle blocks ops {', '.join(map(str, blocked))}", op_ids=blocked
        )
    return order


def list_waits(ops: Sequence[PreparedOp]) -> frozenset[int]:
    """Indices of the ops that wait for work that goes on beside the plan."""
    return frozenset(index for index, op in enumerate(ops) if get_phase(op) == "wait")


def make_levels(
    predecessors: Sequence[set[int]], waits: Collection[int] = frozenset[int]()
) -> list[list[int]]:
    """Group the ops by level: predecessors of an op are on earlier levels.

    Each level is in schedule order. An op is on the earliest level possible, so that as many ops as
    possible share one; but one of `waits` gets a level of its own, when no other op is ready.

    Args:
        predecessors: predecessors of each op, without cycles.
        waits: ops that wait for work that goes on beside the plan.
    """
    n_missing = [len(earlier) for earlier in predecessors]
    followers: list[list[int]] = [[] for _ in predecessors]
    for index, earlier in enumerate(predecessors):
        for p in earlier:
            followers[p].append(index)
    levels: list[list[int]] = []
    delayed = deque[int]()
    level = [index for index, n in enumerate(n_missing) if n == 0]
    while level:
        levels.append(sorted(level))
        level = list[int]()
        for index in levels[-1]:
            for follower in followers[index]:
                n_missing[follower] -= 1
                if n_missing[follower] == 0:
                    (delayed if follower in waits else level).append(follower)
        if not level and delayed:
            # The work that was started first is done first.
            level.append(delayed.popleft())
    return levels


class Access(NamedTuple):
    """Read or write of a byte interval of a storage."""

    storage_id: int
    start: int
    end: int
    is_write: bool


def iter_accesses(op: PreparedOp, buffers: Sequence[Buffer]) -> Iterable[Access]:
    """Memory accesses of an op.

    A view accesses nothing; a custom function may write all of its buffers.
    """
    if isinstance(op, PreparedBufferView):
        return
    for position, index in enumerate(op.buffer_indices):
        buffer = buffers[index]
        match op:
            case PreparedKernel() | PreparedLoop():
                is_write = position in op.output_indices
            case PreparedCopy():
                is_write = position == 0
            # The registered function is free to write, so all of its buffers count as written.
            case _:
                is_write = True
        yield from list_accesses(buffer, is_write)


def list_accesses(buffer: Buffer, is_write: bool) -> tuple[Access, ...]:
    """Access to all bytes of a buffer; empty for an empty buffer."""
    end = buffer.offset + buffer.nbytes
    # An empty interval would split segments, and order ops that share no byte.
    return (Access(buffer.storage_id, buffer.offset, end, is_write),) if buffer.nbytes else ()


def get_hazards(accesses: Sequence[Iterable[Access]], order: Iterable[int]) -> list[set[int]]:
    """Return the hazards of each op: earlier ops, in `order`, with a conflicting access.

    Accesses conflict if they overlap and at least one is a write.
    """
    hazards: list[set[int]] = [set() for _ in accesses]
    history = HazardMap()
    for index in order:
        for access in accesses[index]:
            hazards[index] |= history.record(index, access)
        # An op may read and write the same bytes.
        hazards[index].discard(index)
    return hazards


@dataclass(slots=True)
class _Segment:
    """Bytes with the same history: last writer, and readers since."""

    start: int
    writer: int | None = None
    readers: set[int] = field(default_factory=set[int])


class HazardMap:
    """Access history of every byte: sorted segments for each storage, from byte 0 to infinity."""

    def __init__(self) -> None:
        self._storages: dict[int, list[_Segment]] = {}

    def record(self, op: int, access: Access) -> set[int]:
        """Record an access, and return the earlier ops that it must wait for."""
        segments = self._storages.setdefault(access.storage_id, [_Segment(0)])
        # Segments split only at bounds of accesses, so their number is that of distinct bounds,
        # whatever the size of the storage.
        first, last = _split_at(segments, access.start), _split_at(segments, access.end)
        earlier_ops: set[int] = set()
        for segment in segments[first:last]:
            if segment.writer is not None:
                earlier_ops.add(segment.writer)
            if access.is_write:
                earlier_ops |= segment.readers
            else:
                segment.readers.add(op)
        if access.is_write:
            # A write supersedes earlier accesses: ops that wait for it wait for them as well.
            segments[first:last] = [_Segment(access.start, op)]
        return earlier_ops


def _split_at(segments: list[_Segment], position: int) -> int:
    """Split the segment that contains `position`, and return the index of the segment that starts
    there.
    """
    index = bisect_left(segments, position, key=attrgetter("start"))
    if index == len(segments) or segments[index].start != position:
        before = segments[index - 1]
        # A copy of the readers: the two halves have separate histories from now on.
        segments.insert(index, _Segment(position, before.writer, set(before.readers)))
    return index
