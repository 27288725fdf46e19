"""type-indices: give every value of dtype `index` a machine integer type, int32 if its bounds fit,
otherwise int64.

before → after:

    %0 = RANGE 1000 : index              %0 = RANGE 1000 : i32
    %1 = MUL %0, 4194304 : index   ->    %1 = MUL (CAST %0 : i64), 4194304 : i64

An operation is as wide as its widest operand or its result requires; an induction variable is as
wide as its trip count. Memory of dtype `index` holds int64.
"""

from __future__ import annotations

from typing import Final

from svod_dtype import DType, int32, int64
from svod_ir import Op, UOp
from svod_ir.ops import ELEMENTWISE, MEMORY

__all__ = ["type_indices"]

_LOW: Final = int(int32.min)
_HIGH: Final = int(int32.max)
_JOINED: Final = (ELEMENTWISE - {Op.CAST, Op.BITCAST}) | {
    Op.RANGE,
    Op.VECTORIZE,
    Op.CAT,
    Op.BROADCAST,
    Op.GEP,
    Op.REDUCE,
}
"""Ops whose operands and result have the same integer type."""


def type_indices(root: UOp) -> UOp:
    """Rewrite the graph of `root` without the dtype `index`."""
    done: dict[UOp, UOp] = {}
    for node in root.toposort():
        if node.dtype.kind == "index" or "index" in [s.dtype.kind for s in node.src]:
            done[node] = _lower(node, tuple([done[s] for s in node.src]))
        else:
            done[node] = node.with_images(done)
    return done[root]


def _lower(node: UOp, src: tuple[UOp, ...]) -> UOp:
    op, lanes = node.op, node.dtype.lanes
    if op in _JOINED:
        return _join(node, src)
    if op is Op.CAST:
        return src[0].cast(_own(node) if node.dtype.kind == "index" else node.dtype)
    # Memory outlives the kernel, so its type must not depend on the bounds that one kernel knows.
    if op in MEMORY:
        return node.with_dtype(int64.vec(lanes))
    if op is Op.STORE:
        value = src[1].cast(int64) if node.location.dtype.kind == "index" else src[1]
        return node.with_src((src[0], value))
    if op is Op.LOAD and node.dtype.kind == "index":
        return UOp(Op.LOAD, src[0].dtype, (src[0], *(s.cast(int64) for s in src[1:])), node.arg)
    if node.dtype.kind != "index":
        return UOp(op, node.dtype, src, node.arg)
    if op is Op.INDEX:
        return UOp(op, int64.vec(lanes), src, node.arg)
    if op is Op.AFTER:
        return UOp(op, src[0].dtype, src, node.arg)
    return UOp(op, _own(node).vec(lanes), src, node.arg)


def _join(node: UOp, src: tuple[UOp, ...]) -> UOp:
    """Cast the operands of dtype `index` to a common type, which is also the type of a result of
    dtype `index`.
    """
    widths = [
        s.dtype.scalar
        for s, original in zip(src, node.src, strict=True)
        if original.dtype.kind == "index"
    ]
    is_index = node.dtype.kind == "index"
    # One type for all operands: the sum of two int32 may need int64, and then both are extended.
    wide = int64 in widths or (is_index and _own(node) is int64)
    integer = int64 if wide else int32
    src = tuple(
        [
            s.cast(integer) if original.dtype.kind == "index" else s
            for s, original in zip(src, node.src, strict=True)
        ]
    )
    return UOp(node.op, integer.vec(node.dtype.lanes) if is_index else node.dtype, src, node.arg)


def _own(node: UOp) -> DType:
    """Return the narrowest type that holds every value of the node."""
    # int32 wherever possible: twice as many lanes in a vector of indices, and gathers of 32-bit
    # offsets.
    low, high = node.bounds
    return int32 if low >= _LOW and high <= _HIGH else int64
