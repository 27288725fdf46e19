"""The derivative of a value that is computed again for it, so that nothing between its operands and
it is kept.

    value = GRADIENT(f(x, w), x, w; RECOMPUTED)         backward, with the cotangent c:
    x', w' = CONTROL_DEPENDENCY(x, c, value), CONTROL_DEPENDENCY(w, c, value)
    again = f(x', w')   the cotangents of x' and w', from those nodes

The nodes of `again` are others than those of the value, and run when the cotangent is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from svod_ir.args import GradientRule
from svod_ir.derivatives.inputs import list_sources, map_marks, sort_nodes
from svod_ir.derivatives.joint import list_operands, split_parts
from svod_ir.derivatives.marks import add_control_dependency
from svod_ir.derivatives.reverse import make_cotangents
from svod_ir.derivatives.rule import Wanted
from svod_ir.origins import make_images
from svod_ir.uop import UOp

__all__ = ["RECOMPUTED"]


def _backward(node: UOp, cotangent: UOp, wanted: Wanted) -> tuple[UOp | None, ...]:
    operands = list_operands(node)
    parts = [
        (v, c)
        for v, c in zip(node.src, split_parts(node, cotangent), strict=False)
        if c is not None
    ]
    events = [event for part in parts for event in part]
    again = {operand: add_control_dependency(operand, events) for operand in operands}
    rebuilt = _rebuild([value for value, _ in parts], again)
    found = make_cotangents(rebuilt, [c for _, c in parts], list(again.values()))
    # The values in front of the operands have derivatives by these, and none of their own.
    return (*[None] * (len(wanted) - len(operands)), *found)


def _rebuild(values: Sequence[UOp], images: Mapping[UOp, UOp]) -> list[UOp]:
    """`values` of other operands; what was computed meanwhile is computed from these, too."""
    done = make_images()
    done.update(images)
    marked = map_marks(images)
    sources: dict[UOp, Sequence[UOp]] = {}
    for node in sort_nodes(
        values, lambda n: sources.setdefault(n, list_sources(n, marked)) if n not in images else ()
    ):
        if node not in images:
            found = sources[node]
            done[node] = node.with_images(done) if found is node.src else done[found[0]]
    return [done[value] for value in values]


RECOMPUTED: Final = GradientRule("recomputed", _backward, differentiates_value=True)
