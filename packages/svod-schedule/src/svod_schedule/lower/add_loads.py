"""add-loads: make the loads of locations that are used as values explicit.

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
    """Insert a LOAD for each location that is read."""
    done: dict[UOp, UOp] = {}
    loaded: dict[UOp, UOp] = {}
    for node in sink.toposort():
        is_access = node.op in _ACCESSES
        operands = [
            _load(s, done[s], loaded) if s.op is _INDEX and not (is_access and i == 0) else done[s]
            for i, s in enumerate(node.src)
        ]
        done[node] = node.with_src(tuple(operands))
    return done[sink]


def _load(node: UOp, location: UOp, loaded: dict[UOp, UOp]) -> UOp:
    load = loaded.get(node)
    if load is None:
        # The value of a masked lane is 0, on which padding relies.
        alternative = None if location.gate is None else UOp.const(location.dtype, 0)
        load = loaded[node] = location.load(alternative)
    return load
