"""Polynomials with integer coefficients over nodes: the arithmetic of sizes and index expressions.

n * (m + 2) - 3      {(m, n): 1, (n,): 2, (): -3}

Example:
    >>> from svod_ir import UOp
    >>> from svod_ir.polynomial import add_monomial, add_scaled, divide_monomial, get_interval, make_monomial, multiply_terms
    >>> i, j = UOp.variable("i", 0, 3), UOp.variable("j", 0, 5)
    >>> x, y = {make_monomial(i): 2}, {make_monomial(j): 1}
    >>> add_monomial(x, make_monomial(), 1)  # 2 * i + 1
    >>> get_interval(x), get_interval(add_scaled(dict(x), y, 3)), len(multiply_terms(x, y))
    ((1, 7), (1, 22), 2)
    >>> divide_monomial(make_monomial(i, j), make_monomial(j)) == make_monomial(i)
    True
    >>> from svod_ir.polynomial import MAX_TERMS, ONE, Monomial, Terms
    >>> def find_coefficient(terms: Terms, monomial: Monomial) -> int:
    ...     return terms.get(monomial, 0)
    >>> find_coefficient(x, ONE), find_coefficient(x, make_monomial(j))
    (1, 0)
    >>> def can_expand(left: Terms, right: Terms) -> bool:
    ...     return len(left) * len(right) <= MAX_TERMS
    >>> can_expand(x, y)
    True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from svod_ir._node_order import node_key
from svod_ir.uop import UOp

__all__ = [
    "MAX_TERMS",
    "ONE",
    "Monomial",
    "Terms",
    "add_monomial",
    "add_scaled",
    "divide_monomial",
    "get_interval",
    "make_monomial",
    "multiply_terms",
]

Monomial: TypeAlias = tuple[UOp, ...]
"""Product of atoms, sorted; an atom that occurs twice is squared."""
Terms: TypeAlias = dict[Monomial, int]
"""Coefficients by monomial.

A monomial is a sorted tuple of atoms; `ONE` is the monomial of the constant. No coefficient is 0.
"""

ONE: Final[Monomial] = ()
"""The monomial of the constant."""
MAX_TERMS: Final = 32
"""Maximum number of terms of a product; larger products are not expanded."""


def make_monomial(*atoms: UOp) -> Monomial:
    """Product of atoms, sorted."""
    return tuple(sorted(atoms, key=node_key)) if len(atoms) > 1 else atoms


def divide_monomial(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """Exact quotient of two monomials, or None if `divisor` does not divide `monomial`."""
    remaining = list(monomial)
    for atom in divisor:
        if atom not in remaining:
            return None
        remaining.remove(atom)
    return tuple(remaining)


def add_monomial(terms: Terms, monomial: Monomial, coefficient: int) -> None:
    """Add a monomial with a coefficient to `terms`, in place."""
    total = terms.get(monomial, 0) + coefficient
    if total:
        terms[monomial] = total
    else:
        terms.pop(monomial, None)


def add_scaled(terms: Terms, other: Mapping[Monomial, int], scale: int) -> Terms:
    """Add `scale` times `other` to `terms`, in place; return `terms`."""
    for monomial, coefficient in other.items():
        add_monomial(terms, monomial, coefficient * scale)
    return terms


def multiply_terms(x: Mapping[Monomial, int], y: Mapping[Monomial, int]) -> Terms:
    """The product of two polynomials."""
    product: Terms = {}
    for a, c in x.items():
        for b, d in y.items():
            add_monomial(product, make_monomial(*a, *b) if a and b else a or b, c * d)
    return product


def get_interval(terms: Mapping[Monomial, int]) -> tuple[int, int]:
    """Interval of the polynomial's value without wrapping: the sum of the monomials' intervals."""
    low = high = terms.get(ONE, 0)
    for monomial, coefficient in terms.items():
        if not monomial:
            continue
        a, b = monomial[0].bounds
        for atom in monomial[1:]:
            c, d = atom.bounds
            corners = (a * c, a * d, b * c, b * d)
            a, b = min(corners), max(corners)
        if coefficient > 0:
            low, high = low + a * coefficient, high + b * coefficient
        else:
            low, high = low + b * coefficient, high + a * coefficient
    return low, high
