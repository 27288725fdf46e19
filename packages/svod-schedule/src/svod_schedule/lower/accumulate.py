"""accumulate: turn reductions, scans and loop-carried values into registers that a loop updates.

before → after:

    REDUCE(x, r; ADD)   reg = DEFINE_REG; init = STORE(reg, 0)
                        END(STORE(reg, ADD(LOAD(reg), x)), r); LOAD(AFTER(reg, END))
    SCAN(x, r; ADD)     the same inside the loop r of the reader, which reads after each STORE

    c = CARRY(x, e)             reg = DEFINE_REG; init = STORE(reg, x)
    ADVANCE(AFTER(c, r), y)     STORE(AFTER(reg, init, r), y), after the LOADs of all registers of this ADVANCE
    AFTER(c, END)               LOAD(AFTER(reg, END))

Reductions over the same loops share them: one END closes the loop for all.
"""

from __future__ import annotations

from svod_dtype import index, void
from svod_ir import FreshIds, Op, UOp
from svod_schedule._loops import identity_of
from svod_schedule.lower.vectors.tiles import add_to

__all__ = ["accumulate"]

_ZERO = UOp.const(index, 0)
_LOOPED = frozenset({Op.REDUCE, Op.SCAN})
_REWRITTEN = frozenset({Op.REDUCE, Op.SCAN, Op.ADVANCE})
_REDUCE = Op.REDUCE


def accumulate(sink: UOp) -> UOp:
    """Rewrite REDUCE over ranges, SCAN and CARRY to registers."""
    groups = _group_by_loops(sink)
    if not any(True for _ in sink.iter_ops(*_REWRITTEN)):
        return sink
    done: dict[UOp, UOp] = {}
    around = _get_loops_around(sink)
    fresh = FreshIds(sink)
    carried = _Carried(sink, done, around, fresh)
    for node in _toposort_groups(sink, groups):
        # Carried values first: the AFTER of a CARRY is a read, while any other AFTER is only
        # copied.
        if carried.rewrite(node):
            continue
        if node.op not in _LOOPED or len(node.src) < 2:
            done[node] = node.with_images(done)
        elif node.op is Op.REDUCE:
            # The first reduction of a group rewrites all of them.
            if node not in done:
                done.update(_reduce_together(groups[node.loops], done, fresh))
        else:
            done[node] = _scan(node, done, around[node.loop], fresh)
    return done[sink]


def _group_by_loops(sink: UOp) -> dict[tuple[UOp, ...], list[UOp]]:
    groups: dict[tuple[UOp, ...], list[UOp]] = {}
    for node in sink.iter_ops(Op.REDUCE):
        if len(node.src) > 1:
            groups.setdefault(node.loops, []).append(node)
    return groups


def _toposort_groups(sink: UOp, groups: dict[tuple[UOp, ...], list[UOp]]) -> list[UOp]:
    """Sort operands first, where a reduction depends on the operands of all reductions that share
    its loops.
    """
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
                stack.extend(
                    [(s, False) for m in members for s in reversed(m.src) if s not in seen]
                )
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
        # AFTER the loops, so that the load is not hoisted out of them: each iteration reads the
        # last one's total.
        inside = register.after(start, *loops).index(_ZERO)
        updates.append(inside.store(_accumulate(node.arg, inside.load(), value)))
        registers.append(register)
    effect = updates[0] if len(updates) == 1 else UOp(Op.GROUP, void, tuple(updates))
    end = effect.end(*loops)
    return {
        node: register.after(end).index(_ZERO).load()
        for node, register in zip(members, registers, strict=True)
    }


def _get_loops_around(sink: UOp) -> dict[UOp, frozenset[UOp]]:
    """Map each loop of an END to its enclosing loops."""
    around: dict[UOp, frozenset[UOp]] = {}
    for end in sink.iter_ops(Op.END):
        for i, loop in enumerate(end.loops):
            around[loop] = end.ranges | frozenset(end.src[1 : 1 + i])
    return around


