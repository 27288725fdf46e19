"""Simplification of expressions that are used only where a condition holds.

    (i + 3) % 8                 under i < 5              ->  i + 3
    where(i < j, i, -1)         under i < j              ->  i
    (i*2 + k - 1) // 8          under 0 <= i*2 + k - 1 < 8  ->  0

In the expression, the clauses of the conjunction are replaced by true. They also bound polynomials:
each bounded polynomial is replaced by a variable with the tighter bounds, and substituted back
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from svod_ir import Op, RuleSet, UOp, rule
from svod_ir.ops import ELEMENTWISE
from svod_ir.pattern import BOOL, INT, node, var
from svod_ir.polynomial import ONE, Terms, add_scaled, get_interval
from svod_schedule.symbolic.simplify import PLACED, simplify
from svod_schedule.symbolic.terms import fits, from_terms, to_terms

__all__ = ["GUARDED", "Bound", "iter_clauses", "simplify_condition", "simplify_under"]

_DECIDABLE: Final = ELEMENTWISE - {Op.ADD, Op.SUB, Op.MUL, Op.NEG, Op.NOT}
"""Ops that bounds may simplify: a sum has the same form under tighter bounds."""


class Bound(NamedTuple):
    """`low <= expression <= high`, where the expression is the sum of `terms`, which has no
    constant.
    """

    terms: Terms
    expression: UOp
    low: int
    high: int


def simplify_under(valid: UOp, expression: UOp) -> UOp:
    """Simplify `expression` where `valid` holds; its value elsewhere is arbitrary."""
    simplified = simplify(expression)
    # A leaf has no form to improve.
    if not simplified.src:
        return simplified
    clauses = list(iter_clauses(simplify(valid)))
    simplified = _apply_clauses(clauses, simplified)
    for i, bound in enumerate(_get_bounds(_read_clauses(clauses))):
        simplified = _apply_bound(bound, simplified, i)
    return simplified


def simplify_condition(valid: UOp) -> UOp:
    """Drop the clauses of a conjunction that the others imply, and simplify each under the others."""
    valid = simplify(valid)
    clauses = list(iter_clauses(valid))
    if len(clauses) == 1:
        return valid
    bounds = {clause: _read_clause(clause) for clause in clauses}
    # The last clauses come from the innermost operations. If two clauses imply each other, the
    # earlier one is kept.
    for clause in reversed(clauses):
        other_clauses = [c for c in clauses if c is not clause]
        known, own = (
            _get_bounds([b for c in other_clauses if (b := bounds[c]) is not None]),
            bounds[clause],
        )
        decided = None if own is None else _decide(own, known)
        if decided is False:
            return UOp.const(valid.dtype, False)
        if decided or not other_clauses:
            clauses = other_clauses or clauses
        # A sum that may wrap has no bounds of its own, but may have them under the other clauses.
        elif own is None or any(
            n.op in _DECIDABLE and n.dtype.kind != "bool" for n in clause.toposort()
        ):
            clauses = [
                simplify_under(_join(other_clauses), c) if c is clause else c for c in clauses
            ]
            bounds.update({c: _read_clause(c) for c in clauses if c not in bounds})
    return simplify(_join(clauses))


def _decide(own: Bound, known: list[Bound]) -> bool | None:
    """Whether a bound always holds (True) or never (False) where the known bounds hold; else None."""
    low, high = get_interval(own.terms)
    for bound in known:
        # own = bound * scale + remainder, with a scale that eliminates a term of the bound.
        for monomial, coefficient in bound.terms.items():
            scale, remainder = divmod(own.terms.get(monomial, 0), coefficient)
            if not scale or remainder:
                continue
            a, b = get_interval(add_scaled(dict(own.terms), bound.terms, -scale))
            c, d = sorted((bound.low * scale, bound.high * scale))
            low, high = max(low, a + c), min(high, b + d)
    if own.low <= low and high <= own.high:
        return True
    return False if high < own.low or own.high < low else None


def iter_clauses(valid: UOp) -> Iterator[UOp]:
    """Yield the conditions whose conjunction is `valid`, from left to right."""
    stack = [valid]
    while stack:
        current = stack.pop()
        if current.op is Op.AND and current.dtype.kind == "bool":
            stack += reversed(current.src)
        else:
            yield current


def _join(clauses: list[UOp]) -> UOp:
    conjunction, *remaining = clauses
    for clause in remaining:
        conjunction = UOp(Op.AND, conjunction.dtype, (conjunction, clause))
    return conjunction


def _read_clauses(clauses: Iterable[UOp]) -> list[Bound]:
    return [bound for clause in clauses if (bound := _read_clause(clause)) is not None]


def _get_bounds(bounds: list[Bound]) -> list[Bound]:
    """Return the tightest bounds of each polynomial, without bounds that contradict each other."""
    tightest: dict[UOp, Bound] = {}
    for bound in bounds:
        known = tightest.get(bound.expression, bound)
        tightest[bound.expression] = known._replace(
            low=max(known.low, bound.low), high=min(known.high, bound.high)
        )
    return [b for b in tightest.values() if b.low <= b.high]


def _read_clause(clause: UOp) -> Bound | None:
    """Read x < c, ~(x < c) or x == c as bounds of x, where x may be a difference."""
    is_negated = clause.op is Op.NOT
    order = clause.source if is_negated else clause
    if (
        order.op not in (Op.LT, Op.EQ)
        or not order.left.dtype.is_int
        or (is_negated and order.op is Op.EQ)
    ):
        return None
    left, right = (to_terms(s) for s in order.src)
    dtype = order.left.dtype
    if not fits(left, dtype) or not fits(right, dtype):
        return None
    terms = add_scaled(left, right, -1)
    limit = -terms.pop(ONE, 0)
    if not terms or not fits(terms, dtype):
        return None
    low, high = get_interval(terms)
    if order.op is Op.EQ:
        low = high = limit
    elif is_negated:
        low = max(low, limit)
    else:
        high = min(high, limit - 1)
    # Normalize the sign, so that a lower and an upper bound have the same polynomial.
    if next(iter(terms.values())) < 0:
        terms, low, high = add_scaled({}, terms, -1), -high, -low
    return Bound(terms, from_terms(terms, dtype), low, high)


def _apply_clauses(clauses: Iterable[UOp], expression: UOp) -> UOp:
    """Replace the clauses in an expression by true, and their negations by false."""
    nodes = expression.toposort()
    known = {
        condition: UOp.const(condition.dtype, value)
        for clause in clauses
        for condition, value in ((clause.source, False) if clause.op is Op.NOT else (clause, True),)
        if condition in nodes and condition.op is not Op.CONST
    }
    if not known:
        return expression
    kept = {n: n for n in nodes if n.op in PLACED}
    return simplify(expression.substitute({**kept, **known}))


def _apply_bound(bound: Bound, expression: UOp, index: int) -> UOp:
    dtype = bound.expression.dtype
    if bound.low == bound.high:
        known = UOp.const(dtype, bound.low)
    else:
        known = UOp(Op.DEFINE_VAR, dtype, (), (f"bound {index}", bound.low, bound.high))
    replaced, replacement = _find_lead(bound, known) or (bound.expression, known)
    nodes = expression.toposort()
    if replaced not in nodes or (
        known.op is Op.DEFINE_VAR and not any(n.op in _DECIDABLE for n in nodes)
    ):
        return expression
    # Reads and reductions are kept: they are also executed where the condition is false.
    kept = {n: n for n in nodes if n.op in PLACED}
    tightened = simplify(expression.substitute({**kept, replaced: replacement}))
    result = (
        simplify(tightened.substitute({known: bound.expression}))
        if known.op is Op.DEFINE_VAR
        else tightened
    )
    return result if _count(result) < _count(expression) else expression


def _find_lead(bound: Bound, known: UOp) -> tuple[UOp, UOp] | None:
    """Find an atom with coefficient 1 or -1, and its value in terms of the bounded polynomial: i =
    (i + j) - j.
    """
    for monomial, coefficient in bound.terms.items():
        if len(monomial) == 1 and coefficient in (1, -1):
            other_terms = {m: c for m, c in bound.terms.items() if m != monomial}
            value = add_scaled(
                add_scaled({}, to_terms(known), coefficient), other_terms, -coefficient
            )
            return monomial[0], from_terms(value, known.dtype)
    return None


def _count(expression: UOp) -> int:
    """Count the operations of an expression."""
    return sum(1 for node in expression.toposort() if node.src)


@rule(node(Op.WHERE, var("c", BOOL), var("x"), var("y"), kinds=INT | BOOL))
def guard_branch(c: UOp, x: UOp, y: UOp) -> UOp | None:
    """where(i < 4, i // 4, y) -> where(i < 4, 0, y): the branch is simplified under the
    condition.
    """
    guarded = simplify_under(c, x)
    return None if guarded is x else UOp(Op.WHERE, x.dtype, (c, guarded, y))


@rule(node(Op.INDEX, name="n"))
def guard_index(n: UOp) -> UOp | None:
    """buffer[(i + 3) % 8] if i < 5 -> buffer[i + 3] if i < 5: indices are simplified under the
    gate.
    """
    gate = n.gate
    if gate is None or gate.op is Op.CONST:
        return None
    positions = tuple(simplify_under(gate, p) for p in n.src[1:-1])
    return n.with_src((n.memory, *positions, gate))


@rule(node(Op.AND, name="n", kinds=BOOL))
def guard_clauses(n: UOp) -> UOp | None:
    """(i < 4) & (i < 7) -> i < 4: each clause is simplified under the others."""
    simplified = simplify_condition(n)
    return None if simplified is n else simplified


GUARDED: Final = RuleSet("guarded", (guard_clauses, guard_branch, guard_index), is_pure=True)
"""Simplification of expressions under the condition that guards them."""
