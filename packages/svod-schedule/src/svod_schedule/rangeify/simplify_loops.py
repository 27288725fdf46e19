"""simplify-loops: leave of loops and choices what must be repeated and chosen.

before → after, for a loop that carries x and w, of which it changes x alone:

    LOOP(100, x, w), its body SINK(ADD(PARAM 0, EXP(PARAM 1)), PARAM 1)     LOOP(100, x, EXP(w)), its body SINK(ADD(PARAM 0, PARAM 1))

Loops over the same values are one. What no iteration changes is read and not carried, what nobody
reads is not computed, expensive parts that are the same in every iteration are computed once before
the loop, and those that depend on slices alone for all slices at once. The same elements in several
orders are stacked once. A short loop is written out, so that its iterations are kernels like any
others; a branch that is known to be taken stands for its choice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from svod_ir import Op, SInt, UOp, make_empty, make_expand, make_reshape
from svod_ir.loops import get_bodies, iter_nodes, list_free_variables
from svod_ir.ops import MARKS
from svod_ir.origins import make_images
from svod_schedule.rangeify.loops.batch_slices import make_batch
from svod_schedule.rangeify.loops.body_costs import is_expensive, is_made_of_numbers
from svod_schedule.rangeify.loops.functional_writes import find_written_slot, write_as_values
from svod_schedule.rangeify.loops.join_loops import join_loops
from svod_schedule.rangeify.loops.loop_draft import (
    LoopDraft,
    bind_operands,
    list_slots,
    list_written_slots,
)
from svod_schedule.rangeify.loops.share_stacks import add_shared, share_stacks
from svod_schedule.rangeify.loops.simplify_choice import simplify_choice
from svod_schedule.rangeify.loops.widen_slices import cut_results, widen_slices
from svod_schedule.rangeify.loops.write_out_loops import is_short, write_out

__all__ = ["simplify_loops"]

_BATCHED: Final = frozenset({Op.REDUCE_AXIS, Op.SCAN_AXIS})
_CHANGING: Final = frozenset({Op.ASSIGN, Op.AFTER, Op.CUSTOM_FUNCTION})
"""What writes memory, or may do more than it gives."""


def simplify_loops(sink: UOp) -> UOp:
    """`sink` with simpler loops and choices, and fewer of them."""
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
    """What stands for each result of a loop that is read."""
    if draft.size == 0:
        return {p: _get_initial(draft, p) for p in draft.read}
    draft.drop_unread()
    scope = draft.scope if draft.counter is None else draft.scope | {draft.counter}
    draft.set_body(_simplify(draft.body, scope))
    _take_out_empty(draft)
    _write_as_values(draft)
    _keep_unchanged(draft)
    draft.drop_unread()
    _batch(draft)
    _fold_operands(draft)
    _merge_operands(draft)
    _hoist(draft)
    draft.drop_operands()
    if is_short(draft):
        return write_out(draft)
    shared = share_stacks(draft)
    shapes = widen_slices(draft)
    return add_shared(cut_results(draft.make_results(), shapes), shared)


def _get_initial(draft: LoopDraft, position: int) -> UOp:
    if position in draft.carried:
        return draft.operands[position]
    source = draft.values[position]
    return make_empty(source.dtype, (0, *source.shape))


def _take_out_empty(draft: LoopDraft) -> None:
    """Values without elements are in no memory."""
    for position, value in list(draft.values.items()):
        if 0 in value.shape:
            is_stacked = position not in draft.carried
            assert draft.size is not None or not is_stacked
            shape = (draft.size or 0, *value.shape) if is_stacked else value.shape
            draft.settle(position, make_empty(value.dtype, shape))
    for slot in [*draft.sliced, *draft.constants]:
        parameter = draft.parameter(slot)
        if 0 in parameter.shape:
            draft.replace(slot, make_empty(parameter.dtype, parameter.shape))


def _write_as_values(draft: LoopDraft) -> None:
    """Only a carried value that becomes the memory that is written is updated in place, and only
    where there is a next iteration.
    """
    written = list_written_slots(draft.body)
    in_place = {slot for slot in draft.carried if find_written_slot(draft.values[slot]) == slot}
    lost = written if draft.size == 1 else written - in_place
    if lost:
        draft.set_body(write_as_values(draft.body, lost))


def _keep_unchanged(draft: LoopDraft) -> None:
    """What is carried and never changes is read by every iteration; what is stacked and is always
    the same, repeated.
    """
    written = list_written_slots(draft.body)
    for slot in list(draft.carried):
        value = draft.values[slot]
        while value.op is Op.CONTIGUOUS or value.op in MARKS:
            value = value.source
        if value is draft.parameter(slot) and slot not in written:
            draft.settle(slot, draft.operands[slot])
    changing = _list_changing(draft, [*draft.carried, *draft.sliced])
    for position in [p for p in draft.values if p not in draft.carried]:
        value = draft.values[position]
        outside = None if value in changing else _take_outside(draft, value)
        if outside is not None:
            assert draft.size is not None
            row = make_reshape(outside, (1, *outside.shape))
            draft.settle(position, make_expand(row, (draft.size, *outside.shape)))


def _fold_operands(draft: LoopDraft) -> None:
    """What comes from no memory, and is cheap, is computed where it is read."""
    for slot in list(draft.constants):
        operand = draft.operands[slot]
        if is_made_of_numbers(operand):
            draft.replace(slot, operand)
    for slot in list(draft.sliced):
        operand = draft.operands[slot]
        if is_made_of_numbers(operand):
            draft.replace(slot, draft.take_slice(operand))


def _merge_operands(draft: LoopDraft) -> None:
    """An operand that is given twice is one."""
    for group in (draft.sliced, draft.constants):
        first: dict[UOp, int] = {}
        for slot in list(group):
            same = first.setdefault(draft.operands[slot], slot)
            if same != slot:
                draft.replace(slot, draft.parameter(same))


# What every iteration computes alike.


def _hoist(draft: LoopDraft) -> None:
    """Expensive parts of the body that are the same in every iteration are computed once."""
    changing = _list_changing(draft, [*draft.carried, *draft.sliced])
    moved: dict[UOp, UOp] = {}
    for node in _list_highest(draft.body, lambda n: n not in changing and is_expensive(n)):
        outside = _take_outside(draft, node) if _is_worth_keeping(node) else None
        if outside is not None:
            moved[node] = draft.add_operand(outside)
    if moved:
        draft.set_body(draft.body.substitute(moved))


def _batch(draft: LoopDraft) -> None:
    """Reductions of slices alone are computed for all slices at once, and so is what is stacked and
    reads nothing that is carried.
    """
    if draft.go_on is not None or draft.size is None or not draft.sliced:
        return
    size = draft.size
    params = {p.arg.slot: p for p in draft.body.iter_ops(Op.PARAM)}
    slices = {
        params[s]: draft.operands[s]
        for s in draft.sliced
        if s in params and _is_known(draft.parameter(s).shape)
    }
    changing, varying = (
        _list_changing(draft, draft.carried),
        _list_changing(draft, [*draft.carried, *draft.sliced]),
    )

    def make(node: UOp) -> UOp | None:
        return make_batch(node, size, slices, lambda x: _take_outside(draft, x))

    for position in [p for p in draft.values if p not in draft.carried]:
        value = draft.values[position]
        made = make(value) if value in varying and value not in changing else None
        if made is not None:
            draft.settle(position, made)
    moved: dict[UOp, UOp] = {}
    for node in _list_highest(
        draft.body, lambda n: n.op in _BATCHED and n in varying and n not in changing
    ):
        made = make(node)
        if made is not None:
            moved[node] = draft.add_operand(made, is_sliced=True)
    if moved:
        draft.set_body(draft.body.substitute(moved))


def _is_known(shape: tuple[SInt, ...]) -> bool:
    return all(isinstance(size, int) for size in shape)


def _list_changing(draft: LoopDraft, slots: Collection[int]) -> set[UOp]:
    """The nodes of the body that read one of these operands or the counter, or that do more than to
    give a value.
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
    """The nodes for which `holds`, and above which, on some way from the root, it holds for
    none.
    """
    found: dict[UOp, None] = {}
    seen: set[UOp] = set()
    stack = [body]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if holds(node):
            found[node] = None
        else:
            stack.extend(reversed(node.src))
    return list(found)


def _is_worth_keeping(node: UOp) -> bool:
    """Whether a value is one that memory can hold, and more than a number known when the kernel is
    compiled.
    """
    shape = node.find_shape()
    if shape is None or node.dtype.kind == "index" or 0 in shape:
        return False
    return bool(shape) or any(n.op is Op.PARAM or n.op is Op.RESULT for n in node.toposort())


def _take_outside(draft: LoopDraft, node: UOp) -> UOp | None:
    """What a part of the body that reads constant operands alone is outside of it; None where an
    operand cannot stand there.
    """
    part = UOp.sink(node)
    slots = list_slots(part)
    if not slots.issubset(draft.constants):
        return None
    made = bind_operands(part, {slot: draft.parameter(slot) for slot in slots}, draft.operands)
    if made is None:
        return None
    (value,) = made.src
    return value
