"""Floor division and remainder.

    (i * 12 + j * 4 + k) // 4   ->  i * 3 + j + k // 4
    (i * 12 + j * 4 + k) % 4    ->  k % 4
    k // 4, k % 4               ->  0, k          when 0 <= k < 4

Division rounds down, so most rules hold for negative numbers too. Rules read the numerator as a
polynomial (`terms`) and fire only if it cannot wrap. Each finds a `Split`, which gives both the
quotient and the remainder."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import NamedTuple

from svod_dtype import DType
from svod_ir import Op, RuleSet, UOp, rule
from svod_ir.pattern import INT, const, node, var
from svod_ir.polynomial import (
    ONE,
    Monomial,
    Terms,
    add_scaled,
    divide_monomial,
    get_interval,
    make_monomial,
    multiply_terms,
)
from svod_schedule.symbolic.terms import fits, from_terms, to_terms

__all__ = ["DIVMOD", "Split", "divide_nested"]

x, y, n, c = var("x"), var("y", INT), var("n", INT), const("c", INT)


class Split(NamedTuple):
    """`N // d == quotient + inner // divisor` and `N % d == scale * (inner % divisor) + offset`."""

    quotient: Terms
    inner: Terms
    divisor: int
    scale: int
    offset: Terms

    def to_quotient(self, dtype: DType) -> UOp:
        terms = dict(self.quotient)
        if self.divisor != 1:
            _add_expression(
                terms,
                UOp(
                    Op.IDIV, dtype, (from_terms(self.inner, dtype), UOp.const(dtype, self.divisor))
                ),
                1,
            )
        return from_terms(terms, dtype)

    def to_remainder(self, dtype: DType) -> UOp:
        terms = dict(self.offset)
        if self.divisor != 1:
            inner = UOp(
                Op.MOD, dtype, (from_terms(self.inner, dtype), UOp.const(dtype, self.divisor))
            )
            _add_expression(terms, inner, self.scale)
        return from_terms(terms, dtype)


def _add_expression(terms: Terms, atom: UOp, scale: int) -> None:
    add_scaled(terms, {(atom,): 1}, scale)


def _split_by_interval(terms: Terms, d: int) -> Split | None:
    """N // d -> q when every value of N lies in q*d..q*d + d-1."""
    low, high = get_interval(terms)
    quotient = low // d
    if quotient != high // d:
        return None
    return Split(
        {ONE: quotient} if quotient else {},
        {},
        1,
        1,
        add_scaled(dict(terms), {ONE: quotient * d}, -1),
    )


def _split_by_remainder(terms: Terms, d: int) -> Split | None:
    """(a*(c*d) + b) // d -> a*c + k, when all values of b lie in k*d..k*d + d-1.

    The remainder of a coefficient may be taken as c % d or as c % d - d: each choice is tried.
    """
    # Each rounding leaves another b: of a coefficient -1 and d = 4, it is -1 or 3, with other
    # values.
    for choose in (_round_down, _round_to_zero, _round_to_nearest):
        quotients = {m: q for m, coefficient in terms.items() if (q := choose(coefficient, d))}
        if quotients:
            split = _split_by_interval(add_scaled(dict(terms), quotients, -d), d)
            if split is not None:
                return Split(add_scaled(dict(split.quotient), quotients, 1), {}, 1, 1, split.offset)
    return None


def _round_down(coefficient: int, d: int) -> int:
    return coefficient // d


def _round_to_zero(coefficient: int, d: int) -> int:
    return coefficient // d if coefficient >= 0 else -(-coefficient // d)


