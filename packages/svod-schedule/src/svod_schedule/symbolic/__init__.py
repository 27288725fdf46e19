"""Symbolic simplification: the algebra of indices, bools and constants.

The rule sets are for nodes without a shape (indices, and everything after rangeify): folding a
tensor to a constant would lose its shape.

Example:
    >>> from svod_ir import UOp
    >>> from svod_schedule.symbolic import simplify, simplify_condition, simplify_under
    >>> i = UOp.variable("i", 0, 99)
    >>> simplify((i * 4 + 2) // 2 - 1) is i * 2
    True
    >>> simplify_under(i < 10, i % 10) is i
    True
    >>> simplify_condition((i < 10) & (i < 20)) is simplify(i < 10)
    True

    The rules of each part, on an expression that its rules change:

    >>> from svod_dtype import float32, int64
    >>> from svod_ir import AxisType, Op, format_expression, graph_rewrite
    >>> from svod_schedule.symbolic import CASTS, COMPARISONS, DIVMOD, FLOATS, FOLDING, IDENTITIES, LOGIC, SUMS, SYMBOLIC
    >>> j, x = UOp.variable("j", 0, 3), UOp.variable("x", 0, 9, float32)
    >>> two = UOp.const(i.dtype, 2)
    >>> for rules, expression in (
    ...     (FOLDING, UOp(Op.MUL, i.dtype, (two, two))),
    ...     (IDENTITIES, i - i),
    ...     (LOGIC, (i < 4) & (i < 7)),
    ...     (COMPARISONS, i * 2 + 1 < i * 2 + 8 - j),
    ...     (SUMS, i * 2 + j + i * 3),
    ...     (DIVMOD, (i * 4 + j) // 4),
    ...     (CASTS, UOp(Op.CAST, i.dtype, (i,))),
    ...     (FLOATS, -x * -x),
    ... ):
    ...     assert all(rule in SYMBOLIC.rules for rule in rules)
    ...     print(format_expression(expression), "->", format_expression(graph_rewrite(rules, expression)))
    (2 * 2) -> 4
    (i - i) -> 0
    ((i < 4) & (i < 7)) -> (i < 4)
    (((i * 2) + 1) < (((i * 2) + 8) - j)) -> true
    (((i * 2) + j) + (i * 3)) -> ((i * 5) + j)
    (((i * 4) + j) // 4) -> i
    index(i) -> i
    (neg(x) * neg(x)) -> (x * x)

    Sums over loops, and indices that a condition guards:

    >>> from svod_schedule.symbolic import GUARDED, REDUCTIONS
    >>> r = UOp.range(8, 0, AxisType.REDUCE)
    >>> simplify(graph_rewrite(REDUCTIONS, UOp(Op.REDUCE, i.dtype, (i, r), Op.ADD))) is i * 8
    True
    >>> branches = (i < 4).where(i // 4, j)
    >>> graph_rewrite(GUARDED, branches) is (i < 4).where(UOp.const(i.dtype, 0), j)
    True
"""

from __future__ import annotations

from svod_schedule.symbolic.casts import CASTS
from svod_schedule.symbolic.comparisons import COMPARISONS
from svod_schedule.symbolic.divmod import DIVMOD
from svod_schedule.symbolic.floats import FLOATS
from svod_schedule.symbolic.folding import FOLDING
from svod_schedule.symbolic.identities import IDENTITIES
from svod_schedule.symbolic.logic import LOGIC
from svod_schedule.symbolic.reductions import REDUCTIONS
from svod_schedule.symbolic.simplify import SYMBOLIC, simplify
from svod_schedule.symbolic.sums import SUMS
from svod_schedule.symbolic.valid import GUARDED, simplify_condition, simplify_under

__all__ = [
    "CASTS",
    "COMPARISONS",
    "DIVMOD",
    "FLOATS",
    "FOLDING",
    "GUARDED",
    "IDENTITIES",
    "LOGIC",
    "REDUCTIONS",
    "SUMS",
    "SYMBOLIC",
    "simplify",
    "simplify_condition",
    "simplify_under",
]
