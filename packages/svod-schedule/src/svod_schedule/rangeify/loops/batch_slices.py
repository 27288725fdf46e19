"""Batching of body values that depend only on slices and constants: computed for all slices at
once, as `jax.vmap` does.

    REDUCE_AXIS(MUL(EXPAND(slice of x), EXPAND(w)), (1,))     REDUCE_AXIS(MUL(EXPAND(x), EXPAND(w)), (2,))

Every batched value has an additional leading axis, the batch axis, one index for each slice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Final

from svod_ir import (
    Op,
    SInt,
    UOp,
    is_zero,
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
"""Maximum number of elements of a batched value: 256 MiB of float32, for values that a loop would keep
one slice at a time."""

_ALIKE: Final = MARKS | {Op.CONTIGUOUS}


def make_batch(
    node: UOp, size: SInt, slices: Mapping[UOp, UOp], hoist: Callable[[UOp], UOp | None]
) -> UOp | None:
    """Return `node` batched over all slices, or None if a node below it has no batching rule.

    Args:
        size: the number of slices.
        slices: the stacked operand for each PARAM of a slice.
        hoist: rewrites a value that depends on no slice for use outside of the loop.
    """
    batch = _Batch(size, slices, hoist)
    return batch.make(node)


class _Batch:
    def __init__(
        self, size: SInt, slices: Mapping[UOp, UOp], hoist: Callable[[UOp], UOp | None]
    ) -> None:
        self.size, self.slices, self.hoist = size, slices, hoist
        self.done: dict[UOp, UOp] = {}
        self.reads: set[UOp] = set()

    def make(self, root: UOp) -> UOp | None:
        order = root.toposort()
        for node in order:
            if node in self.slices or any(s in self.reads for s in node.src):
                self.reads.add(node)
        for node in order:
            batched = self._write(node) if node in self.reads and self._is_small(node) else None
            if batched is not None:
                self.done[node] = batched
            elif node in self.reads:
                return None
        return self.done.get(root)

    def _is_small(self, node: UOp) -> bool:
        shape = node.find_shape()
        if shape is None:
            return False
        # Movement and elementwise ops fuse with their readers, and take no memory.
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
            batched = [o for o in operands if o is not None]
            return (
                UOp(node.op, node.dtype, tuple(batched)) if len(batched) == len(operands) else None
            )
        if node.op is Op.GATHER:
            return self._gather(node)
        if node.op is Op.SCATTER:
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
        """Broadcast an operand of an elementwise op to `shape` with a batch axis; scalars that do
        not depend on a slice stay scalars.
        """
        if operand in self.reads:
            batched = self.done[operand]
            if operand.shape or not shape:
                return batched
            return make_expand(
                make_reshape(batched, (self.size, *(1,) * len(shape))), (self.size, *shape)
            )
        hoisted = self.hoist(operand)
        if hoisted is None or not hoisted.shape:
            return hoisted
        return make_expand(make_reshape(hoisted, (1, *hoisted.shape)), (self.size, *hoisted.shape))

    def _gather(self, node: UOp) -> UOp | None:
        source, positions, axis = node.source, node.position, int(node.arg)
        if source in self.reads:
            # Of indices or source, one at most may depend on the slice: a GATHER has one axis of
            # indices.
            hoisted = None if positions in self.reads else self.hoist(positions)
            return None if hoisted is None else make_gather(self.done[source], hoisted, axis + 1)
        hoisted = self.hoist(source)
        if hoisted is None:
            return None
        # The batch axis is in the place of the gathered one, and moves to the front.
        gathered = make_gather(hoisted, self.done[positions], axis)
        return make_permute(gathered, (axis, *(a for a in range(len(gathered.shape)) if a != axis)))

    def _scatter(self, node: UOp) -> UOp | None:
        axis: int = node.arg.axis
        size = node.shape[axis]
        is_sum = node.arg.op is Op.ADD and is_zero(node.base)
        # Indices that differ from slice to slice would have to include the slice's number.
        if (
            not is_sum
            or not isinstance(size, int)
            or node.source not in self.reads
            or node.position in self.reads
        ):
            return None
        hoisted = self.hoist(node.position)
        return (
            None
            if hoisted is None
            else make_scatter_add(self.done[node.source], hoisted, axis + 1, size)
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
