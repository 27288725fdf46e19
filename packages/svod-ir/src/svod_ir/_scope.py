"""Inference of the loops in scope at a node."""

from __future__ import annotations

from svod_ir.ops import Op
from svod_ir.uop import UOp, defines

__all__ = ["ENDS_RANGES_FROM", "infer_ranges"]

ENDS_RANGES_FROM = {Op.END: 1, Op.REDUCE: 1, Op.BUFFERIZE: 1}
"""For ops that close loops: the index of their first RANGE operand."""

_NO_RANGES: frozenset[UOp] = frozenset()
# A member of an enum costs more than the rest of a comparison.
_RANGE, _CALL = Op.RANGE, Op.CALL


@defines("_ranges")
def infer_ranges(node: UOp) -> frozenset[UOp]:
    """The RANGEs in scope at `node`: all RANGEs below it, without the ones closed below or by it."""
    op = node.op
    if op is _RANGE:
        return _below(node) | {node}
    if op is _CALL:
        return _NO_RANGES
    first = ENDS_RANGES_FROM.get(op)
    if first is None:
        return _below(node)
    ended = frozenset([r for r in node.src[first:] if r.op is _RANGE])
    return _below(node) - ended


def _below(node: UOp) -> frozenset[UOp]:
    in_scope = _NO_RANGES
    for operand in node.src:
        ranges = operand.ranges
        if ranges is not in_scope and ranges:
            in_scope = in_scope | ranges if in_scope else ranges
    return in_scope
