"""Tiles in shared memory: elements that many work-items of a workgroup read in one iteration of a
reduction are loaded from global memory once.

before → after, for work-items i and j, 16 each, and 16 iterations k of 8 elements u:

    REDUCE(a[i * 128 + k * 8 + u] * b[(k * 8 + u) * 16 + j], k, u; ADD)

    BARRIER k, so that no work-item overwrites elements that others still read from the last iteration
    work-item m = i * 16 + j copies element m (and m + 256, ...) of each tile to shared memory; BARRIER
    REDUCE(tile_a[u * 16 + i] * tile_b[u * 16 + j], k, u; ADD)

Neighboring work-items copy neighboring elements, as vectors where the tile's rows allow them. A
tile is laid out in the order in which it is read: the elements of one iteration are outermost, the
elements for the results of one work-item innermost."""

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
"""Maximum number of unrolled copies of one work-item, whose loads are in flight together; further
copies are made in a loop.
"""


class _Tile(NamedTuple):
    """A tile to copy: a load, and the axes of its elements in the order of shared memory and of
    global memory.
    """

    load: UOp
    shared_order: tuple[UOp, ...]
    global_order: tuple[UOp, ...]


def share_tiles(sink: UOp, axis: UOp, target: Target) -> UOp | str:
    """Copy the elements that several work-items read in one iteration of the reduced `axis` to shared
    memory; return the reason if that is not possible."""
    work_items = tuple(get_work_items(sink))
    if not target.has_shared:
        return "the target has no shared memory"
    if not work_items or any(r.arg.kind is not AxisType.LOCAL for r in work_items):
        return "no work-items of a workgroup compute results"
    if any(True for _ in sink.iter_ops(Op.DEFINE_LOCAL)):
        return "shared memory holds tiles already"
    reduces = [n for n in sink.iter_ops(Op.REDUCE) if axis in n.loops]
    if any(n.op in (Op.REDUCE, Op.SCAN) for reduce in reduces for n in reduce.source.toposort()):
        return "the reduction contains another one"
    tiles = [
        _make_tile(load, own)
        for reduce in reduces
        for load, own in _iter_shared(reduce, axis, work_items)
    ]
    if not tiles:
        return "no two work-items read the same elements"
    return _Copier(sink, _iterations(reduces[0], axis), work_items, target).copy(tiles)


def _iterations(reduce: UOp, axis: UOp) -> tuple[UOp, ...]:
    """Return the loops of a reduction from the outermost to `axis`."""
    return reduce.src[1 : 1 + reduce.src[1:].index(axis) + 1]


def _iter_shared(
    reduce: UOp, axis: UOp, work_items: Sequence[UOp]
) -> Iterator[tuple[UOp, tuple[UOp, ...]]]:
    """Yield the loads that several work-items have in common, and their axes inside one iteration."""
    loops = set(reduce.loops)
    inside = loops.difference(_iterations(reduce, axis)).union(work_items)
    for load in reduce.source.toposort():
        if load.op is Op.INDEX and load.memory.op is Op.PARAM and load.ranges & loops:
            own = [
                r
                for r in load.ranges
                if r in inside or r.arg.kind in (AxisType.UPCAST, AxisType.UNROLL)
            ]
            # Shared memory has a constant size. A load that depends on all work-items is needed by
            # one of them only.
            is_constant = all(isinstance(exact_trips(r), int) for r in own)
            if own and is_constant and not load.ranges.issuperset(work_items):
                # Sorted, since the order of a set differs from run to run, and with it the key of
                # the kernel.
                yield load, tuple(sorted(own, key=lambda r: r.arg.id))


def _make_tile(load: UOp, own: tuple[UOp, ...]) -> _Tile:
    ranks = {AxisType.REDUCE: 0, AxisType.UNROLL: 0, AxisType.LOCAL: 1, AxisType.UPCAST: 2}
    strides = {r: find_stride(load.position, r) for r in own}

    def distance(r: UOp) -> float:
        stride = strides[r]
        return inf if stride is None else abs(stride)

    global_order = tuple(sorted(own, key=distance, reverse=True))
    return _Tile(
        load, tuple(sorted(own, key=lambda r: (ranks[r.arg.kind], -distance(r)))), global_order
    )


