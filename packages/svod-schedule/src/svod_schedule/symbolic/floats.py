"""Floating-point identities that are exact, including NaN, infinities and both zeros.

There is no x + 0.0 -> x, since -0.0 + 0.0 is 0.0, no x * 0.0 -> 0.0, since NaN and infinities give
NaN, and no reassociation of sums. The sign and payload of a NaN are not preserved."""

from __future__ import annotations

import math
from typing import Final

from svod_dtype import bool_
from svod_ir import Op, RuleSet, UOp, rule
from svod_ir.pattern import FLOAT, node, splat, splat_value, var

__all__ = ["FLOATS"]

x, c = var("x"), splat("c", FLOAT)
_ROUNDING: Final = frozenset({Op.TRUNC, Op.FLOOR, Op.CEIL, Op.ROUND})


@rule(
    node(Op.ADD, x, splat(value=-0.0), kinds=FLOAT), node(Op.SUB, x, splat(value=0.0), kinds=FLOAT)
)
def drop_float_zero(x: UOp) -> UOp:
    """x + -0.0 -> x, x - 0.0 -> x."""
    return x


@rule(node(Op.MUL, x, 1.0, kinds=FLOAT), node(Op.FDIV, x, 1.0), node(Op.POW, x, 1.0, kinds=FLOAT))
def drop_float_one(x: UOp) -> UOp:
    """x * 1.0 -> x, x / 1.0 -> x, x ** 1.0 -> x."""
    return x


@rule(
    node(Op.MUL, x, -1.0, kinds=FLOAT),
    node(Op.FDIV, x, -1.0),
    node(Op.SUB, splat(value=-0.0), x, kinds=FLOAT),
)
def negate_float(x: UOp) -> UOp:
    """x * -1.0 -> -x, x / -1.0 -> -x, -0.0 - x -> -x."""
    return UOp(Op.NEG, x.dtype, (x,))


@rule(
    node(Op.MAX, x, splat(value=-math.inf), kinds=FLOAT),
    node(Op.MIN, x, splat(value=math.inf), kinds=FLOAT),
)
def drop_infinity(x: UOp) -> UOp:
    """max(x, -inf) -> x, min(x, inf) -> x."""
    return x


@rule(node(Op.ADD, x, node(Op.NEG, var("y")), kinds=FLOAT))
def add_negated(x: UOp, y: UOp) -> UOp:
    """x + -y -> x - y."""
    return UOp(Op.SUB, x.dtype, (x, y))


@rule(node(Op.SUB, x, node(Op.NEG, var("y")), kinds=FLOAT))
def subtract_negated(x: UOp, y: UOp) -> UOp:
    """x - -y -> x + y."""
    return UOp(Op.ADD, x.dtype, (x, y))


@rule(
    node(
        frozenset({Op.MUL, Op.FDIV}), node(Op.NEG, x), node(Op.NEG, var("y")), name="n", kinds=FLOAT
    ).ordered()
)
def cancel_signs(n: UOp, x: UOp, y: UOp) -> UOp:
    """-x * -y -> x * y, -x / -y -> x / y."""
    return n.with_src((x, y))


@rule(node(Op.ABS, node(frozenset({Op.NEG, Op.ABS}), x, name="inner"), name="n"))
def absolute_twice(n: UOp, inner: UOp, x: UOp) -> UOp | None:
    """abs(-x) -> abs(x), abs(abs(x)) -> abs(x); also for signed integers, where abs and negation wrap
    alike.
    """
    return None if inner.op is Op.NEG and n.dtype.is_unsigned else UOp(Op.ABS, n.dtype, (x,))


@rule(node(_ROUNDING, node(_ROUNDING, var(), name="x")))
def round_twice(x: UOp) -> UOp:
    """floor(trunc(x)) -> trunc(x), for every kind of rounding to integers."""
    return x


@rule(node(Op.POW, x, splat("c", FLOAT), kinds=FLOAT))
def float_power(x: UOp, c: UOp) -> UOp | None:
    """x ** 2.0 -> x * x, x ** 0.5 -> sqrt(x) + 0.0 except for -inf, x ** -1.0 -> 1 / x, x ** 0.0 ->
    1.0 even for NaN.
    """
    match splat_value(c):
        case 0.0:
            return UOp.const(x.dtype, 1.0)
        # Exact: one multiplication rounds as the power does. A third power would round twice.
        case 2.0:
            return UOp(Op.MUL, x.dtype, (x, x))
        case 0.5:
            # sqrt(-0.0) is -0.0 and sqrt(-inf) is NaN, but the powers are 0.0 and inf (C17,
            # F.10.4.4).
            root = UOp(Op.ADD, x.dtype, (UOp(Op.SQRT, x.dtype, (x,)), UOp.const(x.dtype, 0.0)))
            is_lowest = UOp(Op.EQ, bool_.vec(x.dtype.lanes), (x, UOp.const(x.dtype, -math.inf)))
            return UOp(Op.WHERE, x.dtype, (is_lowest, UOp.const(x.dtype, math.inf), root))
        case -1.0:
            return UOp(Op.RECIPROCAL, x.dtype, (x,))
        case _:
            return None


FLOATS = RuleSet(
    "floats",
    (
        drop_float_zero,
        drop_float_one,
        negate_float,
        drop_infinity,
        add_negated,
        subtract_negated,
        cancel_signs,
        absolute_twice,
        round_twice,
        float_power,
    ),
    is_pure=True,
)
"""Floating-point identities that are exact."""
