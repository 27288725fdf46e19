"""split-reduce: reduce a long axis in two steps, so that the first has parts to run in parallel.

before → after, for the sum of 16,777,216 numbers:

    REDUCE_AXIS (ADD, (0,))     RESHAPE (256, 65536), REDUCE_AXIS (ADD, (1,)), CONTIGUOUS, REDUCE_AXIS (ADD, (0,))

What is left over when the parts do not divide the axis is reduced on its own and joined at the end.
"""

from __future__ import annotations

from math import prod

from svod_ir.build import make_reduce_axis, make_reshape, make_shrink
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["split_reduce"]

MIN_RATIO = 1 << 15
"""Reductions of at least this many elements to one are split."""

N_PARTS = 256
MAX_OUTPUT = 1 << 12
"""A reduction with more results than this has parallel work without being split."""


def split_reduce(sink: UOp) -> UOp:
    """`sink` with its long reductions split."""
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_src(tuple(done[s] for s in node.src))
        done[node] = _split(new) if node.op is Op.REDUCE_AXIS else new
    return done[sink]


def _split(node: UOp) -> UOp:
    op: Op = node.arg[0]
    axes: tuple[int, ...] = node.arg[1]
    if not all(isinstance(s, int) for s in node.src[0].shape):
        return node
    sizes = [s for s in node.src[0].shape if isinstance(s, int)]
    n_reduced = prod(sizes[a] for a in axes)
    if n_reduced < MIN_RATIO or prod(sizes) // n_reduced > MAX_OUTPUT or node.device is None:
        return node
    x, sizes, axes = _merge_axes(node.src[0], sizes, axes)
    axis = max(axes, key=lambda a: sizes[a])
    part = sizes[axis] // N_PARTS
    if part < 2:
        return node
    main = make_shrink(x, [(0, part * N_PARTS if a == axis else s) for a, s in enumerate(sizes)])
    split = make_reshape(main, (*sizes[:axis], N_PARTS, part, *sizes[axis + 1 :]))
    inner = make_reduce_axis(split, op, [a + (a >= axis) for a in axes])
    parts = UOp(Op.CONTIGUOUS, x.dtype, (inner,))
    whole = make_reshape(make_reduce_axis(parts, op, [axis]), node.shape)
    if part * N_PARTS == sizes[axis]:
        return whole
    rest = make_shrink(x, [(part * N_PARTS if a == axis else 0, s) for a, s in enumerate(sizes)])
    return UOp(op, x.dtype, (whole, make_reshape(make_reduce_axis(rest, op, axes), node.shape)))


def _merge_axes(x: UOp, sizes: list[int], axes: tuple[int, ...]) -> tuple[UOp, list[int], tuple[int, ...]]:
    """Reduced axes that lie side by side, as one axis: parts of it are consecutive elements."""
    first, last = axes[0], axes[-1]
    if last - first + 1 != len(axes):
        return x, sizes, axes
    merged = [*sizes[:first], prod(sizes[first : last + 1]), *sizes[last + 1 :]]
    return make_reshape(x, merged), merged, (first,)
