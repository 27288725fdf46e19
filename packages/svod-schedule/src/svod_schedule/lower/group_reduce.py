"""group-reduce: members of a workgroup reduce a part each, and meet in shared memory.

before → after, for GROUP_REDUCE g of 16:

    REDUCE(x, r, g; ADD)    partial = REDUCE(x, r; ADD)
                            STORE(INDEX(local, g), partial), BARRIER
                            REDUCE(INDEX(AFTER(local, BARRIER), g'), g'; ADD)

Every member then has the whole result; `launch-axes` lets one of them store it.
"""

from __future__ import annotations

from math import prod

from svod_dtype import void
from svod_ir.ops import AxisType, Op
from svod_ir.uop import UOp

__all__ = ["group_reduce"]

_SHARED = (AxisType.LOCAL, AxisType.WARP, AxisType.UPCAST)
_ENCLOSING = (AxisType.LOOP, AxisType.REDUCE, AxisType.SCAN)


def group_reduce(sink: UOp) -> UOp:
    """`sink` without REDUCE over GROUP_REDUCE ranges."""
    if not any(r.arg[1] is AxisType.GROUP_REDUCE for r in sink.iter_ops(Op.RANGE)):
        return sink
    next_id = 1 + max(r.arg[0] for r in sink.iter_ops(Op.RANGE))
    n_locals = 0
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_src(tuple(done[s] for s in node.src))
        members = [r for r in new.src[1:] if r.arg[1] is AxisType.GROUP_REDUCE] if node.op is Op.REDUCE else []
        if members:
            new = _meet(new, members, next_id, n_locals)
            next_id, n_locals = next_id + len(members), n_locals + 1
        done[node] = new
    return done[sink]


def _meet(node: UOp, members: list[UOp], first_id: int, local_id: int) -> UOp:
    own = tuple(r for r in node.src[1:] if r not in members)
    partial = node.with_src((node.src[0], *own)) if own else node.src[0]
    scope = sorted(partial.ranges - set(members), key=lambda r: r.arg[0])
    shared = [r for r in scope if r.arg[1] in _SHARED]
    axes = [*shared, *members]
    memory = UOp(Op.DEFINE_LOCAL, node.dtype, (), (local_id, prod(int(r.vmax) + 1 for r in axes)))
    loops = tuple(r for r in scope if r.arg[1] in _ENCLOSING)
    # In a loop, nobody may overwrite what another member still reads from the turn before.
    place = memory.after(UOp(Op.BARRIER, void, loops)) if loops else memory
    barrier = UOp(Op.BARRIER, void, (place.index(_position(axes)).store(partial),))
    final = [UOp(Op.RANGE, r.dtype, r.src, (first_id + i, AxisType.REDUCE)) for i, r in enumerate(members)]
    value = memory.after(barrier).index(_position([*shared, *final]))
    return UOp(Op.REDUCE, node.dtype, (value, *final), node.arg)


def _position(axes: list[UOp]) -> UOp:
    position = axes[0]
    for r in axes[1:]:
        position = position * (int(r.vmax) + 1) + r
    return position
