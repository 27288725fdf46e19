"""How an index expression moves with one of its ranges, and what that means for reading in
vectors.
"""

from __future__ import annotations

from svod_ir import Op, UOp

__all__ = ["access_cost", "find_stride", "stride_cost"]

MAX_STRIDE = 4
"""Elements up to so far apart are read as vectors with what lies between."""


def access_cost(access: UOp, axis: UOp, n_lanes: int, *, is_read: bool) -> float:
    """How many accesses `n_lanes` elements along `axis` take, as a part of so many; above 1 where
    that is no use.
    """
    return stride_cost(find_stride(access.position, axis), access, axis, n_lanes, is_read=is_read)


def stride_cost(
    stride: int | None, access: UOp, axis: UOp, n_lanes: int, *, is_read: bool
) -> float:
    """`access_cost` of an access whose stride along `axis` is known."""
    if stride in (0, 1):
        return 1 if stride == 0 else 1 / n_lanes
    is_gated = (gate := access.gate) is not None and axis in gate.ranges
    if stride is None and is_read and not _is_even(access.position, axis):
        # A lookup: a gather takes as long as reading its elements one by one. Rows of a size that
        # is not known are far apart.
        return 1
    if stride is None or abs(stride) > MAX_STRIDE or is_gated or not is_read:
        return 2
    return abs(stride) / n_lanes


def _is_even(expression: UOp, r: UOp) -> bool:
    """Whether `expression` grows by the same amount whenever `r` grows by 1, be it one that is
    known when the kernel runs.
    """
    if r not in expression.ranges:
        return True
    match expression.op:
        case Op.RANGE:
            return True
        case Op.ADD | Op.SUB | Op.NEG | Op.CAST | Op.AFTER:
            return all(_is_even(s, r) for s in expression.src)
        case Op.MUL:
            return sum(bool(s.ranges) for s in expression.src) < 2 and all(
                _is_even(s, r) for s in expression.src
            )
        case _:
            return False


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
            stride = find_stride(expression.source, r)
            return None if stride is None else -stride
        case Op.CAST | Op.AFTER:
            return find_stride(expression.source, r)
        case _:
            return None
