"""Groups of independent kernels that run at the same time: one rule for execution and for
ordering.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from svod_device import BatchLauncher, Buffer
from svod_runtime.ops.prepared import PreparedKernel, PreparedOp

__all__ = ["WORTH_A_THREAD", "Load", "find_load", "group_loads"]

WORTH_A_THREAD: Final = 1 << 16
"""Bytes and operations from which on a kernel pays for waking a thread: some microseconds
of work.
"""


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


def find_load(op: PreparedOp, buffers: Sequence[Buffer]) -> Load | None:
    """What a kernel does to the cores, with variables at their largest; None for what never runs
    beside a kernel.
    """
    if not isinstance(op, PreparedKernel) or not op.kernel.is_host_parallel_safe:
        return None
    spec = op.kernel.spec
    largest = {v.name: v.max for v in spec.variables} | dict(op.fixedvars)
    n_bytes = spec.n_bytes or sum(buffers[index].nbytes for index in op.buffer_indices)
    is_threaded = spec.launch_dims(largest).global_size[0] > 1
    return Load(op.kernel.launcher, is_threaded, max(n_bytes, spec.n_operations))


def group_loads(loads: Sequence[Load]) -> list[tuple[int, ...]]:
    """The positions of those that run together, where that pays: two at least are worth a thread,
    and none uses all.
    """
    by_launcher: dict[BatchLauncher | None, list[int]] = {}
    for position, load in enumerate(loads):
        by_launcher.setdefault(load.launcher, []).append(position)
    groups: list[tuple[int, ...]] = []
    for members in by_launcher.values():
        n_worthy = sum(loads[position].work >= WORTH_A_THREAD for position in members)
        is_apart = n_worthy < 2 or any(loads[position].is_threaded for position in members)
        groups.extend(((position,) for position in members) if is_apart else (tuple(members),))
    return groups
