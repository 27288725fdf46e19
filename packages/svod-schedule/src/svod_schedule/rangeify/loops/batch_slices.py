"""A part of a body that reads slices and nothing that changes otherwise, computed for all slices at
once.

    REDUCE_AXIS(MUL(EXPAND(slice of x), EXPAND(w)), (1,))     REDUCE_AXIS(MUL(EXPAND(x), EXPAND(w)), (2,))

Every value has an axis more, the first one, along which the slices lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from svod_ir import (
    Op,
    SInt,
    UOp,
    make_expand,
    make_flip,
    make_gather,
    make_pad,
    make_permute,
    make_reduce_axis,
    make_reshape,
    make_scan_axis,
    make_scatter_add,
    make_shrink,
)
from svod_ir.ops import ELEMENTWISE, MARKS, MOVEMENT
from svod_ir.sizes import max_size

__all__ = ["MAX_BATCHED", "make_batch"]

MAX_BATCHED: Final = 1 << 26
"""No value may get more elements than this."""

_ALIKE: Final = MARKS | {Op.CONTIGUOUS}


def make_batch(
    node: UOp, size: SInt, slices: Mapping[UOp, UOp], take_outside: Callable[[UOp], UOp | None]
) -> UOp | None:
    """What `node` is for all slices, or None where something below it has no such form.

    Args:
        size: how many slices there are.
        slices: for each PARAM of a slice, all of them.
        take_outside: gives what a part that reads no slice is outside of the loop.
    """
    batch = _Batch(size, slices, take_outside)
    return batch.make(node)


class _Batch:
    def __init__(
        self, size: SInt, slices: Mapping[UOp, UOp], take_outside: Callable[[UOp], UOp | None]
    ) -> None:
        self.size, self.slices, self.take_outside = size, slices, take_outside
        self.done: dict[UOp, UOp] = {}
        self.reads: set[UOp] = set()

    def make(self, root: UOp) -> UOp | None:
        order = root.toposort()
        for node in order:
            if node in self.slices or any(s in self.reads for s in node.src):
                self.reads.add(node)
        for node in order:
            made = self._write(node) if node in self.reads and self._is_small(node) else None
            if made is not None:
                self.done[node] = made
            elif node in self.reads:
                return None
        return self.done.get(root)

    def _is_small(self, node: UOp) -> bool:
        shape = node.find_shape()
        if shape is None:
            return False
        return (
            node.op in MOVEMENT
            or node.op in ELEMENTWISE
            or prod(map(max_size, (self.size, *shape))) <= MAX_BATCHED
        )

    def _write(self, node: UOp) -> UOp | None:
        if node.op is Op.PARAM:
            return make_reshape(self.slices[node], (self.size, node.arg.size))
        if node.op in ELEMENTWISE:
            operands = [self._fit(s, node.shape) for s in node.src]
            known = [o for o in operands if o is not None]
            return UOp(node.op, node.dtype, tuple(known)) if len(known) == len(operands) else None
        if node.op is Op.GATHER:
            return self._gather(node)
        if node.op is Op.SCATTER_ADD:
            return self._scatter(node)
        make = _RULES.get(node.op)
        if (
            make is None
            or node.source not in self.reads
            or any(s in self.reads for s in node.src[1:])
        ):
            return None
        return make(node, self.done[node.source], self.size)

    def _fit(self, operand: UOp, shape: tuple[SInt, ...]) -> UOp | None:
        """An operand of an elementwise op: with the axis of slices, or a number."""
        if operand in self.reads:
            batched = self.done[operand]
            if operand.shape or not shape:
                return batched
            return make_expand(
                make_reshape(batched, (self.size, *(1,) * len(shape))), (self.size, *shape)
            )
        outside = self.take_outside(operand)
        if outside is None or not outside.shape:
            return outside
        return make_expand(make_reshape(outside, (1, *outside.shape)), (self.size, *outside.shape))

    def _gather(self, node: UOp) -> UOp | None:
        source, positions, axis = node.source, node.position, int(node.arg)
        if source in self.reads:
            outside = None if positions in self.reads else self.take_outside(positions)
            return None if outside is None else make_gather(self.done[source], outside, axis + 1)
        outside = self.take_outside(source)
        if outside is None:
            return None
        found = make_gather(outside, self.done[positions], axis)
        return make_permute(found, (axis, *(a for a in range(len(found.shape)) if a != axis)))

    def _scatter(self, node: UOp) -> UOp | None:
        axis, size = node.arg
        if size is None or node.source not in self.reads or node.position in self.reads:
            return None
        outside = self.take_outside(node.position)
        return (
            None
            if outside is None
            else make_scatter_add(self.done[node.source], outside, axis + 1, size)
        )


def _pairs(node: UOp) -> list[tuple[SInt, SInt]]:
    return list(zip(node.sizes[::2], node.sizes[1::2], strict=True))


_RULES: Final[dict[Op, Callable[[UOp, UOp, SInt], UOp]]] = {
    Op.RESHAPE: lambda node, x, size: make_reshape(x, (size, *node.shape)),
    Op.EXPAND: lambda node, x, size: make_expand(x, (size, *node.shape)),
    Op.PERMUTE: lambda node, x, size: make_permute(x, (0, *(a + 1 for a in node.arg))),
    Op.FLIP: lambda node, x, size: make_flip(x, (False, *node.arg)),
    Op.PAD: lambda node, x, size: make_pad(x, [(0, 0), *_pairs(node)]),
    Op.SHRINK: lambda node, x, size: make_shrink(x, [(0, size), *_pairs(node)]),
    Op.REDUCE_AXIS: lambda node, x, size: make_reduce_axis(
        x, node.arg.op, [a + 1 for a in node.arg.axes]
    ),
    Op.SCAN_AXIS: lambda node, x, size: make_scan_axis(x, node.arg.op, node.arg.axis + 1),
    **dict.fromkeys(_ALIKE, lambda node, x, size: UOp(node.op, node.dtype, (x,), node.arg)),
}
