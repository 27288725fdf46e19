"""Comparisons of integers.

    i * 4 + j < 16      ->  i < 4        when 0 <= j < 4
    i // 4 < 3          ->  i < 12
    3 <= i              ->  ~(i < 3)

For dtype index, every comparison becomes `terms < terms + constant`, with positive coefficients on
both sides, or the NOT of it. The difference of the sides is read as a polynomial. For dtypes that
wrap, rules fire only if neither side nor the result can wrap.
"""

from __future__ import annotations

from math import gcd
from typing import Final

from svod_dtype import bool_
from svod_ir import Op, RuleSet, UOp, rule
from svod_ir.pattern import BOOL, INT, const, node, var
from svod_ir.polynomial import ONE, Terms, add_scaled, get_interval
from svod_schedule.symbolic.terms import first_monomial, fits, from_terms, to_terms

__all__ = ["COMPARISONS"]

x, y = var("x"), var("y")
_INDEX: Final = frozenset({"index"})


@rule(node(frozenset({Op.LT, Op.NE}), x, x, name="n"))
def never_less_than_itself(n: UOp, x: UOp) -> UOp | None:
    """x < x -> false; x != x -> false for integers and bools."""
    return UOp.const(n.dtype, False) if n.op is Op.LT or x.dtype.kind != "float" else None


@rule(node(frozenset({Op.LE, Op.EQ}), x, x, name="n"))
def always_equal_to_itself(n: UOp, x: UOp) -> UOp | None:
    """x <= x -> true, x == x -> true, for integers and bools."""
    return UOp.const(n.dtype, True) if x.dtype.kind != "float" else None


@rule(node(Op.LE, x, var("y", INT)))
def less_or_equal(x: UOp, y: UOp) -> UOp:
    """x <= y -> ~(y < x), for integers."""
    return _not(UOp(Op.LT, bool_.vec(x.dtype.lanes), (y, x)))


@rule(node(Op.LT, x, var("y", INT), name="n"))
def compare_by_difference(n: UOp, x: UOp, y: UOp) -> UOp | None:
    """x < y -> true or false when x - y has only one sign."""
    difference = _find_difference(x, y)
    if difference is None:
        return None
    # The difference has tighter bounds than its sides: common terms cancel.
    low, high = get_interval(difference)
    return UOp.const(n.dtype, True) if high < 0 else UOp.const(n.dtype, False) if low >= 0 else None


@rule(node(Op.LT, x, var("y", INT), name="n"))
def move_terms(n: UOp, x: UOp, y: UOp) -> UOp | None:
    """x*2 + 1 < y*2 + 8 -> x < y + 4."""
    difference = _find_difference(x, y)
    if difference is None:
        return None
    terms, limit = _reduce_order(difference)
    for reduced in (_divide_order(terms, limit), _lift_quotient(terms, limit)):
        if reduced is not None:
            terms, limit = _reduce_order(reduced)
    order = _make_order(terms, limit, x)
    # The same node: the comparison is in normal form, and the rewriter would not end otherwise.
    return None if order is n else order


