"""Composite operations of several stages: concatenation, indices along an axis, and tensors without
elements.

Example:
    >>> from svod_dtype import float32, int32
    >>> from svod_ir import index_dtype_for, make_concat, make_empty, make_iota, make_broadcasted_iota
    >>> from svod_ir.evaluate import evaluate
    >>> evaluate(make_concat([make_iota(3, int32), make_iota(2, int32)], axis=0)).tolist()
    [0, 1, 2, 0, 1]
    >>> evaluate(make_broadcasted_iota((2, 3), axis=1)).tolist()
    [[0, 1, 2], [0, 1, 2]]
    >>> make_empty(float32, (0, 3)).shape, index_dtype_for(100), index_dtype_for(1 << 40)
    ((0, 3), int32, int64)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from svod_dtype import DType, int32, int64
from svod_ir.build import make_alu, make_expand, make_iota, make_pad, make_reshape
from svod_ir.ops import Op
from svod_ir.sizes import max_size, product
from svod_ir.uop import SInt, UOp

__all__ = ["index_dtype_for", "make_broadcasted_iota", "make_concat", "make_empty"]


MAX_OPERANDS: Final = 8
"""More operands than this are concatenated in groups. If an expression gets too long for a kernel,
then a group is stored and not the whole, and groups of equal operands share a kernel."""


def make_concat(operands: Sequence[UOp], axis: int) -> UOp:
    """Concatenate operands along `axis`."""
    while len(operands) > MAX_OPERANDS:
        operands = [
            _concat(operands[n : n + MAX_OPERANDS], axis)
            for n in range(0, len(operands), MAX_OPERANDS)
        ]
    return _concat(operands, axis)


def _concat(operands: Sequence[UOp], axis: int) -> UOp:
    """Pad each operand to the total size, and select at each index the operand that covers it."""
    if len(operands) == 1:
        return operands[0]
    ends: list[SInt] = [operands[0].shape[axis]]
    for operand in operands[1:]:
        ends.append(ends[-1] + operand.shape[axis])
    total = ends[-1]
    shape = tuple(total if a == axis else s for a, s in enumerate(operands[0].shape))
    if product(shape) == 0:
        return make_empty(operands[0].dtype, shape)
    index = make_broadcasted_iota(shape, axis)
    # From the last operand outwards: each comparison then needs the end of its operand only, since
    # elements before it are decided further out.
    result = _pad_along(operands[-1], axis, ends[-2], 0)
    for operand, end in zip(reversed(operands[:-1]), reversed(ends[:-1]), strict=True):
        placed = _pad_along(operand, axis, end - operand.shape[axis], total - end)
        limit = end.cast(index.dtype) if isinstance(end, UOp) else UOp.const(index.dtype, end)
        result = make_alu(Op.WHERE, make_alu(Op.LT, index, limit), placed, result)
    return result


def make_broadcasted_iota(shape: Sequence[SInt], axis: int, dtype: DType | None = None) -> UOp:
    """Index of each element of `shape` along `axis`; by default of the narrowest sufficient dtype."""
    size = shape[axis]
    row = make_iota(size, dtype or index_dtype_for(size))
    return make_expand(
        make_reshape(row, tuple(size if a == axis else 1 for a in range(len(shape)))), shape
    )


def make_empty(dtype: DType, shape: Sequence[SInt]) -> UOp:
    """A tensor of `shape`, which has no elements."""
    return make_expand(make_reshape(UOp.const(dtype, 0), (1,) * len(shape)), shape)


def index_dtype_for(size: SInt) -> DType:
    """int32 if indices below `size` fit it, else int64."""
    return int32 if max_size(size) <= 1 << 31 else int64


def _pad_along(x: UOp, axis: int, before: SInt, after: SInt) -> UOp:
    return make_pad(x, tuple((before, after) if a == axis else (0, 0) for a in range(len(x.shape))))
