"""The loops of a kernel: in which order they stand, in another order, and in two parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svod_dtype import index
from svod_ir import FreshIds, Op, SInt, UOp
from svod_ir.uop import to_node

__all__ = ["exchange_loops", "list_axes", "split_off_rest"]

_LOOPING: Final = frozenset({Op.END, Op.REDUCE, Op.SCAN})


def list_axes(order: Sequence[UOp]) -> list[UOp]:
    """The RANGEs of a kernel, whose nodes are in `order`: by rank of their type, then from outer to
    inner loop.
    """
    nest: dict[UOp, int] = {}
    for node in reversed(order):
        if node.op in _LOOPING:
            for r in node.src[1:2] if node.op is Op.SCAN else node.src[1:]:
                nest.setdefault(r, len(nest))
    return sorted(nest, key=lambda r: (r.arg.kind.rank, nest[r]))


def exchange_loops(sink: UOp, first: UOp, second: UOp) -> UOp:
    """`sink` with two loops exchanged in every nest that has both; itself where there is none."""
    swapped = {first: second, second: first}
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        if node.op in (Op.END, Op.REDUCE) and first in node.loops and second in node.loops:
            new = new.with_src((new.source, *(swapped.get(r, r) for r in new.loops)))
        done[node] = new
    return done[sink]


def split_off_rest(sink: UOp, axis: UOp, main: SInt, rest: SInt) -> tuple[UOp, UOp]:
    """Each reduction over `axis` as one over its first `main` elements joined with one over the
    others, and the axis of the first.
    """
    main_axis = axis.with_src((to_node(main),))
    # A rest of one element needs no loop.
    is_loop = not (isinstance(rest, int) and rest == 1)
    fresh = FreshIds(sink)
    rest_axis = fresh.make_range(rest, axis.arg.kind) if is_loop else UOp.const(index, 0)
    copies: dict[UOp, UOp] = {}
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        if node.op is Op.REDUCE and axis in node.loops:
            # The other loops of this reduction are run twice, so the second time under new names.
            others = [r for r in node.loops if r is not axis]
            copies.update(
                {r: fresh.make_range(r.stop, r.arg.kind) for r in others if r not in copies}
            )
            rest_ranges = [
                rest_axis if r is axis else copies[r]
                for r in node.loops
                if r is not axis or is_loop
            ]
            main_value = new.source.substitute({axis: main_axis})
            rest_value = new.source.substitute(
                {axis: rest_axis + to_node(main), **{r: copies[r] for r in others}}
            )
            main_ranges = tuple(main_axis if r is axis else r for r in new.loops)
            first = UOp(Op.REDUCE, node.dtype, (main_value, *main_ranges), node.arg)
            last = (
                UOp(Op.REDUCE, node.dtype, (rest_value, *rest_ranges), node.arg)
                if rest_ranges
                else rest_value
            )
            new = UOp(node.arg, node.dtype, (first, last))
        done[node] = new
    return done[sink], main_axis
