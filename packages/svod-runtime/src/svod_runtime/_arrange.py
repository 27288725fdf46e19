"""Arrangement: which op each call of a plan runs, and which kernels run at the same time.

Consecutive kernels of one batch launcher are one call, whatever their levels, since a batch has levels of its own
("groups"); only a long run of them is cut, so that signals are handled between the parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svod_device import BatchLauncher
from svod_runtime._grouping import Load, group_loads
from svod_runtime._prepared import PreparedBufferView, PreparedCopy, PreparedCustomFunction, PreparedKernel, PreparedOp
from svod_runtime._prepared_loop import PreparedLoop

if TYPE_CHECKING:
    from svod_runtime._kernel_state import KernelState

__all__ = ["MAX_BATCH_WORK", "Arrangement", "Group", "arrange"]

MAX_BATCH_WORK = 1 << 27
"""Bytes and operations after which a batch ends: some 10 ms of work.

Python handles signals between two calls, so that Ctrl-C ends a long plan soon, at the price of less
than a microsecond for each such amount of work.
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Kernels, by number, that may run at the same time, and who launches them."""

    launcher: BatchLauncher | None
    numbers: tuple[int, ...]


Arrangement = Sequence[Sequence[Group] | PreparedCopy | PreparedCustomFunction]
"""What one call runs, for each call: groups one after the other, or a single op that is no kernel."""


def arrange(ops: Sequence[PreparedOp], levels: Sequence[Sequence[int]], states: Sequence[KernelState]) -> Arrangement:
    """Put the ops into calls; `states` are those of the kernels, in schedule order."""
    calls: list[Sequence[Group] | PreparedCopy | PreparedCustomFunction] = []
    batch: list[Group] = []
    n_work = 0
    for unit in _iter_units(ops, levels, states):
        if not isinstance(unit, Group):
            batch = []
            calls.append(unit)
            continue
        work = sum(_work_of(states[number]) for number in unit.numbers)
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


_Unit = Group | PreparedCopy | PreparedCustomFunction


def _iter_units(
    ops: Sequence[PreparedOp], levels: Sequence[Sequence[int]], states: Sequence[KernelState]
) -> Iterator[_Unit]:
    """Groups of kernels that may run at the same time, and the other ops, each by itself; a view costs no call."""
    number_of = {index: n for n, index in enumerate(i for i, op in enumerate(ops) if isinstance(op, PreparedKernel))}
    for level in levels:
        pending: list[int] = []
        for index in level:
            op = ops[index]
            if isinstance(op, PreparedKernel) and op.kernel.is_host_parallel_safe:
                pending.append(number_of[index])
                continue
            yield from _split_group(pending, states)
            pending = []
            if isinstance(op, PreparedKernel):
                yield Group(op.kernel.launcher, (number_of[index],))
            elif not isinstance(op, (PreparedBufferView, PreparedLoop)):
                yield op
        yield from _split_group(pending, states)


def _split_group(numbers: Sequence[int], states: Sequence[KernelState]) -> Iterator[Group]:
    """Kernels of one level, which share no bytes that one of them writes: by launcher, and together if that pays."""
    loads = [_load_of(states[number]) for number in numbers]
    for group in group_loads(loads):
        yield Group(loads[group[0]].launcher, tuple(numbers[position] for position in group))


def _load_of(state: KernelState) -> Load:
    return Load(state.op.kernel.launcher, state.is_threaded, _work_of(state))


def _work_of(state: KernelState) -> int:
    """Bytes or operations, whichever are more."""
    return max(state.n_bytes, state.op.kernel.spec.n_operations)
