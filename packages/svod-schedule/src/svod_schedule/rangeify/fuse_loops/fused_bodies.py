"""The bodies in a kernel, of loops and of branches: elements are pulled from them.

What a loop carries is in cells (see `fuse_loops`). The next value of a cell says what other cells
it reads: `LoopFrame.close` pulls until there are no new ones."""

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

__all__ = ["PLACED", "LoopFrame", "clip_count", "group_effects"]

MAX_BRANCH = 256
"""Operations of a branch that is computed though another one is taken."""

MAX_REDUCED = 64
"""Elements that a reduction inside takes; longer ones are kernels with lanes and tiles of their
own.
"""

PLACED = frozenset({Op.RANGE, Op.CONST, Op.DEFINE_VAR, Op.BIND}) | ELEMENTWISE
"""What coordinates consist of."""


class _Frame(Puller):
    """A body, with what its PARAMs are."""

    def __init__(
        self, body: UOp, kernel: FusedKernel, around: _Frame | None, varying: set[int]
    ) -> None:
        super().__init__(Storage(set(), {}), {})
        self.kernel, self.around, self.loops = kernel, around, KernelLoops(kernel.loops)
        self.sources = body.src
        self.varying = _collect_varying(body, varying)
        self.choices: dict[tuple[UOp, int], _Frame] = {}
        self.inner: dict[UOp, list[_InnerLoop]] = {}

    def read_parameter(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        """The element of an operand at coordinates in the shape in which the body sees it."""
        raise NotImplementedError

    def _read(self, node: UOp, at: Coordinates) -> Pulling:
        self.kernel.count_value()
        param = _find_parameter(node)
        if param is not None:
            return self.read_parameter(param.arg.slot, node.shape, at)
        if node.op is Op.RESULT:
            return self._read_result(node, at)
        if node in self.varying:
            if node.op is Op.REDUCE_AXIS:
                return (
                    yield from self._write_out(node, at, [range(s) for s in _get_reduced(node)])
                )
            if node.op is Op.SCAN_AXIS:
                axis: int = node.arg.axis
                return (
                    yield from self._write_out(
                        node, at, [range(self.kernel.get_place(at.indices[axis]) + 1)]
                    )
                )
        elif node.op is Op.SCAN_AXIS or (
            node.op is Op.REDUCE_AXIS and prod(_get_reduced(node)) > MAX_REDUCED
        ):
            raise NotFusableError
        return (yield from super()._read(node, at))

    def _write_out(self, node: UOp, at: Coordinates, places: list[range]) -> Pulling:
        """A reduction or scan of what is carried, element by element; narrow floats are added up in
        float32.
        """
        if prod(map(len, places)) > MAX_REDUCED:
            raise NotFusableError
        axes = (node.arg.axis,) if node.op is Op.SCAN_AXIS else node.arg.axes
        op: Op = node.arg.op
        is_narrow = node.dtype.is_float and node.dtype.itemsize < float32.itemsize
        total: UOp | None = None
        for place in combinations(*places):
            taken = dict(zip(axes, place, strict=True))
            coordinates = tuple(
                UOp.const(index, taken[a]) if a in taken else i for a, i in enumerate(at.indices)
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
        """All branches of a SWITCH, of which each element takes one."""
        switch, position = node.source, int(node.arg)
        bodies = get_bodies(switch)
        number = self.pull(switch.choice, Coordinates(()))
        values: list[UOp] = []
        for i, body in enumerate(bodies):
            frame = self.choices.get((switch, i))
            if frame is None:
                frame = self.choices[(switch, i)] = _Branch(switch, body, self.kernel, self)
            values.append(frame.pull(body.src[position], at))
        chosen = values[-1]
        for i in reversed(range(len(values) - 1)):
            chosen = (number <= i).where(values[i], chosen)
        return chosen

    def _read_inner(self, node: UOp, at: Coordinates) -> UOp:
        """A result of a LOOP inside this body, which is a loop inside the loop."""
        loop, position = node.source, node.arg
        if loop.arg.is_conditional or position >= loop.arg.n_carried:
            raise NotFusableError
        coordinates = tuple(map(simplify, at.indices))
        known = self.inner.setdefault(loop, [])
        frame = next((f for f in known if (position, coordinates) in f.cells), None)
        if frame is None:
            frame = _InnerLoop(loop, self.kernel, self)
            frame.open_cell(position, coordinates)
            frame.close()
            known.append(frame)
        return frame.read_final(position, coordinates)


class LoopFrame(_Frame):
    """The body of a LOOP: a cell for each element that is carried, as far as they are asked for."""

    def __init__(
        self, loop: UOp, kernel: FusedKernel, around: _Frame | None, varying: set[int]
    ) -> None:
        self.parts: LoopParts = read_loop(loop)
        self.n_carried: int = loop.arg.n_carried
        super().__init__(loop.arg.body, kernel, around, {*range(self.n_carried), *varying})
        self.arg = loop.arg
        self.size: SInt | None = find_count(loop)
        self.loop = UOp.const(index, 0)
        self.cells: dict[tuple[int, tuple[UOp, ...]], UOp] = {}
        self.next: dict[UOp, UOp] = {}
        self.go_on: UOp | None = None
        self.waiting: list[tuple[int, tuple[UOp, ...]]] = []

    def read_initial(self, slot: int, at: tuple[UOp, ...]) -> UOp:
        """The element of what a carried value is before the first iteration."""
        raise NotImplementedError

    def check_cell(self, slot: int, at: tuple[UOp, ...]) -> None:
        """Raise unless one cell can stand for the element at these coordinates in every
        iteration.
        """
        for node in UOp.sink(*at).toposort()[:-1]:
            is_own = node is self.loop or (
                node.op is Op.DEFINE_VAR and node.arg.name == self.arg.counter
            )
            if (
                is_own
                or node.op not in PLACED
                or (node.op is Op.RANGE and node.arg.kind is AxisType.REDUCE)
            ):
                raise NotFusableError

    def open_cell(self, slot: int, at: Sequence[UOp]) -> UOp:
        """The CARRY of an element of what is carried."""
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
        """Pull the next values of all cells, and of those that they read."""
        while self.waiting:
            slot, at = key = self.waiting.pop()
            self.next[self.cells[key]] = self.pull(self.sources[slot], Coordinates(at))

    def read_parameter(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        if slot < self.n_carried:
            places = move_reshape(self.sources[slot].shape, shape, at.indices)
            return self.open_cell(slot, places).after(self.loop)
        return self.read_other(slot, shape, at)

    def read_other(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        """The element of a slice, or of a constant operand."""
        raise NotImplementedError

    def list_needed(self, roots: Sequence[UOp]) -> list[UOp]:
        """The cells that `roots` depend on, in the order of their numbers."""
        needed: set[UOp] = set()
        stack = list(roots)
        while stack:
            for cell in UOp.sink(stack.pop()).iter_ops(Op.CARRY):
                if (
                    cell in self.next
                    and cell not in needed
                    and self.next[cell] is not self.read(cell)
                ):
                    needed.add(cell)
                    stack.append(self.next[cell])
        return sorted(needed, key=lambda c: c.arg)

    def make_end(self, cells: Sequence[UOp], stores: Sequence[UOp]) -> UOp:
        """The loop over iterations, in any order where none needs another one."""
        effects = list(stores)
        if cells:
            effects.append(
                UOp(Op.ADVANCE, void, (*map(self.read, cells), *(self.next[c] for c in cells)))
            )
        if self.go_on is not None:
            effects.append(UOp(Op.LEAVE, void, (~self.go_on, self.loop, *effects)))
        body = self.place(group_effects(effects))
        if cells:
            return body.end(self.loop)
        loop = self.loop.with_arg(self.loop.arg._replace(kind=AxisType.LOOP))
        return self.kernel.spread(body, self.loop, loop).end(loop)

    def place(self, node: UOp) -> UOp:
        """`node` with the number of the iteration, and what no iteration changes, in place of their
        names.
        """
        names = {
            n: self.loop for n in node.iter_ops(Op.DEFINE_VAR) if n.arg.name == self.arg.counter
        }
        same = {self.read(c): c.initial for c, value in self.next.items() if value is self.read(c)}
        return self.kernel.substitute(node, names | same)

    def read(self, cell: UOp) -> UOp:
        """What is carried, as it is in an iteration."""
        return cell.after(self.loop)

    def begin(self, node: UOp) -> UOp:
        """`node` as it is in the first iteration."""
        return self.kernel.substitute(node, {self.read(c): c.initial for c in self.next})

    def get_final(self, cell: UOp, end: UOp | None) -> UOp:
        """What is carried after the last iteration."""
        if self.next[cell] is self.read(cell) or self.size == 0:
            return cell.initial
        if self.size == 1:
            return self.begin(self.place(self.next[cell]))
        return cell if end is None else cell.after(end)


class _Branch(_Frame):
    def __init__(self, switch: UOp, body: UOp, kernel: FusedKernel, around: _Frame) -> None:
        self.switch, self.outside = switch, around
        operands = switch.src[1:]
        if sum(n.op in ELEMENTWISE for n in body.toposort()) > MAX_BRANCH:
            raise NotFusableError
        super().__init__(
            body, kernel, around, {slot for slot, o in enumerate(operands) if o in around.varying}
        )

    def read_parameter(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        return _pull_operand(self.outside, self.switch.src[1 + slot], shape, at)


class _InnerLoop(LoopFrame):
    """A LOOP inside another one."""

    def __init__(self, loop: UOp, kernel: FusedKernel, around: _Frame) -> None:
        operands = loop.operands
        super().__init__(
            loop, kernel, around, {slot for slot, o in enumerate(operands) if o in around.varying}
        )
        self.node, self.outside = loop, around
        stop = (
            clip_count(around.pull(loop.count, Coordinates(()))) if self.size is None else self.size
        )
        self.loop = kernel.loops.make(stop, AxisType.SCAN)
        self.end: UOp | None = None

    def read_initial(self, slot: int, at: tuple[UOp, ...]) -> UOp:
        return self.outside.pull(self.node.src[1 + slot], Coordinates(at))

    def read_other(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        operand = self.node.src[1 + slot]
        if slot < self.n_carried + self.arg.n_sliced:
            number = (
                to_node(find_count(self.node) or 0) - 1 - self.loop
                if self.arg.is_reversed
                else self.loop
            )
            places = move_reshape(operand.shape[1:], shape, at.indices)
            return self.outside.pull(operand, Coordinates((number, *places), at.valid))
        return _pull_operand(self.outside, operand, shape, at)

    def read_final(self, position: int, at: tuple[UOp, ...]) -> UOp:
        cell = self.cells[(position, at)]
        if self.end is None and self.size not in (0, 1):
            self.end = self.make_end(self.list_needed(list(self.next)), [])
        return self.get_final(cell, self.end)


def clip_count(count: UOp) -> UOp:
    """The size of a loop of a computed number of iterations, which may be below 0."""
    return count.cast(index).maximum(0).minimum(MAX_ITERATIONS)


def group_effects(effects: Sequence[UOp]) -> UOp:
    """These effects as one."""
    return effects[0] if len(effects) == 1 else UOp(Op.GROUP, void, tuple(effects))


def _pull_operand(frame: _Frame, operand: UOp, shape: Sequence[SInt], at: Coordinates) -> UOp:
    return frame.pull(
        operand, Coordinates(move_reshape(operand.shape, shape, at.indices), at.valid)
    )


def _find_parameter(node: UOp) -> UOp | None:
    """The PARAM that `node` is, in its shape."""
    if node.op is Op.RESHAPE:
        node = node.source
        if node.op is Op.SHRINK and node.arg == (0, None):
            node = node.source
    return node if node.op is Op.PARAM else None


def _collect_varying(body: UOp, slots: set[int]) -> set[UOp]:
    """The nodes of a body that depend on what changes from iteration to iteration, apart from its
    number.
    """
    found: set[UOp] = set()
    for node in body.toposort():
        if any(s in found for s in node.src) or (node.op is Op.PARAM and node.arg.slot in slots):
            found.add(node)
    return found


def _get_reduced(node: UOp) -> list[int]:
    axes: tuple[int, ...] = node.arg.axes
    sizes = [node.source.shape[a] for a in axes]
    if any(not isinstance(s, int) for s in sizes):
        raise NotFusableError
    return [s for s in sizes if isinstance(s, int)]
