"""SCATTER_ADD over loops: memory of zeros, and the effect that adds to its rows in the order of the
positions.

before → after, for rows of x that are added to those of a result of the shape (6, 2):

    SCATTER_ADD(x, positions)       m = BUFFERIZE(0, i, j), with a number that no other memory of zeros has
                                    p = INDEX(positions, r), with r a loop in order
                                    s = a loop in order of one iteration where 0 <= p < 6, of none elsewhere
                                    AFTER(m, END(STORE(INDEX(m, p, j), ADD(INDEX(AFTER(m, r, s), p, j), INDEX(x, r, j))), r, s, j))

The rows are independent along j, so that these are lanes and threads; along r they are not: two may
have one position."""

from __future__ import annotations

from svod_dtype import bool_, index
from svod_ir import AxisType, BufferizeArg, Op, SInt, UOp, make_alu
from svod_schedule.rangeify.analysis.coordinates import Coordinates, move_to_places
from svod_schedule.rangeify.analysis.kernel_loops import KernelLoops
from svod_schedule.symbolic import simplify

__all__ = ["add_to_rows", "is_place", "make_zeros"]


def make_zeros(node: UOp, device: str, number: int) -> UOp:
    """Memory for the result of a SCATTER_ADD, as it is before anything is added."""
    arg = BufferizeArg(device, number=number)
    return UOp(Op.BUFFERIZE, node.dtype, (UOp.const(node.dtype, 0), *KernelLoops().open(node)), arg)


def add_to_rows(
    node: UOp, memory: UOp, at: Coordinates, position: UOp, value: UOp, loops: KernelLoops
) -> UOp:
    """The effect that adds the `value` of a SCATTER_ADD at `at`, whose position is `position`, to
    an element of `memory`.
    """
    places = move_to_places(node, at)
    axis: int = node.arg.axis
    selected = simplify(position.cast(index))
    element = (*at.indices[:axis], selected, *at.indices[axis + len(places.indices) :])
    ranges = [r for r in at.indices if r.op is Op.RANGE]
    in_order = [r for r in ranges if r in places.indices]
    others = [r for r in ranges if r not in in_order]
    inside = places.and_valid(is_place(position, selected, node.shape[axis])).valid
    if inside is not None:
        in_order.append(loops.make(inside.cast(index), AxisType.SCAN))
    # What an iteration reads, one before it may have written, also where all of them have the same
    # position.
    before = memory.after(*in_order).index(*element)
    return memory.index(*element).store(make_alu(Op.ADD, before, value)).end(*in_order, *others)


def is_place(position: UOp, selected: UOp, size: SInt) -> UOp:
    """Whether a position, which is `selected` as an index, is one on an axis of this size."""
    # There is memory beyond the end of an axis whose size depends on variables.
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
