"""Flattening of a graph to a list of steps, in which each loop contains exactly the nodes that
depend on its RANGE.
"""

# Numpy arrays of any dtype and shape leave lambdas without declared types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from svod_ir._arithmetic import Values, identity_value
from svod_ir.errors import EvaluationError
from svod_ir.evaluate.access import (
    assigned_before,
    dependencies,
    fill,
    fill_whole,
    is_effect,
    make_allocate,
    ranges_of,
    view_chain,
)
from svod_ir.evaluate.memory import MEMORY_BASES, Environment, is_location, memory_of, new_memory
from svod_ir.evaluate.reduction import (
    accumulator_dtype,
    make_accumulate,
    make_finish,
    make_keep,
    make_resume,
    scan_key,
)
from svod_ir.evaluate.repeat import is_repeat
from svod_ir.evaluate.steps import copy, make_step
from svod_ir.ops import Op
from svod_ir.uop import UOp

__all__ = ["BARRIER", "LOOP", "NEXT", "STEP", "Layout", "Operand"]


STEP, LOOP, NEXT, BARRIER = range(4)
"""The kinds of steps: run a function, begin a loop, end a loop, wait for the workgroup."""

_LOOPS: Final = frozenset({Op.REDUCE, Op.END, Op.BUFFERIZE, Op.SCAN})

Operand: TypeAlias = "tuple[UOp, bool]"
"""A node, and whether its memory (true) or its value is meant."""


