"""Allocation of unique ids for the loops and memory of a kernel."""

from __future__ import annotations

from typing import Final

from svod_dtype import DType
from svod_ir.args import ScratchArg
from svod_ir.ops import AxisType, Op
from svod_ir.uop import SInt, UOp

__all__ = ["FreshIds"]

_OPS_WITH_ID: Final = (Op.RANGE, Op.DEFINE_REG, Op.DEFINE_LOCAL, Op.CARRY)


class FreshIds:
    """Makes nodes with the next id of their op, starting after the largest id in `kernel`.

    Example:
        >>> from svod_ir import AxisType, FreshIds, UOp
        >>> fresh = FreshIds(UOp.sink())
        >>> fresh.make_range(4, AxisType.LOOP).arg, fresh.make_range(2, AxisType.UPCAST).arg.id
        (RangeArg(id=0, kind=<AxisType.LOOP: ('L', 1)>), 1)
        >>> from svod_dtype import float32
        >>> tile, total = fresh.make_local(float32, 64), fresh.make_register(float32)
        >>> carry = fresh.make_carry(UOp.const(float32, 0.0))
        >>> tile.arg, total.arg, carry.arg
        (ScratchArg(id=0, size=64), ScratchArg(id=0, size=1), 0)
    """

    def __init__(self, kernel: UOp | None = None) -> None:
        # An id is unique among the nodes of its op, so each op counts on its own.
        self._next: dict[Op, int] = dict.fromkeys(_OPS_WITH_ID, 0)
        for node in () if kernel is None else kernel.iter_ops(*_OPS_WITH_ID):
            node_id: int = node.arg if node.op is Op.CARRY else node.arg.id
            self._next[node.op] = max(self._next[node.op], node_id + 1)

    def make_range(self, end: SInt, kind: AxisType) -> UOp:
        """Return a RANGE from 0 to `end` with an unused id."""
        return UOp.range(end, self._take(Op.RANGE), kind)

    def make_register(self, dtype: DType, size: int = 1) -> UOp:
        """Registers of a work-item for `size` elements."""
        return UOp(Op.DEFINE_REG, dtype, (), ScratchArg(self._take(Op.DEFINE_REG), size))

    def make_local(self, dtype: DType, size: int) -> UOp:
        """Memory of a workgroup for `size` elements."""
        return UOp(Op.DEFINE_LOCAL, dtype, (), ScratchArg(self._take(Op.DEFINE_LOCAL), size))

    def make_carry(self, initial: UOp, *elements: UOp) -> UOp:
        """A CARRY: a loop-carried value with initial value `initial`.

        `elements` are ranges; each combination of their values has a carry of its own.
        """
        return UOp(Op.CARRY, initial.dtype, (initial, *elements), self._take(Op.CARRY))

    def _take(self, op: Op) -> int:
        self._next[op] += 1
        return self._next[op] - 1
