"""memory planning: intermediates whose lives do not meet share memory.

A life is counted in execution levels, not in positions: items of one level may run at the same time,
so that two buffers share memory only if every item that touches the first is on an earlier level than every
item that touches the second. Sharing so never takes parallelism away; the order is declared all the same
(`instance_dependencies`), since a plan may order independent items as it likes.

Inputs, outputs, and what copies, views and custom functions touch are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from svod_device import Buffer, get_allocator
from svod_dtype import uint8
from svod_ir.log import get_logger
from svod_ir.ops import Op
from svod_ir.uop import UOp
from svod_tensor.options import PlannerMode
from svod_tensor.schedule import ScheduleItem, ScheduleResult, is_disk

__all__ = ["MemoryPlan", "plan_memory"]

_log = get_logger("tensor")
_ALIGNMENT: Final = 256


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Items on shared memory, with how much there was to share: bytes of the `n_buffers` that could be, before and after."""

    items: list[ScheduleItem]
    n_buffers: int
    bytes_before: int
    bytes_after: int

    @property
    def bytes_saved(self) -> int:
        return self.bytes_before - self.bytes_after


@dataclass(slots=True)
class _Life:
    """One intermediate: the levels of the first and last item that touch it, and the positions of all of them."""

    id: int
    buffer: Buffer
    first: int
    last: int
    positions: list[int]

    @property
    def nbytes(self) -> int:
        """Its size, rounded up so that each start is aligned."""
        return -(-self.buffer.nbytes // _ALIGNMENT) * _ALIGNMENT


@dataclass(frozen=True, slots=True)
class _Placement:
    """New buffers by id, and for each position in the schedule the positions that must come before."""

    buffers: Mapping[int, Buffer]
    dependencies: Mapping[int, set[int]]
    bytes_used: int


def plan_memory(schedule: ScheduleResult, mode: PlannerMode) -> MemoryPlan:
    """The items of `schedule`, on shared memory as `mode` says; then sorted by level."""
    if mode == "disabled" or _count_intermediates(schedule) < 2:
        return MemoryPlan(schedule.items, 0, 0, 0)
    items = _sort_by_level(schedule.items)
    lives = _find_lives(items, schedule.output_ids)
    before = sum(life.buffer.nbytes for life in lives)
    if len(lives) < 2:
        return MemoryPlan(schedule.items, len(lives), before, before)
    by_device: dict[str, list[_Life]] = defaultdict(list)
    for life in lives:
        by_device[life.buffer.device].append(life)
    place = _pack if mode == "arena" else _reuse
    placements = [place(device, group) for device, group in by_device.items()]
    after = sum(p.bytes_used for p in placements)
    _log.info("memory.planned", mode=mode, buffers=len(lives), bytes_before=before, bytes_saved=before - after)
    return MemoryPlan(_apply(items, placements), len(lives), before, after)


def _apply(items: Sequence[ScheduleItem], placements: Iterable[_Placement]) -> list[ScheduleItem]:
    buffers: dict[int, Buffer] = {}
    earlier: dict[int, set[int]] = {}
    for placement in placements:
        buffers.update(placement.buffers)
        for position, found in placement.dependencies.items():
            earlier.setdefault(position, set()).update(found)
    return [
        replace(
            item, buffers=tuple(buffers.get(n, b) for n, b in zip(item.buffer_ids, item.buffers, strict=True)),
            instance_dependencies=tuple(sorted({*item.instance_dependencies, *earlier.get(position, ())})),
        )
        for position, item in enumerate(items)
    ]  # fmt: skip


def _count_intermediates(schedule: ScheduleResult) -> int:
    return len({n for item in schedule.items for n in item.buffer_ids if n < 0} - set(schedule.output_ids))


def _sort_by_level(items: Sequence[ScheduleItem]) -> list[ScheduleItem]:
    """The items in the order in which they can run, so that what must come before an item stands before it."""
    levels = _find_levels(items)
    order = sorted(range(len(items)), key=lambda position: (levels[position], position))
    moved = {old: new for new, old in enumerate(order)}
    return [
        replace(items[old], instance_dependencies=tuple(sorted(moved[d] for d in items[old].instance_dependencies)))
        for old in order
    ]


def _find_lives(items: Sequence[ScheduleItem], output_ids: Sequence[int]) -> list[_Life]:
    """The intermediates that may share memory, in the order of their first use."""
    levels = _find_levels(items)
    fixed = set(output_ids)
    lives: dict[int, _Life] = {}
    for position, item in enumerate(items):
        written = _written_slots(item.ast)
        is_kernel = item.ast.op is Op.SINK
        for slot, (number, buffer) in enumerate(zip(item.buffer_ids, item.buffers, strict=True)):
            if number not in lives and (slot not in written or not _is_private(number, buffer)):
                # Read before it is written, or somebody else's.
                fixed.add(number)
            if not is_kernel or _has_partial_store(item.ast):
                fixed.add(number)
            life = lives.setdefault(number, _Life(number, buffer, levels[position], levels[position], []))
            life.first, life.last = min(life.first, levels[position]), max(life.last, levels[position])
            life.positions.append(position)
    return [life for life in lives.values() if life.id not in fixed]


def _is_private(number: int, buffer: Buffer) -> bool:
    is_whole = buffer.offset == 0 and buffer.nbytes == buffer.storage_nbytes
    return number < 0 and is_whole and not buffer.is_allocated and not is_disk(buffer.device)


def _find_levels(items: Sequence[ScheduleItem]) -> list[int]:
    """For each item, how many others must run one after the other before it."""
    levels: list[int] = []
    last_of_kernel: dict[int, int] = {}
    last_write: dict[int, int] = {}
    last_touch: dict[int, int] = {}
    for item in items:
        written = _written_slots(item.ast)
        earlier = [last_of_kernel.get(d, -1) for d in item.dependencies]
        earlier.extend(levels[d] for d in item.instance_dependencies)
        for slot, number in enumerate(item.buffer_ids):
            earlier.append((last_touch if slot in written else last_write).get(number, -1))
        level = 1 + max(earlier, default=-1)
        levels.append(level)
        last_of_kernel[item.kernel_id] = level
        for slot, number in enumerate(item.buffer_ids):
            last_touch[number] = max(level, last_touch.get(number, -1))
            if slot in written:
                last_write[number] = level
    return levels


@lru_cache(maxsize=4096)
def _written_slots(ast: UOp) -> frozenset[int]:
    """The arguments that a body writes; of what is no kernel, the first."""
    if ast.op is not Op.SINK:
        return frozenset({0})
    targets = (store.src[0] for store in ast.iter_ops(Op.STORE))
    return frozenset(t.src[0].arg.slot for t in targets if t.op is Op.INDEX and t.src[0].op is Op.PARAM)


@lru_cache(maxsize=4096)
def _has_partial_store(ast: UOp) -> bool:
    """Whether a body stores under a gate, and so may leave old content in place."""
    return any(store.src[0].op is Op.INDEX and store.src[0].gate is not None for store in ast.iter_ops(Op.STORE))


def _pack(device: str, lives: Sequence[_Life]) -> _Placement:
    """One block for all: the largest buffer first, each at the lowest place that is free throughout its life."""
    starts: dict[int, int] = {}
    placed: list[_Life] = []
    for life in sorted(lives, key=lambda v: (-v.nbytes, v.first)):
        neighbours = [p for p in placed if p.first <= life.last and life.first <= p.last]
        start = 0
        for other in sorted(neighbours, key=lambda v: starts[v.id]):
            if start + life.nbytes <= starts[other.id]:
                break
            start = max(start, starts[other.id] + other.nbytes)
        starts[life.id] = start
        placed.append(life)
    peak = max(starts[v.id] + v.nbytes for v in lives)
    arena = Buffer(get_allocator(device), uint8, peak)
    buffers = {v.id: arena.view(starts[v.id], v.buffer.nbytes, v.buffer.dtype) for v in lives}
    spans = {v.id: (starts[v.id], starts[v.id] + v.nbytes) for v in lives}
    return _Placement(buffers, _order_reuse(lives, spans), peak)


def _order_reuse(lives: Sequence[_Life], spans: Mapping[int, tuple[int, int]]) -> dict[int, set[int]]:
    """For the first use of each buffer, the uses of the buffers whose bytes it takes over."""
    owners: list[tuple[int, int, _Life]] = []
    dependencies: dict[int, set[int]] = {}
    for life in sorted(lives, key=lambda v: v.first):
        start, end = spans[life.id]
        kept: list[tuple[int, int, _Life]] = [(start, end, life)]
        for low, high, owner in owners:
            if high <= start or end <= low:
                kept.append((low, high, owner))
                continue
            dependencies.setdefault(min(life.positions), set()).update(owner.positions)
            kept.extend((a, b, owner) for a, b in ((low, start), (end, high)) if a < b)
        owners = kept
    return dependencies


def _reuse(device: str, lives: Sequence[_Life]) -> _Placement:
    """A buffer that is no longer needed serves as the next one of its dtype and size; the one freed last comes first."""
    del device
    free: dict[tuple[object, int], list[tuple[_Life, Buffer]]] = defaultdict(list)
    busy: list[tuple[_Life, Buffer]] = []
    buffers: dict[int, Buffer] = {}
    dependencies: dict[int, set[int]] = {}
    bytes_used = 0
    for life in sorted(lives, key=lambda v: v.first):
        for entry in sorted((e for e in busy if e[0].last < life.first), key=lambda e: e[0].last):
            free[_pool_of(entry[0])].append(entry)
        busy = [e for e in busy if e[0].last >= life.first]
        pool = free[_pool_of(life)]
        if pool:
            owner, buffer = pool.pop()
            dependencies.setdefault(min(life.positions), set()).update(owner.positions)
        else:
            buffer = life.buffer
            bytes_used += buffer.nbytes
        buffers[life.id] = buffer
        busy.append((life, buffer))
    return _Placement(buffers, dependencies, bytes_used)


def _pool_of(life: _Life) -> tuple[object, int]:
    return life.buffer.dtype, life.buffer.nbytes
