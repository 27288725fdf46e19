"""Unrolling of short loops, so that the iterations fuse with the graph around the loop.

LOOP(2, x, xs), its body MUL(PARAM 0, PARAM 1)     MUL(MUL(x, xs[0]), xs[1])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from svod_ir import Op, SInt, UOp, make_concat, make_iota, make_reshape
from svod_ir.loops import get_bodies, map_bodies
from svod_ir.ops import MOVEMENT
from svod_ir.origins import make_images
from svod_ir.sizes import normalize_size
from svod_schedule.rangeify.loops.body_costs import count_nodes
from svod_schedule.rangeify.loops.loop_draft import (
    LoopDraft,
    bind_operands,
    can_bind,
    list_written_slots,
    slice_at,
)

__all__ = ["MAX_JOINED", "MAX_UNROLLED_NODES", "should_unroll", "unroll"]

MAX_UNROLLED_NODES: Final = 64
"""Maximum number of computed nodes of all iterations of an unrolled loop."""

MAX_JOINED: Final = 4
"""Maximum trip count of an unrolled loop that stacks values: a concatenation of more of them takes
longer than the loop.
"""


def should_unroll(draft: LoopDraft) -> bool:
    """Whether a loop has few, small iterations and can be unrolled."""
    size = draft.size
    if (
        not isinstance(size, int)
        or list_written_slots(draft.body)
        or (draft.condition is not None and size > 1)
    ):
        return False
    if not can_bind(draft.body, {slot: draft.parameter(slot) for slot in draft.operands}):
        return False
    has_stacked = any(p not in draft.carried for p in draft.values)
    if has_stacked and size > MAX_JOINED:
        return False
    return size <= 1 or size * count_nodes(draft.body) <= MAX_UNROLLED_NODES


def unroll(draft: LoopDraft) -> Mapping[int, UOp]:
    """Unroll a loop. Returns the replacement of each result by position."""
    assert isinstance(draft.size, int)
    carried = {slot: draft.operands[slot] for slot in draft.carried}
    stacked: dict[int, list[UOp]] = {p: [] for p in draft.values if p not in carried}
    for i in range(draft.size):
        slice_index = draft.size - 1 - i if draft.loop.arg.is_reversed else i
        values = dict(carried)
        values.update((slot, draft.operands[slot]) for slot in draft.constants)
        values.update((slot, slice_at(draft.operands[slot], slice_index)) for slot in draft.sliced)
        next_values = dict(zip(draft.values, _instantiate(draft, values, i).src, strict=False))
        carried = {slot: next_values[slot] for slot in carried}
        for position, rows in stacked.items():
            rows.append(make_reshape(next_values[position], (1, *next_values[position].shape)))
    if draft.loop.arg.is_reversed:
        stacked = {position: rows[::-1] for position, rows in stacked.items()}
    return {
        **draft.results,
        **carried,
        **{p: make_concat(rows, 0) for p, rows in stacked.items()},
    }


def _instantiate(draft: LoopDraft, values: Mapping[int, UOp], i: int) -> UOp:
    """Return the body of iteration `i` with these values for its parameters."""
    body = draft.body if draft.counter is None else _bind_counter(draft.body, draft.counter, i)
    bound = bind_operands(body, {slot: draft.parameter(slot) for slot in values}, values)
    assert bound is not None
    return bound


def _bind_counter(body: UOp, counter: str, i: int) -> UOp:
    """Replace the counter of a loop by a constant, also in sizes and in nested bodies."""
    done = make_images()
    for node in body.toposort():
        if node.op is Op.DEFINE_VAR and node.arg.name == counter:
            done[node] = UOp.const(node.dtype, i)
            continue
        new = map_bodies(node, lambda b: _bind_counter(b, counter, i)) if get_bodies(node) else node
        done[node] = _fold_sizes(new.with_images(done))
    return done[body]


def _fold_sizes(node: UOp) -> UOp:
    """Fold the sizes of a movement op or IOTA, which may have depended on the counter."""
    if node.op is Op.IOTA and node.src:
        (size,) = node.src
        return make_iota(normalize_size(size), node.dtype)
    if node.op not in MOVEMENT or len(node.src) == 1:
        return node
    sizes: tuple[SInt, ...] = tuple(map(normalize_size, node.sizes))
    symbolic = tuple(s for s in sizes if isinstance(s, UOp))
    arg = tuple(None if isinstance(s, UOp) else s for s in sizes)
    return UOp(node.op, node.dtype, (node.source, *symbolic), arg)
