"""The rule set of all symbolic rules, and its application to one expression."""

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
"""Every rule that holds for all nodes without a shape, bit for bit."""

PLACED: Final = frozenset({Op.INDEX, Op.LOAD, Op.AFTER, Op.BUFFERIZE, Op.REDUCE, Op.SCAN})
"""Reads of memory and loops: they have a place in the kernel, which all readers share.

An expression is simplified above them: one that other expressions read as well, and that changed
here alone, would be read, or run, twice, the second time in the loop of the first. """

_FINAL: Final = frozenset({Op.CONST, Op.VCONST, Op.DEFINE_VAR, Op.SPECIAL, Op.PARAM, Op.BUFFER})
_COUNTERS: Final = frozenset({Op.CONST, Op.RANGE, Op.DEFINE_VAR, Op.SPECIAL})
_MAX_REMEMBERED_NODES: Final = 24


def simplify(node: UOp) -> UOp:
    """The simplest equal expression that the symbolic rules find, of the same reads of memory and
    the same reductions.
    """
    if node.op in _FINAL:
        return node
    if _is_index_arithmetic(node):
        return graph_rewrite(SYMBOLIC, node) if is_watched() else _remember(node)
    return graph_rewrite(SYMBOLIC, node, atoms=PLACED)


@lru_cache(maxsize=4096)
def _remember(node: UOp) -> UOp:
    """The result for an expression that comes again in every kernel of the same form.

    The rule set's own memory forgets an expression when its last reader is gone, which is at once
    here."""
    return graph_rewrite(SYMBOLIC, node)


def _is_index_arithmetic(node: UOp) -> bool:
    """Whether `node` is a short expression of loop counters alone: to remember one that reads
    memory would keep that memory alive.
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
