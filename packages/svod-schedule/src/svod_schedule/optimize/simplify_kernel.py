"""simplify-kernel: what can be known about a kernel's values before it is optimised.

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
    """`sink` with constants folded, reductions without a loop where there is a formula, and simple
    indices and conditions.
    """
    return graph_rewrite(_RULES, sink)
