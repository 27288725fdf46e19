"""stream-rows: read the rows of a large operand from beginning to end.

before → after, for a product with few rows, where t are the tiles of a row of w:

    END(STORE(out[t], REDUCE(x[r] * w[r][t], r; ADD)), t)

    sums = DEFINE_REG of a sum for each tile
    END(STORE(sums[i], 0), i)
    END(STORE(sums[j], sums[j] + REDUCE(x[8 b + c] * w[8 b + c][j], c; ADD)), b, j)
    END(STORE(out[t], sums[t]), t)

A loop over the rows inside of a loop over the tiles reads a small piece of each row, with a stride of a
page or more: no prefetcher follows it, and memory delivers half of its bandwidth. Eight rows side by
side are as many streams as a prefetcher follows. The sums of all tiles stay in a cache."""

from __future__ import annotations

from typing import NamedTuple

from svod_dtype import void
from svod_ir import AxisType, FreshIds, Op, Target, UOp, exact_trips, max_trips
from svod_schedule._loops import identity_of, replace_range
from svod_schedule.optimize.cost_model.loop_nest import PAGE_BYTES
from svod_schedule.symbolic.terms import to_terms

__all__ = ["N_STREAMS", "stream_rows"]

N_STREAMS = 8
"""Number of rows that are read side by side, and added before they are added to the sum of a tile."""

MIN_STREAMS = 4
MIN_TILES = 4
SUMS_PER_CACHE = 4
"""Sums take at most this part of the cache of a core; the rows pass through it too."""

MAX_SUM_BYTES = 1 << 18
"""Maximum size of the sums, which are on the stack of a thread."""


class _Stream(NamedTuple):
    """A nest that reads rows: the loop over tiles, the loop over rows, and its reductions."""

    tiles: UOp
    rows: UOp
    reductions: list[UOp]
    enclosing: list[UOp]


