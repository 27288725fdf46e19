"""Placement of intermediates with known live ranges, by the mode of the planner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from svod_device import Buffer
from svod_dtype import uint8
from svod_runtime.memory.live_ranges import LiveRange
from svod_runtime.memory.memory_report import PlannerMode
from svod_runtime.memory.packing import Block, pack

__all__ = ["place_live_ranges", "set_levels"]

# A cache line on hosts; on devices, the alignment that cudaMalloc guarantees.
_HOST_ALIGNMENT: Final = 64
_ALIGNMENT: Final = 256


def set_levels(ranges: list[LiveRange], units: Sequence[Sequence[int]]) -> dict[int, int]:
    """Set the first and last level of each live range, and sort by first use; return the level of
    each op.
    """
    time_of = {index: time for time, unit in enumerate(units) for index in unit}
    position_of = {index: position for position, index in enumerate(time_of)}
    for live_range in ranges:
        times = [time_of[index] for index in live_range.users]
        live_range.first, live_range.last = min(times), max(times)
    ranges.sort(key=lambda live_range: min(position_of[index] for index in live_range.users))
    return time_of


def place_live_ranges(ranges: Sequence[LiveRange], mode: PlannerMode) -> Mapping[int, Buffer]:
    """Return the buffer of each live range by the index of its buffer; all are on one device."""
    strategy = {"arena": _pack, "remap": _reuse, "disabled": _keep}[mode]
    return strategy(ranges)


def _pack(ranges: Sequence[LiveRange]) -> dict[int, Buffer]:
    """Pack all buffers into one arena."""
    allocator = ranges[0].buffer.allocator
    alignment = _HOST_ALIGNMENT if allocator.is_host_addressable else _ALIGNMENT
    blocks = [
        Block(
            -(-live_range.buffer.nbytes // alignment) * alignment, live_range.first, live_range.last
        )
        for live_range in ranges
    ]
    packing = pack(blocks)
    # uint8, since offsets are in bytes and the buffers have several dtypes.
    arena = Buffer(allocator, uint8, packing.size)
    return {
        live_range.index: arena.view(start, live_range.buffer.nbytes, live_range.buffer.dtype)
        for live_range, start in zip(ranges, packing.offsets, strict=True)
    }


def _reuse(ranges: Sequence[LiveRange]) -> dict[int, Buffer]:
    """Reuse freed buffers of equal dtype and size, the most recently freed first."""
    free: dict[tuple[object, int], list[Buffer]] = defaultdict(list)
    busy: list[tuple[LiveRange, Buffer]] = []
    placed: dict[int, Buffer] = {}
    for live_range in sorted(ranges, key=lambda v: v.first):
        # Strictly before: ops of one level may run concurrently.
        for owner, buffer in sorted(
            (e for e in busy if e[0].last < live_range.first), key=lambda e: e[0].last
        ):
            free[owner.buffer.dtype, owner.buffer.nbytes].append(buffer)
        busy = [e for e in busy if e[0].last >= live_range.first]
        pool = free[live_range.buffer.dtype, live_range.buffer.nbytes]
        placed[live_range.index] = pool.pop() if pool else live_range.buffer
        busy.append((live_range, placed[live_range.index]))
    return placed


def _keep(ranges: Sequence[LiveRange]) -> dict[int, Buffer]:
    """Keep a separate buffer for each."""
    return {live_range.index: live_range.buffer for live_range in ranges}
