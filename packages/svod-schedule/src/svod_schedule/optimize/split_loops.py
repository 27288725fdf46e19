"""split-loops: split loops at the constants with which conditions compare their indices.

before → after, for two rows of 5 and 7 elements that are concatenated:

    END(STORE(p[r0 * 12 + r1], WHERE(r1 < 5, a[r0 * 5 + r1], b[r0 * 7 + r1 - 5])), r0, r1)

    END(GROUP(END(STORE(p[r0 * 12 + r2], a[r0 * 5 + r2]), r2),
              END(STORE(p[r0 * 12 + r3 + 5], b[r0 * 7 + r3]), r3)), r0)

Each part is a loop of its own, without the condition; a part of one iteration needs no loop. The
outer loops enclose all parts, and the order of the iterations does not change. A kernel whose
outermost loop is split has several ENDs; if it is to run in threads, a loop over these encloses the
parts, and each thread computes a block of every part. Only elementwise kernels for CPUs are split: with a mask,
each vector loads all operands of a concatenation, so the parts win unless they are much shorter than
a vector (see `_is_faster`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Final, NamedTuple

from svod_dtype import void
from svod_ir import AxisType, FreshIds, Op, Target, UOp, exact_trips, max_trips
from svod_ir.ops import ELEMENTWISE, TABLE
from svod_schedule._linear_index import find_stride
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.heuristics.facts import make_facts
from svod_schedule.optimize.merge_loops import find_comparison
from svod_schedule.optimize.simplify_kernel import simplify_kernel

__all__ = ["split_loops"]

MAX_STORES: Final = 64
"""Maximum number of stores of a split kernel: each part is compiled separately."""

MAX_NODES: Final = 2048
"""Maximum number of nodes of a split kernel, for the same reason."""

MAX_REPEATED: Final = 1 / 8
"""Maximum share of the work that is computed in every thread."""

# Costs in accesses of a vector. They separate 720 random concatenations, paddings, rolls and stacks of
# rows of 1 to 64 elements of four dtypes: the chosen loops took 0.53 times as long as masked ones, and
# a few padded images of few columns took up to 1.2 times as long.

CHOICE_COST: Final = 2.0
"""A mask that selects between reads, per cut and vector."""

GATE_COST: Final = 1.25
"""A mask that only gates loads, per cut and vector."""

FIRST_GATE_GAIN: Final = 0.5
"""A mask with a single comparison costs less."""

CONSTANT_CHOICE_COST: Final = 3.0
"""A constant mask that selects between reads, per cut."""

CONSTANT_GATE_COST: Final = 1.0
"""A constant mask that only gates loads, per cut."""

OVERLAP_COST: Final = 1.5
"""Two partial vectors that overlap."""

OP_COST: Final = 0.2
"""An arithmetic instruction."""

SCALAR_COST: Final = 0.5
"""The store of a constant."""

HALF_COST: Final = 0.5
"""A single float of 16 bits, for its detour through a vector register."""

PART_COST: Final = 0.5
"""A part, for its loop and the addresses."""

_ORDERED: Final = frozenset({Op.END, Op.REDUCE, Op.SCAN, Op.CARRY, Op.AFTER, Op.BARRIER})
"""Ops of kernels that are not elementwise."""


def split_loops(sink: UOp, target: Target) -> UOp:
    """Split the loops of an elementwise kernel at the constants that its conditions compare them
    with.
    """
    if target.has_local or len(sink.src) != 1:
        return sink
    (end,) = sink.src
    if end.op is not Op.END:
        return sink
    order = end.body.toposort()
    if not _list_cuts(order) or any(n.op in _ORDERED for n in order):
        return sink
    if any(r.stop.ranges for r in end.loops):
        return sink
    # Threads need a loop that encloses all parts.
    n_threads = make_facts(sink, target).n_threads if target.cores > 1 else 1
    splitter = _Splitter(FreshIds(sink), _count_lanes(order, target), n_threads)
    parts = splitter.split(end.body, end.loops)
    if parts == (end,):
        return sink
    split = sink.with_src(parts)
    order = split.toposort()
    is_small = len(order) <= MAX_NODES and sum(n.op is Op.STORE for n in order) <= MAX_STORES
    return split if is_small else sink


def _count_lanes(order: Sequence[UOp], target: Target) -> int:
    """Number of lanes of the widest dtype that is accessed or computed in."""
    return min(
        (target.lanes(n.dtype) for n in order if n.dtype.kind in ("int", "uint", "float")),
        default=1,
    )


def _list_cuts(order: Sequence[UOp]) -> dict[UOp, list[int]]:
    """The constants, in ascending order, at which a condition changes, of each loop that has any."""
    cuts: dict[UOp, set[int]] = {}
    for node in order:
        comparison = find_comparison(node)
        if comparison is not None:
            loop, bounds = comparison
            size = exact_trips(loop)
            if isinstance(size, int) and loop.arg.kind is AxisType.LOOP:
                inside = [cut for cut in bounds if 0 < cut < size]
                cuts.setdefault(loop, set()).update(inside)
    return {loop: sorted(found) for loop, found in cuts.items() if found}


class _Part(NamedTuple):
    """A part of a loop: its trip count, its body, and its loops."""

    size: int
    body: UOp
    loops: tuple[UOp, ...]


class _Splitter:
    """Splits the loops of one kernel.

    Attributes:
        fresh: ids of the new loops.
        lanes: number of lanes of a vector.
        n_threads: number of threads that the kernel is going to be split over.
        is_nested: whether a loop was split already: the loops inside of it are tiled separately.
    """

    def __init__(self, fresh: FreshIds, lanes: int, n_threads: int) -> None:
        self.fresh = fresh
        self.lanes = lanes
        self.n_threads = n_threads
        self.is_nested = False

    def split(self, body: UOp, loops: tuple[UOp, ...]) -> tuple[UOp, ...]:
        """Return the effects of the loops over `body`, split as far as that is expected to pay."""
        cuts = _list_cuts(body.toposort())
        for i, loop in enumerate(loops):
            # The number of cuts bounds the work of trying them.
            if not 0 < len(cuts.get(loop, ())) < MAX_STORES or _is_transposed(body, loops):
                continue
            if (
                not self.is_nested
                and loop is not loops[-1]
                and _is_image_of_short_rows(body, loops)
            ):
                continue
            block: UOp | None = None
            if not self.is_nested and not self._has_threads(loops[:i]):
                if i > 0 or not _is_divisible(body, cuts[loop], loops, self.n_threads):
                    continue
                block = self.fresh.make_range(self.n_threads, loop.arg.kind)
            parts = self._cut(body, loop, loops[i + 1 :], cuts[loop], block)
            # Without a condition, the inner loops can be merged, which pays otherwise.
            if loop is loops[-1] and not self._is_faster(body, max_trips(loop), parts):
                continue
            self.is_nested = True
            effects = [e for part in parts for e in self.split(part.body, part.loops)]
            around = loops[:i] if block is None else (block,)
            return (UOp(Op.GROUP, void, tuple(effects)).end(*around),) if around else tuple(effects)
        return (body.end(*loops),)

    def _has_threads(self, around: tuple[UOp, ...]) -> bool:
        n = self.n_threads
        return n == 1 or any(isinstance(s := exact_trips(r), int) and s >= n for r in around)

    def _cut(
        self,
        body: UOp,
        loop: UOp,
        inner: tuple[UOp, ...],
        cuts: Sequence[int],
        block: UOp | None,
    ) -> list[_Part]:
        """Cut `loop` in parts. With a `block`, a loop over threads, each part is cut in as many blocks
        of equal size, the last of which overlaps its neighbor.
        """
        parts: list[_Part] = []
        for start, stop in zip((0, *cuts), (*cuts, max_trips(loop)), strict=True):
            copies = {r: self.fresh.make_range(r.stop, r.arg.kind) for r in inner}
            loops = tuple(copies.values())
            position, n = UOp.const(loop.dtype, start), stop - start
            if block is not None and n >= self.n_threads:
                n = ceil(n / self.n_threads)
                is_even = n * self.n_threads == stop - start
                position = (block * n if is_even else (block * n).minimum(stop - start - n)) + start
            if n > 1:
                own = self.fresh.make_range(n, loop.arg.kind)
                position, loops = position + own, (own, *loops)
            moved = _simplify(body.substitute({loop: position, **copies}))
            parts.append(_Part(stop - start, moved, loops))
        return parts

    def _is_faster(self, body: UOp, n_elements: int, parts: Sequence[_Part]) -> bool:
        """Compare the expected cost of a row, the innermost loop, with that of its parts.

        Costs are in accesses of a vector."""
        is_chosen = any(True for _ in body.iter_ops(Op.WHERE))
        if not self.is_nested and not is_chosen and n_elements < self.lanes:
            return not _is_interleaved(n_elements)
        n_cuts, n_vectors = len(parts) - 1, _count_vectors(n_elements, self.lanes)
        n_reads, work = _count_instructions(body)
        # A choice between a read and a constant is a mask of the read.
        is_chosen = is_chosen and n_reads > 1
        if _is_single_tile(n_elements, self.lanes):
            # The masks are constants, and a read that they mask for all lanes is removed.
            cut_cost = CONSTANT_CHOICE_COST if is_chosen else CONSTANT_GATE_COST
            masked = n_vectors * (1 + work + min(n_reads, 1)) + cut_cost * n_cuts
        else:
            mask_cost = CHOICE_COST * n_cuts if is_chosen else GATE_COST * n_cuts - FIRST_GATE_GAIN
            masked = n_vectors * (1 + work + n_reads + mask_cost)
        return sum(map(self._estimate_part, parts)) < masked

    def _estimate_part(self, part: _Part) -> float:
        n_reads, work = _count_instructions(part.body)
        if part.size == 1 and not n_reads:
            return PART_COST + SCALAR_COST
        is_half_scalar = part.size == 1 and any(
            n.dtype.is_float and n.dtype.itemsize == 2 for n in part.body.iter_ops(Op.INDEX)
        )
        cost = PART_COST + (HALF_COST if is_half_scalar else 0)
        return cost + _count_vectors(part.size, self.lanes) * (1 + n_reads + work)


def _is_divisible(body: UOp, cuts: Sequence[int], loops: tuple[UOp, ...], n_threads: int) -> bool:
    """Whether the parts of the outermost loop can be divided by threads: elements that several
    threads compute are few, and not read.
    """
    order = body.toposort()
    stores = [n for n in order if n.op is Op.STORE]
    written = {n.location.memory.unordered for n in stores}
    locations = {n.location for n in stores}
    if any(
        n.op is Op.INDEX and n not in locations and n.memory.unordered in written for n in order
    ):
        return False
    size = max_trips(loops[0])
    sizes = [stop - start for start, stop in zip((0, *cuts), (*cuts, size), strict=True)]
    return sum(n for n in sizes if n < n_threads) * n_threads <= MAX_REPEATED * size


def _simplify(body: UOp) -> UOp:
    """Simplify the body of a part, in which conditions and gates are constants."""
    (simple,) = simplify_kernel(UOp.sink(body)).src
    order = simple.toposort()
    written = {n.location for n in order if n.op is Op.STORE}
    folded: dict[UOp, UOp] = {}
    for node in order:
        gate = node.gate if node.op is Op.INDEX else None
        if gate is None or gate.op is not Op.CONST:
            continue
        if gate.arg:
            folded[node] = node.with_src(node.src[:-1])
        elif node not in written:
            # A gated load gives 0.
            folded[node] = UOp.const(node.dtype, 0)
    if not folded:
        return simple
    (result,) = simplify_kernel(UOp.sink(simple.substitute(folded))).src
    return result


def _is_interleaved(n_elements: int) -> bool:
    """Whether several rows are computed at a time and stored as whole vectors, if loads are gated
    only.
    """
    return n_elements <= 10 or (n_elements <= 16 and n_elements % 4 == 0)


def _is_image_of_short_rows(body: UOp, loops: tuple[UOp, ...]) -> bool:
    """Whether the most rows are computed at a time that are shorter than a vector, with gated loads."""
    is_chosen = any(True for _ in body.iter_ops(Op.WHERE))
    size = exact_trips(loops[-2])
    return (
        not is_chosen
        and max_trips(loops[-1]) <= constants.SHORT_ROWS[0]
        and isinstance(size, int)
        and size % constants.SHORT_ROWS[0] == 0
    )


def _is_single_tile(n_elements: int, lanes: int) -> bool:
    """Whether all of a row is computed in one iteration, in which the indices are constants."""
    is_power_of_two = n_elements & (n_elements - 1) == 0
    return is_power_of_two and n_elements <= constants.VECTORS_OF_RESULTS * lanes


def _count_vectors(n_elements: int, lanes: int) -> float:
    """Number of vectors of consecutive elements; two partial ones overlap."""
    if n_elements >= lanes:
        return ceil(n_elements / lanes)
    return 1 if n_elements & (n_elements - 1) == 0 else OVERLAP_COST


def _count_instructions(body: UOp) -> tuple[int, float]:
    """Number of reads, and cost of the arithmetic on values, of an iteration."""
    order = body.toposort()
    written = {n.location for n in order if n.op is Op.STORE}
    n_reads = sum(n.op is Op.INDEX and n not in written for n in order)
    n_ops = sum(
        TABLE[n.op].instructions
        for n in order
        if n.op in ELEMENTWISE and n.op is not Op.WHERE and n.dtype.kind not in ("index", "bool")
    )
    return n_reads, n_ops * OP_COST


def _is_transposed(body: UOp, loops: Sequence[UOp]) -> bool:
    """Whether memory is not accessed contiguously along the innermost loop, but along another one.

    Such a kernel is computed in tiles of both loops, which the parts would not have in common."""
    return any(
        find_stride(n.position, loops[-1]) not in (0, 1)
        and any(find_stride(n.position, r) == 1 for r in loops[:-1])
        for n in body.iter_ops(Op.INDEX)
    )
