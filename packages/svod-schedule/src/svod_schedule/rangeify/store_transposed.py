"""store-transposed: an operand of a deep product whose elements lie far apart is copied in the
order in which it is read.

before → after, for the product of a transposed matrix of 1024 by 1024:

    PERMUTE (1, 0), RESHAPE, EXPAND, MUL, REDUCE_AXIS     PERMUTE (1, 0), RESHAPE, CONTIGUOUS, EXPAND, MUL, REDUCE_AXIS

Each step then takes a few elements of another line. For the next few results it takes others of the
same lines, which it fetches again from wherever the whole operand fits, and nothing is fetched
ahead. Of the other operand, panels are copied anyway: only the one that the results' last axis does
not depend on is looked at."""

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
MIN_SPAN_BYTES = 1 << 20
"""A product whose steps go so far through an operand, and so many of them, waits for it: 15
products took 0.54 to 1.0 of the time with a copy, and five that go half as far or less 1.01 to 1.09
(Intel Xeon, 2 threads, 2 MiB of second-level cache)."""

LINE_BYTES = 64
"""Steps that are nearer than a line of the caches share what they fetch, as those through the
window of a convolution do.
"""

MIN_READS = 256
"""So many results have to use each element for the copy to pay."""


def store_transposed(sink: UOp, device: str, relies_on_caches: Callable[[str], bool]) -> UOp:
    """`sink` with copies of such operands; what has no device runs on `device`."""
    done = make_images()
    for node in sink.toposort():
        new = node.with_images(done)
        done[node] = new
        if node.op is Op.REDUCE_AXIS:
            where = new.device or device
            done[node] = (
                _copy_rows(new) if isinstance(where, str) and relies_on_caches(where) else new
            )
    return done[sink]


def _copy_rows(node: UOp) -> UOp:
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
    """An operand that is spread along axis `last` to `sizes`, from a copy in which what is reduced
    lies side by side, if that helps.
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
    """Whether each step along a reduced axis goes to another line, and all of them far."""
    # What is below the movement is not looked at, so that no loop of it has the same number.
    fresh, shape = FreshIds(), node.shape
    ranges = [fresh.make_range(size, AxisType.LOOP) for size in shape]
    at = Coordinates(tuple(ranges))
    while node.op in MOVEMENT and node.op is not Op.PAD:
        node, at = node.source, move(node, at)
    if node.op is Op.GATHER or not node.shape:
        return False
    position = flatten_index(at.indices, node.shape)
    bytes_apart = {
        a: (find_stride(position, ranges[a]) or 0) * node.dtype.itemsize
        for a in axes
        if shape[a] != 1
    }
    return min(bytes_apart.values(), default=0) >= LINE_BYTES and any(
        n_bytes * max_trips(ranges[a]) >= MIN_SPAN_BYTES for a, n_bytes in bytes_apart.items()
    )