def _initialize(register: UOp, node: UOp, value: UOp, loops: tuple[UOp, ...]) -> UOp:
    # A loop whose trip count varies restarts in each iteration of the enclosing loops, even if the
    # value is constant.
    ranges = value.ranges.union(*(r.stop.ranges for r in loops)) - set(loops)
    outer = sorted(ranges, key=lambda r: r.arg.id)
    return register.after(*outer).index(_ZERO).store(identity_of(node.arg, node.dtype))


def _accumulate(op: Op, total: UOp, value: UOp) -> UOp:
    """Accumulate the terms of a chain in `total` sequentially, so that each step can be an fma."""
    if value.op is Op.WMMA:
        return add_to(total, value)
    chain: list[UOp] = []
    while value.op is op and op is Op.ADD and value.left.op is op:
        chain.append(value.right)
        value = value.left
    # ADD(ADD(a, b), c) ends at two operands: both are terms, and the accumulator comes before the
    # first.
    if chain:
        chain.extend(reversed(value.src))
    else:
        chain.append(value)
    for term in reversed(chain):
        total = add_to(total, term) if term.op is Op.WMMA else UOp(op, total.dtype, (total, term))
    return total


def _scan(node: UOp, done: dict[UOp, UOp], around: frozenset[UOp], fresh: FreshIds) -> UOp:
    """Make the register of a scan, which restarts in each iteration of the loops that enclose its
    own, even if its value does not depend on them.
    """
    value, loop = done[node.source], done[node.loop]
    register = fresh.make_register(node.dtype)
    outer = sorted(
        (value.ranges - {loop}) | {done.get(r, r) for r in around}, key=lambda r: r.arg.id
    )
    start = register.after(*outer).index(_ZERO).store(identity_of(node.arg, node.dtype))
    inside = register.after(start, loop).index(_ZERO)
    update = inside.store(UOp(node.arg, node.dtype, (inside.load(), value)))
    return register.after(update).index(_ZERO).load()


class _Carried:
    """Registers of CARRYs: each is initialized before its loop, read and updated in the loop, and
    read after it.
    """

    def __init__(
        self, sink: UOp, done: dict[UOp, UOp], around: dict[UOp, frozenset[UOp]], fresh: FreshIds
    ) -> None:
        self.done, self.around, self.fresh = done, around, fresh
        self.loop = {
            c.source: c.dependencies[0] for n in sink.iter_ops(Op.ADVANCE) for c in n.carried
        }
        self.start: dict[UOp, UOp] = {}

    def rewrite(self, node: UOp) -> bool:
        """Rewrite `node` if it initializes, reads or updates a carried value; return whether it
        does.
        """
        if node.op is Op.CARRY:
            self.done[node] = self._fill(node)
        elif node.op is Op.AFTER and node.source.op is Op.CARRY:
            self.done[node] = self._read(node)
        elif node.op is Op.ADVANCE:
            self.done[node] = self._advance(node)
        else:
            return False
        return True

    def _fill(self, node: UOp) -> UOp:
        register, initial = self.fresh.make_register(node.dtype), self.done[node.initial]
        loops = node.ranges | self.around[self.loop[node]]
        outer = sorted({self.done.get(r, r) for r in loops}, key=lambda r: r.arg.id)
        self.start[node] = register.after(*outer).index(_ZERO).store(initial)
        return register

    def _read(self, node: UOp) -> UOp:
        carry, order = node.source, tuple(self.done[d] for d in node.dependencies)
        # After the loop, its END implies the initial store, even if the loop had no iteration.
        start = () if node.dependencies[0].op is Op.END else (self.start[carry],)
        return self.done[carry].after(*start, *order).index(_ZERO).load()

    def _advance(self, node: UOp) -> UOp:
        """Update all registers, after all of them have been read."""
        # Values may be exchanged, as in `a, b = b, a + b`: no store may come before a read of
        # another register.
        read = UOp(Op.GROUP, void, tuple(self.done[c] for c in node.carried))
        stores = [
            self.done[c.source]
            .after(self.start[c.source], self.done[self.loop[c.source]], read)
            .index(_ZERO)
            .store(self.done[v])
            for c, v in zip(node.carried, node.next_values, strict=True)
        ]
        return UOp(Op.GROUP, void, tuple(stores))
