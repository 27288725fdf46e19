"""Deterministic scatters: sequential loops that replace rows of memory, or add to them.

before → after, for rows of x that are added to rows of y, of shape (6, 2):

    SCATTER(x, positions, y; ADD)   m = BUFFERIZE(INDEX(y, i, j), i, j), with a unique number
                                    p = INDEX(positions, r), with r a sequential loop
                                    s = a sequential loop with trip count 1 if 0 <= p < 6, else 0
                                    AFTER(m, END(STORE(INDEX(m, p, j), ADD(INDEX(AFTER(m, r, s), p, j), INDEX(x, r, j))), r, s, j))

Without ADD, x itself is stored. Where an ASSIGN writes the result to the memory of y, there is no copy:
only the rows are written.

Elements of a row are independent, so j can become lanes and threads. Rows are not, since two of
them may have the same index, so r is sequential."""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import bool_, index
from svod_ir import AxisType, Op, SInt, UOp, make_alu
from svod_schedule.rangeify.analysis.coordinates import Coordinates, move_to_scatter_indices
from svod_schedule.rangeify.analysis.kernel_loops import KernelLoops
from svod_schedule.symbolic import simplify, simplify_condition, simplify_under

__all__ = ["is_in_bounds", "locate_row", "write_row"]


def locate_row(node: UOp, at: Coordinates, position: UOp) -> tuple[UOp, ...]:
    """Return the indices of the element that the element `at` of the rows of a SCATTER is written to,
    in the row `position`.
    """
    axis: int = node.arg.axis
    selected = simplify(position.cast(index))
    return (*at.indices[:axis], selected, *at.indices[axis + len(node.position.shape) :])


def write_row(
    node: UOp,
    memory: UOp,
    element: Sequence[UOp],
    at: Coordinates,
    position: UOp,
    value: UOp,
    loops: KernelLoops,
) -> UOp:
    """Return the effect that writes `value` to an element of memory, or adds it.

    Args:
        node: the SCATTER.
        memory: the memory of the result.
        element: the indices of the element in memory.
        at: the coordinates of `value` in the rows.
        position: the row that is written; nothing is written if it is out of bounds.
        value: the element of the rows.
        loops: the loops of the kernel.
    """
    index_at = move_to_scatter_indices(node, at)
    ranges = [r for r in at.indices if r.op is Op.RANGE]
    sequential = [r for r in ranges if r in index_at.indices]
    parallel = [r for r in ranges if r not in sequential]
    selected = simplify(position.cast(index))
    axis: int = node.arg.axis
    size = node.shape[axis]
    inside = index_at.and_valid(is_in_bounds(position, selected, size)).valid
    if inside is not None:
        inside = simplify_condition(inside)
        # Out of bounds there is no iteration, so that indices need not be defined.
        element = [simplify_under(inside, i) for i in element]
        sequential.append(loops.make(inside.cast(index), AxisType.SCAN))
    if node.arg.op is Op.ADD:
        # AFTER the loops: an iteration may read an element that an earlier iteration has written.
        value = make_alu(Op.ADD, memory.after(*sequential).index(*element), value)
    return memory.index(*element).store(value).end(*sequential, *parallel)


def is_in_bounds(position: UOp, selected: UOp, size: SInt) -> UOp:
    """Return the condition that `position` is in bounds for an axis of this size.

    Args:
        selected: `position` as an index.
    """
    # The upper bound needs a check even with a symbolic size: memory is allocated for the maximum
    # size, so an index beyond the current size may still be inside of it.
    low, high = (
        (True, True) if position.dtype is index else (selected.vmin >= 0, _is_below(selected, size))
    )
    inside = UOp.const(bool_, True)
    if not low:
        inside = inside & (selected >= 0)
    return inside if high else inside & (selected < size)


def _is_below(position: UOp, size: SInt) -> bool:
    """Whether `position` is less than `size` for all values of the variables."""
    if isinstance(size, int):
        return position.vmax < size
    return simplify(position < size).vmin is True
