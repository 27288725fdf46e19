"""Strides of index expressions along a loop, and the cost of vector accesses with these strides."""

from __future__ import annotations

from svod_ir import Op, UOp

__all__ = ["access_cost", "find_stride", "stride_cost"]

MAX_STRIDE = 4
"""Maximum stride of elements that are loaded as contiguous vectors and shuffled."""


def access_cost(access: UOp, axis: UOp, n_lanes: int, *, is_read: bool) -> float:
    """Number of memory accesses per element of `n_lanes` lanes along `axis`; above 1 if scalar
    accesses are better.
    """
    return stride_cost(find_stride(access.position, axis), access, axis, n_lanes, is_read=is_read)


def stride_cost(
    stride: int | None, access: UOp, axis: UOp, n_lanes: int, *, is_read: bool
) -> float:
    """Return `access_cost` for an access with a known stride along `axis`."""
    if stride in (0, 1):
        return 1 if stride == 0 else 1 / n_lanes
    is_gated = (gate := access.gate) is not None and axis in gate.ranges
    if stride is None and is_read and not _is_even(access.position, axis):
        # A gather instruction takes as long as scalar loads of its elements. An unknown but even
        # stride is a row of symbolic size: it counts as large.
        return 1
    if stride is None or abs(stride) > MAX_STRIDE or is_gated or not is_read:
        return 2
    return abs(stride) / n_lanes


def _is_even(expression: UOp, r: UOp) -> bool:
    """Whether `expression` has a loop-invariant stride along `r`, constant or symbolic."""
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
    """Return the stride of `expression` along `r`, or None if it is no constant."""
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
