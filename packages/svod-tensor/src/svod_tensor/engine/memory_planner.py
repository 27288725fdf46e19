"""memory planning: intermediates whose lives do not meet share memory, in an order that leaves few alive at once.

Lives are counted in the levels of that order (`run_order`), so that sharing takes no parallelism away. What shares
memory is declared to be ordered (`instance_dependencies`), since a plan may order independent items as it likes.

Inputs that nobody donated, outputs, and what copies, views and custom functions touch are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Final, NamedTuple

from svod_device import Buffer, get_allocator
from svod_dtype import uint8
from svod_ir.log import get_logger
from svod_runtime import Load, MemoryReport
from svod_runtime.dependencies import Access, HazardMap
from svod_tensor.engine.live_ranges import Life, get_levels, get_predecessors, iter_arguments, list_lives
from svod_tensor.engine.packing import Block, get_most_live, pack
from svod_tensor.engine.run_order import order_items
from svod_tensor.engine.schedule import Schedule, ScheduleItem
from svod_tensor.options import PlannerMode

__all__ = ["MemoryPlan", "plan_memory"]

_log = get_logger("tensor")
_HOST_ALIGNMENT: Final = 64
_ALIGNMENT: Final = 256


class MemoryPlan(NamedTuple):
    """Items on shared memory, and what was gained."""

    items: list[ScheduleItem]
    report: MemoryReport


def plan_memory(
    schedule: Schedule,
    mode: PlannerMode,
    loads: Sequence[Load | None] = (),
) -> MemoryPlan:
    """The items of `schedule`, on shared memory as `mode` says, in the order in which they run.

    Args:
        schedule: what to run, with outputs in donated memory already (`donated_memory`).
        mode: how to share.
        loads: what each item does to the cores, None where it runs alone; without them, all items that can run at the
            same time do.
    """
    started = perf_counter()
    owners = schedule.owners
    if not owners and (mode == "disabled" or _count_intermediates(schedule) < 2):
        return MemoryPlan(schedule.items, MemoryReport(mode))
    items = order_items(schedule.items, schedule.output_ids, loads)
    lives = list_lives(items, schedule.output_ids)
    placed: dict[int, Buffer] = {}
    if mode != "disabled":
        placed.update(_fill_donated(items, lives, owners))
    rest = [life for life in lives if life.id not in placed]
    by_device: dict[str, list[Life]] = defaultdict(list)
    for life in rest:
        by_device[life.buffer.device].append(life)
    place = {"arena": _pack, "remap": _reuse, "disabled": _keep}[mode]
    for device, group in by_device.items():
        placed.update(place(device, group))
    items = _apply(items, placed)
    sizes = {number: b.nbytes for item in items for number, b in zip(item.buffer_ids, item.buffers, strict=True)}
    report = MemoryReport(
        mode, len(lives), sum(life.buffer.nbytes for life in lives), _count_bytes(placed[life.id] for life in rest),
        sum(_get_bound(group) for group in by_device.values()), len(owners), sum(sizes[output] for output in owners),
    )  # fmt: skip
    elapsed_us = round((perf_counter() - started) * 1e6)
    _log.info(
        "memory.planned", mode=mode, buffers=report.n_buffers, bytes_before=report.bytes_before,
        bytes_after=report.bytes_after, bytes_saved=report.bytes_saved, lower_bound=report.lower_bound,
        donated=report.n_donated, elapsed_us=elapsed_us,
    )  # fmt: skip
    return MemoryPlan(items, report)


def _count_intermediates(schedule: Schedule) -> int:
    return len({n for item in schedule.items for n in item.buffer_ids if n < 0} - set(schedule.output_ids))


def _count_bytes(buffers: Iterable[Buffer]) -> int:
    return sum({b.storage_id: b.storage_nbytes for b in buffers}.values())


def _get_bound(lives: Iterable[Life]) -> int:
    return get_most_live([Block(life.buffer.nbytes, life.first, life.last) for life in lives])


def _apply(items: Sequence[ScheduleItem], placed: Mapping[int, Buffer]) -> list[ScheduleItem]:
    """The items on the buffers that were placed, with the order in which they touch the same bytes declared."""
    history = HazardMap()
    made: list[ScheduleItem] = []
    for position, item in enumerate(items):
        earlier = set(item.instance_dependencies)
        buffers = tuple(placed.get(n, b) for n, b in zip(item.buffer_ids, item.buffers, strict=True))
        for argument, buffer in zip(iter_arguments(item), buffers, strict=True):
            if buffer.nbytes:
                end = buffer.offset + buffer.nbytes
                earlier |= history.record(position, Access(buffer.storage_id, buffer.offset, end, argument.is_written))
        made.append(replace(item, buffers=buffers, instance_dependencies=tuple(sorted(earlier - {position}))))
    return made


def _fill_donated(items: Sequence[ScheduleItem], lives: Sequence[Life], owners: Mapping[int, int]) -> dict[int, Buffer]:
    """Intermediates in donated memory, after its content was last read and before the output is written there."""
    levels = get_levels(get_predecessors(items))
    spans: dict[int, list[int]] = defaultdict(list)
    memory: dict[int, Buffer] = {}
    for position, item in enumerate(items):
        for argument in iter_arguments(item):
            spans[argument.id].append(levels[position])
            memory[argument.id] = argument.buffer
    placed: dict[int, Buffer] = {}
    for output, given in owners.items():
        end, limit, buffer = max(spans[given]), min(spans[output]), memory[given]
        for life in lives:
            is_free = end < life.first and life.last < limit and life.id not in placed
            if is_free and (life.buffer.nbytes, life.buffer.dtype, life.buffer.device) == (
                buffer.nbytes, buffer.dtype, buffer.device,
            ):  # fmt: skip
                placed[life.id], end = buffer, life.last
    return placed


def _pack(device: str, lives: Sequence[Life]) -> dict[int, Buffer]:
    """One block of memory for all."""
    allocator = get_allocator(device)
    alignment = _HOST_ALIGNMENT if allocator.is_host_addressable else _ALIGNMENT
    blocks = [Block(-(-life.buffer.nbytes // alignment) * alignment, life.first, life.last) for life in lives]
    packing = pack(blocks)
    arena = Buffer(allocator, uint8, packing.size)
    return {
        life.id: arena.view(start, life.buffer.nbytes, life.buffer.dtype)
        for life, start in zip(lives, packing.starts, strict=True)
    }


def _reuse(device: str, lives: Sequence[Life]) -> dict[int, Buffer]:
    """A buffer that is no longer needed serves as the next one of its dtype and size; the one freed last comes first."""
    del device
    free: dict[tuple[object, int], list[Buffer]] = defaultdict(list)
    busy: list[tuple[Life, Buffer]] = []
    placed: dict[int, Buffer] = {}
    for life in sorted(lives, key=lambda v: v.first):
        for owner, buffer in sorted((e for e in busy if e[0].last < life.first), key=lambda e: e[0].last):
            free[owner.buffer.dtype, owner.buffer.nbytes].append(buffer)
        busy = [e for e in busy if e[0].last >= life.first]
        pool = free[life.buffer.dtype, life.buffer.nbytes]
        placed[life.id] = pool.pop() if pool else life.buffer
        busy.append((life, placed[life.id]))
    return placed


def _keep(device: str, lives: Sequence[Life]) -> dict[int, Buffer]:
    """A buffer of its own for each."""
    del device
    return {life.id: life.buffer for life in lives}
