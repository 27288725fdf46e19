"""Stored nodes, each written as an expression over loops.

before → after, for y = (x + 1).permute(1, 0) stored with shape (3, 2):

    ADD, PERMUTE        BUFFERIZE(ADD(INDEX(x, r1 * 3 + r0), 1), r0, r1)

Starting at a stored node with one fresh RANGE for each axis, coordinates are moved down through
movement nodes until they reach memory, and the elementwise nodes on the way are applied to what
is found there. A reduction opens a loop of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from svod_dtype import AddressSpace, index
from svod_ir import BufferizeArg, Op, UOp, make_alu
from svod_ir.ops import ELEMENTWISE, MARKS, MEMORY, MOVEMENT
from svod_ir.origins import propagate_labels
from svod_schedule._loops import identity_of
from svod_schedule.errors import UnsupportedGraphError
from svod_schedule.rangeify.analysis.coordinates import (
    Coordinates,
    move,
    move_to_places,
    move_to_positions,
    move_to_selected,
)
from svod_schedule.rangeify.analysis.devices import get_read_whole, is_transfer
from svod_schedule.rangeify.analysis.kernel_loops import KernelLoops
from svod_schedule.rangeify.analysis.stored_nodes import Storage
from svod_schedule.rangeify.expressions.scatter import add_to_rows, is_place, make_zeros
from svod_schedule.symbolic import simplify

__all__ = ["Puller", "Pulling", "pull_values"]

Pulling = Generator[tuple[UOp, Coordinates], UOp, UOp]

_NO_WORK = MARKS | {Op.CHECK, Op.CONTIGUOUS}
_SCALARS = frozenset({Op.CONST, Op.DEFINE_VAR, Op.BIND})


def pull_values(sink: UOp, storage: Storage, devices: Mapping[UOp, str]) -> UOp:
    """The ranged graph of `sink`: a SINK of BUFFERIZE nodes, one for each of its sources."""
    order = sink.toposort()
    puller = Puller(storage, devices)
    for node in order:
        if node in storage.stored:
            puller.bufferize(node)
    return UOp(Op.SINK, sink.dtype, tuple(puller.bufferized[s] for s in sink.src), sink.arg)


class Puller:
    """Writes values as expressions over loops, those of one kernel at a time."""

    def __init__(self, storage: Storage, devices: Mapping[UOp, str]) -> None:
        self.rows = storage.rows
        self.devices = devices
        self.device = ""
        self.copies: dict[tuple[UOp, str], UOp] = {}
        self.bufferized: dict[UOp, UOp] = {}
        self.values: dict[tuple[UOp, Coordinates], UOp] = {}
        self.row_values: dict[tuple[UOp, tuple[UOp, ...]], UOp] = {}
        self.loops = KernelLoops()
        self.n_scattered = 0

    def bufferize(self, node: UOp) -> None:
        """Store `node`, whose stored operands are known."""
        self.device = self.devices[node]
        self.loops = KernelLoops()
        self.values.clear()
        self.row_values.clear()
        self._fill(node)
        propagate_labels(self.bufferized[node], self._iter_computed(node))

    def _iter_computed(self, node: UOp) -> Iterator[UOp]:
        """The nodes that were pulled for `node`, without those that have memory of their own."""
        yield node
        yield from (
            n
            for n, _ in self.values
            if n not in self.bufferized and n.op not in (Op.AFTER, Op.CONTROL_DEPENDENCY)
        )

    def _fill(self, node: UOp) -> None:
        if is_transfer(node):
            self.bufferized[node] = self._transfer(node)
            return
        if node.op is Op.SCATTER_ADD:
            self._scatter(node)
            return
        ranges = self.loops.open(node)
        if node.op is Op.ASSIGN:
            self._assign(node, ranges)
            return
        value = self._pull(node, Coordinates(ranges), self._value(node, Coordinates(ranges)))
        self.bufferized[node] = UOp(
            Op.BUFFERIZE, node.dtype, (value, *ranges), BufferizeArg(self.device)
        )

    def _transfer(self, node: UOp) -> UOp:
        if node.op is Op.COPY:
            return self._copy(self._whole(node.source), node)
        whole = {operand: self._whole(operand) for operand in get_read_whole(node)}
        value = node.with_src(tuple(_take_whole(s, whole) for s in node.src))
        return UOp(
            Op.BUFFERIZE, node.dtype, (value, *KernelLoops().open(node)), BufferizeArg(self.device)
        )

    def _copy(self, memory: UOp, node: UOp) -> UOp:
        """A copy of `memory` for this kernel's device, in the shape of `node`."""
        value = UOp(Op.COPY, memory.dtype, (memory,), self.device)
        return UOp(
            Op.BUFFERIZE,
            memory.dtype,
            (value, *KernelLoops().open(node)),
            BufferizeArg(self.device),
        )

    def _stored(self, node: UOp) -> UOp:
        """The memory of a stored node, or a copy of it where the kernel cannot read it.

        That happens to what is on no device by itself, and so was computed on that of another
        reader."""
        memory = self.bufferized[node]
        filled = memory.unordered
        if filled.op is not Op.BUFFERIZE or filled.arg.device == self.device:
            return memory
        key = (node, self.device)
        if key not in self.copies:
            self.copies[key] = self._copy(memory, node)
            propagate_labels(self.copies[key], (node,))
        return self.copies[key]

    def _assign(self, node: UOp, ranges: tuple[UOp, ...]) -> None:
        """Store into the memory of the target; what reads it afterwards reads AFTER(memory, this
        effect).
        """
        target, value = node.src
        memory, at = self._locate(target, Coordinates(ranges))
        if at.valid is not None:
            raise UnsupportedGraphError(
                what="assignment to a padded tensor", hint="assign to the tensor before padding it"
            )
        stored = self._pull(value, Coordinates(ranges), self._read(value, Coordinates(ranges)))
        effect = memory.index(*at.indices).store(stored)
        self.bufferized[node] = memory.after(effect.end(*(r for r in ranges if r.op is Op.RANGE)))

    def _scatter(self, node: UOp) -> None:
        """Memory of zeros, to whose rows those of the value are added."""
        self.n_scattered += 1
        memory = self.bufferized[node] = make_zeros(node, self.device, self.n_scattered)
        if 0 not in node.source.shape:
            at = Coordinates(self.loops.open_places(node))
            self.bufferized[node] = memory.after(
                self._pull(node, at, self._scattered(node, memory, at))
            )

    def _scattered(self, node: UOp, memory: UOp, at: Coordinates) -> Pulling:
        position = yield node.position, move_to_places(node, at)
        value = yield node.source, at
        return add_to_rows(node, memory, at, position, value, self.loops)

    def _locate(self, view: UOp, at: Coordinates) -> tuple[UOp, Coordinates]:
        """The memory below `view`, as earlier assignments leave it, and where in it an element
        lies.
        """
        while view.op in MOVEMENT or view.op is Op.ASSIGN:
            if view.op is Op.ASSIGN:
                return self.bufferized[view], self._locate(view.target, at)[1]
            view, at = view.source, move(view, at)
        if view.op is Op.AFTER:
            return self._after(view), at
        if view.op is Op.CONTROL_DEPENDENCY:
            is_stored = view.source in self.bufferized
            memory, at = (
                (self._stored(view.source), at) if is_stored else self._locate(view.source, at)
            )
            return memory.after(*self._list_events(view)), at
        if view.op not in MEMORY:
            raise UnsupportedGraphError(
                what=f"assignment to {view.op.name}",
                hint="realize the tensor before assigning to it",
            )
        return view, at

    def _after(self, node: UOp) -> UOp:
        if len(node.src) == 2:
            # The memory as this assignment leaves it, on top of earlier ones.
            return self.bufferized[node.dependency]
        effects = tuple(e for s in node.dependencies for e in self.bufferized[s].src[1:])
        return node.source.after(*effects)

    def _list_events(self, node: UOp) -> list[UOp]:
        """The memory that a control dependency waits for: where its events are stored, or what they are computed
        from.
        """
        found: dict[UOp, None] = {}
        stack = list(node.src[1:])
        seen: set[UOp] = set()
        while stack:
            event = stack.pop()
            if event in seen:
                continue
            seen.add(event)
            if event in self.bufferized:
                found[self.bufferized[event]] = None
            elif event.op is Op.AFTER:
                found[self._after(event)] = None
            else:
                stack.extend(event.src)
        return list(found)

    def _whole(self, node: UOp) -> UOp:
        """The memory that holds exactly the elements of `node`, for a copy."""
        while node.op is Op.RESHAPE:
            node = node.source
        if node.op is Op.SHRINK and node.arg == (0, None):
            # Symbolic sizes are the first part of memory that has room for the largest ones.
            node = node.source
        if node in self.bufferized:
            return self.bufferized[node]
        if node.op is Op.AFTER:
            return self._after(node)
        if node.op is Op.CONTROL_DEPENDENCY:
            return self._whole(node.source).after(*self._list_events(node))
        if node.op in MEMORY:
            return node
        raise UnsupportedGraphError(
            what=f"memory of {node.op.name}", hint="make the source contiguous before copying it"
        )

    def pull(self, node: UOp, at: Coordinates) -> UOp:
        """The value of `node` at `at`, as part of the open kernel."""
        found = self.values.get((node, at))
        return self._pull(node, at, self._read(node, at)) if found is None else found

    def _pull(self, root: UOp, at: Coordinates, first: Pulling) -> UOp:
        stack: list[tuple[tuple[UOp, Coordinates], Pulling]] = [((root, at), first)]
        answer: UOp | None = None
        while stack:
            key, pulling = stack[-1]
            try:
                asked = next(pulling) if answer is None else pulling.send(answer)
            except StopIteration as done:
                answer = self.values[key] = done.value
                stack.pop()
                continue
            answer = self.values.get(asked)
            if answer is None:
                stack.append((asked, self._read(*asked)))
        assert answer is not None
        return answer

    def _read(self, node: UOp, at: Coordinates) -> Pulling:
        if node.op is Op.ASSIGN or node.op is Op.AFTER or node.op is Op.CONTROL_DEPENDENCY:
            memory, at = self._locate(node, at)
            return memory.index(*at.indices, gate=at.valid)
        if node in self.bufferized:
            return self._stored(node).index(*at.indices, gate=at.valid)
        if node in self.rows:
            return (yield from self._from_row(node, at))
        return (yield from self._value(node, at))

    def _from_row(self, node: UOp, at: Coordinates) -> Pulling:
        """Read a value that is computed once for each row."""
        named = self.rows[node]
        row = tuple(i for a, i in enumerate(at.indices) if a in named)
        kept = self.row_values.get((node, row))
        if kept is None:
            fresh = self.loops.open(node)
            value = yield from self._value(
                node,
                Coordinates(tuple(i if a in named else fresh[a] for a, i in enumerate(at.indices))),
            )
            columns = tuple(r for a, r in enumerate(fresh) if a not in named)
            kept = UOp(
                Op.BUFFERIZE,
                node.dtype,
                (value, *columns),
                BufferizeArg(self.device, AddressSpace.REG),
            )
            self.row_values[(node, row)] = kept
        return kept.index(*(i for a, i in enumerate(at.indices) if a not in named), gate=at.valid)

    def _value(self, node: UOp, at: Coordinates) -> Pulling:
        op = node.op
        if op in _SCALARS:
            return node
        if any(size == 0 for size in node.shape):
            return UOp.const(node.dtype, 0)
        if op in ELEMENTWISE:
            operands: list[UOp] = []
            for operand in node.src:
                operands.append((yield operand, at if operand.shape else Coordinates((), at.valid)))
            return (
                node.with_src(tuple(operands))
                if node.dtype.is_float or op in (Op.CAST, Op.BITCAST)
                else make_alu(op, *operands)
            )
        if op in MEMORY:
            return node.index(*at.indices, gate=at.valid)
        if op in _NO_WORK or op is Op.COPY:
            return (yield node.source, at)
        if op is Op.PAD:
            return (yield from self._padded(node, at))
        if op in MOVEMENT:
            return (yield node.source, move(node, at))
        match op:
            case Op.REDUCE_AXIS:
                return (yield from self._reduced(node, at))
            case Op.SCAN_AXIS:
                scan_op: Op = node.arg.op
                axis: int = node.arg.axis
                value = yield node.source, at
                return (
                    value
                    if node.shape[axis] == 1
                    else UOp(Op.SCAN, node.dtype, (value, at.indices[axis]), scan_op)
                )
            case Op.IOTA:
                return at.indices[0].cast(node.dtype)
            case Op.GATHER:
                return (yield from self._gathered(node, at))
            case _:
                raise UnsupportedGraphError(what=f"{op.name} in a graph to compile")

    def _padded(self, node: UOp, at: Coordinates) -> Pulling:
        inner = move(node, Coordinates(at.indices))
        if inner.valid is None:
            return (yield node.source, Coordinates(inner.indices, at.valid))
        if inner.valid.op is Op.CONST:
            return UOp.const(node.dtype, 0)
        value = yield node.source, Coordinates(inner.indices, at.valid).and_valid(inner.valid)
        if value.op is Op.INDEX and value.gate is not None:
            # The gate holds nowhere outside this padding, and a location reads 0 where its gate is
            # false.
            return value
        return UOp(Op.WHERE, node.dtype, (inner.valid, value, UOp.const(node.dtype, 0)))

    def _reduced(self, node: UOp, at: Coordinates) -> Pulling:
        reduce_op: Op = node.arg.op
        if 0 in node.source.shape:
            return identity_of(reduce_op, node.dtype)
        ranges = self.loops.open_reduced(node, at.indices)
        indices = tuple(ranges.get(a, i) for a, i in enumerate(at.indices))
        # Its readers' gates do not enter: they share its loops, which stay inside the value by
        # themselves.
        value = yield node.source, Coordinates(indices)
        loops = tuple(r for r in ranges.values() if r.op is Op.RANGE)
        return UOp(Op.REDUCE, node.dtype, (value, *loops), reduce_op) if loops else value

    def _gathered(self, node: UOp, at: Coordinates) -> Pulling:
        source, positions = node.src
        axis: int = node.arg
        position = yield positions, move_to_positions(node, at)
        selected = simplify(position.cast(index))
        inside = is_place(position, selected, source.shape[axis])
        source_at = move_to_selected(node, at, selected).and_valid(inside)
        value = yield source, source_at
        if source_at.valid is at.valid or (value.op is Op.INDEX and value.gate is not None):
            return value
        return UOp(Op.WHERE, node.dtype, (simplify(inside), value, UOp.const(node.dtype, 0)))


def _take_whole(operand: UOp, whole: Mapping[UOp, UOp]) -> UOp:
    """An operand of a transfer as memory; of its result, the loop on memory."""
    if operand.op in (Op.LOOP, Op.SWITCH):
        return operand.with_src(tuple(whole.get(s, s) for s in operand.src))
    return whole.get(operand, operand)
