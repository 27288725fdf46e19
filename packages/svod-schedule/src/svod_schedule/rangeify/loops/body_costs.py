"""Costs of the nodes in the body of a loop or choice."""

from __future__ import annotations

from typing import Final

from svod_ir import Op, UOp
from svod_ir.loops import iter_nodes
from svod_ir.ops import ELEMENTWISE, MARKS, MOVEMENT, TABLE

__all__ = ["count_nodes", "is_cheap", "is_cheap_constant", "is_expensive"]

_EXPENSIVE: Final = 4
"""Minimum cost, in additions, of an elementwise op that is hoisted out of a loop."""

_ALWAYS_EXPENSIVE: Final = frozenset(
    {
        Op.REDUCE_AXIS,
        Op.SCAN_AXIS,
        Op.SCATTER,
        Op.RESULT,
        Op.COPY,
        Op.CONTIGUOUS,
        Op.ALLREDUCE,
        Op.RESHARD,
    }
)
_CONSTANT_OPS: Final = MOVEMENT | {Op.CONST, Op.IOTA, Op.COPY}
"""Ops of values that depend on no memory. A COPY of such a value names the device that computes
it."""
_FREE: Final = (
    MOVEMENT
    | MARKS
    | {
        Op.CONST,
        Op.PARAM,
        Op.DEFINE_VAR,
        Op.BIND,
        Op.SINK,
        Op.MSTACK,
        Op.MSELECT,
        Op.MULTI,
    }
)


def is_expensive(node: UOp) -> bool:
    """Whether computing a node once for many iterations pays."""
    return node.op in _ALWAYS_EXPENSIVE or (
        node.op in ELEMENTWISE and TABLE[node.op].recompute_cost >= _EXPENSIVE
    )


def is_cheap(body: UOp) -> bool:
    """Whether a body consists of cheap elementwise ops."""
    return all(
        n.op in _FREE or n.op is Op.IOTA or _is_cheap_elementwise(n) for n in body.toposort()
    )


def is_cheap_constant(operand: UOp) -> bool:
    """Whether a value is cheap and depends on no memory and no variable."""
    return all(n.op in _CONSTANT_OPS or _is_cheap_elementwise(n) for n in operand.toposort())


def count_nodes(body: UOp) -> int:
    """Number of nodes of a body, and of nested bodies, that generate code."""
    return sum(node.op not in _FREE for node in iter_nodes(body))


def _is_cheap_elementwise(node: UOp) -> bool:
    return node.op in ELEMENTWISE and not is_expensive(node)
