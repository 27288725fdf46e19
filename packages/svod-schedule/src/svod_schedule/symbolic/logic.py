"""Boolean algebra and WHERE."""

from __future__ import annotations

from typing import Final

from svod_ir import Op, RuleSet, UOp, node_key, rule
from svod_ir.ops import ELEMENTWISE
from svod_ir.pattern import BOOL, const, node, splat, var

__all__ = ["LOGIC"]

x, y, z, w, a, b = var("x"), var("y"), var("z"), var("w"), var("a"), var("b")
_AND_OR: Final = frozenset({Op.AND, Op.OR})
_MAX_CHAIN: Final = 64
"""Maximum number of operands of a chain that is sorted: each of its nodes is a chain, so the total cost
grows with the square."""


@rule(
    node(Op.AND, x, splat(value=True), kinds=BOOL), node(Op.XOR, x, splat(value=False), kinds=BOOL)
)
def drop_truth(x: UOp) -> UOp:
    """x & true -> x."""
    return x


@rule(node(Op.OR, var(), splat("c", value=True), kinds=BOOL))
def absorb_truth(c: UOp) -> UOp:
    """x | true -> true."""
    return c


@rule(node(Op.XOR, x, splat(value=True), kinds=BOOL))
def exclusive_truth(x: UOp) -> UOp:
    """x ^ true -> ~x."""
    return UOp(Op.NOT, x.dtype, (x,))


@rule(node(frozenset({Op.MUL, Op.MIN}), x, y, kinds=BOOL).ordered())
def product_of_bools(x: UOp, y: UOp) -> UOp:
    """x * y -> x & y, min(x, y) -> x & y, for bools."""
    return UOp(Op.AND, x.dtype, (x, y))


@rule(node(frozenset({Op.ADD, Op.MAX}), x, y, kinds=BOOL).ordered())
def sum_of_bools(x: UOp, y: UOp) -> UOp:
    """x + y -> x | y, max(x, y) -> x | y, for bools."""
    return UOp(Op.OR, x.dtype, (x, y))


@rule(node(Op.LT, var("x", BOOL), y))
def order_of_bools(x: UOp, y: UOp) -> UOp:
    """x < y -> ~x & y, for bools."""
    return UOp(Op.AND, y.dtype, (UOp(Op.NOT, x.dtype, (x,)), y))


@rule(node(Op.LE, var("x", BOOL), y))
def weak_order_of_bools(x: UOp, y: UOp) -> UOp:
    """x <= y -> ~x | y, for bools."""
    return UOp(Op.OR, y.dtype, (UOp(Op.NOT, x.dtype, (x,)), y))


@rule(node(_AND_OR, x, y, name="n", kinds=BOOL).ordered())
def normalize_chain(n: UOp) -> UOp | None:
    """(x & y) & x -> x & y, x & ~x -> false, (i < 4) & (i < 7) -> i < 4, (i < 4) & ~(i < 7) ->
    false; so for |.

    The operands of a chain become distinct and sorted.
    """
    operands = _flatten(n)
    distinct = _tighten(dict.fromkeys(operands), n.op)
    if distinct is None or any(o.op is Op.NOT and o.source in distinct for o in distinct):
        return UOp.const(n.dtype, n.op is Op.OR)
    # Sorted by structure, so that equal conditions are one node, in every process.
    chain, *operands_left = sorted(distinct, key=node_key)
    for operand in operands_left:
        chain = UOp(n.op, n.dtype, (chain, operand))
    return chain


def _flatten(n: UOp) -> list[UOp]:
    operands: list[UOp] = []
    stack = [n]
    while stack:
        current = stack.pop()
        if current.op is n.op and len(operands) + len(stack) < _MAX_CHAIN:
            stack += reversed(current.src)
        else:
            operands.append(current)
    return operands


def _tighten(operands: dict[UOp, None], op: Op) -> dict[UOp, None] | None:
    """Keep the tightest limit on each side of an expression; None if the limits contradict each
    other.

    For OR, the loosest limits are kept, and None means that the chain always holds.
    """
    limits: dict[tuple[UOp, bool], UOp] = {}
    for operand in operands:
        is_negated = operand.op is Op.NOT
        order = operand.source if is_negated else operand
        if order.op is not Op.LT or order.right.op is not Op.CONST or not order.left.dtype.is_int:
            continue
        key = (order.left, is_negated)
        known = limits.get(key)
        # The smallest c implies all x < c, the largest c implies all ~(x < c).
        if known is None or (_limit(operand) < _limit(known)) == (is_negated == (op is Op.OR)):
            limits[key] = operand
    for (expression, is_negated), operand in limits.items():
        lower = None if is_negated else limits.get((expression, True))
        if lower is not None and (
            _limit(lower) >= _limit(operand) if op is Op.AND else _limit(lower) <= _limit(operand)
        ):
            return None
    dropped = {o for o in operands if (key := _limit_key(o)) in limits and limits[key] is not o}
    return {o: None for o in operands if o not in dropped}


