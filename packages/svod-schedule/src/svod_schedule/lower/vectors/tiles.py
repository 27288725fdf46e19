"""Reductions over the tile of a tensor core become WMMAs, and the copies that lay out its operands
whole vectors.

before → after, for a core that multiplies 1 x 4 by 4 x 16 (c is a TILE_N, j a TILE_K axis):

    REDUCE(CAST(x[m * 64 + k * 4 + j]) * CAST(w[k * 64 + c * 4 + j]), k, j; ADD)

    REDUCE(WMMA(x[m * 64 + k * 4]:u8x4, w[k * 64]:i8x64, 0), k; ADD)

A result of one row is a vector along the columns. One of several rows is stored to private memory
as it is, from where the rows are read as vectors, since there is no other arithmetic on a whole
tile; and so are operands that do not lie in memory in the order of their lanes.

An END over TILE_K axes fills private memory. Its vectors are loaded whole where they lie together,
put together from rows of them, or turned round where the elements that lie together are those of
different lanes."""

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
    """`sink` without TILE_K axes."""
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
    """`total` + `value`, a chain of WMMAs that begins with zeros."""
    chain: list[UOp] = []
    while value.op is Op.WMMA:
        chain.append(value)
        value = value.accumulator
    for link in reversed(chain):
        total = link.with_src((*link.src[:2], total))
    return total


class _TileMaker:
    """Keeps tiles in private memory."""

    def __init__(self, sink: UOp, cores: tuple[TensorCore, ...]) -> None:
        self.cores = cores
        self.fresh = FreshIds(sink)

    def multiply(self, node: UOp, done: dict[UOp, UOp]) -> UOp:
        found = find_core(node, self.cores)
        assert found is not None, node
        core, a, b = found
        rows, columns = tile_axes(a, AxisType.TILE_M), tile_axes(b, AxisType.TILE_N)
        depth = [r for r in node.loops if r.arg.kind is AxisType.TILE_K]
        dtype_a, dtype_b, dtype = core.operand_dtypes
        values = (
            _read_value(a, done, [*rows, *depth]).cast(dtype_a),
            _read_value(b, done, [*depth[:-1], *columns, *depth[-1:]]).cast(dtype_b),
        )
        has_tiles = core.dims[1] > 1
        if has_tiles:
            values = tuple(self._stage(v) for v in values)
        result = UOp(Op.WMMA, dtype, (*values, UOp.const(dtype, 0)), core)
        loops = tuple(r for r in node.loops if r not in depth)
        if has_tiles and not loops:
            # The sum of a single step has a register of its own all the same.
            loops = (self.fresh.make_range(1, AxisType.REDUCE),)
        if loops:
            result = UOp(Op.REDUCE, dtype, (result, *loops), Op.ADD)
        return self._read_row(result, rows[0], columns[0]) if has_tiles else result

    def _stage(self, value: UOp) -> UOp:
        """An operand with several rows as a whole vector of memory."""
        return value if value.op is Op.INDEX and value.gate is None else self._keep(value)

    def _keep(self, value: UOp) -> UOp:
        memory, first = self._store(value)
        return memory.index(first).with_dtype(value.dtype)

    def _store(self, value: UOp) -> tuple[UOp, UOp]:
        """Private memory that holds the lanes of `value`, and where those of this copy begin."""
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
    """The stores of a tile as one, or as one for each part that lies together in private memory."""
    store = end.body
    location, value = store.src
    axes = [r for r in end.loops if r.arg.kind is AxisType.TILE_K]
    strides = {r: find_stride(location.position, r) or 0 for r in axes}
    axes.sort(key=lambda r: -strides[r])
    memory = {n.memory: n.memory for n in get_locations(value)}
    whole = _read_value(value, memory, axes)
    n_dense = _count_dense(location.position, axes, [max_trips(r) for r in axes])
    apart, together = axes[: len(axes) - n_dense], axes[len(axes) - n_dense :]
    n_lanes = max_trips(*together)
    stores: list[UOp] = []
    for part, place in enumerate(product(*(range(max_trips(r)) for r in apart))):
        fixed = location.substitute(
            {r: UOp.const(index, p) for r, p in zip(apart, place, strict=True)}
        )
        target = _read_vector(fixed, location.memory, together)
        stores.append(target.store(_take_lanes(whole, part * n_lanes, n_lanes)))
    body = stores[0] if len(stores) == 1 else UOp(Op.GROUP, void, tuple(stores))
    return body.end(*(r for r in end.loops if r not in axes))


