"""Loops as single kernels: where the elements that a LOOP carries go their own ways, the loop
stands inside a kernel.

before → after, for a body that makes of the carried x the next value x * a + 1:

    RESULT[0](LOOP[body](100, x, a))

    c = CARRY(INDEX(x, r0), r0);  now = AFTER(c, r1)
    END(STORE(INDEX(result, r0), AFTER(c, END(ADVANCE(now, now * INDEX(a, r0) + 1), r1))), r0)

An element of a carried value is a cell. Beginning with the elements that are asked for, each over
loops of its own, the next value of a cell is pulled from the body, which says what other cells it
reads; where these come to an end, there is such a kernel. A cell is named by coordinates that are
loops over elements (one SIMD lane each) or constants: an axis along which an element reads others,
as the coordinates of a point that a matrix rotates, is written out, one cell for each of its
places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product as combinations
from math import prod

from svod_dtype import index, void
from svod_ir import AxisType, Op, SInt, UOp
from svod_ir.loops import get_bodies
from svod_ir.ops import ELEMENTWISE, MARKS, MOVEMENT, TABLE
from svod_ir.sizes import max_size, product
from svod_ir.uop import to_node
from svod_schedule.rangeify.analysis.coordinates import Coordinates, flatten_index, move_reshape
from svod_schedule.rangeify.fuse_loops.fused_bodies import (
    PLACED,
    LoopFrame,
    clip_count,
    group_effects,
)
from svod_schedule.rangeify.fuse_loops.fused_kernel import (
    MAX_WRITTEN_OUT,
    ElementAxis,
    FusedKernel,
    NotFusableError,
    WrittenOutError,
)
from svod_schedule.symbolic import simplify

__all__ = ["fuse_loop"]

MAX_INSTRUCTIONS = 1536
"""Instructions of one iteration, those of exponentials and other functions included, which LLVM
compiles in about a second.
"""

MAX_FREE = 16
"""Nodes of what is computed from nothing, in each iteration, rather than stored and read."""

MIN_LANES = 8
"""From so many elements on that go through a loop together, they are vectors; fewer are taken one
by one.
"""

KERNEL_INSTRUCTIONS = 100
"""So many instructions on single numbers take the time of a small kernel of vectors that the
launcher repeats: for A P A' + Q of 4 x 4 (two products) both ways take 30 ns, of 8 x 8 kernels take
60 ns and single numbers 160; a Kalman filter of 4 x 4, of eleven products, takes 70 ns as single
numbers and 104 as kernels."""

MAX_NESTED = 32
"""Loops and choices in a body: where each reads the one before, they are pulled recursively."""

_READ = (
    ELEMENTWISE
    | MOVEMENT
    | MARKS
    | {
        Op.CONST,
        Op.DEFINE_VAR,
        Op.BIND,
        Op.PARAM,
        Op.IOTA,
        Op.GATHER,
        Op.REDUCE_AXIS,
        Op.SCAN_AXIS,
        Op.CHECK,
        Op.CONTIGUOUS,
        Op.RESULT,
        Op.LOOP,
        Op.SWITCH,
        Op.SINK,
    }
)


def fuse_loop(loop: UOp, operands: Sequence[UOp], targets: Mapping[int, UOp]) -> list[UOp] | None:
    """The effects, one for each kernel, that fill the results of a LOOP; None where its iterations
    are better run one by one.

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
            prod(map(max_size, s.shape)) > MAX_WRITTEN_OUT for s in sources
        ):
            return None
        rows = {position: set(range(len(source.shape))) for position, source in enumerate(sources)}
    while True:
        try:
            return _fill(loop, operands, targets, rows)
        except WrittenOutError:
            continue
        except NotFusableError:
            return None


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


