"""Lowering of reductions over a tensor core's tile to WMMAs, and of the packing of its operands to
vector copies.

before → after, for a core that multiplies 1 x 4 by 4 x 16 (c is a TILE_N, j a TILE_K axis):

    REDUCE(CAST(x[m * 64 + k * 4 + j]) * CAST(w[k * 64 + c * 4 + j]), k, j; ADD)

    REDUCE(WMMA(x[m * 64 + k * 4]:u8x4, w[k * 64]:i8x64, 0), k; ADD)

A result of one row is a vector along the columns. A result of several rows is stored to private
memory, from which the rows are read as vectors, since a tile supports no other arithmetic. Operands
whose layout in memory differs from the order of their lanes are staged in private memory as well.

An END over TILE_K axes packs an operand to private memory. Its vectors are loaded as a whole if they
are contiguous, concatenated from contiguous rows, or transposed if the elements of different lanes
are contiguous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from svod_dtype import index, void
from svod_ir import AxisType, FreshIds, Op, TensorCore, UOp, max_trips
from svod_schedule._linear_index import find_stride
from svod_schedule.lower.vectors.products import find_core, get_locations, is_tiled, tile_axes
from svod_schedule.symbolic import simplify

__all__ = ["add_to", "is_tile", "make_tiles"]


def make_tiles(sink: UOp, cores: tuple[TensorCore, ...]) -> UOp:
    """Rewrite TILE_K axes to WMMAs and vector copies."""
    if not any(r.arg.kind is AxisType.TILE_K for r in sink.iter_ops(Op.RANGE)):
        return sink
    maker = _TileMaker(sink, cores)
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        if node.op is Op.REDUCE and is_tiled(node):
            new = maker.multiply(node, done)
        elif node.op is Op.END and any(r.arg.kind is AxisType.TILE_K for r in node.loops):
            new = _fill(new)
        done[node] = new
    return done[sink]


def is_tile(value: UOp) -> bool:
    """Whether `value` is a tile of several rows."""
    return value.op is Op.WMMA and value.arg.dims[1] > 1


def add_to(total: UOp, value: UOp) -> UOp:
    """Return `total` + `value`, where `value` is a chain of WMMAs that starts with zeros."""
    # A core adds to its accumulator for free: the total replaces the zeros at the chain's start.
    chain: list[UOp] = []
    while value.op is Op.WMMA:
        chain.append(value)
        value = value.accumulator
    for link in reversed(chain):
        total = link.with_src((*link.src[:2], total))
    return total


class _TileMaker:
    """Lowering of products, with tiles in private memory."""

    def __init__(self, sink: UOp, cores: tuple[TensorCore, ...]) -> None:
        self.cores = cores
        self.fresh = FreshIds(sink)

    def multiply(self, node: UOp, done: dict[UOp, UOp]) -> UOp:
        match = find_core(node, self.cores)
        assert match is not None, node
        core, a, b = match
        rows, columns = tile_axes(a, AxisType.TILE_M), tile_axes(b, AxisType.TILE_N)
        depth = [r for r in node.loops if r.arg.kind is AxisType.TILE_K]
        dtype_a, dtype_b, dtype = core.operand_dtypes
        values = (
            _read_value(a, done, [*rows, *depth]).cast(dtype_a),
            # b's lanes are groups of depth within columns, the order in which a core multiplies.
            _read_value(b, done, [*depth[:-1], *columns, *depth[-1:]]).cast(dtype_b),
        )
        has_tiles = core.dims[1] > 1
        if has_tiles:
            values = tuple(self._stage(v) for v in values)
        result = UOp(Op.WMMA, dtype, (*values, UOp.const(dtype, 0)), core)
        loops = tuple(r for r in node.loops if r not in depth)
        if has_tiles and not loops:
            # The sum of a single step needs an accumulator as well.
            loops = (self.fresh.make_range(1, AxisType.REDUCE),)
        if loops:
            result = UOp(Op.REDUCE, dtype, (result, *loops), Op.ADD)
        return self._read_row(result, rows[0], columns[0]) if has_tiles else result

    def _stage(self, value: UOp) -> UOp:
        """Return an operand of several rows as a contiguous vector in memory."""
        # Tile instructions load from memory only, so an expression, or a masked read, is stored
        # first.
        return value if value.op is Op.INDEX and value.gate is None else self._keep(value)

    def _keep(self, value: UOp) -> UOp:
        memory, first = self._store(value)
        return memory.index(first).with_dtype(value.dtype)

    def _store(self, value: UOp) -> tuple[UOp, UOp]:
        """Store the lanes of `value` in private memory; return the memory and the offset of this
        copy.
        """
        # Each copy of the tile has its own part of the memory: `expand` makes the copies after
        # this.
        copied = sorted(
            (r for r in value.ranges if r.arg.kind in (AxisType.UPCAST, AxisType.UNROLL)),
            key=lambda r: r.arg.id,
        )
        lanes = value.dtype.lanes
        register = self.fresh.make_register(value.dtype.scalar, lanes * max_trips(*copied))
        first: UOp = UOp.const(index, 0)
        for r in copied:
            first = first * max_trips(r) + r
        first = first * lanes
        return register.after(register.index(first).with_dtype(value.dtype).store(value)), first

    def _read_row(self, tile: UOp, row: UOp, columns: UOp) -> UOp:
        n_columns = max_trips(columns)
        memory, first = self._store(tile)
        return memory.index(first + row * n_columns).with_dtype(tile.dtype.scalar.vec(n_columns))


def _fill(end: UOp) -> UOp:
    """Merge the stores of a tile to one vector store per contiguous run of private memory."""
    store = end.body
    location, value = store.src
    axes = [r for r in end.loops if r.arg.kind is AxisType.TILE_K]
    strides = {r: find_stride(location.position, r) or 0 for r in axes}
    # In the order of private memory, so that the trailing axes make one contiguous store.
    axes.sort(key=lambda r: -strides[r])
    memory = {n.memory: n.memory for n in get_locations(value)}
    packed = _read_value(value, memory, axes)
    n_dense = _count_dense(location.position, axes, [max_trips(r) for r in axes])
    outer, dense = axes[: len(axes) - n_dense], axes[len(axes) - n_dense :]
    n_lanes = max_trips(*dense)
    stores: list[UOp] = []
    for run, coordinates in enumerate(product(*(range(max_trips(r)) for r in outer))):
        fixed = location.substitute(
            {r: UOp.const(index, p) for r, p in zip(outer, coordinates, strict=True)}
        )
        target = _read_vector(fixed, location.memory, dense)
        stores.append(target.store(_take_lanes(packed, run * n_lanes, n_lanes)))
    body = stores[0] if len(stores) == 1 else UOp(Op.GROUP, void, tuple(stores))
    return body.end(*(r for r in end.loops if r not in axes))


def _take_lanes(value: UOp, first: int, n_lanes: int) -> UOp:
    """Extract consecutive lanes of a vector."""
    if value.dtype.lanes == n_lanes:
        return value
    return UOp(
        Op.GEP, value.dtype.scalar.vec(n_lanes), (value,), tuple(range(first, first + n_lanes))
    )


def _read_value(value: UOp, memory: Mapping[UOp, UOp], axes: Sequence[UOp]) -> UOp:
    """Vectorize a location, or an expression of locations, along `axes`; `memory` maps the original
    memory to the rewritten one.
    """
    if value.op is Op.INDEX:
        return _read_vector(value, memory[value.memory], axes)
    read = {n: _read_value(n, memory, axes) for n in get_locations(value)}
    return _spread(value, axes, max_trips(*axes), read)


def _read_vector(location: UOp, memory: UOp, axes: Sequence[UOp]) -> UOp:
    """Read `location` along `axes` as the lanes of a vector, the last axis varying fastest; `memory`
    is its rewritten memory.
    """
    position, gate = location.position, location.gate
    sizes = [max_trips(r) for r in axes]
    run = _count_dense(position, axes, sizes)
    dense = list(axes[len(axes) - run :])
    if not dense:
        # Elements of non-adjacent lanes may be contiguous: load along that axis and transpose.
        dense = [r for r in axes if find_stride(position, r) == 1][:1]
    outer = [r for r in axes if r not in dense]
    n_lanes = max_trips(*dense)
    vectors: list[UOp] = []
    for coordinates in product(*(range(max_trips(r)) for r in outer)):
        fixed = {r: UOp.const(index, p) for r, p in zip(outer, coordinates, strict=True)}
        first = simplify(position.substitute({**fixed, **{r: UOp.const(index, 0) for r in dense}}))
        inside = (
            () if gate is None else (_spread(simplify(gate.substitute(fixed)), dense, n_lanes),)
        )
        vectors.append(UOp(Op.INDEX, location.dtype.vec(n_lanes), (memory, first, *inside)))
    return _order(vectors, n_lanes, axes, [*outer, *dense])


def _count_dense(position: UOp, axes: Sequence[UOp], sizes: list[int]) -> int:
    """Number of trailing axes that are contiguous in memory together."""
    stride = 1
    for n, (r, size) in enumerate(zip(reversed(axes), reversed(sizes), strict=True)):
        if find_stride(position, r) != stride:
            return n
        stride *= size
    return len(axes)


def _order(vectors: list[UOp], n_lanes: int, axes: Sequence[UOp], read_axes: Sequence[UOp]) -> UOp:
    """Concatenate `vectors`, whose lanes are in the order of `read_axes`, in the order of `axes`."""
    n = len(vectors) * n_lanes
    dtype = vectors[0].dtype.scalar.vec(n)
    if len(vectors) == 1:
        joined = vectors[0]
    else:
        joined = UOp(Op.VECTORIZE if n_lanes == 1 else Op.CAT, dtype, tuple(vectors))
    # Without this, every operand would be shuffled by a GEP that changes nothing.
    if list(axes) == list(read_axes):
        return joined
    stride, strides = 1, dict[UOp, int]()
    for r in reversed(read_axes):
        strides[r] = stride
        stride *= max_trips(r)
    lanes = (
        sum(i * strides[r] for i, r in zip(coordinates, axes, strict=True))
        for coordinates in product(*(range(max_trips(r)) for r in axes))
    )
    return UOp(Op.GEP, dtype, (joined,), tuple(lanes))


def _spread(
    value: UOp, axes: Sequence[UOp], n_lanes: int, read: Mapping[UOp, UOp] | None = None
) -> UOp:
    """Vectorize `value` along `axes`; `read` has the vectors of known nodes."""
    if n_lanes == 1 or not any(r in value.ranges for r in axes):
        return value
    spread: dict[UOp, UOp] = dict(read or {})
    stride = n_lanes
    for r in axes:
        size = max_trips(r)
        stride //= size
        spread[r] = UOp(
            Op.VCONST,
            index.vec(n_lanes),
            (),
            tuple(lane // stride % size for lane in range(n_lanes)),
        )
    # Values that all lanes share stay scalar; their readers broadcast them.
    for node in value.toposort(stop=set(spread)):
        if node in spread:
            continue
        if any(r in node.ranges for r in axes):
            src = tuple(_repeat(spread[s], n_lanes) for s in node.src)
            spread[node] = UOp(node.op, node.dtype.vec(n_lanes), src, node.arg)
        else:
            spread[node] = node
    return spread[value]


def _repeat(value: UOp, n_lanes: int) -> UOp:
    if value.dtype.lanes == n_lanes:
        return value
    if value.op is Op.CONST:
        return UOp.const(value.dtype.vec(n_lanes), value.arg)
    return UOp(Op.BROADCAST, value.dtype.vec(n_lanes), (value,))
