"""Estimate of the cost of an evaluation."""

from __future__ import annotations

import math
from typing import Final

from svod_ir.loops import find_count
from svod_ir.ops import Op
from svod_ir.uop import SInt, UOp

__all__ = ["count_steps"]

_TYPICAL_ITERATIONS: Final = 50
"""Assumed trip count of a loop whose count is computed."""
_ELEMENTS_AT_ONCE: Final = 256
"""Array elements that take as long as one step of the interpreter."""


def count_steps(root: UOp) -> int:
    """Approximate number of steps of `svod_ir.evaluate`: each node once per iteration, arrays by
    size.

    Sizes and loop ends that depend on variables count with their largest values.
    """
    launches, steps = 1, 0
    for node in root.toposort(enter_calls=False):
        if node.op is Op.SPECIAL or (node.op is Op.DEFINE_VAR and node.arg.name == "core_id"):
            launches *= _count_values(node)
        elif node.op is Op.CALL and node.arg is None:
            steps += count_steps(node.body)
        elif node.op is Op.LOOP:
            steps += _count_iterations(find_count(node)) * count_steps(node.arg.body)
        elif node.op is Op.SWITCH:
            steps += max(map(count_steps, node.arg.bodies))
        elif node.op is Op.END and node.body.op is Op.CALL and node.body.arg is not None:
            steps += count_steps(node.body.body) * _count_iterations(_find_repeats(node))
        steps += math.prod(map(_count_values, node.ranges)) * (
            1 + _count_elements(node) // _ELEMENTS_AT_ONCE
        )
    return launches * steps


def _find_repeats(end: UOp) -> SInt | None:
    """Trip count of a repeated call, None if it is computed."""
    return None if end.body.arg.is_count_read else end.loops[0].stop


def _count_iterations(count: SInt | None) -> int:
    if count is None:
        return _TYPICAL_ITERATIONS
    return count if isinstance(count, int) else max(0, int(count.vmax))


def _count_values(node: UOp) -> int:
    return max(1, int(node.vmax) + 1)


def _count_elements(node: UOp) -> int:
    sizes = node.find_shape() or ()
    return node.dtype.lanes * math.prod(int(s.vmax) if isinstance(s, UOp) else s for s in sizes)
