"""The loops of a kernel under construction, numbered from 0, so that equal kernels are equal nodes."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from svod_dtype import index
from svod_ir import AxisType, Op, SInt, UOp
from svod_ir.uop import to_node
from svod_schedule.symbolic import simplify

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KernelLoops"]


class KernelLoops:
    """Allocator of the loops of one kernel.

    Args:
        outer: the loops of the kernel that a body is part of. The body continues its numbers, but
            has reduction loops of its own: equal bodies are one graph, and one may read the
            result of the other.
    """

    def __init__(self, outer: KernelLoops | None = None) -> None:
        # Shared with the outer kernel, not copied: both go on to open loops.
        self._ids: Iterator[int] = count() if outer is None else outer._ids
        self._reduced: dict[tuple[UOp, tuple[UOp, ...]], dict[int, UOp]] = {}

    def open(self, node: UOp) -> tuple[UOp, ...]:
        """Make a new loop for each axis of a stored node (0 for axes of size 1), sequential for a
        scanned axis.
        """
        scanned = node.arg.axis if node.op is Op.SCAN_AXIS else None
        return tuple(
            self.make(size, AxisType.SCAN if a == scanned else AxisType.LOOP)
            for a, size in enumerate(node.shape)
        )

    def open_scattered(self, node: UOp) -> tuple[UOp, ...]:
        """Make a new loop for each axis of the rows of a SCATTER, sequential for the indexed axes."""
        axis: int = node.arg.axis
        positions = range(axis, axis + len(node.position.shape))
        return tuple(
            self.make(size, AxisType.SCAN if a in positions else AxisType.LOOP)
            for a, size in enumerate(node.source.shape)
        )

    def make(self, size: SInt, kind: AxisType) -> UOp:
        """Make a new loop with trip count `size`, or 0 if that is 1."""
        return _make_range(size, next(self._ids), kind)

    def open_reduced(self, node: UOp, indices: tuple[UOp, ...]) -> dict[int, UOp]:
        """Return the loop over each reduced axis of a REDUCE_AXIS at `indices`: the same loops for
        all readers at these indices.
        """
        # With the same loops, two readers' expressions are one REDUCE node; else the sum would be
        # computed twice.
        ranges = self._reduced.get((node, indices))
        if ranges is None:
            sizes = node.source.shape
            axes: tuple[int, ...] = node.arg.axes
            ranges = {axis: self.make(sizes[axis], AxisType.REDUCE) for axis in axes}
            self._reduced[(node, indices)] = ranges
        return ranges


def _make_range(size: SInt, axis_id: int, kind: AxisType) -> UOp:
    """Make a loop with trip count `size`, or 0 if that is 1.

    The trip count is simplified: if a later pass simplified it in some uses only, one loop would
    become two.
    """
    end = simplify(to_node(size))
    return (
        UOp.const(index, 0)
        if end.op is Op.CONST and end.arg == 1
        else UOp.range(end, axis_id, kind)
    )
