"""The rule set of all symbolic rules, and its application to one expression."""

from __future__ import annotations

from typing import Final

from svod_ir.ops import Op
from svod_ir.rewrite import graph_rewrite
from svod_ir.uop import UOp
from svod_schedule.symbolic.casts import CASTS
from svod_schedule.symbolic.comparisons import COMPARISONS
from svod_schedule.symbolic.divmod import DIVMOD
from svod_schedule.symbolic.floats import FLOATS
from svod_schedule.symbolic.folding import FOLDING
from svod_schedule.symbolic.identities import IDENTITIES
from svod_schedule.symbolic.logic import LOGIC
from svod_schedule.symbolic.sums import SUMS

__all__ = ["SYMBOLIC", "simplify"]

SYMBOLIC: Final = (FOLDING + IDENTITIES + LOGIC + COMPARISONS + SUMS + DIVMOD + CASTS + FLOATS).renamed("symbolic")
"""Every rule that holds for all nodes without a shape, bit for bit."""

_FINAL: Final = frozenset({Op.CONST, Op.VCONST, Op.DEFINE_VAR, Op.SPECIAL, Op.PARAM, Op.BUFFER})


def simplify(node: UOp) -> UOp:
    """The simplest equal expression that the symbolic rules find."""
    return node if node.op in _FINAL else graph_rewrite(SYMBOLIC, node)
