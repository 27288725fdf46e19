"""permute-early: compute a reduction in the axis order of its only reader.

before → after, for the output of attention, whose axis of heads is moved after the sequence axis:

    PERMUTE(REDUCE_AXIS(x))     REDUCE_AXIS(PERMUTE(x))

A reduction is materialized in the order in which it is computed. In the reader's order, the reader
walks through consecutive memory, and the PERMUTE of the reduction's input is only index
arithmetic."""

from __future__ import annotations

from svod_ir import Op, UOp, make_permute, make_reshape
from svod_ir.ops import ELEMENTWISE
from svod_ir.origins import make_images, propagate_labels
from svod_schedule.rangeify.analysis.readers import count_readers

__all__ = ["permute_early"]

MAX_DEPTH = 64
"""Maximum number of nodes that a PERMUTE is pushed through: bounds the recursion."""


def permute_early(sink: UOp) -> UOp:
    """Push each PERMUTE in `sink` below the reduction that it permutes, if that has no other
    reader.
    """
    order = sink.toposort()
    if not any(node.op is Op.PERMUTE for node in order):
        return sink
    pusher = _Pusher(order)
    for node in order:
        pusher.visit(node)
    return pusher.done[sink]


class _Pusher:
    def __init__(self, order: list[UOp]) -> None:
        self.n_readers = count_readers(order)
        self.done = make_images()
        self.has_reduction: dict[UOp, bool] = {}

    def visit(self, node: UOp) -> None:
        # Without a reduction below it, a PERMUTE is index arithmetic wherever it is, and stays.
        self.has_reduction[node] = node.op is Op.REDUCE_AXIS or (
            self._is_transparent(node)
            and any(self.has_reduction[s] and self.n_readers[s] == 1 for s in node.src)
        )
        source = node.source if node.src else node
        if node.op is Op.PERMUTE and self.has_reduction[source] and self.n_readers[source] == 1:
            self.done[node] = self._push(source, node.arg, MAX_DEPTH)
        else:
            self.done[node] = node.with_images(self.done)

    def _is_transparent(self, node: UOp) -> bool:
        return node.op in ELEMENTWISE or (node.op is Op.RESHAPE and _is_squeeze(node))

    def _push(self, node: UOp, axes: tuple[int, ...], depth: int) -> UOp:
        """Permute `node` by `axes`, inside of `node` if it has one reader."""
        pushed = self._permute(node, axes, depth)
        propagate_labels(pushed, (node,))
        return pushed

    def _permute(self, node: UOp, axes: tuple[int, ...], depth: int) -> UOp:
        # A second reader wants the old order: pushing would compute the reduction twice.
        if depth == 0 or self.n_readers[node] != 1:
            return make_permute(self.done[node], axes)
        if node.op is Op.REDUCE_AXIS:
            op, reduced = node.arg
            # Reduced axes keep size 1, so they are permuted like the others.
            moved = tuple(i for i, a in enumerate(axes) if a in reduced)
            return UOp(
                Op.REDUCE_AXIS, node.dtype, (self._push(node.source, axes, depth - 1),), (op, moved)
            )
        if node.op in ELEMENTWISE:
            return node.with_src(
                tuple(self._push(s, axes, depth - 1) if s.shape else self.done[s] for s in node.src)
            )
        if node.op is Op.RESHAPE and _is_squeeze(node):
            return self._push_squeeze(node, axes, depth)
        return make_permute(self.done[node], axes)

    def _push_squeeze(self, node: UOp, axes: tuple[int, ...], depth: int) -> UOp:
        old, new = node.source.shape, node.shape
        live_old = [a for a, s in enumerate(old) if s != 1]
        live_new = [a for a, s in enumerate(new) if s != 1]
        source_of = dict(zip(live_new, live_old, strict=True))
        order = [source_of[a] for a in axes if a in source_of] + [
            a for a, s in enumerate(old) if s == 1
        ]
        return make_reshape(
            self._push(node.source, tuple(order), depth - 1), tuple(new[a] for a in axes)
        )


def _is_squeeze(node: UOp) -> bool:
    """Whether a RESHAPE only drops and adds axes of size 1."""
    return [s for s in node.source.shape if s != 1] == [s for s in node.shape if s != 1]
