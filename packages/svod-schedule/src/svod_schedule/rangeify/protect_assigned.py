"""protect-assigned: what is assigned is computed before the memory that it is made from changes.

before → after, for x[1:] = x[:-1]:

    ASSIGN(SHRINK(x), SHRINK(x))        ASSIGN(SHRINK(x), CONTIGUOUS(SHRINK(x)))

An element may be overwritten in place when its new value reads nothing of the target but that element.

What reads both the content before an assignment and something that follows it gets a copy of the part
that reads the former:

    ADD(MUL(x, 2), AFTER(x, ASSIGN))        ADD(CONTIGUOUS(MUL(x, 2)), AFTER(x, ASSIGN))

Where assignments read in a circle what the next one overwrites, one of them gets a copy of its value:

    ASSIGN(x, y), ASSIGN(y, x)              ASSIGN(x, CONTIGUOUS(y)), ASSIGN(y, x)
"""

from __future__ import annotations

from collections.abc import Mapping

from svod_ir import Op, UOp
from svod_ir.ops import ELEMENTWISE, MEMORY, MOVEMENT
from svod_ir.origins import make_images

__all__ = ["assigned_memory", "protect_assigned"]

_STORED = frozenset({Op.CONTIGUOUS, Op.COPY, Op.RESULT})


def protect_assigned(sink: UOp) -> UOp:
    """`sink` with a copy between each ASSIGN and a value that reads other elements of its target, or older ones."""
    order = sink.toposort()
    if not any(node.op is Op.ASSIGN for node in order):
        return sink
    sink = _break_circles(_save_overwritten(sink))
    order = sink.toposort()
    done = make_images()
    for node in order:
        new = node.with_images(done)
        if node.op is Op.ASSIGN and _reads_elsewhere(new):
            new = new.with_src((new.target, UOp(Op.CONTIGUOUS, new.dtype, (new.value,))))
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
        if node in seen or node is target or node.op in _STORED:
            continue
        seen.add(node)
        below = assigned_memory(node)
        if below.op in (Op.BUFFER, Op.PARAM) and below is not memory:
            # Other memory has been written by then, whatever that was computed from.
            continue
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
    overwriters = {_state_below(node.target): node for node in order if node.op is Op.ASSIGN}
    done = make_images()
    reads: dict[UOp, frozenset[UOp]] = {}
    follows: dict[UOp, frozenset[UOp]] = {}
    nothing: frozenset[UOp] = frozenset()
    for node in order:
        follows[node] = nothing.union(*(follows[s] for s in node.src), (node,) if node.op is Op.ASSIGN else ())
        # A target is written, not read; an AFTER reads nothing by itself, and results need no common kernel.
        operands = node.src[1:] if node.op is Op.ASSIGN else () if node.op in (Op.SINK, Op.AFTER) else _list_read(node)
        saved: dict[UOp, UOp] = {}
        for s in operands:
            late = {state for state in reads[s] if overwriters[state] in follows[node] - follows[s] - {node}}
            if late:
                saved[s] = UOp(Op.CONTIGUOUS, s.dtype, (done[s],))
        done[node] = node.with_src(tuple(saved.get(s, done[s]) for s in node.src))
        state = _state_below(node)
        if state is not None:
            reads[node] = frozenset((state,)) if state in overwriters else nothing
        elif node.op in _STORED:
            reads[node] = nothing
        else:
            reads[node] = nothing.union(*(reads[s] for s in _list_read(node) if s not in saved))
    return done[sink]


def _list_read(node: UOp) -> tuple[UOp, ...]:
    """The operands of a node without what it only waits for."""
    return node.src[:1] if node.op is Op.LATER else node.src


def _break_circles(sink: UOp) -> UOp:
    """`sink` in which no assignments wait for each other to read what they overwrite."""
    order = sink.toposort()
    assigns = [node for node in order if node.op is Op.ASSIGN]
    overwriters = {_state_below(node.target): node for node in assigns}
    reads: dict[UOp, frozenset[UOp]] = {}
    nothing: frozenset[UOp] = frozenset()
    for node in order:
        state = _state_below(node)
        if state is not None:
            reads[node] = frozenset((state,)) if state in overwriters else nothing
        else:
            is_stored = node.op in _STORED
            reads[node] = nothing if is_stored else nothing.union(*(reads[s] for s in _list_read(node)))
    waits: dict[UOp, set[UOp]] = {node: set() for node in assigns}
    for node in assigns:
        for state in reads[node.src[1]]:
            waits[overwriters[state]].add(node)
    saved: set[UOp] = set()
    while (reader := _find_in_circle(sink, waits)) is not None:
        saved.add(reader)
        for readers in waits.values():
            readers.discard(reader)
    if not saved:
        return sink
    done = make_images()
    for node in order:
        new = done[node] = node.with_images(done)
        if node in saved:
            done[node] = new.with_src((new.target, UOp(Op.CONTIGUOUS, new.dtype, (new.value,))))
    return done[sink]


def _find_in_circle(sink: UOp, waits: Mapping[UOp, set[UOp]]) -> UOp | None:
    """An assignment that another one waits for, and that itself needs what that one has written; None if there is none."""
    if not any(waits.values()):
        return None
    path: list[UOp] = []
    entered: dict[UOp, int] = {}
    left: set[UOp] = set()
    stack = [sink]
    while stack:
        node = stack[-1]
        if node in entered:
            stack.pop()
            if path and path[-1] is node:
                left.add(path.pop())
            continue
        entered[node] = len(path)
        path.append(node)
        for below in (*node.src, *(waits.get(node, set()) - {node})):
            if below not in entered:
                stack.append(below)
            elif below not in left:
                return _choose_copied(path[entered[below] :], waits)
    return None


def _choose_copied(circle: list[UOp], waits: Mapping[UOp, set[UOp]]) -> UOp:
    """The assignment of a circle whose value is computed before: if possible one that itself waits for the next, and does not
    need it for its value.
    """
    turned = [*circle[1:], circle[0]], [*circle[2:], *circle[:2]]
    readers = [(b, c) for a, b, c in zip(circle, *turned, strict=True) if b in waits.get(a, ())]
    return next((b for b, c in readers if c in waits.get(b, ()) and c not in b.src), readers[0][0])


def _state_below(view: UOp) -> UOp | None:
    """The content of memory that a view shows: the memory as it was, or the last ASSIGN to it; None for other nodes."""
    while view.op in MOVEMENT or view.op is Op.BUFFER_VIEW:
        view = view.src[0]
    if view.op is Op.AFTER and len(view.src) == 2:
        view = view.src[1]
    return view if view.op is Op.ASSIGN or view.op in MEMORY else None
