"""Symbolic sizes and their normal form, so that equal sizes are one node.

A size is a polynomial with integer coefficients over atoms: variables, and expressions that are not
polynomials of them (`n // 3`, `max(n, m)`, a bound variable). In normal form its terms are
collected and ordered:

    (n + 1) * 2 - n        n + 2
    (2*n + 5) // 2         n + 2
    4 * n // 4             n
    max(n, n + 1)          n + 1
    min(n, 2)              n - max(n - 2, 0)

The order depends on names and not on values, so that a size keeps its form when its variables are
bound or freed.

Example:
    >>> from svod_ir import UOp
    >>> from svod_ir.sizes import bounds_of_size, describe_size, divide_size, is_known_at_most, max_size, normalize_size, product, unbind
    >>> n = UOp.variable("n", 1, 64)
    >>> bounds_of_size(n * 2), max_size(n), describe_size(n * 2)
    ((2, 128), 64, '2*n')
    >>> product((2, n, 3)) is normalize_size(n * 6), divide_size(n * 6, 3) is normalize_size(n * 2)
    (True, True)
    >>> is_known_at_most(n, 64), unbind(n) is n
    (True, True)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from svod_dtype import index
from svod_ir._size_text import format_size
from svod_ir.ops import Op
from svod_ir.polynomial import (
    MAX_TERMS,
    Monomial,
    add_scaled,
    divide_monomial,
    get_interval,
    multiply_terms,
)
from svod_ir.uop import SInt, UOp, defines, to_node

__all__ = [
    "bounds_of_size",
    "describe_size",
    "divide_size",
    "is_known_at_most",
    "max_size",
    "normalize_size",
    "product",
    "unbind",
]

_MAX_CORNERS = 6  # atoms; a polynomial is evaluated at 2 ** atoms corners

_Polynomial: TypeAlias = Mapping[Monomial, int]
_ZERO: _Polynomial = {}


def normalize_size(size: SInt) -> SInt:
    """Normal form of a size: an int if it does not depend on variables."""
    return size if isinstance(size, int) else _to_size(_to_polynomial(size))


def product(sizes: Sequence[SInt]) -> SInt:
    """The product of sizes, in normal form."""
    known = math.prod(s for s in sizes if isinstance(s, int))
    symbolic = [s for s in sizes if not isinstance(s, int)]
    # 0 times a symbolic size is 0 for all its values.
    if not symbolic or known == 0:
        return known
    result: _Polynomial = {(): known}
    for size in symbolic:
        result = _multiply(result, _to_polynomial(size))
    return _to_size(result)


def divide_size(size: SInt, divisor: SInt) -> SInt | None:
    """Exact quotient of two sizes, or None if none is known."""
    if isinstance(size, int) and isinstance(divisor, int):
        return None if divisor == 0 or size % divisor else size // divisor
    quotient = _divide(_to_polynomial(to_node(size)), _to_polynomial(to_node(divisor)))
    return None if quotient is None else _to_size(quotient)


def bounds_of_size(size: SInt) -> tuple[int, int]:
    """An interval that contains a size for all values of its variables."""
    if isinstance(size, int):
        return size, size
    polynomial = _to_polynomial(size)
    low, high = _bounds(polynomial)
    # The form with max and min may have tighter bounds than the sum.
    least, most = _to_choice(polynomial).bounds
    return max(low, int(least)), min(high, int(most))


def max_size(size: SInt) -> int:
    """The largest value of a size: itself, or the upper bound of a symbolic one."""
    return size if isinstance(size, int) else max(bounds_of_size(size)[1], 0)


def is_known_at_most(size: SInt, limit: SInt) -> bool:
    """True if `size <= limit` provably holds for all values of the variables."""
    if isinstance(size, int) and isinstance(limit, int):
        return size <= limit
    # Depth 4: the work grows with the number of atoms to that power.
    return _is_known_nonnegative(
        _add(_to_polynomial(to_node(limit)), _to_polynomial(to_node(size)), -1), 4
    )


def unbind(node: UOp) -> UOp:
    """Replace each BIND by its variable."""
    return node.substitute({bind: bind.symbol for bind in node.iter_ops(Op.BIND)})


def describe_size(size: SInt, value: int | None = None) -> str:
    """Format a size, followed by its value if it depends on variables: `2*n=6`.

    Args:
        size: the size.
        value: the current value; by default the value under its BINDs, if these bind constants.
    """
    if isinstance(size, int):
        return str(size)
    if value is None:
        value = _find_value(size)
    return format_size(size) if value is None else f"{format_size(size)}={value}"


def _find_value(size: UOp) -> int | None:
    values = {bind: bind.value for bind in size.iter_ops(Op.BIND) if bind.value.op is Op.CONST}
    bound_size = normalize_size(size.substitute(values)) if values else size
    return bound_size if isinstance(bound_size, int) else None


_ARITHMETIC: Final = frozenset(
    {
        Op.CONST,
        Op.DEFINE_VAR,
        Op.BIND,
        Op.ADD,
        Op.SUB,
        Op.NEG,
        Op.MUL,
        Op.IDIV,
        Op.MOD,
        Op.MAX,
        Op.MIN,
    }
)


@defines("find_size_text")
def _find_text(node: UOp) -> str | None:
    """Text of a node of dtype index if it is a tensor's size: arithmetic of bound variables."""
    ops = {n.op for n in node.toposort()}
    # Index expressions of kernels have no BIND and print as nodes.
    is_size = Op.BIND in ops and ops <= _ARITHMETIC
    return describe_size(node) if is_size else None


