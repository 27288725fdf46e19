"""protect-assigned: what is assigned is computed before the memory that it is made from changes.

before → after, for x[1:] = x[:-1]:

    ASSIGN(SHRINK(x), SHRINK(x))        ASSIGN(SHRINK(x), CONTIGUOUS(SHRINK(x)))

An element may be overwritten in place when its new value reads nothing of the target but that
element. Where all that reads others is one reduction, that alone is computed before, for whatever
else is made of it too:

    ASSIGN(x, ADD(x, REDUCE_AXIS(x)))       ASSIGN(x, ADD(x, CONTIGUOUS(REDUCE_AXIS(x))))

What reads both the content before an assignment and something that follows it gets a copy of the
part that reads the former:

    ADD(MUL(x, 2), AFTER(x, ASSIGN))        ADD(CONTIGUOUS(MUL(x, 2)), AFTER(x, ASSIGN))

Where assignments read in a circle what the next one overwrites, one of them gets a copy of its
value:

    ASSIGN(x, y), ASSIGN(y, x)              ASSIGN(x, CONTIGUOUS(y)), ASSIGN(y, x)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from svod_ir import Op, UOp
from svod_ir.ops import ELEMENTWISE, MEMORY, MOVEMENT
from svod_ir.origins import make_images
from svod_ir.sizes import max_size, product

__all__ = ["assigned_memory", "protect_assigned"]

_STORED = frozenset({Op.CONTIGUOUS, Op.COPY, Op.RESULT})
_PARTS = MOVEMENT | {Op.ASSIGN, Op.AFTER}
_VIEWS = MOVEMENT | {Op.BUFFER_VIEW}


def protect_assigned(sink: UOp) -> UOp:
    """`sink` with a copy between each ASSIGN and a value that reads other elements of its target,
    or older ones.
    """
    order = sink.toposort()
    if not any(node.op is Op.ASSIGN for node in order):
        return sink
    sink = _break_circles(_save_overwritten(_store_reductions(sink)))
    order = sink.toposort()
    below = _list_memories_below(order)
    done = make_images()
    for node in order:
        new = node.with_images(done)
        if node.op is Op.ASSIGN and any(_iter_elsewhere(node, below)):
            new = new.with_src((new.target, UOp(Op.CONTIGUOUS, new.dtype, (new.value,))))
        done[node] = new
    return done[sink]


def assigned_memory(target: UOp) -> UOp:
    """The memory that a target is part of."""
    return target.strip(_PARTS)


def _list_memories_below(order: Sequence[UOp]) -> dict[UOp, int]:
    """For each node the memories that are assigned somewhere and that it is made from, and for each
    of these itself: a bit each.
    """
    assigned = dict.fromkeys(assigned_memory(node.target) for node in order if node.op is Op.ASSIGN)
    below = {memory: 1 << n for n, memory in enumerate(assigned)}
    for node in order:
        bits = below.get(node, 0)
        for s in node.src:
            bits |= below[s]
        below[node] = bits
    return below


def _store_reductions(sink: UOp) -> UOp:
    """`sink` in which a reduction that alone reads other elements of what is assigned is stored
    before.

    Everything that is made of it reads what is stored: assignments that have their elementwise
    parts left wait for nothing of each other, and become one kernel, as a step of an optimizer and
    its averages."""
    order = sink.toposort()
    below = _list_memories_below(order)
    stored: set[UOp] = set()
    for node in order:
        if node.op is Op.ASSIGN:
            elsewhere = {_strip_movement(found) for found in _iter_elsewhere(node, below)}
            if len(elsewhere) == 1:
                stored |= {
                    found
                    for found in elsewhere
                    if found.op is Op.REDUCE_AXIS and _is_no_larger(found, node)
                }
    if not stored:
        return sink
    done = make_images()
    for node in order:
        new = node.with_images(done)
        done[node] = UOp(Op.CONTIGUOUS, new.dtype, (new,)) if node in stored else new
    return done[sink]


def _is_no_larger(node: UOp, other: UOp) -> bool:
    return max_size(product(node.shape)) <= max_size(product(other.shape))


def _strip_movement(node: UOp) -> UOp:
    return node.strip(MOVEMENT)


def _iter_elsewhere(assign: UOp, below: Mapping[UOp, int]) -> Iterator[UOp]:
    """What a value is elementwise made of that reads other elements of its target than the one it
    replaces.
    """
    target, value = assign.src
    memory = assigned_memory(target)
    own = below[memory]
    seen: set[UOp] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if (
            node in seen
            or node is target
            or _strip_movement(node).op in _STORED
            or not below[node] & own
        ):
            continue
        seen.add(node)
        shown = assigned_memory(node)
        if shown.op in (Op.BUFFER, Op.PARAM) and shown is not memory:
            # Other memory has been written by then, whatever that was computed from.
            continue
        if node is memory or node.op not in ELEMENTWISE:
            yield node
        else:
            stack.extend(node.src)


class _States:
    """The contents of memory that assignments overwrite, a bit each, which is that of the
    assignment too.
    """

    def __init__(self, order: Sequence[UOp]) -> None:
        self.assigns = [node for node in order if node.op is Op.ASSIGN]
        self.bit_of = {node: 1 << n for n, node in enumerate(self.assigns)}
        self._overwritten = {_state_below(node.target): bit for node, bit in self.bit_of.items()}

    def get_shown(self, node: UOp) -> int | None:
        """The content that a node shows, if another one follows it; None for nodes that are
        computed.
        """
        state = _state_below(node)
        return None if state is None else self._overwritten.get(state, 0)

    def list_assigns(self, bits: int) -> list[UOp]:
        """The assignments with these bits."""
        found: list[UOp] = []
        while bits:
            last = bits & -bits
            found.append(self.assigns[last.bit_length() - 1])
            bits ^= last
        return found


def _save_overwritten(sink: UOp) -> UOp:
    """`sink` in which nothing reads a state of memory besides something that follows its end."""
    order = sink.toposort()
    states = _States(order)
    done = make_images()
    reads: dict[UOp, int] = {}
    follows: dict[UOp, int] = {}
    for node in order:
        own = states.bit_of.get(node, 0)
        before = 0
        for s in node.src:
            before |= follows[s]
        follows[node] = before | own
        # A target is written, not read; an AFTER reads nothing by itself, and results need no
        # common kernel.
        operands = (
            node.src[1:]
            if node.op is Op.ASSIGN
            else ()
            if node.op in (Op.SINK, Op.AFTER)
            else _list_read(node)
        )
        saved = {
            s: UOp(Op.CONTIGUOUS, s.dtype, (done[s],))
            for s in operands
            if reads[s] & before & ~follows[s] & ~own
        }
        done[node] = (
            node.with_src(tuple([saved.get(s, done[s]) for s in node.src]))
            if saved
            else node.with_images(done)
        )
        reads[node] = _get_read(node, states, reads, saved)
    return done[sink]


def _get_read(
    node: UOp, states: _States, reads: Mapping[UOp, int], saved: Collection[UOp] = ()
) -> int:
    """The states that computing a node reads, where none is read for the operands that are saved
    before.
    """
    shown = states.get_shown(node)
    if shown is not None or node.op in _STORED:
        return shown or 0
    found = 0
    for s in _list_read(node):
        if s not in saved:
            found |= reads[s]
    return found


def _list_read(node: UOp) -> tuple[UOp, ...]:
    """The operands of a node without what it only waits for."""
    return node.src[:1] if node.op is Op.CONTROL_DEPENDENCY else node.src


def _break_circles(sink: UOp) -> UOp:
    """`sink` in which no assignments wait for each other to read what they overwrite."""
    order = sink.toposort()
    states = _States(order)
    reads: dict[UOp, int] = {}
    for node in order:
        reads[node] = _get_read(node, states, reads)
    waits: dict[UOp, list[UOp]] = {node: [] for node in states.assigns}
    for node in states.assigns:
        for overwriter in states.list_assigns(reads[node.value]):
            if overwriter is not node:
                waits[overwriter].append(node)
    saved = _choose_saved(sink, waits)
    if not saved:
        return sink
    done = make_images()
    for node in order:
        new = done[node] = node.with_images(done)
        if node in saved:
            done[node] = new.with_src((new.target, UOp(Op.CONTIGUOUS, new.dtype, (new.value,))))
    return done[sink]


def _choose_saved(sink: UOp, waits: Mapping[UOp, Sequence[UOp]]) -> set[UOp]:
    """Assignments without whose reading of overwritten memory, for which others wait, nothing waits
    in a circle.

    A walk in depth; where it meets its own path, an assignment of that circle is chosen, and the
    walk goes on before the step that led there."""
    saved: set[UOp] = set()
    if not any(waits.values()):
        return saved

    def iter_below(node: UOp) -> Iterator[UOp]:
        return reversed((*node.src, *waits.get(node, ())))

    path, rest = [sink], [iter_below(sink)]
    place_of: dict[UOp, int | None] = {sink: 0}  # on the path; None for those that are done
    while path:
        node = path[-1]
        below = next(rest[-1], None)
        if below is None:
            place_of[path.pop()] = None
            rest.pop()
        elif below in saved and below not in node.src:
            continue
        elif below not in place_of:
            place_of[below] = len(path)
            path.append(below)
            rest.append(iter_below(below))
        elif (start := place_of[below]) is not None:
            circle = path[start:]
            chosen = _choose_copied(circle, waits, saved)
            saved.add(chosen)
            # The step to the first of the circle is the one that was not taken, and any other one
            # is taken back.
            end = start + circle.index(chosen) if chosen is not below else len(path)
            for left in path[end:]:
                del place_of[left]
            del path[end:], rest[end:]
    return saved


def _choose_copied(
    circle: Sequence[UOp], waits: Mapping[UOp, Sequence[UOp]], saved: Collection[UOp]
) -> UOp:
    """The assignment of a circle whose value is computed before: if possible one that itself waits
    for the next, and does not need it for its value."""
    turned = [*circle[1:], circle[0]], [*circle[2:], *circle[:2]]
    readers = [
        (b, c)
        for a, b, c in zip(circle, *turned, strict=True)
        if b in waits.get(a, ()) and b not in saved and b not in a.src
    ]
    return next((b for b, c in readers if c in waits.get(b, ()) and c not in b.src), readers[0][0])


def _state_below(view: UOp) -> UOp | None:
    """The content of memory that a view shows: the memory as it was, or the last ASSIGN to it; None
    for other nodes.
    """
    view = view.strip(_VIEWS)
    if view.op is Op.AFTER and len(view.src) == 2:
        view = view.dependency
    return view if view.op is Op.ASSIGN or view.op in MEMORY else None
