"""store-transposed: an operand of a deep product whose elements lie a power of two apart is copied in the order in which it is read.

before → after, for the product of a transposed matrix of 1024 by 1024:

    PERMUTE (1, 0), RESHAPE, EXPAND, MUL, REDUCE_AXIS     PERMUTE (1, 0), RESHAPE, CONTIGUOUS, EXPAND, MUL, REDUCE_AXIS

Rows that lie a power of two apart share a few sets of the caches, so that each of their lines is fetched again for the next few
results. Of the other operand, panels are copied anyway: only the one that the results' last axis does not depend on is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from svod_ir import AxisType, FreshIds, Op, UOp, make_permute
from svod_ir.ops import MOVEMENT
from svod_ir.origins import make_images
from svod_ir.sizes import max_size
from svod_schedule._linear_index import find_stride
from svod_schedule.rangeify.contraction import count_rows
from svod_schedule.rangeify.coordinates import Coordinates, flatten_index, move

__all__ = ["store_transposed"]

MIN_DEPTH = 1 << 10
"""Fewer rows than this are fetched again from a near cache: products of 512 rows lose nothing."""

MIN_READS = 256
"""So many results have to use each element for the copy to pay."""

CONFLICT_BYTES = 1 << 12
"""Rows that are a multiple of this apart share so few sets: six products took 0.57 to 0.75 of the time with a copy."""


def store_transposed(sink: UOp, device: str, relies_on_caches: Callable[[str], bool]) -> UOp:
    """`sink` with copies of such operands; what has no device runs on `device`."""
    done = make_images()
    for node in sink.toposort():
        new = node.with_images(done)
        done[node] = new
        if node.op is Op.REDUCE_AXIS:
            where = new.device or device
            done[node] = _copy_rows(new) if isinstance(where, str) and relies_on_caches(where) else new
    return done[sink]


def _copy_rows(node: UOp) -> UOp:
    product = node.source
    axes: tuple[int, ...] = node.arg.axes
    sizes = [s for s in product.shape if isinstance(s, int)]
    if (
        product.op is not Op.MUL
        or len(sizes) < len(product.shape)
        or prod(sizes[a] for a in axes) < MIN_DEPTH
        or count_rows(node) < MIN_READS
    ):
        return node
    last = max(a for a, size in enumerate(sizes) if a not in axes and size > 1)
    operands = [_copy(s, axes, last) for s in product.src]
    return node if operands == list(product.src) else node.with_src((product.with_src(tuple(operands)), *node.src[1:]))


def _copy(operand: UOp, axes: tuple[int, ...], last: int) -> UOp:
    """An operand that is spread along axis `last`, from a copy in which what is reduced lies side by side, if that helps."""
    if operand.op is not Op.EXPAND or operand.source.shape[last] != 1 or not _has_conflicts(operand.source, axes):
        return operand
    small = operand.source
    order = (*(a for a in range(len(small.shape)) if a not in axes), *axes)
    copy = UOp(Op.CONTIGUOUS, small.dtype, (make_permute(small, order),))
    return operand.with_src((make_permute(copy, [order.index(a) for a in range(len(order))]), *operand.src[1:]))


def _has_conflicts(node: UOp, axes: tuple[int, ...]) -> bool:
    """Whether steps along the longest reduced axis go from row to row that share sets of a cache."""
    # What is below the movement is not looked at, so that no loop of it has the same number.
    fresh, shape = FreshIds(), node.shape
    ranges = [fresh.make_range(size, AxisType.LOOP) for size in shape]
    at = Coordinates(tuple(ranges))
    longest = ranges[max(axes, key=lambda a: max_size(shape[a]))]
    while node.op in MOVEMENT and node.op is not Op.PAD:
        node, at = node.source, move(node, at)
    if node.op is Op.GATHER or not node.shape:
        return False
    stride = find_stride(flatten_index(at.indices, node.shape), longest)
    return stride is not None and stride > 0 and stride * node.dtype.itemsize % CONFLICT_BYTES == 0
