"""expand: vectorize and unroll UPCAST and UNROLL axes.

before → after, for UPCAST u of 8 in `STORE(INDEX(p, r * 8 + u), ADD(INDEX(a, r * 8 + u), INDEX(b,
r)))`:

    STORE(INDEX(p, r * 8):f32x8, ADD(INDEX(a, r * 8):f32x8, BROADCAST(INDEX(b, r))))

Of the axes that a value depends on, one becomes its lanes: the axis along which memory is accessed
contiguously. Along the others the value is unrolled, with one copy per combination of their
coordinates. Vectors are never split again: the target's compiler sees the vectors made here.

A reduction whose lanes are the reduced elements gives one scalar per result of its register tile.
The results along one axis of the tile are joined to a vector,

    VECTORIZE(REDUCE(...), ...)

so that the epilogue of a dot product (bias, activation and store) is vectorized.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as combinations
from math import prod

from svod_dtype import index, void
from svod_ir import AxisType, FreshIds, Op, TensorCore, UOp, max_trips
from svod_schedule._linear_index import access_cost, find_stride
from svod_schedule.lower.vectors.tiles import add_to, is_tile, make_tiles
from svod_schedule.lower.vectors.transposed_reads import (
    TRANSPOSED_COST,
    find_contiguous_axis,
    is_transposed_read,
    transpose,
    transpose_reads,
)
from svod_schedule.lower.vectors.vector_access import merge_accesses
from svod_schedule.symbolic import simplify

__all__ = ["choose_lane_axes", "expand", "widen"]

_EXPANDED = (AxisType.UPCAST, AxisType.UNROLL, AxisType.TILE_N, AxisType.TILE_M)
MAX_ACCUMULATORS = 8
"""Maximum number of copies of a reduction with separate accumulators; more copies share one."""


def expand(sink: UOp, cores: tuple[TensorCore, ...] = ()) -> UOp:
    """Expand UPCAST and UNROLL ranges, and the tiles of tensor cores, which are among `cores`."""
    axes = [n for n in sink.iter_ops(Op.RANGE) if n.arg.kind in _EXPANDED]
    if not axes:
        return sink
    expanded = _Expander(sink, axes, cores).run()
    # The rows of a tile are many copies whose indices differ by constants: folded, these become
    # immediate offsets of the instructions.
    has_tiles = any(is_tile(n) for n in expanded.iter_ops(Op.WMMA))
    return _fold_positions(expanded, simplify if has_tiles else _put_constants_last)


def _fold_positions(sink: UOp, fold: Callable[[UOp], UOp]) -> UOp:
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        if node.op is Op.INDEX and new.position.dtype.lanes == 1:
            new = new.with_src((new.memory, fold(new.position), *new.src[2:]))
        done[node] = new
    return done[sink]


def _put_constants_last(position: UOp) -> UOp:
    """Add the constants of a sum after its other terms, which the copies of an access then share."""
    terms: list[UOp] = []
    total = 0
    stack = [position]
    while stack:
        node = stack.pop()
        if node.op is Op.ADD:
            stack += (node.right, node.left)
        elif node.op is Op.CONST:
            total += int(node.arg)
        elif node.op is Op.MUL and all(s.op is Op.CONST for s in node.src):
            total += int(node.left.arg) * int(node.right.arg)
        else:
            terms.append(node)
    if not terms:
        return position
    rest = sum(terms[1:], terms[0])
    return rest + total if total else rest


def choose_lane_axes(sink: UOp, axes: Sequence[UOp]) -> set[UOp]:
    """Choose the axes that become vector lanes: the columns of a tensor core first, then axes by the
    number of accesses that vectorization saves. A value depends on at most one of them.

    Accesses are weighted by the number of executions; n contiguous accesses become one."""
    order = sink.toposort()
    depends = _dependences(order, axes)
    loops = _get_loops(order)
    written = {n.location for n in order if n.op is Op.STORE}
    gain = dict.fromkeys(axes, 0.0)
    for node, mask in depends.items():
        if node.op is Op.INDEX:
            n_executions = max_trips(*loops.get(node, node.ranges))
            for bit, axis in enumerate(axes):
                if mask >> bit & 1:
                    cost = access_cost(node, axis, max_trips(axis), is_read=node not in written)
                    if cost > 1 and node not in written and find_contiguous_axis(node, axis, axes):
                        cost = TRANSPOSED_COST
                    gain[axis] += n_executions * (1 - cost)
        elif node.op is Op.ADVANCE:
            # Carried values are computed in vectors, whatever the layout of their initial and final
            # values in memory.
            for axis in axes:
                if axis in node.ranges:
                    gain[axis] += max_trips(*node.ranges) * len(node.carried)
    chosen: set[UOp] = set()
    taken = 0
    masks = set(depends.values())
    # The packing of a tensor core's tile is vectorized by `make_tiles`.
    fills = [
        depends[n.body]
        for n in order
        if n.op is Op.END and any(r.arg.kind is AxisType.TILE_K for r in n.loops)
    ]
    for axis in sorted(axes, key=lambda a: (not _is_column(a), -gain[a])):
        # Only powers of two: LLVM widens or splits a vector of another number of lanes.
        bit = 1 << axes.index(axis)
        size = max_trips(axis)
        is_profitable = (
            gain[axis] > 0 and size & (size - 1) == 0 and not any(m & bit for m in fills)
        )
        if (is_profitable or _is_column(axis)) and not any(m & bit and m & taken for m in masks):
            chosen.add(axis)
            taken |= bit
    return chosen


def _is_column(axis: UOp) -> bool:
    return axis.arg.kind is AxisType.TILE_N


def _get_loops(order: Sequence[UOp]) -> dict[UOp, frozenset[UOp]]:
    """Map each access that depends on the loops of a reduction, or is stored to, to all loops that
    execute it: also those that its own position does not depend on.
    """
    loops: dict[UOp, frozenset[UOp]] = {}
    for outer in order:
        if outer.op is Op.REDUCE:
            own = frozenset(outer.loops)
            for node in outer.source.iter_ops(Op.INDEX):
                if node.ranges & own:
                    loops[node] = loops.get(node, node.ranges) | outer.source.ranges
        elif outer.op is Op.STORE:
            # Memory of a kernel's own is filled again by each iteration of the loops around it.
            location = outer.location
            loops[location] = loops.get(location, location.ranges) | outer.ranges
    return loops


def _dependences(order: Sequence[UOp], axes: Sequence[UOp]) -> dict[UOp, int]:
    """Map each node to a bit mask of the `axes` that its value depends on."""
    bits = {axis: 1 << i for i, axis in enumerate(axes)}
    mask: dict[UOp, int] = {}
    for node in order:
        own = bits.get(node, 0)
        for operand in node.src:
            own |= mask[operand]
        if node.op in (Op.REDUCE, Op.END) or _is_join(node):
            for r in node.src[1:]:
                own &= ~bits.get(r, 0)
        if is_transposed_read(node):
            _, copies, _, _ = node.src
            own &= ~bits.get(copies, 0)
        if node.op is Op.END:
            # All copies of an effect share one loop.
            own = 0
        mask[node] = own
    return mask


def _is_join(node: UOp) -> bool:
    """Whether a node is `VECTORIZE(x, inside, axis)`, which exists only in this pass: the copies of x
    along the axis `inside` as the lanes of `axis`.
    """
    if node.op is not Op.VECTORIZE or len(node.src) != 3:
        return False
    _, inside, _ = node.src
    return inside.op is Op.RANGE


def _is_vector(node: UOp) -> bool:
    """Whether a node was vectorized by `merge_accesses` or `make_tiles` already."""
    return node.dtype.lanes > 1


def _horizontal(sink: UOp, lanes: set[UOp]) -> list[UOp]:
    return [n for n in sink.iter_ops(Op.REDUCE) if any(r in lanes for r in n.loops)]


def _find_joined_axis(sink: UOp, axes: Sequence[UOp], lanes: set[UOp]) -> UOp | None:
    """Find an axis of a tile of dot products along which all accesses of the epilogue are contiguous."""
    reduces = _horizontal(sink, lanes)
    if not reduces:
        return None
    inside = {n for r in reduces for n in r.stop.toposort()}
    outside = [n for n in sink.iter_ops(Op.INDEX) if n not in inside]
    for axis in axes:
        size = max_trips(axis)
        strides = [find_stride(n.position, axis) for n in outside if axis in n.ranges]
        is_free = not any(axis in n.ranges and lanes & n.ranges for n in outside)
        if (
            axis not in lanes
            and size & (size - 1) == 0
            and strides
            and all(s == 1 for s in strides)
            and is_free
        ):
            return axis if all(axis in r.ranges for r in reduces) else None
    return None


def _join_results(sink: UOp, axis: UOp, inside: UOp, lanes: set[UOp]) -> UOp:
    """Replace `axis` by `inside` in the horizontal reductions, whose results become lanes of
    `axis`.
    """
    reduces = set(_horizontal(sink, lanes))
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        if node in reduces:
            new = UOp(Op.VECTORIZE, node.dtype, (node.substitute({axis: inside}), inside, axis))
        done[node] = new
    return done[sink]


class _Expander:
    """Expansion of a kernel: `copied` are the unrolled axes, `lane_axes` the vectorized ones, of which
    a value depends on at most one.
    """

    def __init__(self, sink: UOp, axes: list[UOp], cores: tuple[TensorCore, ...]) -> None:
        lanes = choose_lane_axes(sink, axes)
        joined = _find_joined_axis(sink, axes, lanes)
        if joined is not None:
            inside = FreshIds(sink).make_range(joined.stop, joined.arg.kind)
            sink = _join_results(sink, joined, inside, lanes)
            axes = [*axes, inside]
            lanes = lanes | {joined}
        sink, own_lanes, own_copies = transpose_reads(sink, lanes, axes)
        axes, lanes = [*axes, *own_lanes, *own_copies], lanes.union(own_lanes)
        self.lane_axes = [a for a in axes if a in lanes]
        self.copied = [a for a in axes if a not in lanes]
        self.expanded = set(axes)
        self.sizes = [max_trips(a) for a in self.copied]
        # Tiles first: `make_tiles` finds the strides of operands along the core's axes, which are
        # lane axes too, and would be gone.
        self.sink = merge_accesses(make_tiles(sink, cores), self.lane_axes)
        self.mask: dict[UOp, int] = {}
        self.lanes: dict[UOp, int] = {}
        self.copies: dict[UOp, list[UOp]] = {}
        self.projections: dict[tuple[int, int], list[int]] = {}

    def run(self) -> UOp:
        order = self.sink.toposort()
        self.mask = _dependences(order, self.copied)
        for node in order:
            self.lanes[node] = self._count_lanes(node)
            self.copies[node] = self._expand(node)
        return self.copies[self.sink][0]

    def _count_lanes(self, node: UOp) -> int:
        if node in self.lane_axes:
            return max_trips(node)
        if _is_vector(node):
            return node.dtype.lanes
        if node.op in (Op.REDUCE, Op.END) and any(r in self.lane_axes for r in node.loops):
            return 1
        if node.op is Op.AFTER:
            return self.lanes[node.source]
        return max((self.lanes[s] for s in node.src), default=1)

    def _axes_in(self, mask: int) -> list[int]:
        return [i for i in range(len(self.copied)) if mask >> i & 1]

    def _n_copies(self, mask: int) -> int:
        return prod(self.sizes[i] for i in self._axes_in(mask))

    def _project(self, outer: int, inner: int) -> list[int]:
        """Map the copies over the axes in `outer` to the indices of copies over the axes in `inner`."""
        # Few pairs of masks occur, each at many nodes.
        indices = self.projections.get((outer, inner))
        if indices is None:
            axes = self._axes_in(outer)
            indices: list[int] | None = []
            for coordinates in combinations(*(range(self.sizes[a]) for a in axes)):
                position = 0
                for axis, coordinate in zip(axes, coordinates, strict=True):
                    if inner >> axis & 1:
                        position = position * self.sizes[axis] + coordinate
                indices.append(position)
            self.projections[(outer, inner)] = indices
        return indices

    def _expand(self, node: UOp) -> list[UOp]:
        if node in self.expanded:
            size = max_trips(node)
            if node in self.lane_axes:
                return [UOp(Op.VCONST, index.vec(size), (), tuple(range(size)))]
            return [UOp.const(index, i) for i in range(size)]
        match node.op:
            case Op.REDUCE:
                return self._reduce(node)
            case Op.END:
                return self._end(node)
            case Op.VECTORIZE if _is_join(node):
                return self._join(node)
            case Op.VECTORIZE if is_transposed_read(node):
                return self._transpose(node)
            case Op.SINK | Op.GROUP if not self.mask[node]:
                return [node.with_src(tuple(c for s in node.src for c in self.copies[s]))]
            case _:
                return self._plain(node)

    def _plain(self, node: UOp) -> list[UOp]:
        mask = self.mask[node]
        operands = [(self.copies[s], self._project(mask, self.mask[s])) for s in node.src]
        build = self._builder(node, self.lanes[node])
        return [
            build(tuple(copies[where[i]] for copies, where in operands))
            for i in range(self._n_copies(mask))
        ]

    def _builder(self, node: UOp, lanes: int) -> Callable[[tuple[UOp, ...]], UOp]:
        if lanes == 1 or _is_vector(node):
            return node.with_src
        if node.op is Op.INDEX:
            # A non-contiguous index is a vector of indices: a gather or scatter.
            dtype = node.dtype.vec(lanes)
            return lambda src: UOp(Op.INDEX, dtype, (src[0], *(widen(s, lanes) for s in src[1:])))
        if node.op is Op.AFTER:
            return lambda src: UOp(Op.AFTER, src[0].dtype, src)
        if node.op is Op.STORE:
            return lambda src: UOp(Op.STORE, void, (src[0], widen(src[1], src[0].dtype.lanes)))
        if node.op is Op.SCAN:
            dtype = node.dtype.vec(lanes)
            return lambda src: UOp(Op.SCAN, dtype, (widen(src[0], lanes), src[1]), node.arg)
        if node.op is Op.ADVANCE:
            return _advance
        if node.dtype is void:
            return node.with_src
        dtype = node.dtype.vec(lanes)
        return lambda src: UOp(node.op, dtype, tuple(widen(s, lanes) for s in src), node.arg)

    def _join(self, node: UOp) -> list[UOp]:
        value, inside, axis = node.src
        kept, dtype = self.mask[node], node.dtype.vec(max_trips(axis))
        members = self._members(kept, value, 1 << self.copied.index(inside))
        return [UOp(Op.VECTORIZE, dtype, tuple(values)) for values in members]

    def _transpose(self, node: UOp) -> list[UOp]:
        value, copies, along, _ = node.src
        own = 1 << self.copied.index(along)
        mask, kept = self.mask[node], self.mask[node] & ~own
        tiles = [
            transpose(rows) for rows in self._members(kept, value, 1 << self.copied.index(copies))
        ]
        where = zip(self._project(mask, kept), self._project(mask, own), strict=True)
        return [tiles[tile][row] for tile, row in where]

    def _members(self, kept: int, value: UOp, folded: int) -> list[list[UOp]]:
        """Group the copies of `value` over the axes in `folded` by the axes in `kept`."""
        where = self._project(kept | folded, self.mask[value])
        groups = self._project(kept | folded, kept)
        members: list[list[UOp]] = [[] for _ in range(self._n_copies(kept))]
        for position, group in zip(where, groups, strict=True):
            members[group].append(self.copies[value][position])
        return members

    def _end(self, node: UOp) -> list[UOp]:
        # One loop for all copies of the effect, see `_dependences`.
        effects = self.copies[node.body]
        loops = tuple(self.copies[r][0] for r in node.loops if r not in self.expanded)
        effect = effects[0] if len(effects) == 1 else UOp(Op.GROUP, void, tuple(effects))
        return [effect.end(*loops)]

    def _reduce(self, node: UOp) -> list[UOp]:
        value, op = node.source, node.arg
        loops = tuple(r for r in node.loops if r not in self.expanded)
        own_lanes = [r for r in node.loops if r in self.lane_axes]
        lanes = int(own_lanes[0].vmax) + 1 if own_lanes else self.lanes[value]
        folded = sum(1 << i for i, a in enumerate(self.copied) if a in node.loops)
        kept = self.mask[node]
        members = self._members(kept, value, folded)
        results: list[UOp] = []
        for copies in members:
            values = [widen(v, lanes) for v in copies]
            # Separate accumulators hide the latency of an addition. Beyond the limit they would
            # spill, and the copies of a register tile are independent chains already.
            if loops and len(values) * len(members) <= MAX_ACCUMULATORS and not is_tile(values[0]):
                total = _combine(op, [UOp(Op.REDUCE, v.dtype, (v, *loops), op) for v in values])
            else:
                total = _chain(op, values)
                total = UOp(Op.REDUCE, total.dtype, (total, *loops), op) if loops else total
            results.append(UOp(Op.REDUCE, total.dtype.scalar, (total,), op) if own_lanes else total)
        return results


def _advance(src: tuple[UOp, ...]) -> UOp:
    half = len(src) // 2
    values = (widen(v, c.dtype.lanes) for c, v in zip(src[:half], src[half:], strict=True))
    return UOp(Op.ADVANCE, void, (*src[:half], *values))


def widen(value: UOp, lanes: int) -> UOp:
    """Broadcast a scalar to `lanes` lanes."""
    if lanes == 1 or value.dtype.lanes == lanes:
        return value
    # A vector constant keeps rules on constants applicable, which a BROADCAST would hide.
    if value.op is Op.CONST:
        return UOp.const(value.dtype.vec(lanes), value.arg)
    return UOp(Op.BROADCAST, value.dtype.vec(lanes), (value,))


def _combine(op: Op, values: list[UOp]) -> UOp:
    """Reduce values pairwise."""
    # Pairwise, since the chains end together and their sum is on the critical path.
    while len(values) > 1:
        paired = [UOp(op, a.dtype, (a, b)) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = paired + values[len(paired) * 2 :]
    return values[0]


def _chain(op: Op, values: list[UOp]) -> UOp:
    """Reduce values from the left, in the order of an accumulator."""
    total = values[0]
    for value in values[1:]:
        total = (
            add_to(total, value) if value.op is Op.WMMA else UOp(op, total.dtype, (total, value))
        )
    return total
