"""Order of ops: sequential where concurrency gains nothing, so that few intermediates are live at
once.

Kernels that would run concurrently form one unit, on the earliest level possible. Every other op is
a unit of its own, since it has the cores to itself anyway. Of several orders of the units, the
order with the lowest peak memory is chosen:

    as early as possible    a0 b0 c0 | a1 b1 c1 | sum     all branches are live
    as listed               a0 | a1 | b0 | b1 | ...       program order
    least growth first      ops that free more than they allocate come first

In each of them, work that goes on beside the plan is started as early and waited for as late as
possible.

Units become the levels of the plan: each op depends on one op of the previous unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import Final

from svod_device import Buffer
from svod_dtype import parse_device_name
from svod_ir import sort_by_dependencies
from svod_runtime.kernels.grouping import find_load, group_loads
from svod_runtime.memory.live_ranges import LiveRange
from svod_runtime.memory.packing import Block, get_peak_bytes
from svod_runtime.ops.dependencies import list_waits, make_levels
from svod_runtime.ops.prepared import Phase, PreparedKernel, PreparedOp, get_phase

__all__ = ["declare_units", "order_in_units"]

_PHASES: Final[Mapping[Phase | None, int]] = {"start": -1, None: 0, "wait": 1}
"""Rank of the ops that are ready: the least comes first."""


def order_in_units(
    ops: Sequence[PreparedOp],
    predecessors: Sequence[set[int]],
    buffers: Sequence[Buffer],
    ranges: Sequence[LiveRange],
) -> list[list[int]]:
    """Indices of concurrent ops, unit by unit in execution order.

    Args:
        ops: ops to order.
        predecessors: predecessors of each op, without cycles.
        buffers: buffers that the ops index.
        ranges: live ranges of the buffers that may share memory.
    """
    levels = make_levels(predecessors, list_waits(ops))
    devices = {buffers[index].device for op in ops for index in op.buffer_indices}
    # Devices run concurrently, so a sequential order would cost that concurrency. DISK devices
    # run no kernels and do not count.
    is_ordered = sum(parse_device_name(device).kind != "DISK" for device in devices) == 1
    units = _split_levels(ops, levels, buffers) if is_ordered else levels
    # Either all concurrency is kept, or each level is one unit and there is only one order.
    if len(units) == len(levels):
        return units
    graph = _make_graph(predecessors, units, ranges)
    orders = [
        list(range(len(units))),
        sort_by_dependencies(graph.predecessors, lambda unit: units[unit][0]),
        _sort_by_growth(graph),
    ]
    phases = [_PHASES[get_phase(ops[indices[0]])] for indices in units]
    if any(phases):
        orders = [_delay_waits(graph, phases, order) for order in orders]
    # A greedy order may be worse than program order, and a peak is computed in linear time.
    return [units[unit] for unit in min(orders, key=lambda order: _get_peak_bytes(graph, order))]


def _delay_waits(graph: _Graph, phases: Sequence[int], order: Sequence[int]) -> list[int]:
    """The order, but with starts as early as possible, and waits as late.

    Of other units, those that a start needs come first, in the order of the starts.
    """
    time_of = {unit: time for time, unit in enumerate(order)}
    goals = [len(order)] * len(order)
    for unit in reversed(order):
        if phases[unit] == _PHASES["start"]:
            goals[unit] = time_of[unit]
        for earlier in graph.predecessors[unit]:
            goals[earlier] = min(goals[earlier], goals[unit])
    return sort_by_dependencies(
        graph.predecessors, lambda unit: (phases[unit], goals[unit], time_of[unit])
    )


def declare_units(
    ops: Sequence[PreparedOp], predecessors: Sequence[set[int]], units: Sequence[Sequence[int]]
) -> tuple[list[PreparedOp], list[set[int]]]:
    """Reorder the ops by unit, and make each op depend on an op of the previous unit. A start
    that is waited for at once is replaced by its blocking form.

    Returns:
        Reordered ops, and the predecessors of each.
    """
    moved = {old: new for new, old in enumerate(index for unit in units for index in unit)}
    declared: list[set[int]] = []
    before: set[int] = set()
    for unit in units:
        declared.extend({moved[p] for p in predecessors[old]} | before for old in unit)
        # One op is enough: it puts the next unit on a later level than the whole unit.
        before = {moved[unit[0]]}
    ordered = [ops[old] for old in moved]
    for (*_, old), following in pairwise(units):
        op = ops[old]
        if isinstance(op, PreparedKernel) and op.blocking and _waits_for(ops, following, op):
            ordered[moved[old]] = replace(op.blocking, buffer_indices=op.buffer_indices)
    return ordered, declared


def _waits_for(ops: Sequence[PreparedOp], unit: Sequence[int], start: PreparedKernel) -> bool:
    """Whether a unit does nothing but wait for the work of a start."""
    return all(
        get_phase(op) == "wait" and op.dependencies == (start.id,)
        for op in map(ops.__getitem__, unit)
    )


def _split_levels(
    ops: Sequence[PreparedOp], levels: Sequence[Sequence[int]], buffers: Sequence[Buffer]
) -> list[list[int]]:
    """Groups of ops that run concurrently, level by level."""
    units: list[list[int]] = []
    for level in levels:
        loads = {index: find_load(ops[index], buffers) for index in level}
        units.extend([index] for index, load in loads.items() if load is None)
        known = [(index, load) for index, load in loads.items() if load is not None]
        units.extend(
            [known[i][0] for i in group] for group in group_loads([load for _, load in known])
        )
    return units


@dataclass(slots=True)
class _Graph:
    """Units with their predecessors, and sizes of intermediates with the units that access them."""

    predecessors: list[set[int]]
    sizes: list[int]
    users: list[set[int]]


def _make_graph(
    predecessors: Sequence[set[int]], units: Sequence[Sequence[int]], ranges: Sequence[LiveRange]
) -> _Graph:
    unit_of = {index: unit for unit, indices in enumerate(units) for index in indices}
    needed = [{unit_of[p] for index in indices for p in predecessors[index]} for indices in units]
    users = [{unit_of[index] for index in live_range.users} for live_range in ranges]
    return _Graph(needed, [live_range.buffer.nbytes for live_range in ranges], users)


def _get_peak_bytes(graph: _Graph, order: Sequence[int]) -> int:
    time_of = {unit: time for time, unit in enumerate(order)}
    times = [[time_of[unit] for unit in users] for users in graph.users]
    return get_peak_bytes(
        [Block(size, min(t), max(t)) for size, t in zip(graph.sizes, times, strict=True)]
    )


def _sort_by_growth(graph: _Graph) -> list[int]:
    """Greedy order: the unit with the least memory growth first.

    Of equal units, the unit that became ready last comes first, so that it follows its producer.
    """
    waiting = [set(users) for users in graph.users]
    accessed: list[list[int]] = [[] for _ in graph.predecessors]
    for index, users in enumerate(graph.users):
        for unit in users:
            accessed[unit].append(index)
    started: set[int] = set()
    clock = count()

    def grow(unit: int) -> tuple[int, int]:
        taken = sum(graph.sizes[n] for n in accessed[unit] if n not in started)
        freed = sum(graph.sizes[n] for n in accessed[unit] if len(waiting[n]) == 1)
        return taken - freed, -next(clock)

    def finish(unit: int) -> set[int]:
        changed: set[int] = set()
        for index in accessed[unit]:
            started.add(index)
            waiting[index].discard(unit)
            # The last user of an intermediate now frees it, so its growth changed.
            if len(waiting[index]) == 1:
                changed |= waiting[index]
        return changed

    return sort_by_dependencies(graph.predecessors, grow, finish)
