"""simplify-loops: simplify LOOPs and SWITCHes: loop-invariant code motion, dead values, unrolling.

before → after, for a loop with the carry (x, w) that changes only x:

    LOOP(100, x, w), its body SINK(ADD(PARAM 0, EXP(PARAM 1)), PARAM 1)     LOOP(100, x, EXP(w)), its body SINK(ADD(PARAM 0, PARAM 1))

Loops over the same operands are merged. A carry that no iteration changes becomes a constant
operand, values without readers are removed, expensive loop-invariant values are hoisted out of the
loop, and values that depend only on slices are computed for all slices at once. Integers that are
widened before the loop are widened in its body instead. Stacked values that
differ only in shape or axis order are stacked once. A short loop is unrolled, so that its
iterations fuse with the graph around it; a SWITCH with a known choice is replaced by its branch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from svod_ir import Op, UOp, make_cast, make_empty, make_expand, make_reshape
from svod_ir.loops import get_bodies, iter_nodes, list_free_variables
from svod_ir.ops import MARKS
from svod_ir.origins import make_images
from svod_schedule.rangeify.loops.batch_slices import make_batch
from svod_schedule.rangeify.loops.body_costs import is_cheap_constant, is_expensive
from svod_schedule.rangeify.loops.functional_writes import find_written_slot, write_as_values
from svod_schedule.rangeify.loops.join_loops import join_loops
from svod_schedule.rangeify.loops.loop_draft import (
    LoopDraft,
    bind_operands,
    has_known_sizes,
    list_slots,
    list_written_slots,
)
from svod_schedule.rangeify.loops.share_stacks import add_shared, share_stacks
from svod_schedule.rangeify.loops.simplify_choice import simplify_choice
from svod_schedule.rangeify.loops.unroll_loops import should_unroll, unroll
from svod_schedule.rangeify.loops.widen_slices import crop_results, widen_slices

__all__ = ["simplify_loops"]

_BATCHED: Final = frozenset({Op.REDUCE_AXIS, Op.SCAN_AXIS})
_CHANGING: Final = frozenset({Op.ASSIGN, Op.AFTER, Op.CUSTOM_FUNCTION})
"""Ops that write memory or may have other side effects: never loop-invariant."""


def simplify_loops(sink: UOp) -> UOp:
    """Simplify the loops and switches of `sink` until nothing changes."""
    while True:
        simpler = _simplify(sink, frozenset())
        if simpler is sink:
            return sink
        sink = simpler


def _simplify(sink: UOp, scope: frozenset[str]) -> UOp:
    sink = join_loops(sink)
    order = sink.toposort()
    read: dict[UOp, set[int]] = {}
    for node in order:
        if node.op is Op.RESULT:
            read.setdefault(node.source, set()).add(node.arg)
    if not read:
        return sink
    done = make_images()
    results: dict[UOp, Mapping[int, UOp]] = {}
    for node in order:
        if node.op is Op.RESULT:
            done[node] = results[node.source][node.arg]
            continue
        done[node] = new = node.with_images(done)
        if node.op is Op.LOOP:
            results[node] = _simplify_loop(LoopDraft(new, read[node], scope))
        elif node.op is Op.SWITCH:
            positions = sorted(read[node])
            bodies = [
                _simplify(UOp.sink(*(body.src[p] for p in positions)), scope)
                for body in get_bodies(new)
            ]
            results[node] = simplify_choice(new, positions, bodies)
    return done[sink]


def _simplify_loop(draft: LoopDraft) -> Mapping[int, UOp]:
    """Simplify a loop. Returns the replacement of each result that has a reader, by position."""
    if draft.size == 0:
        return {p: _get_initial(draft, p) for p in draft.read}
    # Dead values first, so that no later step works on them; the second call removes the carries
    # that only invariant values read.
    draft.drop_unread()
    scope = draft.scope if draft.counter is None else draft.scope | {draft.counter}
    draft.set_body(_simplify(draft.body, scope))
    _remove_empty(draft)
    # Writes become values before the dependences are examined: an ASSIGN is never loop-invariant.
    _write_as_values(draft)
    _keep_unchanged(draft)
    draft.drop_unread()
    # Before operands are folded: an expression of the counter that replaces a slice cannot be
    # batched.
    _batch(draft)
    _fold_operands(draft)
    _narrow_operands(draft)
    _merge_operands(draft)
    _hoist(draft)
    draft.drop_operands()
    # Last, when hoisting and batching have left as few nodes in the body as possible.
    if should_unroll(draft):
        return unroll(draft)
    # Only for what stays a loop: unrolled values are no stacks, and have no stride.
    shared = share_stacks(draft)
    shapes = widen_slices(draft)
    return add_shared(crop_results(draft.make_results(), shapes), shared)


def _get_initial(draft: LoopDraft, position: int) -> UOp:
    if position in draft.carried:
        return draft.operands[position]
    source = draft.values[position]
    return make_empty(source.dtype, (0, *source.shape))


def _remove_empty(draft: LoopDraft) -> None:
    """Replace carried and stacked values, and operands, without elements: memory cannot hold them."""
    for position, value in list(draft.values.items()):
        if 0 in value.shape:
            is_stacked = position not in draft.carried
            assert draft.size is not None or not is_stacked
            shape = (draft.size or 0, *value.shape) if is_stacked else value.shape
            draft.set_result(position, make_empty(value.dtype, shape))
    for slot in [*draft.sliced, *draft.constants]:
        parameter = draft.parameter(slot)
        if 0 in parameter.shape:
            draft.replace(slot, make_empty(parameter.dtype, parameter.shape))


def _write_as_values(draft: LoopDraft) -> None:
    """Replace assignments in the body by values, except in-place updates of a carry.

    An update in place needs a carried value whose next value is the written memory itself, and a
    next iteration.
    """
    written = list_written_slots(draft.body)
    in_place = {slot for slot in draft.carried if find_written_slot(draft.values[slot]) == slot}
    functional = written if draft.size == 1 else written - in_place
    if functional:
        draft.set_body(write_as_values(draft.body, functional))


def _keep_unchanged(draft: LoopDraft) -> None:
    """Turn invariant carries into constant operands, and invariant stacked values into broadcasts."""
    written = list_written_slots(draft.body)
    for slot in list(draft.carried):
        value = draft.values[slot]
        while value.op is Op.CONTIGUOUS or value.op in MARKS:
            value = value.source
        if value is draft.parameter(slot) and slot not in written:
            draft.set_result(slot, draft.operands[slot])
    changing = _list_changing(draft, [*draft.carried, *draft.sliced])
    for position in [p for p in draft.values if p not in draft.carried]:
        value = draft.values[position]
        outside = None if value in changing else _hoist_value(draft, value)
        if outside is not None:
            assert draft.size is not None
            row = make_reshape(outside, (1, *outside.shape))
            draft.set_result(position, make_expand(row, (draft.size, *outside.shape)))


def _fold_operands(draft: LoopDraft) -> None:
    """Recompute cheap constant operands inside the body, instead of reading them from memory."""
    for slot in list(draft.constants):
        operand = draft.operands[slot]
        if is_cheap_constant(operand):
            draft.replace(slot, operand)
    for slot in list(draft.sliced):
        operand = draft.operands[slot]
        if is_cheap_constant(operand):
            draft.replace(slot, draft.take_slice(operand))


def _narrow_operands(draft: LoopDraft) -> None:
    """Widen integer operands inside the body.

    Each iteration then reads fewer bytes, and an integer product sees the dtypes that the
    processor's dot-product instructions need. Floats are not narrowed: some targets widen them in
    many instructions.
    """
    for slots, is_sliced in ((draft.constants, False), (draft.sliced, True)):
        for slot in list(slots):
            operand = draft.operands[slot]
            if operand.op is Op.CAST and _is_widened_integer(operand):
                narrow = draft.add_operand(operand.source, is_sliced=is_sliced)
                draft.replace(slot, make_cast(narrow, operand.dtype))


def _is_widened_integer(cast: UOp) -> bool:
    before, after = cast.source.dtype, cast.dtype
    return before.is_int and after.is_int and before.itemsize < after.itemsize


def _merge_operands(draft: LoopDraft) -> None:
    """Merge operands that are passed twice."""
    for group in (draft.sliced, draft.constants):
        first: dict[UOp, int] = {}
        for slot in list(group):
            same = first.setdefault(draft.operands[slot], slot)
            if same != slot:
                draft.replace(slot, draft.parameter(same))


def _hoist(draft: LoopDraft) -> None:
    """Hoist expensive loop-invariant values out of the loop."""
    # A hoisted value becomes memory that each iteration loads, so only values that cost more than a
    # load are worth it.
    changing = _list_changing(draft, [*draft.carried, *draft.sliced])
    moved: dict[UOp, UOp] = {}
    for node in _list_highest(draft.body, lambda n: n not in changing and is_expensive(n)):
        outside = _hoist_value(draft, node) if _can_be_operand(node) else None
        if outside is not None:
            moved[node] = draft.add_operand(outside)
    if moved:
        draft.set_body(draft.body.substitute(moved))


def _batch(draft: LoopDraft) -> None:
    """Compute reductions that depend only on slices, and stacked values that depend on no carry,
    for all slices at once.
    """
    if draft.condition is not None or draft.size is None or not draft.sliced:
        return
    size = draft.size
    params = {p.arg.slot: p for p in draft.body.iter_ops(Op.PARAM)}
    slices = {
        params[s]: draft.operands[s]
        for s in draft.sliced
        if s in params and has_known_sizes(draft.parameter(s).shape)
    }
    changing, varying = (
        _list_changing(draft, draft.carried),
        _list_changing(draft, [*draft.carried, *draft.sliced]),
    )

    def make(node: UOp) -> UOp | None:
        return make_batch(node, size, slices, lambda x: _hoist_value(draft, x))

    for position in [p for p in draft.values if p not in draft.carried]:
        value = draft.values[position]
        batched = make(value) if value in varying and value not in changing else None
        if batched is not None:
            draft.set_result(position, batched)
    moved: dict[UOp, UOp] = {}
    for node in _list_highest(
        draft.body, lambda n: n.op in _BATCHED and n in varying and n not in changing
    ):
        batched = make(node)
        if batched is not None:
            moved[node] = draft.add_operand(batched, is_sliced=True)
    if moved:
        draft.set_body(draft.body.substitute(moved))


def _list_changing(draft: LoopDraft, slots: Collection[int]) -> set[UOp]:
    """Return the nodes of the body that depend on one of these operands or on the counter, or have
    side effects.
    """
    changing: set[UOp] = set()
    for node in draft.body.toposort():
        if (
            (node.op is Op.PARAM and node.arg.slot in slots)
            or (node.op is Op.DEFINE_VAR and node.arg.name == draft.counter)
            or node.op in _CHANGING
            or any(s in changing for s in node.src)
            or any(_may_change(body, draft.counter) for body in get_bodies(node))
        ):
            changing.add(node)
    return changing


def _may_change(body: UOp, counter: str | None) -> bool:
    is_counter = any(
        n.arg.name == counter for n in (*list_free_variables(body), *body.iter_ops(Op.DEFINE_VAR))
    )
    return is_counter or any(n.op is Op.CUSTOM_FUNCTION for n in iter_nodes(body))


def _list_highest(body: UOp, holds: Callable[[UOp], bool]) -> list[UOp]:
    """Return the nodes for which `holds` that are reachable from the root only through nodes for
    which it does not.
    """
    highest: dict[UOp, None] = {}
    seen: set[UOp] = set()
    stack = [body]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        # The highest nodes only: hoisting one takes everything below it along.
        seen.add(node)
        if holds(node):
            highest[node] = None
        else:
            stack.extend(reversed(node.src))
    return list(highest)


def _can_be_operand(node: UOp) -> bool:
    """Whether memory can hold a value, and the value is more than a compile-time scalar."""
    shape = node.find_shape()
    if shape is None or node.dtype.kind == "index" or 0 in shape:
        return False
    return bool(shape) or any(n.op is Op.PARAM or n.op is Op.RESULT for n in node.toposort())


def _hoist_value(draft: LoopDraft, node: UOp) -> UOp | None:
    """Move a value of the body to the graph around the loop; None if it depends on more than
    constant operands, or reads an operand in another way than as its parameter.
    """
    body = UOp.sink(node)
    slots = list_slots(body)
    if not slots.issubset(draft.constants):
        return None
    bound = bind_operands(body, {slot: draft.parameter(slot) for slot in slots}, draft.operands)
    if bound is None:
        return None
    (value,) = bound.src
    return value
