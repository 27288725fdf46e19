"""Constant folding: operations on constants, and expressions with only one possible value.

3 + 4     ->  7
x < 10    ->  true     when x is in 0..9
"""

from __future__ import annotations

from typing import Final

from svod_ir import Op, RuleSet, UOp, evaluate_scalar, rule
from svod_ir.ops import ELEMENTWISE, TABLE
from svod_ir.pattern import BOOL, INT, const, node

__all__ = ["FOLDING"]

_FOLDED: Final = ELEMENTWISE - {Op.BITCAST}
_FOLDED_INTEGERS: Final = frozenset(op for op in _FOLDED if TABLE[op].takes != "float")
_CONSTANTS: Final = (Op.CONST, Op.VCONST)


@rule(
    node(_FOLDED, const(), name="n"),
    node(_FOLDED, const(), const(), name="n").ordered(),
    node(_FOLDED, const(), const(), const(), name="n"),
)
def fold_constants(n: UOp) -> UOp | None:
    """2 + 3 -> 5, if the result is defined to the last bit."""
    # None for functions whose last bit depends on the target: a kernel must not differ from a
    # folded one.
    value = evaluate_scalar(n.op, n.dtype, tuple(s.arg for s in n.src))
    return None if value is None else UOp.const(n.dtype, value)


_lanes = node(frozenset(_CONSTANTS))


@rule(
    node(_FOLDED, _lanes, name="n"),
    node(_FOLDED, _lanes, _lanes, name="n").ordered(),
    node(_FOLDED, _lanes, _lanes, _lanes, name="n"),
)
def fold_vector_constants(n: UOp) -> UOp | None:
    """[1, 2] + [3, 4] -> [4, 6]."""
    lanes = n.dtype.lanes
    if lanes == 1 or any(s.dtype.lanes != lanes for s in n.src):
        return None
    values = [
        evaluate_scalar(n.op, n.dtype.scalar, operands)
        for operands in zip(*(s.arg for s in n.src), strict=True)
    ]
    return None if any(v is None for v in values) else UOp(Op.VCONST, n.dtype, (), tuple(values))


@rule(node(Op.BROADCAST, const("c"), name="n"))
def broadcast_constant(n: UOp, c: UOp) -> UOp:
    """broadcast(c) -> [c, c, ...]."""
    return UOp.const(n.dtype, c.arg)


@rule(node(_FOLDED_INTEGERS, name="n", kinds=INT | BOOL), node(Op.RANGE, name="n"))
def collapse_single_value(n: UOp) -> UOp | None:
    """x -> c when c is the only possible value of x; the counter of a loop of one iteration is 0.

    When: the loop cannot be empty.
    """
    # An empty loop must stay a loop: its body would run once otherwise.
    if n.op is Op.RANGE and n.stop.bounds[0] < 1:
        return None
    low, high = n.bounds
    return UOp.const(n.dtype, low) if low == high else None


@rule(node(frozenset({Op.REDUCE, Op.END}), name="n"))
def drop_constant_counter(n: UOp) -> UOp | None:
    """reduce(x, r, 0) -> reduce(x, r), reduce(x, 0) -> x, end(e, 0) -> e: the loop of a constant
    counter is removed.
    """
    body, *loops = n.src
    ranges = tuple(r for r in loops if r.op is not Op.CONST)
    if len(ranges) == len(loops):
        return None
    return body if not ranges and body.dtype is n.dtype else n.with_src((body, *ranges))


FOLDING = RuleSet(
    "folding",
    (
        fold_constants,
        fold_vector_constants,
        broadcast_constant,
        collapse_single_value,
        drop_constant_counter,
    ),
    is_pure=True,
)
"""Operations on constants, and expressions with only one possible value."""
