"""Which loops a node stands in, and which device it belongs to."""

from __future__ import annotations

from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["ENDS_RANGES_FROM", "find_device", "infer_ranges"]

ENDS_RANGES_FROM = {Op.END: 1, Op.REDUCE: 1, Op.BUFFERIZE: 1}
"""For ops that close loops: the position of their first RANGE operand."""

_NOTHING: frozenset[UOp] = frozenset()


def infer_ranges(node: UOp) -> frozenset[UOp]:
    """The RANGEs in scope at `node`: those below it, less the ones that are closed below or by it."""
    if node.op is Op.RANGE:
        return _below(node) | {node}
    if node.op is Op.CALL:
        return _NOTHING
    first = ENDS_RANGES_FROM.get(node.op)
    if first is None:
        return _below(node)
    ended = frozenset(r for r in node.src[first:] if r.op is Op.RANGE)
    return _below(node) - ended


def _below(node: UOp) -> frozenset[UOp]:
    found = _NOTHING
    for operand in node.src:
        ranges = operand.ranges
        if ranges is not found and ranges:
            found = found | ranges if found else ranges
    return found


def find_device(node: UOp) -> str | None:
    """The device of the first buffer below `node`, in operand order."""
    seen: set[UOp] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        match current.op:
            case Op.BUFFER | Op.PARAM if current.arg.device is not None:
                return current.arg.device
            case Op.COPY:
                return current.arg
            case Op.ALLREDUCE:
                return current.arg[1]
            case Op.BUFFERIZE:
                return current.arg.device
            case _:
                stack.extend(reversed(current.src))
    return None
