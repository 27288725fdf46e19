"""Normal form of integer sums.

    j + i * 2 + i * 3 + 1 + 1      ->  i * 5 + j + 2
    (x // 4) * 4 + x % 4           ->  x
    x + (x // 4) * -4              ->  x % 4

For dtype index, each polynomial has one form: products expanded, terms sorted, constants on the
right. For other dtypes a sum is rewritten only if terms merge, or if a constant is on the left.
"""

from __future__ import annotations

from svod_ir import Op, RuleSet, UOp, compare_nodes, rule
from svod_ir.ops import COMMUTATIVE
from svod_ir.pattern import INT, const, node, splat, var
from svod_ir.polynomial import MAX_TERMS, ONE, Monomial, Terms, add_scaled, make_monomial
from svod_schedule.symbolic.divmod import divide_nested
from svod_schedule.symbolic.terms import count_leaves, fits, from_terms, to_terms

__all__ = ["SUMS", "join_quotient", "recombine", "take_quotient_away", "take_remainder_away"]

_INDEX = frozenset({"index"})
_CONCRETE = INT - _INDEX
_SUM = frozenset({Op.ADD, Op.SUB, Op.NEG})
_COMBINING = _SUM | {Op.MUL, Op.CONST, Op.IDIV, Op.MOD}

x, y, c, d = var("x"), var("y"), const("c"), const("d")


@rule(node(COMMUTATIVE, splat("c"), var("y"), name="n").ordered())
def put_constant_right(n: UOp, c: UOp, y: UOp) -> UOp | None:
    """c + x -> x + c, for every commutative op."""
    return None if y.op is Op.CONST or y.op is Op.VCONST else n.with_src((y, c))


@rule(node(COMMUTATIVE - {Op.ADD, Op.MUL, Op.EQ, Op.NE}, x, y, name="n", kinds=INT).ordered())
def put_in_order(n: UOp, x: UOp, y: UOp) -> UOp | None:
    """y & x -> x & y, for min, max and bits of integers; sums and equalities have other normal
    forms.
    """
    return n.with_src((y, x)) if compare_nodes(x, y) > 0 else None


@rule(
    node(Op.ADD, name="n", kinds=_INDEX),
    node(Op.SUB, name="n", kinds=_INDEX),
    node(Op.NEG, name="n", kinds=_INDEX),
    node(Op.MUL, name="n", kinds=_INDEX),
)
def normalize_sum(n: UOp) -> UOp | None:
    """x + (y - x*3)*2 + 1 + 1 -> y*2 + x*-5 + 2."""
    if _is_normal(n):
        return None
    return from_terms(recombine(to_terms(n)), n.dtype)


def _is_normal(n: UOp) -> bool:
    """Whether a sum or product is in normal form, given that its operands are; a quick, conservative
    test.
    """
    if len(n.src) == 1:
        return False
    x, y = n.src
    if n.op is Op.MUL:
        return y.op is Op.CONST and y.arg not in (0, 1) and x.op not in (Op.ADD, Op.MUL, Op.CONST)
    if n.op is not Op.ADD:
        return False
    if y.op is Op.CONST:
        return (
            y.arg != 0
            and x.op is not Op.CONST
            and (x.op is not Op.ADD or x.right.op is not Op.CONST)
        )
    atom = _find_atom(y)
    before = _find_atom(x.right if x.op is Op.ADD else x)
    if atom is None or before is None or compare_nodes(before, atom) >= 0:
        return False
    # Only the last term is new, but any term may recombine with it.
    while x.op is Op.ADD:
        if _find_atom(x.right) is None:
            return False
        x = x.left
    return _find_atom(x) is not None


def _find_atom(term: UOp) -> UOp | None:
    """Find the atom of a term a or a*c that cannot recombine with factors."""
    if term.op is Op.MUL and term.right.op is Op.CONST:
        term = term.left
    return None if term.op in _COMBINING else term


