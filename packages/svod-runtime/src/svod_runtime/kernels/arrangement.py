"""Arrangement of a plan's ops into calls, and of kernels into concurrent groups.

Consecutive kernels of one batch launcher form one call, regardless of their levels: a batch orders
its own groups. Only long runs of kernels are split, so that Python handles signals in between. A
loop that the launcher runs joins the same call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svod_device import BatchLauncher
from svod_runtime.kernels.grouping import Load, group_loads
from svod_runtime.ops.prepared import (
    PreparedBufferView,
    PreparedCopy,
    PreparedCustomFunction,
    PreparedKernel,
    PreparedLoop,
    PreparedOp,
)

if TYPE_CHECKING:
    from svod_runtime.kernels.kernel_state import KernelState

__all__ = ["MAX_BATCH_WORK", "Arrangement", "CopyUnit", "Group", "LoopUnit", "arrange"]

MAX_BATCH_WORK = 1 << 27
"""Maximum bytes or operations per batch: about 10 ms of work.

Python handles signals between two calls, so Ctrl-C ends a long plan soon. Each additional call
costs less than a microsecond.
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Indices of kernels that may run concurrently, and their batch launcher."""

    launcher: BatchLauncher | None
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoopUnit:
    """Index of a loop, and the launcher that runs it in one call; None if Python runs it."""

    launcher: BatchLauncher | None
    index: int


@dataclass(frozen=True, slots=True)
class CopyUnit:
    """Copy and its index among the copies."""

    op: PreparedCopy
    index: int


Call = Sequence[Group | LoopUnit] | CopyUnit | PreparedCustomFunction
Arrangement = Sequence[Call]
"""Work of each call: groups and loops that run sequentially, or a single op of another kind."""


def arrange(
    ops: Sequence[PreparedOp],
    levels: Sequence[Sequence[int]],
    states: Sequence[KernelState],
    loops: Sequence[BatchLauncher | None] = (),
) -> Arrangement:
    """Arrange the ops into calls.

    Args:
        ops: in schedule order.
        levels: indices into `ops`; ops of one level are independent.
        states: states of the kernels, in schedule order.
        loops: for each loop the launcher that runs it in one call, or None.
    """
    calls: list[Call] = []
    batch: list[Group | LoopUnit] = []
    n_work = 0
    for unit in _iter_units(ops, levels, states, loops):
        if isinstance(unit, (CopyUnit, PreparedCustomFunction)):
            # Kernels after a copy or a Python function may need its result.
            batch = []
            calls.append(unit)
            continue
        # A loop counts as no work: its launcher checks for signals between iterations.
        work = (
            sum(_work_of(states[index]) for index in unit.indices) if isinstance(unit, Group) else 0
        )
        if (
            not batch
            or unit.launcher is None
            or unit.launcher is not batch[0].launcher
            or n_work + work > MAX_BATCH_WORK
        ):
            batch, n_work = [], 0
            calls.append(batch)
        batch.append(unit)
        n_work += work
    return calls


_Unit = Group | LoopUnit | CopyUnit | PreparedCustomFunction


def _iter_units(
    ops: Sequence[PreparedOp],
    levels: Sequence[Sequence[int]],
    states: Sequence[KernelState],
    loops: Sequence[BatchLauncher | None],
) -> Iterator[_Unit]:
    """Groups of concurrent kernels and single ops of other kinds, level by level.

    A view needs no call.
    """
    index_of = _number_by_kind(ops)
    for level in levels:
        pending: list[int] = []
        for index in level:
            op = ops[index]
            if isinstance(op, PreparedKernel) and op.kernel.is_host_parallel_safe:
                pending.append(index_of[index])
                continue
            yield from _split_group(pending, states)
            pending = []
            match op:
                case PreparedKernel():
                    yield Group(states[index_of[index]].launcher, (index_of[index],))
                case PreparedLoop():
                    yield LoopUnit(loops[index_of[index]], index_of[index])
                case PreparedCopy():
                    yield CopyUnit(op, index_of[index])
                case PreparedCustomFunction():
                    yield op
                case PreparedBufferView():
                    pass
        yield from _split_group(pending, states)


def _number_by_kind(ops: Sequence[PreparedOp]) -> list[int]:
    """Index of each op among the ops of its kind."""
    counts: Counter[type] = Counter()
    indices: list[int] = []
    for op in ops:
        indices.append(counts[type(op)])
        counts[type(op)] += 1
    return indices


def _split_group(indices: Sequence[int], states: Sequence[KernelState]) -> Iterator[Group]:
    """Split independent kernels of one level by launcher; group kernels where threads pay off."""
    loads = [_load_of(states[index]) for index in indices]
    for group in group_loads(loads):
        yield Group(loads[group[0]].launcher, tuple(indices[position] for position in group))


def _load_of(state: KernelState) -> Load:
    return Load(state.launcher, state.is_threaded, _work_of(state))


def _work_of(state: KernelState) -> int:
    """Larger of the number of bytes and the number of operations."""
    return max(state.n_bytes, state.op.kernel.spec.n_operations)
