"""Order: ops one after the other where nothing is lost by that, so that few intermediates are alive
at once.

Kernels that would run at the same time stay together: they are one unit, of the earliest level that
they can run on. Every other op is a unit of its own, since it has the cores for itself anyway. Of
several orders of the units, the one that needs least memory counts:

    as early as possible    a0 b0 c0 | a1 b1 c1 | sum     all branches are alive
    as listed               a0 | a1 | b0 | b1 | ...       as the program says
    least growth first      what frees more than it takes comes first

Units become the levels of the plan: each op then waits for one of the unit before its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from svod_device import Buffer
from svod_dtype import parse_device_name
from svod_ir import sort_by_dependencies
from svod_runtime.kernels.grouping import find_load, group_loads
from svod_runtime.memory.lives import Life
from svod_runtime.memory.packing import Block, get_most_live
from svod_runtime.ops.dependencies import make_levels
from svod_runtime.ops.prepared import PreparedOp

__all__ = ["declare_units", "order_in_units"]


def order_in_units(
    ops: Sequence[PreparedOp],
    order: Sequence[int],
    predecessors: Sequence[set[int]],
    buffers: Sequence[Buffer],
    lives: Sequence[Life],
) -> list[list[int]]:
    """The indices of ops that run at the same time, unit by unit in the order in which these run.

    Args:
        ops: what to run.
        order: one that `predecessors` allow.
        predecessors: of each op those that it waits for.
        buffers: of the ops.
        lives: the buffers that may share memory.
    """
    levels = make_levels(order, predecessors)
    devices = {buffers[index].device for op in ops for index in op.buffer_indices}
    # Devices work beside each other, so that an order would take that away. Those that only hold
    # data run nothing.
    is_ordered = sum(parse_device_name(device).kind != "DISK" for device in devices) == 1
    units = _split_levels(ops, levels, buffers) if is_ordered else levels
    if len(units) == len(levels):
        return units
    graph = _make_graph(predecessors, units, lives)
    orders = [
        list(range(len(units))),
        sort_by_dependencies(graph.predecessors, lambda unit: units[unit][0]),
        _sort_by_growth(graph),
    ]
    return [units[unit] for unit in min(orders, key=lambda order: _get_most_live(graph, order))]


def declare_units(
    ops: Sequence[PreparedOp], predecessors: Sequence[set[int]], units: Sequence[Sequence[int]]
) -> tuple[list[PreparedOp], list[set[int]]]:
    """The ops unit by unit, and what each waits for: one of the unit before its own, too."""
    moved = {old: new for new, old in enumerate(index for unit in units for index in unit)}
    declared: list[set[int]] = []
    before: set[int] = set()
    for unit in units:
        declared.extend({moved[p] for p in predecessors[old]} | before for old in unit)
        before = {moved[unit[0]]}
    return [ops[old] for old in moved], declared


def _split_levels(
    ops: Sequence[PreparedOp], levels: Sequence[Sequence[int]], buffers: Sequence[Buffer]
) -> list[list[int]]:
    """The ops that run at the same time, level by level."""
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
    """Units with what they need, and the intermediates with the units that touch them."""

    predecessors: list[set[int]]
    sizes: list[int]
    users: list[set[int]]


def _make_graph(
    predecessors: Sequence[set[int]], units: Sequence[Sequence[int]], lives: Sequence[Life]
) -> _Graph:
    unit_of = {index: unit for unit, indices in enumerate(units) for index in indices}
    needed = [{unit_of[p] for index in indices for p in predecessors[index]} for indices in units]
    users = [{unit_of[index] for index in life.users} for life in lives]
    return _Graph(needed, [life.buffer.nbytes for life in lives], users)


def _get_most_live(graph: _Graph, order: Sequence[int]) -> int:
    time_of = {unit: time for time, unit in enumerate(order)}
    times = [[time_of[unit] for unit in users] for users in graph.users]
    return get_most_live(
        [Block(size, min(t), max(t)) for size, t in zip(graph.sizes, times, strict=True)]
    )


def _sort_by_growth(graph: _Graph) -> list[int]:
    """What leaves the least memory taken comes first; of equals, what could run last, which follows
    what just ran.
    """
    waiting = [set(users) for users in graph.users]
    touched: list[list[int]] = [[] for _ in graph.predecessors]
    for number, users in enumerate(graph.users):
        for unit in users:
            touched[unit].append(number)
    began: set[int] = set()
    clock = count()

    def grow(unit: int) -> tuple[int, int]:
        taken = sum(graph.sizes[n] for n in touched[unit] if n not in began)
        freed = sum(graph.sizes[n] for n in touched[unit] if len(waiting[n]) == 1)
        return taken - freed, -next(clock)

    def finish(unit: int) -> set[int]:
        changed: set[int] = set()
        for number in touched[unit]:
            began.add(number)
            waiting[number].discard(unit)
            if len(waiting[number]) == 1:
                changed |= waiting[number]
        return changed

    return sort_by_dependencies(graph.predecessors, grow, finish)
