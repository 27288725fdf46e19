"""Bodies of loops and branches in one kernel, from which elements are pulled.

The elements of a carry are cells (see `fuse_loops`). Pulling the next value of a cell opens the
cells that it reads: `LoopFrame.close` pulls until it opens no new ones."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product as combinations
from math import prod

from svod_dtype import float32, index, void
from svod_ir import AxisType, Op, SInt, UOp, make_alu
from svod_ir.loops import MAX_ITERATIONS, LoopParts, find_count, get_bodies, read_loop
from svod_ir.ops import ELEMENTWISE
from svod_ir.uop import to_node
from svod_schedule.rangeify.analysis.coordinates import Coordinates, move_reshape
from svod_schedule.rangeify.analysis.kernel_loops import KernelLoops
from svod_schedule.rangeify.analysis.stored_nodes import Storage
from svod_schedule.rangeify.expressions.pull_values import Puller, Pulling
from svod_schedule.rangeify.fuse_loops.fused_kernel import FusedKernel, NotFusableError
from svod_schedule.symbolic import simplify

__all__ = ["INDEX_OPS", "LoopFrame", "clip_count", "group_effects"]

MAX_BRANCH = 256
"""Maximum number of operations of a branch: all branches are computed, and one is selected."""

MAX_REDUCED = 64
"""Maximum number of elements of a nested reduction; longer ones are faster as kernels with lanes
and tiles of their own.
"""

INDEX_OPS = frozenset({Op.RANGE, Op.CONST, Op.DEFINE_VAR, Op.BIND}) | ELEMENTWISE
"""Ops of the coordinates of a cell."""


class _Frame(Puller):
    """A body, with the values of its PARAMs."""

    def __init__(
        self, body: UOp, kernel: FusedKernel, outer: _Frame | None, varying: set[int]
    ) -> None:
        super().__init__(Storage(set(), {}), {})
        self.kernel, self.outer, self.loops = kernel, outer, KernelLoops(kernel.loops)
        self.sources = body.src
        self.varying = _collect_varying(body, varying)
        self.choices: dict[tuple[UOp, int], _Frame] = {}
        self.inner: dict[UOp, list[_InnerLoop]] = {}

    def read_parameter(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        """Return the element of an operand at coordinates in the shape that the body reads it in."""
        raise NotImplementedError

    def _read(self, node: UOp, at: Coordinates) -> Pulling:
        self.kernel.count_value()
        param = _find_parameter(node)
        if param is not None:
            return self.read_parameter(param.arg.slot, node.shape, at)
        if node.op is Op.RESULT:
            return self._read_result(node, at)
        if node in self.varying:
            # Cells are registers, which cannot be indexed by a loop: a reduction of a carry is
            # unrolled.
            if node.op is Op.REDUCE_AXIS:
                return (yield from self._unroll(node, at, [range(s) for s in _get_reduced(node)]))
            if node.op is Op.SCAN_AXIS:
                axis: int = node.arg.axis
                return (
                    yield from self._unroll(
                        node, at, [range(self.kernel.get_constant_index(at.indices[axis]) + 1)]
                    )
                )
        elif node.op is Op.SCAN_AXIS or (
            node.op is Op.REDUCE_AXIS and prod(_get_reduced(node)) > MAX_REDUCED
        ):
            raise NotFusableError
        return (yield from super()._read(node, at))

    def _unroll(self, node: UOp, at: Coordinates, index_ranges: list[range]) -> Pulling:
        """Unroll a reduction or scan of a carry; narrow floats are accumulated in float32."""
        if prod(map(len, index_ranges)) > MAX_REDUCED:
            raise NotFusableError
        axes = (node.arg.axis,) if node.op is Op.SCAN_AXIS else node.arg.axes
        op: Op = node.arg.op
        is_narrow = node.dtype.is_float and node.dtype.itemsize < float32.itemsize
        total: UOp | None = None
        for indices in combinations(*index_ranges):
            index_of = dict(zip(axes, indices, strict=True))
            coordinates = tuple(
                UOp.const(index, index_of[a]) if a in index_of else i
                for a, i in enumerate(at.indices)
            )
            value = yield node.source, Coordinates(coordinates)
            value = value.cast(float32) if is_narrow else value
            if total is None:
                total = value
            else:
                total = (
                    UOp(op, total.dtype, (total, value))
                    if total.dtype.is_float
                    else make_alu(op, total, value)
                )
        assert total is not None
        return total.cast(node.dtype) if is_narrow else total

    def _read_result(self, node: UOp, at: Coordinates) -> UOp:
        if node.source.op is Op.SWITCH:
            return self._choose(node, at)
        return self._read_inner(node, at)

    def _choose(self, node: UOp, at: Coordinates) -> UOp:
        """Compute all branches of a SWITCH, and select one."""
        switch, position = node.source, int(node.arg)
        bodies = get_bodies(switch)
        choice = self.pull(switch.choice, Coordinates(()))
        values: list[UOp] = []
        for i, body in enumerate(bodies):
            frame = self.choices.get((switch, i))
            if frame is None:
                frame = self.choices[(switch, i)] = _Branch(switch, body, self.kernel, self)
            values.append(frame.pull(body.src[position], at))
        # By <= from the last branch down, so that a choice out of bounds selects the first or the
        # last one.
        chosen = values[-1]
        for i in reversed(range(len(values) - 1)):
            chosen = (choice <= i).where(values[i], chosen)
        return chosen

    def _read_inner(self, node: UOp, at: Coordinates) -> UOp:
        """Read a result of a LOOP inside this body, as a nested loop of the kernel."""
        loop, position = node.source, node.arg
        if loop.arg.is_conditional or position >= loop.arg.n_carried:
            raise NotFusableError
        coordinates = tuple(map(simplify, at.indices))
        # An inner loop that is read at other coordinates runs again, with cells of its own.
        frames = self.inner.setdefault(loop, [])
        frame = next((f for f in frames if (position, coordinates) in f.cells), None)
        if frame is None:
            frame = _InnerLoop(loop, self.kernel, self)
            frame.open_cell(position, coordinates)
            frame.close()
            frames.append(frame)
        return frame.read_final(position, coordinates)


class LoopFrame(_Frame):
    """The body of a LOOP, with a cell for each element of a carry that is read."""

    def __init__(
        self, loop: UOp, kernel: FusedKernel, outer: _Frame | None, varying: set[int]
    ) -> None:
        self.parts: LoopParts = read_loop(loop)
        self.n_carried: int = loop.arg.n_carried
        super().__init__(loop.arg.body, kernel, outer, {*range(self.n_carried), *varying})
        self.arg = loop.arg
        self.size: SInt | None = find_count(loop)
        self.loop = UOp.const(index, 0)
        self.cells: dict[tuple[int, tuple[UOp, ...]], UOp] = {}
        self.next: dict[UOp, UOp] = {}
        self.condition: UOp | None = None
        self.waiting: list[tuple[int, tuple[UOp, ...]]] = []

    def read_initial(self, slot: int, at: tuple[UOp, ...]) -> UOp:
        """Return the initial value of an element of a carry."""
        raise NotImplementedError

    def check_cell(self, slot: int, at: tuple[UOp, ...]) -> None:
        """Raise NotFusableError unless the coordinates name the same element in every iteration."""
        for node in UOp.sink(*at).toposort()[:-1]:
            is_own = node is self.loop or (
                node.op is Op.DEFINE_VAR and node.arg.name == self.arg.counter
            )
            if (
                is_own
                or node.op not in INDEX_OPS
                or (node.op is Op.RANGE and node.arg.kind is AxisType.REDUCE)
            ):
                raise NotFusableError

    def open_cell(self, slot: int, at: Sequence[UOp]) -> UOp:
        """Return the CARRY of an element, a new one if the element was not read before."""
        key = (slot, tuple(map(simplify, at)))
        cell = self.cells.get(key)
        if cell is None:
            self.check_cell(*key)
            ranges = frozenset[UOp]().union(*(i.ranges for i in key[1]))
            cell = self.kernel.make_carry(
                self.read_initial(*key), sorted(ranges, key=lambda r: r.arg.id)
            )
            self.cells[key] = cell
            self.waiting.append(key)
        return cell

    def close(self) -> None:
        """Pull the next values of all cells, and of the cells that these read."""
        while self.waiting:
            slot, at = key = self.waiting.pop()
            self.next[self.cells[key]] = self.pull(self.sources[slot], Coordinates(at))

    def read_parameter(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        if slot < self.n_carried:
            indices = move_reshape(self.sources[slot].shape, shape, at.indices)
            return self.open_cell(slot, indices).after(self.loop)
        return self.read_other(slot, shape, at)

    def read_other(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        """Return an element of a slice or of a constant operand."""
        raise NotImplementedError

    def list_needed(self, roots: Sequence[UOp]) -> list[UOp]:
        """List the cells that `roots` depend on, in the order of their numbers."""
        needed: set[UOp] = set()
        stack = list(roots)
        while stack:
            for cell in UOp.sink(stack.pop()).iter_ops(Op.CARRY):
                if (
                    cell in self.next
                    and cell not in needed
                    # A cell that no iteration changes needs no register: it is its initial value.
                    and self.next[cell] is not self.read_carry(cell)
                ):
                    needed.add(cell)
                    stack.append(self.next[cell])
        return sorted(needed, key=lambda c: c.arg)

    def make_end(self, cells: Sequence[UOp], stores: Sequence[UOp]) -> UOp:
        """Make the END of the loop over iterations. Without cells, the iterations are independent,
        and the loop is parallel.
        """
        effects = list(stores)
        if cells:
            effects.append(
                UOp(
                    Op.ADVANCE, void, (*map(self.read_carry, cells), *(self.next[c] for c in cells))
                )
            )
        # The loop is left after the iteration's stores and updates, as a body is complete before
        # its condition counts.
        if self.condition is not None:
            effects.append(UOp(Op.LEAVE, void, (~self.condition, self.loop, *effects)))
        body = self.bind_iteration(group_effects(effects))
        if cells:
            return body.end(self.loop)
        # Independent iterations can be split over threads, which a SCAN forbids.
        loop = self.loop.with_arg(self.loop.arg._replace(kind=AxisType.LOOP))
        return self.kernel.spread(body, self.loop, loop).end(loop)

    def bind_iteration(self, node: UOp) -> UOp:
        """Substitute the loop for the counter in `node`, and initial values for invariant cells."""
        names = {
            n: self.loop for n in node.iter_ops(Op.DEFINE_VAR) if n.arg.name == self.arg.counter
        }
        same = {
            self.read_carry(c): c.initial
            for c, value in self.next.items()
            if value is self.read_carry(c)
        }
        return self.kernel.substitute(node, names | same)

    def read_carry(self, cell: UOp) -> UOp:
        """Return the value of a cell at the begin of an iteration."""
        return cell.after(self.loop)

    def bind_first_iteration(self, node: UOp) -> UOp:
        """Substitute the initial values of all cells in `node`."""
        return self.kernel.substitute(node, {self.read_carry(c): c.initial for c in self.next})

    def get_final(self, cell: UOp, end: UOp | None) -> UOp:
        """Return the value of a cell after the last iteration."""
        if self.next[cell] is self.read_carry(cell) or self.size == 0:
            return cell.initial
        if self.size == 1:
            return self.bind_first_iteration(self.bind_iteration(self.next[cell]))
        return cell if end is None else cell.after(end)


class _Branch(_Frame):
    def __init__(self, switch: UOp, body: UOp, kernel: FusedKernel, outer: _Frame) -> None:
        self.switch, self.enclosing = switch, outer
        operands = switch.src[1:]
        if sum(n.op in ELEMENTWISE for n in body.toposort()) > MAX_BRANCH:
            raise NotFusableError
        super().__init__(
            body, kernel, outer, {slot for slot, o in enumerate(operands) if o in outer.varying}
        )

    def read_parameter(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        return _pull_operand(self.enclosing, self.switch.src[1 + slot], shape, at)


class _InnerLoop(LoopFrame):
    """A LOOP nested in another one."""

    def __init__(self, loop: UOp, kernel: FusedKernel, outer: _Frame) -> None:
        operands = loop.operands
        super().__init__(
            loop, kernel, outer, {slot for slot, o in enumerate(operands) if o in outer.varying}
        )
        self.node, self.enclosing = loop, outer
        stop = (
            clip_count(outer.pull(loop.count, Coordinates(()))) if self.size is None else self.size
        )
        self.loop = kernel.loops.make(stop, AxisType.SCAN)
        self.end: UOp | None = None

    def read_initial(self, slot: int, at: tuple[UOp, ...]) -> UOp:
        return self.enclosing.pull(self.node.src[1 + slot], Coordinates(at))

    def read_other(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        operand = self.node.src[1 + slot]
        if slot < self.n_carried + self.arg.n_sliced:
            slice_index = (
                to_node(find_count(self.node) or 0) - 1 - self.loop
                if self.arg.is_reversed
                else self.loop
            )
            indices = move_reshape(operand.shape[1:], shape, at.indices)
            return self.enclosing.pull(operand, Coordinates((slice_index, *indices), at.valid))
        return _pull_operand(self.enclosing, operand, shape, at)

    def read_final(self, position: int, at: tuple[UOp, ...]) -> UOp:
        cell = self.cells[(position, at)]
        if self.end is None and self.size not in (0, 1):
            self.end = self.make_end(self.list_needed(list(self.next)), [])
        return self.get_final(cell, self.end)


def clip_count(count: UOp) -> UOp:
    """Clip a computed trip count, which may be negative, to 0 ... MAX_ITERATIONS."""
    return count.cast(index).maximum(0).minimum(MAX_ITERATIONS)


def group_effects(effects: Sequence[UOp]) -> UOp:
    """Combine effects into one."""
    return effects[0] if len(effects) == 1 else UOp(Op.GROUP, void, tuple(effects))


def _pull_operand(frame: _Frame, operand: UOp, shape: Sequence[SInt], at: Coordinates) -> UOp:
    return frame.pull(
        operand, Coordinates(move_reshape(operand.shape, shape, at.indices), at.valid)
    )


def _find_parameter(node: UOp) -> UOp | None:
    """Return the PARAM that `node` is a view of in the shape of the operand; None for other nodes."""
    if node.op is Op.RESHAPE:
        node = node.source
        if node.op is Op.SHRINK and node.arg == (0, None):
            node = node.source
    return node if node.op is Op.PARAM else None


def _collect_varying(body: UOp, slots: set[int]) -> set[UOp]:
    """Return the nodes of a body that depend on the PARAMs in these slots.

    These are the carries, and operands that depend on a carry of an enclosing loop."""
    varying: set[UOp] = set()
    for node in body.toposort():
        if any(s in varying for s in node.src) or (node.op is Op.PARAM and node.arg.slot in slots):
            varying.add(node)
    return varying


def _get_reduced(node: UOp) -> list[int]:
    axes: tuple[int, ...] = node.arg.axes
    sizes = [node.source.shape[a] for a in axes]
    if any(not isinstance(s, int) for s in sizes):
        raise NotFusableError
    return [s for s in sizes if isinstance(s, int)]