@format_size.register
def _format_normalized(size: UOp) -> str:
    return _format(_to_choice(_to_polynomial(size))) if size.dtype is index else str(size)


def _format(size: UOp) -> str:
    texts: dict[UOp, str] = {}
    for node in size.toposort():
        texts[node] = _format_node(node, texts)
    return texts[size]


_SYMBOLS = {Op.ADD: " + ", Op.SUB: " - ", Op.MUL: "*", Op.IDIV: "//", Op.MOD: " % "}
_PRECEDENCE = {Op.ADD: 0, Op.SUB: 0, Op.MUL: 1, Op.IDIV: 1, Op.MOD: 1}


def _format_node(node: UOp, texts: Mapping[UOp, str]) -> str:
    def inside(operand: UOp) -> str:
        is_chain = operand.op is node.op and node.op in (Op.ADD, Op.MUL)
        needs_brackets = not is_chain and _PRECEDENCE.get(operand.op, 2) <= _PRECEDENCE[node.op]
        return f"({texts[operand]})" if needs_brackets else texts[operand]

    match node.op:
        case Op.CONST:
            return str(node.arg)
        case Op.DEFINE_VAR:
            return node.arg.name
        case Op.BIND | Op.CAST:
            return texts[node.src[0]]
        case Op.MUL if node.right.op is Op.CONST:
            factor = "-" if node.right.arg == -1 else f"{node.right.arg}*"
            return f"{factor}{inside(node.left)}"
        case Op.ADD if texts[node.right].startswith("-"):
            return f"{texts[node.left]} - {texts[node.right][1:]}"
        case op if op in _SYMBOLS:
            return _SYMBOLS[op].join(map(inside, node.src))
        case op:
            return f"{op.name.lower()}({', '.join(texts[s] for s in node.src)})"


def _to_polynomial(size: UOp) -> _Polynomial:
    done: dict[UOp, _Polynomial] = {}
    for node in size.toposort():
        # By node, since a shared subexpression would be expanded once for each path.
        done[node] = _node_to_polynomial(node, [done[s] for s in node.src])
    return done[size]


def _node_to_polynomial(node: UOp, operands: Sequence[_Polynomial]) -> _Polynomial:
    match node.op:
        case Op.CONST:
            return {(): int(node.arg)} if node.arg else {}
        case Op.ADD:
            return _add(operands[0], operands[1], 1)
        case Op.SUB:
            return _add(operands[0], operands[1], -1)
        case Op.NEG:
            return _add(_ZERO, operands[0], -1)
        case Op.MUL:
            return _multiply(*operands)
        case Op.IDIV | Op.MOD:
            return _floor_divide(node.op, *operands)
        case Op.MAX | Op.MIN:
            return _choose(node.op, *operands)
        case _:
            return {(node,): 1}


