"""Patterns of nodes, as declarative expressions.

    x, c = var("x"), const("c")
    node(Op.REDUCE, x + 0, c)

- A name captures the matching node; a repeated name must match the same node.
- A number matches a constant of that value: a CONST, or a VCONST with that value in each lane; 0
  does not match -0.0.
- Commutative ops match in both orders.

Example:
    >>> from svod_ir import Op, UOp, rule
    >>> from svod_ir.pattern import INT, const, node, var
    >>> @rule(node(Op.ADD, var("x", INT), const("c", when=lambda c: c.arg == 0)))
    ... def add_zero(x: UOp, c: UOp) -> UOp | None:
    ...     'x + 0 -> x.'
    ...     return x
    >>> add_zero.name
    'add_zero'
    >>> from svod_dtype import float32
    >>> from svod_ir.pattern import ANYTHING, BOOL, NUMBER, Kinds
    >>> def negated(kinds: Kinds):
    ...     return node(Op.NEG, var("x").of(kinds), arg=ANYTHING).named("y")
    >>> [negated(kinds).src[0].accepts_ops(Op.CONST, float32.kind, ()) for kinds in (NUMBER, BOOL)]
    [True, False]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from svod_ir.ops import COMMUTATIVE, Op
from svod_ir.uop import UOp

__all__ = [
    "ANYTHING",
    "BOOL",
    "FLOAT",
    "INT",
    "NUMBER",
    "Kinds",
    "Pattern",
    "const",
    "node",
    "splat",
    "splat_value",
    "var",
]

Kinds = frozenset[str]
"""Kinds of dtype that a pattern matches, see `DType.kind`."""
Number = bool | int | float

INT: Final[Kinds] = frozenset({"int", "uint", "index"})
"""Integers and indices."""
FLOAT: Final[Kinds] = frozenset({"float"})
"""Floats of every width."""
BOOL: Final[Kinds] = frozenset({"bool"})
"""Truth values."""
NUMBER: Final[Kinds] = INT | FLOAT
"""Integers, indices and floats."""

_CONSTANTS: Final = frozenset({Op.CONST, Op.VCONST})
ANYTHING: Final = object()
"""Wildcard for the arg of a pattern, since None is an arg."""


# Compared by identity: `==` of two patterns would compare functions, and each pattern is a key of
# compiled matchers.
@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A pattern of nodes; `var`, `const`, `splat` and `node` build patterns, operators combine
    them.

    `ops`, `src`, `kinds` and `when` are None if anything matches. With `has_more` the node may have
    more operands than `src`.

    Example:
        >>> from svod_ir import Pattern
        >>> from svod_ir.pattern import var
        >>> twice = var("x") * 2
        >>> isinstance(twice, Pattern), twice.is_commutative, twice.ordered().is_commutative
        (True, True, False)
        >>> from svod_ir import Op, UOp, rule
        >>> from svod_ir.pattern import INT
        >>> x, y = var("x").of(INT), var("y")
        >>> @rule(x.eq(y).where(x, y), x.ne(y).where(y, x), x.maximum(y).minimum(y).named("y"))
        ... def take_y(y: UOp) -> UOp:
        ...     'x == y ? x : y -> y.'
        ...     return y
        >>> i, j = UOp.variable("i", 0, 9), UOp.variable("j", 0, 9)
        >>> take_y.apply(i.eq(j).where(i, j)) is j, take_y.patterns[0].accepts_ops(Op.ADD, "index", ())
        (True, False)
    """

    ops: frozenset[Op] | None = None
    src: tuple[Pattern, ...] | None = None
    name: str | None = None
    kinds: Kinds | None = None
    arg: object = ANYTHING
    when: Callable[[UOp], bool] | None = None
    is_ordered: bool = False
    has_more: bool = False

    def named(self, name: str) -> Pattern:
        """Copy of this pattern that captures its node as `name`."""
        return replace(self, name=name)

    def ordered(self) -> Pattern:
        """Copy of this pattern that matches its operands only in the written order."""
        return replace(self, is_ordered=True)

    def of(self, kinds: Kinds) -> Pattern:
        """Copy of this pattern for nodes of these kinds of dtype."""
        return replace(self, kinds=kinds)

    @property
    def is_commutative(self) -> bool:
        if self.is_ordered or self.ops is None or self.src is None:
            return False
        # All ops must commute: a pattern of several ops is compiled once for all of them.
        return len(self.src) == 2 and self.ops <= COMMUTATIVE

    def accepts_ops(self, op: Op, kind: str, operands: tuple[Op, ...]) -> bool:
        """False if no node with this op, kind of dtype and operands' ops can match."""
        if (self.ops is not None and op not in self.ops) or (
            self.kinds is not None and kind not in self.kinds
        ):
            return False
        if self.src is None:
            return True
        # A test on ops alone, which the rule set caches for all nodes of equal ops.
        if len(operands) != len(self.src) and not (self.has_more and len(operands) > len(self.src)):
            return False
        orders = (operands, operands[::-1]) if self.is_commutative else (operands,)
        return any(
            all(p.ops is None or o in p.ops for p, o in zip(self.src, order, strict=False))
            for order in orders
        )

    def __add__(self, other: Pattern | Number) -> Pattern:
        return node(Op.ADD, self, other)

    def __sub__(self, other: Pattern | Number) -> Pattern:
        return node(Op.SUB, self, other)

    def __mul__(self, other: Pattern | Number) -> Pattern:
        return node(Op.MUL, self, other)

    def __floordiv__(self, other: Pattern | Number) -> Pattern:
        return node(Op.IDIV, self, other)

    def __mod__(self, other: Pattern | Number) -> Pattern:
        return node(Op.MOD, self, other)

    def __truediv__(self, other: Pattern | Number) -> Pattern:
        return node(Op.FDIV, self, other)

    def __and__(self, other: Pattern | Number) -> Pattern:
        return node(Op.AND, self, other)

    def __or__(self, other: Pattern | Number) -> Pattern:
        return node(Op.OR, self, other)

    def __xor__(self, other: Pattern | Number) -> Pattern:
        return node(Op.XOR, self, other)

    def __lshift__(self, other: Pattern | Number) -> Pattern:
        return node(Op.SHL, self, other)

    def __rshift__(self, other: Pattern | Number) -> Pattern:
        return node(Op.SHR, self, other)

    def __lt__(self, other: Pattern | Number) -> Pattern:
        return node(Op.LT, self, other)

    def __le__(self, other: Pattern | Number) -> Pattern:
        return node(Op.LE, self, other)

    def __neg__(self) -> Pattern:
        return node(Op.NEG, self)

    def __invert__(self) -> Pattern:
        return node(Op.NOT, self)

    def eq(self, other: Pattern | Number) -> Pattern:
        """Pattern of EQ; `==` compares patterns."""
        return node(Op.EQ, self, other)

    def ne(self, other: Pattern | Number) -> Pattern:
        """Pattern of NE."""
        return node(Op.NE, self, other)

    def maximum(self, other: Pattern | Number) -> Pattern:
        """Pattern of MAX."""
        return node(Op.MAX, self, other)

    def minimum(self, other: Pattern | Number) -> Pattern:
        """Pattern of MIN."""
        return node(Op.MIN, self, other)

    def where(self, x: Pattern | Number, y: Pattern | Number) -> Pattern:
        """Pattern of WHERE, with this pattern as the condition."""
        return node(Op.WHERE, self, x, y)

    def cast(self) -> Pattern:
        """Pattern of CAST to any dtype."""
        return node(Op.CAST, self)