def _reduce_order(difference: Terms) -> tuple[Terms, int]:
    """Return terms and limit such that terms < limit is equivalent to difference < 0, divided by
    their common factor.
    """
    terms = dict(difference)
    limit = -terms.pop(ONE, 0)
    factor = gcd(*terms.values())
    if factor > 1:
        terms = {m: coefficient // factor for m, coefficient in terms.items()}
        # Rounded up: 3 * a < 7 holds for a = 2, and so does a < 3.
        limit = -(-limit // factor)
    return terms, limit


def _divide_order(terms: Terms, limit: int) -> Terms | None:
    """a*g + b < c -> a < k when (c - b) / g rounds up to k for every value of b. Returns a - k."""
    # The largest g first: it leaves the smallest coefficients.
    for g in sorted({abs(coefficient) for coefficient in terms.values()} - {1}, reverse=True):
        indivisible = {m: coefficient for m, coefficient in terms.items() if coefficient % g}
        low, high = get_interval(indivisible)
        k = -(-(limit - low) // g)
        if len(indivisible) < len(terms) and k == -(-(limit - high) // g):
            return add_scaled(
                {m: coefficient // g for m, coefficient in terms.items() if m not in indivisible},
                {ONE: k},
                -1,
            )
    return None


def _lift_quotient(terms: Terms, limit: int) -> Terms | None:
    """x // d < c -> x < c*d, and -(x // d) < c -> (1 - c)*d - 1 < x. Returns the difference."""
    if len(terms) != 1:
        return None
    ((monomial, sign),) = terms.items()
    if len(monomial) != 1 or sign not in (1, -1) or monomial[0].op is not Op.IDIV:
        return None
    x, d = monomial[0].src
    numerator = to_terms(x)
    if d.op is not Op.CONST or d.arg <= 0 or not fits(numerator, x.dtype):
        return None
    # -(x // d) < c is 1 - c <= x // d.
    if sign == 1:
        return add_scaled(numerator, {ONE: limit * d.arg}, -1)
    return add_scaled(add_scaled({}, {ONE: (1 - limit) * d.arg - 1}, 1), numerator, -1)


def _make_order(terms: Terms, limit: int, x: UOp) -> UOp | None:
    """Make the node of terms < limit, as a NOT if every coefficient is negative."""
    left = {m: coefficient for m, coefficient in terms.items() if coefficient > 0}
    right: Terms = {m: -coefficient for m, coefficient in terms.items() if coefficient < 0}
    is_negated = not left
    if is_negated:
        # -t < c, which is -c < t, is ~(t < 1 - c).
        left, right, limit = right, {}, 1 - limit
    if limit:
        right[ONE] = limit
    if not fits(left, x.dtype) or not fits(right, x.dtype):
        return None
    order = UOp(
        Op.LT, bool_.vec(x.dtype.lanes), (from_terms(left, x.dtype), from_terms(right, x.dtype))
    )
    return _not(order) if is_negated else order


def _find_difference(x: UOp, y: UOp) -> Terms | None:
    left, right = to_terms(x), to_terms(y)
    if not fits(left, x.dtype) or not fits(right, y.dtype):
        return None
    return add_scaled(left, right, -1)


@rule(node(frozenset({Op.EQ, Op.NE}), x, var("y", INT), name="n"))
def move_equal_terms(n: UOp, x: UOp, y: UOp) -> UOp | None:
    """x*2 + 1 == y*2 + 9 -> x == y + 4; x*2 == 5 -> false."""
    difference = _find_difference(x, y)
    if difference is None:
        return None
    low, high = get_interval(difference)
    constant = -difference.pop(ONE, 0)
    factor = gcd(*difference.values())
    if high < 0 or low > 0 or (factor and constant % factor):
        return UOp.const(n.dtype, n.op is Op.NE)
    if low == high == 0:
        return UOp.const(n.dtype, n.op is Op.EQ)
    # The first term becomes positive, so that x == y and y == x are one node.
    sign = factor if difference[first_monomial(difference)] > 0 else -factor
    left = {
        m: coefficient // sign for m, coefficient in difference.items() if coefficient // sign > 0
    }
    right: Terms = {
        m: -(coefficient // sign)
        for m, coefficient in difference.items()
        if coefficient // sign < 0
    }
    if constant:
        right[ONE] = constant // sign
    if not fits(left, x.dtype) or not fits(right, x.dtype):
        return None
    equality = n.with_src((from_terms(left, x.dtype), from_terms(right, x.dtype)))
    return None if equality is n else equality


@rule(node(Op.NOT, node(frozenset({Op.EQ, Op.NE}), x, y, name="n")))
def negate_equality(n: UOp, x: UOp, y: UOp) -> UOp:
    """~(x == y) -> x != y, ~(x != y) -> x == y; also holds for NaN."""
    return UOp(Op.NE if n.op is Op.EQ else Op.EQ, n.dtype, (x, y))


@rule(node(frozenset({Op.EQ, Op.NE}), var("x", BOOL), const("c"), name="n"))
def compare_with_truth(n: UOp, x: UOp, c: UOp) -> UOp:
    """x == true -> x, x == false -> ~x, x != true -> ~x, x != false -> x."""
    return x if (n.op is Op.EQ) == c.arg else _not(x)


_compared = frozenset({Op.LT, Op.EQ, Op.NE})


@rule(
    node(
        _compared,
        node(Op.CAST, var("x", INT), name="a"),
        node(Op.CAST, var("y", INT), name="b"),
        name="n",
    ).ordered()
)
def compare_casts(n: UOp, a: UOp, b: UOp, x: UOp, y: UOp) -> UOp | None:
    """cast(x) < cast(y) -> x < y when both casts keep every value and x and y have one dtype."""
    if x.dtype is not y.dtype or not _keeps(a) or not _keeps(b):
        return None
    return n.with_src((x, y))


@rule(node(_compared, node(Op.CAST, var("x", INT), name="a"), const("c", INT), name="n").ordered())
def compare_cast_with_constant(n: UOp, a: UOp, x: UOp, c: UOp) -> UOp | None:
    """cast(x) < c -> x < c when the cast keeps every value and c is one of x's dtype."""
    full = x.dtype.scalar
    return (
        n.with_src((x, UOp.const(x.dtype, c.arg)))
        if _keeps(a) and full.min <= c.arg <= full.max
        else None
    )


@rule(node(Op.LT, const("c", INT), node(Op.CAST, var("x", INT), name="a"), name="n"))
def compare_constant_with_cast(n: UOp, a: UOp, x: UOp, c: UOp) -> UOp | None:
    """c < cast(x) -> c < x when the cast keeps every value and c is one of x's dtype."""
    full = x.dtype.scalar
    return (
        n.with_src((UOp.const(x.dtype, c.arg), x))
        if _keeps(a) and full.min <= c.arg <= full.max
        else None
    )


_choice_below = node(Op.LT, node(Op.WHERE, var("z", BOOL), x, y), const("c", INT), name="n")


@rule(_choice_below)
def compare_choice(n: UOp, z: UOp, x: UOp, y: UOp, c: UOp) -> UOp | None:
    """where(z, x, 9) < 7 -> z & (x < 7)."""
    for condition, chosen, constant in ((z, x, y), (_not(z), y, x)):
        if constant.op is Op.CONST and constant.arg >= c.arg:
            return _both(condition, n.with_src((chosen, c)))
    return None


@rule(node(Op.NOT, _choice_below))
def negate_compared_choice(n: UOp, z: UOp, x: UOp, y: UOp, c: UOp) -> UOp | None:
    """~(where(z, x, -1) < 0) -> z & ~(x < 0)."""
    for condition, chosen, constant in ((z, x, y), (_not(z), y, x)):
        if constant.op is Op.CONST and constant.arg < c.arg:
            return _both(condition, _not(n.with_src((chosen, c))))
    return None


def _both(condition: UOp, order: UOp) -> UOp | None:
    # One condition for all lanes and one for each are not combined: that takes a BROADCAST.
    same = condition.dtype is order.dtype
    return UOp(Op.AND, order.dtype, (condition, order)) if same else None


def _keeps(cast: UOp) -> bool:
    if cast.dtype.kind not in INT:
        return False
    low, high = cast.source.bounds
    return cast.dtype.scalar.min <= low and high <= cast.dtype.scalar.max


def _not(condition: UOp) -> UOp:
    return UOp(Op.NOT, condition.dtype, (condition,))


COMPARISONS = RuleSet(
    "comparisons",
    (
        never_less_than_itself,
        always_equal_to_itself,
        # Casts first, so that the rules below see the sums inside of them.
        compare_casts,
        compare_cast_with_constant,
        compare_constant_with_cast,
        less_or_equal,
        compare_choice,
        negate_compared_choice,
        compare_by_difference,
        move_terms,
        move_equal_terms,
        negate_equality,
        compare_with_truth,
    ),
    is_pure=True,
)
"""Comparisons of integers, in normal form for dtype index."""
