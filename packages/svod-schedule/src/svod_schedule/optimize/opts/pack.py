"""PACK: copy an operand that a loop reads repeatedly to private memory, in the order in which a
reduction reads it (panel packing).

before → after, for the loop over n of a product whose rows m all read the same columns:

    for n', m, k, u:  REDUCE(x[m * 64 + k] * w[k * 32 + n' * 16 + u], k; ADD)

    for n':           for k, u:  reg[k * 16 + u] = w[k * 32 + n' * 16 + u]
                      for m, k, u:  REDUCE(x[m * 64 + k] * reg[k * 16 + u], k; ADD)

The operands of a tensor core are laid out tile by tile, padded with zeros, and widened to the core's
dtype."""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from math import prod

from svod_dtype import DType, index
from svod_ir import AxisType, FreshIds, Op, TensorCore, UOp, exact_trips, max_trips
from svod_schedule._linear_index import find_stride
from svod_schedule.lower.vectors.products import find_core, get_locations, is_tiled, tile_axes
from svod_schedule.optimize.opts.tensor_cores import gate_operand

__all__ = ["NO_NEST", "SQUARE", "is_widened", "pack_operands"]

NO_NEST = "private memory is filled in a loop over the results of one thread"

STEPS_FILLED = 16
"""Steps of a tensor core for which a row is copied at a time: a vector of groups of 32 bits."""

LINE = 16
"""Elements of a converted row per cache line."""

SQUARE = 8
"""Rows and columns of the tiles in which a block is transposed while it is packed."""

MAX_PRIVATE_BYTES = 1 << 20
"""Maximum private memory of a kernel. It is on the stack: threads of other libraries have stacks of
few mebibytes, and an overflow ends the process.
"""

MAX_VARYING_BYTES = 1 << 19
"""Maximum private memory of an operand whose size is not constant."""


def pack_operands(sink: UOp, axis: UOp | None, cores: tuple[TensorCore, ...]) -> UOp | str:
    """Pack the operands that one iteration of loop `axis`, or the whole work of a thread, reads
    repeatedly; return the reason if nothing can be packed.
    """
    nest = next(
        (n.loops for n in sink.src if n.op is Op.END and (axis is None or axis in n.loops)), None
    )
    if nest is None:
        return NO_NEST
    outer = () if axis is None else nest[: nest.index(axis) + 1]
    enclosing = {
        r
        for r in nest
        if r.arg.kind is AxisType.THREAD or (r.arg.kind is AxisType.LOOP and r in outer)
    }
    # A loop of one iteration does not repeat a load.
    inside = [
        r for r in nest if r.arg.kind is AxisType.LOOP and r not in enclosing and max_trips(r) > 1
    ]
    tiles = _get_tile_dtypes(sink, cores)
    lanes = _list_lanes(sink)

    def is_reused(load: UOp) -> bool:
        if inside:
            # It is repeated in each iteration of the next inner loop.
            return inside[0] not in load.ranges
        return load in tiles or (
            axis in load.ranges
            and (is_widened(load) or _is_gathered(load, load.ranges - enclosing, lanes))
        )

    reused = [n for n in _reduction_loads(sink, tiles) if is_reused(n)]
    if not reused:
        return "no load of a reduction is repeated inside the loop"
    packed: dict[UOp, UOp] = {}
    fresh = FreshIds(sink)
    n_bytes = _count_bytes(sink)
    for load in reused:
        own = sorted(load.ranges - enclosing, key=lambda r: _layout_rank(r, load))
        dtype = tiles.get(load, load.dtype)
        if not _has_room(own, dtype, is_tile=load in tiles):
            return "a packed axis has no constant size"
        location = _make_packed(load, own, dtype, fresh)
        n_bytes += _count_bytes(location)
        if n_bytes > MAX_PRIVATE_BYTES:
            return (
                f"more than {MAX_PRIVATE_BYTES} bytes of private memory, which is on the stack of a"
                " thread"
            )
        packed[load] = location if load.op is Op.INDEX else location.cast(load.dtype)
    return sink.substitute(packed)


def _count_bytes(graph: UOp) -> int:
    """Count the bytes of private memory of a graph."""
    return sum(n.arg.size * n.dtype.itemsize for n in graph.iter_ops(Op.DEFINE_REG))


def _get_tile_dtypes(sink: UOp, cores: tuple[TensorCore, ...]) -> dict[UOp, DType]:
    """Map the operands of tensor cores that are not packed yet to the dtype that the core takes."""
    dtypes: dict[UOp, DType] = {}
    for reduce in sink.iter_ops(Op.REDUCE):
        match = find_core(reduce, cores)
        if match is not None:
            core, *operands = match
            dtypes.update(
                (n, d)
                for n, d in zip(operands, core.dtypes, strict=False)
                if all(x.memory.op is Op.PARAM for x in get_locations(n))
            )
    return dtypes