def var(
    name: str | None = None, kinds: Kinds | None = None, when: Callable[[UOp], bool] | None = None
) -> Pattern:
    """Pattern of any node.

    Args:
        name: name that captures the node; a repeated name must match the same node.
        kinds: kinds of dtype to match, such as `INT`; None matches all.
        when: predicate of the node.
    """
    return Pattern(name=name, kinds=kinds, when=when)


def const(
    name: str | None = None, kinds: Kinds | None = None, when: Callable[[UOp], bool] | None = None
) -> Pattern:
    """Pattern of a scalar constant; its value is the `arg` of the captured node.

    Args:
        name: name that captures the node.
        kinds: kinds of dtype to match, such as `INT`; None matches all.
        when: predicate of the node.
    """
    return Pattern(frozenset({Op.CONST}), (), name, kinds, when=when)


def splat(name: str | None = None, kinds: Kinds | None = None, value: object = ANYTHING) -> Pattern:
    """Pattern of a constant with one value in all lanes; `splat_value` returns the value.

    Args:
        name: name that captures the node.
        kinds: kinds of dtype to match, such as `INT`; None matches all.
        value: the value to match; by default any. 0.0 does not match -0.0.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import UOp, rule
        >>> from svod_ir.pattern import splat, splat_value, var
        >>> @rule(var("x") / splat("c"))
        ... def divide(x: UOp, c: UOp) -> UOp:
        ...     'x / c -> x * (1 / c).'
        ...     return x * (1 / splat_value(c))
        >>> x = UOp.variable("x", 0, 9, float32)
        >>> divide.apply(x / 4.0).right
        CONST():f32[0.25]
    """
    if value is ANYTHING:
        return Pattern(_CONSTANTS, (), name, kinds, when=lambda n: splat_value(n) is not None)
    assert isinstance(value, (bool, int, float))
    return Pattern(_CONSTANTS, (), name, kinds, when=_is_value(value))


