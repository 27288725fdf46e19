"""The loops of one kernel while it is written: numbered from 0, so that kernels of one form have equal indices."""

from __future__ import annotations

from svod_dtype import index
from svod_ir import AxisType, Op, SInt, UOp
from svod_ir.uop import to_node
from svod_schedule.symbolic import simplify

__all__ = ["KernelLoops"]


class KernelLoops:
    """Opens the loops of one kernel.

    Args:
        around: the loops of the graph that reads a body. The body's numbers go on from there, but its reductions have loops of
            their own: equal bodies are one graph, and one may read the other's result.
    """

    def __init__(self, around: KernelLoops | None = None) -> None:
        self._kernel: KernelLoops = self if around is None else around._kernel
        self._n_opened = 0
        self._reduced: dict[tuple[UOp, tuple[UOp, ...]], dict[int, UOp]] = {}

    def open(self, node: UOp) -> tuple[UOp, ...]:
        """A fresh loop for each axis of a stored node (0 on axes of size 1); a scanned axis runs in order."""
        scanned = node.arg.axis if node.op is Op.SCAN_AXIS else None
        first = self._kernel._n_opened
        self._kernel._n_opened += len(node.shape)
        return tuple(
            _make_range(size, first + a, AxisType.SCAN if a == scanned else AxisType.LOOP)
            for a, size in enumerate(node.shape)
        )

    def open_places(self, node: UOp) -> tuple[UOp, ...]:
        """A fresh loop for each axis of what a SCATTER_ADD adds up; those over its positions run in order."""
        first, axis = self._kernel._n_opened, node.arg.axis
        positions = range(axis, axis + len(node.position.shape))
        self._kernel._n_opened += len(node.source.shape)
        return tuple(
            _make_range(size, first + a, AxisType.SCAN if a in positions else AxisType.LOOP)
            for a, size in enumerate(node.source.shape)
        )

    def make(self, size: SInt, kind: AxisType) -> UOp:
        """A fresh loop of `size` iterations, 0 where that is 1."""
        self._kernel._n_opened += 1
        return _make_range(size, self._kernel._n_opened - 1, kind)

    def open_reduced(self, node: UOp, indices: tuple[UOp, ...]) -> dict[int, UOp]:
        """The loop over each axis that a REDUCE_AXIS at `indices` reduces: the same ones wherever it is read there."""
        ranges = self._reduced.get((node, indices))
        if ranges is None:
            sizes, first = node.source.shape, self._kernel._n_opened
            axes: tuple[int, ...] = node.arg.axes
            ranges = {a: _make_range(sizes[a], first + i, AxisType.REDUCE) for i, a in enumerate(axes)}
            self._kernel._n_opened += len(ranges)
            self._reduced[(node, indices)] = ranges
        return ranges


def _make_range(size: SInt, axis_id: int, kind: AxisType) -> UOp:
    """A loop of `size` iterations, or 0 where that is 1.

    Its end is in normal form: what is simplified later must not make two loops of one.
    """
    end = simplify(to_node(size))
    return UOp.const(index, 0) if end.op is Op.CONST and end.arg == 1 else UOp.range(end, axis_id, kind)