def _add(left: _Polynomial, right: _Polynomial, factor: int) -> _Polynomial:
    return add_scaled(dict(left), right, factor)


def _multiply(left: _Polynomial, right: _Polynomial) -> _Polynomial:
    # Larger products stay factored, as an atom: expanding powers of sums grows exponentially.
    if len(left) * len(right) <= MAX_TERMS:
        return multiply_terms(left, right)
    factors = sorted((to_node(_to_size(p)) for p in (left, right)), key=_atom_key)
    return {(UOp(Op.MUL, index, tuple(factors)),): 1}


def _floor_divide(op: Op, left: _Polynomial, right: _Polynomial) -> _Polynomial:
    """`(c*q + r) // c -> q + r // c`, and `% c -> r % c`, for a constant c."""
    divisor = _constant(right)
    if divisor is None or divisor == 0:
        exact = _divide(left, right) if op is Op.IDIV and right else None
        return _make_atom(op, left, right) if exact is None else exact
    # Floor division: each coefficient leaves a remainder of at least 0, also a negative one.
    quotient = {
        term: coefficient // divisor for term, coefficient in left.items() if coefficient // divisor
    }
    leftover = {
        term: coefficient % divisor for term, coefficient in left.items() if coefficient % divisor
    }
    low, high = _bounds(leftover)
    if low >= 0 and high < divisor:
        remainder, carry = leftover, _ZERO
    else:
        remainder, carry = _make_atom(Op.MOD, leftover, right), _make_atom(Op.IDIV, leftover, right)
    return remainder if op is Op.MOD else _add(quotient, carry, 1)


def _choose(op: Op, left: _Polynomial, right: _Polynomial) -> _Polynomial:
    """`max(p, q) -> q + max(p - q, 0)`, and `min(p, q) -> p - max(p - q, 0)`."""
    excess = _positive_part(_add(left, right, -1))
    return _add(right, excess, 1) if op is Op.MAX else _add(left, excess, -1)


def _positive_part(polynomial: _Polynomial) -> _Polynomial:
    """`max(p, 0)`, and `max(-p, 0) -> max(p, 0) - p`, so that p and -p share one atom."""
    if _is_known_nonnegative(polynomial, 4):
        return polynomial
    opposite = _add(_ZERO, polynomial, -1)
    if _is_known_nonnegative(opposite, 4):
        return _ZERO
    # Of p and -p, the one with a positive leading coefficient is the atom.
    if polynomial[max(polynomial, key=_term_order)] > 0:
        return _make_atom(Op.MAX, polynomial, _ZERO)
    return _add(_make_atom(Op.MAX, opposite, _ZERO), polynomial, 1)


def _make_atom(op: Op, *operands: _Polynomial) -> _Polynomial:
    return {(UOp(op, index, tuple(to_node(_to_size(p)) for p in operands)),): 1}


def _constant(polynomial: _Polynomial) -> int | None:
    if not polynomial:
        return 0
    return polynomial.get(()) if len(polynomial) == 1 else None


def _to_size(polynomial: _Polynomial) -> SInt:
    constant = _constant(polynomial)
    return _to_sum(polynomial) if constant is None else constant


def _to_choice(polynomial: _Polynomial) -> UOp:
    """`r + max(p, 0) -> max(r + p, r)` and `r - max(p, 0) -> min(r - p, r)`, if that has no more
    terms.
    """
    for term, coefficient in polynomial.items():
        if (
            len(polynomial) == 1
            or len(term) != 1
            or term[0].op is not Op.MAX
            or abs(coefficient) != 1
        ):
            continue
        remaining = {t: k for t, k in polynomial.items() if t != term}
        argument = _to_polynomial(term[0].left)
        alternative = _add(remaining, argument, coefficient)
        # For display and bounds only; the sum with max stays the normal form.
        if len(alternative) <= len(argument):
            operands = sorted((_to_choice(remaining), _to_choice(alternative)), key=_atom_key)
            return UOp(Op.MAX if coefficient > 0 else Op.MIN, index, tuple(operands))
    return to_node(_to_size(polynomial))