def node(
    op: Op | frozenset[Op],
    *src: Pattern | Number,
    name: str | None = None,
    kinds: Kinds | None = None,
    arg: object = ANYTHING,
    when: Callable[[UOp], bool] | None = None,
    has_more: bool = False,
) -> Pattern:
    """Pattern of a node with one of the given ops.

    Args:
        op: op, or several of which any matches.
        src: patterns of the operands, in both orders if the op is commutative; a number matches a
            constant of that value. Without `src` any operands match.
        name: name that captures the node; a repeated name must match the same node.
        kinds: kinds of dtype to match, such as `INT`; None matches all.
        arg: the `arg` of the node; by default any.
        when: predicate of the node.
        has_more: whether the node may have more operands than `src`.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import Op, UOp, rule
        >>> from svod_ir.pattern import node, var
        >>> @rule(node(Op.CAST, var("x"), when=lambda cast: cast.dtype is cast.src[0].dtype))
        ... def no_cast(x: UOp) -> UOp:
        ...     'cast(x) -> x.'
        ...     return x
        >>> x = UOp.variable("x", 0, 9, float32)
        >>> no_cast.apply(UOp(Op.CAST, float32, (x,))) is x
        True
    """
    ops = op if isinstance(op, frozenset) else frozenset({op})
    # A number matches vectors too: rules hold for each lane.
    operands = tuple(s if isinstance(s, Pattern) else splat(value=s) for s in src)
    return Pattern(ops, operands or None, name, kinds, arg, when, has_more=has_more)


def splat_value(constant: UOp) -> Number | None:
    """The common value of all lanes of a CONST or VCONST, or None.

    Example:
        >>> from svod_dtype import float32
        >>> from svod_ir import Op, UOp
        >>> from svod_ir.pattern import splat_value
        >>> splat_value(UOp.const(float32.vec(4), 2)), splat_value(UOp(Op.VCONST, float32.vec(2), (), (1.0, 2.0)))
        (2.0, None)
    """
    if constant.op is Op.CONST:
        return constant.arg
    if constant.op is Op.VCONST:
        first = constant.arg[0]
        # Lanes of float constants are compared with the signs of zeros; NaN equals no lane.
        if all(lane == first for lane in constant.arg) and (
            first != 0 or constant is UOp.const(constant.dtype, first)
        ):
            return first
    return None


def _is_value(value: Number) -> Callable[[UOp], bool]:
    is_negative = math.copysign(1.0, value) < 0

    def check(constant: UOp) -> bool:
        lane_value = splat_value(constant)
        return (
            lane_value is not None
            and lane_value == value
            # 0.0 == -0.0, but `x + 0.0 -> x` is wrong for x = -0.0.
            and (value != 0 or (math.copysign(1.0, lane_value) < 0) == is_negative)
        )

    return check
