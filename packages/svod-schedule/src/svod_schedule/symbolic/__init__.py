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
