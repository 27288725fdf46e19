"""PACK: what is read again and again in a loop is copied to private memory, in the order in which a
reduction takes it.

before → after, for the loop over n of a product whose rows m all read the same columns:

    for n', m, k, u:  REDUCE(x[m * 64 + k] * w[k * 32 + n' * 16 + u], k; ADD)

    for n':           for k, u:  reg[k * 16 + u] = w[k * 32 + n' * 16 + u]
                      for m, k, u:  REDUCE(x[m * 64 + k] * reg[k * 16 + u], k; ADD)

The operands of a tensor core are laid out tile by tile, zeros beyond the end of an axis, and
widened to what the core takes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from svod_dtype import DType, index
from svod_ir import AxisType, FreshIds, Op, TensorCore, UOp, exact_trips, max_trips
from svod_schedule._linear_index import find_stride
from svod_schedule.lower.vectors.products import find_core, get_locations, tile_axes
from svod_schedule.optimize.opts.tensor_cores import gate_operand

__all__ = ["NO_NEST", "pack_operands"]

NO_NEST = "private memory is filled in a loop over the results of one thread"

STEPS_FILLED = 16
"""Steps of a tensor core for which a row is copied at once: a whole vector of groups of 32 bits."""

MAX_PRIVATE_BYTES = 1 << 20
"""The most that a kernel may set aside: threads of other libraries have stacks of few mebibytes,
and what overflows ends the process.
"""

MAX_VARYING_BYTES = 1 << 19
"""The most that is set aside for an operand whose size varies."""


def pack_operands(sink: UOp, axis: UOp | None, cores: tuple[TensorCore, ...]) -> UOp | str:
    """`sink` with what one iteration of loop `axis`, or the whole work of a thread, reads again, or
    why there is nothing to pack.
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
    # A loop of one iteration repeats nothing.
    inside = [
        r for r in nest if r.arg.kind is AxisType.LOOP and r not in enclosing and max_trips(r) > 1
    ]
    tiles = _get_tile_dtypes(sink, cores)
    # What does not depend on the next loop inside is read again in each of its iterations.
    reused = [
        n
        for n in _reduction_loads(sink, tiles)
        if (inside[0] not in n.ranges if inside else n in tiles)
    ]
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
    """The bytes of private memory in a graph."""
    return sum(n.arg.size * n.dtype.itemsize for n in graph.iter_ops(Op.DEFINE_REG))


def _get_tile_dtypes(sink: UOp, cores: tuple[TensorCore, ...]) -> dict[UOp, DType]:
    """The operands of tensor cores that still lie in the kernel's memory, and what they are packed
    as.
    """
    dtypes: dict[UOp, DType] = {}
    for reduce in sink.iter_ops(Op.REDUCE):
        found = find_core(reduce, cores)
        if found is not None:
            core, *operands = found
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
    """The operands of tensor cores, and all other loads that reductions repeat."""
    found: dict[UOp, None] = {}
    for reduce in sink.iter_ops(Op.REDUCE):
        loops = set(reduce.loops)
        nodes = reduce.source.toposort(stop=tiles)
        loads = (n for n in nodes if n in tiles or (n.op is Op.INDEX and n.memory.op is Op.PARAM))
        found.update((n, None) for n in loads if n.ranges & loops)
    return list(found)


def _layout_rank(r: UOp, load: UOp) -> tuple[int, int]:
    """Loops outside, what one step takes inside: rows of a, groups of b's rows, its columns, the
    elements of a group.
    """
    number, kind = r.arg
    if r is _find_steps(load):
        return 2, number
    if kind is AxisType.TILE_K:
        return 5 if r is tile_axes(load, kind)[-1] else 3, number
    return {AxisType.UPCAST: 1, AxisType.TILE_M: 2, AxisType.TILE_N: 4}.get(kind, 0), number


def _find_steps(load: UOp) -> UOp | None:
    """The axis over the steps of one row of a whose elements lie together: several steps are filled
    as one vector.
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
    """The location in private memory that holds what `load` reads; the axes in `own` are
    its axes.
    """
    sizes = [max_trips(r) for r in own]
    loops = [fresh.make_range(r.stop, _fill_kind(r, load)) for r in own]
    places, inside = list(loops), None
    steps = _find_steps(load)
    if steps is not None:
        i = own.index(steps)
        n_steps, taken = sizes[i], min(STEPS_FILLED, 1 << (sizes[i].bit_length() - 1))
        n_parts = -(-n_steps // taken)
        loops[i] = loops[i].with_src((UOp.const(index, n_parts),))
        loops.append(fresh.make_range(taken, AxisType.TILE_K))
        places[i] = loops[i] * taken + loops[-1]
        sizes[i] = n_parts * taken
        inside = places[i] < n_steps if sizes[i] > n_steps else None
    register = fresh.make_register(dtype, prod(sizes))
    value = load.substitute(dict(zip(own, places, strict=True)))
    if inside is not None:
        value = gate_operand(value, inside)
    nest = sorted(
        loops,
        key=lambda r: (
            not any(r is f and _is_filled_alone(o, load) for o, f in zip(own, loops, strict=False))
        ),
    )
    fill = register.index(_flat(places, sizes)).store(value.cast(dtype)).end(*nest)
    return register.after(fill).index(_flat(own, sizes))


def _fill_kind(r: UOp, load: UOp) -> AxisType:
    """How a packed axis is filled: a tile in whole vectors, a row of a, or a group of b's rows."""
    kind = r.arg.kind
    if kind is AxisType.TILE_N or (kind is AxisType.TILE_K and _is_in_vector(r, load)):
        return AxisType.TILE_K
    lies_along = all(find_stride(n.position, r) == 1 for n in get_locations(load))
    if kind is AxisType.UPCAST and tile_axes(load, AxisType.TILE_K) and lies_along:
        # The rows of a transposed operand lie together.
        return AxisType.TILE_K
    if _is_filled_alone(r, load):
        return AxisType.LOOP
    return AxisType.UPCAST if kind in (AxisType.UPCAST, AxisType.UNROLL) else AxisType.LOOP


def _is_filled_alone(r: UOp, load: UOp) -> bool:
    """Whether the vectors along `r` are filled one after the other, since each is read from as many
    places as it has columns.

    Places that are a power of two apart share a few sets of the cache, which hold those of one
    vector and not of several."""
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
