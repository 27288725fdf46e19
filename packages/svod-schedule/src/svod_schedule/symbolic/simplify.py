"""Set of all symbolic rules, and its application to one expression."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from svod_ir import Op, UOp, graph_rewrite
from svod_ir.ops import ELEMENTWISE
from svod_ir.rewrite import is_watched
from svod_schedule.symbolic.casts import CASTS
from svod_schedule.symbolic.comparisons import COMPARISONS
from svod_schedule.symbolic.divmod import DIVMOD
from svod_schedule.symbolic.floats import FLOATS
from svod_schedule.symbolic.folding import FOLDING
from svod_schedule.symbolic.identities import IDENTITIES
from svod_schedule.symbolic.logic import LOGIC
from svod_schedule.symbolic.sums import SUMS

__all__ = ["PLACED", "SYMBOLIC", "simplify"]

SYMBOLIC: Final = (
    FOLDING + IDENTITIES + LOGIC + COMPARISONS + SUMS + DIVMOD + CASTS + FLOATS
).renamed("symbolic")
"""All rules that hold for nodes without a shape, bit for bit."""

PLACED: Final = frozenset({Op.INDEX, Op.LOAD, Op.AFTER, Op.BUFFERIZE, Op.REDUCE, Op.SCAN})
"""Reads of memory and loops, which all their users share in a kernel.

`simplify` does not rewrite below them: if only one user had a changed copy, the read or loop would
be executed twice."""

_FINAL: Final = frozenset({Op.CONST, Op.VCONST, Op.DEFINE_VAR, Op.SPECIAL, Op.PARAM, Op.BUFFER})
_COUNTERS: Final = frozenset({Op.CONST, Op.RANGE, Op.DEFINE_VAR, Op.SPECIAL})
_MAX_REMEMBERED_NODES: Final = 24


def simplify(node: UOp) -> UOp:
    """Simplify an expression by the symbolic rules, with the same reads of memory and the same
    reductions.
    """
    if node.op in _FINAL:
        return node
    if _is_index_arithmetic(node):
        return graph_rewrite(SYMBOLIC, node) if is_watched() else _remember(node)
    return graph_rewrite(SYMBOLIC, node, atoms=PLACED)


@lru_cache(maxsize=4096)
def _remember(node: UOp) -> UOp:
    """Simplify an index expression, which recurs in every kernel of the same form.

    The rule set's own cache forgets an expression when its last user is gone, which is immediately
    in this case. For a layer of an encoder, half of the calls are hits, which saves a tenth of the
    compilation."""
    return graph_rewrite(SYMBOLIC, node)


def _is_index_arithmetic(node: UOp) -> bool:
    """Whether `node` is a short expression of loop counters only. An expression that reads memory is
    not cached, since that would keep the memory alive.
    """
    stack = [node]
    for _ in range(_MAX_REMEMBERED_NODES):
        if not stack:
            return True
        current = stack.pop()
        if current.op in ELEMENTWISE:
            stack.extend(current.src)
        elif current.op not in _COUNTERS:
            return False
    return False
