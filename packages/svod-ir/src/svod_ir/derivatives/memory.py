"""The derivatives of marks, and of the value of memory after an assignment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from svod_dtype import bool_
from svod_ir.build import make_alu, make_constant_like
from svod_ir.derivatives.movement import LINEAR, forward_first
from svod_ir.derivatives.rule import Derivative, Parts, Wanted
from svod_ir.ops import MOVEMENT, Op
from svod_ir.uop import UOp

__all__ = ["AFTER", "CONTROL_DEPENDENCY", "TRACED", "update_values"]


def _reverse_traced(_: UOp, cotangent: UOp, __: Wanted) -> Parts:
    return [cotangent]


TRACED: Final = Derivative(_reverse_traced, forward_first)
"""A TRACED node that was computed has the derivative of the graph that it was computed from."""


def _list_control_dependency(node: UOp) -> Sequence[UOp]:
    return (node.source,)


CONTROL_DEPENDENCY: Final = Derivative(_reverse_traced, forward_first, _list_control_dependency)


def _list_after(node: UOp) -> Sequence[UOp]:
    """The memory's value before the assignment and the assigned value; without an ASSIGN, the
    source.
    """
    effect = node.src[1]
    return (
        (_list_target(effect.target)[-1], effect.value)
        if effect.op is Op.ASSIGN
        else (node.source,)
    )


def _list_target(target: UOp) -> list[UOp]:
    """The views of an assignment's target, then the value of the memory that they view."""
    chain = [target]
    while chain[-1].op in MOVEMENT:
        chain.append(chain[-1].source)
    return chain


def _reverse_after(node: UOp, cotangent: UOp, wanted: Wanted) -> Parts:
    effect = node.src[1]
    if effect.op is not Op.ASSIGN:
        return [cotangent]
    *views, base = _list_target(effect.target)
    seen = cotangent
    # From the memory outwards, as the target's views are applied.
    for view in reversed(views):
        seen = view.with_src((seen, *view.src[1:]))
    if not wanted[0]:
        return [None, seen]
    return [
        # Elements that the assignment overwrote no longer depend on their old values.
        make_alu(Op.WHERE, _mark_written(views, base), UOp.const(cotangent.dtype, 0), cotangent),
        seen,
    ]


def _forward_after(node: UOp, tangents: Parts) -> UOp | None:
    effect = node.src[1]
    if effect.op is not Op.ASSIGN:
        return tangents[0]
    *views, base = _list_target(effect.target)
    before = make_constant_like(node, 0) if tangents[0] is None else tangents[0]
    assigned = make_constant_like(effect.target, 0) if tangents[1] is None else tangents[1]
    return make_alu(Op.WHERE, _mark_written(views, base), _scatter_views(views, assigned), before)


def update_values(root: UOp, memory: Collection[UOp]) -> UOp:
    """Replace assignments to `memory` by functional updates.

    AFTER(x, ASSIGN(SHRINK(x), y)) -> WHERE(mask of the SHRINK, PAD(y), x)
    """
    done: dict[UOp, UOp] = {}
    for node in root.toposort():
        if node.op is Op.AFTER and node.source in memory and node.src[1].op is Op.ASSIGN:
            effect = node.src[1]
            *views, base = _list_target(effect.target)
            assigned = _scatter_views(views, done[effect.value])
            done[node] = make_alu(Op.WHERE, _mark_written(views, base), assigned, done[base])
        else:
            done[node] = node.with_images(done)
    return done[root]


def _mark_written(views: Sequence[UOp], base: UOp) -> UOp:
    """Mask of the elements of `base` that the views cover."""
    target = views[0] if views else base
    return _scatter_views(
        views, make_constant_like(target.cast(bool_) if target.dtype is not bool_ else target, True)
    )


def _scatter_views(views: Sequence[UOp], value: UOp) -> UOp:
    """Scatter the value of a view back into its base, with zeros elsewhere."""
    # The transpose of a view: from the assigned value back to the memory.
    for view in views:
        (scattered, *_) = LINEAR[view.op].reverse(view, value, (True,))
        assert scattered is not None
        value = scattered
    return value


AFTER: Final = Derivative(_reverse_after, _forward_after, _list_after)
