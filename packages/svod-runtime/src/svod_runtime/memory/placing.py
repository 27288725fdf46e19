"""Placing: where intermediates lie whose lives are known, in the way that a planner's mode asks
for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from svod_device import Buffer
from svod_dtype import uint8
from svod_runtime.memory.lives import Life
from svod_runtime.memory.memory_report import PlannerMode
from svod_runtime.memory.packing import Block, pack

__all__ = ["date_lives", "place_lives"]

_HOST_ALIGNMENT: Final = 64
_ALIGNMENT: Final = 256


def date_lives(lives: list[Life], units: Sequence[Sequence[int]]) -> dict[int, int]:
    """Enter in lives, which are sorted, when they begin and end; returns the unit of each op, which
    is its level.
    """
    time_of = {index: time for time, unit in enumerate(units) for index in unit}
    place_of = {index: place for place, index in enumerate(time_of)}
    for life in lives:
        times = [time_of[index] for index in life.users]
        life.first, life.last = min(times), max(times)
    lives.sort(key=lambda life: min(place_of[index] for index in life.users))
    return time_of


def place_lives(lives: Sequence[Life], mode: PlannerMode) -> Mapping[int, Buffer]:
    """A buffer for each life, by the index of its own; all of them are on one device."""
    place = {"arena": _pack, "remap": _reuse, "disabled": _keep}[mode]
    return place(lives)


def _pack(lives: Sequence[Life]) -> dict[int, Buffer]:
    """One block of memory for all, which are on one device."""
    allocator = lives[0].buffer.allocator
    alignment = _HOST_ALIGNMENT if allocator.is_host_addressable else _ALIGNMENT
    blocks = [
        Block(-(-life.buffer.nbytes // alignment) * alignment, life.first, life.last)
        for life in lives
    ]
    packing = pack(blocks)
    arena = Buffer(allocator, uint8, packing.size)
    return {
        life.index: arena.view(start, life.buffer.nbytes, life.buffer.dtype)
        for life, start in zip(lives, packing.starts, strict=True)
    }


def _reuse(lives: Sequence[Life]) -> dict[int, Buffer]:
    """A buffer that is no longer needed serves as the next one of its dtype and size; the one freed
    last comes first.
    """
    free: dict[tuple[object, int], list[Buffer]] = defaultdict(list)
    busy: list[tuple[Life, Buffer]] = []
    placed: dict[int, Buffer] = {}
    for life in sorted(lives, key=lambda v: v.first):
        for owner, buffer in sorted(
            (e for e in busy if e[0].last < life.first), key=lambda e: e[0].last
        ):
            free[owner.buffer.dtype, owner.buffer.nbytes].append(buffer)
        busy = [e for e in busy if e[0].last >= life.first]
        pool = free[life.buffer.dtype, life.buffer.nbytes]
        placed[life.index] = pool.pop() if pool else life.buffer
        busy.append((life, placed[life.index]))
    return placed


def _keep(lives: Sequence[Life]) -> dict[int, Buffer]:
    """A buffer of its own for each."""
    return {life.index: life.buffer for life in lives}