def _take_lanes(value: UOp, first: int, n_lanes: int) -> UOp:
    """Some lanes of a vector side by side."""
    if value.dtype.lanes == n_lanes:
        return value
    return UOp(
        Op.GEP, value.dtype.scalar.vec(n_lanes), (value,), tuple(range(first, first + n_lanes))
    )


def _read_value(value: UOp, memory: Mapping[UOp, UOp], axes: Sequence[UOp]) -> UOp:
    """A location, or an expression of locations, along `axes`; `memory` gives where each
    lies now.
    """
    if value.op is Op.INDEX:
        return _read_vector(value, memory[value.memory], axes)
    read = {n: _read_value(n, memory, axes) for n in get_locations(value)}
    return _spread(value, axes, max_trips(*axes), read)


def _read_vector(location: UOp, memory: UOp, axes: Sequence[UOp]) -> UOp:
    """What `location` is along `axes`, the last one first, as the lanes of a vector; `memory` is
    where it lies now.
    """
    position, gate = location.position, location.gate
    sizes = [max_trips(r) for r in axes]
    run = _count_dense(position, axes, sizes)
    dense = list(axes[len(axes) - run :])
    if not dense:
        # What lies together may be elements of different lanes.
        dense = [r for r in axes if find_stride(position, r) == 1][:1]
    others = [r for r in axes if r not in dense]
    n_lanes = max_trips(*dense)
    parts: list[UOp] = []
    for place in product(*(range(max_trips(r)) for r in others)):
        fixed = {r: UOp.const(index, p) for r, p in zip(others, place, strict=True)}
        first = simplify(position.substitute({**fixed, **{r: UOp.const(index, 0) for r in dense}}))
        inside = (
            () if gate is None else (_spread(simplify(gate.substitute(fixed)), dense, n_lanes),)
        )
        parts.append(UOp(Op.INDEX, location.dtype.vec(n_lanes), (memory, first, *inside)))
    return _order(parts, n_lanes, axes, [*others, *dense])


def _count_dense(position: UOp, axes: Sequence[UOp], sizes: list[int]) -> int:
    """How many of the last axes are consecutive in memory."""
    stride = 1
    for n, (r, size) in enumerate(zip(reversed(axes), reversed(sizes), strict=True)):
        if find_stride(position, r) != stride:
            return n
        stride *= size
    return len(axes)


def _order(parts: list[UOp], n_lanes: int, axes: Sequence[UOp], given: Sequence[UOp]) -> UOp:
    """The lanes of `parts`, which are in the order of the axes `given`, in the order of `axes`."""
    n = len(parts) * n_lanes
    dtype = parts[0].dtype.scalar.vec(n)
    if len(parts) == 1:
        whole = parts[0]
    else:
        whole = UOp(Op.VECTORIZE if n_lanes == 1 else Op.CAT, dtype, tuple(parts))
    if list(axes) == list(given):
        return whole
    stride, strides = 1, dict[UOp, int]()
    for r in reversed(given):
        strides[r] = stride
        stride *= max_trips(r)
    places = product(*(range(max_trips(r)) for r in axes))
    return UOp(
        Op.GEP,
        dtype,
        (whole,),
        tuple(sum(p * strides[r] for p, r in zip(place, axes, strict=True)) for place in places),
    )


def _spread(
    value: UOp, axes: Sequence[UOp], n_lanes: int, read: Mapping[UOp, UOp] | None = None
) -> UOp:
    """`value` for each lane along `axes`; of `read`, the vectors are known."""
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
