"""Split of a concatenation of equal parts into a store for each part, so that `join_kernels` can
join it with the kernels that compute the parts.

before → after, for two rows in one buffer of 2 x 8:

    END(STORE(INDEX(PARAM 0, r0 * 8 + r1), INDEX(PARAM 1, r1, gate=r0 < 1) + INDEX(PARAM 2, r1, gate=NOT(r0 < 1))), r0, r1)

    END(GROUP(STORE(INDEX(PARAM 0, r0), INDEX(PARAM 1, r0) + 0), STORE(INDEX(PARAM 0, r0 + 8), 0 + INDEX(PARAM 2, r0))), r0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from svod_dtype import index
from svod_ir import Op, UOp
from svod_schedule.symbolic import simplify

__all__ = ["Parts", "split_parts"]

MAX_PARTS = 8
"""Maximum number of parts: each is a memory stream."""


class Parts(NamedTuple):
    """The stores of a split kernel, and its loops: the loop over parts is removed or shortened."""

    loops: tuple[UOp, ...]
    stores: tuple[UOp, ...]


def split_parts(loops: Sequence[UOp], store: UOp) -> Parts | None:
    """Split a kernel's store if conditions on one of its loops select among parts of equal size;
    None otherwise.
    """
    nodes = store.value.toposort()
    for loop in loops:
        n_parts = _count_parts(loop, nodes)
        if n_parts is not None:
            return _split(loops, loop, store, n_parts)
    return None


def _count_parts(loop: UOp, nodes: Sequence[UOp]) -> int | None:
    """Number of equal parts that conditions split a loop into; None for no or unequal parts."""
    size = loop.stop
    if size.op is not Op.CONST:
        return None
    borders: set[int] = set()
    for node in nodes:
        # Only comparisons of the loop itself with constants: of an expression of it, the parts
        # would not be contiguous.
        if node.dtype.kind != "bool" or loop not in node.src:
            continue
        if node.op is not Op.LT or node.left is not loop or node.right.op is not Op.CONST:
            return None
        borders.add(int(node.right.arg))
    n_parts = len(borders) + 1
    if not 2 <= n_parts <= MAX_PARTS or size.arg % n_parts:
        return None
    return n_parts if borders == set(range(0, size.arg, size.arg // n_parts)) - {0} else None


def _split(loops: Sequence[UOp], cut: UOp, store: UOp, n_parts: int) -> Parts | None:
    size = cut.stop.arg // n_parts
    images: dict[UOp, UOp] = {}
    for loop in loops:
        # Parts of one row need no loop over rows.
        if loop is not cut or size > 1:
            stop = UOp.const(index, size) if loop is cut else loop.stop
            images[loop] = UOp(Op.RANGE, index, (stop,), loop.arg._replace(id=len(images)))
    inside = images.get(cut, UOp.const(index, 0))
    stores = [_specialize(store, {**images, cut: inside + i * size}) for i in range(n_parts)]
    # A remaining gate depends on more than the loop.
    if any(n.op is Op.INDEX and n.gate is not None for s in stores for n in s.value.toposort()):
        return None
    return Parts(tuple(images.values()), tuple(stores))


def _specialize(store: UOp, done: dict[UOp, UOp]) -> UOp:
    """Substitute loops in a store, and fold the conditions that become constant."""
    for node in store.toposort():
        if node in done:
            continue
        new = node.with_images(done)
        if new.op is Op.INDEX:
            new = _fold_gate(new)
        elif new.op is Op.WHERE and (condition := simplify(new.condition)).op is Op.CONST:
            new = new.if_true if condition.arg else new.if_false
        done[node] = new
    return done[store]


def _fold_gate(node: UOp) -> UOp:
    position = simplify(node.position)
    gate = None if node.gate is None else simplify(node.gate)
    if gate is None or gate.op is not Op.CONST:
        return node.memory.index(position, gate=gate)
    return node.memory.index(position) if gate.arg else UOp.const(node.dtype, 0)
