"""share-bodies: replace kernels that differ only in constant offsets of their reads by one kernel
with the offsets as variables.

before → after, for rows 3 and 4 of a matrix, each plus one:

    CALL(SINK(... INDEX(PARAM 1, r0 + 24) ...), BUFFER -1, x)
    CALL(SINK(... INDEX(PARAM 1, r0 + 32) ...), BUFFER -2, x)

    CALL(SINK(... INDEX(PARAM 1, begin1 + r0) ...), BUFFER -1, x, BIND(begin1, 24))
    CALL(SINK(... INDEX(PARAM 1, begin1 + r0) ...), BUFFER -2, x, BIND(begin1, 32))

So the body of an unrolled loop over the rows of a tensor is compiled once. A kernel that would
share its body with no other kernel keeps its constants."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from svod_dtype import index
from svod_ir import Op, UOp
from svod_ir.origins import make_images
from svod_ir.polynomial import ONE, Terms
from svod_schedule.symbolic.terms import from_terms, to_terms

__all__ = ["share_bodies"]


class _Parametrized(NamedTuple):
    """A body with variable offsets, and the values of these in the original body."""

    body: UOp
    offsets: tuple[tuple[UOp, int], ...]


def share_bodies(sink: UOp) -> UOp:
    """Merge the kernels of a kernel graph that differ only in constant offsets of reads."""
    nodes = sink.toposort(enter_calls=False)
    bodies = dict.fromkeys(
        n.body for n in nodes if n.op is Op.CALL and n.arg is None and n.body.op is Op.SINK
    )
    if len(bodies) < 2:
        return sink
    parametrized = {body: new for body in bodies if (new := _parametrize(body)) is not None}
    # Counted after the offsets are replaced: only then are the bodies equal.
    n_sharers = Counter(new.body for new in parametrized.values())
    shared = {body: new for body, new in parametrized.items() if n_sharers[new.body] > 1}
    if not shared:
        return sink
    done = make_images()
    for node in nodes:
        new = shared.get(node.body) if node.op is Op.CALL else None
        if new is None:
            done[node] = node.with_src(tuple(done.get(s, s) for s in node.src))
        else:
            bindings = (
                UOp(Op.BIND, index, (offset, UOp.const(index, value)))
                for offset, value in new.offsets
            )
            done[node] = node.with_src((new.body, *(done[s] for s in node.arguments), *bindings))
    return done[sink]


def _parametrize(body: UOp) -> _Parametrized | None:
    """Replace the offset into each PARAM that `body` reads partially by a variable; None if it
    reads all of its PARAMs whole.
    """
    nodes = body.toposort()
    # Only reads get variable offsets: the memory planner looks at the indices of writes.
    written = {n.location.memory for n in nodes if n.op is Op.STORE}
    accesses: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node.op is Op.INDEX and node.memory.op is Op.PARAM and node.memory not in written:
            accesses.setdefault(node.memory, []).append(node)
    taken = {n.arg.name for n in nodes if n.op is Op.DEFINE_VAR}
    offsets: dict[UOp, tuple[UOp, int]] = {}
    shifted: dict[UOp, UOp] = {}
    for param, reads in accesses.items():
        name, size = f"begin{param.arg.slot}", param.arg.size
        terms = {n: to_terms(n.position) for n in reads}
        offset = min(t.get(ONE, 0) for t in terms.values())
        is_part = any(n.position.vmin > 0 or n.position.vmax < size - 1 for n in reads)
        # A read of the whole memory has no offset to vary.
        if not is_part or name in taken or not 0 <= offset < size:
            continue
        # The bounds of the memory, not of the offsets that occur: the body is then the same, and in
        # the caches, for any number of steps.
        variable = UOp.variable(name, 0, size - 1)
        offsets[param] = variable, offset
        shifted.update(
            {
                n: n.with_src((param, variable + _drop_offset(terms[n], offset), *n.src[2:]))
                for n in reads
            }
        )
    return _Parametrized(_replace(nodes, shifted), tuple(offsets.values())) if offsets else None


def _drop_offset(terms: Terms, offset: int) -> UOp:
    """Return `terms - offset` as an expression."""
    difference = {m: c for m, c in terms.items() if m != ONE}
    if terms.get(ONE, 0) != offset:
        difference[ONE] = terms.get(ONE, 0) - offset
    return from_terms(difference, index)


def _replace(nodes: list[UOp], shifted: dict[UOp, UOp]) -> UOp:
    """Rewrite the last of `nodes` with the INDEX nodes in `shifted` replaced."""
    done: dict[UOp, UOp] = {}
    for node in nodes:
        new = shifted.get(node, node)
        done[node] = new if new.src == () else new.with_src(tuple(done.get(s, s) for s in new.src))
    return done[nodes[-1]]