def stream_rows(sink: UOp, target: Target) -> UOp:
    """Reorder the loops of a kernel that reads a small piece of each row of a large operand."""
    stream = _find_stream(sink, target)
    if stream is None:
        return sink
    n_panels = _count_panels(stream, target)
    if n_panels == 1:
        return _reorder(sink, stream)
    if max_trips(stream.tiles) // n_panels < MIN_TILES:
        return sink
    # A panel of adjacent tiles of all rows after another, if the sums of all tiles are too many.
    fresh, n_tiles = FreshIds(sink), max_trips(stream.tiles)
    panel = UOp.range(n_panels, stream.tiles.arg.id, stream.tiles.arg.kind)
    tile = fresh.make_range(n_tiles // n_panels, stream.tiles.arg.kind)
    split = replace_range(sink, stream.tiles, panel * (n_tiles // n_panels) + tile, (panel, tile))
    stream = _find_stream(split, target)
    return split if stream is None else _reorder(split, stream)


def _count_panels(stream: _Stream, target: Target) -> int:
    """The least number of panels whose sums fit the cache."""
    n_tiles = max_trips(stream.tiles)
    room = min(target.l2_bytes // SUMS_PER_CACHE, MAX_SUM_BYTES)
    most = max(room // _count_sum_bytes(stream.reductions), 1)
    return next(n for n in range(1, n_tiles + 1) if n_tiles % n == 0 and n_tiles // n <= most)


def _count_sum_bytes(reductions: list[UOp]) -> int:
    """Bytes of the sums of a tile."""
    return sum(node.dtype.nbytes for node in reductions)


def _find_end(sink: UOp) -> UOp | None:
    """The END of a kernel that is one nest of loops."""
    (end, *more_effects) = sink.src
    return end if end.op is Op.END and not more_effects else None


def _find_stream(sink: UOp, target: Target) -> _Stream | None:
    end = _find_end(sink)
    if target.has_local or end is None:
        return None
    loops = end.loops
    reductions = list(sink.iter_ops(Op.REDUCE))
    if not reductions or len({node.loops for node in reductions}) > 1:
        return None
    (rows, *more_loops) = reductions[0].loops or (None,)
    is_plain = (
        rows is not None and not more_loops and all(node.arg is Op.ADD for node in reductions)
    )
    if not is_plain or rows is None or not isinstance(exact_trips(rows), int):
        return None
    # Reductions of reductions have loops of their own, and a tensor core adds up its tiles itself.
    if any(True for node in reductions for _ in node.source.iter_ops(Op.REDUCE, Op.SCAN, Op.WMMA)):
        return None
    tiles = _find_tiles(reductions, rows, loops, target)
    if tiles is None:
        return None
    return _Stream(tiles, rows, reductions, [loop for loop in loops if loop is not tiles])


def _find_tiles(
    reductions: list[UOp], rows: UOp, loops: tuple[UOp, ...], target: Target
) -> UOp | None:
    """The loop over the tiles of the rows of large operands; None if there are no such operands."""
    accesses = [
        access
        for access in UOp.sink(*(node.source for node in reductions)).iter_ops(Op.INDEX)
        if rows in access.ranges
    ]
    streamed = {access: _find_tile(access, rows, loops) for access in accesses}
    tiles = set(streamed.values()) - {None}
    if len(tiles) != 1:
        return None
    (tile,) = tiles
    assert tile is not None
    # All other operands are the same for all tiles.
    if any(own is None and tile in access.ranges for access, own in streamed.items()):
        return None
    n_tiles, n_rows = exact_trips(tile), exact_trips(rows)
    if not isinstance(n_tiles, int) or not isinstance(n_rows, int) or n_tiles < MIN_TILES:
        return None
    row_bytes = sum(a.dtype.nbytes for a, own in streamed.items() if own is tile) * n_tiles
    is_large = row_bytes * n_rows > target.l2_bytes and n_rows >= N_STREAMS * MIN_STREAMS
    return tile if is_large else None


def _find_tile(access: UOp, rows: UOp, loops: tuple[UOp, ...]) -> UOp | None:
    """The loop whose iterations read adjacent vectors of rows that are a page or more apart."""
    dtype = access.dtype
    if dtype.lanes == 1 or access.position.dtype.lanes > 1:
        return None
    terms = to_terms(access.position)
    if terms.get((rows,), 0) * dtype.itemsize < PAGE_BYTES:
        return None
    adjacent = [
        loop
        for loop in loops
        if loop.arg.kind is AxisType.LOOP and terms.get((loop,), 0) == dtype.lanes
    ]
    return adjacent[0] if len(adjacent) == 1 else None


def _reorder(sink: UOp, stream: _Stream) -> UOp:
    fresh, n_tiles, n_rows = FreshIds(sink), exact_trips(stream.tiles), exact_trips(stream.rows)
    assert isinstance(n_tiles, int)
    assert isinstance(n_rows, int)
    n_streams = next(
        (n for n in range(N_STREAMS, MIN_STREAMS - 1, -1) if n_rows % n == 0), N_STREAMS
    )
    kind = stream.rows.arg.kind
    first, tile = (fresh.make_range(n_tiles, AxisType.LOOP) for _ in range(2))
    block = UOp.range(-(-n_rows // n_streams), stream.rows.arg.id, kind)
    # The last block of a prime number of rows has fewer.
    remaining = (
        n_streams if n_rows % n_streams == 0 else (n_rows - block * n_streams).minimum(n_streams)
    )
    row = fresh.make_range(remaining, kind)
    images = {stream.rows: block * n_streams + row, stream.tiles: tile}
    registers = [fresh.make_register(node.dtype, n_tiles) for node in stream.reductions]
    starts = [
        register.after(*stream.enclosing).index(first).store(identity_of(Op.ADD, node.dtype))
        for node, register in zip(stream.reductions, registers, strict=True)
    ]
    started = _join(starts).end(first)
    updates: list[UOp] = []
    for node, register in zip(stream.reductions, registers, strict=True):
        value = UOp(Op.REDUCE, node.dtype, (node.source.substitute(images), row), Op.ADD)
        location = register.after(started, block, tile).index(tile)
        updates.append(location.store(UOp(Op.ADD, node.dtype, (location.load(), value))))
    added = _join(updates).end(block, tile)
    done = sink.substitute(
        {
            node: register.after(added).index(stream.tiles).load()
            for node, register in zip(stream.reductions, registers, strict=True)
        }
    )
    # The sums of all tiles are there before the first is stored: the loop over them is innermost.
    end = _find_end(done)
    assert end is not None
    return done.with_src((end.body.end(*stream.enclosing, stream.tiles),))


def _join(effects: list[UOp]) -> UOp:
    return effects[0] if len(effects) == 1 else UOp(Op.GROUP, void, tuple(effects))
