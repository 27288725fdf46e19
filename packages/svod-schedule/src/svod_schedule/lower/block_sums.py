"""block-sums: long floating-point sums become sums of sums, so that rounding errors stay small.

before → after, for a loop of 1024 additions to one accumulator:

    REDUCE(x(r), r; ADD)        REDUCE(REDUCE(REDUCE(x(a * 64 + b * 8 + c), c; ADD), b; ADD), a; ADD)

A running sum of n values has an error of up to n - 1 roundings, a sum of sums at most as many as
its loops have iterations together, which grows with log(n). The accumulators of a tile of products
fill the registers: their outer sums are spilled, so their runs are longer. Reductions that share
their loops are split alike and go on sharing them.

Source: N. J. Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14 (1993),
section 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from svod_ir import FreshIds, Op, SInt, UOp, exact_trips, max_trips
from svod_schedule.lower.vectors.tiles import is_tile

__all__ = ["LONG_RUN", "SHORT_RUN", "block_sums"]

_REDUCE = Op.REDUCE

SHORT_RUN = 16
"""Maximum number of additions per accumulator. Longer loops are cut into blocks of up to half as
many iterations.

Of 24 kernels from 4,096 to 1,000,000 elements on an AVX-512 core, none took longer than with a
single loop, beyond noise. """

LONG_RUN = 512
"""`SHORT_RUN` of tiles of products.

Libraries of matrix products add 256 to 384 products to an accumulator.
"""

MAX_SHORT_BYTES = 256
"""Accumulators of products of up to this size leave registers for outer sums: half of the registers
of AVX2.
"""

MIN_BLOCK = 4
"""Minimum number of iterations per block. Shorter blocks cost more than they are worth."""


def block_sums(sink: UOp) -> UOp:
    """`sink` with its long sums split in blocks."""
    groups: dict[tuple[UOp, ...], list[UOp]] = {}
    for node in sink.iter_ops(_REDUCE):
        if node.loops:
            groups.setdefault(node.loops, []).append(node)
    blocks = _Blocks(
        FreshIds(sink),
        {loops: cuts for loops, group in groups.items() if (cuts := _find_cuts(loops, group))},
    )
    if not blocks.cuts:
        return sink
    done: dict[UOp, UOp] = {}
    for node in sink.toposort():
        new = node.with_images(done)
        done[node] = blocks.split(new) if node.op is _REDUCE and node.loops in blocks.cuts else new
    return done[sink]


class _Part(NamedTuple):
    """Iterations of a loop in one level of a sum of sums:

    `size` of them, or all blocks of the previous level where `size` is 0.
    """

    level: int
    size: int


def _find_cuts(loops: tuple[UOp, ...], group: Sequence[UOp]) -> list[list[_Part]] | None:
    """Parts of each loop of a group of reductions that share them; None where the group needs no
    blocks.
    """
    # A tensor core adds up its tiles itself.
    if any(is_tile(node.source) for node in group) or not any(map(_is_float_sum, group)):
        return None
    n_bytes = sum(node.dtype.itemsize * node.dtype.lanes for node in group)
    is_product_tile = n_bytes > MAX_SHORT_BYTES and all(_is_product(node.source) for node in group)
    n_terms = max(_count_terms(node.source) for node in group)
    run = max((LONG_RUN if is_product_tile else SHORT_RUN) // n_terms, 2 * MIN_BLOCK)
    return _cut(loops, run) if max_trips(*loops) > run else None


def _is_float_sum(node: UOp) -> bool:
    return node.arg is Op.ADD and node.dtype.is_float


def _is_product(x: UOp) -> bool:
    return all(map(_is_product, x.src)) if x.op is Op.ADD else x.op in (Op.MUL, Op.WMMA)


def _count_terms(x: UOp) -> int:
    """Number of additions to the accumulator in one iteration:

    `accumulate` adds the terms of a chain sequentially.
    """
    n = 1
    while x.op is Op.ADD:
        n, x = n + 1, x.left
    return n


def _cut(loops: tuple[UOp, ...], run: int) -> list[list[_Part]]:
    """Parts of each loop, the innermost part first; the parts of one level have at most `run`
    iterations together.
    """
    cuts: list[list[_Part]] = []
    level, count = 0, 1
    for loop in reversed(loops):
        parts: list[_Part] = []
        trips, most = exact_trips(loop), max_trips(loop)
        # A loop with an end that depends on another of the loops stays whole.
        is_whole = any(r in loops for r in loop.stop.ranges)
        while count * most > run and not (is_whole and count == 1):
            room = run // 2 // count
            if not is_whole and room >= MIN_BLOCK:
                size = _choose_block(trips, room)
                parts.append(_Part(level, size))
                trips, most = _ceil_divide(trips, size), -(-most // size)
            level, count = level + 1, 1
        parts.append(_Part(level, 0))
        count *= most
        cuts.append(parts)
    return cuts[::-1]


def _choose_block(trips: SInt, most: int) -> int:
    """The largest block size that divides the loop, or `most` where that is less than half
    of it.
    """
    if not isinstance(trips, int):
        return most
    return next((size for size in range(most, most // 2, -1) if trips % size == 0), most)


def _ceil_divide(n: SInt, size: int) -> SInt:
    return (n + (size - 1)) // size


class _Blocks:
    """The loops after splitting, which the reductions of a group share."""

    def __init__(self, fresh: FreshIds, cuts: dict[tuple[UOp, ...], list[list[_Part]]]) -> None:
        self.fresh = fresh
        self.cuts = cuts
        self.known: dict[tuple[UOp, ...], tuple[dict[UOp, UOp], list[list[UOp]]]] = {}

    def split(self, node: UOp) -> UOp:
        loops = node.loops
        if loops not in self.known:
            self.known[loops] = self._split_loops(loops, self.cuts[loops])
        images, levels = self.known[loops]
        value = node.source.substitute(images)
        for level in levels:
            value = UOp(_REDUCE, node.dtype, (value, *level), node.arg)
        return value

    def _split_loops(
        self, loops: tuple[UOp, ...], cuts: list[list[_Part]]
    ) -> tuple[dict[UOp, UOp], list[list[UOp]]]:
        """Index in place of each loop, and the loops of each level from the innermost level to the
        outermost.
        """
        images: dict[UOp, UOp] = {}
        levels: dict[int, list[UOp]] = {}
        for loop, parts in zip(loops, cuts, strict=True):
            trips = exact_trips(loop)
            n_blocks = [trips if isinstance(trips, int) else trips.substitute(images)]
            for part in parts[:-1]:
                n_blocks.append(_ceil_divide(n_blocks[-1], part.size))
            outermost = UOp.range(n_blocks[-1], loop.arg.id, loop.arg.kind)
            levels.setdefault(parts[-1].level, []).append(outermost)
            position = outermost
            for part, n in zip(parts[-2::-1], n_blocks[-2::-1], strict=True):
                is_exact = isinstance(n, int) and n % part.size == 0
                end = part.size if is_exact else (n - position * part.size).minimum(part.size)
                inner = self.fresh.make_range(end, loop.arg.kind)
                levels.setdefault(part.level, []).append(inner)
                position = position * part.size + inner
            images[loop] = position
        return images, [levels[i] for i in sorted(levels)]
