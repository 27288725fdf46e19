"""State that the bodies in one kernel share: its loops, counters of cells, and unrolled axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from svod_ir import Op, SInt, UOp
from svod_schedule.rangeify.analysis.kernel_loops import KernelLoops
from svod_schedule.symbolic import simplify

__all__ = ["AxisUnrolledError", "ElementAxis", "FusedKernel", "NotFusableError"]

MAX_UNROLLED = 64
"""Maximum number of cells of one unrolled axis: code size grows with them."""

MAX_CELLS = 128
"""Maximum number of cells of a kernel: more do not stay in registers."""


class NotFusableError(Exception):
    """A loop cannot be one kernel, or not a fast one."""


class AxisUnrolledError(Exception):
    """An axis was added to the unrolled ones: fusion starts again."""


class ElementAxis(NamedTuple):
    """An axis of the result at `position`."""

    position: int
    axis: int
    size: SInt


class FusedKernel:
    """A kernel under construction.

    Args:
        rows: the unrolled axes of each result, by position.
        max_values: the maximum number of nodes that are pulled from the bodies.
        memory: the memory that the loop reads.
    """

    def __init__(self, rows: dict[int, set[int]], max_values: int, memory: Sequence[UOp]) -> None:
        self.rows = rows
        self.max_values = max_values
        # Mapped to themselves, so that substitutions stop there.
        self.memory = {m: m for m in memory}
        self.owners: dict[UOp, ElementAxis] = {}
        self.loops = KernelLoops()
        self.n_cells = self.n_values = 0

    def make_carry(self, initial: UOp, elements: Sequence[UOp]) -> UOp:
        """Make a new cell: a register for each iteration of the loops `elements`."""
        self.n_cells += 1
        if self.n_cells > MAX_CELLS:
            raise NotFusableError
        return UOp(Op.CARRY, initial.dtype, (initial, *elements), self.n_cells - 1)

    def substitute(self, node: UOp, replacements: Mapping[UOp, UOp]) -> UOp:
        """Substitute in `node`, but not in the kernels that fill the memory that it reads: a loop of
        these may be the same node.
        """
        return node.substitute({**self.memory, **replacements})

    def spread(self, effect: UOp, loop: UOp, independent: UOp) -> UOp:
        """Replace `loop` in `effect` by an `independent` one, whose iterations have registers of
        their own.
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
        """Count a pulled node, and give up at the maximum: the number of pulls can grow
        exponentially with the depth of nested bodies.
        """
        self.n_values += 1
        if self.n_values > self.max_values:
            raise NotFusableError

    def unroll(self, position: int, axis: int, size: SInt) -> NoReturn:
        """Mark an axis as unrolled, and start again."""
        row = self.rows.setdefault(position, set())
        # An axis that is unrolled already and is read at another index cannot be helped by
        # unrolling it.
        if not isinstance(size, int) or size > MAX_UNROLLED or axis in row:
            raise NotFusableError
        row.add(axis)
        raise AxisUnrolledError

    def get_constant_index(self, i: UOp) -> int:
        """Return a constant coordinate as an int. If it depends on a loop over an axis of a result,
        that axis is unrolled.
        """
        constant = simplify(i)
        if constant.op is not Op.CONST:
            owner = next(
                (o for r in constant.ranges if (o := self.owners.get(r)) is not None), None
            )
            if owner is None:
                raise NotFusableError
            self.unroll(*owner)
        return int(constant.arg)
