"""run order: items one after the other where nothing is lost by that, so that few intermediates are alive at once.

Kernels that would run at the same time stay together: they are one unit, of the earliest level that they can run on.
Every other item is a unit of its own, since it has the cores for itself anyway. Of several orders of the units, the
one that needs least memory counts:

    as early as possible    a0 b0 c0 | a1 b1 c1 | sum     all branches are alive
    as listed               a0 | a1 | b0 | b1 | ...       as the program says
    least growth first      what frees more than it takes comes first

Each item then depends on one of the unit before its own, which makes the units the levels of the plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count

from svod_ir.dependency_order import sort_by_dependencies
from svod_runtime import Load, group_loads
from svod_tensor.engine.live_ranges import get_levels, get_predecessors, list_lives
from svod_tensor.engine.packing import Block, get_most_live
from svod_tensor.engine.schedule import ScheduleItem, is_disk

__all__ = ["order_items"]


def order_items(
    items: Sequence[ScheduleItem], fixed_ids: Iterable[int], loads: Sequence[Load | None] = ()
) -> list[ScheduleItem]:
    """The items in the order in which they run, with that order declared.

    Args:
        items: what to run; predecessors stand before what needs them.
        fixed_ids: of buffers that share no memory.
        loads: of each item, or none if all that can run at the same time shall.
    """
    predecessors = get_predecessors(items)
    levels = get_levels(predecessors)
    # Devices work beside each other, so that an order would take that away.
    is_ordered = loads and len({b.device for item in items for b in item.buffers if not is_disk(b.device)}) == 1
    units = _make_units(levels, loads if is_ordered else ())
    if len(units) > max(levels) + 1:
        graph = _make_graph(items, fixed_ids, predecessors, units)
        orders = [
            list(range(len(units))),
            sort_by_dependencies(graph.predecessors, lambda unit: units[unit][0]),
            _sort_by_growth(graph),
        ]
        units = [units[unit] for unit in min(orders, key=lambda order: _get_most_live(graph, order))]
    return _declare(items, predecessors, units)


def _make_units(levels: Sequence[int], loads: Sequence[Load | None]) -> list[list[int]]:
    """Positions of items that run at the same time, level by level."""
    by_level: dict[int, list[int]] = defaultdict(list)
    for position, level in enumerate(levels):
        by_level[level].append(position)
    units: list[list[int]] = []
    for level in sorted(by_level):
        members = by_level[level]
        if not loads:
            units.append(members)
            continue
        known = [(position, load) for position in members if (load := loads[position]) is not None]
        units.extend([position] for position in members if loads[position] is None)
        units.extend([known[i][0] for i in group] for group in group_loads([load for _, load in known]))
    return units


@dataclass(slots=True)
class _Graph:
    """Units with what they need, and the intermediates with the units that touch them."""

    predecessors: list[set[int]]
    sizes: list[int]
    users: list[set[int]]


def _make_graph(
    items: Sequence[ScheduleItem],
    fixed_ids: Iterable[int],
    predecessors: Sequence[set[int]],
    units: Sequence[Sequence[int]],
) -> _Graph:
    unit_of = {position: unit for unit, members in enumerate(units) for position in members}
    needed = [{unit_of[p] for position in members for p in predecessors[position]} for members in units]
    lives = list_lives(items, fixed_ids)
    users = [{unit_of[position] for position in life.positions} for life in lives]
    return _Graph(needed, [life.buffer.nbytes for life in lives], users)


def _get_most_live(graph: _Graph, order: Sequence[int]) -> int:
    time_of = {unit: time for time, unit in enumerate(order)}
    times = [[time_of[unit] for unit in users] for users in graph.users]
    return get_most_live([Block(size, min(t), max(t)) for size, t in zip(graph.sizes, times, strict=True)])


def _sort_by_growth(graph: _Graph) -> list[int]:
    """What leaves the least memory taken comes first; of equals, what could run last, which follows what just ran."""
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


def _declare(
    items: Sequence[ScheduleItem], predecessors: Sequence[set[int]], units: Sequence[Sequence[int]]
) -> list[ScheduleItem]:
    """The items unit by unit, each with all that must come before it."""
    moved = {old: new for new, old in enumerate(position for unit in units for position in unit)}
    made: list[ScheduleItem] = []
    before: set[int] = set()
    for unit in units:
        made.extend(
            replace(items[old], instance_dependencies=tuple(sorted({moved[p] for p in predecessors[old]} | before)))
            for old in unit
        )
        before = {moved[unit[0]]}
    return made
