"""Conversion of integer expressions to polynomials of `svod_ir.polynomial`, and back.

`to_terms` reads ADD, SUB, NEG and MUL; every other node is an atom. Integer arithmetic wraps, so it
is a ring: a polynomial has the value of its expression modulo 2^bits, even if intermediate results
wrap. If the polynomial's interval fits the dtype (`fits`), the two are equal as integers, and rules
about division and comparison apply. Dtype index never overflows, so there they always apply."""

from __future__ import annotations

from functools import cmp_to_key
from typing import Final

from svod_dtype import DType
from svod_ir import Op, UOp, compare_nodes, dtype_bounds
from svod_ir.pattern import splat_value
from svod_ir.polynomial import (
    MAX_TERMS,
    ONE,
    Monomial,
    Terms,
    add_monomial,
    add_scaled,
    get_interval,
    multiply_terms,
)

__all__ = ["count_leaves", "first_monomial", "fits", "from_terms", "to_terms"]

_MAX_DEPTH: Final = 8
"""Maximum nesting of products that are expanded: the recursion of `_expand`."""
_CONSTANTS: Final = (Op.CONST, Op.VCONST)


def to_terms(node: UOp) -> Terms:
    """Read an integer expression as a polynomial.

    Products of sums are expanded only for dtype index, whose normal form is the expanded one; for
    other dtypes this would add work to the kernel. An expression with more than `MAX_TERMS`
    summands is an atom."""
    terms = _Reader().find_terms(node, 0)
    return {(node,): 1} if terms is None else terms


_READ = frozenset({Op.ADD, Op.SUB, Op.NEG, Op.MUL, Op.CONST, Op.VCONST})


class _Reader:
    """Reader of one expression, which visits a bounded number of nodes: nested products may have
    exponentially many terms.
    """

    __slots__ = ("budget",)

    def __init__(self) -> None:
        self.budget = 8 * MAX_TERMS

    def find_terms(self, node: UOp, depth: int) -> Terms | None:
        terms: Terms = {}
        stack = [(node, 1)]
        while stack:
            current, scale = stack.pop()
            self.budget -= 1
            match current.op if current.op in _READ else None:
                case Op.ADD:
                    # The left operand on top, so that terms are met in the order of the expression.
                    stack += ((current.right, scale), (current.left, scale))
                case Op.SUB:
                    stack += ((current.right, -scale), (current.left, scale))
                case Op.NEG:
                    stack.append((current.source, -scale))
                case Op.MUL:
                    self._add_product(terms, current, scale, stack, depth)
                case Op.CONST | Op.VCONST:
                    value = splat_value(current)
                    # A vector of different constants is an atom: its lanes have no common value.
                    if value is None:
                        add_monomial(terms, (current,), scale)
                    else:
                        add_monomial(terms, ONE, scale * int(value))
                case _:
                    add_monomial(terms, (current,), scale)
            # Given up as a whole: a partly expanded sum has no normal form.
            if self.budget < 0 or len(terms) > MAX_TERMS:
                return None
        return terms

    def _add_product(
        self, terms: Terms, product: UOp, scale: int, stack: list[tuple[UOp, int]], depth: int
    ) -> None:
        x, y = product.src
        if x.op in _CONSTANTS:
            x, y = y, x
        factor = splat_value(y) if y.op in _CONSTANTS else None
        if factor is not None:
            if factor:
                stack.append((x, scale * int(factor)))
            return
        expanded = (
            self._expand(x, y, depth + 1)
            if product.dtype.kind == "index" and depth < _MAX_DEPTH
            else None
        )
        if expanded is None:
            add_monomial(terms, (product,), scale)
        else:
            add_scaled(terms, expanded, scale)

    def _expand(self, x: UOp, y: UOp, depth: int) -> Terms | None:
        left = self.find_terms(x, depth)
        right = None if left is None else self.find_terms(y, depth)
        if left is None or right is None or len(left) * len(right) > MAX_TERMS:
            return None
        return multiply_terms(left, right)


