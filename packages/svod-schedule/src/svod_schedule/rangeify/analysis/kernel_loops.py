"""The loops of one kernel while it is written: numbered from 0, so that kernels of one form have
equal indices.
"""

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
    """Opens the loops of one kernel.

    Args:
        around: the loops of the graph that reads a body. The body's numbers go on from there, but
            its reductions have loops of their own: equal bodies are one graph, and one may read the
            other's result.
    """

    def __init__(self, around: KernelLoops | None = None) -> None:
        self._ids: Iterator[int] = count() if around is None else around._ids
        self._reduced: dict[tuple[UOp, tuple[UOp, ...]], dict[int, UOp]] = {}

    def open(self, node: UOp) -> tuple[UOp, ...]:
        """A fresh loop for each axis of a stored node (0 on axes of size 1); a scanned axis runs in
        order.
        """
        scanned = node.arg.axis if node.op is Op.SCAN_AXIS else None
        return tuple(
            self.make(size, AxisType.SCAN if a == scanned else AxisType.LOOP)
            for a, size in enumerate(node.shape)
        )

    def open_places(self, node: UOp) -> tuple[UOp, ...]:
        """A fresh loop for each axis of what a SCATTER_ADD adds up; those over its positions run in
        order.
        """
        positions = range(node.arg.axis, node.arg.axis + len(node.position.shape))
        return tuple(
            self.make(size, AxisType.SCAN if a in positions else AxisType.LOOP)
            for a, size in enumerate(node.source.shape)
        )

    def make(self, size: SInt, kind: AxisType) -> UOp:
        """A fresh loop of `size` iterations, 0 where that is 1."""
        return _make_range(size, next(self._ids), kind)

    def open_reduced(self, node: UOp, indices: tuple[UOp, ...]) -> dict[int, UOp]:
        """The loop over each axis that a REDUCE_AXIS at `indices` reduces: the same ones wherever
        it is read there.
        """
        ranges = self._reduced.get((node, indices))
        if ranges is None:
            sizes = node.source.shape
            axes: tuple[int, ...] = node.arg.axes
            ranges = {axis: self.make(sizes[axis], AxisType.REDUCE) for axis in axes}
            self._reduced[(node, indices)] = ranges
        return ranges


def _make_range(size: SInt, axis_id: int, kind: AxisType) -> UOp:
    """A loop of `size` iterations, or 0 where that is 1.

    Its end is in normal form: what is simplified later must not make two loops of one.
    """
    end = simplify(to_node(size))
    return (
        UOp.const(index, 0)
        if end.op is Op.CONST and end.arg == 1
        else UOp.range(end, axis_id, kind)
    )