def _fill(
    loop: UOp, operands: Sequence[UOp], targets: Mapping[int, UOp], rows: dict[int, set[int]]
) -> list[UOp]:
    """One effect for all results that have the same elements, apart from the axes that are written
    out, in `rows`.
    """
    sources = loop.arg.body.src
    groups: dict[tuple[SInt, ...], list[int]] = {}
    for position in targets:
        domain = tuple(
            size
            for axis, size in enumerate(sources[position].shape)
            if _is_element(rows, position, axis, size)
        )
        groups.setdefault(domain, []).append(position)
    return [
        _fill_group(loop, operands, {p: targets[p] for p in group}, domain, rows)
        for domain, group in groups.items()
    ]


def _is_element(rows: Mapping[int, set[int]], position: int, axis: int, size: SInt) -> bool:
    return size != 1 and axis not in rows.get(position, ())


def _fill_group(
    loop: UOp,
    operands: Sequence[UOp],
    targets: Mapping[int, UOp],
    domain: tuple[SInt, ...],
    rows: dict[int, set[int]],
) -> UOp:
    kernel = FusedKernel(rows, max_values=4 * MAX_INSTRUCTIONS, memory=operands)
    elements = tuple(kernel.loops.make(size, AxisType.LOOP) for size in domain)
    frame = _OuterLoop(loop, operands, kernel, elements)
    final: list[tuple[UOp, UOp]] = []
    stacked: list[tuple[UOp, UOp]] = []
    for position, target in targets.items():
        shape = frame.sources[position].shape
        kernel.owners = _map_owners(position, shape, elements, rows)
        for at in _iter_coordinates(position, shape, elements, rows):
            if position < frame.n_carried:
                final.append(
                    (target.index(flatten_index(at, shape)), frame.open_cell(position, at))
                )
            else:
                value = frame.pull(frame.sources[position], Coordinates(at))
                place = flatten_index((frame.slice_number, *at), (frame.count_size, *shape))
                stacked.append((target.index(place), value))
            frame.close()
    if frame.parts.go_on is not None:
        frame.go_on = frame.pull(frame.parts.go_on, Coordinates(()))
        frame.close()
    effect = frame.finish(final, stacked, elements)
    _check_length(effect)
    _check_gain(loop, effect, domain, rows)
    return _bind(loop, effect, kernel)


def _map_owners(
    position: int, shape: Sequence[SInt], elements: Sequence[UOp], rows: Mapping[int, set[int]]
) -> dict[UOp, ElementAxis]:
    axes = [a for a, size in enumerate(shape) if _is_element(rows, position, a, size)]
    return {r: ElementAxis(position, a, shape[a]) for r, a in zip(elements, axes, strict=True)}


def _iter_coordinates(
    position: int, shape: Sequence[SInt], elements: Sequence[UOp], rows: Mapping[int, set[int]]
) -> Iterator[tuple[UOp, ...]]:
    """The coordinates of all elements of a result: loops, and constants along the axes that are
    written out.
    """
    loops = iter(elements)
    places: list[Sequence[UOp]] = []
    for axis, size in enumerate(shape):
        if _is_element(rows, position, axis, size):
            places.append((next(loops),))
        else:
            assert isinstance(size, int)
            places.append([UOp.const(index, i) for i in range(size)])
    yield from combinations(*places)


def _bind(loop: UOp, effect: UOp, kernel: FusedKernel) -> UOp:
    """`effect` with what the graph around the loop gives to its variables."""
    binds = {b.symbol: b for b in loop.src[1:] if b.op is Op.BIND}
    for operand in loop.src:
        for size in (operand, *(s for s in operand.find_shape() or () if not isinstance(s, int))):
            if size.dtype is index:
                binds.update({b.symbol: b for b in size.iter_ops(Op.BIND)})
    # A BIND that stands there already stays as it is.
    return (
        kernel.substitute(effect, {**binds, **{b: b for b in binds.values()}}) if binds else effect
    )


