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


MAX_PARTS: Final = 8
"""More parts than this are concatenated in groups. If an expression gets too long for a kernel,
then a group is stored and not the whole, and groups of equal parts share a kernel."""


def make_concat(parts: Sequence[UOp], axis: int) -> UOp:
    """Concatenate the parts along `axis`."""
    while len(parts) > MAX_PARTS:
        parts = [_concat(parts[n : n + MAX_PARTS], axis) for n in range(0, len(parts), MAX_PARTS)]
    return _concat(parts, axis)


def _concat(parts: Sequence[UOp], axis: int) -> UOp:
    """Pad each part to the total size, and select at each index the part that covers it."""
    if len(parts) == 1:
        return parts[0]
    ends: list[SInt] = [parts[0].shape[axis]]
    for part in parts[1:]:
        ends.append(ends[-1] + part.shape[axis])
    total = ends[-1]
    shape = tuple(total if a == axis else s for a, s in enumerate(parts[0].shape))
    if product(shape) == 0:
        return make_empty(parts[0].dtype, shape)
    index = make_broadcasted_iota(shape, axis)
    result = _padded_part(parts[-1], axis, ends[-2], 0)
    for part, end in zip(reversed(parts[:-1]), reversed(ends[:-1]), strict=True):
        placed = _padded_part(part, axis, end - part.shape[axis], total - end)
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


def _padded_part(part: UOp, axis: int, before: SInt, after: SInt) -> UOp:
    return make_pad(
        part, tuple((before, after) if a == axis else (0, 0) for a in range(len(part.shape)))
    )
