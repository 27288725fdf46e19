"""divide-loops: divide a loop over results whose index selects a block of an operand, and an element
of the block.

before → after, for filters that are stored in blocks of 32:

    w[r // 32 * 4608 + k * 32 + r % 32], r in [0, 64)    w[r0 * 4608 + k * 32 + r1], r0 in [0, 2), r1 in [0, 32)

Then each access has a stride along both loops: the elements of a block can be lanes."""

from __future__ import annotations

from collections.abc import Sequence

from svod_ir import AxisType, FreshIds, Op, Target, UOp, exact_trips
from svod_schedule._loops import replace_range
from svod_schedule.optimize.simplify_kernel import simplify_kernel

__all__ = ["divide_loops"]

_DIVISIONS = (Op.IDIV, Op.MOD)


def divide_loops(sink: UOp, target: Target) -> UOp:
    """Divide the loops over results of the reductions in `sink` where that makes the index of each
    access linear.
    """
    order = sink.toposort()
    if target.has_local or not any(node.op is Op.REDUCE for node in order):
        return sink
    blocks, fresh = _list_blocks(order, target), FreshIds(sink)
    for loop, size in blocks.items():
        outer, inner = (
            fresh.make_range(n, AxisType.LOOP) for n in (exact_trips(loop) // size, size)
        )
        sink = replace_range(sink, loop, outer * size + inner, (outer, inner))
    return simplify_kernel(sink) if blocks else sink


def _list_blocks(order: Sequence[UOp], target: Target) -> dict[UOp, int]:
    """The loops over results that are divided by a constant, and the constant."""
    lanes = min((target.lanes(n.dtype) for n in order if n.op is Op.INDEX), default=1)
    sizes: dict[UOp, set[int]] = {}
    for node in order:
        if node.op in _DIVISIONS and node.left.op is Op.RANGE and node.right.op is Op.CONST:
            sizes.setdefault(node.left, set()).add(int(node.right.arg))
    blocks: dict[UOp, int] = {}
    for loop, divisors in sizes.items():
        n_trips, (size, *more_sizes) = exact_trips(loop), divisors
        if (
            loop.arg.kind is AxisType.LOOP
            and not more_sizes
            and isinstance(n_trips, int)
            and n_trips % size == 0
            and size >= lanes
        ):
            blocks[loop] = size
    return blocks
