"""How an index expression moves with one of its ranges."""

from __future__ import annotations

from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["find_stride"]


def find_stride(expression: UOp, r: UOp) -> int | None:
    """By how much `expression` grows when `r` grows by 1, or None if that is not one constant."""
    if expression is r:
        return 1
    if r not in expression.ranges:
        return 0
    match expression.op:
        case Op.ADD | Op.SUB:
            left, right = (find_stride(s, r) for s in expression.src)
            if left is None or right is None:
                return None
            return left + right if expression.op is Op.ADD else left - right
        case Op.MUL:
            x, y = expression.src
            if y.op is not Op.CONST:
                x, y = y, x
            stride = find_stride(x, r) if y.op is Op.CONST else None
            return None if stride is None else stride * int(y.arg)
        case Op.NEG:
            stride = find_stride(expression.src[0], r)
            return None if stride is None else -stride
        case Op.CAST | Op.AFTER:
            return find_stride(expression.src[0], r)
        case _:
            return None
