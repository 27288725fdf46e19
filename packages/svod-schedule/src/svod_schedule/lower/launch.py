"""launch-axes: axes that run in parallel become numbers that the launch gives to each part.

before → after:

    RANGE [4, THREAD]           DEFINE_VAR core_id [0, 3]
    RANGE [128, GLOBAL]         SPECIAL gidx0
    RANGE [16, LOCAL]           SPECIAL lidx0

A store to a buffer at a place that does not depend on some member of the workgroup is done by member 0 alone.
"""

from __future__ import annotations

from svod_dtype import index
from svod_ir.ops import AxisType, Op
from svod_ir.uop import UOp

__all__ = ["place_launch_axes"]

_PREFIX = {AxisType.GLOBAL: "gidx", AxisType.LOCAL: "lidx", AxisType.WARP: "lidx", AxisType.GROUP_REDUCE: "lidx"}


def place_launch_axes(sink: UOp) -> UOp:
    """`sink` without THREAD, GLOBAL, LOCAL, WARP and GROUP_REDUCE ranges."""
    replaced: dict[UOp, UOp] = {}
    numbers = {"gidx": 0, "lidx": 0}
    for node in sorted(sink.iter_ops(Op.RANGE), key=lambda r: r.arg[0]):
        if node.arg[1] is AxisType.THREAD:
            replaced[node] = UOp.variable("core_id", 0, int(node.vmax))
        elif node.arg[1] in _PREFIX:
            prefix = _PREFIX[node.arg[1]]
            replaced[node] = UOp(Op.SPECIAL, index, node.src, f"{prefix}{numbers[prefix]}")
            numbers[prefix] += 1
    if not replaced:
        return sink
    members = [n for n in replaced.values() if n.op is Op.SPECIAL and n.arg.startswith("lidx")]
    done: dict[UOp, UOp] = dict(replaced)
    for node in sink.toposort():
        if node in done:
            continue
        operands = node.src
        if node.op in (Op.END, Op.REDUCE):
            operands = (operands[0], *(r for r in operands[1:] if r not in replaced))
        operands = tuple(done[s] for s in operands)
        new = operands[0] if node.op is Op.END and len(operands) == 1 else node.with_src(operands)
        done[node] = _store_once(new, members) if new.op is Op.STORE and members else new
    return done[sink]


def _store_once(store: UOp, members: list[UOp]) -> UOp:
    location = store.src[0]
    if location.src[0].op is not Op.PARAM:
        return store
    below = set(location.src[1].toposort())
    gate = location.gate
    for member in members:
        if member not in below:
            is_first = member.eq(0)
            gate = is_first if gate is None else gate & is_first
    if gate is None:
        return store
    gated = UOp(Op.INDEX, location.dtype, (location.src[0], location.src[1], gate))
    return store.with_src((gated, store.src[1]))
