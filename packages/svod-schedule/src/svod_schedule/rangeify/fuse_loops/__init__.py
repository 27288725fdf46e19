"""Fusion of a whole LOOP into one kernel, if the elements of its carries are independent.

before → after, for a carry x whose next value is x * a + 1:

    RESULT[0](LOOP[body](100, x, a))

    c = CARRY(INDEX(x, r0), r0);  now = AFTER(c, r1)
    END(STORE(INDEX(result, r0), AFTER(c, END(ADVANCE(now, now * INDEX(a, r0) + 1), r1))), r0)

An element of a carry is a *cell*, kept in a register. Beginning with the elements of the results,
each over loops of its own, the next value of a cell is pulled from the body, which opens the other
cells that it reads. If the set of cells is finite, the loop fuses. A cell is named by coordinates
that are loops over elements (one SIMD lane each) or constants: an axis along which an element reads
others, such as the coordinates of a point that a matrix rotates, is unrolled into one cell for each
index."""

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
    INDEX_OPS,
    LoopFrame,
    clip_count,
    group_effects,
)
from svod_schedule.rangeify.fuse_loops.fused_kernel import (
    MAX_UNROLLED,
    AxisUnrolledError,
    ElementAxis,
    FusedKernel,
    NotFusableError,
)
from svod_schedule.symbolic import simplify

__all__ = ["fuse_loop"]

MAX_INSTRUCTIONS = 1536
"""Maximum number of instructions of one iteration, including those of exponentials and other
functions: LLVM compiles them in about a second.
"""

MAX_FREE = 16
"""Maximum number of nodes of an operand without memory that is recomputed in each iteration instead
of stored.
"""

MIN_LANES = 8
"""Minimum number of elements that are vectorized; fewer are computed as scalars."""

KERNEL_INSTRUCTIONS = 100
"""Number of scalar instructions that take as long as a small vectorized kernel in a loop of the
launcher. A P A' + Q takes 30 ns both ways for 4 x 4 (two products); for 8 x 8, kernels take 60 ns
and scalars 160. A Kalman filter of 4 x 4, with eleven products, takes 70 ns as scalars and 104 as
kernels."""

MAX_NESTED = 32
"""Maximum number of loops and switches in a body: they are pulled recursively."""

