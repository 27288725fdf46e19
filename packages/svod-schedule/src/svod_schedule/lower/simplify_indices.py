"""simplify-indices: simplify the indices that tiled loops have made long.

before → after:

    ADD(MUL(ADD(MUL(i, 4), j), 2), ADD(j, j))       ADD(MUL(i, 8), MUL(j, 4))
"""

from __future__ import annotations

from svod_ir import UOp, graph_rewrite
from svod_schedule.symbolic import SYMBOLIC

__all__ = ["simplify_indices"]


def simplify_indices(sink: UOp) -> UOp:
    """Apply the symbolic rules. Reductions are kept, since applied opts refer to their loops."""
    return graph_rewrite(SYMBOLIC, sink)
