"""Which independent kernels run at the same time: the one rule for those who run a plan and those who order it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from svod_device import BatchLauncher

__all__ = ["WORTH_A_THREAD", "Load", "group_loads"]

WORTH_A_THREAD: Final = 1 << 16
"""Bytes and operations from which on a kernel pays for waking a thread: some microseconds of work."""


class Load(NamedTuple):
    """What decides whether a kernel runs beside others.

    Attributes:
        launcher: kernels of different ones run one after the other.
        is_threaded: whether it uses all cores already.
        work: bytes or operations, whichever are more.
    """

    launcher: BatchLauncher | None
    is_threaded: bool
    work: int


def group_loads(loads: Sequence[Load]) -> list[tuple[int, ...]]:
    """The positions of those that run together, where that pays: two at least are worth a thread, and none uses all."""
    by_launcher: dict[BatchLauncher | None, list[int]] = {}
    for position, load in enumerate(loads):
        by_launcher.setdefault(load.launcher, []).append(position)
    groups: list[tuple[int, ...]] = []
    for members in by_launcher.values():
        n_worthy = sum(loads[position].work >= WORTH_A_THREAD for position in members)
        is_apart = n_worthy < 2 or any(loads[position].is_threaded for position in members)
        groups.extend(((position,) for position in members) if is_apart else (tuple(members),))
    return groups
