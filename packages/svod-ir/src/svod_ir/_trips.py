"""Trip counts of loops.

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
    """The trip count of a RANGE: an int if it is constant, else its end."""
    end = loop.stop
    return int(end.arg) if end.op is Op.CONST else end


def max_trips(*loops: UOp) -> int:
    """Maximum number of iterations of nested loops; a SPECIAL or an index counts as its loop."""
    return prod([int(loop.vmax) + 1 for loop in loops])


def typical_trips(*loops: UOp) -> int:
    """Number of iterations of nested loops, with the midpoint of the bounds of each varying trip
    count.
    """
    return prod([max((int(loop.stop.vmin) + int(loop.stop.vmax)) // 2, 1) for loop in loops])
