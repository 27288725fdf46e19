"""protect-assigned: what is assigned is computed before the memory that it is made from changes.

before → after, for x[1:] = x[:-1]:

    ASSIGN(SHRINK(x), SHRINK(x))        ASSIGN(SHRINK(x), CONTIGUOUS(SHRINK(x)))

An element may be overwritten in place when its new value reads nothing of the target but that element.

What reads both the content before an assignment and something that follows it gets a copy of the part
that reads the former:

    ADD(MUL(x, 2), AFTER(x, ASSIGN))        ADD(CONTIGUOUS(MUL(x, 2)), AFTER(x, ASSIGN))
"""

from __future__ import annotations

from svod_ir.ops import ELEMENTWISE, MEMORY, MOVEMENT, Op
from svod_ir.origins import make_images
from svod_ir.uop import UOp

__all__ = ["assigned_memory", "protect_assigned"]


def protect_assigned(sink: UOp) -> UOp:
    """`sink` with a copy between each ASSIGN and a value that reads other elements of its target, or older ones."""
    order = sink.toposort()
    if not any(node.op is Op.ASSIGN for node in order):
        return sink
    sink = _save_overwritten(sink)
    order = sink.toposort()
    done = make_images()
    for node in order:
        new = node.with_images(done)
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


def _save_overwritten(sink: UOp) -> UOp:
    """`sink` in which nothing reads a state of memory besides something that follows its end."""
    order = sink.toposort()
    overwriters = {_state_below(node.src[0]): node for node in order if node.op is Op.ASSIGN}
    done = make_images()
    reads: dict[UOp, frozenset[UOp]] = {}
    follows: dict[UOp, frozenset[UOp]] = {}
    nothing: frozenset[UOp] = frozenset()
    for node in order:
        follows[node] = nothing.union(*(follows[s] for s in node.src), (node,) if node.op is Op.ASSIGN else ())
        # A target is written, not read; an AFTER reads nothing by itself, and results need no common kernel.
        operands = node.src[1:] if node.op is Op.ASSIGN else () if node.op in (Op.SINK, Op.AFTER) else node.src
        saved: dict[UOp, UOp] = {}
        for s in operands:
            late = {state for state in reads[s] if overwriters[state] in follows[node] - follows[s] - {node}}
            if late:
                saved[s] = UOp(Op.CONTIGUOUS, s.dtype, (done[s],))
        done[node] = node.with_src(tuple(saved.get(s, done[s]) for s in node.src))
        state = _state_below(node)
        if state is not None:
            reads[node] = frozenset((state,)) if state in overwriters else nothing
        elif node.op in (Op.CONTIGUOUS, Op.COPY):
            reads[node] = nothing
        else:
            reads[node] = nothing.union(*(reads[s] for s in node.src if s not in saved))
    return done[sink]


def _state_below(view: UOp) -> UOp | None:
    """The content of memory that a view shows: the memory as it was, or the last ASSIGN to it; None for other nodes."""
    while view.op in MOVEMENT or view.op is Op.BUFFER_VIEW:
        view = view.src[0]
    if view.op is Op.AFTER and len(view.src) == 2:
        view = view.src[1]
    return view if view.op is Op.ASSIGN or view.op in MEMORY else None
