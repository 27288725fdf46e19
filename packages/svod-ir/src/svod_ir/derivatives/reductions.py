"""The derivatives of reductions and of prefix reductions along an axis."""

from __future__ import annotations

from typing import Final

from svod_dtype import int64
from svod_ir.build import (
    make_alu,
    make_cast,
    make_expand,
    make_flip,
    make_gather,
    make_iota,
    make_pad,
    make_permute,
    make_reshape,
    make_scan_axis,
    make_scatter_add,
    make_shrink,
)
from svod_ir.derivatives.recurrence import solve_recurrence
from svod_ir.derivatives.rule import Derivative, Parts, Wanted, add_up, scale
from svod_ir.ops import Op
from svod_ir.sizes import normalize_size, product
from svod_ir.uop import SInt, UOp, to_node

__all__ = ["REDUCE_AXIS", "SCAN_AXIS"]


def _reverse_reduce(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    x = node.source
    spread = make_expand(cotangent, x.shape)
    if node.arg.op is Op.ADD:
        return [spread]
    if node.arg.op is Op.MUL:
        # Not the product divided by the element: elements may be 0.
        return [scale(spread, _multiply_others(x, node.arg.axes))]
    # Elements that tie for the maximum share the derivative equally.
    shared = make_alu(Op.FDIV, cotangent, _count_equal(node))
    return [_take_extrema(node, make_expand(shared, x.shape))]


def _forward_reduce(node: UOp, tangents: Parts) -> UOp | None:
    (tangent,) = tangents
    if tangent is None:
        return None
    if node.arg.op is Op.ADD:
        return add_up(tangent, node.arg.axes)
    if node.arg.op is Op.MUL:
        return add_up(scale(tangent, _multiply_others(node.source, node.arg.axes)), node.arg.axes)
    return make_alu(
        Op.FDIV, add_up(_take_extrema(node, tangent), node.arg.axes), _count_equal(node)
    )


def _is_extremum(node: UOp) -> UOp:
    return make_alu(Op.EQ, node.source, make_expand(node, node.source.shape))


def _take_extrema(node: UOp, value: UOp) -> UOp:
    """`value` where the operand equals the reduction's result, else 0."""
    return make_alu(Op.WHERE, _is_extremum(node), value, UOp.const(value.dtype, 0))


def _count_equal(node: UOp) -> UOp:
    """Number of elements that tie for the maximum, or 1 where it is NaN, which equals nothing."""
    unit = UOp.const(node.dtype, 1)
    ones = make_alu(Op.WHERE, _is_extremum(node), unit, UOp.const(node.dtype, 0))
    return make_alu(Op.MAX, add_up(ones, node.arg.axes), unit)


def _multiply_others(x: UOp, axes: tuple[int, ...]) -> UOp:
    """Product, for each element, of all other elements along `axes`, without division because of
    zeros.

    It is the prefix product before the element times the suffix product after it.
    """
    shape = x.shape
    kept = [a for a in range(len(shape)) if a not in axes]
    order = (*kept, *axes)
    moved = make_permute(x, order)
    sizes = [shape[a] for a in kept]
    flat = make_reshape(moved, (*sizes, product([shape[a] for a in axes])))
    last = len(sizes)
    before = _shift(make_scan_axis(flat, Op.MUL, last), last, 1)
    backward = tuple(axis == last for axis in range(last + 1))
    after = make_flip(
        _shift(make_scan_axis(make_flip(flat, backward), Op.MUL, last), last, 1), backward
    )
    products = make_reshape(make_alu(Op.MUL, before, after), moved.shape)
    return make_permute(products, [order.index(a) for a in range(len(order))])


def _shift(x: UOp, axis: int, fill: float) -> UOp:
    """Elements shifted by one along an axis; the first is `fill`."""
    size = x.shape[axis]
    bounds: list[tuple[SInt, SInt]] = [(0, s) for s in x.shape]
    bounds[axis] = (0, normalize_size(size - 1))
    padding: list[tuple[SInt, SInt]] = [(0, 0)] * len(x.shape)
    padding[axis] = (1, 0)
    moved = make_pad(make_shrink(x, bounds), padding)
    if fill == 0:
        return moved
    # PAD fills with zeros, so another value is selected by index.
    is_first = make_alu(Op.EQ, _count_along(x, axis), UOp.const(int64, 0))
    return make_alu(Op.WHERE, is_first, UOp.const(x.dtype, fill), moved)


def _count_along(x: UOp, axis: int) -> UOp:
    """Index along an axis, in the shape of `x`."""
    column = [size if a == axis else 1 for a, size in enumerate(x.shape)]
    return make_expand(make_reshape(make_iota(x.shape[axis], int64), column), x.shape)


REDUCE_AXIS: Final = Derivative(_reverse_reduce, _forward_reduce)


def _reverse_scan(node: UOp, cotangent: UOp, _: Wanted) -> Parts:
    op, axis = node.arg
    if op is Op.ADD:
        return [_scan_back(cotangent, axis)]
    if op is Op.MUL:
        # S(j) = c(j) + x(j + 1) S(j + 1), and the derivative is S(j) times the product of the
        # preceding elements. It avoids division, so zeros are allowed.
        x = node.source
        backward = tuple(a == axis for a in range(len(x.shape)))
        factors = _shift(make_flip(x, backward), axis, 0)
        sums = make_flip(solve_recurrence(factors, make_flip(cotangent, backward), axis), backward)
        return [make_alu(Op.MUL, sums, _shift(node, axis, 1))]
    return [_scatter_extrema(node, cotangent)]


def _forward_scan(node: UOp, tangents: Parts) -> UOp | None:
    (tangent,) = tangents
    if tangent is None:
        return None
    op, axis = node.arg
    if op is Op.ADD:
        return make_scan_axis(tangent, Op.ADD, axis)
    if op is Op.MUL:
        return solve_recurrence(node.source, make_alu(Op.MUL, tangent, _shift(node, axis, 1)), axis)
    flat = make_reshape(tangent, (product(tangent.shape),))
    return make_gather(flat, _locate_extrema(node), 0)


def _scan_back(x: UOp, axis: int) -> UOp:
    """Suffix sums along an axis."""
    backward = tuple(a == axis for a in range(len(x.shape)))
    return make_flip(make_scan_axis(make_flip(x, backward), Op.ADD, axis), backward)


def _locate_extrema(node: UOp) -> UOp:
    """Index, in the flat operand, of the first element that equals each running maximum."""
    axis = node.arg.axis
    before = _shift(node, axis, 0)
    index = _count_along(node, axis)
    is_first = make_alu(Op.EQ, index, UOp.const(int64, 0))
    is_new = make_alu(Op.OR, is_first, make_alu(Op.NE, node, before))
    # A NaN differs from itself; the first one stays.
    is_nan = make_alu(Op.NE, before, before)
    is_new = make_alu(Op.AND, is_new, make_alu(Op.OR, is_first, make_alu(Op.NOT, is_nan)))
    latest = make_scan_axis(make_alu(Op.WHERE, is_new, index, UOp.const(int64, 0)), Op.MAX, axis)
    flat_index = UOp.const(int64, 0)
    for a, size in enumerate(node.shape):
        flat_index = make_alu(Op.MUL, flat_index, make_cast(to_node(size), int64))
        flat_index = make_alu(Op.ADD, flat_index, latest if a == axis else _count_along(node, a))
    return flat_index


def _scatter_extrema(node: UOp, cotangent: UOp) -> UOp:
    shape = node.shape
    size = product(shape)
    indices = make_reshape(_locate_extrema(node), (size,))
    return make_reshape(make_scatter_add(make_reshape(cotangent, (size,)), indices, 0, size), shape)


SCAN_AXIS: Final = Derivative(_reverse_scan, _forward_scan)
