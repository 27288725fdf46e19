"""Translation of graphs to z3 terms, one per lane: leaves become variables, loops are unrolled, and
memory is an uninterpreted function of the index.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any, Final

import z3

from svod_dtype import bool_
from svod_ir import Op, UOp
from svod_ir.evaluate import memory_of
from svod_ir.ops import ELEMENTWISE
from svod_schedule.prove.terms import Meaning, Term, Untranslated

__all__ = ["Translation"]

Lanes = tuple[Term, ...]
_MAX_ITERATIONS: Final = 8


class Translation:
    """Translation of several graphs over the same leaves.

    `known` holds the constraints from the bounds of the leaves. Assumptions about nodes (an index
    does not overflow) are in `meaning.assumed`."""

    def __init__(self, meaning: Meaning) -> None:
        self.meaning = meaning
        self.known: list[Any] = []
        self.leaves: dict[UOp, Any] = {}
        self._memories: dict[UOp, Any] = {}
        self._done: dict[UOp, Lanes] = {}

    def to_terms(self, root: UOp) -> Lanes:
        """Return the term of each lane of a graph.

        Raises:
            Untranslated: if the semantics cannot translate a node.
        """
        return self._translate(root, {}, self._done)

    def _translate(self, root: UOp, counters: dict[UOp, Lanes], done: dict[UOp, Lanes]) -> Lanes:
        # The body of a loop is translated once per iteration, with the counter's value.
        loops = set(root.iter_ops(Op.REDUCE))
        for node in root.toposort(stop=loops):
            if node not in done and node not in counters and node.op not in _MEMORIES:
                done[node] = self._make(node, counters, done)
        return counters[root] if root in counters else done[root]

    def _make(self, node: UOp, counters: dict[UOp, Lanes], done: dict[UOp, Lanes]) -> Lanes:
        def get(source: UOp) -> Lanes:
            return counters[source] if source in counters else done[source]

        dtype = node.dtype.scalar
        if dtype.is_float or dtype.kind == "void":
            raise Untranslated(node)
        match node.op:
            case Op.CONST:
                return (self.meaning.constant(node.arg, dtype),)
            case Op.VCONST:
                return tuple(self.meaning.constant(lane, dtype) for lane in node.arg)
            case Op.DEFINE_VAR:
                return (self._make_leaf(node, node.arg.low, node.arg.high),)
            case Op.RANGE:
                return (self._make_counter(node, get(node.stop)[0]),)
            case Op.REDUCE:
                return self._unroll(node, counters)
            case Op.INDEX:
                return (self._read(node, [get(s)[0] for s in node.src[1:]]),)
            case Op.LOAD if len(node.src) == 1:
                return get(node.location)
            case Op.VECTORIZE:
                return tuple(get(s)[0] for s in node.src)
            case Op.BROADCAST:
                return get(node.source) * (node.dtype.lanes // node.source.dtype.lanes)
            case op if op in ELEMENTWISE:
                return self._apply(node, [get(s) for s in node.src])
            case _:
                raise Untranslated(node)

    def _apply(self, node: UOp, operands: list[Lanes]) -> Lanes:
        source, result = node.operand_dtype.scalar, node.dtype.scalar
        if source.is_float or (node.op is Op.BITCAST and source.bits != result.bits):
            raise Untranslated(node)
        n_lanes = node.dtype.lanes
        wide = [lanes * n_lanes if len(lanes) == 1 else lanes for lanes in operands]
        return tuple(
            self.meaning.apply(node.op, source, result, lanes) for lanes in zip(*wide, strict=True)
        )

    def _make_leaf(self, node: UOp, low: int, high: int) -> Term:
        raw = self.leaves.get(node)
        if raw is None:
            raw = self.leaves[node] = z3.Const(
                f"{node.op.name}_{len(self.leaves)}", self.meaning.sort(node.dtype)
            )
        value = self.meaning.lift(raw, node.dtype)
        self.known.append(self.meaning.between(value, int(low), int(high), node.dtype))
        return value

    def _make_counter(self, node: UOp, end: Term) -> Term:
        counter = self._make_leaf(node, 0, int(node.dtype.max))
        self.known.append(self.meaning.apply(Op.LT, node.dtype, bool_, (counter, end)))
        return counter

    def _read(self, node: UOp, positions: list[Term]) -> Term:
        gate = positions.pop() if node.gate is not None else None
        memory = memory_of(node.memory)
        if memory.dtype.is_float or node.dtype.lanes > 1 or memory.op is not Op.PARAM:
            raise Untranslated(node)
        sorts = [self.meaning.sort(s.dtype) for s in node.src[1 : 1 + len(positions)]]
        key = self._memories.get(memory)
        if key is None:
            key = z3.Function(f"memory_{memory.arg.slot}", *sorts, self.meaning.sort(node.dtype))
            self._memories[memory] = key
        element = self.meaning.lift(key(*[self.meaning.raw(p) for p in positions]), node.dtype)
        self.known.append(
            self.meaning.between(element, int(node.dtype.min), int(node.dtype.max), node.dtype)
        )
        if gate is None:
            return element
        zero = self.meaning.constant(0, node.dtype)
        return self.meaning.apply(Op.WHERE, node.dtype, node.dtype, (gate, element, zero))

    def _unroll(self, node: UOp, counters: dict[UOp, Lanes]) -> Lanes:
        ranges = [s for s in node.loops if s.op is Op.RANGE]
        if node.dtype.lanes != 1 or not node.loops:
            raise Untranslated(node)
        start = {Op.ADD: 0, Op.MUL: 1, Op.MAX: node.dtype.min, Op.MIN: node.dtype.max}[node.arg]
        total = self.meaning.constant(int(start), node.dtype)
        for position, is_inside in self._positions(ranges, counters):
            # An empty cache: terms of the body's nodes belong to another iteration.
            (value,) = self._translate(node.source, {**counters, **position}, {})
            combined = self.meaning.apply(node.arg, node.dtype, node.dtype, (total, value))
            total = self.meaning.apply(
                Op.WHERE, node.dtype, node.dtype, (is_inside, combined, total)
            )
        return (total,)

    def _positions(
        self, ranges: list[UOp], counters: dict[UOp, Lanes]
    ) -> list[tuple[dict[UOp, Lanes], Any]]:
        positions: list[tuple[dict[UOp, Lanes], Any]] = [({}, z3.BoolVal(True))]
        for counter in ranges:
            most = int(counter.stop.vmax)
            if most > _MAX_ITERATIONS:
                raise Untranslated(counter)
            grown: list[tuple[dict[UOp, Lanes], Any]] = []
            for position, is_inside in positions:
                (end,) = self._translate(
                    counter.stop, {**counters, **position}, self._done if not counters else {}
                )
                for i in range(most):
                    at = self.meaning.constant(i, counter.dtype)
                    is_below = self.meaning.apply(Op.LT, counter.dtype, bool_, (at, end))
                    grown.append(({**position, counter: (at,)}, z3.And(is_inside, is_below)))
            positions = grown
        return positions


_MEMORIES: Final = frozenset({Op.PARAM, Op.DEFINE_LOCAL, Op.DEFINE_REG, Op.BUFFER})
