"""State that the bodies in one kernel share: its loops, its numbers, and the axes that are written
out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from svod_ir import Op, SInt, UOp
from svod_schedule.rangeify.analysis.kernel_loops import KernelLoops
from svod_schedule.symbolic import simplify

__all__ = ["ElementAxis", "FusedKernel", "NotFusableError", "WrittenOutError"]

MAX_WRITTEN_OUT = 64
"""Elements of one value that are written out: code grows with them."""

MAX_CELLS = 128


class NotFusableError(Exception):
    """A body is more than one kernel, or a long one."""


class WrittenOutError(Exception):
    """An axis more is to be written out."""


class ElementAxis(NamedTuple):
    """An axis of the result with this position."""

    position: int
    axis: int
    size: SInt


class FusedKernel:
    """A kernel in the making.

    Args:
        rows: the axes of each result that are written out, by its position.
        max_values: so many nodes of the bodies are read at most.
        memory: what the loop reads.
    """

    def __init__(self, rows: dict[int, set[int]], max_values: int, memory: Sequence[UOp]) -> None:
        self.rows = rows
        self.max_values = max_values
        self.memory = {m: m for m in memory}
        self.owners: dict[UOp, ElementAxis] = {}
        self.loops = KernelLoops()
        self.n_cells = self.n_values = 0

    def make_carry(self, initial: UOp, elements: Sequence[UOp]) -> UOp:
        """A new cell: the register of an element, over the loops over `elements`."""
        self.n_cells += 1
        if self.n_cells > MAX_CELLS:
            raise NotFusableError
        return UOp(Op.CARRY, initial.dtype, (initial, *elements), self.n_cells - 1)

    def substitute(self, node: UOp, replacements: Mapping[UOp, UOp]) -> UOp:
        """`node` with these replacements, but for what fills the memory that it reads: a loop of
        another kernel may be the same node.
        """
        return node.substitute({**self.memory, **replacements})

    def spread(self, effect: UOp, loop: UOp, independent: UOp) -> UOp:
        """`effect` with a loop whose iterations do not read each other, each with registers of its
        own.
        """
        done: dict[UOp, UOp] = {**self.memory, loop: independent}
        for node in effect.toposort(stop=done):
            if node not in done:
                image = node.with_images(done)
                done[node] = (
                    image.with_src((*image.src, independent)) if node.op is Op.CARRY else image
                )
        return done[effect]

    def count_value(self) -> None:
        """Say that a node is read: bodies in bodies are read more and more often."""
        self.n_values += 1
        if self.n_values > self.max_values:
            raise NotFusableError

    def write_out(self, position: int, axis: int, size: SInt) -> NoReturn:
        """Begin again with this axis written out."""
        row = self.rows.setdefault(position, set())
        if not isinstance(size, int) or size > MAX_WRITTEN_OUT or axis in row:
            raise NotFusableError
        row.add(axis)
        raise WrittenOutError

    def get_place(self, i: UOp) -> int:
        """A constant coordinate; the axis that a loop is over is written out."""
        place = simplify(i)
        if place.op is not Op.CONST:
            owner = next((o for r in place.ranges if (o := self.owners.get(r)) is not None), None)
            if owner is None:
                raise NotFusableError
            self.write_out(*owner)
        return int(place.arg)
