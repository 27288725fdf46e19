"""Arrangement: which op each call of a plan runs, and which kernels run at the same time.

Consecutive kernels of one batch launcher are one call, whatever their levels, since a batch has
levels of its own ("groups"); only a long run of them is cut, so that signals are handled between
the parts. A loop that the launcher runs is in that call, too."""

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
"""Bytes and operations after which a batch ends: some 10 ms of work.

Python handles signals between two calls, so that Ctrl-C ends a long plan soon, at the price of less
than a microsecond for each such amount of work.
"""


@dataclass(frozen=True, slots=True)
class Group:
    """Kernels, by number, that may run at the same time, and who launches them."""

    launcher: BatchLauncher | None
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoopUnit:
    """A loop, by number, and who runs all of it in one call; None where Python runs it."""

    launcher: BatchLauncher | None
    number: int


@dataclass(frozen=True, slots=True)
class CopyUnit:
    """A copy, and its number."""

    op: PreparedCopy
    number: int


Call = Sequence[Group | LoopUnit] | CopyUnit | PreparedCustomFunction
Arrangement = Sequence[Call]
"""What one call runs, for each call: groups and loops one after the other, or a single op that is
neither.
"""


def arrange(
    ops: Sequence[PreparedOp],
    levels: Sequence[Sequence[int]],
    states: Sequence[KernelState],
    loops: Sequence[BatchLauncher | None] = (),
) -> Arrangement:
    """Put the ops into calls; `states` are those of the kernels, in schedule order, `loops` those
    who run the loops in one call.
    """
    calls: list[Call] = []
    batch: list[Group | LoopUnit] = []
    n_work = 0
    for unit in _iter_units(ops, levels, states, loops):
        if isinstance(unit, (CopyUnit, PreparedCustomFunction)):
            batch = []
            calls.append(unit)
            continue
        # A loop that runs for long hears signals between two iterations.
        work = (
            sum(_work_of(states[number]) for number in unit.numbers)
            if isinstance(unit, Group)
            else 0
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
    """Groups of kernels that may run at the same time, and the other ops, each by itself; a view
    costs no call.
    """
    number_of = _number_by_kind(ops)
    for level in levels:
        pending: list[int] = []
        for index in level:
            op = ops[index]
            if isinstance(op, PreparedKernel) and op.kernel.is_host_parallel_safe:
                pending.append(number_of[index])
                continue
            yield from _split_group(pending, states)
            pending = []
            match op:
                case PreparedKernel():
                    yield Group(states[number_of[index]].launcher, (number_of[index],))
                case PreparedLoop():
                    yield LoopUnit(loops[number_of[index]], number_of[index])
                case PreparedCopy():
                    yield CopyUnit(op, number_of[index])
                case PreparedCustomFunction():
                    yield op
                case PreparedBufferView():
                    pass
        yield from _split_group(pending, states)


def _number_by_kind(ops: Sequence[PreparedOp]) -> list[int]:
    """For each op how many of its kind come before it."""
    counts: Counter[type] = Counter()
    numbers: list[int] = []
    for op in ops:
        numbers.append(counts[type(op)])
        counts[type(op)] += 1
    return numbers


def _split_group(numbers: Sequence[int], states: Sequence[KernelState]) -> Iterator[Group]:
    """Kernels of one level, which share no bytes that one of them writes: by launcher, and together
    if that pays.
    """
    loads = [_load_of(states[number]) for number in numbers]
    for group in group_loads(loads):
        yield Group(loads[group[0]].launcher, tuple(numbers[position] for position in group))


def _load_of(state: KernelState) -> Load:
    return Load(state.launcher, state.is_threaded, _work_of(state))


def _work_of(state: KernelState) -> int:
    """Bytes or operations, whichever are more."""
    return max(state.n_bytes, state.op.kernel.spec.n_operations)
