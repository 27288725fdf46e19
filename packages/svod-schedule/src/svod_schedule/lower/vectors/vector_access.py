"""Vectorization of memory accesses along a lane axis, as vectors of contiguous elements.

    p[i * 8 + u]        ->  p[i * 8]:f32x8
    p[i * 16 + u * 2]   ->  the even lanes of p[i * 16]:f32x8 and p[i * 16 + 7]:f32x8
    p[7 - u]            ->  p[0]:f32x8 with its lanes reversed
    p[i] if i + u < 9   ->  where(i + u < 9, p[i] if i < 9, 0)

A strided read of every second, third or fourth element also loads the elements in between, but none
before the first or after the last: if the scalar loads are in bounds, the vector loads are too. An
element that is read by all lanes for which a condition holds is read once if the condition holds in
any lane. For a comparison, its first or last lane decides; otherwise all lanes are tested."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from svod_dtype import index
from svod_ir import Op, UOp, max_trips
from svod_schedule._linear_index import access_cost, find_stride
from svod_schedule.symbolic import simplify
from svod_schedule.symbolic.valid import iter_clauses

__all__ = ["merge_accesses"]


def merge_accesses(sink: UOp, lane_axes: Iterable[UOp]) -> UOp:
    """Merge accesses of contiguous or strided elements along a lane axis to vectors."""
    written = {n.location for n in sink.iter_ops(Op.STORE)}
    merged: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(merged)
        axis = next(
            (a for a in lane_axes if node.op is Op.INDEX and a in node.position.ranges), None
        )
        if axis is None and node.op is Op.INDEX and node not in written:
            new = _read_once(node, new, lane_axes)
        elif (
            axis is not None
            and access_cost(node, axis, max_trips(axis), is_read=node not in written) < 1
        ):
            stride = find_stride(node.position, axis)
            assert stride is not None
            new = (
                _make_vector(node, new, axis, UOp.const(index, 0))
                if stride == 1
                else _read_strided(node, new, axis, stride)
            )
        merged[node] = new
    return merged[sink]


def _read_once(node: UOp, new: UOp, lane_axes: Iterable[UOp]) -> UOp:
    """Rewrite a read at an index common to all lanes, but with a gate per lane, as one scalar read
    and a select per lane.
    """
    if node.gate is None or new.gate is None:
        return new
    # Only the original node shows which clauses depend on a lane axis: in the new one, reads along
    # the axis are vectors already.
    old_clauses, clauses = tuple(iter_clauses(node.gate)), tuple(iter_clauses(new.gate))
    moving = {n: a for n, clause in enumerate(old_clauses) for a in lane_axes if a in clause.ranges}
    if len(set(moving.values())) != 1:
        return new
    axis = next(iter(moving.values()))
    condition = _conjoin(clauses[n] for n in moving)
    lane = _find_deciding_lane(old_clauses[next(iter(moving))], axis) if len(moving) == 1 else None
    if lane is not None:
        gate = simplify(new.gate.substitute({axis: UOp.const(index, lane)}))
    else:
        # Several conditions may hold for lanes in the middle only, so all lanes are tested. The
        # alternative, a gather from one address, becomes a branch per lane on processors without
        # gather, and takes LLVM 50 times as long to compile.
        has_any = UOp(Op.REDUCE, condition.dtype.scalar, (condition, axis), Op.MAX)
        gate = _conjoin((*(clause for n, clause in enumerate(clauses) if n not in moving), has_any))
    location = UOp(Op.INDEX, node.dtype, (*new.src[:-1], gate))
    return UOp(Op.WHERE, node.dtype, (condition, location, UOp.const(node.dtype, 0)))


def _conjoin(clauses: Iterable[UOp]) -> UOp:
    return reduce(lambda left, right: UOp(Op.AND, left.dtype, (left, right)), clauses)


def _find_deciding_lane(clause: UOp, axis: UOp) -> int | None:
    """Return the first or last lane of `axis`, whichever satisfies a comparison if any lane does."""
    order = clause.source if clause.op is Op.NOT else clause
    if order.op is not Op.LT:
        return None
    left, right = (find_stride(s, axis) for s in order.src)
    if left is None or right is None:
        return None
    holds_later = (right > left) is (order is clause)
    return int(axis.vmax) if holds_later else 0


def _make_vector(node: UOp, new: UOp, axis: UOp, lane: UOp) -> UOp:
    """Make a vector of contiguous elements, one per lane of `axis`, starting at the element of
    `lane`.
    """
    first = simplify(new.position.substitute({axis: lane}))
    return UOp(Op.INDEX, node.dtype.vec(max_trips(axis)), (new.memory, first, *new.src[2:]))


def _read_strided(node: UOp, new: UOp, axis: UOp, stride: int) -> UOp:
    """Read elements `stride` apart by a shuffle of vectors that cover the range from the first to the
    last element.
    """
    n_lanes, step = max_trips(axis), abs(stride)
    lowest = UOp.const(index, 0 if stride > 0 else n_lanes - 1)
    base = _make_vector(node, new, axis, lowest)
    starts = [min(n * n_lanes, (n_lanes - 1) * (step - 1)) for n in range(step)]
    vectors = tuple(
        base.with_src((base.memory, simplify(base.position + s), *base.src[2:])) for s in starts
    )
    source = vectors[0] if step == 1 else UOp(Op.CAT, node.dtype.vec(n_lanes * step), vectors)
    lane_indices: list[int] = []
    for lane in range(n_lanes):
        element = step * (lane if stride > 0 else n_lanes - 1 - lane)
        vector = next(n for n, start in enumerate(starts) if start <= element < start + n_lanes)
        lane_indices.append(vector * n_lanes + element - starts[vector])
    return UOp(Op.GEP, node.dtype.vec(n_lanes), (source,), tuple(lane_indices))
