"""store-transposed: copy a transposed operand of a deep product in the order in which it is read.

before → after, for the product of a transposed matrix of 1024 by 1024:

    PERMUTE (1, 0), RESHAPE, EXPAND, MUL, REDUCE_AXIS     PERMUTE (1, 0), RESHAPE, CONTIGUOUS, EXPAND, MUL, REDUCE_AXIS

Without the copy, each step along the reduced axis reads a few elements of another cache line. The
next few results read other elements of the same lines, which must be fetched again from the level
of memory that holds the whole operand, without prefetching. Only the operand that does not depend
on the last axis of the result is copied: `PACK` copies panels of the other one later."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from svod_ir import AxisType, FreshIds, Op, UOp, make_permute, max_trips
from svod_ir.ops import MOVEMENT
from svod_ir.origins import make_images
from svod_schedule._linear_index import find_stride
from svod_schedule.rangeify.analysis.coordinates import Coordinates, flatten_index, move

__all__ = ["store_transposed"]

MIN_DEPTH = 1 << 7
"""Minimum number of steps of a reduction whose operand is copied."""

MIN_SPAN_BYTES = 1 << 20
"""Minimum distance from the first element of a reduction to the last. With a copy, 15 products of
such a span were 1.0 to 1.85 times as fast, and five products of half the span or less 0.92 to 0.99
times (Intel Xeon, 2 threads, 2 MiB of L2 cache)."""

LINE_BYTES = 64
"""Size of a cache line: steps with a smaller stride share lines, as in the window of a convolution."""

MIN_READS = 256
"""Minimum number of results that read each element, for the copy to pay."""


def store_transposed(sink: UOp, device: str, relies_on_caches: Callable[[str], bool]) -> UOp:
    """Copy transposed operands of deep products in `sink`, on devices that rely on caches.

    Args:
        device: the device of nodes without one.
        relies_on_caches: whether a device has caches, but no local memory to stage operands in.
    """
    done = make_images()
    for node in sink.toposort():
        new = node.with_images(done)
        done[node] = new
        if node.op is Op.REDUCE_AXIS:
            where = new.device or device
            done[node] = (
                _copy_operands(new) if isinstance(where, str) and relies_on_caches(where) else new
            )
    return done[sink]


def _copy_operands(node: UOp) -> UOp:
    product = node.source
    axes: tuple[int, ...] = node.arg.axes
    sizes = [s for s in product.shape if isinstance(s, int)]
    if (
        product.op is not Op.MUL
        or len(sizes) < len(product.shape)
        or prod(sizes[a] for a in axes) < MIN_DEPTH
    ):
        return node
    last = max((a for a, size in enumerate(sizes) if a not in axes and size > 1), default=None)
    if last is None:
        return node
    operands = [_copy(s, sizes, axes, last) for s in product.src]
    return (
        node
        if operands == list(product.src)
        else node.with_src((product.with_src(tuple(operands)), *node.src[1:]))
    )


def _copy(operand: UOp, sizes: list[int], axes: tuple[int, ...], last: int) -> UOp:
    """Copy an operand that is broadcast along axis `last`, so that its reduced axes are contiguous,
    if that pays.
    """
    if operand.op is not Op.EXPAND:
        return operand
    small = operand.source
    n_reads = prod(size for size, own in zip(sizes, small.shape, strict=True) if own == 1)
    if small.shape[last] != 1 or n_reads < MIN_READS or not _is_far_apart(small, axes):
        return operand
    order = (*(a for a in range(len(small.shape)) if a not in axes), *axes)
    copy = UOp(Op.CONTIGUOUS, small.dtype, (make_permute(small, order),))
    return operand.with_src(
        (make_permute(copy, [order.index(a) for a in range(len(order))]), *operand.src[1:])
    )


def _is_far_apart(node: UOp, axes: tuple[int, ...]) -> bool:
    """Whether each step along a reduced axis reads another cache line, over a large span."""
    # Only movement ops are followed, so these fresh loops cannot clash with loops further below.
    fresh, shape = FreshIds(), node.shape
    ranges = [fresh.make_range(size, AxisType.LOOP) for size in shape]
    coordinates = Coordinates(tuple(ranges))
    while node.op in MOVEMENT and node.op is not Op.PAD:
        node, coordinates = node.source, move(node, coordinates)
    if node.op is Op.GATHER or not node.shape:
        return False
    offset = flatten_index(coordinates.indices, node.shape)
    stride_bytes = {
        a: (find_stride(offset, ranges[a]) or 0) * node.dtype.itemsize
        for a in axes
        if shape[a] != 1
    }
    return min(stride_bytes.values(), default=0) >= LINE_BYTES and any(
        n_bytes * max_trips(ranges[a]) >= MIN_SPAN_BYTES for a, n_bytes in stride_bytes.items()
    )