class _Copier:
    def __init__(
        self, sink: UOp, iterations: tuple[UOp, ...], work_items: tuple[UOp, ...], target: Target
    ) -> None:
        self.sink, self.iterations, self.target = sink, iterations, target
        self.n_work_items = max_trips(*work_items)
        self.work_item = _flatten(work_items, [max_trips(r) for r in work_items])
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
                tile.load: memory.after(filled).index(self._offset(tile, tile.shared_order))
                for memory, tile in zip(memories, tiles, strict=True)
            }
        )

    def _make_memory(self, tile: _Tile) -> UOp:
        return self.fresh.make_local(
            tile.load.dtype, max_trips(tile.shared_order[0]) * self._pitch(tile)
        )

    def _pitch(self, tile: _Tile) -> int:
        """Return the distance of the outermost rows. A transposed tile is padded by one vector, so
        that the elements of a column are in different banks.
        """
        pitch = max_trips(*tile.shared_order[1:])
        is_turned = tile.shared_order[-1] is not tile.global_order[-1]
        return (
            pitch + self.target.lanes(tile.load.dtype)
            if is_turned and len(tile.shared_order) > 1
            else pitch
        )

    def _offset(self, tile: _Tile, coordinates: Sequence[UOp]) -> UOp:
        """Return the offset in shared memory of the element at `coordinates`, which are in
        `shared_order`.
        """
        inner = [max_trips(r) for r in tile.shared_order[1:]]
        first = coordinates[0] * self._pitch(tile)
        return first + _flatten(coordinates[1:], inner) if inner else coordinates[0]

    def _fill(self, memory: UOp, tile: _Tile) -> UOp:
        """Make the effect that copies a tile cooperatively."""
        sizes = [max_trips(r) for r in tile.global_order]
        total = prod(sizes)
        n_lanes = self._count_lanes(tile, total)
        n_iterations = -(-total // (self.n_work_items * n_lanes))
        loops: list[UOp] = []
        index = self.work_item
        if n_iterations > 1:
            kind = AxisType.UPCAST if n_iterations <= MAX_AT_ONCE else AxisType.LOOP
            loops.append(self.fresh.make_range(n_iterations, kind))
            index = loops[0] * self.n_work_items + self.work_item
        remainder, reversed_coordinates = index, list[UOp]()
        for size in reversed([*sizes[:-1], sizes[-1] // n_lanes]):
            reversed_coordinates.append(remainder % size)
            remainder = remainder // size
        coordinates = reversed_coordinates[::-1]
        if n_lanes > 1:
            loops.append(self.fresh.make_range(n_lanes, AxisType.UPCAST))
            coordinates[-1] = coordinates[-1] * n_lanes + loops[-1]
        at = dict(zip(tile.global_order, coordinates, strict=True))
        value, target = (
            tile.load.substitute(at),
            memory.index(self._offset(tile, [at[r] for r in tile.shared_order])),
        )
        if n_iterations * self.n_work_items * n_lanes != total:
            inside = index < total // n_lanes
            # Not a branch around the copy: every work-item has to reach the barrier.
            value, target = _gate(value, inside), _gate(target, inside)
        store = target.store(value)
        return store.end(*loops) if loops else store

    def _count_lanes(self, tile: _Tile, total: int) -> int:
        """Number of elements that a work-item copies as a vector: contiguous ones, and few enough that
        no work-item is idle.
        """
        last = tile.global_order[-1]
        lanes = (
            self.target.lanes(tile.load.dtype) if find_stride(tile.load.position, last) == 1 else 1
        )
        while lanes > 1 and (max_trips(last) % lanes or total % (self.n_work_items * lanes)):
            lanes //= 2
        return lanes


def _flatten(coordinates: Sequence[UOp], sizes: Sequence[int]) -> UOp:
    """Flatten coordinates to a linear index; the last coordinate has stride 1."""
    index = coordinates[0]
    for coordinate, size in zip(coordinates[1:], sizes[1:], strict=True):
        index = index * size + coordinate
    return index


def _gate(location: UOp, inside: UOp) -> UOp:
    gate = inside if location.gate is None else location.gate & inside
    return UOp(Op.INDEX, location.dtype, (*location.src[:2], gate))
