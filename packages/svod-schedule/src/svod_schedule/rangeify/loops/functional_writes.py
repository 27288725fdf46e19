"""Assignments in a body as values: where the memory of an operand must keep its content, or there
is no memory.

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
    """The slot of the PARAM whose state after an assignment `node` is all of, in order, or None."""
    while node.op is Op.RESHAPE or (node.op is Op.SHRINK and node.arg == (0, None)):
        node = node.source
    is_state = node.op is Op.AFTER and any(effect.op is Op.ASSIGN for effect in node.dependencies)
    memory = node.unordered
    return memory.arg.slot if is_state and memory.op is Op.PARAM else None


def write_as_values(body: UOp, slots: set[int]) -> UOp:
    """A body that assigns to none of the PARAMs in these slots."""
    done = make_images()
    for node in body.toposort():
        state = node.unordered if node.op is Op.AFTER else node
        if node.op is Op.AFTER and state.op is Op.PARAM and state.arg.slot in slots:
            done[node] = _apply(node, done)
        else:
            done[node] = node.with_images(done)
    return done[body]


def _apply(state: UOp, done: dict[UOp, UOp]) -> UOp:
    """The content of memory after the assignments that an AFTER waits for."""
    value = done[state.source]
    for effect in state.dependencies:
        views: list[UOp] = []
        base = effect.target
        while base.op in MOVEMENT:
            views.append(base)
            base = base.source
        given = done[effect.value]
        target = effect.target.shape
        if given.shape != target:
            given = make_expand(make_reshape(given, (1,) * len(target)), target)
        value = _put(done[base], views[::-1], given)
    return value


def _put(x: UOp, views: Sequence[UOp], value: UOp) -> UOp:
    """`x` with `value` at the elements that a chain of views shows."""
    if not views:
        return value
    view, *rest = views
    match view.op:
        case Op.RESHAPE:
            return make_reshape(_put(make_reshape(x, view.shape), rest, value), x.shape)
        case Op.PERMUTE:
            inverse = tuple(view.arg.index(a) for a in range(len(view.arg)))
            return make_permute(_put(make_permute(x, view.arg), rest, value), inverse)
        case Op.FLIP:
            return make_flip(_put(make_flip(x, view.arg), rest, value), view.arg)
        case _:
            bounds = list(zip(view.sizes[::2], view.sizes[1::2], strict=True))
            inside = _put(make_shrink(x, bounds), rest, value)
            margins: list[tuple[SInt, SInt]] = [
                (b, s - e) for (b, e), s in zip(bounds, x.shape, strict=True)
            ]
            is_inside = make_pad(_make_true(inside.shape), margins)
            return make_alu(Op.WHERE, is_inside, make_pad(inside, margins), x)


def _make_true(shape: Sequence[SInt]) -> UOp:
    return make_expand(make_reshape(UOp.const(bool_, True), (1,) * len(shape)), shape)
