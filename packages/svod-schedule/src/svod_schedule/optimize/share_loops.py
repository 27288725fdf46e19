"""share-loops: fuse the loops of independent reductions over the same elements.

before → after, for the sums of a row's elements and of their squares:

    REDUCE(x[r1], r1; ADD), REDUCE(x[r2] * x[r2], r2; ADD)      REDUCE(x[r1], r1; ADD), REDUCE(x[r1] * x[r1], r1; ADD)

The elements are loaded once, and common subexpressions are computed once. Reductions that each read
further elements, such as two products with one common operand, keep their loops: fused, they would
need more registers."""

from __future__ import annotations

from dataclasses import dataclass

from svod_ir import Op, UOp
from svod_ir.origins import make_images

__all__ = ["share_loops"]

_REDUCE = Op.REDUCE


def share_loops(sink: UOp) -> UOp:
    """Fuse the loops of independent reductions of `sink` that read the same elements."""
    order = sink.toposort()
    if sum(node.op is _REDUCE for node in order) < 2:
        return sink
    done = make_images()
    # Reductions at the same depth do not depend on each other.
    depth: dict[UOp, int] = {}
    known: dict[object, list[_Reads]] = {}
    for node in order:
        depth[node] = max((depth[s] for s in node.src), default=0) + (node.op is _REDUCE)
        new = node.with_images(done)
        if new.op is _REDUCE and new.loops:
            new = _share(new, known, depth[node])
        done[node] = new
    return done[sink]


@dataclass(slots=True)
class _Reads:
    """Loops of a reduction, and the elements that it reads."""

    loops: tuple[UOp, ...]
    elements: frozenset[UOp]


def _share(node: UOp, known: dict[object, list[_Reads]], depth: int) -> UOp:
    loops = node.loops
    key = (depth, tuple((r.stop, r.arg.kind) for r in loops), node.source.ranges.difference(loops))
    alike = known.setdefault(key, [])
    for reads in alike:
        if reads.loops == loops:
            return node
        source = node.source.substitute(dict(zip(loops, reads.loops, strict=True)))
        elements = _collect_elements(source, reads.loops)
        # With a subset of the other's elements, the fused loop needs no register for a further
        # load.
        if elements and (elements <= reads.elements or reads.elements <= elements):
            reads.elements |= elements
            return UOp(_REDUCE, node.dtype, (source, *reads.loops), node.arg)
    alike.append(_Reads(loops, _collect_elements(node.source, loops)))
    return node


def _collect_elements(source: UOp, loops: tuple[UOp, ...]) -> frozenset[UOp]:
    return frozenset(n for n in source.iter_ops(Op.INDEX) if not n.ranges.isdisjoint(loops))
