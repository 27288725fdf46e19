"""The order of a plan's ops: declared dependencies, and the hazards that nobody declared.

Ops are given in schedule order. A declared dependency names an op by id, or by its index in the
plan; an id that occurs several times (a schedule loop that was unrolled) means the latest op before
the one that depends on it. Two ops that touch the same bytes, at least one writing, keep their
order whether they declared it or not: what counts is the interval of the storage, not the handle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
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
)

__all__ = [
    "Access",
    "Dependencies",
    "HazardMap",
    "get_hazards",
    "iter_accesses",
    "list_accesses",
    "make_levels",
    "order_ops",
    "resolve_dependencies",
]


def resolve_dependencies(
    ops: Sequence[PreparedOp], instance_dependencies: Sequence[Sequence[int]]
) -> list[set[int]]:
    """For each op the indices of the ops that it declares to depend on.

    Raises:
        DependencyError: if an id or index is unknown, an op depends on itself, or the table of
            instance dependencies has another length than the table of ops.
    """
    if len(instance_dependencies) != len(ops):
        problem = f"{len(ops)} ops, but instance dependencies for {len(instance_dependencies)}"
        raise DependencyError(problem=problem, op_ids=[op.id for op in ops])
    predecessors = _resolve_ids(ops)
    for index, (op, wanted) in enumerate(zip(ops, instance_dependencies, strict=True)):
        for position in wanted:
            if not 0 <= position < len(ops):
                problem = f"op {op.id} depends on op index {position}, but there are {len(ops)} ops"
                raise DependencyError(problem=problem, op_ids=[op.id])
            if position == index:
                raise DependencyError(
                    problem=f"op {op.id} depends on itself by op index {index}", op_ids=[op.id]
                )
            predecessors[index].add(position)
    return predecessors


def _resolve_ids(ops: Sequence[PreparedOp]) -> list[set[int]]:
    position_of = {op.id: index for index, op in enumerate(ops)}
    is_repeated = len(position_of) < len(ops)
    if is_repeated:
        position_of = {}
    predecessors: list[set[int]] = []
    for index, op in enumerate(ops):
        found: set[int] = set()
        for wanted in op.dependencies:
            if wanted not in position_of:
                earlier = " before it (ids repeat)" if is_repeated else ""
                problem = f"op {op.id} depends on op id {wanted}, which does not occur{earlier}"
                raise DependencyError(problem=problem, op_ids=[op.id, wanted])
            if position_of[wanted] == index:
                raise DependencyError(problem=f"op {op.id} depends on itself", op_ids=[op.id])
            found.add(position_of[wanted])
        predecessors.append(found)
        if is_repeated:
            position_of[op.id] = index
    return predecessors


class Dependencies:
    """Who waits for whom among the ops of a plan: what they declare, and what follows from the
    memory that they are on.

    Attributes:
        declared: for each op the indices of those that it declares to wait for.
        order: the ops in an order that this allows, the smallest index first where there is a
            choice.
    """

    def __init__(self, ops: Sequence[PreparedOp], declared: Sequence[set[int]]) -> None:
        """Raises DependencyError if the dependencies form a cycle."""
        self._ops, self.declared, self.order = ops, declared, order_ops(ops, declared)

    def get_predecessors(self, buffers: Sequence[Buffer]) -> list[set[int]]:
        """For each op the indices of those that it waits for on these buffers."""
        hazards = get_hazards([self._iter_accesses(op, buffers) for op in self._ops], self.order)
        return [d | h for d, h in zip(self.declared, hazards, strict=True)]

    def get_levels(self, buffers: Sequence[Buffer]) -> list[list[int]]:
        """The ops by level on these buffers, as `make_levels` gives them."""
        return make_levels(self.order, self.get_predecessors(buffers))

    def _iter_accesses(self, op: PreparedOp, buffers: Sequence[Buffer]) -> Iterable[Access]:
        return iter_accesses(op, buffers)


def order_ops(ops: Sequence[PreparedOp], predecessors: Sequence[set[int]]) -> list[int]:
    """A topological order, the smallest index first where there is a choice.

    Raises:
        DependencyError: if the dependencies form a cycle; it lists the ids that are blocked.
    """
    order = sort_by_dependencies(predecessors)
    if len(order) != len(ops):
        blocked = [ops[index].id for index in sorted(set(range(len(ops))) - set(order))]
        raise DependencyError(
            problem=f"a cycle blocks ops {', '.join(map(str, blocked))}", op_ids=blocked
        )
    return order


def make_levels(order: Sequence[int], predecessors: Sequence[set[int]]) -> list[list[int]]:
    """The ops by level, each level in schedule order: an op's predecessors are all in earlier
    levels.
    """
    level_of: dict[int, int] = {}
    levels: list[list[int]] = []
    for index in order:
        level = 1 + max((level_of[p] for p in predecessors[index]), default=-1)
        level_of[index] = level
        if level == len(levels):
            levels.append([])
        levels[level].append(index)
    return [sorted(level) for level in levels]


class Access(NamedTuple):
    """Bytes of one storage that an op reads or writes."""

    storage_id: int
    start: int
    end: int
    is_write: bool


def iter_accesses(op: PreparedOp, buffers: Sequence[Buffer]) -> Iterable[Access]:
    """What an op touches.

    A view touches nothing, a custom function may write all of its buffers.
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
            case _:
                is_write = True
        yield from list_accesses(buffer, is_write)


def list_accesses(buffer: Buffer, is_write: bool) -> tuple[Access, ...]:
    """An access to all of a buffer, or none if it is empty."""
    end = buffer.offset + buffer.nbytes
    return (Access(buffer.storage_id, buffer.offset, end, is_write),) if buffer.nbytes else ()


def get_hazards(accesses: Sequence[Iterable[Access]], order: Iterable[int]) -> list[set[int]]:
    """For each op the earlier ops, along `order`, that touch bytes which it writes or wrote bytes
    which it touches.
    """
    found: list[set[int]] = [set() for _ in accesses]
    touched = HazardMap()
    for index in order:
        for access in accesses[index]:
            found[index] |= touched.record(index, access)
        found[index].discard(index)
    return found


@dataclass(slots=True)
class _Segment:
    """Bytes with the same history: who wrote them last, and who has read them since."""

    start: int
    writer: int | None = None
    readers: set[int] = field(default_factory=set[int])


class HazardMap:
    """The history of every byte: for each storage, sorted segments from byte 0 to infinity."""

    def __init__(self) -> None:
        self._storages: dict[int, list[_Segment]] = {}

    def record(self, op: int, access: Access) -> set[int]:
        """Enter an access, and return the earlier accesses that it must come after."""
        segments = self._storages.setdefault(access.storage_id, [_Segment(0)])
        first, last = _cut(segments, access.start), _cut(segments, access.end)
        found: set[int] = set()
        for segment in segments[first:last]:
            if segment.writer is not None:
                found.add(segment.writer)
            if access.is_write:
                found |= segment.readers
            else:
                segment.readers.add(op)
        if access.is_write:
            segments[first:last] = [_Segment(access.start, op)]
        return found


def _cut(segments: list[_Segment], position: int) -> int:
    """Split the segment that holds `position` there, and return the index of the one that then
    starts at it.
    """
    index = bisect_left(segments, position, key=attrgetter("start"))
    if index == len(segments) or segments[index].start != position:
        before = segments[index - 1]
        segments.insert(index, _Segment(position, before.writer, set(before.readers)))
    return index
