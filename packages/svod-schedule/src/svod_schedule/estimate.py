"""Estimate of a kernel's arithmetic and memory traffic, from which profiles compute throughput.

Example:
    >>> from svod_dtype import float32, void
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 64)) for slot in range(2))
    >>> i = UOp.range(64, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))
    >>> from svod_schedule.estimate import Work, estimate_work
    >>> estimate_work(kernel)
    Work(n_operations=64, n_bytes=512)
    >>> estimate_work(kernel) == Work(n_operations=64, n_bytes=2 * 64 * 4)
    True
"""

from __future__ import annotations

from typing import NamedTuple

from svod_ir import Op, UOp, max_trips
from svod_ir.ops import BINARY, TERNARY, UNARY

__all__ = ["Work", "estimate_work"]

_ARITHMETIC = (UNARY | BINARY | TERNARY) - {Op.WHERE}


class Work(NamedTuple):
    """Work of a kernel.

    Attributes:
        n_operations: the arithmetic operations on values, not counting index arithmetic.
        n_bytes: the bytes of memory that are read or written, each counted once.
    """

    n_operations: int
    n_bytes: int


def estimate_work(kernel: UOp) -> Work:
    """Estimate the work of one launch of a kernel before lowering, with maximum values for
    variables.
    """
    n_operations = 0
    touched: dict[UOp, int] = {}
    for node in kernel.toposort():
        if node.op in _ARITHMETIC and node.dtype.kind not in ("index", "bool"):
            n_operations += _trips(node.ranges) * (2 if node.op is Op.MULACC else 1)
        elif node.op is Op.REDUCE:
            n_operations += _trips(node.source.ranges)
        elif node.op is Op.INDEX and node.memory.unordered.op is Op.PARAM:
            memory = node.memory.unordered
            n_elements = min(_trips(node.position.ranges), memory.arg.size)
            # Several reads of one memory mostly read the same elements, so the largest counts, not
            # the sum.
            touched[memory] = max(touched.get(memory, 0), n_elements)
    return Work(n_operations, sum(n * memory.dtype.itemsize for memory, n in touched.items()))


def _trips(ranges: frozenset[UOp]) -> int:
    # `max_trips` counts an empty loop as one iteration.
    if any(loop.op is Op.RANGE and int(loop.stop.vmax) < 1 for loop in ranges):
        return 0
    return max_trips(*ranges)