@rule(node(Op.ADD, name="n", kinds=_CONCRETE), node(Op.SUB, name="n", kinds=_CONCRETE))
def merge_terms(n: UOp) -> UOp | None:
    """x*2 + y + x*3 -> y + x*5, for dtypes that wrap."""
    if not any(s.op in _SUM or s.op is Op.MUL for s in n.src) and n.left is not n.right:
        return None
    leaves = count_leaves(n)
    # Merging is tried at every sum of a chain, so long chains would take quadratic time.
    if leaves > MAX_TERMS:
        return None
    terms = to_terms(n)
    merged = recombine(terms) if n.dtype.lanes == 1 and fits(terms, n.dtype) else terms
    # Only if it gets shorter: another order of the same terms could be rewritten back for ever.
    return from_terms(merged, n.dtype) if len(merged) < leaves else None


@rule(node(Op.MUL, node(Op.MUL, x, splat("c")), splat("d"), kinds=_CONCRETE))
def multiply_twice(x: UOp, c: UOp, d: UOp) -> UOp | None:
    """(x*c)*d -> x*(c*d)."""
    factor = UOp(Op.MUL, x.dtype, (c, d))
    return None if x.op in (Op.CONST, Op.VCONST) else UOp(Op.MUL, x.dtype, (x, factor))


def recombine(terms: Terms) -> Terms:
    """Combine quotients and remainders of the same division in a sum."""
    # Most sums have no division: this test is all that they cost.
    if not any(atom.op is Op.IDIV or atom.op is Op.MOD for monomial in terms for atom in monomial):
        return terms
    while True:
        combined = next((f for monomial in terms for f in _recombine_at(terms, monomial)), None)
        # Ends, since each step removes a quotient or a remainder.
        if combined is None:
            return terms
        terms = combined


def _recombine_at(terms: Terms, monomial: Monomial) -> list[Terms]:
    for i, atom in enumerate(monomial):
        if atom.op not in (Op.IDIV, Op.MOD) or not fits(to_terms(atom.left), atom.dtype):
            continue
        factors = (*monomial[:i], *monomial[i + 1 :])
        for attempt in (
            (join_quotient, take_remainder_away) if atom.op is Op.MOD else (take_quotient_away,)
        ):
            combined = attempt(terms, monomial, factors, atom)
            if combined is not None:
                return [combined]
    return []


def join_quotient(terms: Terms, monomial: Monomial, factors: Monomial, atom: UOp) -> Terms | None:
    """(x // n)*n + x % n -> x."""
    x, divisor = atom.src
    scale = terms[monomial]
    if divisor.op is not Op.CONST:
        # x // 0 and x % 0 are 0, which do not add up to x.
        if divisor.vmin <= 0 <= divisor.vmax:
            return None
        partner = make_monomial(*factors, UOp(Op.IDIV, x.dtype, (x, divisor)), divisor)
        return _exchange(terms, {monomial: scale}, {partner: scale}, x, factors)
    for numerator, d in _quotients(x, divisor):
        partner = make_monomial(*factors, UOp(Op.IDIV, x.dtype, (numerator, d)))
        joined = _exchange(terms, {monomial: scale}, {partner: scale * divisor.arg}, x, factors)
        if joined is not None:
            return joined
    return _join_remainder(terms, monomial, factors, atom)


def _quotients(x: UOp, divisor: UOp) -> list[tuple[UOp, UOp]]:
    """List the numerators and divisors of forms that x // divisor may have been rewritten to."""
    nested = divide_nested(x, divisor.arg) if divisor.arg > 0 else None
    return [(x, divisor)] if nested is None else [(x, divisor), nested]


def _exchange(terms: Terms, first: Terms, second: Terms, x: UOp, factors: Monomial) -> Terms | None:
    """Replace two terms of a sum, which must have exactly these coefficients, by `x` times the other
    factors; None if they are missing.
    """
    ((monomial, scale),) = first.items()
    ((partner, partner_scale),) = second.items()
    if terms.get(partner) != partner_scale:
        return None
    changed = add_scaled(dict(terms), {monomial: scale, partner: partner_scale}, -1)
    for term, coefficient in to_terms(x).items():
        add_scaled(changed, {make_monomial(*factors, *term): coefficient}, scale)
    return changed