def _round_to_nearest(coefficient: int, d: int) -> int:
    return (coefficient + d // 2) // d


def _split_off_multiples(terms: Terms, d: int) -> Split | None:
    """(a*7 + 6) // 4 -> a + (a*3 + 2) // 4 + 1."""
    # Variables are rounded to zero, so that -a stays -a and the rule does not fire again; the constant
    # is rounded down, so that it ends in 0..d - 1.
    quotients = {
        m: q
        for m, coefficient in terms.items()
        if (q := _round_to_zero(coefficient, d) if m else coefficient // d)
    }
    if not quotients:
        return None
    return Split(quotients, add_scaled(dict(terms), quotients, -d), d, 1, {})


def _split_by_factor(terms: Terms, d: int) -> Split | None:
    """(a*(c*g) + b) // (e*g) -> (a*c + k) // e when every value of b lies in k*g..k*g + g-1.

    The largest such divisor g of d gives the simplest division.
    """
    # All common divisors of d and of a coefficient, also of several coefficients.
    factors = {d}
    for monomial, coefficient in terms.items():
        if monomial:
            factors |= {gcd(f, coefficient) for f in factors}
    for g in sorted(factors - {1, d}, reverse=True):
        multiples = {
            m: coefficient // g for m, coefficient in terms.items() if m and coefficient % g == 0
        }
        offset = {m: coefficient for m, coefficient in terms.items() if m not in multiples}
        low, high = get_interval(offset)
        k = low // g
        if multiples and k == high // g:
            inner = {**multiples, ONE: k} if k else multiples
            return Split({}, inner, d // g, g, add_scaled(offset, {ONE: k * g}, -1))
    return None


_SPLITS: tuple[Callable[[Terms, int], Split | None], ...] = (
    _split_by_interval,
    _split_by_remainder,
    _split_off_multiples,
    _split_by_factor,
)


def _find_split(
    numerator: UOp, d: int, split: Callable[[Terms, int], Split | None]
) -> Split | None:
    # `divide_by_negative` makes the divisor positive, and `divide_by_zero` removes it.
    if d <= 0:
        return None
    terms = to_terms(numerator)
    if not fits(terms, numerator.dtype):
        return None
    result = split(terms, d)
    # The new numerator may be larger than the old one, and must not wrap either.
    return result if result is not None and fits(result.inner, numerator.dtype) else None


@rule(node(Op.IDIV, x, c, kinds=INT))
def divide_by_interval(x: UOp, c: UOp) -> UOp | None:
    """x // c -> q when every value of x lies in q*c..q*c + c-1."""
    split = _find_split(x, c.arg, _split_by_interval)
    return None if split is None else split.to_quotient(x.dtype)


@rule(node(Op.MOD, x, c, kinds=INT))
def modulo_by_interval(x: UOp, c: UOp) -> UOp | None:
    """x % c -> x - q*c when every value of x lies in q*c..q*c + c-1."""
    split = _find_split(x, c.arg, _split_by_interval)
    return None if split is None else split.to_remainder(x.dtype)


@rule(node(Op.IDIV, x, c, kinds=INT))
def divide_multiples_away(x: UOp, c: UOp) -> UOp | None:
    """(a*c + b) // c -> a when 0 <= b < c."""
    split = _find_split(x, c.arg, _split_by_remainder)
    return None if split is None else split.to_quotient(x.dtype)


@rule(node(Op.MOD, x, c, kinds=INT))
def modulo_multiples_away(x: UOp, c: UOp) -> UOp | None:
    """(a*c + b) % c -> b when 0 <= b < c."""
    split = _find_split(x, c.arg, _split_by_remainder)
    return None if split is None else split.to_remainder(x.dtype)


@rule(node(Op.IDIV, x, c, kinds=INT))
def divide_off_multiples(x: UOp, c: UOp) -> UOp | None:
    """(a*c + b) // c -> a + b // c."""
    split = _find_split(x, c.arg, _split_off_multiples)
    return None if split is None else split.to_quotient(x.dtype)


@rule(node(Op.MOD, x, c, kinds=INT))
def modulo_off_multiples(x: UOp, c: UOp) -> UOp | None:
    """(a*c + b) % c -> b % c."""
    split = _find_split(x, c.arg, _split_off_multiples)
    return None if split is None else split.to_remainder(x.dtype)


@rule(node(Op.IDIV, x, c, kinds=INT))
def divide_by_common_factor(x: UOp, c: UOp) -> UOp | None:
    """(a*g + b) // (e*g) -> a // e when 0 <= b < g."""
    split = _find_split(x, c.arg, _split_by_factor)
    return None if split is None else split.to_quotient(x.dtype)


@rule(node(Op.MOD, x, c, kinds=INT))
def modulo_by_common_factor(x: UOp, c: UOp) -> UOp | None:
    """(a*g + b) % (e*g) -> (a % e)*g + b when 0 <= b < g."""
    split = _find_split(x, c.arg, _split_by_factor)
    return None if split is None else split.to_remainder(x.dtype)


@rule(node(Op.IDIV, x, 1, kinds=INT))
def divide_by_one(x: UOp) -> UOp:
    """x // 1 -> x."""
    return x


@rule(node(Op.MOD, var("x"), const("c", INT, when=lambda k: k.arg in (1, -1))))
def modulo_one(x: UOp, c: UOp) -> UOp:
    """x % 1 -> 0."""
    return UOp.const(x.dtype, 0)


@rule(node(Op.IDIV, x, 0, kinds=INT), node(Op.MOD, x, 0, kinds=INT))
def divide_by_zero(x: UOp) -> UOp:
    """x // 0 -> 0, x % 0 -> 0."""
    return UOp.const(x.dtype, 0)


@rule(node(Op.IDIV, x, c, kinds=INT))
def divide_by_negative(x: UOp, c: UOp) -> UOp | None:
    """x // -c -> -x // c."""
    terms = _find_negated(x) if c.arg < 0 and fits({ONE: -c.arg}, x.dtype) else None
    if terms is None:
        return None
    return UOp(Op.IDIV, x.dtype, (from_terms(terms, x.dtype), UOp.const(x.dtype, -c.arg)))


@rule(node(Op.MOD, x, c, kinds=INT))
def modulo_negative(x: UOp, c: UOp) -> UOp | None:
    """x % -c -> -(-x % c)."""
    terms = _find_negated(x) if c.arg < 0 and fits({ONE: -c.arg}, x.dtype) else None
    if terms is None:
        return None
    return from_terms(
        {(UOp(Op.MOD, x.dtype, (from_terms(terms, x.dtype), UOp.const(x.dtype, -c.arg))),): -1},
        x.dtype,
    )


def _find_negated(x: UOp) -> Terms | None:
    """Find the terms of -x; None if x or -x can wrap."""
    terms = to_terms(x)
    negated = add_scaled({}, terms, -1)
    return negated if fits(terms, x.dtype) and fits(negated, x.dtype) else None


@rule(node(Op.IDIV, x, c, kinds=INT))
def divide_quotient(x: UOp, c: UOp) -> UOp | None:
    """(x // a + b) // c -> (x + b*a) // (a*c) when a, c > 0."""
    if c.arg <= 0:
        return None
    division = divide_nested(x, c.arg)
    return None if division is None else UOp(Op.IDIV, x.dtype, division)


def divide_nested(numerator: UOp, d: int) -> tuple[UOp, UOp] | None:
    """Find the numerator and divisor of (x // a + b) // d as one division; None if there is none."""
    dtype = numerator.dtype
    inner, shift = numerator, 0
    if inner.op is Op.ADD and inner.right.op is Op.CONST:
        inner, shift = inner.left, inner.right.arg
    if inner.op is not Op.IDIV or inner.right.op is not Op.CONST or inner.right.arg <= 0:
        return None
    a = inner.right.arg
    terms = to_terms(inner.left)
    shifted = add_scaled(dict(terms), {ONE: shift * a}, 1) if shift else terms
    # The product of the divisors has to fit the dtype, and no step may have wrapped.
    if not fits({ONE: a * d}, dtype) or not all(
        fits(t, dtype) for t in (terms, shifted, to_terms(numerator))
    ):
        return None
    return from_terms(shifted, dtype) if shift else inner.left, UOp.const(dtype, a * d)


@rule(node(Op.IDIV, node(Op.MOD, x, const("a", INT)), c))
def divide_remainder(x: UOp, a: UOp, c: UOp) -> UOp | None:
    """(x % a) // c -> (x // c) % (a // c) when a is a multiple of c > 0."""
    if c.arg <= 0 or a.arg <= 0 or a.arg % c.arg:
        return None
    return UOp(Op.MOD, x.dtype, (UOp(Op.IDIV, x.dtype, (x, c)), UOp.const(x.dtype, a.arg // c.arg)))


@rule(node(Op.MOD, x, c, kinds=INT))
def modulo_remainder(x: UOp, c: UOp) -> UOp | None:
    """(x % a + y) % c -> (x + y) % c when a is a multiple of c > 0."""
    if c.arg <= 0:
        return None
    terms = to_terms(x)
    changed: Terms = {}
    for monomial, coefficient in terms.items():
        add_scaled(changed, _open_remainder(monomial, coefficient, c.arg), coefficient)
    # Congruent modulo c, but larger: without the remainder it may leave the dtype.
    if changed == terms or not fits(terms, x.dtype) or not fits(changed, x.dtype):
        return None
    return UOp(Op.MOD, x.dtype, (from_terms(changed, x.dtype), c))


def _open_remainder(monomial: Monomial, coefficient: int, d: int) -> Terms:
    """Replace a factor x % a of a monomial by x, if the coefficient makes them congruent modulo d."""
    for i, atom in enumerate(monomial):
        if atom.op is Op.MOD and atom.right.op is Op.CONST and atom.right.arg > 0:
            numerator = to_terms(atom.left)
            if atom.right.arg * coefficient % d == 0 and fits(numerator, atom.dtype):
                factors = (*monomial[:i], *monomial[i + 1 :])
                return multiply_terms({factors: 1}, numerator)
    return {monomial: 1}


@rule(node(Op.IDIV, x, y, kinds=INT))
def divide_by_itself(x: UOp, y: UOp) -> UOp | None:
    """x // x -> 1 when x is not 0."""
    return UOp.const(x.dtype, 1) if x is y and not x.vmin <= 0 <= x.vmax else None


@rule(node(Op.MOD, x, x, kinds=INT))
def modulo_itself(x: UOp) -> UOp:
    """x % x -> 0."""
    return UOp.const(x.dtype, 0)


@rule(node(Op.MOD, node(Op.MOD, x, y), y))
def modulo_twice(x: UOp, y: UOp) -> UOp:
    """(x % y) % y -> x % y."""
    return UOp(Op.MOD, x.dtype, (x, y))


@rule(node(Op.IDIV, x, n, kinds=INT))
def divide_by_symbol(x: UOp, n: UOp) -> UOp | None:
    """(a*n + b) // n -> a + b // n when n > 0; b // n -> 0 when 0 <= b < n."""
    division = _split_by_symbol(x, n)
    if division is None:
        return None
    quotient, remaining, is_small = division
    if not is_small:
        _add_expression(quotient, UOp(Op.IDIV, x.dtype, (from_terms(remaining, x.dtype), n)), 1)
    return from_terms(quotient, x.dtype)


@rule(node(Op.MOD, x, n, kinds=INT))
def modulo_symbol(x: UOp, n: UOp) -> UOp | None:
    """(a*n + b) % n -> b % n when n > 0; b % n -> b when 0 <= b < n."""
    division = _split_by_symbol(x, n)
    if division is None:
        return None
    _, remaining, is_small = division
    remainder = from_terms(remaining, x.dtype)
    return remainder if is_small else UOp(Op.MOD, x.dtype, (remainder, n))


def _split_by_symbol(numerator: UOp, divisor: UOp) -> tuple[Terms, Terms, bool] | None:
    """Divide a numerator by a positive expression: return the quotient, the remaining terms, and
    whether these are in 0..divisor - 1.
    """
    if divisor.op is Op.CONST or divisor.vmin <= 0:
        return None
    terms, divisors = to_terms(numerator), to_terms(divisor)
    if not fits(terms, numerator.dtype) or not fits(divisors, numerator.dtype):
        return None
    quotient, remaining = _divide_terms(terms, divisors)
    if not fits(remaining, numerator.dtype):
        return None
    is_small = _is_below(remaining, divisor, divisors)
    return (quotient, remaining, is_small) if quotient or is_small else None


def _divide_terms(terms: Terms, divisors: Terms) -> tuple[Terms, Terms]:
    """Divide polynomials: take out each multiple of the divisor of which all terms are present."""
    # A term of the highest degree occurs once in each multiple of the divisor.
    lead = max(divisors, key=len)
    coefficient = divisors[lead]
    quotient: Terms = {}
    remaining = dict(terms)
    for monomial in list(terms):
        factors = divide_monomial(monomial, lead)
        current = remaining.get(monomial, 0)
        if factors is None or not current or current % coefficient:
            continue
        factor = current // coefficient
        product: Terms = {}
        for term, scale in divisors.items():
            add_scaled(product, {make_monomial(*factors, *term): scale}, factor)
        # A multiple that is present in part would add terms instead of removing some.
        if all(p in remaining for p in product):
            add_scaled(remaining, product, -1)
            add_scaled(quotient, {factors: factor}, 1)
    return quotient, remaining


def _is_below(terms: Terms, bound: UOp, bounds: Terms) -> bool:
    """Whether 0 <= terms < bound is certain: by intervals, or at the last iteration of loops with
    symbolic trip counts.
    """
    low, high = get_interval(terms)
    if low < 0:
        return False
    # Intervals are quick, and decide wherever the divisor is bounded well below.
    if high < bound.vmin:
        return True
    # Each factor is at most its last value, in terms of the symbols that the divisor has too: i < n
    # gives n - 1.
    largest: Terms = {}
    for monomial, coefficient in terms.items():
        if coefficient < 0 or any(atom.vmin < 0 for atom in monomial):
            return False
        product: Terms = {ONE: coefficient}
        for atom in monomial:
            product = multiply_terms(product, _last_value(atom))
        add_scaled(largest, product, 1)
    return get_interval(add_scaled(add_scaled(dict(bounds), largest, -1), {ONE: 1}, -1))[0] >= 0


def _last_value(atom: UOp) -> Terms:
    """Return the largest value of a loop counter or remainder in terms of the trip count or divisor;
    other atoms are returned unchanged.
    """
    end = (
        atom.stop
        if atom.op in (Op.RANGE, Op.SPECIAL)
        else atom.right
        if atom.op is Op.MOD
        else None
    )
    if end is None or end.op is Op.CONST or end.vmin <= 0:
        return {(atom,): 1} if end is None else {ONE: int(atom.vmax)}
    return add_scaled(to_terms(end), {ONE: 1}, -1)


DIVMOD = RuleSet(
    "divmod",
    (
        divide_by_one,
        modulo_one,
        divide_by_zero,
        # Rules that remove a division come before those that shorten its numerator or its divisor.
        divide_by_interval,
        modulo_by_interval,
        divide_multiples_away,
        modulo_multiples_away,
        divide_off_multiples,
        modulo_off_multiples,
        modulo_remainder,
        divide_quotient,
        divide_remainder,
        divide_by_common_factor,
        modulo_by_common_factor,
        divide_by_negative,
        modulo_negative,
        divide_by_itself,
        modulo_itself,
        modulo_twice,
        divide_by_symbol,
        modulo_symbol,
    ),
    is_pure=True,
)
"""Floor division and remainder by constants and by positive expressions."""
