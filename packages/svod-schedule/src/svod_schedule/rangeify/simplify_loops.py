"""simplify-loops: leave of loops and choices what must be repeated and chosen.

before → after, for a loop that carries x and w, of which it changes x alone:

    LOOP(100, x, w), its body SINK(ADD(PARAM 0, EXP(PARAM 1)), PARAM 1)     LOOP(100, x, EXP(w)), its body SINK(ADD(PARAM 0, PARAM 1))

What no iteration changes is read and not carried, what nobody reads is not computed, expensive parts that are the same in
every iteration are computed once before the loop, and those that depend on slices alone for all slices at once. A short
loop is written out, so that its iterations are kernels like any others; a branch that is known to be taken stands for its choice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import prod
from typing import Final

from svod_ir import Op, SInt, UOp, make_alu, make_concat, make_empty, make_expand, make_iota, make_reshape
from svod_ir.args import SwitchArg
from svod_ir.loops import get_bodies, iter_nodes, list_free_variables, make_parameter, map_bodies
from svod_ir.ops import ELEMENTWISE, MOVEMENT, TABLE
from svod_ir.origins import make_images
from svod_ir.sizes import max_size, normalize_size
from svod_schedule.rangeify.batch_slices import make_batch
from svod_schedule.rangeify.loop_draft import (
    LoopDraft,
    bind_operands,
    can_bind,
    is_named,
    list_slots,
    list_written_slots,
    renumber,
    replace_parameter,
    slice_at,
)

__all__ = ["MAX_JOINED", "MAX_UNROLLED_NODES", "simplify_loops"]

MAX_UNROLLED_NODES: Final = 64
"""A loop is written out where all its iterations together compute no more nodes than this."""

MAX_JOINED: Final = 4
"""Of more iterations than this, what they stack is written by a loop: a join of many parts takes longer to compute."""

MAX_SELECTED: Final = 1 << 12
"""A choice between cheap values of at most so many elements computes all of them."""

MAX_SELECTED_NODES: Final = 8
"""So many nodes are computed for each branch, at most, where all of them are."""

EXPENSIVE: Final = 4
"""What costs so many additions is computed once where every iteration would compute the same."""

_ALWAYS_EXPENSIVE: Final = frozenset({Op.REDUCE_AXIS, Op.SCAN_AXIS, Op.RESULT, Op.COPY, Op.CONTIGUOUS, Op.ALLREDUCE})
_BATCHED: Final = frozenset({Op.REDUCE_AXIS, Op.SCAN_AXIS})
_CHANGING: Final = frozenset({Op.ASSIGN, Op.AFTER, Op.CUSTOM_FUNCTION})
"""What writes memory, or may do more than it gives."""
_FREE: Final = MOVEMENT | {
    Op.CONST,
    Op.PARAM,
    Op.DEFINE_VAR,
    Op.BIND,
    Op.SINK,
    Op.DETACH,
    Op.MSTACK,
    Op.MSELECT,
    Op.MULTI,
}
_NUMBERS: Final = MOVEMENT | {Op.CONST, Op.IOTA}


def simplify_loops(sink: UOp) -> UOp:
    """`sink` with simpler loops and choices, and fewer of them."""
    while True:
        simpler = _simplify(sink, frozenset())
        if simpler is sink:
            return sink
        sink = simpler


def _simplify(sink: UOp, scope: frozenset[str]) -> UOp:
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
            results[node] = _simplify_switch(new, sorted(read[node]), scope)
    return done[sink]


def _simplify_loop(draft: LoopDraft) -> Mapping[int, UOp]:
    """What stands for each result of a loop that is read."""
    if draft.size == 0:
        return {p: _get_initial(draft, p) for p in draft.read}
    draft.drop_unread()
    scope = draft.scope if draft.counter is None else draft.scope | {draft.counter}
    draft.set_body(_simplify(draft.body, scope))
    _take_out_empty(draft)
    _keep_unchanged(draft)
    draft.drop_unread()
    _batch(draft)
    _fold_operands(draft)
    _merge_operands(draft)
    _hoist(draft)
    draft.drop_operands()
    return _write_out(draft) if _is_short(draft) else draft.make_results()


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


def _keep_unchanged(draft: LoopDraft) -> None:
    """What is carried and never changes is read by every iteration; what is stacked and is always the same, repeated."""
    written = list_written_slots(draft.body)
    for slot in list(draft.carried):
        value = draft.values[slot]
        while value.op is Op.CONTIGUOUS or value.op is Op.DETACH:
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
        if _is_made_of_numbers(operand):
            draft.replace(slot, operand)
    for slot in list(draft.sliced):
        operand = draft.operands[slot]
        if _is_made_of_numbers(operand):
            draft.replace(slot, draft.take_slice(operand))


def _is_made_of_numbers(operand: UOp) -> bool:
    return all(n.op in _NUMBERS or (n.op in ELEMENTWISE and not _is_expensive(n)) for n in operand.toposort())


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
    for node in _list_highest(draft.body, lambda n: n not in changing and _is_expensive(n)):
        outside = _take_outside(draft, node) if _is_worth_keeping(node) else None
        if outside is not None:
            moved[node] = draft.add_operand(outside)
    if moved:
        draft.set_body(draft.body.substitute(moved))


def _batch(draft: LoopDraft) -> None:
    """Reductions of slices alone are computed for all slices at once, and so is what is stacked and reads nothing that is carried."""
    if draft.go_on is not None or draft.size is None or not draft.sliced:
        return
    size = draft.size
    params = {p.arg.slot: p for p in draft.body.iter_ops(Op.PARAM)}
    slices = {params[s]: draft.operands[s] for s in draft.sliced if s in params and _is_known(draft.parameter(s).shape)}
    changing, varying = _list_changing(draft, draft.carried), _list_changing(draft, [*draft.carried, *draft.sliced])

    def make(node: UOp) -> UOp | None:
        return make_batch(node, size, slices, lambda x: _take_outside(draft, x))

    for position in [p for p in draft.values if p not in draft.carried]:
        value = draft.values[position]
        made = make(value) if value in varying and value not in changing else None
        if made is not None:
            draft.settle(position, made)
    moved: dict[UOp, UOp] = {}
    for node in _list_highest(draft.body, lambda n: n.op in _BATCHED and n in varying and n not in changing):
        made = make(node)
        if made is not None:
            moved[node] = draft.add_operand(made, is_sliced=True)
    if moved:
        draft.set_body(draft.body.substitute(moved))


def _is_known(shape: tuple[SInt, ...]) -> bool:
    return all(isinstance(size, int) for size in shape)


def _list_changing(draft: LoopDraft, slots: Collection[int]) -> set[UOp]:
    """The nodes of the body that read one of these operands or the counter, or that do more than to give a value."""
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
    is_counter = any(n.arg.name == counter for n in (*list_free_variables(body), *body.iter_ops(Op.DEFINE_VAR)))
    return is_counter or any(n.op is Op.CUSTOM_FUNCTION for n in iter_nodes(body))


def _list_highest(body: UOp, holds: Callable[[UOp], bool]) -> list[UOp]:
    """The nodes for which `holds`, and above which, on some way from the root, it holds for none."""
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


def _is_expensive(node: UOp) -> bool:
    return node.op in _ALWAYS_EXPENSIVE or (node.op in ELEMENTWISE and TABLE[node.op].recompute_cost >= EXPENSIVE)


def _is_worth_keeping(node: UOp) -> bool:
    """Whether a value is one that memory can hold, and more than a number known when the kernel is compiled."""
    shape = node.find_shape()
    if shape is None or node.dtype.kind == "index" or 0 in shape:
        return False
    return bool(shape) or any(n.op is Op.PARAM or n.op is Op.RESULT for n in node.toposort())


def _take_outside(draft: LoopDraft, node: UOp) -> UOp | None:
    """What a part of the body that reads constant operands alone is outside of it; None where an operand cannot stand there."""
    part = UOp.sink(node)
    slots = list_slots(part)
    if not slots.issubset(draft.constants):
        return None
    made = bind_operands(part, {slot: draft.parameter(slot) for slot in slots}, draft.operands)
    return None if made is None else made.src[0]


# Short loops.


def _is_short(draft: LoopDraft) -> bool:
    """Whether the iterations are few and small enough to be written one after the other."""
    size = draft.size
    if not isinstance(size, int) or list_written_slots(draft.body) or (draft.go_on is not None and size > 1):
        return False
    if not can_bind(draft.body, {slot: draft.parameter(slot) for slot in draft.operands}):
        return False
    has_stacked = any(p not in draft.carried for p in draft.values)
    if has_stacked and size > MAX_JOINED:
        return False
    return size <= 1 or size * _count_nodes(draft.body) <= MAX_UNROLLED_NODES


def _count_nodes(body: UOp) -> int:
    return sum(node.op not in _FREE for node in iter_nodes(body))


def _write_out(draft: LoopDraft) -> Mapping[int, UOp]:
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
    return {**draft.results, **carried, **{p: make_concat(parts, 0) for p, parts in stacked.items()}}


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
        new = map_bodies(node, lambda b: _with_number(b, counter, number)) if get_bodies(node) else node
        done[node] = _with_known_sizes(new.with_src(tuple(done[s] for s in node.src)))
    return done[body]


def _with_known_sizes(node: UOp) -> UOp:
    """A movement with its sizes in normal form, which are known where they were not."""
    if node.op is Op.IOTA and node.src:
        return make_iota(normalize_size(node.src[0]), node.dtype)
    if node.op not in MOVEMENT or len(node.src) == 1:
        return node
    sizes: tuple[SInt, ...] = tuple(map(normalize_size, node.sizes))
    symbolic = tuple(s for s in sizes if isinstance(s, UOp))
    arg = tuple(None if isinstance(s, UOp) else s for s in sizes)
    return UOp(node.op, node.dtype, (node.source, *symbolic), arg)


# Choices.


def _simplify_switch(switch: UOp, read: list[int], scope: frozenset[str]) -> Mapping[int, UOp]:
    """What stands for each result of a choice that is read."""
    bodies = [_simplify(UOp.sink(*(body.src[p] for p in read)), scope) for body in get_bodies(switch)]
    operands = dict(enumerate(switch.src[1:]))
    parameters = {slot: make_parameter(operand, slot) for slot, operand in operands.items()}
    low, high = (min(max(int(bound), 0), len(bodies) - 1) for bound in switch.src[0].bounds)
    bodies = [bodies[low]] if low == high else bodies
    results: dict[int, UOp] = {}
    for k, position in enumerate(read):
        # What every branch gives is no choice.
        same = bodies[0].src[k]
        made = None
        if all(body.src[k] is same for body in bodies) and not list_written_slots(UOp.sink(same)):
            made = bind_operands(UOp.sink(same), parameters, operands)
        if made is not None:
            results[position] = made.src[0]
        elif 0 in same.shape:
            results[position] = make_empty(same.dtype, same.shape)
    left = {position: k for k, position in enumerate(read) if position not in results}
    bodies = [UOp.sink(*(body.src[k] for k in left.values())) for body in bodies]
    if left and all(map(_is_cheap, bodies)) and can_bind(UOp.sink(*bodies), parameters):
        return {**results, **dict(zip(left, _select(switch.src[0], bodies, parameters, operands), strict=True))}
    for slot, operand in operands.items():
        written = set[int]().union(*map(list_written_slots, bodies))
        if slot not in written and (_is_made_of_numbers(operand) or 0 in operand.shape):
            bodies = [replace_parameter(body, parameters[slot], slot, operand) for body in bodies]
    return {**results, **_make_switch(switch.src[0], bodies, operands, list(left))}


def _is_cheap(body: UOp) -> bool:
    """Whether computing a branch costs less than to decide by a branch of the program whether to."""
    is_plain = all(
        n.op in _FREE or (n.op in ELEMENTWISE and not _is_expensive(n)) or n.op is Op.IOTA for n in body.toposort()
    )
    return is_plain and _count_nodes(body) <= MAX_SELECTED_NODES and all(
        prod(map(max_size, source.shape)) <= MAX_SELECTED for source in body.src
    )  # fmt: skip


def _select(
    choice: UOp, bodies: list[UOp], parameters: Mapping[int, UOp], operands: Mapping[int, UOp]
) -> tuple[UOp, ...]:
    """Each value of the body that `choice` takes, of all of them."""
    made = [bind_operands(body, parameters, operands) for body in bodies]
    values = [body.src for body in made if body is not None]
    found = values[-1]
    for number, others in reversed(list(enumerate(values[:-1]))):
        is_taken = make_alu(Op.LT, choice, UOp.const(choice.dtype, number + 1))
        found = tuple(make_alu(Op.WHERE, is_taken, x, y) for x, y in zip(others, found, strict=True))
    return found


def _make_switch(choice: UOp, bodies: list[UOp], operands: Mapping[int, UOp], read: list[int]) -> dict[int, UOp]:
    slots = set[int]().union(*map(list_slots, bodies))
    names = {n.arg.name for body in bodies for n in iter_nodes(body) if n.op is Op.DEFINE_VAR}
    kept = [slot for slot, operand in operands.items() if slot in slots or is_named(operand, names)]
    bodies = [renumber(body, kept) for body in bodies]
    switch = UOp(Op.SWITCH, bodies[0].dtype, (choice, *(operands[s] for s in kept)), SwitchArg(tuple(bodies)))
    return {p: UOp(Op.RESULT, bodies[0].src[k].dtype, (switch,), k) for k, p in enumerate(read)}
