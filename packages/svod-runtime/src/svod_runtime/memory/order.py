"""Order of ops: sequential where concurrency gains nothing, so that few intermediates are live at
once.

Kernels that would run concurrently form one unit, on the earliest level possible. Every other op is
a unit of its own, since it has the cores to itself anyway. Of several orders of the units, the
order with the lowest peak memory is chosen:

    as early as possible    a0 b0 c0 | a1 b1 c1 | sum     all branches are live
    as listed               a0 | a1 | b0 | b1 | ...       program order
    least growth first      ops that free more than they allocate come first

Units become the levels of the plan: each op depends on one op of the previous unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from svod_device import Buffer
from svod_dtype import parse_device_name
from svod_ir import sort_by_dependencies
from svod_runtime.kernels.grouping import find_load, group_loads
from svod_runtime.memory.live_ranges import LiveRange
from svod_runtime.memory.packing import Block, get_peak_bytes
from svod_runtime.ops.dependencies import make_levels
from svod_runtime.ops.prepared import PreparedOp

__all__ = ["declare_units", "order_in_units"]


def order_in_units(
    ops: Sequence[PreparedOp],
    order: Sequence[int],
    predecessors: Sequence[set[int]],
    buffers: Sequence[Buffer],
    ranges: Sequence[LiveRange],
) -> list[list[int]]:
    """Indices of concurrent ops, unit by unit in execution order.

    Args:
        ops: ops to order.
        order: an order that `predecessors` allow.
        predecessors: predecessors of each op.
        buffers: buffers that the ops index.
        ranges: live ranges of the buffers that may share memory.
    """
    levels = make_levels(order, predecessors)
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
    # A greedy order may be worse than program order, and a peak is computed in linear time.
    return [units[unit] for unit in min(orders, key=lambda order: _get_peak_bytes(graph, order))]


def declare_units(
    ops: Sequence[PreparedOp], predecessors: Sequence[set[int]], units: Sequence[Sequence[int]]
) -> tuple[list[PreparedOp], list[set[int]]]:
    """Reorder the ops by unit, and make each op depend on an op of the previous unit.

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
    return [ops[old] for old in moved], declared


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
