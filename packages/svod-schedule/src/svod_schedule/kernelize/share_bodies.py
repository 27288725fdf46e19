"""share-bodies: kernels that differ only in where they begin to read memory become one kernel,
which gets the place as a variable.

before → after, for the rows 3 and 4 of a matrix, each plus one:

    CALL(SINK(... INDEX(PARAM 1, r0 + 24) ...), BUFFER -1, x)
    CALL(SINK(... INDEX(PARAM 1, r0 + 32) ...), BUFFER -2, x)

    CALL(SINK(... INDEX(PARAM 1, begin1 + r0) ...), BUFFER -1, x, BIND(begin1, 24))
    CALL(SINK(... INDEX(PARAM 1, begin1 + r0) ...), BUFFER -2, x, BIND(begin1, 32))

So a loop over the rows of a tensor, written out step by step, compiles its step once. A kernel
whose body no other would share keeps its constants."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from svod_dtype import index
from svod_ir import Op, UOp
from svod_ir.origins import make_images
from svod_ir.polynomial import ONE, Terms
from svod_schedule.symbolic.terms import from_terms, to_terms

__all__ = ["share_bodies"]


class _Shared(NamedTuple):
    """A body that reads from variable places on, and their values in the body that it was made
    from.
    """

    body: UOp
    begins: tuple[tuple[UOp, int], ...]


def share_bodies(sink: UOp) -> UOp:
    """A kernel graph with as few different kernels as variable beginnings allow."""
    nodes = sink.toposort(enter_calls=False)
    bodies = dict.fromkeys(
        n.body for n in nodes if n.op is Op.CALL and n.arg is None and n.body.op is Op.SINK
    )
    if len(bodies) < 2:
        return sink
    loosened = {body: found for body in bodies if (found := _loosen(body)) is not None}
    n_sharers = Counter(found.body for found in loosened.values())
    shared = {body: found for body, found in loosened.items() if n_sharers[found.body] > 1}
    if not shared:
        return sink
    done = make_images()
    for node in nodes:
        found = shared.get(node.body) if node.op is Op.CALL else None
        if found is None:
            done[node] = node.with_src(tuple(done.get(s, s) for s in node.src))
        else:
            bindings = (
                UOp(Op.BIND, index, (begin, UOp.const(index, value)))
                for begin, value in found.begins
            )
            done[node] = node.with_src((found.body, *(done[s] for s in node.arguments), *bindings))
    return done[sink]


def _loosen(body: UOp) -> _Shared | None:
    """`body` with a variable for where it begins to read each memory that it reads a part of; None
    if there is no such part.
    """
    nodes = body.toposort()
    written = {n.location.memory for n in nodes if n.op is Op.STORE}
    accesses: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node.op is Op.INDEX and node.memory.op is Op.PARAM and node.memory not in written:
            accesses.setdefault(node.memory, []).append(node)
    taken = {n.arg.name for n in nodes if n.op is Op.DEFINE_VAR}
    begins: dict[UOp, tuple[UOp, int]] = {}
    moved: dict[UOp, UOp] = {}
    for param, own in accesses.items():
        name, size = f"begin{param.arg.slot}", param.arg.size
        terms = {n: to_terms(n.position) for n in own}
        begin = min(t.get(ONE, 0) for t in terms.values())
        is_part = any(n.position.vmin > 0 or n.position.vmax < size - 1 for n in own)
        if not is_part or name in taken or not 0 <= begin < size:
            continue
        variable = UOp.variable(name, 0, size - 1)
        begins[param] = variable, begin
        moved.update(
            {n: n.with_src((param, variable + _rest(terms[n], begin), *n.src[2:])) for n in own}
        )
    return _Shared(_replace(nodes, moved), tuple(begins.values())) if begins else None


def _rest(terms: Terms, begin: int) -> UOp:
    rest = {m: c for m, c in terms.items() if m != ONE}
    if terms.get(ONE, 0) != begin:
        rest[ONE] = terms.get(ONE, 0) - begin
    return from_terms(rest, index)


def _replace(nodes: list[UOp], moved: dict[UOp, UOp]) -> UOp:
    """The last of `nodes`, with new positions in those that moved."""
    done: dict[UOp, UOp] = {}
    for node in nodes:
        new = moved.get(node, node)
        done[node] = new if new.src == () else new.with_src(tuple(done.get(s, s) for s in new.src))
    return done[nodes[-1]]
