"""block-sums: pairwise-like summation of long floating-point sums, which keeps rounding errors small.

before → after, for a loop of 1024 additions to one accumulator:

    REDUCE(x(r), r; ADD)        REDUCE(REDUCE(REDUCE(x(a * 64 + b * 8 + c), c; ADD), b; ADD), a; ADD)

A running sum of n values has an error of up to n - 1 roundings. A nest of sums has at most as many
as the total trip count of its loops, which grows with log(n). The accumulators of a register tile of
products fill the registers: their outer sums are spilled, so their blocks are larger. Reductions
that share their loops are split alike and still share them.

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
single loop, beyond noise."""

LONG_RUN = 512
"""`SHORT_RUN` of register tiles of products.

BLAS libraries add 256 to 384 products to an accumulator.
"""

MAX_SHORT_BYTES = 256
"""Maximum size of a product's accumulators that leaves registers for outer sums: half of the
registers of AVX2.
"""

MIN_BLOCK = 4
"""Minimum number of iterations per block, below which the loop overhead dominates."""


def block_sums(sink: UOp) -> UOp:
    """Split long sums of `sink` into blocks."""
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


class _Block(NamedTuple):
    """Iterations of a loop in one level of the nest of sums: `size` iterations, or all blocks of the
    previous level if `size` is 0.
    """

    level: int
    size: int


def _find_cuts(loops: tuple[UOp, ...], group: Sequence[UOp]) -> list[list[_Block]] | None:
    """Choose the blocks of each loop that a group of reductions shares; None if the group needs no
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
    """Number of additions to the accumulator in one iteration; `accumulate` adds the terms of a chain
    sequentially.
    """
    n = 1
    while x.op is Op.ADD:
        n, x = n + 1, x.left
    return n


def _cut(loops: tuple[UOp, ...], run: int) -> list[list[_Block]]:
    """Cut each loop into blocks, the innermost first; the blocks of one level have at most `run`
    iterations together.
    """
    cuts: list[list[_Block]] = []
    level, count = 0, 1
    for loop in reversed(loops):
        blocks: list[_Block] = []
        trips, most = exact_trips(loop), max_trips(loop)
        # A loop whose trip count depends on another of the loops is not split.
        is_whole = any(r in loops for r in loop.stop.ranges)
        while count * most > run and not (is_whole and count == 1):
            room = run // 2 // count
            if not is_whole and room >= MIN_BLOCK:
                size = _choose_block(trips, room)
                blocks.append(_Block(level, size))
                trips, most = _ceil_divide(trips, size), -(-most // size)
            level, count = level + 1, 1
        blocks.append(_Block(level, 0))
        count *= most
        cuts.append(blocks)
    return cuts[::-1]


def _choose_block(trips: SInt, most: int) -> int:
    """Return the largest block size that divides the trip count, or `most` if that is less than half
    of `most`.
    """
    if not isinstance(trips, int):
        return most
    return next((size for size in range(most, most // 2, -1) if trips % size == 0), most)


def _ceil_divide(n: SInt, size: int) -> SInt:
    return (n + (size - 1)) // size


class _Blocks:
    """Loops after splitting, which the reductions of a group share."""

    def __init__(self, fresh: FreshIds, cuts: dict[tuple[UOp, ...], list[list[_Block]]]) -> None:
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
        self, loops: tuple[UOp, ...], cuts: list[list[_Block]]
    ) -> tuple[dict[UOp, UOp], list[list[UOp]]]:
        """Return the index that replaces each loop, and the loops of each level, innermost level
        first.
        """
        images: dict[UOp, UOp] = {}
        levels: dict[int, list[UOp]] = {}
        for loop, blocks in zip(loops, cuts, strict=True):
            trips = exact_trips(loop)
            n_blocks = [trips if isinstance(trips, int) else trips.substitute(images)]
            for block in blocks[:-1]:
                n_blocks.append(_ceil_divide(n_blocks[-1], block.size))
            outermost = UOp.range(n_blocks[-1], loop.arg.id, loop.arg.kind)
            levels.setdefault(blocks[-1].level, []).append(outermost)
            position = outermost
            for block, n in zip(blocks[-2::-1], n_blocks[-2::-1], strict=True):
                is_exact = isinstance(n, int) and n % block.size == 0
                end = block.size if is_exact else (n - position * block.size).minimum(block.size)
                inner = self.fresh.make_range(end, loop.arg.kind)
                levels.setdefault(block.level, []).append(inner)
                position = position * block.size + inner
            images[loop] = position
        return images, [levels[i] for i in sorted(levels)]