def count_leaves(node: UOp) -> int:
    """Count the summands of an expression, before `to_terms` merges them.

    Counting stops beyond `MAX_TERMS`.
    """
    count, stack = 0, [node]
    while stack and count <= MAX_TERMS:
        current = stack.pop()
        if current.op in (Op.ADD, Op.SUB, Op.NEG):
            stack += current.src
        else:
            count += 1
    return count


def fits(terms: Terms, dtype: DType) -> bool:
    """Whether an expression with these terms has the polynomial's value as an integer, without
    wrapping.
    """
    if dtype.kind == "index":
        return True
    low, high = get_interval(terms)
    full = dtype_bounds(dtype)
    return full[0] <= low and high <= full[1]


def _compare_monomials(x: Monomial, y: Monomial) -> int:
    for a, b in zip(x, y, strict=False):
        if a is not b:
            return compare_nodes(a, b)
    # The constant comes last; of two products the longer one comes first.
    return len(y) - len(x)


_monomial_key = cmp_to_key(_compare_monomials)


def first_monomial(terms: Terms) -> Monomial:
    """Return the monomial that `from_terms` writes first."""
    return min(terms, key=_monomial_key)


def from_terms(terms: Terms, dtype: DType) -> UOp:
    """Make the expression of a polynomial: sorted products with their coefficient on the right, then
    the constant.

    For dtype index, subtraction is addition of a negative multiple; other dtypes use SUB.
    """
    monomials = list(terms)
    if len(monomials) > 1:
        monomials.sort(key=_monomial_key)
    if dtype.kind != "index":
        return _from_signed_terms(monomials, terms, dtype)
    total: UOp | None = None
    for monomial in monomials:
        term = _make_product(monomial, terms[monomial], dtype)
        total = term if total is None else UOp(Op.ADD, dtype, (total, term))
    return UOp.const(dtype, 0) if total is None else total


def _from_signed_terms(monomials: list[Monomial], terms: Terms, dtype: DType) -> UOp:
    # Polynomials are over all integers, coefficients of a dtype modulo 2^bits.
    coefficients = {m: _wrap(terms[m], dtype) for m in monomials}
    added = [
        _make_product(m, coefficients[m], dtype) for m in monomials if m and coefficients[m] > 0
    ]
    subtracted = [
        _make_product(m, -coefficients[m], dtype) for m in monomials if m and coefficients[m] < 0
    ]
    constant = coefficients.get(ONE, 0)
    # c - x is one operation, -x + c would be two.
    if not added and subtracted and constant:
        added, constant = [UOp.const(dtype, constant)], 0
    elif not added and subtracted:
        added = [UOp(Op.NEG, dtype, (subtracted.pop(0),))]
    elif not added:
        return UOp.const(dtype, constant)
    total = added[0]
    for term in added[1:]:
        total = UOp(Op.ADD, dtype, (total, term))
    for term in subtracted:
        total = UOp(Op.SUB, dtype, (total, term))
    if not constant:
        return total
    # Adding the unsigned wraparound of a negative constant would lose all bounds, so subtract.
    if constant < 0 and dtype.kind == "uint":
        return UOp(Op.SUB, dtype, (total, UOp.const(dtype, -constant)))
    return UOp(Op.ADD, dtype, (total, UOp.const(dtype, constant)))


def _wrap(value: int, dtype: DType) -> int:
    """Reduce a coefficient modulo 2^bits; a negative coefficient of an unsigned dtype stays negative,
    and is subtracted.
    """
    modulus = 1 << dtype.bits
    if dtype.kind == "uint":
        return value % modulus if value >= 0 else -(-value % modulus)
    return (value + modulus // 2) % modulus - modulus // 2


def _make_product(monomial: Monomial, coefficient: int, dtype: DType) -> UOp:
    if not monomial:
        return UOp.const(dtype, coefficient)
    product = monomial[0]
    for atom in monomial[1:]:
        product = UOp(Op.MUL, dtype, (product, atom))
    return (
        product
        if coefficient == 1
        else UOp(Op.MUL, dtype, (product, UOp.const(dtype, coefficient)))
    )