_FUSABLE_OPS = (
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
    """Fuse a LOOP. Returns the effects, one for each kernel, that fill its results; None if it
    cannot be fused, or runs faster as a loop of kernels.

    Args:
        operands: the memory of its trip count, if that is computed, and of its operands.
        targets: the memory of the results to compute, by position.
    """
    if not targets or not _has_fusable_body(loop):
        return None
    rows: dict[int, set[int]] = {}
    if loop.arg.is_conditional:
        # The condition is one value for all elements, so that one thread computes all of them.
        sources = loop.arg.body.src[: loop.arg.n_carried]
        sizes = [size for source in sources for size in source.shape]
        if any(not isinstance(size, int) for size in sizes) or any(
            prod(map(max_size, s.shape)) > MAX_UNROLLED for s in sources
        ):
            return None
        rows = {position: set(range(len(source.shape))) for position, source in enumerate(sources)}
    while True:
        try:
            return _fill(loop, operands, targets, rows)
        except AxisUnrolledError:
            continue
        except NotFusableError:
            return None


def _has_fusable_body(loop: UOp) -> bool:
    stack, n_nested = [loop], 0
    while stack:
        for body in get_bodies(stack.pop()):
            for node in body.toposort():
                if node.op not in _FUSABLE_OPS or 0 in (node.find_shape() or ()):
                    return False
                if node.op in (Op.LOOP, Op.SWITCH):
                    stack.append(node)
                    n_nested += 1
    return n_nested <= MAX_NESTED


def _fill(
    loop: UOp, operands: Sequence[UOp], targets: Mapping[int, UOp], rows: dict[int, set[int]]
) -> list[UOp]:
    """Make one effect for each group of results with the same shape, apart from the unrolled axes,
    which are in `rows`.
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
                offset = flatten_index((frame.slice_index, *at), (frame.count_size, *shape))
                stacked.append((target.index(offset), value))
            frame.close()
    if frame.parts.go_on is not None:
        frame.condition = frame.pull(frame.parts.go_on, Coordinates(()))
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
    """Yield the coordinates of all cells of a result: loops, and constants along unrolled axes."""
    loops = iter(elements)
    choices: list[Sequence[UOp]] = []
    for axis, size in enumerate(shape):
        if _is_element(rows, position, axis, size):
            choices.append((next(loops),))
        else:
            assert isinstance(size, int)
            choices.append([UOp.const(index, i) for i in range(size)])
    yield from combinations(*choices)


def _bind(loop: UOp, effect: UOp, kernel: FusedKernel) -> UOp:
    """Bind the variables in `effect` as the graph around the loop does."""
    binds = {b.symbol: b for b in loop.src[1:] if b.op is Op.BIND}
    for operand in loop.src:
        for size in (operand, *(s for s in operand.find_shape() or () if not isinstance(s, int))):
            if size.dtype is index:
                binds.update({b.symbol: b for b in size.iter_ops(Op.BIND)})
    # Existing BINDs map to themselves, so that their variables are not bound twice.
    return (
        kernel.substitute(effect, {**binds, **{b: b for b in binds.values()}}) if binds else effect
    )


class _OuterLoop(LoopFrame):
    """The outermost LOOP of a kernel, whose operands are in memory."""

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
        self.slice_index = (
            to_node(self.count_size) - 1 - self.loop if loop.arg.is_reversed else self.loop
        )

    def check_cell(self, slot: int, at: tuple[UOp, ...]) -> None:
        super().check_cell(slot, at)
        for axis, (i, size) in enumerate(zip(at, self.sources[slot].shape, strict=True)):
            if size == 1:
                continue
            if axis not in self.kernel.rows.get(slot, ()):
                if i not in self.elements:
                    self.kernel.unroll(slot, axis, size)
            else:
                self.kernel.get_constant_index(i)

    def read_initial(self, slot: int, at: tuple[UOp, ...]) -> UOp:
        return _read_memory(
            self.memory[1 + slot], flatten_index(at, self.sources[slot].shape), None
        )

    def read_other(self, slot: int, shape: Sequence[SInt], at: Coordinates) -> UOp:
        memory = self.memory[1 + slot]
        flat = flatten_index(at.indices, shape)
        if slot < self.n_carried + self.arg.n_sliced:
            flat = simplify(self.slice_index * to_node(product(shape)) + flat)
        return _read_memory(memory, flat, at.valid)

    def finish(
        self, final: list[tuple[UOp, UOp]], stacked: list[tuple[UOp, UOp]], elements: Sequence[UOp]
    ) -> UOp:
        """Return the effect that stores the stacked values in each iteration, and the final values
        after the last one.
        """
        conditions = [] if self.condition is None else [self.condition]
        cells = self.list_needed([*(v for _, v in stacked), *(c for _, c in final), *conditions])
        end: UOp | None = None
        stores = [UOp(Op.STORE, void, pair) for pair in stacked]
        if self.size == 1:
            stores = [self.bind_first_iteration(self.bind_iteration(s)) for s in stores]
        elif self.size != 0 and (cells or stores):
            end = self.make_end(cells, stores)
        effects = [location.store(self.get_final(cell, end)) for location, cell in final]
        if end is not None and not any(end in e.toposort() for e in effects):
            effects.append(end)
        elif end is None:
            effects += stores
        return group_effects(effects).end(*(r for r in elements if r.op is Op.RANGE))


def _read_memory(memory: UOp, flat: UOp, gate: UOp | None) -> UOp:
    """Load an element of memory, or recompute it if the memory holds a cheap constant expression,
    such as zeros.
    """
    if memory.op is not Op.BUFFERIZE or not _is_free(memory.source):
        return memory.index(flat, gate=gate)
    shape = memory.shape
    indices = move_reshape(shape, (product(shape),), (flat,))
    value = memory.source.substitute(
        {r: i for r, i in zip(memory.loops, indices, strict=True) if r.op is Op.RANGE}
    )
    return value if gate is None else gate.where(value, 0)


def _is_free(value: UOp) -> bool:
    nodes = value.toposort()
    return len(nodes) <= MAX_FREE and all(n.op in INDEX_OPS for n in nodes)


def _list_operations(effect: UOp) -> list[UOp]:
    return [n for n in effect.toposort() if n.op in ELEMENTWISE and n.dtype is not index]


def _check_length(effect: UOp) -> None:
    if sum(TABLE[n.op].instructions for n in _list_operations(effect)) > MAX_INSTRUCTIONS:
        raise NotFusableError


def _check_gain(
    loop: UOp, effect: UOp, domain: Sequence[SInt], rows: Mapping[int, set[int]]
) -> None:
    """Raise NotFusableError if a loop of vectorized kernels is faster than the unrolled scalars."""
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
