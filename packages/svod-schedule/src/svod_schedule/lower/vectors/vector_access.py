"""Reads and writes of memory along a lane axis, as vectors of consecutive elements.

    p[i * 8 + u]        ->  p[i * 8]:f32x8
    p[i * 16 + u * 2]   ->  the even lanes of p[i * 16]:f32x8 and p[i * 16 + 7]:f32x8
    p[7 - u]            ->  p[0]:f32x8 with its lanes turned round
    p[i] if i + u < 9   ->  where(i + u < 9, p[i] if i < 9, 0)

A read of every second, third or fourth element loads what lies between as well, and nothing before
the first or behind the last: a load that is right for the elements is right for the vectors. One
element that is read for those lanes where a condition holds is read once if it holds in any of
them: its first or last lane decides that, or all lanes do."""

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
    """`sink` with vector locations where elements lie near each other along a lane axis."""
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
    """A position that no lane axis moves, which is gated lane by lane, as one read and a choice in
    each lane.
    """
    if node.gate is None or new.gate is None:
        return new
    # Only in the node as it was it shows which clauses a lane axis moves: what is read along it is
    # a vector in the new one.
    was, clauses = tuple(iter_clauses(node.gate)), tuple(iter_clauses(new.gate))
    moving = {n: a for n, clause in enumerate(was) for a in lane_axes if a in clause.ranges}
    if len(set(moving.values())) != 1:
        return new
    axis = next(iter(moving.values()))
    condition = _conjoin(clauses[n] for n in moving)
    lane = _find_deciding_lane(was[next(iter(moving))], axis) if len(moving) == 1 else None
    if lane is not None:
        whole = simplify(new.gate.substitute({axis: UOp.const(index, lane)}))
    else:
        # Where several conditions leave lanes in the middle, only all lanes together tell. A gather
        # from one address, of as many branches as lanes on processors that cannot gather, takes
        # LLVM 50 times as long to compile.
        has_any = UOp(Op.REDUCE, condition.dtype.scalar, (condition, axis), Op.MAX)
        whole = _conjoin(
            (*(clause for n, clause in enumerate(clauses) if n not in moving), has_any)
        )
    found = UOp(Op.INDEX, node.dtype, (*new.src[:-1], whole))
    return UOp(Op.WHERE, node.dtype, (condition, found, UOp.const(node.dtype, 0)))


def _conjoin(clauses: Iterable[UOp]) -> UOp:
    return reduce(lambda left, right: UOp(Op.AND, left.dtype, (left, right)), clauses)


def _find_deciding_lane(clause: UOp, axis: UOp) -> int | None:
    """The first or last place along `axis`, whichever satisfies a comparison if any place does."""
    order = clause.source if clause.op is Op.NOT else clause
    if order.op is not Op.LT:
        return None
    left, right = (find_stride(s, axis) for s in order.src)
    if left is None or right is None:
        return None
    holds_later = (right > left) is (order is clause)
    return int(axis.vmax) if holds_later else 0


def _make_vector(node: UOp, new: UOp, axis: UOp, lane: UOp) -> UOp:
    """As many consecutive elements as `axis` has, from the one that `node` names at `lane`
    of it.
    """
    first = simplify(new.position.substitute({axis: lane}))
    return UOp(Op.INDEX, node.dtype.vec(max_trips(axis)), (new.memory, first, *new.src[2:]))


def _read_strided(node: UOp, new: UOp, axis: UOp, stride: int) -> UOp:
    """The elements `stride` apart, picked from vectors that cover all from the first to the
    last.
    """
    n_lanes, step = max_trips(axis), abs(stride)
    lowest = UOp.const(index, 0 if stride > 0 else n_lanes - 1)
    base = _make_vector(node, new, axis, lowest)
    starts = [min(n * n_lanes, (n_lanes - 1) * (step - 1)) for n in range(step)]
    vectors = tuple(
        base.with_src((base.memory, simplify(base.position + s), *base.src[2:])) for s in starts
    )
    source = vectors[0] if step == 1 else UOp(Op.CAT, node.dtype.vec(n_lanes * step), vectors)
    places: list[int] = []
    for lane in range(n_lanes):
        element = step * (lane if stride > 0 else n_lanes - 1 - lane)
        vector = next(n for n, start in enumerate(starts) if start <= element < start + n_lanes)
        places.append(vector * n_lanes + element - starts[vector])
    return UOp(Op.GEP, node.dtype.vec(n_lanes), (source,), tuple(places))
