"""Short loops as their iterations, one after the other: the kernels of each are then kernels like
any others.

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

__all__ = ["MAX_JOINED", "MAX_UNROLLED_NODES", "is_short", "write_out"]

MAX_UNROLLED_NODES: Final = 64
"""A loop is written out where all its iterations together compute no more nodes than this."""

MAX_JOINED: Final = 4
"""Of more iterations than this, what they stack is written by a loop: a join of many parts takes
longer to compute.
"""


def is_short(draft: LoopDraft) -> bool:
    """Whether the iterations are few and small enough to be written one after the other."""
    size = draft.size
    if (
        not isinstance(size, int)
        or list_written_slots(draft.body)
        or (draft.go_on is not None and size > 1)
    ):
        return False
    if not can_bind(draft.body, {slot: draft.parameter(slot) for slot in draft.operands}):
        return False
    has_stacked = any(p not in draft.carried for p in draft.values)
    if has_stacked and size > MAX_JOINED:
        return False
    return size <= 1 or size * count_nodes(draft.body) <= MAX_UNROLLED_NODES


def write_out(draft: LoopDraft) -> Mapping[int, UOp]:
    """The results of a loop whose iterations stand one after the other in the graph around it."""
    assert isinstance(draft.size, int)
    carried = {slot: draft.operands[slot] for slot in draft.carried}
    stacked: dict[int, list[UOp]] = {p: [] for p in draft.values if p not in carried}
    for number in range(draft.size):
        place = draft.size - 1 - number if draft.loop.arg.is_reversed else number
        values = dict(carried)
        values.update((slot, draft.operands[slot]) for slot in draft.constants)
        values.update((slot, slice_at(draft.operands[slot], place)) for slot in draft.sliced)
        made = dict(zip(draft.values, _instantiate(draft, values, number).src, strict=False))
        carried = {slot: made[slot] for slot in carried}
        for position, parts in stacked.items():
            parts.append(make_reshape(made[position], (1, *made[position].shape)))
    if draft.loop.arg.is_reversed:
        stacked = {position: parts[::-1] for position, parts in stacked.items()}
    return {
        **draft.results,
        **carried,
        **{p: make_concat(parts, 0) for p, parts in stacked.items()},
    }


def _instantiate(draft: LoopDraft, values: Mapping[int, UOp], number: int) -> UOp:
    """The body for the iteration with this number, of these operands."""
    body = draft.body if draft.counter is None else _with_number(draft.body, draft.counter, number)
    made = bind_operands(body, {slot: draft.parameter(slot) for slot in values}, values)
    assert made is not None
    return made


def _with_number(body: UOp, counter: str, number: int) -> UOp:
    """A body in which the counter is a number, in sizes and in nested bodies too."""
    done = make_images()
    for node in body.toposort():
        if node.op is Op.DEFINE_VAR and node.arg.name == counter:
            done[node] = UOp.const(node.dtype, number)
            continue
        new = (
            map_bodies(node, lambda b: _with_number(b, counter, number))
            if get_bodies(node)
            else node
        )
        done[node] = _with_known_sizes(new.with_images(done))
    return done[body]


def _with_known_sizes(node: UOp) -> UOp:
    """A movement with its sizes in normal form, which are known where they were not."""
    if node.op is Op.IOTA and node.src:
        (size,) = node.src
        return make_iota(normalize_size(size), node.dtype)
    if node.op not in MOVEMENT or len(node.src) == 1:
        return node
    sizes: tuple[SInt, ...] = tuple(map(normalize_size, node.sizes))
    symbolic = tuple(s for s in sizes if isinstance(s, UOp))
    arg = tuple(None if isinstance(s, UOp) else s for s in sizes)
    return UOp(node.op, node.dtype, (node.source, *symbolic), arg)
