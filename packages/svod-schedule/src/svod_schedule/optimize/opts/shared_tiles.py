"""Tiles in shared memory: what many work-items of a workgroup read in one iteration of a reduction
is read from afar once.

before → after, for work-items i and j, 16 each, and 16 iterations k of 8 elements u:

    REDUCE(a[i * 128 + k * 8 + u] * b[(k * 8 + u) * 16 + j], k, u; ADD)

    BARRIER k, so that nobody overwrites what another one still reads from the iteration before
    work-item m = i * 16 + j copies element m (and m + 256, ...) of each tile to shared memory; BARRIER
    REDUCE(tile_a[u * 16 + i] * tile_b[u * 16 + j], k, u; ADD)

Work-items with neighbouring numbers copy neighbouring elements, as vectors where the tile's rows
are. A tile lies in the order in which it is read: what one iteration takes is outermost, what one
work-item takes for its own results is innermost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, prod
from typing import NamedTuple

from svod_dtype import void
from svod_ir import AxisType, FreshIds, Op, Target, UOp, exact_trips, max_trips
from svod_schedule._linear_index import find_stride
from svod_schedule.lower.place_launch_axes import get_work_items

__all__ = ["share_tiles"]

MAX_AT_ONCE = 8
"""So many copies of one work-item are under way together; more are made in a loop."""


class _Tile(NamedTuple):
    """What is copied: a load, and the axes that number its elements, in the order of shared memory
    and in that of the other.
    """

    load: UOp
    shared_order: tuple[UOp, ...]
    given_order: tuple[UOp, ...]


def share_tiles(sink: UOp, axis: UOp, target: Target) -> UOp | str:
    """`sink` with tiles in shared memory, for each iteration of the reduced `axis`, of what some
    work-items read alike; or the reason why there are none."""
    work_items = tuple(get_work_items(sink))
    if not target.has_shared:
        return "the target has no shared memory"
    if not work_items or any(r.arg.kind is not AxisType.LOCAL for r in work_items):
        return "no work-items of a workgroup take results"
    if any(True for _ in sink.iter_ops(Op.DEFINE_LOCAL)):
        return "shared memory holds tiles already"
    reduces = [n for n in sink.iter_ops(Op.REDUCE) if axis in n.loops]
    if any(n.op in (Op.REDUCE, Op.SCAN) for reduce in reduces for n in reduce.source.toposort()):
        return "the reduction holds another one"
    tiles = [
        _make_tile(load, own)
        for reduce in reduces
        for load, own in _iter_shared(reduce, axis, work_items)
    ]
    if not tiles:
        return "no two work-items read the same"
    return _Copier(sink, _iterations(reduces[0], axis), work_items, target).copy(tiles)


def _iterations(reduce: UOp, axis: UOp) -> tuple[UOp, ...]:
    """The loops of a reduction from the outermost to `axis`."""
    return reduce.src[1 : 1 + reduce.src[1:].index(axis) + 1]


def _iter_shared(
    reduce: UOp, axis: UOp, work_items: Sequence[UOp]
) -> Iterator[tuple[UOp, tuple[UOp, ...]]]:
    """The loads that are the same for some work-items, and their axes inside one iteration."""
    loops = set(reduce.loops)
    inside = loops.difference(_iterations(reduce, axis)).union(work_items)
    for load in reduce.source.toposort():
        if load.op is Op.INDEX and load.memory.op is Op.PARAM and load.ranges & loops:
            own = [
                r
                for r in load.ranges
                if r in inside or r.arg.kind in (AxisType.UPCAST, AxisType.UNROLL)
            ]
            is_constant = all(isinstance(exact_trips(r), int) for r in own)
            if own and is_constant and not load.ranges.issuperset(work_items):
                yield load, tuple(sorted(own, key=lambda r: r.arg.id))


def _make_tile(load: UOp, own: tuple[UOp, ...]) -> _Tile:
    ranks = {AxisType.REDUCE: 0, AxisType.UNROLL: 0, AxisType.LOCAL: 1, AxisType.UPCAST: 2}
    strides = {r: find_stride(load.position, r) for r in own}

    def distance(r: UOp) -> float:
        stride = strides[r]
        return inf if stride is None else abs(stride)

    given_order = tuple(sorted(own, key=distance, reverse=True))
    return _Tile(
        load, tuple(sorted(own, key=lambda r: (ranks[r.arg.kind], -distance(r)))), given_order
    )


class _Copier:
    def __init__(
        self, sink: UOp, iterations: tuple[UOp, ...], work_items: tuple[UOp, ...], target: Target
    ) -> None:
        self.sink, self.iterations, self.target = sink, iterations, target
        self.n_work_items = max_trips(*work_items)
        self.work_item = _number(work_items, [max_trips(r) for r in work_items])
        self.fresh = FreshIds(sink)

    def copy(self, tiles: list[_Tile]) -> UOp:
        iteration = UOp(Op.BARRIER, void, self.iterations)
        memories = [self._make_memory(tile) for tile in tiles]
        fills = [
            self._fill(memory.after(iteration), tile)
            for memory, tile in zip(memories, tiles, strict=True)
        ]
        filled = UOp(Op.BARRIER, void, tuple(fills))
        return self.sink.substitute(
            {
                tile.load: memory.after(filled).index(self._place(tile, tile.shared_order))
                for memory, tile in zip(memories, tiles, strict=True)
            }
        )

    def _make_memory(self, tile: _Tile) -> UOp:
        return self.fresh.make_local(
            tile.load.dtype, max_trips(tile.shared_order[0]) * self._pitch(tile)
        )

    def _pitch(self, tile: _Tile) -> int:
        """The distance of the outermost rows; where rows become columns, it is odd vectors, so that
        their banks differ.
        """
        pitch = max_trips(*tile.shared_order[1:])
        is_turned = tile.shared_order[-1] is not tile.given_order[-1]
        return (
            pitch + self.target.lanes(tile.load.dtype)
            if is_turned and len(tile.shared_order) > 1
            else pitch
        )

    def _place(self, tile: _Tile, coordinates: Sequence[UOp]) -> UOp:
        """The position in shared memory of the element with these coordinates, given in its
        order.
        """
        inner = [max_trips(r) for r in tile.shared_order[1:]]
        first = coordinates[0] * self._pitch(tile)
        return first + _number(coordinates[1:], inner) if inner else coordinates[0]

    def _fill(self, place: UOp, tile: _Tile) -> UOp:
        """The effect that copies a tile, in which each work-item does its part."""
        sizes = [max_trips(r) for r in tile.given_order]
        total = prod(sizes)
        n_lanes = self._count_lanes(tile, total)
        n_iterations = -(-total // (self.n_work_items * n_lanes))
        loops: list[UOp] = []
        number = self.work_item
        if n_iterations > 1:
            kind = AxisType.UPCAST if n_iterations <= MAX_AT_ONCE else AxisType.LOOP
            loops.append(self.fresh.make_range(n_iterations, kind))
            number = loops[0] * self.n_work_items + self.work_item
        rest, found = number, list[UOp]()
        for size in reversed([*sizes[:-1], sizes[-1] // n_lanes]):
            found.append(rest % size)
            rest = rest // size
        coordinates = found[::-1]
        if n_lanes > 1:
            loops.append(self.fresh.make_range(n_lanes, AxisType.UPCAST))
            coordinates[-1] = coordinates[-1] * n_lanes + loops[-1]
        at = dict(zip(tile.given_order, coordinates, strict=True))
        value, target = (
            tile.load.substitute(at),
            place.index(self._place(tile, [at[r] for r in tile.shared_order])),
        )
        if n_iterations * self.n_work_items * n_lanes != total:
            inside = number < total // n_lanes
            value, target = _gate(value, inside), _gate(target, inside)
        store = target.store(value)
        return store.end(*loops) if loops else store

    def _count_lanes(self, tile: _Tile, total: int) -> int:
        """How many elements a work-item copies at a time: as many as are side by side and leave
        nobody idle.
        """
        last = tile.given_order[-1]
        lanes = (
            self.target.lanes(tile.load.dtype) if find_stride(tile.load.position, last) == 1 else 1
        )
        while lanes > 1 and (max_trips(last) % lanes or total % (self.n_work_items * lanes)):
            lanes //= 2
        return lanes


def _number(coordinates: Sequence[UOp], sizes: Sequence[int]) -> UOp:
    """One number for several coordinates, of which the last one counts in ones."""
    number = coordinates[0]
    for coordinate, size in zip(coordinates[1:], sizes[1:], strict=True):
        number = number * size + coordinate
    return number


def _gate(location: UOp, inside: UOp) -> UOp:
    gate = inside if location.gate is None else location.gate & inside
    return UOp(Op.INDEX, location.dtype, (*location.src[:2], gate))
