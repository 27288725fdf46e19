"""Formatting of nodes as expressions, for display."""

from __future__ import annotations

from typing import Final

from svod_ir.ops import BINARY, TABLE, UNARY, Op
from svod_ir.text.printer import format_top, format_value
from svod_ir.uop import UOp

__all__ = ["INFIX", "format_expression"]


def format_expression(node: UOp, limit: int = 400) -> str:
    """Format a node as one line for display, as in `p0[(L0 * 16 + L1)]`; subexpressions longer than
    `limit` characters become `...`.
    """
    done: dict[UOp, str] = {}
    # By node, not by path: shared subexpressions would make the text exponentially long.
    for subnode in node.toposort():
        # Cut at each level, so that no text grows beyond a few times the limit.
        shown = _show(subnode, [done[s] for s in subnode.src])
        done[subnode] = shown if len(shown) <= limit else "..."
    return done[node]


INFIX: Final = {op: row.infix for op, row in TABLE.items() if row.infix}


def _show(node: UOp, operands: list[str]) -> str:
    op = node.op
    if op in INFIX:
        return f"({operands[0]} {INFIX[op]} {operands[1]})"
    match op:
        case Op.CONST:
            return format_value(node.arg, repr)
        case Op.DEFINE_VAR:
            return node.arg.name
        case Op.SPECIAL:
            return node.arg
        case Op.RANGE:
            return f"{node.arg.kind.letter}{node.arg.id}"
        case Op.PARAM:
            return f"p{node.arg.slot}"
        case Op.BUFFER:
            return f"b{node.arg.id}"
        case Op.DEFINE_LOCAL | Op.DEFINE_REG:
            return f"{'local' if op is Op.DEFINE_LOCAL else 'reg'}{node.arg.id}"
        case Op.INDEX:
            gate = f" if {operands.pop()}" if node.gate is not None else ""
            return f"{operands[0]}[{', '.join(operands[1:])}{gate}]"
        case Op.STORE:
            return f"{operands[0]} = {operands[1]}"
        case Op.CAST:
            return f"{node.dtype.short}({operands[0]})"
        case _ if op in UNARY or op in BINARY or node.arg is None:
            return f"{op.name.lower()}({', '.join(operands)})"
        case _:
            return f"{op.name.lower()}({', '.join([*operands, format_top(node, repr)])})"
