"""add-loads: where a location stands for its content, say so.

before → after:

    ADD(INDEX(a, i), 1)             ADD(LOAD(INDEX(a, i)), 1)
    ADD(INDEX(a, i, gate), 1)       ADD(LOAD(INDEX(a, i, gate), 0), 1)
"""

from __future__ import annotations

from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["add_loads"]


def add_loads(sink: UOp) -> UOp:
    """`sink` with an explicit LOAD for each location that is read."""
    done: dict[UOp, UOp] = {}
    loaded: dict[UOp, UOp] = {}
    for node in sink.toposort():
        operands = tuple(
            _load(s, done[s], loaded)
            if s.op is Op.INDEX and not (position == 0 and node.op in (Op.LOAD, Op.STORE))
            else done[s]
            for position, s in enumerate(node.src)
        )
        done[node] = node.with_src(operands)
    return done[sink]


def _load(node: UOp, location: UOp, loaded: dict[UOp, UOp]) -> UOp:
    found = loaded.get(node)
    if found is None:
        alternative = None if location.gate is None else UOp.const(location.dtype, 0)
        found = loaded[node] = location.load(alternative)
    return found
