"""When each buffer of a schedule is needed, in execution levels.

Items of one level may run at the same time, so that a life is counted in levels and not in positions: two
buffers may share memory only if every item that touches the first is on an earlier level than every item that
touches the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from svod_device import Buffer
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor.engine.schedule import ScheduleItem, is_disk

__all__ = [
    "BufferUse", "Life", "get_levels", "get_predecessors", "has_partial_store", "is_fresh", "iter_arguments",
    "list_lives", "reorder",
]  # fmt: skip


@dataclass(slots=True)
class Life:
    """One intermediate: the levels of the first and last item that touch it, and the positions of all of them."""

    id: int
    buffer: Buffer
    first: int
    last: int
    positions: list[int]


class BufferUse(NamedTuple):
    """A buffer that an item touches."""

    slot: int
    id: int
    buffer: Buffer
    is_written: bool


def iter_arguments(item: ScheduleItem) -> Iterator[BufferUse]:
    """What an item touches; bound variables take slots too."""
    slots = (slot for slot, argument in enumerate(item.kernel.arguments) if argument.op is not Op.BIND)
    written = _written_slots(item.ast)
    for slot, number, buffer in zip(slots, item.buffer_ids, item.buffers, strict=True):
        yield BufferUse(slot, number, buffer, slot in written)


def list_lives(items: Sequence[ScheduleItem], fixed_ids: Iterable[int]) -> list[Life]:
    """The intermediates that may share memory, in the order of their first use; `fixed_ids` never do."""
    levels = get_levels(get_predecessors(items))
    fixed = set(fixed_ids)
    lives: dict[int, Life] = {}
    for position, item in enumerate(items):
        is_whole_store = item.ast.op is Op.SINK and not has_partial_store(item.ast)
        for _, number, buffer, is_written in iter_arguments(item):
            if number not in lives and not (is_written and is_fresh(number, buffer)):
                # Read before it is written, or somebody else's.
                fixed.add(number)
            if not is_whole_store:
                fixed.add(number)
            life = lives.setdefault(number, Life(number, buffer, levels[position], levels[position], []))
            life.first, life.last = min(life.first, levels[position]), max(life.last, levels[position])
            life.positions.append(position)
    return [life for life in lives.values() if life.id not in fixed]


def is_fresh(number: int, buffer: Buffer) -> bool:
    """Whether the schedule made this buffer, and for itself alone."""
    is_whole = buffer.nbytes == buffer.storage_nbytes
    return number < 0 and is_whole and not buffer.is_allocated and not is_disk(buffer.device)


def get_predecessors(items: Sequence[ScheduleItem]) -> list[set[int]]:
    """For each item the positions of those that must run before: declared, or by what both touch."""
    found: list[set[int]] = []
    last_of_kernel: dict[int, int] = {}
    last_write: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for position, item in enumerate(items):
        earlier = {last_of_kernel[d] for d in item.dependencies if d in last_of_kernel}
        earlier.update(item.instance_dependencies)
        arguments = list(iter_arguments(item))
        for argument in arguments:
            if argument.id in last_write:
                earlier.add(last_write[argument.id])
            if argument.is_written:
                earlier.update(readers.get(argument.id, ()))
        earlier.discard(position)
        found.append(earlier)
        last_of_kernel[item.kernel_id] = position
        for argument in arguments:
            if argument.is_written:
                last_write[argument.id], readers[argument.id] = position, []
            else:
                readers.setdefault(argument.id, []).append(position)
    return found


def get_levels(predecessors: Sequence[set[int]]) -> list[int]:
    """For each item, how many others must run one after the other before it; predecessors stand before it."""
    levels: list[int] = []
    for earlier in predecessors:
        levels.append(1 + max((levels[p] for p in earlier), default=-1))
    return levels


def reorder(items: Sequence[ScheduleItem], order: Sequence[int]) -> list[ScheduleItem]:
    """The items in another order, of which positions say where they were."""
    moved = {old: new for new, old in enumerate(order)}
    return [
        replace(items[old], instance_dependencies=tuple(sorted(moved[d] for d in items[old].instance_dependencies)))
        for old in order
    ]


@lru_cache(maxsize=4096)
def _written_slots(ast: UOp) -> frozenset[int]:
    """The arguments that a body writes; of what is no kernel, the first."""
    if ast.op is not Op.SINK:
        return frozenset({0})
    return frozenset(t.src[0].arg.slot for t in _iter_targets(ast) if t.src[0].op is Op.PARAM)


@lru_cache(maxsize=4096)
def has_partial_store(ast: UOp) -> bool:
    """Whether a body stores under a gate, and so may leave old content in place."""
    return any(target.gate is not None for target in _iter_targets(ast))


def _iter_targets(ast: UOp) -> Iterator[UOp]:
    return (store.location for store in ast.iter_ops(Op.STORE) if store.location.op is Op.INDEX)
