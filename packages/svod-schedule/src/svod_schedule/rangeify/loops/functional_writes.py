"""Assignments in a body as functional updates, for operands whose memory must not be overwritten.

AFTER(PARAM 0, ASSIGN(SHRINK(PARAM 0, [1, 2]), v))     WHERE(PAD(true, [1, 2]), PAD(v, [1, 2]), PARAM 0)
"""

from __future__ import annotations

from collections.abc import Sequence

from svod_dtype import bool_
from svod_ir import (
    Op,
    SInt,
    UOp,
    make_alu,
    make_expand,
    make_flip,
    make_pad,
    make_permute,
    make_reshape,
    make_shrink,
)
from svod_ir.ops import MOVEMENT
from svod_ir.origins import make_images

__all__ = ["find_written_slot", "write_as_values"]


def find_written_slot(node: UOp) -> int | None:
    """Return the slot of the PARAM that `node` is the whole updated memory of, in order; None for
    other nodes.
    """
    # Other movement ops change the order of elements: that memory cannot be the next value as it
    # is.
    while node.op is Op.RESHAPE or (node.op is Op.SHRINK and node.arg == (0, None)):
        node = node.source
    is_update = node.op is Op.AFTER and any(effect.op is Op.ASSIGN for effect in node.dependencies)
    memory = node.unordered
    return memory.arg.slot if is_update and memory.op is Op.PARAM else None


def write_as_values(body: UOp, slots: set[int]) -> UOp:
    """Replace the assignments of a body to the PARAMs in these slots by functional updates."""
    done = make_images()
    for node in body.toposort():
        memory = node.unordered if node.op is Op.AFTER else node
        if node.op is Op.AFTER and memory.op is Op.PARAM and memory.arg.slot in slots:
            done[node] = _apply(node, done)
        else:
            done[node] = node.with_images(done)
    return done[body]


def _apply(after: UOp, done: dict[UOp, UOp]) -> UOp:
    """Return the value of memory after the assignments that an AFTER depends on."""
    value = done[after.source]
    # In order, since a later write may overlap an earlier one.
    for effect in after.dependencies:
        views: list[UOp] = []
        base = effect.target
        while base.op in MOVEMENT:
            views.append(base)
            base = base.source
        assigned = done[effect.value]
        target = effect.target.shape
        if assigned.shape != target:
            assigned = make_expand(make_reshape(assigned, (1,) * len(target)), target)
        value = _update(done[base], views[::-1], assigned)
    return value


def _update(x: UOp, views: Sequence[UOp], value: UOp) -> UOp:
    """Return `x` with the elements under a chain of views replaced by `value`."""
    if not views:
        return value
    view, *inner_views = views
    match view.op:
        case Op.RESHAPE:
            return make_reshape(_update(make_reshape(x, view.shape), inner_views, value), x.shape)
        case Op.PERMUTE:
            inverse = tuple(view.arg.index(a) for a in range(len(view.arg)))
            return make_permute(_update(make_permute(x, view.arg), inner_views, value), inverse)
        case Op.FLIP:
            return make_flip(_update(make_flip(x, view.arg), inner_views, value), view.arg)
        case _:
            bounds = list(zip(view.sizes[::2], view.sizes[1::2], strict=True))
            inside = _update(make_shrink(x, bounds), inner_views, value)
            # A select, not an addition of padded parts: adding 0 would change -0.0, and NaN would
            # spread.
            margins: list[tuple[SInt, SInt]] = [
                (b, s - e) for (b, e), s in zip(bounds, x.shape, strict=True)
            ]
            is_inside = make_pad(_make_true(inside.shape), margins)
            return make_alu(Op.WHERE, is_inside, make_pad(inside, margins), x)


def _make_true(shape: Sequence[SInt]) -> UOp:
    return make_expand(make_reshape(UOp.const(bool_, True), (1,) * len(shape)), shape)
