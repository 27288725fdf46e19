"""add-loads: where a location stands for its content, say so.

before → after:

    ADD(INDEX(a, i), 1)             ADD(LOAD(INDEX(a, i)), 1)
    ADD(INDEX(a, i, gate), 1)       ADD(LOAD(INDEX(a, i, gate), 0), 1)
"""

from __future__ import annotations

from svod_ir import Op, UOp

__all__ = ["add_loads"]


_ACCESSES = frozenset({Op.LOAD, Op.STORE})
_INDEX = Op.INDEX


def add_loads(sink: UOp) -> UOp:
    """`sink` with an explicit LOAD for each location that is read."""
    done: dict[UOp, UOp] = {}
    loaded: dict[UOp, UOp] = {}
    for node in sink.toposort():
        is_access = node.op in _ACCESSES
        operands = [
            _load(s, done[s], loaded)
            if s.op is _INDEX and not (is_access and position == 0)
            else done[s]
            for position, s in enumerate(node.src)
        ]
        done[node] = node.with_src(tuple(operands))
    return done[sink]


def _load(node: UOp, location: UOp, loaded: dict[UOp, UOp]) -> UOp:
    found = loaded.get(node)
    if found is None:
        alternative = None if location.gate is None else UOp.const(location.dtype, 0)
        found = loaded[node] = location.load(alternative)
    return found
