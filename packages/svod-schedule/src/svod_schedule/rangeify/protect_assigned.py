"""protect-assigned: what is assigned is computed before the memory that it is made from changes.

before → after, for x[1:] = x[:-1]:

    ASSIGN(SHRINK(x), SHRINK(x))        ASSIGN(SHRINK(x), CONTIGUOUS(SHRINK(x)))

An element may be overwritten in place when its new value reads nothing of the target but that element.
"""

from __future__ import annotations

from svod_ir.ops import ELEMENTWISE, MOVEMENT, Op
from svod_ir.uop import UOp

__all__ = ["assigned_memory", "protect_assigned"]


def protect_assigned(sink: UOp) -> UOp:
    """`sink` with a copy between each ASSIGN and a value that reads other elements of its target."""
    order = sink.toposort()
    if not any(node.op is Op.ASSIGN for node in order):
        return sink
    done: dict[UOp, UOp] = {}
    for node in order:
        new = node.with_src(tuple(done[s] for s in node.src))
        if node.op is Op.ASSIGN and _reads_elsewhere(new):
            new = new.with_src((new.src[0], UOp(Op.CONTIGUOUS, new.dtype, (new.src[1],))))
        done[node] = new
    return done[sink]


def assigned_memory(target: UOp) -> UOp:
    """The memory that a target is part of."""
    while target.op in MOVEMENT or target.op in (Op.ASSIGN, Op.AFTER):
        target = target.src[0]
    return target


def _reads_elsewhere(assign: UOp) -> bool:
    target, value = assign.src
    memory = assigned_memory(target)
    seen: set[UOp] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if node in seen or node is target or node.op in (Op.CONTIGUOUS, Op.COPY):
            continue
        seen.add(node)
        if node is memory:
            return True
        if node.op in ELEMENTWISE:
            stack.extend(node.src)
        elif memory in node.toposort():
            return True
    return False
