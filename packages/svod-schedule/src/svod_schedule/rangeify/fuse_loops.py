"""Loops as single kernels: where the elements that a LOOP carries go their own ways, the loop stands inside a kernel.

before → after, for a body that makes of the carried x the next value x * a + 1:

    RESULT[0](LOOP[body](100, x, a))

    c = CARRY(INDEX(x, r0), r0);  now = AFTER(c, r1)
    END(STORE(INDEX(result, r0), AFTER(c, END(ADVANCE(now, now * INDEX(a, r0) + 1), r1))), r0)

An element of a carried value is a cell. Beginning with the elements that are asked for, each over loops of its own, the next value
of a cell is pulled from the body, which says what other cells it reads; where these come to an end, there is such a kernel. A
cell is named by coordinates that are loops over elements (one SIMD lane each) or constants: an axis along which an element
reads others, as the coordinates of a point that a matrix rotates, is written out, one cell for each of its places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product as combinations
from math import prod
from typing import NamedTuple, NoReturn

from svod_dtype import float32, index, void
from svod_ir import AxisType, Op, SInt, UOp, make_alu
from svod_ir.loops import LoopParts, find_count, get_bodies, read_loop
from svod_ir.ops import ELEMENTWISE, MOVEMENT, TABLE
from svod_ir.sizes import max_size, product
from svod_ir.uop import to_node
from svod_schedule.rangeify.coordinates import Coordinates, flatten_index, move_reshape
from svod_schedule.rangeify.kernel_loops import KernelLoops
from svod_schedule.rangeify.pull import Puller, Pulling
from svod_schedule.rangeify.storage import Storage
from svod_schedule.symbolic import simplify

__all__ = ["fuse_loop"]

MAX_ROW = 64
"""Elements of one value that are written out: code grows with them."""

MAX_CELLS = 128
MAX_OPERATIONS = 1536
"""Operations of one iteration, which LLVM compiles in less than a second."""

MAX_FREE = 16
"""Nodes of what is computed from nothing, in each iteration, rather than stored and read."""

MIN_LANES = 8
"""From so many elements on that go through a loop together, they are vectors; fewer are taken one by one."""

KERNEL_INSTRUCTIONS = 100
"""So many instructions on single numbers take the time of a small kernel of vectors that the launcher repeats: for A P A' + Q of
4 x 4 (two products) both ways take 30 ns, of 8 x 8 kernels take 60 ns and single numbers 160; a Kalman filter of 4 x 4, of eleven
products, takes 70 ns as single numbers and 104 as kernels."""

MAX_BRANCH = 256
"""Operations of a branch that is computed though another one is taken."""

MAX_NESTED = 32
"""Loops and choices in a body: one may need the last one, and each is pulled from inside of the next."""

MAX_REDUCED = 64
"""Elements that a reduction inside takes; longer ones are kernels with lanes and tiles of their own."""

_MOST_ITERATIONS = (1 << 31) - 1
_READ = ELEMENTWISE | MOVEMENT | {
    Op.CONST, Op.DEFINE_VAR, Op.BIND, Op.PARAM, Op.IOTA, Op.GATHER, Op.REDUCE_AXIS, Op.SCAN_AXIS, Op.DETACH, Op.CHECK,
    Op.CONTIGUOUS, Op.RESULT, Op.LOOP, Op.SWITCH, Op.SINK,
}  # fmt: skip
_PLACED = frozenset({Op.RANGE, Op.CONST, Op.DEFINE_VAR, Op.BIND}) | ELEMENTWISE


def fuse_loop(loop: UOp, operands: Sequence[UOp], targets: Mapping[int, UOp]) -> list[UOp] | None:
    """The effects, one for each kernel, that fill the results of a LOOP; None where its iterations are better run one by one.

    Args:
        operands: the memory of its count, where that is computed, and of its operands.
        targets: the memory of the results that are asked for, by their positions.
    """
    if not targets or not _can_be_read(loop):
        return None
    rows: dict[int, set[int]] = {}
    if loop.arg.is_conditional:
        # Whether to go on is one question for all elements, so that one iteration does all of them.
        sources = loop.arg.body.src[: loop.arg.n_carried]
        sizes = [size for source in sources for size in source.shape]
        if any(not isinstance(size, int) for size in sizes) or any(
            prod(map(max_size, s.shape)) > MAX_ROW for s in sources
        ):
            return None
        rows = {position: set(range(len(source.shape))) for position, source in enumerate(sources)}
    while True:
        try:
            return _fill(loop, operands, targets, rows)
        except _WrittenOutError:
            continue
        except _NotFusableError:
            return None


class _NotFusableError(Exception):
    """A body is more than one kernel, or a long one."""


class _WrittenOutError(Exception):
    """An axis more is to be written out."""


class _Axis(NamedTuple):
    """An axis of the result with this position."""

    position: int
    axis: int
    size: SInt


def _can_be_read(loop: UOp) -> bool:
    stack, n_nested = [loop], 0
    while stack:
        for body in get_bodies(stack.pop()):
            for node in body.toposort():
                if node.op not in _READ or 0 in (node.find_shape() or ()):
                    return False
                if node.op in (Op.LOOP, Op.SWITCH):
                    stack.append(node)
                    n_nested += 1
    return n_nested <= MAX_NESTED


def _fill(loop: UOp, operands: Sequence[UOp], targets: Mapping[int, UOp], rows: dict[int, set[int]]) -> list[UOp]:
    """One effect for all results that have the same elements, apart from the axes that are written out, in `rows`."""
    sources = loop.arg.body.src
    groups: dict[tuple[SInt, ...], list[int]] = {}
    for position in targets:
        domain = tuple(
            size for axis, size in enumerate(sources[position].shape) if _is_element(rows, position, axis, size)
        )
        groups.setdefault(domain, []).append(position)
    return [
        _fill_group(loop, operands, {p: targets[p] for p in group}, domain, rows) for domain, group in groups.items()
    ]


def _is_element(rows: Mapping[int, set[int]], position: int, axis: int, size: SInt) -> bool:
    return size != 1 and axis not in rows.get(position, ())


def _fill_group(
    loop: UOp, operands: Sequence[UOp], targets: Mapping[int, UOp], domain: tuple[SInt, ...], rows: dict[int, set[int]]
) -> UOp:
    kernel = _Kernel(rows)
    elements = tuple(kernel.loops.make(size, AxisType.LOOP) for size in domain)
    frame = _OuterLoop(loop, operands, kernel, elements)
    final: list[tuple[UOp, UOp]] = []
    stacked: list[tuple[UOp, UOp]] = []
    for position, target in targets.items():
        shape = frame.sources[position].shape
        kernel.owners = _map_owners(position, shape, elements, rows)
        for at in _iter_coordinates(position, shape, elements, rows):
            if position < frame.n_carried:
                final.append((target.index(flatten_index(at, shape)), frame.open_cell(position, at)))
            else:
                value = frame.pull(frame.sources[position], Coordinates(at))
                place = flatten_index((frame.slice_number, *at), (frame.count_size, *shape))
                stacked.append((target.index(place), value))
            frame.close()
    if frame.parts.go_on is not None:
        frame.go_on = frame.pull(frame.parts.go_on, Coordinates(()))
        frame.close()
    effect = frame.finish(final, stacked, elements)
    _check_gain(loop, effect, domain, rows)
    return _bind(loop, effect)


def _map_owners(
    position: int, shape: Sequence[SInt], elements: Sequence[UOp], rows: Mapping[int, set[int]]
) -> dict[UOp, _Axis]:
    axes = [a for a, size in enumerate(shape) if _is_element(rows, position, a, size)]
    return {r: _Axis(position, a, shape[a]) for r, a in zip(elements, axes, strict=True)}


def _iter_coordinates(
    position: int, shape: Sequence[SInt], elements: Sequence[UOp], rows: Mapping[int, set[int]]
) -> Iterator[tuple[UOp, ...]]:
    """The coordinates of all elements of a result: loops, and constants along the axes that are written out."""
    loops = iter(elements)
    places: list[Sequence[UOp]] = []
    for axis, size in enumerate(shape):
        if _is_element(rows, position, axis, size):
            places.append((next(loops),))
        else:
            assert isinstance(size, int)
            places.append([UOp.const(index, i) for i in range(size)])
    yield from combinations(*places)


def _bind(loop: UOp, effect: UOp) -> UOp:
    """`effect` with what the graph around the loop gives to its variables."""
    binds = {b.symbol: b for b in loop.src[1:] if b.op is Op.BIND}
    for operand in loop.src:
        for size in (operand, *(s for s in operand.find_shape() or () if not isinstance(s, int))):
            if size.dtype is index:
                binds.update({b.symbol: b for b in size.iter_ops(Op.BIND)})
    # A BIND that stands there already stays as it is.
    return effect.substitute({**binds, **{b: b for b in binds.values()}}) if binds else effect


class _Kernel:
    """What the frames of one kernel share: numbers, and the axes that are written out."""

    def __init__(self, rows: dict[int, set[int]]) -> None:
        self.rows = rows
        self.owners: dict[UOp, _Axis] = {}
        self.loops = KernelLoops()
        self.n_cells = self.n_values = 0

    def make_carry(self, initial: UOp, elements: Sequence[UOp]) -> UOp:
        self.n_cells += 1
        if self.n_cells > MAX_CELLS:
            raise _NotFusableError
        return UOp(Op.CARRY, initial.dtype, (initial, *elements), self.n_cells - 1)

    def count_value(self) -> None:
        self.n_values += 1
        if self.n_values > 4 * MAX_OPERATIONS:
            raise _NotFusableError

    def write_out(self, position: int, axis: int, size: SInt) -> NoReturn:
        """Begin again with this axis written out."""
        row = self.rows.setdefault(position, set())
        if not isinstance(size, int) or size > MAX_ROW or axis in row:
            raise _NotFusableError
        row.add(axis)
        raise _WrittenOutError

    def get_place(self, i: UOp) -> int:
        """A constant coordinate; the axis that a loop is over is written out."""
        place = simplify(i)
        if place.op is not Op.CONST:
            owner = next((o for r in place.ranges if (o := self.owners.get(r)) is not None), None)
            if owner is None:
                raise _NotFusableError
            self.write_out(*owner)
        return int(place.arg)


class _Frame(Puller):
    """A body, with what its PARAMs are."""

    def __init__(self, body: UOp, kernel: _Kernel, around: _Frame | None, varying: set[int]) -> None:
        super().__init__(Storage(set(), {}), {})
        self.kernel, self.around, self.loops = kernel, around, kernel.loops
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
                return (yield from self._write_out(node, at, [range(s) for s in _get_reduced(node)]))
            if node.op is Op.SCAN_AXIS:
                axis: int = node.arg.axis
                return (yield from self._write_out(node, at, [range(self.kernel.get_place(at.indices[axis]) + 1)]))
        elif node.op is Op.SCAN_AXIS or (node.op is Op.REDUCE_AXIS and prod(_get_reduced(node)) > MAX_REDUCED):
            raise _NotFusableError
        return (yield from super()._read(node, at))

    def _write_out(self, node: UOp, at: Coordinates, places: list[range]) -> Pulling:
        """A reduction or scan of what is carried, element by element; narrow floats are added up in float32."""
        if prod(map(len, places)) > MAX_REDUCED:
            raise _NotFusableError
        axes = (node.arg.axis,) if node.op is Op.SCAN_AXIS else node.arg.axes
        op: Op = node.arg.op
        is_narrow = node.dtype.is_float and node.dtype.itemsize < float32.itemsize
        total: UOp | None = None
        for place in combinations(*places):
            taken = dict(zip(axes, place, strict=True))
            coordinates = tuple(UOp.const(index, taken[a]) if a in taken else i for a, i in enumerate(at.indices))
            value = yield node.source, Coordinates(coordinates)
            value = value.cast(float32) if is_narrow else value
            if total is None:
                total = value
            else:
                total = UOp(op, total.dtype, (total, value)) if total.dtype.is_float else make_alu(op, total, value)
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
        number = self.pull(switch.src[0], Coordinates(()))
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
            raise _NotFusableError
        coordinates = tuple(map(simplify, at.indices))
        known = self.inner.setdefault(loop, [])
        frame = next((f for f in known if (position, coordinates) in f.cells), None)
        if frame is None:
            frame = _InnerLoop(loop, self.kernel, self)
            frame.open_cell(position, coordinates)
            frame.close()
            known.append(frame)
        return frame.read_final(position, coordinates)


class _Branch(_Frame):
    def __init__(self, switch: UOp, body: UOp, kernel: _Kernel, around: _Frame) -> None:
        self.switch, self.outside = switch, around
        operands = switch.src[1:]
        if sum(n.op in ELEMENTWISE for n in body.toposort()) > MAX_BRANCH:
            raise _NotFusableError
        super().__init__(body, kernel, around, {slot for slot, o in enumerate(operands) if o in around.varying})

    def read_parameter(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        return _pull_operand(self.outside, self.switch.src[1 + slot], shape, at)


class _LoopFrame(_Frame):
    """The body of a LOOP: a cell for each element that is carried, as far as they are asked for."""

    def __init__(self, loop: UOp, kernel: _Kernel, around: _Frame | None, varying: set[int]) -> None:
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
        raise NotImplementedError

    def check_cell(self, slot: int, at: tuple[UOp, ...]) -> None:
        """Raise where an element at such coordinates is none that one cell can be for."""
        for node in UOp.sink(*at).toposort()[:-1]:
            is_own = node is self.loop or (node.op is Op.DEFINE_VAR and node.arg.name == self.arg.counter)
            if is_own or node.op not in _PLACED or (node.op is Op.RANGE and node.arg.kind is AxisType.REDUCE):
                raise _NotFusableError

    def open_cell(self, slot: int, at: Sequence[UOp]) -> UOp:
        """The CARRY of an element of what is carried."""
        key = (slot, tuple(map(simplify, at)))
        cell = self.cells.get(key)
        if cell is None:
            self.check_cell(*key)
            ranges = frozenset[UOp]().union(*(i.ranges for i in key[1]))
            cell = self.kernel.make_carry(self.read_initial(*key), sorted(ranges, key=lambda r: r.arg.id))
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
        raise NotImplementedError

    def list_needed(self, roots: Sequence[UOp]) -> list[UOp]:
        """The cells that `roots` depend on, in the order of their numbers."""
        needed: set[UOp] = set()
        stack = list(roots)
        while stack:
            for cell in UOp.sink(stack.pop()).iter_ops(Op.CARRY):
                if cell in self.next and cell not in needed and self.next[cell] is not self.read(cell):
                    needed.add(cell)
                    stack.append(self.next[cell])
        return sorted(needed, key=lambda c: c.arg)

    def make_end(self, cells: Sequence[UOp], stores: Sequence[UOp]) -> UOp:
        """The loop over iterations, in any order where none needs another one."""
        effects = list(stores)
        if cells:
            effects.append(UOp(Op.ADVANCE, void, (*map(self.read, cells), *(self.next[c] for c in cells))))
        if self.go_on is not None:
            effects.append(UOp(Op.LEAVE, void, (~self.go_on, self.loop, *effects)))
        body = _group(effects)
        loop = self.loop if cells else self.loop.with_arg(self.loop.arg._replace(kind=AxisType.LOOP))
        return self.place(body).substitute({self.loop: loop}).end(loop)

    def place(self, node: UOp) -> UOp:
        """`node` with the number of the iteration, and what no iteration changes, in place of their names."""
        names = {n: self.loop for n in node.iter_ops(Op.DEFINE_VAR) if n.arg.name == self.arg.counter}
        same = {self.read(c): c.src[0] for c, value in self.next.items() if value is self.read(c)}
        return node.substitute(names | same)

    def read(self, cell: UOp) -> UOp:
        """What is carried, as it is in an iteration."""
        return cell.after(self.loop)

    def get_final(self, cell: UOp, end: UOp | None) -> UOp:
        """What is carried after the last iteration."""
        if self.next[cell] is self.read(cell) or self.size == 0:
            return cell.src[0]
        if self.size == 1:
            return self.place(self.next[cell]).substitute({self.read(c): c.src[0] for c in self.next})
        return cell if end is None else cell.after(end)


class _OuterLoop(_LoopFrame):
    """The LOOP that a kernel is made of, on memory."""

    def __init__(self, loop: UOp, operands: Sequence[UOp], kernel: _Kernel, elements: Sequence[UOp]) -> None:
        super().__init__(loop, kernel, None, set())
        self.memory = operands
        self.elements = frozenset(elements)
        self.count_size: SInt = 0 if self.size is None else self.size
        stop = _clip_count(operands[0].index(UOp.const(index, 0))) if self.size is None else self.size
        self.loop = kernel.loops.make(stop, AxisType.SCAN)
        self.slice_number = to_node(self.count_size) - 1 - self.loop if loop.arg.is_reversed else self.loop

    def check_cell(self, slot: int, at: tuple[UOp, ...]) -> None:
        super().check_cell(slot, at)
        for axis, (place, size) in enumerate(zip(at, self.sources[slot].shape, strict=True)):
            if size == 1:
                continue
            if axis not in self.kernel.rows.get(slot, ()):
                if place not in self.elements:
                    self.kernel.write_out(slot, axis, size)
            else:
                self.kernel.get_place(place)

    def read_initial(self, slot: int, at: tuple[UOp, ...]) -> UOp:
        return _read_memory(self.memory[1 + slot], flatten_index(at, self.sources[slot].shape), None)

    def read_other(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        memory = self.memory[1 + slot]
        flat = flatten_index(at.indices, shape)
        if slot < self.n_carried + self.arg.n_sliced:
            flat = simplify(self.slice_number * to_node(product(shape)) + flat)
        return _read_memory(memory, flat, at.valid)

    def finish(self, final: list[tuple[UOp, UOp]], stacked: list[tuple[UOp, UOp]], elements: Sequence[UOp]) -> UOp:
        """The effect that stores what is stacked in each iteration, and the final values after the last one."""
        asked = [] if self.go_on is None else [self.go_on]
        cells = self.list_needed([*(v for _, v in stacked), *(c for _, c in final), *asked])
        end: UOp | None = None
        stores = [UOp(Op.STORE, void, pair) for pair in stacked]
        if self.size == 1:
            stores = [self.place(s).substitute({self.read(c): c.src[0] for c in self.next}) for s in stores]
        elif self.size != 0 and (cells or stores):
            end = self.make_end(cells, stores)
        effects = [place.store(self.get_final(cell, end)) for place, cell in final]
        if end is not None and not any(end in e.toposort() for e in effects):
            effects.append(end)
        elif end is None:
            effects += stores
        body = _group(effects)
        _check_length(body)
        return body.end(*(r for r in elements if r.op is Op.RANGE))


class _InnerLoop(_LoopFrame):
    """A LOOP inside another one."""

    def __init__(self, loop: UOp, kernel: _Kernel, around: _Frame) -> None:
        operands = loop.src[1:]
        super().__init__(loop, kernel, around, {slot for slot, o in enumerate(operands) if o in around.varying})
        self.node, self.outside = loop, around
        stop = _clip_count(around.pull(loop.src[0], Coordinates(()))) if self.size is None else self.size
        self.loop = kernel.loops.make(stop, AxisType.SCAN)
        self.end: UOp | None = None

    def read_initial(self, slot: int, at: tuple[UOp, ...]) -> UOp:
        return self.outside.pull(self.node.src[1 + slot], Coordinates(at))

    def read_other(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        operand = self.node.src[1 + slot]
        if slot < self.n_carried + self.arg.n_sliced:
            number = to_node(find_count(self.node) or 0) - 1 - self.loop if self.arg.is_reversed else self.loop
            places = move_reshape(operand.shape[1:], shape, at.indices)
            return self.outside.pull(operand, Coordinates((number, *places), at.valid))
        return _pull_operand(self.outside, operand, shape, at)

    def read_final(self, position: int, at: tuple[UOp, ...]) -> UOp:
        cell = self.cells[(position, at)]
        if self.end is None and self.size not in (0, 1):
            self.end = self.make_end(self.list_needed(list(self.next)), [])
        return self.get_final(cell, self.end)


def _read_memory(memory: UOp, flat: UOp, gate: UOp | None) -> UOp:
    """An element of memory; what is computed from nothing, as zeros are, is computed where it is read."""
    if memory.op is not Op.BUFFERIZE or not _is_from_nothing(memory.source):
        return memory.index(flat, gate=gate)
    shape = memory.shape
    places = move_reshape(shape, (product(shape),), (flat,))
    value = memory.source.substitute({r: i for r, i in zip(memory.loops, places, strict=True) if r.op is Op.RANGE})
    return value if gate is None else gate.where(value, 0)


def _is_from_nothing(value: UOp) -> bool:
    nodes = value.toposort()
    return len(nodes) <= MAX_FREE and all(n.op in _PLACED for n in nodes)


def _pull_operand(frame: _Frame, operand: UOp, shape: Sequence[SInt], at: Coordinates) -> UOp:
    return frame.pull(operand, Coordinates(move_reshape(operand.shape, shape, at.indices), at.valid))


def _find_parameter(node: UOp) -> UOp | None:
    """The PARAM that `node` is, in its shape."""
    if node.op is Op.RESHAPE:
        node = node.source
        if node.op is Op.SHRINK and node.arg == (0, None):
            node = node.source
    return node if node.op is Op.PARAM else None


def _collect_varying(body: UOp, slots: set[int]) -> set[UOp]:
    """The nodes of a body that depend on what changes from iteration to iteration, apart from its number."""
    found: set[UOp] = set()
    for node in body.toposort():
        if any(s in found for s in node.src) or (node.op is Op.PARAM and node.arg.slot in slots):
            found.add(node)
    return found


def _get_reduced(node: UOp) -> list[int]:
    axes: tuple[int, ...] = node.arg.axes
    sizes = [node.source.shape[a] for a in axes]
    if any(not isinstance(s, int) for s in sizes):
        raise _NotFusableError
    return [s for s in sizes if isinstance(s, int)]


def _clip_count(count: UOp) -> UOp:
    return count.cast(index).maximum(0).minimum(_MOST_ITERATIONS)


def _group(effects: Sequence[UOp]) -> UOp:
    return effects[0] if len(effects) == 1 else UOp(Op.GROUP, void, tuple(effects))


def _list_operations(effect: UOp) -> list[UOp]:
    return [n for n in effect.toposort() if n.op in ELEMENTWISE and n.dtype is not index]


def _check_length(effect: UOp) -> None:
    if len(_list_operations(effect)) > MAX_OPERATIONS:
        raise _NotFusableError


def _check_gain(loop: UOp, effect: UOp, domain: Sequence[SInt], rows: Mapping[int, set[int]]) -> None:
    """Kernels that are repeated compute rows in vectors; a row that is written out is computed element by element."""
    body = loop.arg.body
    sources = body.src
    widest = max((prod(max_size(sources[k].shape[a]) for a in row) for k, row in rows.items()), default=1)
    nodes = body.toposort()
    if prod(map(max_size, domain)) >= MIN_LANES or widest <= 2 or any(n.op in (Op.LOOP, Op.SWITCH) for n in nodes):
        return
    n_kernels = len(sources) + sum(n.op in (Op.REDUCE_AXIS, Op.SCAN_AXIS) for n in nodes)
    if sum(TABLE[n.op].instructions for n in _list_operations(effect)) > KERNEL_INSTRUCTIONS * n_kernels:
        raise _NotFusableError