def _join_remainder(terms: Terms, monomial: Monomial, factors: Monomial, atom: UOp) -> Terms | None:
    """((x // b) % m)*b + x % b -> x % (b*m)."""
    quotient, modulus = atom.src
    if (
        quotient.op is not Op.IDIV
        or quotient.right.op is not Op.CONST
        or quotient.right.arg <= 0
        or modulus.arg <= 0
    ):
        return None
    x, b = quotient.src
    scale, remainder = terms[monomial], make_monomial(*factors, UOp(Op.MOD, x.dtype, (x, b)))
    if (
        scale % b.arg
        or terms.get(remainder) != scale // b.arg
        or not fits({ONE: b.arg * modulus.arg}, x.dtype)
    ):
        return None
    joined = UOp(Op.MOD, x.dtype, (x, UOp.const(x.dtype, b.arg * modulus.arg)))
    changed = add_scaled(dict(terms), {monomial: scale, remainder: scale // b.arg}, -1)
    return add_scaled(changed, {make_monomial(*factors, joined): scale // b.arg}, 1)


def take_remainder_away(
    terms: Terms, monomial: Monomial, factors: Monomial, atom: UOp
) -> Terms | None:
    """x - x % n -> (x // n)*n."""
    x, divisor = atom.src
    if divisor.op is not Op.CONST or divisor.arg <= 0:
        return None
    changed = _take_away(terms, x, factors, -terms[monomial])
    if changed is None:
        return None
    quotient = make_monomial(*factors, UOp(Op.IDIV, x.dtype, (x, divisor)))
    return add_scaled(
        add_scaled(changed, {monomial: terms[monomial]}, -1),
        {quotient: -terms[monomial] * divisor.arg},
        1,
    )


def take_quotient_away(
    terms: Terms, monomial: Monomial, factors: Monomial, atom: UOp
) -> Terms | None:
    """x - (x // n)*n -> x % n."""
    x, divisor = atom.src
    scale = terms[monomial]
    if divisor.op is not Op.CONST or divisor.arg <= 0:
        return None
    # The sum may hold x // p, of which x // n is the quotient by n // p.
    for numerator, step in _steps(terms, x, divisor.arg):
        if scale % step:
            continue
        changed = _take_away(terms, numerator, factors, -scale // step)
        if changed is not None:
            remainder = UOp(Op.MOD, x.dtype, (numerator, UOp.const(x.dtype, step)))
            return add_scaled(
                add_scaled(changed, {monomial: scale}, -1),
                {make_monomial(*factors, remainder): -scale // step},
                1,
            )
    return None


def _steps(terms: Terms, x: UOp, d: int) -> list[tuple[UOp, int]]:
    """List the readings of x // d as a division of an atom of the sum: x by d, or x // p by d // p."""
    quotients = dict.fromkeys(
        a for m in terms for a in m if a.op is Op.IDIV and a.left is x and a.right.op is Op.CONST
    )
    return [(x, d)] + [
        (q, d // q.right.arg) for q in quotients if 0 < q.right.arg < d and d % q.right.arg == 0
    ]


def _take_away(terms: Terms, x: UOp, factors: Monomial, scale: int) -> Terms | None:
    """Subtract `scale` times x from a sum; None unless the sum has all its terms."""
    product: Terms = {}
    for term, term_coefficient in to_terms(x).items():
        add_scaled(product, {make_monomial(*factors, *term): term_coefficient}, scale)
    if not any(product):
        # Every sum contains any constant: 4 % 3 and 4 // 3 would be rewritten to each other for ever.
        return None
    for monomial, coefficient in product.items():
        if monomial and terms.get(monomial) != coefficient:
            return None
    return add_scaled(dict(terms), product, -1)


SUMS = RuleSet(
    "sums",
    (put_constant_right, put_in_order, normalize_sum, merge_terms, multiply_twice),
    is_pure=True,
)
"""Normal form of integer sums."""
