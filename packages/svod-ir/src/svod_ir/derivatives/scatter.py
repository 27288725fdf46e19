"""The derivative of SCATTER, which replaces rows of its base or adds to them.

The tangent is a SCATTER of the tangents. In reverse mode, the cotangent of a row is that of the row
of the result that it was written to. Where rows are replaced, it is 0 if a later row was written
there, and the cotangent of the base is 0 where a row was written."""

from __future__ import annotations

from typing import Final

from svod_dtype import int64
from svod_ir.build import (
    make_alu,
    make_expand,
    make_gather,
    make_iota,
    make_reshape,
    make_scatter,
)
from svod_ir.derivatives.rule import Derivative, Parts, Wanted, make_zeros
from svod_ir.ops import Op
from svod_ir.sizes import product
from svod_ir.uop import UOp

__all__ = ["SCATTER"]


def _reverse(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    rows, indices, base = node.src
    axis, op = node.arg
    gathered = make_gather(cotangent, indices, axis)
    if op is Op.ADD:
        return [gathered, None, cotangent]
    zeros = make_zeros(rows)
    # From the axes of the indices to those of the rows.
    shape = (*(1,) * axis, *indices.shape, *(1,) * (len(base.shape) - axis - 1))
    is_last = make_expand(make_reshape(_mark_last(node), shape), rows.shape)
    return [
        make_alu(Op.WHERE, is_last, gathered, zeros),
        None,
        make_scatter(cotangent, indices, zeros, axis),
    ]


def _mark_last(node: UOp) -> UOp:
    """Mark each index of a SCATTER that no later one repeats; others are arbitrary out of bounds."""
    indices, axis = node.position, int(node.arg.axis)
    order = make_reshape(make_iota(product(indices.shape), int64), indices.shape)
    size = node.shape[axis]
    nobody = make_expand(make_reshape(UOp.const(int64, -1), (1,)), (size,))
    last = make_gather(make_scatter(nobody, indices, order, 0), indices, 0)
    return make_alu(Op.EQ, last, order)


def _forward(node: UOp, tangents: Parts) -> UOp | None:
    rows, indices, base = node.src
    new_rows = make_zeros(rows) if tangents[0] is None else tangents[0]
    new_base = make_zeros(base) if tangents[2] is None else tangents[2]
    return make_scatter(new_base, indices, new_rows, node.arg.axis, op=node.arg.op)


SCATTER: Final = Derivative(_reverse, _forward)
