"""mark-results: say in the graph itself which nodes are its results.

before → after:

    SINK(x, ADD(x, y))      SINK(c, ADD(c, y)) with c = CONTIGUOUS(x)

Each operand of the SINK becomes a CONTIGUOUS node, which is always stored, and every other reader
of the same value reads the stored one.
"""

from __future__ import annotations

from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["mark_results"]

_DROPPED = frozenset({Op.DETACH, Op.CONTIGUOUS_BACKWARD})
_STORED_ANYWAY = frozenset({Op.CONTIGUOUS, Op.COPY, Op.SCAN_AXIS, Op.ASSIGN})


def mark_results(sink: UOp) -> UOp:
    """`sink` with CONTIGUOUS operands, and without the nodes that only a gradient reads."""
    wanted = {_value_of(s) for s in sink.src}
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        if node.op in _DROPPED:
            done[node] = done[node.src[0]]
            continue
        operands = tuple(done[s] for s in node.src)
        if node.op is Op.CONTIGUOUS and operands[0].op in _STORED_ANYWAY:
            done[node] = operands[0]
            continue
        new = node.with_src(operands)
        done[node] = UOp(Op.CONTIGUOUS, new.dtype, (new,)) if node in wanted and new.op not in _STORED_ANYWAY else new
    return done[sink]


def _value_of(node: UOp) -> UOp:
    while node.op is Op.CONTIGUOUS or node.op in _DROPPED:
        node = node.src[0]
    return node
