"""Closed forms of reductions.

    sum of where(r == e, a[r], 0) over r    ->  a[e] where 0 <= e < n, else 0
    sum of where(r < e, c, 0) over r        ->  max(0, min(e, n)) * c
    max of x over r                         ->  x                       when x does not depend on r

The first turns a product with a one-hot matrix into a gather. Terms must be 0 by selection (WHERE),
not by multiplication of floats: 0 times NaN is NaN.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from svod_dtype import bool_, index
from svod_ir import Op, RuleSet, UOp, rule
from svod_ir.pattern import BOOL, INT, node, splat_value, var
from svod_ir.polynomial import Terms, add_scaled
from svod_schedule.symbolic.casts import keeps_values
from svod_schedule.symbolic.terms import fits, from_terms, to_terms
from svod_schedule.symbolic.valid import iter_clauses

__all__ = ["REDUCTIONS"]

_EXTREMES: Final = frozenset({Op.MAX, Op.MIN})


@rule(node(Op.MUL, var("x"), node(Op.CAST, var("c", BOOL)), kinds=INT))
def multiply_by_condition(x: UOp, c: UOp) -> UOp:
    """x * cast(c) -> where(c, x, 0), for a bool c and an integer x."""
    return UOp(Op.WHERE, x.dtype, (c, x, UOp.const(x.dtype, 0)))


@rule(node(Op.REDUCE, name="n"))
def reduce_invariant(n: UOp) -> UOp | None:
    """max(x) over r -> x, sum(x) over r -> x * n for integers, when x does not depend on r and r
    is not empty.
    """
    x, ranges = n.source, n.loops
    if x.dtype is not n.dtype or x.dtype.lanes != 1:
        return None
    free = [r for r in ranges if r.op is Op.RANGE and r not in x.ranges and r.stop.vmin > 0]
    if not free:
        return None
    # Not for floats: n additions round differently than one product.
    if n.arg is Op.ADD and x.dtype.is_int:
        for r in free:
            x = UOp(Op.MUL, x.dtype, (x, UOp(Op.CAST, x.dtype, (r.stop,))))
    elif n.arg not in _EXTREMES and x.dtype.kind != "bool":
        return None
    loops_left = tuple(r for r in ranges if r not in free)
    return n.with_src((x, *loops_left)) if loops_left else x


@rule(node(Op.REDUCE, node(Op.WHERE), name="n", arg=Op.ADD, has_more=True))
def select_by_counter(n: UOp) -> UOp | None:
    """sum of where(r == e, a[r], 0) over r -> a[e] where 0 <= e < n, else 0, when e does not depend
    on r.
    """
    choice = _read_choice(n.source)
    if choice is None:
        return None
    for r in n.loops:
        for clause in choice.clauses:
            solution = _solve(clause, r) if clause.op is Op.EQ else None
            if solution is not None and solution.sign:
                return _select(n, choice, clause, r, solution.value)
    return None


@rule(node(Op.REDUCE, node(Op.WHERE), name="n", arg=Op.ADD, kinds=INT, has_more=True))
def count_by_counter(n: UOp) -> UOp | None:
    """sum of where(r < e, c, 0) over r -> max(0, min(e, n)) * c for integers, when e and c do not
    depend on r.
    """
    choice = _read_choice(n.source)
    if choice is None:
        return None
    for r in n.loops:
        if r in choice.value.ranges:
            continue
        limits = [c for c in choice.clauses if r in c.ranges]
        interval = _find_interval(limits, r) if limits else None
        if interval is not None:
            return _count(n, choice, limits, r, interval)
    return None


class _Masked(NamedTuple):
    """`value` where all clauses hold, and 0 elsewhere."""

    clauses: tuple[UOp, ...]
    value: UOp


def _read_choice(where: UOp) -> _Masked | None:
    condition, x, y = where.src
    if _is_zero(y):
        return _Masked(tuple(iter_clauses(condition)), x)
    if not _is_zero(x):
        return None
    if condition.op is Op.NE:
        return _Masked((UOp(Op.EQ, condition.dtype, condition.src),), y)
    return _Masked((UOp(Op.NOT, condition.dtype, (condition,)),), y)


def _is_zero(x: UOp) -> bool:
    # -0.0 counts as zero: it is added to 0.0, or to the selected value.
    return x.op in (Op.CONST, Op.VCONST) and splat_value(x) == 0


class _Solution(NamedTuple):
    """A comparison solved for a counter: `sign * r` compares with `sign * value`."""

    sign: int
    value: UOp


def _solve(comparison: UOp, r: UOp) -> _Solution | None:
    """Solve a comparison of integers for `r`: find the expression without r that r compares with, or
    None.
    """
    left, right = comparison.src
    dtype = left.dtype
    if not dtype.is_int or dtype.lanes != 1 or r not in comparison.ranges:
        return None
    sides = to_terms(left), to_terms(right)
    if not all(fits(side, dtype) for side in sides):
        return None
    terms = add_scaled(*sides, -1)
    lead = next((m for m in terms if len(m) == 1 and _is_counter(m[0], r)), None)
    sign = terms.pop(lead) if lead is not None else 0
    # A factor other than 1 would need a test for divisibility.
    if sign not in (1, -1) or any(r in atom.ranges for m in terms for atom in m):
        return None
    free: Terms = add_scaled({}, terms, -sign)
    value = from_terms(free, dtype) if fits(free, dtype) else None
    if value is None or not keeps_values(value, index):
        return None
    return _Solution(sign, value if dtype is index else UOp(Op.CAST, index, (value,)))


def _is_counter(atom: UOp, r: UOp) -> bool:
    return atom is r or (atom.op is Op.CAST and atom.source is r and keeps_values(r, atom.dtype))


def _both(first: UOp, second: UOp) -> UOp:
    return UOp(Op.AND, bool_, (first, second))


def _select(n: UOp, choice: _Masked, clause: UOp, r: UOp, e: UOp) -> UOp | None:
    """Return the value at r = e, with all reads gated."""
    inside = _both(
        UOp(Op.NOT, bool_, (UOp(Op.LT, bool_, (e, UOp.const(index, 0))),)),
        UOp(Op.LT, bool_, (e, r.stop)),
    )
    condition = inside
    for term in choice.clauses:
        if term is not clause:
            condition = _both(condition, term)
    moved = _move(UOp.sink(condition, choice.value), r, e, inside)
    if moved is None:
        return None
    condition, value = moved.src
    if value.dtype.is_float:
        # A sum that starts at 0.0 is never -0.0.
        value = UOp(Op.ADD, value.dtype, (value, UOp.const(value.dtype, 0.0)))
    return _sum_over_others(
        n, r, UOp(Op.WHERE, value.dtype, (condition, value, UOp.const(value.dtype, 0)))
    )


def _move(root: UOp, r: UOp, e: UOp, inside: UOp) -> UOp | None:
    """Substitute e for r, and gate each location that depends on r; None if a node cannot be gated."""
    done: dict[UOp, UOp] = {r: e}
    for current in root.toposort(stop={r, e, inside}):
        if current in done or r not in current.ranges:
            continue
        # Effects, and reads that are ordered after some, stay where their loop is.
        if current.op in (Op.LOAD, Op.STORE, Op.AFTER, Op.END):
            return None
        src = tuple(done.get(s, s) for s in current.src)
        if current.op is Op.INDEX:
            src = (*src, inside) if current.gate is None else (*src[:-1], _both(src[-1], inside))
        done[current] = current.with_src(src)
    return done.get(root, root)


def _find_interval(limits: list[UOp], r: UOp) -> tuple[list[UOp], list[UOp]] | None:
    """Find inclusive lower bounds and exclusive upper bounds of r that are equivalent to all limits."""
    lower: list[UOp] = []
    upper: list[UOp] = []
    for limit in limits:
        is_negated = limit.op is Op.NOT
        order = limit.source if is_negated else limit
        solution = _solve(order, r) if order.op is Op.LT else None
        if solution is None:
            return None
        # r < e, or e < r, which is e + 1 <= r; a negation turns the first into e <= r, the second
        # into r < e + 1.
        bound = (
            solution.value
            if solution.sign == 1
            else UOp(Op.ADD, index, (solution.value, UOp.const(index, 1)))
        )
        (upper if (solution.sign == 1) != is_negated else lower).append(bound)
    return lower, upper


def _count(
    n: UOp, choice: _Masked, limits: list[UOp], r: UOp, interval: tuple[list[UOp], list[UOp]]
) -> UOp:
    first, last = UOp.const(index, 0), r.stop
    for bound in interval[0]:
        first = UOp(Op.MAX, index, (first, bound))
    for bound in interval[1]:
        last = UOp(Op.MIN, index, (last, bound))
    difference = from_terms(add_scaled(to_terms(last), to_terms(first), -1), index)
    count = UOp(Op.CAST, n.dtype, (UOp(Op.MAX, index, (difference, UOp.const(index, 0))),))
    total = UOp(Op.MUL, n.dtype, (choice.value, count))
    kept = [c for c in choice.clauses if c not in limits]
    if kept:
        condition = kept[0]
        for clause in kept[1:]:
            condition = _both(condition, clause)
        total = UOp(Op.WHERE, n.dtype, (condition, total, UOp.const(n.dtype, 0)))
    return _sum_over_others(n, r, total)


def _sum_over_others(n: UOp, r: UOp, value: UOp) -> UOp:
    ranges = tuple(loop for loop in n.loops if loop is not r)
    return n.with_src((value, *ranges)) if ranges else value


REDUCTIONS: Final = RuleSet(
    "reductions",
    (multiply_by_condition, reduce_invariant, select_by_counter, count_by_counter),
    is_pure=True,
)
"""Closed forms of reductions."""
