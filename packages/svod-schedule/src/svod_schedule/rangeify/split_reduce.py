"""split-reduce: reduce a long axis in two steps.

before → after, for the sum of 16,777,216 numbers:

    REDUCE_AXIS (ADD, (0,))     RESHAPE (256, 65536), REDUCE_AXIS (ADD, (1,)), CONTIGUOUS, REDUCE_AXIS (ADD, (0,))

A reduction to few results is split into chunks that run in parallel. A deep matrix product is split
into chunks whose panel stays in the cache. If the chunks do not divide the axis, the remainder is
reduced separately and combined at the end. Contiguous rows are not split if there are enough of
them for all cores, so that elementwise readers of a row's reduction fuse with it.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from math import prod

from svod_ir import Op, UOp, make_permute, make_reduce_axis, make_reshape, make_shrink
from svod_ir.origins import make_images
from svod_schedule.rangeify.analysis.contraction import count_rows

__all__ = ["split_reduce"]

MIN_RATIO = 1 << 15
"""Minimum number of elements per result of a reduction that is split."""

N_PARTS = 256
"""Number of chunks of a parallel reduction."""

MAX_OUTPUT = 1 << 12
"""A reduction with more results than this is parallel without a split."""

MAX_DEPTH = 1 << 12
"""Products with a longer reduced axis than this are split, so that a panel stays in the L2 cache."""

PART_DEPTH = 1 << 11
"""Length of the reduced axis in each chunk of a product."""

MIN_ROWS = 64
"""Products in which an element is used fewer times than this are memory-bound; a cached panel would
not help.
"""

ROWS_FOR_A_CORE = 4
"""Rows per core from which on rows are not split.

Softmax of 32 x 50257 is 1.7 times as fast as with split rows, which take four kernels.
"""

MIN_ROWS_OF_DEEP = 16
"""`MIN_ROWS` for products so deep that both operands are far larger than the caches, such as the
gradient of a filter.
"""


def split_reduce(sink: UOp, n_cores: Callable[[str], int | None]) -> UOp:
    """Split the long reductions of `sink`.

    Args:
        n_cores: returns the number of cores of a device that process a row each; None for a device
            with a launch grid.
    """
    done = make_images()
    moved: set[UOp] = set()
    for node in sink.toposort():
        new = node.with_images(done)
        if _is_moved(node, moved):
            moved.add(node)
        done[node] = (
            _split(new, n_cores, are_rows=node.source not in moved)
            if node.op is Op.REDUCE_AXIS
            else new
        )
    return done[sink]


def _is_moved(node: UOp, moved: Set[UOp]) -> bool:
    """Whether the last axis of a value may be strided in the memory that it is computed from."""
    if node.op is Op.PERMUTE:
        return node.arg[-1] != len(node.arg) - 1 or node.source in moved
    return node.op is not Op.CONTIGUOUS and any(s in moved for s in node.src)


def _split(node: UOp, n_cores: Callable[[str], int | None], *, are_rows: bool) -> UOp:
    axes: tuple[int, ...] = node.arg.axes
    sizes = [s for s in node.source.shape if isinstance(s, int)]
    if len(sizes) < len(node.source.shape) or node.device is None:
        return node
    n_reduced = prod(sizes[a] for a in axes)
    n_results = prod(sizes) // max(n_reduced, 1)
    if n_reduced > MAX_DEPTH and count_rows(node) >= (
        MIN_ROWS_OF_DEEP if n_reduced >= MIN_RATIO else MIN_ROWS
    ):
        fewest = -(-n_reduced // PART_DEPTH)
        longest = max(sizes[a] for a in axes)
        # Chunks that divide the axis leave no remainder to combine.
        n_parts = next((n for n in range(fewest, 2 * fewest) if longest % n == 0), fewest)
        return _reduce_in_parts(node, node.source, sizes, axes, n_parts)
    if n_reduced < MIN_RATIO or n_results > MAX_OUTPUT:
        return node
    cores = n_cores(node.device) if are_rows and isinstance(node.device, str) else None
    if cores is not None and axes == tuple(range(len(sizes) - len(axes), len(sizes))):
        # Only the longest axis counts: threads split one loop.
        longest = max((s for a, s in enumerate(sizes) if a not in axes), default=1)
        if longest >= ROWS_FOR_A_CORE * cores:
            return node
    return _reduce_in_parts(node, *_merge_axes(node.source, sizes, axes), N_PARTS)


def _reduce_in_parts(
    node: UOp, x: UOp, sizes: list[int], axes: tuple[int, ...], n_parts: int
) -> UOp:
    """Split `node`, a reduction of `x` over `axes`, into reductions of `n_parts` chunks of the
    longest axis and a reduction of their results.
    """
    op: Op = node.arg.op
    axis = max(axes, key=lambda a: sizes[a])
    chunk = sizes[axis] // n_parts
    if chunk < 2:
        return node
    main = make_shrink(x, [(0, chunk * n_parts if a == axis else s) for a, s in enumerate(sizes)])
    split = make_reshape(main, (*sizes[:axis], n_parts, chunk, *sizes[axis + 1 :]))
    inner = make_reduce_axis(split, op, [a + (a >= axis) for a in axes])
    # The chunk axis is the first one, so that each partial result has the layout of the whole one.
    partials = make_permute(inner, (axis, *(a for a in range(len(inner.shape)) if a != axis)))
    combined = make_reshape(
        make_reduce_axis(UOp(Op.CONTIGUOUS, x.dtype, (partials,)), op, [0]), node.shape
    )
    if chunk * n_parts == sizes[axis]:
        return combined
    remainder = make_shrink(
        x, [(chunk * n_parts if a == axis else 0, s) for a, s in enumerate(sizes)]
    )
    return UOp(
        op, x.dtype, (combined, make_reshape(make_reduce_axis(remainder, op, axes), node.shape))
    )


def _merge_axes(
    x: UOp, sizes: list[int], axes: tuple[int, ...]
) -> tuple[UOp, list[int], tuple[int, ...]]:
    """Merge adjacent reduced axes into one, so that its chunks are contiguous."""
    first, last = axes[0], axes[-1]
    if last - first + 1 != len(axes):
        return x, sizes, axes
    merged = [*sizes[:first], prod(sizes[first : last + 1]), *sizes[last + 1 :]]
    return make_reshape(x, merged), merged, (first,)