class Layout:
    """The steps of a graph: tuples of a kind and its arguments.

    In a kernel, and in a linearized one, a read returns the memory's current value. In other
    graphs, a read of memory that no AFTER orders returns the value before all effects, wherever the
    read is.
    """

    def __init__(
        self,
        environment: Environment,
        writes: set[UOp],
        shared: dict[UOp, Values] | None = None,
        *,
        is_kernel: bool = False,
    ) -> None:
        self.environment = environment
        self.writes = writes
        self.is_kernel = is_kernel
        self.shared = {} if shared is None else shared
        self.code: list[tuple[Any, ...]] = []
        self.slots: dict[Operand, int] = {}
        self.initial: list[Any] = []
        self._needs: dict[UOp, list[Operand]] = {}

    def slot(self, node: UOp, is_memory: bool = False) -> int:
        """Index of a node's value in the machine; memory and inputs are initialized at once."""
        # An AFTER orders accesses to the memory; the memory is the same.
        while is_memory and node.op is Op.AFTER:
            node = node.source
        key = (node, is_memory)
        index = self.slots.get(key)
        if index is None:
            index = self.slots[key] = len(self.initial)
            self.initial.append(None)
            if is_memory and node.op in MEMORY_BASES:
                self.initial[index] = self._memory(node)
            elif node.op in MEMORY_BASES:
                memory = self.initial[self.slot(node, True)]
                # A snapshot: unordered reads see the memory before all effects.
                self.initial[index] = memory.copy() if node in self.writes else memory
        return index

    def new_slot(self) -> int:
        self.initial.append(None)
        return len(self.initial) - 1

    def _memory(self, node: UOp) -> Values:
        if node.op in (Op.BUFFER, Op.PARAM):
            return self.environment.array(node)[: node.arg.size]
        if node.op is Op.DEFINE_REG:
            return new_memory(node.dtype, node.arg.size)
        return self.shared.setdefault(node, new_memory(node.dtype, node.arg.size))

    def step(self, run: Callable[..., Any], target: int, *operands: int) -> None:
        self.code.append((STEP, run, target, operands))

    # The operands that a node needs. A loop needs the operands that its body reads from outside.

    def needs(self, node: UOp) -> list[Operand]:
        operands = self._needs.get(node)
        if operands is None:
            opened = ranges_of(node) if node.op in _LOOPS and not is_repeat(node) else ()
            if opened:
                operands = self._walk(self._body(node), frozenset(opened))[1]
                operands += [(s, False) for s in node.src[1:] if s.op is not Op.RANGE]
            else:
                operands = self._direct(node)
            self._needs[node] = operands
        return operands

    def _direct(self, node: UOp) -> list[Operand]:
        match node.op:
            case Op.LOAD | Op.STORE:
                target = node.location.unordered
                location = self._location(target) if target.op is Op.INDEX else [(target, True)]
                order = [(d, False) for d in dependencies(node.location)]
                return [*order, *location, *((s, False) for s in node.src[1:])]
            case Op.INDEX if node.memory in self.writes and not self.is_kernel:
                return [(s, False) for s in node.src]
            case Op.INDEX:
                return self._location(node)
            case Op.AFTER:
                return [
                    *((s, False) for s in node.dependencies),
                    (node.source, is_location(node.source)),
                ]
            case Op.ASSIGN:
                chain = view_chain(node.target)
                sizes = [(s, False) for view in chain for s in view.src[1:]]
                base = memory_of(node.target)
                order = [(s, False) for s in assigned_before(node.target)]
                return [*order, (base, base.op in MEMORY_BASES), (node.value, False), *sizes]
            case Op.BUFFER_VIEW:
                return [(node.memory, is_location(node.memory))]
            case Op.CALL:
                return [(s, is_location(s)) for s in node.arguments if not is_effect(s)]
            case Op.END:
                # The repetition of a call runs all iterations at once.
                return [
                    (node.loops[0].stop, False),
                    *((s, is_location(s)) for s in node.body.arguments),
                ]
            case Op.BIND:
                return [(node.value, False)]
            case Op.RANGE | Op.DEFINE_VAR | Op.SPECIAL:
                return []
            case _:
                return [(s, False) for s in node.src]

    def _location(self, node: UOp) -> list[Operand]:
        return [(node.src[0], is_location(node.src[0])), *((s, False) for s in node.src[1:])]

    def _body(self, node: UOp) -> list[UOp]:
        """The roots of a loop's body: the ends of the loops, and its value or effects (inside of
        GROUPs).
        """
        roots = [r.stop for r in ranges_of(node)]
        if node.op is not Op.END:
            return [*roots, node.src[0]]
        stack = [node.body]
        while stack:
            root = stack.pop()
            if root.op in (Op.GROUP, Op.NOOP, Op.SINK):
                stack.extend(reversed(root.src))
            else:
                roots.append(root)
        return roots

    def _walk(
        self, roots: Sequence[UOp], opened: frozenset[UOp] | None
    ) -> tuple[list[Operand], list[Operand]]:
        """The operands of a block in order, and the operands from outside: nodes that depend on no
        opened range.
        """
        is_effect_loop = {r for r in roots if is_effect(r)}
        inside: list[Operand] = []
        outside: list[Operand] = []
        seen: set[Operand] = set()
        stack: list[tuple[Operand, bool]] = [((r, False), False) for r in reversed(roots)]
        while stack:
            operand, is_entered = stack.pop()
            if is_entered:
                inside.append(operand)
                continue
            if operand in seen:
                continue
            seen.add(operand)
            node = operand[0]
            if (
                opened is None
                or node in is_effect_loop
                or (node.ranges & opened and node not in opened)
            ):
                stack.append((operand, True))
                stack.extend((o, False) for o in reversed(self._operands(operand)) if o not in seen)
            elif node not in opened:
                outside.append(operand)
        return inside, outside

    def _operands(self, operand: Operand) -> list[Operand]:
        node, is_memory = operand
        if is_memory and node.op is Op.AFTER:
            return [*((s, False) for s in node.dependencies), (node.source, True)]
        return self.needs(node)

    def add_block(self, roots: Sequence[UOp], opened: frozenset[UOp] | None) -> None:
        self._add_operands(self._walk(roots, opened)[0])

    def _add_operands(self, operands: Sequence[Operand]) -> None:
        for node, is_memory in operands:
            if is_memory and node.op is not Op.BUFFER_VIEW:
                self.slot(node, True)
            else:
                self.add(node)

    def add(self, node: UOp) -> None:
        """Append the steps of a node, after the steps of its operands."""
        if is_repeat(node):
            self._add_plain(node)
        elif node.op in _LOOPS and (ranges_of(node) or node.op is Op.BUFFERIZE):
            self._add_loop(node)
        elif node.op is Op.BARRIER:
            self.code.append((BARRIER,))
        elif node.op in (Op.END, Op.GROUP, Op.SINK, Op.NOOP):
            return
        elif node.op is Op.LEAVE:
            # Ends the loop after this iteration by setting its counter to the last value.
            condition, loop = node.src[:2]
            operands = (self.slot(condition), self.slot(loop), self.slot(loop.stop))
            self.step(lambda ends, i, stop: stop - 1 if ends else i, self.slot(loop), *operands)
        elif node.op is Op.ADVANCE:
            # All next values are computed before any carry is updated: the updates are
            # simultaneous.
            for carried, value in zip(node.carried, node.next_values, strict=True):
                self.step(lambda x: x, self.slot(carried.unordered), self.slot(value))
        else:
            self._add_plain(node)

    def _add_plain(self, node: UOp) -> None:
        needs = self._direct(node)
        if node.op in (Op.LOAD, Op.STORE):
            needs = needs[len(dependencies(node.location)) :]
        elif node.op is Op.ASSIGN:
            needs = needs[len(assigned_before(node.target)) :]
        elif node.op is Op.AFTER:
            needs = needs[-1:]
        target = self.slot(node, node.op is Op.BUFFER_VIEW)
        if node.op in MEMORY_BASES:
            return
        self.step(make_step(node, self.environment), target, *(self.slot(*o) for o in needs))
        if node.op is Op.BUFFER_VIEW:
            self.step(copy, self.slot(node), target)

    # Loops.

    def _add_loop(self, node: UOp) -> None:
        opened = ranges_of(node)
        target = self.slot(node)
        if node.op is Op.REDUCE:
            wide = accumulator_dtype(node.source.dtype)
            start = identity_value(node.arg, node.source.dtype).astype(wide)
            self.step(lambda: start, target)
        elif node.op is Op.BUFFERIZE:
            self.step(make_allocate(node), target, *(self._extent_slot(p) for p in node.loops))
            if node.source.op in (Op.COPY, Op.BUFFER_VIEW, Op.RESULT):
                self.step(fill_whole, target, target, self.slot(node.source))
                return
        elif node.op is Op.SCAN:
            self._add_scan(node)
            return
        elif node.op is Op.END:
            self._begin_carried(node)
        loops = self._add_nest(node, opened)
        if node.op is Op.REDUCE:
            op, dtype = node.arg, node.source.dtype
            self.step(
                make_accumulate(op, accumulator_dtype(dtype)),
                target,
                target,
                self.slot(node.source),
            )
        elif node.op is Op.BUFFERIZE:
            self.step(
                fill, target, target, self.slot(node.source), *(self.slot(p) for p in node.loops)
            )
        for loop in reversed(loops):
            self._close(loop)
        if node.op is Op.REDUCE:
            self.step(make_finish(node), target, target)

    def _begin_carried(self, node: UOp) -> None:
        """Reset the carries to their initial values each time that the loop starts."""
        for effect in self._body(node):
            for carried in effect.carried if effect.op is Op.ADVANCE else ():
                carry = carried.unordered
                self.step(lambda x: x, self.slot(carry), self.slot(carry.src[0]))

    def _add_nest(self, node: UOp, opened: tuple[UOp, ...]) -> list[tuple[int, int, int]]:
        """Open the loops, outer first, each with the nodes that depend on its range and on no inner
        one.
        """
        effects = {root for root in self._body(node) if is_effect(root)}
        levels: list[list[Operand]] = [[] for _ in opened]
        for operand in self._walk(self._body(node), frozenset(opened))[0]:
            inner = operand[0]
            is_last = inner in effects
            level = (
                len(opened) - 1
                if is_last
                else max(i for i, r in enumerate(opened) if r in inner.ranges)
            )
            levels[level].append(operand)
        loops: list[tuple[int, int, int]] = []
        for r, operands in zip(opened, levels, strict=True):
            loops.append(self._open(r))
            self._add_operands(operands)
        return loops

    def _extent_slot(self, position: UOp) -> int:
        return self.slot(position.stop) if position.op is Op.RANGE else self._constant_one()

    def _constant_one(self) -> int:
        slot = self.new_slot()
        self.initial[slot] = 1
        return slot

    def _open(
        self, node: UOp, start: int | None = None, end: int | None = None
    ) -> tuple[int, int, int]:
        """Begin a loop; return its index in the code, and the slots of its variable and end."""
        start_index, slot, end = (
            len(self.code),
            self.slot(node),
            self.slot(node.source) if end is None else end,
        )
        self.code.append(())
        self.code[start_index] = (LOOP, slot, start, end, 0)
        return start_index, slot, end

    def _close(self, loop: tuple[int, int, int]) -> None:
        start_index, slot, end = loop
        self.code.append((NEXT, slot, end, start_index + 1))
        kind, slot, start, end, _ = self.code[start_index]
        self.code[start_index] = (kind, slot, start, end, len(self.code))

    def _add_scan(self, node: UOp) -> None:
        """SCAN(x, r) at r = i combines x at 0 to i, resuming from the result at i - 1 if it is
        known.
        """
        scanned, target, current = node.src[1], self.slot(node), self.slot(node.src[1])
        outer = [
            self.slot(r) for r in sorted(node.source.ranges - {scanned}, key=lambda r: r.arg.id)
        ]
        saved, start, end, state = self.new_slot(), self.new_slot(), self.new_slot(), {}
        self.step(lambda x: x, saved, current)
        self.step(make_resume(node, state), start, current, *outer)
        self.step(lambda key: state[key][1], target, self._constant_step(scan_key, outer))
        self.step(lambda i: i + 1, end, saved)
        loop = self._open(scanned, start, end)
        self.add_block([node.src[0]], frozenset({scanned}))
        self.step(
            make_accumulate(node.arg, accumulator_dtype(node.dtype)),
            target,
            target,
            self.slot(node.src[0]),
        )
        self._close(loop)
        self.step(lambda x: x, current, saved)
        self.step(make_keep(state), self.new_slot(), target, saved, *outer)
        self.step(make_finish(node), target, target)

    def _constant_step(self, run: Callable[..., Any], operands: Sequence[int]) -> int:
        slot = self.new_slot()
        self.step(run, slot, *operands)
        return slot

    # A linearized kernel is already ordered.

    def add_linear(self, nodes: Sequence[UOp]) -> None:
        loops: dict[UOp, tuple[int, int, int]] = {}
        for node in nodes:
            match node.op:
                case Op.RANGE:
                    loops[node] = self._open(node)
                case Op.END:
                    for opened in reversed(ranges_of(node)):
                        self._close(loops.pop(opened))
                case Op.INDEX:
                    # Loads and stores compute their own address at the access.
                    continue
                case Op.AFTER if is_location(node):
                    continue
                case _:
                    self.add(node)
        if loops:
            raise EvaluationError(problem="a loop is not closed", node=next(iter(loops)))
