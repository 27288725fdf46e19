"""group-reduce: work-items of a workgroup reduce a part each, and meet in shared memory.

before → after, for GROUP_REDUCE g of 16:

    REDUCE(x, r, g; ADD)    partial = REDUCE(x, r; ADD)
                            STORE(INDEX(local0, g), partial), BARRIER
                            part = REDUCE(INDEX(AFTER(local0, BARRIER), p * 4 + g % 4), p; ADD), for p of 4
                            STORE(INDEX(local1, g) if g < 4, part), BARRIER
                            REDUCE(INDEX(AFTER(local1, BARRIER), q), q; ADD), for q of 4

So a work-item reads 2 * sqrt(n) elements, not n; few work-items read all at once. Every work-item
then has the whole result, and `place-launch-axes` lets one of them store it."""

from __future__ import annotations

from math import isqrt

from svod_dtype import void
from svod_ir import AxisType, FreshIds, Op, UOp, max_trips
from svod_schedule.lower.place_launch_axes import get_work_items

__all__ = ["count_shared", "group_reduce"]

_SHARED = (AxisType.LOCAL, AxisType.WARP, AxisType.UPCAST)
MIN_STEPWISE = 16
"""From so many work-items on, a barrier more costs less than reading all parts."""

_ENCLOSING = (AxisType.LOOP, AxisType.REDUCE, AxisType.SCAN)


def group_reduce(sink: UOp) -> UOp:
    """`sink` without REDUCE over GROUP_REDUCE ranges."""
    if not any(r.arg.kind is AxisType.GROUP_REDUCE for r in sink.iter_ops(Op.RANGE)):
        return sink
    meeting = _Meeting(FreshIds(sink), get_work_items(sink)[-1])
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        work_items = (
            [r for r in new.loops if r.arg.kind is AxisType.GROUP_REDUCE]
            if node.op is Op.REDUCE
            else []
        )
        done[node] = meeting.reduce(new, work_items) if work_items else new
    return done[sink]


def count_shared(node: UOp) -> int:
    """How many elements of shared memory a REDUCE takes."""
    work_items = [r for r in node.loops if r.arg.kind is AxisType.GROUP_REDUCE]
    n_work_items = max_trips(*work_items)
    n_shared = max_trips(*(r for r in node.ranges if r.arg.kind in _SHARED))
    return n_shared * (n_work_items + _count_parts(n_work_items)) if work_items else 0


def _count_parts(n_work_items: int) -> int:
    """How many sums of parts are made before the sum of all; 0 where all parts are added up at
    once.
    """
    if n_work_items < MIN_STEPWISE:
        return 0
    return next((n for n in range(isqrt(n_work_items), 1, -1) if n_work_items % n == 0), 0)


class _Meeting:
    """Reductions by work-items that meet.

    What `neighbours`, the work-items that run together, write and read lies side by side, in banks
    of its own."""

    def __init__(self, fresh: FreshIds, neighbours: UOp) -> None:
        self.fresh, self.neighbours = fresh, neighbours

    def reduce(self, node: UOp, work_items: list[UOp]) -> UOp:
        """A REDUCE by work-items that meet."""
        own = tuple(r for r in node.loops if r not in work_items)
        partial = node.with_src((node.source, *own)) if own else node.source
        scope = sorted(partial.ranges - set(work_items), key=lambda r: r.arg.id)
        shared = [r for r in scope if r.arg.kind in _SHARED]
        n_work_items = max_trips(*work_items)
        memory = self.fresh.make_local(node.dtype, max_trips(*shared) * n_work_items)
        loops = tuple(r for r in scope if r.arg.kind in _ENCLOSING)
        # In a loop, nobody may overwrite what another work-item still reads from the iteration
        # before.
        place = memory.after(UOp(Op.BARRIER, void, loops)) if loops else memory
        number = _position(work_items)
        filled = _store(place, self._flat(shared, n_work_items, number), partial)
        n_parts = _count_parts(n_work_items)
        if not n_parts:
            return self._add_up(node, memory.after(filled), shared, n_work_items)
        step = self.fresh.make_range(n_work_items // n_parts, AxisType.REDUCE)
        at = self._flat(shared, n_work_items, step * n_parts + number % n_parts)
        part = UOp(Op.REDUCE, node.dtype, (memory.after(filled).index(at), step), node.arg)
        parts = self.fresh.make_local(node.dtype, max_trips(*shared) * n_parts)
        kept = _store(parts, self._flat(shared, n_parts, number), part, number < n_parts)
        return self._add_up(node, parts.after(kept), shared, n_parts)

    def _add_up(self, node: UOp, memory: UOp, shared: list[UOp], size: int) -> UOp:
        loop = self.fresh.make_range(size, AxisType.REDUCE)
        return UOp(
            Op.REDUCE, node.dtype, (memory.index(self._flat(shared, size, loop)), loop), node.arg
        )

    def _flat(self, shared: list[UOp], size: int, number: UOp) -> UOp:
        """The place of one of `size` parts of each result."""
        if not shared:
            return number
        result = _position(shared)
        if self.neighbours in shared:
            return number * max_trips(*shared) + result
        return result * size + number


def _store(memory: UOp, position: UOp, value: UOp, gate: UOp | None = None) -> UOp:
    """The barrier after a store, which is done where `gate` holds."""
    location = memory.index(position)
    if gate is not None:
        location = UOp(Op.INDEX, location.dtype, (*location.src, gate))
    return UOp(Op.BARRIER, void, (location.store(value),))


def _position(axes: list[UOp]) -> UOp:
    position = axes[0]
    for r in axes[1:]:
        position = position * max_trips(r) + r
    return position
