"""Which loops a node stands in."""

from __future__ import annotations

from svod_ir.ops import Op
from svod_ir.uop import UOp, defines

__all__ = ["ENDS_RANGES_FROM", "infer_ranges"]

ENDS_RANGES_FROM = {Op.END: 1, Op.REDUCE: 1, Op.BUFFERIZE: 1}
"""For ops that close loops: the position of their first RANGE operand."""

_NOTHING: frozenset[UOp] = frozenset()
# A member of an enum costs more than the rest of a comparison.
_RANGE, _CALL = Op.RANGE, Op.CALL


@defines("_ranges")
def infer_ranges(node: UOp) -> frozenset[UOp]:
    """The RANGEs in scope at `node`: those below it, less the ones that are closed below or
    by it.
    """
    op = node.op
    if op is _RANGE:
        return _below(node) | {node}
    if op is _CALL:
        return _NOTHING
    first = ENDS_RANGES_FROM.get(op)
    if first is None:
        return _below(node)
    ended = frozenset([r for r in node.src[first:] if r.op is _RANGE])
    return _below(node) - ended


def _below(node: UOp) -> frozenset[UOp]:
    found = _NOTHING
    for operand in node.src:
        ranges = operand.ranges
        if ranges is not found and ranges:
            found = found | ranges if found else ranges
    return found
