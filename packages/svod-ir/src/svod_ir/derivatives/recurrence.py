"""Linear recurrences along an axis, as loops: they express prefix products and their
derivatives."""

from __future__ import annotations

from svod_ir.build import make_alu, make_constant_like, make_permute, make_reshape, make_shrink
from svod_ir.derivatives.new_loop import make_shaped
from svod_ir.derivatives.shards import replicate_first_axis
from svod_ir.loops import get_slots, make_loop, make_parameter
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["solve_recurrence"]


def solve_recurrence(factors: UOp, terms: UOp, axis: int) -> UOp:
    """Solution of s(i) = factors(i) * s(i - 1) + terms(i) along an axis, with s(-1) = 0."""
    order = (axis, *(a for a in range(len(terms.shape)) if a != axis))
    sliced = [replicate_first_axis(make_permute(x, order)) for x in (factors, terms)]
    (count, *shape) = sliced[1].shape
    first = make_shrink(make_alu(Op.MUL, *sliced), [(0, 1), *((0, s) for s in shape)])
    like = make_reshape(first, shape)
    # On the devices of the states, which are computed from both.
    initial = make_shaped(make_constant_like(like, 0), like)
    operands = [initial, *sliced]
    state, factor, term = (
        make_parameter(operand, slot, is_slice=index > 0)
        for index, (operand, slot) in enumerate(zip(operands, get_slots(operands), strict=True))
    )
    new = make_alu(Op.ADD, make_alu(Op.MUL, factor, state), term)
    _, stacked = make_loop(UOp.sink(new, new), count, operands, n_carried=1, n_sliced=2)
    return make_permute(stacked, [order.index(a) for a in range(len(order))])
