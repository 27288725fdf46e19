"""reshape-late: compute the elementwise readers of a reduction in its own shape.

before → after, for a convolution with channels in groups and a bias:

    ADD(RESHAPE(REDUCE_AXIS(x)), bias)     RESHAPE(ADD(REDUCE_AXIS(x), RESHAPE(bias)))

A RESHAPE that merges axes has one loop where the reduction has several. The reduction would be stored,
and read by a second kernel with other loops. After the pass, the reader is part of the reduction's
kernel, and the RESHAPE is a view of its result."""

from __future__ import annotations

from collections.abc import Sequence

from svod_ir import Op, SInt, UOp, make_reshape
from svod_ir.ops import ELEMENTWISE
from svod_ir.origins import make_images
from svod_ir.sizes import normalize_size
from svod_schedule.rangeify.analysis.readers import count_readers

__all__ = ["reshape_late"]

_TRANSPARENT = ELEMENTWISE | {Op.RESHAPE}


def reshape_late(sink: UOp) -> UOp:
    """Move each RESHAPE that merges axes of a reduction behind the elementwise nodes that read it, if
    it has no other reader.
    """
    order = sink.toposort()
    if not any(node.op is Op.RESHAPE and _is_merge(node) for node in order):
        return sink
    n_readers = count_readers(order)
    done = make_images()
    has_reduction: dict[UOp, bool] = {}
    for node in order:
        reduced = [s for s in dict.fromkeys(node.src) if has_reduction[s] and n_readers[s] == 1]
        has_reduction[node] = node.op is Op.REDUCE_AXIS or (
            node.op in _TRANSPARENT and bool(reduced)
        )
        new = node.with_images(done)
        if node.op in ELEMENTWISE and reduced:
            new = _move_reshape(new, [done[s] for s in reduced])
        done[node] = new
    return done[sink]


def _move_reshape(node: UOp, reshapes: Sequence[UOp]) -> UOp:
    """Move the RESHAPEs of the operands that depend on reductions behind an elementwise node."""
    if not all(r.op is Op.RESHAPE and _is_merge(r) for r in reshapes):
        return node
    shapes = {r.source.shape for r in reshapes}
    if len(shapes) > 1:
        return node
    (shape,) = shapes
    operands = tuple(make_reshape(s, shape) if s.shape else s for s in node.src)
    return make_reshape(node.with_src(operands), node.shape)


def _is_merge(node: UOp) -> bool:
    """Whether a RESHAPE only merges neighbouring axes, and adds or drops axes of size 1."""
    sizes: list[SInt] = [s for s in node.source.shape if s != 1]
    n_before = len(sizes)
    axes = [s for s in node.shape if s != 1]
    for size in axes:
        merged: SInt = 1
        while sizes and merged != size:
            merged = normalize_size(merged * sizes.pop(0))
        if merged != size:
            return False
    return not sizes and len(axes) < n_before
