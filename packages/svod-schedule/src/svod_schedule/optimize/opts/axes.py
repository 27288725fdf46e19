"""Loops of a kernel: their order, loop interchange, splitting off a tail loop, and where the rows of
results begin in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from svod_dtype import index
from svod_ir import FreshIds, Op, SInt, Target, UOp
from svod_ir.uop import to_node
from svod_schedule._linear_index import find_stride
from svod_schedule.symbolic.simplify import simplify

__all__ = ["exchange_loops", "find_misalignment", "list_axes", "split_off_tail"]

_LOOPING: Final = frozenset({Op.END, Op.REDUCE, Op.SCAN})
_PRIVATE: Final = frozenset({Op.DEFINE_REG, Op.DEFINE_LOCAL})


def list_axes(order: Sequence[UOp]) -> list[UOp]:
    """List the RANGEs of a kernel with the nodes `order`: by rank of their kind, then from outer to
    inner loop.
    """
    nest: dict[UOp, int] = {}
    # Outer loops end at later nodes, so walking backwards meets them first.
    for node in reversed(order):
        if node.op in _LOOPING:
            for r in node.src[1:2] if node.op is Op.SCAN else node.src[1:]:
                nest.setdefault(r, len(nest))
    return sorted(nest, key=lambda r: (r.arg.kind.rank, nest[r]))


def exchange_loops(sink: UOp, first: UOp, second: UOp) -> UOp:
    """Exchange two loops in each nest that has both; return `sink` itself if there is none."""
    swapped = {first: second, second: first}
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        if node.op in (Op.END, Op.REDUCE) and first in node.loops and second in node.loops:
            new = new.with_src((new.source, *(swapped.get(r, r) for r in new.loops)))
        done[node] = new
    return done[sink]


def split_off_tail(sink: UOp, axis: UOp, main: SInt, tail: SInt) -> tuple[UOp, UOp]:
    """Split each reduction over `axis` into a main loop over `main` elements and a tail loop over
    the last `tail` elements; return the kernel and the axis of the main loop.
    """
    main_axis = axis.with_src((to_node(main),))
    # A tail of one element needs no loop.
    is_loop = not (isinstance(tail, int) and tail == 1)
    fresh = FreshIds(sink)
    tail_axis = fresh.make_range(tail, axis.arg.kind) if is_loop else UOp.const(index, 0)
    copies: dict[UOp, UOp] = {}
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        if node.op is Op.REDUCE and axis in node.loops:
            # The other loops of this reduction are needed twice, so the tail gets copies of them.
            other_loops = [r for r in node.loops if r is not axis]
            copies.update(
                {r: fresh.make_range(r.stop, r.arg.kind) for r in other_loops if r not in copies}
            )
            tail_ranges = [
                tail_axis if r is axis else copies[r]
                for r in node.loops
                if r is not axis or is_loop
            ]
            main_value = new.source.substitute({axis: main_axis})
            tail_value = new.source.substitute(
                {axis: tail_axis + to_node(main), **{r: copies[r] for r in other_loops}}
            )
            main_ranges = tuple(main_axis if r is axis else r for r in new.loops)
            main_sum = UOp(Op.REDUCE, node.dtype, (main_value, *main_ranges), node.arg)
            tail_sum = (
                UOp(Op.REDUCE, node.dtype, (tail_value, *tail_ranges), node.arg)
                if tail_ranges
                else tail_value
            )
            new = UOp(node.arg, node.dtype, (main_sum, tail_sum))
        done[node] = new
    return done[sink], main_axis


def find_misalignment(stores: Iterable[UOp], axis: UOp, target: Target) -> UOp | None:
    """Find by how many elements the rows of results along `axis` begin after a multiple of a vector
    in memory.

    Args:
        stores: the INDEX of each STORE; the first row in global memory decides.

    Returns:
        An expression of the loops outside of a row. None if no results are stored along the axis, or
        all rows begin at a multiple.
    """
    for location in stores:
        is_row = find_stride(location.position, axis) == 1
        if is_row and location.memory.unordered.op not in _PRIVATE:
            start = location.position.substitute({axis: UOp.const(axis.dtype, 0)})
            offset = simplify(start % target.lanes(location.dtype))
            return None if offset.op is Op.CONST and offset.arg == 0 else offset
    return None
