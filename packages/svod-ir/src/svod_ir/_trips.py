"""How many iterations loops have."""

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
    """The most iterations of nested loops; an index or a number of a launch counts as the loop that it stands for."""
    return prod([int(loop.vmax) + 1 for loop in loops])


def typical_trips(*loops: UOp) -> int:
    """The iterations of nested loops, where each that varies has as many as lie in the middle of its bounds."""
    return prod([max((int(loop.stop.vmin) + int(loop.stop.vmax)) // 2, 1) for loop in loops])
