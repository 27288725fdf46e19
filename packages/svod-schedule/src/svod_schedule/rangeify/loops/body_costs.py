"""Costs of the nodes in the body of a loop or choice."""

from __future__ import annotations

from typing import Final

from svod_ir import Op, UOp
from svod_ir.loops import iter_nodes
from svod_ir.ops import ELEMENTWISE, MARKS, MOVEMENT, TABLE

__all__ = ["count_nodes", "is_cheap", "is_expensive", "is_made_of_numbers"]

_EXPENSIVE: Final = 4
"""So many additions are worth being computed once where every iteration would compute the same."""

_ALWAYS_EXPENSIVE: Final = frozenset(
    {
        Op.REDUCE_AXIS,
        Op.SCAN_AXIS,
        Op.SCATTER_ADD,
        Op.RESULT,
        Op.COPY,
        Op.CONTIGUOUS,
        Op.ALLREDUCE,
    }
)
_NUMBERS: Final = MOVEMENT | {Op.CONST, Op.IOTA, Op.COPY}
"""A COPY of numbers says where they are computed."""
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
    """Whether a node is worth being computed once for many iterations."""
    return node.op in _ALWAYS_EXPENSIVE or (
        node.op in ELEMENTWISE and TABLE[node.op].recompute_cost >= _EXPENSIVE
    )


def is_cheap(body: UOp) -> bool:
    """Whether all of a body is elementwise, and nothing in it expensive."""
    return all(n.op in _FREE or n.op is Op.IOTA or _is_plain(n) for n in body.toposort())


def is_made_of_numbers(operand: UOp) -> bool:
    """Whether a value comes from no memory and from no variable, and is cheap."""
    return all(n.op in _NUMBERS or _is_plain(n) for n in operand.toposort())


def count_nodes(body: UOp) -> int:
    """How many nodes of a body, and of the bodies in it, compute something."""
    return sum(node.op not in _FREE for node in iter_nodes(body))


def _is_plain(node: UOp) -> bool:
    return node.op in ELEMENTWISE and not is_expensive(node)
