"""Identities of single operations: neutral and absorbing elements, repeated operands, bits, minimum
and maximum.

Rules for floats are in `floats`: there x + 0 is not x, since -0.0 + 0.0 is 0.0.
"""

from __future__ import annotations

from typing import Final

from svod_ir import Op, RuleSet, UOp, rule
from svod_ir.pattern import BOOL, INT, const, node, splat, splat_value, var

__all__ = ["IDENTITIES"]

x, y, z, c, d = var("x"), var("y"), var("z"), splat("c"), splat("d")
_BITS: Final = frozenset({Op.AND, Op.OR})
_ORDER: Final = frozenset({Op.MAX, Op.MIN})
_INDEX: Final = frozenset({"index"})
_DUAL: Final = {Op.MAX: Op.MIN, Op.MIN: Op.MAX, Op.AND: Op.OR, Op.OR: Op.AND}


@rule(
    node(Op.ADD, x, 0, kinds=INT),
    node(Op.SUB, x, 0, kinds=INT),
    node(Op.OR, x, 0),
    node(Op.XOR, x, 0),
    node(Op.SHL, x, 0),
    node(Op.SHR, x, 0),
)
def drop_zero(x: UOp) -> UOp:
    """x + 0 -> x, x - 0 -> x, x | 0 -> x, x ^ 0 -> x, x << 0 -> x, x >> 0 -> x."""
    return x


@rule(node(Op.MUL, x, 1, kinds=INT))
def drop_one(x: UOp) -> UOp:
    """x * 1 -> x."""
    return x


@rule(node(Op.MUL, var(), 0, name="n", kinds=INT), node(Op.AND, var(), 0, name="n"))
def absorb_zero(n: UOp) -> UOp:
    """x * 0 -> 0, x & 0 -> 0."""
    return UOp.const(n.dtype, 0)


@rule(node(Op.SUB, x, x, kinds=INT), node(Op.XOR, x, x))
def cancel_itself(x: UOp) -> UOp:
    """x - x -> 0, x ^ x -> 0."""
    return UOp.const(x.dtype, 0)


@rule(node(_BITS | _ORDER, x, x))
def combine_with_itself(x: UOp) -> UOp:
    """x & x -> x, x | x -> x, max(x, x) -> x, min(x, x) -> x."""
    return x


@rule(node(_BITS | _ORDER, node(_BITS | _ORDER, x, y, name="inner"), x, name="n"))
def combine_twice(n: UOp, inner: UOp, x: UOp) -> UOp | None:
    """(x & y) & x -> x & y, (x | y) & x -> x, and so for |, max and min."""
    if inner.op is n.op:
        return inner
    # Not for floats: if y is NaN, min(max(x, y), x) is NaN.
    return x if inner.op is _DUAL[n.op] and x.dtype.kind != "float" else None


@rule(node(Op.AND, x, splat("c", INT)))
def drop_mask(x: UOp, c: UOp) -> UOp | None:
    """x & c -> x when c is a mask of ones that covers every value of x."""
    mask = splat_value(c)
    assert isinstance(mask, int)
    # All ones in a signed dtype; for an unsigned one, its maximum.
    if mask == -1 or (mask & (mask + 1) == 0 and x.vmin >= 0 and x.vmax <= mask):
        return x
    return x if mask == x.dtype.scalar.max and x.dtype.kind == "uint" else None


@rule(node(Op.OR, var(), splat("c", INT, -1)))
def absorb_ones(c: UOp) -> UOp:
    """x | -1 -> -1."""
    return c


_regrouped = frozenset({Op.AND, Op.OR, Op.XOR, Op.MAX, Op.MIN})


@rule(node(_regrouped, node(_regrouped, x, c, name="inner"), d, name="n"))
def combine_constants(n: UOp, inner: UOp, x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x & c) & d -> x & (c & d), and so for |, ^, max and min."""
    # Constants are left to folding, which has the values.
    if inner.op is not n.op or x.op in (Op.CONST, Op.VCONST):
        return None
    return n.with_src((x, UOp(n.op, n.dtype, (c, d))))


@rule(node(Op.NOT, node(Op.NOT, x)), node(Op.NEG, node(Op.NEG, x)))
def undo_twice(x: UOp) -> UOp:
    """~~x -> x, --x -> x."""
    return x


@rule(node(Op.MAX, x, y, kinds=INT | BOOL))
def maximum_by_bounds(x: UOp, y: UOp) -> UOp | None:
    """max(x, y) -> x when no value of y is larger than any of x."""
    # Patterns of commutative ops are tried in both orders, so this also finds y.
    return x if x.vmin >= y.vmax else None


@rule(node(Op.MIN, x, y, kinds=INT | BOOL))
def minimum_by_bounds(x: UOp, y: UOp) -> UOp | None:
    """min(x, y) -> x when no value of y is smaller than any of x."""
    return x if x.vmax <= y.vmin else None


@rule(node(Op.ABS, x, kinds=INT))
def absolute_of_positive(x: UOp) -> UOp | None:
    """abs(x) -> x when x >= 0."""
    return x if x.vmin >= 0 else None


@rule(node(Op.SHL, x, const("c"), kinds=_INDEX))
def shift_left_of_index(x: UOp, c: UOp) -> UOp | None:
    """x << c -> x * 2**c, for dtype index."""
    # As a product, the shift takes part in polynomials. From 63 on, its factor is no 64-bit
    # integer.
    return UOp(Op.MUL, x.dtype, (x, UOp.const(x.dtype, 1 << c.arg))) if 0 <= c.arg < 63 else None


@rule(node(Op.SHR, x, const("c"), kinds=_INDEX))
def shift_right_of_index(x: UOp, c: UOp) -> UOp | None:
    """x >> c -> x // 2**c, for dtype index."""
    return UOp(Op.IDIV, x.dtype, (x, UOp.const(x.dtype, 1 << c.arg))) if 0 <= c.arg < 63 else None


@rule(node(Op.AND, x, const("c", _INDEX, when=lambda k: k.arg > 0 and k.arg & (k.arg + 1) == 0)))
def mask_of_index(x: UOp, c: UOp) -> UOp:
    """x & (2**n - 1) -> x % 2**n, for dtype index."""
    return UOp(Op.MOD, x.dtype, (x, UOp.const(x.dtype, c.arg + 1)))


@rule(node(Op.POW, x, splat("c", INT), kinds=INT))
def small_power(x: UOp, c: UOp) -> UOp | None:
    """x ** 0 -> 1, x ** 1 -> x, x ** 3 -> x * (x * x), for constant powers of integers up to 8."""
    # Up to 8, four multiplications suffice; a larger power is left to `decompose`, which loops over
    # its bits.
    exponent = splat_value(c)
    if not isinstance(exponent, int) or not 0 <= exponent <= 8:
        return None
    result, factor = None, x
    while exponent:
        if exponent & 1:
            result = factor if result is None else UOp(Op.MUL, x.dtype, (result, factor))
        factor = UOp(Op.MUL, x.dtype, (factor, factor))
        exponent >>= 1
    return UOp.const(x.dtype, 1) if result is None else result


IDENTITIES = RuleSet(
    "identities",
    (
        drop_zero,
        drop_one,
        absorb_zero,
        cancel_itself,
        combine_with_itself,
        combine_twice,
        drop_mask,
        absorb_ones,
        combine_constants,
        undo_twice,
        maximum_by_bounds,
        minimum_by_bounds,
        absolute_of_positive,
        shift_left_of_index,
        shift_right_of_index,
        mask_of_index,
        small_power,
    ),
    is_pure=True,
)
"""Neutral and absorbing elements, and repeated operands."""
