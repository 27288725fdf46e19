"""accumulate: reductions and scans become registers that a loop updates.

before → after:

    REDUCE(x, r; ADD)   reg = DEFINE_REG; init = STORE(reg, 0)
                        END(STORE(reg, ADD(LOAD(reg), x)), r); LOAD(AFTER(reg, END))
    SCAN(x, r; ADD)     the same inside the loop r that the reader stands in, reading after each STORE

Reductions over the same loops share them: one END closes the loop for all.
"""

from __future__ import annotations

from svod_dtype import index, void
from svod_ir import FreshIds, Op, UOp
from svod_schedule._loops import identity_of
from svod_schedule.lower.tiles import add_to

__all__ = ["accumulate"]

_ZERO = UOp.const(index, 0)
_LOOPED = frozenset({Op.REDUCE, Op.SCAN})
_REDUCE = Op.REDUCE


def accumulate(sink: UOp) -> UOp:
    """`sink` without REDUCE over ranges and without SCAN."""
    groups = _group_by_loops(sink)
    if not groups and not any(True for _ in sink.iter_ops(Op.SCAN)):
        return sink
    done: dict[UOp, UOp] = {}
    around = _get_loops_around(sink)
    fresh = FreshIds(sink)
    for node in _toposort_groups(sink, groups):
        if node.op not in _LOOPED or len(node.src) < 2:
            done[node] = node.with_images(done)
        elif node.op is Op.REDUCE:
            if node not in done:
                done.update(_reduce_together(groups[node.loops], done, fresh))
        else:
            done[node] = _scan(node, done, around[node.src[1]], fresh)
    return done[sink]


def _group_by_loops(sink: UOp) -> dict[tuple[UOp, ...], list[UOp]]:
    groups: dict[tuple[UOp, ...], list[UOp]] = {}
    for node in sink.iter_ops(Op.REDUCE):
        if len(node.src) > 1:
            groups.setdefault(node.loops, []).append(node)
    return groups


def _toposort_groups(sink: UOp, groups: dict[tuple[UOp, ...], list[UOp]]) -> list[UOp]:
    """Operands first, where a reduction has the operands of all reductions that share its loops."""
    order: list[UOp] = []
    seen: set[UOp] = set()
    stack: list[tuple[UOp, bool]] = [(sink, False)]
    while stack:
        node, is_entered = stack.pop()
        if is_entered:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node.op is _REDUCE and len(node.src) > 1:
                members = groups[node.loops]
                stack.extend([(s, False) for m in members for s in reversed(m.src) if s not in seen])
            else:
                stack.extend([(s, False) for s in reversed(node.src) if s not in seen])
    return order


def _reduce_together(members: list[UOp], done: dict[UOp, UOp], fresh: FreshIds) -> dict[UOp, UOp]:
    loops = tuple(done[r] for r in members[0].loops)
    registers: list[UOp] = []
    updates: list[UOp] = []
    for node in members:
        register = fresh.make_register(node.dtype)
        value = done[node.source]
        start = _initialize(register, node, value, loops)
        inside = register.after(start, *loops).index(_ZERO)
        updates.append(inside.store(_take_in(node.arg, inside.load(), value)))
        registers.append(register)
    effect = updates[0] if len(updates) == 1 else UOp(Op.GROUP, void, tuple(updates))
    end = effect.end(*loops)
    return {node: register.after(end).index(_ZERO).load() for node, register in zip(members, registers, strict=True)}


def _get_loops_around(sink: UOp) -> dict[UOp, frozenset[UOp]]:
    """For each loop of an END, the loops that it stands in."""
    found: dict[UOp, frozenset[UOp]] = {}
    for end in sink.iter_ops(Op.END):
        for position, loop in enumerate(end.loops):
            found[loop] = end.ranges | frozenset(end.src[1 : 1 + position])
    return found


def _initialize(register: UOp, node: UOp, value: UOp, loops: tuple[UOp, ...]) -> UOp:
    outer = sorted(value.ranges - set(loops), key=lambda r: r.arg.id)
    return register.after(*outer).index(_ZERO).store(identity_of(node.arg, node.dtype))


def _take_in(op: Op, total: UOp, value: UOp) -> UOp:
    """`total` joined with a chain of values from the left, one after the other: each step can be one fma."""
    if value.op is Op.WMMA:
        return add_to(total, value)
    chain: list[UOp] = []
    while value.op is op and op is Op.ADD and value.left.op is op:
        chain.append(value.right)
        value = value.left
    if chain:
        chain.extend(reversed(value.src))
    else:
        chain.append(value)
    for term in reversed(chain):
        total = add_to(total, term) if term.op is Op.WMMA else UOp(op, total.dtype, (total, term))
    return total


def _scan(node: UOp, done: dict[UOp, UOp], around: frozenset[UOp], fresh: FreshIds) -> UOp:
    """A scan begins anew in each iteration of the loops around its own, whether its value depends on them or not."""
    value, loop = done[node.source], done[node.src[1]]
    register = fresh.make_register(node.dtype)
    outer = sorted((value.ranges - {loop}) | {done.get(r, r) for r in around}, key=lambda r: r.arg.id)
    start = register.after(*outer).index(_ZERO).store(identity_of(node.arg, node.dtype))
    inside = register.after(start, loop).index(_ZERO)
    update = inside.store(UOp(node.arg, node.dtype, (inside.load(), value)))
    return register.after(update).index(_ZERO).load()