def _has_room(own: list[UOp], dtype: DType, *, is_tile: bool) -> bool:
    if any(r.arg.kind is AxisType.SCAN or r.stop.ranges for r in own):
        return False
    is_constant = all(isinstance(exact_trips(r), int) for r in own)
    return is_constant or (is_tile and max_trips(*own) * dtype.itemsize <= MAX_VARYING_BYTES)


def _reduction_loads(sink: UOp, tiles: Mapping[UOp, DType]) -> list[UOp]:
    """List the operands of tensor cores, the widened operands of products, and all other loads inside
    reductions.
    """
    loads: dict[UOp, None] = {}
    for reduce in sink.iter_ops(Op.REDUCE):
        loops = set(reduce.loops)
        whole = set(tiles)
        if not is_tiled(reduce):
            whole.update(filter(is_widened, reduce.source.src))
        candidates = (
            n
            for n in reduce.source.toposort(stop=whole)
            if n in whole or (n.op is Op.INDEX and n.memory.op is Op.PARAM)
        )
        loads.update((n, None) for n in candidates if n.ranges & loops)
    return list(loads)


def is_widened(operand: UOp) -> bool:
    """Whether an operand of a product is a load that is converted to a wider float: it is packed after
    the conversion.
    """
    if operand.op is Op.INDEX or not operand.dtype.is_float:
        return False
    locations = get_locations(operand)
    return len(locations) == 1 and (
        locations[0].memory.op is Op.PARAM and locations[0].dtype.itemsize < operand.dtype.itemsize
    )


def _layout_rank(r: UOp, load: UOp) -> tuple[int, int]:
    """Sort key of an axis in the packed layout: loops are outermost, then, for one step of the core,
    rows of a, groups of b's rows, b's columns, and the elements of a group.
    """
    range_id, kind = r.arg
    if r is _find_steps(load):
        return 2, range_id
    if kind is AxisType.TILE_K:
        return 5 if r is tile_axes(load, kind)[-1] else 3, range_id
    return {AxisType.UPCAST: 1, AxisType.TILE_M: 2, AxisType.TILE_N: 4}.get(kind, 0), range_id


def _find_steps(load: UOp) -> UOp | None:
    """Find the axis over the steps of a row of a that is contiguous: several steps are packed as one
    vector.
    """
    groups = tile_axes(load, AxisType.TILE_K)
    if len(groups) != 1 or tile_axes(load, AxisType.TILE_N) or tile_axes(load, AxisType.TILE_M):
        return None
    locations, size = get_locations(load), exact_trips(groups[0])
    for r in sorted(load.ranges, key=lambda r: r.arg.id):
        if r.arg.kind is AxisType.REDUCE and isinstance(exact_trips(r), int) and int(r.vmax) > 0:
            strides = {
                (find_stride(n.position, groups[0]), find_stride(n.position, r)) for n in locations
            }
            if strides == {(1, size)}:
                return r
    return None


