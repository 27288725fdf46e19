"""The derivative of a checkpointed value: the value is recomputed, so that no residual between its
operands and it is stored.

    value = GRADIENT(f(x, w), x, w; RECOMPUTED)         backward, with the cotangent c:
    x', w' = CONTROL_DEPENDENCY(x, c, value), CONTROL_DEPENDENCY(w, c, value)
    again = f(x', w')   the cotangents of x' and w', from those nodes

The recomputed nodes (`again`) are distinct from the nodes of the value, and run once the cotangent is known.
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
    pairs = [
        (v, c)
        for v, c in zip(node.src, split_parts(node, cotangent), strict=False)
        if c is not None
    ]
    events = [event for pair in pairs for event in pair]
    again = {operand: add_control_dependency(operand, events) for operand in operands}
    rebuilt = _rebuild([value for value, _ in pairs], again)
    cotangents = make_cotangents(rebuilt, [c for _, c in pairs], list(again.values()))
    # The values among the inputs get no cotangent: the derivative flows through the operands.
    return (*[None] * (len(wanted) - len(operands)), *cotangents)


def _rebuild(values: Sequence[UOp], images: Mapping[UOp, UOp]) -> list[UOp]:
    """Rebuild `values` on other operands, including the graphs that traced values were computed
    from.
    """
    done = make_images()
    done.update(images)
    marked = map_marks(images)
    sources: dict[UOp, Sequence[UOp]] = {}
    for node in sort_nodes(
        values, lambda n: sources.setdefault(n, list_sources(n, marked)) if n not in images else ()
    ):
        if node not in images:
            inputs = sources[node]
            # A traced value that was computed is replaced by the graph that it was computed from.
            done[node] = node.with_images(done) if inputs is node.src else done[inputs[0]]
    return [done[value] for value in values]


RECOMPUTED: Final = GradientRule("recomputed", _backward, differentiates_value=True)
"""Rule of GRADIENT nodes whose values are computed again for their derivative."""
