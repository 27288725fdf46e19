"""Each materialized node as an expression over loops.

before → after, for y = (x + 1).permute(1, 0) stored with shape (3, 2):

    ADD, PERMUTE        BUFFERIZE(ADD(INDEX(x, r1 * 3 + r0), 1), r0, r1)

Starting at a stored node with one fresh RANGE for each axis, coordinates are mapped through
movement nodes down to memory, and the elementwise nodes on the path are applied to the loaded
values. A reduction opens a loop of its own.
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
    move_to_gather_indices,
    move_to_gather_source,
    move_to_scatter_indices,
)
from svod_schedule.rangeify.analysis.devices import get_memory_operands, is_transfer
from svod_schedule.rangeify.analysis.kernel_loops import KernelLoops
from svod_schedule.rangeify.analysis.row_writes import find_row_write
from svod_schedule.rangeify.analysis.stored_nodes import Storage
from svod_schedule.rangeify.expressions.scatter import is_in_bounds, locate_row, write_row
from svod_schedule.symbolic import simplify

__all__ = ["Puller", "Pulling", "pull_values"]

Pulling = Generator[tuple[UOp, Coordinates], UOp, UOp]
"""A coroutine that yields the operands it needs at coordinates, receives their values, and returns
a value. The recursion over a graph runs on an explicit stack, so that its depth is unlimited."""

# Ops whose value is the value of their source.
_NO_WORK = MARKS | {Op.CHECK, Op.CONTIGUOUS}
_SCALARS = frozenset({Op.CONST, Op.DEFINE_VAR, Op.BIND})


def pull_values(sink: UOp, storage: Storage, devices: Mapping[UOp, str]) -> UOp:
    """Return the ranged graph of `sink`: a SINK with a BUFFERIZE node for each of its operands."""
    order = sink.toposort()
    puller = Puller(storage, devices)
    for node in order:
        if node in storage.stored:
            puller.bufferize(node)
    return UOp(Op.SINK, sink.dtype, tuple(puller.bufferized[s] for s in sink.src), sink.arg)


class Puller:
    """Writer of values as expressions over the loops of one kernel at a time."""

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
        """Write the BUFFERIZE of `node`, whose stored operands are written already."""
        self.device = self.devices[node]
        self._start_kernel()
        self._fill(node)
        propagate_labels(self.bufferized[node], self._iter_computed(node))

    def _start_kernel(self) -> None:
        self.loops = KernelLoops()
        # Values are expressions over the loops of one kernel, and loops of the next one have the
        # same numbers.
        self.values.clear()
        self.row_values.clear()

    def _iter_computed(self, node: UOp) -> Iterator[UOp]:
        """Yield the nodes that are computed in the kernel of `node`."""
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
        if node.op is Op.SCATTER:
            self._scatter(node)
            return
        if node.op is Op.ASSIGN:
            self._assign(node)
            return
        at = Coordinates(self.loops.open(node))
        value = self._pull(node, at, self._value(node, at))
        self.bufferized[node] = UOp(
            Op.BUFFERIZE, node.dtype, (value, *at.indices), BufferizeArg(self.device)
        )

    def _transfer(self, node: UOp) -> UOp:
        if node.op is Op.COPY:
            return self._copy(self._get_memory(node.source), node)
        memory_of = {operand: self._get_memory(operand) for operand in get_memory_operands(node)}
        value = node.with_src(tuple(_replace_by_memory(s, memory_of) for s in node.src))
        return UOp(
            Op.BUFFERIZE, node.dtype, (value, *KernelLoops().open(node)), BufferizeArg(self.device)
        )

    def _copy(self, memory: UOp, node: UOp) -> UOp:
        """Copy `memory` to the device of this kernel, in the shape of `node`."""
        value = UOp(Op.COPY, memory.dtype, (memory,), self.device)
        return UOp(
            Op.BUFFERIZE,
            memory.dtype,
            (value, *KernelLoops().open(node)),
            BufferizeArg(self.device),
        )

    def _stored(self, node: UOp) -> UOp:
        """Return the memory of a stored node, or a copy of it if it is on another device.

        A node that depends on no memory has no device, and is computed on the device of its first
        reader."""
        memory = self.bufferized[node]
        filled = memory.unordered
        if filled.op is not Op.BUFFERIZE or filled.arg.device == self.device:
            return memory
        key = (node, self.device)
        # One copy per device, however many kernels there read it.
        if key not in self.copies:
            self.copies[key] = self._copy(memory, node)
            propagate_labels(self.copies[key], (node,))
        return self.copies[key]

    def _assign(self, node: UOp) -> None:
        """Store into the memory of the target. Later readers read AFTER(memory, this effect)."""
        target, value = node.src
        scatter = find_row_write(node)
        if scatter is not None:
            memory, _ = self._locate(
                target, Coordinates((UOp.const(index, 0),) * len(target.shape))
            )
            self.bufferized[node] = self._write_rows(scatter, memory, is_in_place=True)
            return
        ranges = self.loops.open(node)
        memory, at = self._locate(target, Coordinates(ranges))
        if at.valid is not None:
            raise UnsupportedGraphError(
                what="assignment to a padded tensor", hint="assign to the tensor before padding it"
            )
        stored = self._pull(value, Coordinates(ranges), self._read(value, Coordinates(ranges)))
        effect = memory.index(*at.indices).store(stored)
        self.bufferized[node] = memory.after(effect.end(*(r for r in ranges if r.op is Op.RANGE)))

    def _scatter(self, node: UOp) -> None:
        """Write the kernels that fill memory with the base of a scatter, and write its rows there."""
        at = Coordinates(self.loops.open(node))
        value = self._pull(node.base, at, self._read(node.base, at))
        # Numbered, since two results of equal shape may start as equal memory.
        self.n_scattered += 1
        arg = BufferizeArg(self.device, number=self.n_scattered)
        memory = UOp(Op.BUFFERIZE, node.dtype, (value, *at.indices), arg)
        propagate_labels(memory, self._iter_computed(node))
        # The rows are written by another kernel.
        self._start_kernel()
        self.bufferized[node] = self._write_rows(node, memory, is_in_place=False)

    def _write_rows(self, scatter: UOp, memory: UOp, *, is_in_place: bool) -> UOp:
        """Return memory after the rows of a scatter are written to it.

        Args:
            scatter: the SCATTER.
            memory: the memory of the result: that of the scatter's base if it is written in place,
                else memory of the scatter's shape.
            is_in_place: whether the rows are written to the base.
        """
        if 0 in scatter.source.shape:
            return memory
        at = Coordinates(self.loops.open_scattered(scatter))
        pulling = self._scattered(scatter, memory, at, is_in_place=is_in_place)
        return memory.after(self._pull(scatter, at, pulling))

    def _scattered(self, node: UOp, memory: UOp, at: Coordinates, *, is_in_place: bool) -> Pulling:
        position = yield node.position, move_to_scatter_indices(node, at)
        value = yield node.source, at
        element = locate_row(node, at, position)
        if is_in_place:
            element = self._locate(node.base, Coordinates(element))[1].indices
        return write_row(node, memory, element, at, position, value, self.loops)

    def _locate(self, view: UOp, at: Coordinates) -> tuple[UOp, Coordinates]:
        """Return the memory below `view`, after earlier assignments, and the coordinates in it of
        the element of `view` at `at`.
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
            # The version of memory after this assignment, which includes the earlier ones.
            return self.bufferized[node.dependency]
        effects = tuple(e for s in node.dependencies for e in self.bufferized[s].src[1:])
        return node.source.after(*effects)

    def _list_events(self, node: UOp) -> list[UOp]:
        """List the memory that a control dependency waits for: the memory of its events, or of the
        values that they are computed from.
        """
        memory: dict[UOp, None] = {}
        stack = list(node.src[1:])
        seen: set[UOp] = set()
        while stack:
            event = stack.pop()
            if event in seen:
                continue
            seen.add(event)
            if event in self.bufferized:
                memory[self.bufferized[event]] = None
            elif event.op is Op.AFTER:
                memory[self._after(event)] = None
            else:
                stack.extend(event.src)
        return list(memory)

    def _get_memory(self, node: UOp) -> UOp:
        """Return the memory that holds exactly the elements of `node`, for a copy."""
        while node.op is Op.RESHAPE:
            node = node.source
        if node.op is Op.SHRINK and node.arg == (0, None):
            # A value of symbolic size is a prefix of memory allocated for the maximum size.
            node = node.source
        if node in self.bufferized:
            return self.bufferized[node]
        if node.op is Op.AFTER:
            return self._after(node)
        if node.op is Op.CONTROL_DEPENDENCY:
            return self._get_memory(node.source).after(*self._list_events(node))
        if node.op in MEMORY:
            return node
        raise UnsupportedGraphError(
            what=f"memory of {node.op.name}", hint="make the source contiguous before copying it"
        )

    def pull(self, node: UOp, at: Coordinates) -> UOp:
        """Return the value of `node` at `at`, as an expression of the current kernel."""
        value = self.values.get((node, at))
        return self._pull(node, at, self._read(node, at)) if value is None else value

    def _pull(self, root: UOp, at: Coordinates, first: Pulling) -> UOp:
        stack: list[tuple[tuple[UOp, Coordinates], Pulling]] = [((root, at), first)]
        value: UOp | None = None
        while stack:
            key, pulling = stack[-1]
            try:
                operand = next(pulling) if value is None else pulling.send(value)
            except StopIteration as done:
                value = self.values[key] = done.value
                stack.pop()
                continue
            value = self.values.get(operand)
            if value is None:
                stack.append((operand, self._read(*operand)))
        assert value is not None
        return value

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
        """Read a value that is kept in registers for one row.

        Indices along the axes in `rows[node]` name the row, the others an element of it."""
        named = self.rows[node]
        row = tuple(i for a, i in enumerate(at.indices) if a in named)
        buffer = self.row_values.get((node, row))
        if buffer is None:
            fresh = self.loops.open(node)
            value = yield from self._value(
                node,
                Coordinates(tuple(i if a in named else fresh[a] for a, i in enumerate(at.indices))),
            )
            columns = tuple(r for a, r in enumerate(fresh) if a not in named)
            buffer = UOp(
                Op.BUFFERIZE,
                node.dtype,
                (value, *columns),
                BufferizeArg(self.device, AddressSpace.REG),
            )
            self.row_values[(node, row)] = buffer
        return buffer.index(*(i for a, i in enumerate(at.indices) if a not in named), gate=at.valid)

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
        # The condition is false, since a true one is None: all of it is padding.
        if inner.valid.op is Op.CONST:
            return UOp.const(node.dtype, 0)
        value = yield node.source, Coordinates(inner.indices, at.valid).and_valid(inner.valid)
        if value.op is Op.INDEX and value.gate is not None:
            # The gate is false in the padding, and a load reads 0 where its gate is false.
            return value
        return UOp(Op.WHERE, node.dtype, (inner.valid, value, UOp.const(node.dtype, 0)))

    def _reduced(self, node: UOp, at: Coordinates) -> Pulling:
        reduce_op: Op = node.arg.op
        if 0 in node.source.shape:
            return identity_of(reduce_op, node.dtype)
        ranges = self.loops.open_reduced(node, at.indices)
        indices = tuple(ranges.get(a, i) for a, i in enumerate(at.indices))
        # Gates of readers are dropped: readers share the loops of the reduction, whose bounds keep
        # them inside the operand (see `analysis.fusion`).
        value = yield node.source, Coordinates(indices)
        loops = tuple(r for r in ranges.values() if r.op is Op.RANGE)
        return UOp(Op.REDUCE, node.dtype, (value, *loops), reduce_op) if loops else value

    def _gathered(self, node: UOp, at: Coordinates) -> Pulling:
        source, positions = node.src
        axis: int = node.arg
        position = yield positions, move_to_gather_indices(node, at)
        selected = simplify(position.cast(index))
        # The gate keeps the load inside of memory; an index out of bounds gives 0.
        inside = is_in_bounds(position, selected, source.shape[axis])
        source_at = move_to_gather_source(node, at, selected).and_valid(inside)
        value = yield source, source_at
        if source_at.valid is at.valid or (value.op is Op.INDEX and value.gate is not None):
            return value
        return UOp(Op.WHERE, node.dtype, (simplify(inside), value, UOp.const(node.dtype, 0)))


def _replace_by_memory(operand: UOp, memory_of: Mapping[UOp, UOp]) -> UOp:
    """Replace an operand of a transfer by its memory. The operand of a RESULT is a LOOP or SWITCH,
    whose own operands are replaced.
    """
    if operand.op in (Op.LOOP, Op.SWITCH):
        return operand.with_src(tuple(memory_of.get(s, s) for s in operand.src))
    return memory_of.get(operand, operand)