def _make_packed(load: UOp, own: list[UOp], dtype: DType, fresh: FreshIds) -> UOp:
    """Make the location in private memory that holds the value of `load`; `own` are the axes of the
    packed block.
    """
    run = _find_run(load, own)
    if run is not None:
        own = [*(r for r in own if r is not run), run]
    sizes = [max_trips(r) for r in own]
    loops = [
        fresh.make_range(r.stop, _fill_kind(r, load) if run is None else AxisType.LOOP) for r in own
    ]
    positions, is_inside = list(loops), None
    steps = _find_steps(load)
    if steps is not None:
        i = own.index(steps)
        n_steps, steps_per_vector = sizes[i], min(STEPS_FILLED, 1 << (sizes[i].bit_length() - 1))
        n_vectors = -(-n_steps // steps_per_vector)
        loops[i] = loops[i].with_src((UOp.const(index, n_vectors),))
        loops.append(fresh.make_range(steps_per_vector, AxisType.TILE_K))
        positions[i] = loops[i] * steps_per_vector + loops[-1]
        sizes[i] = n_vectors * steps_per_vector
        is_inside = positions[i] < n_steps if sizes[i] > n_steps else None
    tiled = _list_square(load, own) if run is None else (run,)
    if run is not None:
        sizes[-1] = _pad_row(sizes[-1])
    tiles: list[UOp] = []
    for r in tiled:
        i = own.index(r)
        loops[i], inner, positions[i] = _tile(r, fresh)
        tiles.append(loops[i])
        loops.append(inner)
    register = fresh.make_register(dtype, prod(sizes))
    value = load.substitute(dict(zip(own, positions, strict=True)))
    if is_inside is not None:
        value = gate_operand(value, is_inside)
    # Tiles along contiguous memory are filled one after the other, before those of other lanes.
    nest = sorted(
        loops,
        key=lambda r: (
            tiles.index(r) if r in tiles else len(tiles),
            not any(
                r is f and _is_filled_sequentially(o, load)
                for o, f in zip(own, loops, strict=False)
            ),
        ),
    )
    fill = register.index(_flat(positions, sizes)).store(value.cast(dtype)).end(*nest)
    return register.after(fill).index(_flat(own, sizes))


def _find_run(load: UOp, own: list[UOp]) -> UOp | None:
    """Find the axis along which an operand that is converted to a wider dtype is contiguous in memory, if
    its lanes are not: it is converted in vectors along this axis.
    """
    if not is_widened(load):
        return None
    position = get_locations(load)[0].position
    runs = (r for r in own if find_stride(position, r) == 1 and max_trips(r) >= SQUARE)
    run = next(runs, None)
    is_vector = run is not None and run.arg.kind is AxisType.UPCAST and max_trips(run) % SQUARE == 0
    return None if is_vector or _list_square(load, own) else run


def _pad_row(size: int) -> int:
    """Round the size of a packed row up to an odd number of cache lines: rows whose distance is a power of
    two would evict each other.
    """
    n_lines = -(-size // LINE)
    return (n_lines | 1) * LINE


def _list_lanes(sink: UOp) -> set[UOp]:
    """The axes of register tiles along which results are contiguous."""
    return {
        r
        for n in sink.iter_ops(Op.STORE)
        for r in n.location.ranges
        if r.arg.kind is AxisType.UPCAST and find_stride(n.location.position, r) == 1
    }


def _is_gathered(load: UOp, own: AbstractSet[UOp], lanes: AbstractSet[UOp]) -> bool:
    """Whether the lanes of a load are far apart: transposing its block in registers is faster than
    loading element by element, even if it is read only once.
    """
    ordered = sorted(own, key=lambda r: _layout_rank(r, load))
    return not lanes.isdisjoint(_list_square(load, ordered))


def _list_square(load: UOp, own: list[UOp]) -> tuple[UOp, ...]:
    """The lanes of a packed block that are far apart in memory, and the reduced axis along which
    memory is contiguous: the block is filled in square tiles, which are transposed in registers.
    """
    locations = get_locations(load)
    if len(locations) != 1 or locations[0].gate is not None or tile_axes(load, AxisType.TILE_K):
        return ()
    position = locations[0].position
    for lanes in own:
        stride = find_stride(position, lanes)
        if (
            lanes.arg.kind is AxisType.UPCAST
            and stride not in (None, 0, 1)
            and max_trips(lanes) % SQUARE == 0
        ):
            return next(
                (
                    (lanes, r)
                    for r in own
                    if r.arg.kind is AxisType.REDUCE
                    and find_stride(position, r) == 1
                    and isinstance(size := exact_trips(r), int)
                    and size >= SQUARE
                ),
                (),
            )
    return ()


def _tile(r: UOp, fresh: FreshIds) -> tuple[UOp, UOp, UOp]:
    """Loops over tiles of the axis `r` and inside of a tile, and the position in the axis; the last tile
    overlaps its neighbor.
    """
    size = max_trips(r)
    outer = fresh.make_range(UOp.const(index, -(-size // SQUARE)), AxisType.LOOP)
    inner = fresh.make_range(UOp.const(index, SQUARE), AxisType.UPCAST)
    start = outer * SQUARE
    if size % SQUARE:
        start = start.minimum(size - SQUARE)
    return outer, inner, start + inner


def _fill_kind(r: UOp, load: UOp) -> AxisType:
    """Choose the kind of the loop that fills a packed axis: vectors of a tile (TILE_K), or a loop."""
    kind = r.arg.kind
    if kind is AxisType.TILE_N or (kind is AxisType.TILE_K and _is_in_vector(r, load)):
        return AxisType.TILE_K
    lies_along = all(find_stride(n.position, r) == 1 for n in get_locations(load))
    if kind is AxisType.UPCAST and tile_axes(load, AxisType.TILE_K) and lies_along:
        # The rows of a transposed operand are contiguous.
        return AxisType.TILE_K
    if _is_filled_sequentially(r, load):
        return AxisType.LOOP
    return AxisType.UPCAST if kind in (AxisType.UPCAST, AxisType.UNROLL) else AxisType.LOOP


def _is_filled_sequentially(r: UOp, load: UOp) -> bool:
    """Whether the vectors along `r` are filled sequentially, because the columns of each vector are
    read from different cache lines.

    Lines at a distance of a power of two share few sets of the cache, which hold the lines of one
    vector, but not of several."""
    columns = tile_axes(load, AxisType.TILE_N)
    return r.arg.kind is AxisType.UPCAST and any(
        find_stride(n.position, c) != 1 for n in get_locations(load) for c in columns
    )


def _is_in_vector(r: UOp, load: UOp) -> bool:
    return r is tile_axes(load, AxisType.TILE_K)[-1] or not tile_axes(load, AxisType.TILE_N)


def _flat(ranges: list[UOp], sizes: list[int]) -> UOp:
    position = ranges[0]
    for r, size in zip(ranges[1:], sizes[1:], strict=True):
        position = position * size + r
    return position