def _limit_key(operand: UOp) -> tuple[UOp, bool]:
    order = operand.source if operand.op is Op.NOT else operand
    return (
        order.left if order.op is Op.LT and order.right.op is Op.CONST else order,
        operand.op is Op.NOT,
    )


def _limit(operand: UOp) -> int:
    return (operand.source if operand.op is Op.NOT else operand).right.arg


@rule(node(Op.WHERE, splat("c", BOOL), x, y))
def choose_by_constant(c: UOp, x: UOp, y: UOp) -> UOp:
    """where(true, x, y) -> x, where(false, x, y) -> y."""
    return x if (c.arg if c.op is Op.CONST else c.arg[0]) else y


@rule(node(Op.WHERE, var(), x, x))
def choose_the_same(x: UOp) -> UOp:
    """where(c, x, x) -> x."""
    return x


@rule(node(Op.WHERE, node(Op.NOT, z), x, y))
def choose_by_negation(x: UOp, y: UOp, z: UOp) -> UOp:
    """where(~c, x, y) -> where(c, y, x)."""
    return UOp(Op.WHERE, x.dtype, (z, y, x))


@rule(
    node(Op.WHERE, z, node(Op.WHERE, z, x, var()), y),
    node(Op.WHERE, z, x, node(Op.WHERE, z, var(), y)),
)
def choose_twice(z: UOp, x: UOp, y: UOp) -> UOp:
    """where(c, where(c, x, _), y) -> where(c, x, y), and the same for the other branch."""
    return UOp(Op.WHERE, x.dtype, (z, x, y))


@rule(node(Op.WHERE, a, node(Op.WHERE, b, x, y), y))
def choose_by_both(a: UOp, b: UOp, x: UOp, y: UOp) -> UOp | None:
    """where(a, where(b, x, y), y) -> where(a & b, x, y)."""
    # One condition for all lanes and one for each are not combined: that takes a BROADCAST.
    if a.dtype is not b.dtype:
        return None
    return UOp(Op.WHERE, x.dtype, (UOp(Op.AND, a.dtype, (a, b)), x, y))


@rule(node(Op.WHERE, z, x, y, name="n", kinds=BOOL))
def choose_truth(n: UOp, z: UOp, x: UOp, y: UOp) -> UOp | None:
    """where(c, true, y) -> c | y, where(c, x, false) -> c & x, where(c, false, true) -> ~c."""
    if z.dtype is not n.dtype:
        return None
    if _is(x, True):
        return UOp(Op.OR, n.dtype, (z, y))
    if _is(y, False):
        return UOp(Op.AND, n.dtype, (z, x))
    if _is(x, False):
        return UOp(Op.AND, n.dtype, (UOp(Op.NOT, n.dtype, (z,)), y))
    return UOp(Op.OR, n.dtype, (UOp(Op.NOT, n.dtype, (z,)), x)) if _is(y, True) else None


def _is(constant: UOp, value: bool) -> bool:
    return constant.op in (Op.CONST, Op.VCONST) and constant is UOp.const(constant.dtype, value)


_BINARY: Final = ELEMENTWISE - {Op.WHERE, Op.CAST, Op.BITCAST}
_constants = node(Op.WHERE, z, const("a"), const("b"))


@rule(
    node(_BINARY, _constants, const("c"), name="n"), node(_BINARY, const("c"), _constants, name="n")
)
def choose_among_results(n: UOp, z: UOp, a: UOp, b: UOp, c: UOp) -> UOp:
    """where(c, 1, 2) + 3 -> where(c, 1 + 3, 2 + 3)."""
    first, second = (tuple(s if s is c else chosen for s in n.src) for chosen in (a, b))
    # Constants of equal value are one node, so identity does not tell which operand is `c`.
    if a is c or b is c:
        is_left = n.right is c
        first, second = ((a, c), (b, c)) if is_left else ((c, a), (c, b))
    return UOp(Op.WHERE, n.dtype, (z, n.with_src(first), n.with_src(second)))


LOGIC = RuleSet(
    "logic",
    (
        drop_truth,
        absorb_truth,
        exclusive_truth,
        product_of_bools,
        sum_of_bools,
        order_of_bools,
        weak_order_of_bools,
        normalize_chain,
        choose_by_constant,
        choose_the_same,
        choose_by_negation,
        choose_twice,
        choose_by_both,
        choose_truth,
        choose_among_results,
    ),
    is_pure=True,
)
"""Boolean algebra and WHERE."""