def _to_sum(polynomial: _Polynomial) -> UOp:
    total: UOp | None = None
    # Positive terms come first, so that negative ones are written as subtractions.
    keys = {term: _term_order(term)[1] for term in polynomial}
    for term in sorted(polynomial, key=lambda t: (not t, polynomial[t] < 0, -len(t), keys[t])):
        node = UOp.const(index, 1)
        for atom in sorted(term, key=_atom_key):
            node = node * atom
        node = node * polynomial[term]
        total = node if total is None else total + node
    assert total is not None
    return total


def _atom_key(atom: UOp) -> tuple[str, str]:
    # Variables of equal names may differ in their bounds.
    variables = [str(n.arg) for n in unbind(atom).iter_ops(Op.DEFINE_VAR)]
    return _format(atom), " ".join(variables)


def _divide(left: _Polynomial, right: _Polynomial) -> _Polynomial | None:
    """Exact quotient, by long division on the leading terms."""
    if not right:
        return None
    quotient: _Polynomial = {}
    remainder = left
    lead = max(right, key=_term_order)
    while remainder:
        first = max(remainder, key=_term_order)
        factor = divide_monomial(first, lead)
        if factor is None or remainder[first] % right[lead] or len(quotient) > MAX_TERMS:
            return None
        step = {factor: remainder[first] // right[lead]}
        quotient = _add(quotient, step, 1)
        remainder = _add(remainder, _multiply(step, right), -1)
    return quotient


def _term_order(term: Monomial) -> tuple[int, list[tuple[str, str]]]:
    return len(term), sorted(_atom_key(a) for a in term)


def _bounds(polynomial: _Polynomial) -> tuple[int, int]:
    """Bounds of a polynomial: exact, from the corners, if no term repeats an atom and there are few
    atoms; else the sum of the terms' intervals.
    """
    atoms = list(dict.fromkeys(a for term in polynomial for a in term))
    is_linear = all(len(set(term)) == len(term) for term in polynomial)
    # Linear in each atom, so the extremes are at corners.
    if is_linear and len(atoms) <= _MAX_CORNERS:
        ends = [(int(a.vmin), int(a.vmax)) for a in atoms]
        values = [
            _value(polynomial, dict(zip(atoms, corner, strict=True)))
            for corner in itertools.product(*ends)
        ]
        return min(values), max(values)
    return get_interval(polynomial)


def _value(polynomial: _Polynomial, values: Mapping[UOp, int]) -> int:
    return sum(
        coefficient * math.prod(values[a] for a in term) for term, coefficient in polynomial.items()
    )


def _is_known_nonnegative(polynomial: _Polynomial, depth: int) -> bool:
    """True if a polynomial is provably nonnegative, by bounding each `//` and `max` in it."""
    if _bounds(polynomial)[0] >= 0:
        return True
    if depth == 0:
        return False
    for term, coefficient in polynomial.items():
        if len(term) != 1:
            continue
        remaining = {t: k for t, k in polynomial.items() if t != term}
        for estimates in _lower_estimates(term[0], coefficient, remaining):
            if all(_is_known_nonnegative(p, depth - 1) for p in estimates):
                return True
    return False


def _lower_estimates(
    atom: UOp, coefficient: int, remaining: _Polynomial
) -> list[list[_Polynomial]]:
    """Lists of lower bounds: if all polynomials of one list are nonnegative, then so is
    `coefficient * atom + remaining`.
    """
    if atom.op is Op.IDIV and atom.right.op is Op.CONST and atom.right.arg > 0:
        # x - c + 1 <= c * (x // c) <= x.
        divisor, x = atom.right.arg, _to_polynomial(atom.left)
        scaled = _add(_add(_ZERO, remaining, divisor), x, coefficient)
        return [[scaled if coefficient < 0 else _add(scaled, {(): 1 - divisor}, coefficient)]]
    if atom.op is Op.MAX:
        branches = [remaining, _add(remaining, _to_polynomial(atom.left), coefficient)]
        return [branches] if coefficient < 0 else [[p] for p in branches]
    return []