class _OuterLoop(LoopFrame):
    """The LOOP that a kernel is made of, on memory."""

    def __init__(
        self, loop: UOp, operands: Sequence[UOp], kernel: FusedKernel, elements: Sequence[UOp]
    ) -> None:
        super().__init__(loop, kernel, None, set())
        self.memory = operands
        self.elements = frozenset(elements)
        self.count_size: SInt = 0 if self.size is None else self.size
        stop = (
            clip_count(operands[0].index(UOp.const(index, 0))) if self.size is None else self.size
        )
        self.loop = kernel.loops.make(stop, AxisType.SCAN)
        self.slice_number = (
            to_node(self.count_size) - 1 - self.loop if loop.arg.is_reversed else self.loop
        )

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
        return _read_memory(
            self.memory[1 + slot], flatten_index(at, self.sources[slot].shape), None
        )

    def read_other(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        memory = self.memory[1 + slot]
        flat = flatten_index(at.indices, shape)
        if slot < self.n_carried + self.arg.n_sliced:
            flat = simplify(self.slice_number * to_node(product(shape)) + flat)
        return _read_memory(memory, flat, at.valid)

    def finish(
        self, final: list[tuple[UOp, UOp]], stacked: list[tuple[UOp, UOp]], elements: Sequence[UOp]
    ) -> UOp:
        """The effect that stores what is stacked in each iteration, and the final values after the
        last one.
        """
        asked = [] if self.go_on is None else [self.go_on]
        cells = self.list_needed([*(v for _, v in stacked), *(c for _, c in final), *asked])
        end: UOp | None = None
        stores = [UOp(Op.STORE, void, pair) for pair in stacked]
        if self.size == 1:
            stores = [self.begin(self.place(s)) for s in stores]
        elif self.size != 0 and (cells or stores):
            end = self.make_end(cells, stores)
        effects = [place.store(self.get_final(cell, end)) for place, cell in final]
        if end is not None and not any(end in e.toposort() for e in effects):
            effects.append(end)
        elif end is None:
            effects += stores
        return group_effects(effects).end(*(r for r in elements if r.op is Op.RANGE))


def _read_memory(memory: UOp, flat: UOp, gate: UOp | None) -> UOp:
    """An element of memory; what is computed from nothing, as zeros are, is computed where it is
    read.
    """
    if memory.op is not Op.BUFFERIZE or not _is_from_nothing(memory.source):
        return memory.index(flat, gate=gate)
    shape = memory.shape
    places = move_reshape(shape, (product(shape),), (flat,))
    value = memory.source.substitute(
        {r: i for r, i in zip(memory.loops, places, strict=True) if r.op is Op.RANGE}
    )
    return value if gate is None else gate.where(value, 0)


def _is_from_nothing(value: UOp) -> bool:
    nodes = value.toposort()
    return len(nodes) <= MAX_FREE and all(n.op in PLACED for n in nodes)


def _list_operations(effect: UOp) -> list[UOp]:
    return [n for n in effect.toposort() if n.op in ELEMENTWISE and n.dtype is not index]


def _check_length(effect: UOp) -> None:
    if sum(TABLE[n.op].instructions for n in _list_operations(effect)) > MAX_INSTRUCTIONS:
        raise NotFusableError


def _check_gain(
    loop: UOp, effect: UOp, domain: Sequence[SInt], rows: Mapping[int, set[int]]
) -> None:
    """Raise where repeated kernels, which compute rows as vectors, take less time than rows that
    are written out.
    """
    body = loop.arg.body
    sources = body.src
    widest = max(
        (prod(max_size(sources[k].shape[a]) for a in row) for k, row in rows.items()), default=1
    )
    nodes = body.toposort()
    if (
        prod(map(max_size, domain)) >= MIN_LANES
        or widest <= 2
        or any(n.op in (Op.LOOP, Op.SWITCH) for n in nodes)
    ):
        return
    n_kernels = len(sources) + sum(n.op in (Op.REDUCE_AXIS, Op.SCAN_AXIS) for n in nodes)
    if (
        sum(TABLE[n.op].instructions for n in _list_operations(effect))
        > KERNEL_INSTRUCTIONS * n_kernels
    ):
        raise NotFusableError
