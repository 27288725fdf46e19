"""protect-assigned: copy values that an in-place write would overwrite before they are read.

before → after, for x[1:] = x[:-1]:

    ASSIGN(SHRINK(x), SHRINK(x))        ASSIGN(SHRINK(x), CONTIGUOUS(SHRINK(x)))

An element may be overwritten in place if its new value reads only that element of the target. If a
single reduction reads other elements, only the reduction is materialized, for all of its readers:

    ASSIGN(x, ADD(x, REDUCE_AXIS(x)))       ASSIGN(x, ADD(x, CONTIGUOUS(REDUCE_AXIS(x))))

A node that reads both the version of memory before an assignment and a later one gets a copy of the
operand that reads the earlier version:

    ADD(MUL(x, 2), AFTER(x, ASSIGN))        ADD(CONTIGUOUS(MUL(x, 2)), AFTER(x, ASSIGN))

Rows that are written in place, as for x[indices] = y, are copied with their indices if they read x:

    ASSIGN(x, SCATTER(GATHER(x, i), i, x))      ASSIGN(x, SCATTER(CONTIGUOUS(GATHER(x, i)), i, x))

Where assignments form a cycle, each reading what the next one overwrites, one of them gets a copy
of its value:

    ASSIGN(x, y), ASSIGN(y, x)              ASSIGN(x, CONTIGUOUS(y)), ASSIGN(y, x)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from svod_ir import Op, UOp, make_reshape
from svod_ir.ops import ELEMENTWISE, MEMORY, MOVEMENT
from svod_ir.origins import make_images
from svod_ir.sizes import max_size, product
from svod_schedule.rangeify.analysis.row_writes import find_row_write

__all__ = ["assigned_memory", "protect_assigned"]

_STORED = frozenset({Op.CONTIGUOUS, Op.COPY, Op.CUSTOM_FUNCTION, Op.RESULT})
"""Ops with memory of their own: no copy is needed to keep their values."""

_ALIASES = MOVEMENT | {Op.ASSIGN, Op.AFTER}
"""Ops that alias the memory of their source, in any version."""

_VIEWS = MOVEMENT | {Op.BUFFER_VIEW}
"""Ops that alias the memory of their source, in the same version."""


def protect_assigned(sink: UOp) -> UOp:
    """Copy the value of each ASSIGN in `sink` that reads other elements of its target, or an
    earlier version of them.
    """
    order = sink.toposort()
    if not any(node.op is Op.ASSIGN for node in order):
        return sink
    # Reductions first, since a stored one is no longer a reader in the later steps; cycles last,
    # since each copy of an earlier step may have broken one.
    sink = _break_cycles(_save_overwritten(_store_reductions(sink)))
    order = sink.toposort()
    below = _list_memories_below(order)
    done = make_images()
    for node in order:
        new = node.with_images(done)
        scatter = find_row_write(node)
        if scatter is not None:
            new = _copy_rows(new, scatter, below[assigned_memory(node.target)], below)
        elif node.op is Op.ASSIGN and any(_iter_other_readers(node, below)):
            new = new.with_src((new.target, UOp(Op.CONTIGUOUS, new.dtype, (new.value,))))
        done[node] = new
    return done[sink]


def _copy_rows(assign: UOp, scatter: UOp, own: int, below: Mapping[UOp, int]) -> UOp:
    """Copy the rows and the indices that an ASSIGN writes in place if they read its memory: a row may
    be read after it is written, also the same row, where an index is repeated.

    Args:
        assign: the ASSIGN, with copies below it.
        scatter: the SCATTER before copies below it, for `below`.
        own: the bit of the memory.
        below: the assigned buffers that each node depends on.
    """
    new = find_row_write(assign)
    assert new is not None, assign
    rows, indices = (
        UOp(Op.CONTIGUOUS, s.dtype, (s,))
        if below[old] & own and _strip_movement(old).op not in _STORED
        else s
        for old, s in zip(scatter.src[:2], new.src[:2], strict=True)
    )
    value = new.with_src((rows, indices, new.base))
    return assign.with_src((assign.target, make_reshape(value, assign.value.shape)))


def assigned_memory(target: UOp) -> UOp:
    """Return the buffer that the target of an ASSIGN is a view of."""
    return target.strip(_ALIASES)


def _list_memories_below(order: Sequence[UOp]) -> dict[UOp, int]:
    """Return a bit set for each node: the assigned buffers that it depends on, itself included."""
    assigned = dict.fromkeys(assigned_memory(node.target) for node in order if node.op is Op.ASSIGN)
    # Integers as bit sets: a training step has hundreds of assignments, and each node has such a
    # set.
    below = {memory: 1 << n for n, memory in enumerate(assigned)}
    for node in order:
        bits = below.get(node, 0)
        for s in node.src:
            bits |= below[s]
        below[node] = bits
    return below


def _store_reductions(sink: UOp) -> UOp:
    """Materialize each reduction of `sink` that is the only reader of other elements of a target.

    All readers of the reduction then read the stored value. The assignments that remain are
    elementwise and independent, so they fuse into one kernel, as the update of a parameter and its
    moments."""
    order = sink.toposort()
    below = _list_memories_below(order)
    stored: set[UOp] = set()
    for node in order:
        if node.op is Op.ASSIGN:
            readers = {_strip_movement(reader) for reader in _iter_other_readers(node, below)}
            if len(readers) == 1:
                stored |= {
                    reader
                    for reader in readers
                    if reader.op is Op.REDUCE_AXIS and _is_no_larger(reader, node)
                }
    if not stored:
        return sink
    done = make_images()
    for node in order:
        new = node.with_images(done)
        done[node] = UOp(Op.CONTIGUOUS, new.dtype, (new,)) if node in stored else new
    return done[sink]


def _is_no_larger(node: UOp, limit: UOp) -> bool:
    return max_size(product(node.shape)) <= max_size(product(limit.shape))


def _strip_movement(node: UOp) -> UOp:
    return node.strip(MOVEMENT)


def _iter_other_readers(assign: UOp, below: Mapping[UOp, int]) -> Iterator[UOp]:
    """Yield the nodes below the elementwise part of an ASSIGN's value that may read other elements
    of the target than the one being replaced.
    """
    target, value = assign.src
    if find_row_write(assign) is not None:
        return
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
        base = assigned_memory(node)
        if base.op in (Op.BUFFER, Op.PARAM) and base is not memory:
            # A different buffer is written by then, whatever its value was computed from.
            continue
        if node is memory or node.op not in ELEMENTWISE:
            yield node
        else:
            stack.extend(node.src)


class _Versions:
    """The versions of memory that assignments overwrite. A version has the bit of the ASSIGN that
    overwrites it.
    """

    def __init__(self, order: Sequence[UOp]) -> None:
        self.assigns = [node for node in order if node.op is Op.ASSIGN]
        self.bit_of = {node: 1 << n for n, node in enumerate(self.assigns)}
        self._overwritten = {_find_version(node.target): bit for node, bit in self.bit_of.items()}

    def get_version(self, node: UOp) -> int | None:
        """Return the bit of the version that a view shows, 0 if it is never overwritten; None for
        nodes that are computed.
        """
        version = _find_version(node)
        return None if version is None else self._overwritten.get(version, 0)

    def list_assigns(self, bits: int) -> list[UOp]:
        """Return the assignments with these bits."""
        assigns: list[UOp] = []
        while bits:
            lowest = bits & -bits
            assigns.append(self.assigns[lowest.bit_length() - 1])
            bits ^= lowest
        return assigns


def _save_overwritten(sink: UOp) -> UOp:
    """Copy the operands in `sink` that read a version of memory that another operand of the same
    node overwrites.
    """
    order = sink.toposort()
    versions = _Versions(order)
    done = make_images()
    reads: dict[UOp, int] = {}
    follows: dict[UOp, int] = {}
    for node in order:
        own = versions.bit_of.get(node, 0)
        before = 0
        for s in node.src:
            before |= follows[s]
        follows[node] = before | own
        # A target is written, not read; an AFTER itself reads no memory, and results need not be
        # computed by the same kernel.
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
        reads[node] = _get_read(node, versions, reads, saved)
    return done[sink]


def _get_read(
    node: UOp, versions: _Versions, reads: Mapping[UOp, int], saved: Collection[UOp] = ()
) -> int:
    """Return the bits of the versions that computing a node reads, except through the operands in
    `saved`, which are copied before.
    """
    version = versions.get_version(node)
    if version is not None or node.op in _STORED:
        return version or 0
    bits = 0
    for s in _list_read(node):
        if s not in saved:
            bits |= reads[s]
    return bits


def _list_read(node: UOp) -> tuple[UOp, ...]:
    """Return the operands of a node, without the events of a control dependency."""
    return node.src[:1] if node.op is Op.CONTROL_DEPENDENCY else node.src


def _break_cycles(sink: UOp) -> UOp:
    """Copy values in `sink` so that no assignments wait for each other in a cycle: an assignment
    waits for the readers of the version that it overwrites.
    """
    order = sink.toposort()
    versions = _Versions(order)
    reads: dict[UOp, int] = {}
    for node in order:
        reads[node] = _get_read(node, versions, reads)
    waits: dict[UOp, list[UOp]] = {node: [] for node in versions.assigns}
    for node in versions.assigns:
        for overwriter in versions.list_assigns(reads[node.value]):
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
    """Choose assignments whose values are copied, so that the graph of `waits` has no cycle.

    A depth-first search. Where it meets its own path, an assignment of that cycle is chosen, and
    the search resumes before the edge that led to it."""
    saved: set[UOp] = set()
    if not any(waits.values()):
        return saved

    def iter_below(node: UOp) -> Iterator[UOp]:
        return reversed((*node.src, *waits.get(node, ())))

    path, pending = [sink], [iter_below(sink)]
    # Index on the path; None once a node is finished.
    depth_of: dict[UOp, int | None] = {sink: 0}
    while path:
        node = path[-1]
        below = next(pending[-1], None)
        if below is None:
            depth_of[path.pop()] = None
            pending.pop()
        elif below in saved and below not in node.src:
            continue
        elif below not in depth_of:
            depth_of[below] = len(path)
            path.append(below)
            pending.append(iter_below(below))
        elif (start := depth_of[below]) is not None:
            cycle = path[start:]
            chosen = _choose_copied(cycle, waits, saved)
            saved.add(chosen)
            # The edge that closes the cycle was not followed yet. If `chosen` breaks another edge,
            # the path is cut back to before that edge.
            end = start + cycle.index(chosen) if chosen is not below else len(path)
            for undone in path[end:]:
                del depth_of[undone]
            del path[end:], pending[end:]
    return saved


def _choose_copied(
    cycle: Sequence[UOp], waits: Mapping[UOp, Sequence[UOp]], saved: Collection[UOp]
) -> UOp:
    """Return the assignment of a cycle whose value is copied: if possible one that waits for the
    next node as a reader, not as an operand."""
    rotated = [*cycle[1:], cycle[0]], [*cycle[2:], *cycle[:2]]
    readers = [
        (b, c)
        for a, b, c in zip(cycle, *rotated, strict=True)
        if b in waits.get(a, ()) and b not in saved and b not in a.src
    ]
    return next((b for b, c in readers if c in waits.get(b, ()) and c not in b.src), readers[0][0])


def _find_version(view: UOp) -> UOp | None:
    """Return the version of memory that a view shows: the buffer before all writes, or the last
    ASSIGN to it; None for other nodes.
    """
    view = view.strip(_VIEWS)
    if view.op is Op.AFTER and len(view.src) == 2:
        view = view.dependency
    return view if view.op is Op.ASSIGN or view.op in MEMORY else None
