"""Views of memory: its leading elements, and its bytes as elements of another dtype."""

from __future__ import annotations

import math

from svod_dtype import DType
from svod_ir import Op, UOp, make_as_complex, make_reshape, make_shrink
from svod_ir.sizes import max_size, product
from svod_tensor._shapes import Shape

__all__ = ["view_bytes", "view_prefix"]


def view_prefix(memory: UOp, sizes: Shape, dtype: DType | None = None) -> UOp:
    """The leading elements of `memory` as a tensor of shape `sizes`; all of them if every size is
    known.

    With a complex `dtype`, its numbers: memory has two floats for each, the real part first."""
    if dtype is not None and dtype.is_complex:
        return make_as_complex(view_prefix(memory, (*sizes, 2)))
    if sizes == memory.shape:
        return memory
    if all(isinstance(s, int) for s in sizes):
        return make_reshape(memory, sizes)
    return make_reshape(make_shrink(memory, ((0, product(sizes)),)), sizes)


def view_bytes(node: UOp, dtype: DType, shape: Shape) -> UOp:
    """The bytes of `node` as elements of `dtype`: a view if they are contiguous in memory, else a
    copy.
    """
    memory, begin = _get_part(node)
    # Elements must be aligned to their size.
    if memory is None or (begin * node.dtype.itemsize) % dtype.itemsize:
        memory, begin = UOp(Op.CONTIGUOUS, node.dtype, (node,)), 0
    size = math.prod(map(max_size, shape))
    return view_prefix(
        UOp(Op.BUFFER_VIEW, dtype, (memory,), (begin * node.dtype.itemsize, size)), shape
    )


def _get_part(node: UOp) -> tuple[UOp | None, int]:
    """The memory that `node` is a contiguous part of, and the index of its first element."""
    begin = 0
    while node.op in (Op.RESHAPE, Op.SHRINK):
        source = node.source
        if node.op is Op.SHRINK:
            first, end, *inner = node.sizes
            # A slice is contiguous only if it takes all of the inner axes.
            is_whole = all(
                b == 0 and e == s
                for b, e, s in zip(inner[::2], inner[1::2], source.shape[1:], strict=True)
            )
            row = product(source.shape[1:])
            if (
                not is_whole
                or not isinstance(first, int)
                or not isinstance(row, int)
                or (first and not isinstance(end, int))
            ):
                return None, 0
            begin += first * row
        node = source
    is_memory = node.op is Op.BUFFER or (node.op is Op.AFTER and node.dependency.op is Op.ASSIGN)
    return (node, begin) if is_memory else (None, 0)
