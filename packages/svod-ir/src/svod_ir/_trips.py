"""How many iterations loops have.

Example:
    >>> from svod_ir import AxisType, UOp, exact_trips, max_trips, typical_trips
    >>> rows = UOp.range(UOp.variable("n", 1, 99), 0, AxisType.LOOP)
    >>> columns = UOp.range(4, 1, AxisType.LOOP)
    >>> exact_trips(rows), exact_trips(columns), max_trips(rows, columns), typical_trips(rows, columns)
    (DEFINE_VAR():index[VariableArg(name='n', low=1, high=99)], 4, 396, 200)
"""

from __future__ import annotations

from math import prod

from svod_ir.ops import Op
from svod_ir.uop import SInt, UOp

__all__ = ["exact_trips", "max_trips", "typical_trips"]


def exact_trips(loop: UOp) -> SInt:
    """The iterations of a RANGE: an int where they are constant, its end otherwise."""
    end = loop.stop
    return int(end.arg) if end.op is Op.CONST else end


def max_trips(*loops: UOp) -> int:
    """The most iterations of nested loops; an index or a number of a launch counts as the loop that
    it stands for.
    """
    return prod([int(loop.vmax) + 1 for loop in loops])


def typical_trips(*loops: UOp) -> int:
    """The iterations of nested loops, where each that varies has as many as lie in the middle of
    its bounds.
    """
    return prod([max((int(loop.stop.vmin) + int(loop.stop.vmax)) // 2, 1) for loop in loops])
