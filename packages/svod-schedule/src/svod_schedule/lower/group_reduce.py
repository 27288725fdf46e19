"""group-reduce: work-items of a workgroup compute partial results, and combine them in shared memory.

before → after, for GROUP_REDUCE g of 16:

    REDUCE(x, r, g; ADD)    partial = REDUCE(x, r; ADD)
                            STORE(INDEX(local0, g), partial), BARRIER
                            part = REDUCE(INDEX(AFTER(local0, BARRIER), p * 4 + g % 4), p; ADD), for p of 4
                            STORE(INDEX(local1, g) if g < 4, part), BARRIER
                            REDUCE(INDEX(AFTER(local1, BARRIER), q), q; ADD), for q of 4

So a work-item reads 2 * sqrt(n) partial results, not n; a few work-items read all n in one step.
Each work-item has the final result, and `place-launch-axes` makes only one of them store it."""

from __future__ import annotations

from math import isqrt

from svod_dtype import void
from svod_ir import AxisType, FreshIds, Op, UOp, max_trips
from svod_schedule.lower.place_launch_axes import get_work_items

__all__ = ["count_shared", "group_reduce"]

_SHARED = (AxisType.LOCAL, AxisType.WARP, AxisType.UPCAST)
MIN_STEPWISE = 16
"""Minimum number of work-items for which a second barrier costs less than reading all partial
results.
"""

_ENCLOSING = (AxisType.LOOP, AxisType.REDUCE, AxisType.SCAN)


def group_reduce(sink: UOp) -> UOp:
    """Rewrite REDUCE over GROUP_REDUCE ranges to reductions through shared memory."""
    if not any(r.arg.kind is AxisType.GROUP_REDUCE for r in sink.iter_ops(Op.RANGE)):
        return sink
    reducer = _GroupReducer(FreshIds(sink), get_work_items(sink)[-1])
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        work_items = (
            [r for r in new.loops if r.arg.kind is AxisType.GROUP_REDUCE]
            if node.op is Op.REDUCE
            else []
        )
        done[node] = reducer.reduce(new, work_items) if work_items else new
    return done[sink]


def count_shared(node: UOp) -> int:
    """Count the elements of shared memory that a REDUCE needs."""
    work_items = [r for r in node.loops if r.arg.kind is AxisType.GROUP_REDUCE]
    n_work_items = max_trips(*work_items)
    n_shared = max_trips(*(r for r in node.ranges if r.arg.kind in _SHARED))
    return n_shared * (n_work_items + _count_step_sums(n_work_items)) if work_items else 0


def _count_step_sums(n_work_items: int) -> int:
    """Number of sums in the first of two steps; 0 if all partial results are added in one step."""
    if n_work_items < MIN_STEPWISE:
        return 0
    return next((n for n in range(isqrt(n_work_items), 1, -1) if n_work_items % n == 0), 0)


class _GroupReducer:
    """Reductions across the work-items of a workgroup.

    `neighbours` is the axis of work-items that run in lockstep: they access contiguous elements of
    shared memory, which are in different banks."""

    def __init__(self, fresh: FreshIds, neighbours: UOp) -> None:
        self.fresh, self.neighbours = fresh, neighbours

    def reduce(self, node: UOp, work_items: list[UOp]) -> UOp:
        """Reduce across `work_items` through shared memory."""
        own = tuple(r for r in node.loops if r not in work_items)
        partial = node.with_src((node.source, *own)) if own else node.source
        scope = sorted(partial.ranges - set(work_items), key=lambda r: r.arg.id)
        shared = [r for r in scope if r.arg.kind in _SHARED]
        n_work_items = max_trips(*work_items)
        memory = self.fresh.make_local(node.dtype, max_trips(*shared) * n_work_items)
        loops = tuple(r for r in scope if r.arg.kind in _ENCLOSING)
        # In a loop, no work-item may overwrite elements that others still read from the last
        # iteration.
        target = memory.after(UOp(Op.BARRIER, void, loops)) if loops else memory
        work_item = _position(work_items)
        filled = _store(target, self._flat(shared, n_work_items, work_item), partial)
        n_sums = _count_step_sums(n_work_items)
        if not n_sums:
            return self._add_up(node, memory.after(filled), shared, n_work_items)
        step = self.fresh.make_range(n_work_items // n_sums, AxisType.REDUCE)
        at = self._flat(shared, n_work_items, step * n_sums + work_item % n_sums)
        step_sum = UOp(Op.REDUCE, node.dtype, (memory.after(filled).index(at), step), node.arg)
        step_memory = self.fresh.make_local(node.dtype, max_trips(*shared) * n_sums)
        step_filled = _store(
            step_memory, self._flat(shared, n_sums, work_item), step_sum, work_item < n_sums
        )
        return self._add_up(node, step_memory.after(step_filled), shared, n_sums)

    def _add_up(self, node: UOp, memory: UOp, shared: list[UOp], size: int) -> UOp:
        loop = self.fresh.make_range(size, AxisType.REDUCE)
        return UOp(
            Op.REDUCE, node.dtype, (memory.index(self._flat(shared, size, loop)), loop), node.arg
        )

    def _flat(self, shared: list[UOp], size: int, index: UOp) -> UOp:
        """Return the offset of partial result `index` of `size`, for each result."""
        if not shared:
            return index
        result = _position(shared)
        if self.neighbours in shared:
            return index * max_trips(*shared) + result
        return result * size + index


def _store(memory: UOp, position: UOp, value: UOp, gate: UOp | None = None) -> UOp:
    """Make the barrier after a store that is gated by `gate`."""
    location = memory.index(position)
    if gate is not None:
        location = UOp(Op.INDEX, location.dtype, (*location.src, gate))
    return UOp(Op.BARRIER, void, (location.store(value),))


def _position(axes: list[UOp]) -> UOp:
    position = axes[0]
    for r in axes[1:]:
        position = position * max_trips(r) + r
    return position
