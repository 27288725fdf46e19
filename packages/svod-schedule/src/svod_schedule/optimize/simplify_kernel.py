"""simplify-kernel: algebraic simplification of a kernel before it is optimized.

before → after:

    ADD(MUL(i, 1), 0)                               i
    REDUCE(1, RANGE [8]; ADD)                       8
    WHERE(LT(i, 4), INDEX(a, i // 4 + i), 0)        WHERE(LT(i, 4), INDEX(a, i), 0)
"""

from __future__ import annotations

from svod_ir import UOp, graph_rewrite
from svod_schedule.symbolic import GUARDED, REDUCTIONS, SYMBOLIC

__all__ = ["simplify_kernel"]

_RULES = (SYMBOLIC + REDUCTIONS + GUARDED).renamed("symbolic-in-kernels")


def simplify_kernel(sink: UOp) -> UOp:
    """Fold constants, replace reductions by closed forms, and simplify indices and conditions."""
    return graph_rewrite(_RULES, sink)
