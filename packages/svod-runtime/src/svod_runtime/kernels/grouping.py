"""Grouping of independent kernels that run concurrently, for execution and for ordering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from svod_device import BatchLauncher, Buffer
from svod_runtime.ops.prepared import PreparedKernel, PreparedOp

__all__ = ["MIN_THREAD_WORK", "Load", "find_load", "group_loads"]

MIN_THREAD_WORK: Final = 1 << 16
"""Minimum bytes or operations for which waking a thread pays off: a few microseconds of work."""


class Load(NamedTuple):
    """Properties of a kernel that decide whether it runs concurrently with others.

    Attributes:
        launcher: kernels of different launchers run sequentially.
        is_threaded: whether the kernel already uses all cores.
        work: the larger of its bytes and operations.
    """

    launcher: BatchLauncher | None
    is_threaded: bool
    work: int


def find_load(op: PreparedOp, buffers: Sequence[Buffer]) -> Load | None:
    """Load of a kernel with every variable at its maximum; None if it never runs concurrently."""
    if not isinstance(op, PreparedKernel) or not op.kernel.is_host_parallel_safe:
        return None
    spec = op.kernel.spec
    # The order of a plan is fixed once for all values of its variables, so the largest launch
    # decides.
    largest = {v.name: v.max for v in spec.variables} | dict(op.fixedvars)
    n_bytes = spec.n_bytes or sum(buffers[index].nbytes for index in op.buffer_indices)
    is_threaded = spec.launch_dims(largest).global_size[0] > 1
    return Load(op.kernel.launcher, is_threaded, max(n_bytes, spec.n_operations))


def group_loads(loads: Sequence[Load]) -> list[tuple[int, ...]]:
    """Positions of the loads that run concurrently, group by group.

    A group forms only if at least two of its kernels justify a thread and no kernel uses all cores.
    """
    by_launcher: dict[BatchLauncher | None, list[int]] = {}
    for position, load in enumerate(loads):
        by_launcher.setdefault(load.launcher, []).append(position)
    groups: list[tuple[int, ...]] = []
    for members in by_launcher.values():
        n_large = sum(loads[position].work >= MIN_THREAD_WORK for position in members)
        # With one large kernel, the threads woken for the small ones would cost more than they
        # save; a threaded kernel would compete with the others for the same cores.
        is_sequential = n_large < 2 or any(loads[position].is_threaded for position in members)
        groups.extend(((position,) for position in members) if is_sequential else (tuple(members),))
    return groups
