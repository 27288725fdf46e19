"""Opts for a CPU with vectors and threads, in the order in which they are applied.

- The operand of a product that is copied in panels, and the order of the loops.
- The axis of the results that is vectorized, or a reduced axis if no axis of the results can be.
- Register tiles of results that share loads.
- The loop that is split over threads.
- The loop in which a panel is packed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from svod_ir import AxisType, Op, Opt, OptOp, UOp, exact_trips, max_trips
from svod_ir.sizes import max_size
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.heuristics.facts import Access, KernelFacts, Nest, is_multiple
from svod_schedule.optimize.heuristics.panel import (
    Panel,
    count_accumulators,
    count_rows_in_cache,
    count_tile_rows,
    find_panel,
    has_conflicts,
    is_short_and_deep,
    is_streamed,
)
from svod_schedule.optimize.heuristics.proposals import Move, Proposal, Question, Weighed
from svod_schedule.optimize.heuristics.threads import take_threads
from svod_schedule.optimize.opts.axes import find_misalignment
from svod_schedule.optimize.opts.pack import is_widened
from svod_schedule.optimize.opts.scheduler import Scheduler

__all__ = ["iter_questions"]


class _Plan(NamedTuple):
    """Decisions that all questions depend on: the vectorized axis, the product that is computed in
    register tiles, and its panel.
    """

    lane_axis: UOp | None
    tiled: Nest | None
    panel: Panel | None


def iter_questions(facts: KernelFacts, scheduler: Scheduler) -> Iterator[Question]:
    """Questions in order; `scheduler` has the kernel after the answers so far."""
    plan = _make_plan(facts)
    # Swaps need loops that are not split yet. Lanes take their axis before tiles fill the remaining
    # registers, and threads split what is left. Only then does the loop exist that packs a panel.
    yield from _order_loops(facts, plan, scheduler)
    yield from _take_lanes(facts, plan)
    yield from _fill_rows(facts, plan)
    yield from _take_reduced_lanes(facts, plan)
    yield from _take_tiles(facts, plan)
    yield from take_threads(facts, scheduler, plan.panel, most=_limit_parts(facts, plan))
    yield from _pack_panel(facts, plan, scheduler)


def _make_plan(facts: KernelFacts) -> _Plan:
    lane_axis = (
        _find_carried_axis(facts)
        if facts.carried
        else _find_lane_axis(facts, facts.results, facts.accesses) or _find_scattered_axis(facts)
    )
    tiled = next((r for r in facts.reductions if _list_tile_axes(facts, r, lane_axis)), None)
    if (
        lane_axis is not None
        and max_trips(lane_axis) < facts.lanes
        and tiled is not None
        and is_short_and_deep(facts, tiled)
    ):
        # A partial vector along the results is worse than whole vectors along the reduction.
        lane_axis = None
    panel = find_panel(facts, tiled, lane_axis) if tiled is not None else None
    return _Plan(lane_axis if panel is None else panel.axis, tiled, panel)


def _limit_parts(facts: KernelFacts, plan: _Plan) -> int | None:
    """Maximum number of parts for threads: an operand that is streamed is read in the order of memory
    only if each part has a large piece of each row.
    """
    is_in_order = (
        plan.panel is None
        and plan.lane_axis is not None
        and any(
            len(nest.operands) > 1 and is_streamed(facts, nest, plan.lane_axis)
            for nest in facts.reductions
        )
    )
    return facts.target.cores if is_in_order else None


def _find_lane_axis(
    facts: KernelFacts, axes: Iterable[UOp], accesses: Iterable[Access]
) -> UOp | None:
    """Find the axis with the greatest gain from vectorization, of the axes along which all dependent
    accesses are close to each other.
    """
    best: UOp | None = None
    most = 0.0
    for axis in axes:
        moving = [a for a in accesses if a.depends_on(axis)]
        costs = [a.cost(axis, facts.lanes) for a in moving]
        gain = len(costs) - sum(costs)
        if (
            int(axis.vmax) > 0
            and max(costs, default=2) <= 1
            and gain >= most
            and gain > 0
            and all(_can_gather(facts, a) for a in moving if a.stride(axis) is None)
        ):
            best, most = axis, gain
    return best


def _find_scattered_axis(facts: KernelFacts) -> UOp | None:
    """Find an axis along which the operands of products are close, and the results are not.

    Results are scattered once, after a whole reduction. Along an axis shorter than a few lanes, the
    reduced axis is better vectorized (`_take_reduced_lanes`).
    """
    n_least = constants.FEW_LANES + (facts.lanes > 2 * constants.FEW_LANES)
    return _find_lane_axis(
        facts,
        [axis for axis in facts.results if max_trips(axis) >= n_least],
        [a for nest in facts.reductions if len(nest.operands) > 1 for a in nest.operands],
    )


def _find_carried_axis(facts: KernelFacts) -> UOp | None:
    """Find the axis of independent elements along which a loop with carried values gains most from
    vectorization, counting arithmetic as well as accesses.
    """
    gains: dict[UOp, float] = {}
    for axis in facts.results:
        saved = [
            max_trips(*a.node.ranges) * (1 - a.cost(axis, facts.lanes))
            for a in facts.accesses
            if a.depends_on(axis)
        ]
        computed = sum(
            max_trips(*c.node.ranges) * c.instructions for c in facts.carried if axis in c.axes
        )
        gains[axis] = sum(saved) + computed * (1 - 1 / facts.lanes) if int(axis.vmax) > 0 else 0.0
    best = max(facts.results, key=lambda a: gains[a], default=None)
    return best if best is not None and gains[best] > 0 else None


def _can_gather(facts: KernelFacts, access: Access) -> bool:
    return facts.target.has_gather and access.node.dtype.itemsize >= constants.MIN_GATHERED_BYTES


# --- the order of loops


def _order_loops(facts: KernelFacts, plan: _Plan, scheduler: Scheduler) -> Iterator[Question]:
    if plan.tiled is None:
        return
    if plan.panel is not None:
        rows = _find_outer_rows(facts, plan.tiled, plan.panel) if plan.panel.is_packed else None
        chosen = [r for r in facts.axes if plan.panel.operand.depends_on(r)]
        outside = (
            (chosen, "chooses a panel") if rows is None else ([rows], "selects the larger operand")
        )
        yield from _put_outside(facts, plan.panel.axis, *outside, scheduler)
        return
    # The longer axis goes outside, so that the smaller operand is the one that is traversed again.
    inside = [
        a for a in plan.tiled.results if not all(n.depends_on(a) for n in plan.tiled.accesses)
    ]
    if len(inside) > 1 and int(inside[-1].vmax) > int(inside[-2].vmax):
        first, second = inside[-2:]
        yield [
            Proposal(
                f"{facts.name(second)} is longer and goes outside",
                (Move(OptOp.SWAP, first, other=second),),
            )
        ]


def _put_outside(
    facts: KernelFacts, last: UOp, chosen: Sequence[UOp], why: str, scheduler: Scheduler
) -> Iterator[Question]:
    """Swap the `chosen` loops outwards, past the other loops up to `last`."""
    outside = {r.arg for r in chosen}
    # A refused swap must not be proposed again, or the loop would not end.
    asked: set[tuple[UOp, UOp]] = set()
    n_asked = -1
    while n_asked < len(asked):
        n_asked = len(asked)
        args = [r.arg for r in scheduler.axes]
        for index in range(max(args.index(r.arg) for r in (*chosen, last))):
            outer, inner = scheduler.axes[index : index + 2]
            if outer.arg not in outside and inner.arg in outside and (outer, inner) not in asked:
                asked.add((outer, inner))
                reason = f"{facts.name(inner)} {why} and goes outside of {facts.name(outer)}"
                yield [Proposal(reason, (Move(OptOp.SWAP, outer, other=inner),))]


def _find_outer_rows(facts: KernelFacts, product: Nest, panel: Panel) -> UOp | None:
    """Find the outermost loop over rows of a product if the rows take more memory than the operand
    that is stored in panels, so that this operand is the one that is traversed again.
    """
    rows = next(a for a in product.operands if a is not panel.operand)
    if rows.memory_bytes <= panel.operand.memory_bytes:
        return None
    loops = (a for a in product.results if not panel.operand.depends_on(a) and max_trips(a) > 1)
    return next(loops, None)


# --- lanes


def _take_lanes(facts: KernelFacts, plan: _Plan) -> Iterator[Question]:
    axis, panel = plan.lane_axis, plan.panel
    rows = _take_short_rows(facts)
    if rows is not None:
        yield [rows]
    elif axis is None:
        if facts.reductions:
            return
        squares = _list_square(facts)
        if not facts.results and facts.carried:
            yield [
                Proposal(
                    "no lanes: the loop carries a single element, and each iteration depends on"
                    " the previous one"
                )
            ]
            return
        if not squares:
            yield [Proposal("no lanes: along no axis are all accesses close in memory")]
        most = _count_transposed(facts, squares)
        amount = next(
            (
                n
                for n in (most, most // 2, most // 4)
                if n > 1 and all(is_multiple(a, n) for a in squares)
            ),
            most,
        )
        for side in squares:
            yield _take(
                facts, side, amount, "square tiles of a transposition use whole lines of both sides"
            )
    elif panel is not None:
        stored = ", stored in this order" if panel.is_packed else ""
        why = (
            f"panel along {facts.name(axis)}{stored}: {panel.n_vectors} vectors, read for"
            f" {panel.n_rows} rows"
        )
        yield _take(facts, axis, facts.lanes * panel.n_vectors, why)
    elif facts.updated:
        yield _take_row(facts, axis)
    else:
        n_vectors = (
            constants.VECTORS_OF_TILES if plan.tiled is not None else _count_vectors(facts, axis)
        )
        why = f"lanes along {facts.name(axis)}, close in memory"
        if facts.carried:
            why = (
                f"elements along {facts.name(axis)} are independent in the loop: {n_vectors} vectors"
                " hide the latency of the carried values"
            )
        wide = facts.lanes * n_vectors
        yield _take(
            facts,
            axis,
            wide if facts.carried or plan.tiled is not None else _fit(facts, axis, wide),
            why,
        )


def _take_row(facts: KernelFacts, axis: UOp) -> Question:
    """Propose to update as much of a row at a time as costs least: each part of the row is a pass over
    all indices.
    """
    size = exact_trips(axis)
    lanes = facts.target.lanes(facts.updated[0].node.dtype)
    why = f"updates along {facts.name(axis)}"
    if isinstance(size, int):
        amounts = [lanes << k for k in range(constants.VECTORS_OF_UPDATES.bit_length())]
        amounts = [n for n in amounts if n <= facts.target.max_upcast and n < size + lanes]
        amount = min(
            amounts,
            key=lambda n: -(-size // n) * (n / lanes + constants.UPDATE_COST),
            default=0,
        )
        if amount:
            yield Proposal(f"{why}, {amount} at a time", (Move(OptOp.UPCAST, axis, amount),))
            yield from _mask(facts, axis, amount, why)
    yield from _take(facts, axis, facts.lanes * constants.VECTORS_OF_RESULTS, why)


def _take_short_rows(facts: KernelFacts) -> Proposal | None:
    """Propose to compute several consecutive rows at a time that are shorter than a vector: the
    loaded elements are shuffled in registers and stored as whole vectors. An axis of two results
    that share all loads is taken along."""
    if facts.reductions or facts.carried or facts.rows or facts.lanes < 2:
        return None
    stores = [a for a in facts.accesses if a.is_store]
    row = next((a for a in facts.results if all(s.stride(a) == 1 for s in stores)), None)
    size = row and exact_trips(row)
    if (
        row is None
        or not isinstance(size, int)
        or not 1 < size < facts.lanes
        or _is_chosen_by(facts, row)
    ):
        return None
    row_axis = next((a for a in facts.results if all(s.stride(a) == size for s in stores)), None)
    if row_axis is None:
        return None
    amount = next((n for n in constants.SHORT_ROWS if is_multiple(row_axis, n)), None)
    kind = OptOp.UPCAST
    if amount is None and size & (size - 1):
        # A single row whose size is no power of two would be split into several partial vectors:
        # computing some rows twice costs less.
        kind, amount = (
            OptOp.OVERLAP,
            next((n for n in constants.SHORT_ROWS if n <= int(row_axis.stop.vmin)), None),
        )
    if amount is None or any(
        _is_far(a, row_axis, size) or a.stride(row) is None for a in facts.accesses
    ):
        return None
    moves = [Move(kind, row_axis, amount), Move(OptOp.UPCAST, row, 0)]
    reads = [a for a in facts.accesses if not a.is_store]
    twin = next(
        (
            a
            for a in facts.results
            if exact_trips(a) == 2 and not any(r.depends_on(a) for r in reads)
        ),
        None,
    )
    if twin is not None and twin is not row and size == 2:
        moves.insert(0, Move(OptOp.UPCAST, twin, 0))
    return Proposal(
        f"rows along {facts.name(row)} are shorter than a vector: {amount} of them at a time",
        tuple(moves),
    )


def _is_chosen_by(facts: KernelFacts, axis: UOp) -> bool:
    """Whether a condition on `axis` selects between values."""
    return any(
        node.op is Op.WHERE and axis in node.condition.ranges for node in facts.kernel.toposort()
    )


def _is_far(access: Access, axis: UOp, size: int) -> bool:
    """Whether the stride along `axis` exceeds the `size` of a row."""
    stride = access.stride(axis)
    return stride is None or not 0 <= stride <= size


def _count_vectors(facts: KernelFacts, axis: UOp) -> int:
    """Number of vectors of results per iteration, so that their latencies overlap."""
    if any(axis in r.node.ranges for r in facts.reductions):
        wide = 2 * constants.VECTORS_OF_SUMS
        has_room = facts.target.vector_registers >= 2 * wide and not facts.n_slow
        return (
            wide
            if has_room and is_multiple(axis, wide * facts.lanes)
            else constants.VECTORS_OF_SUMS
        )
    most = constants.VECTORS_OF_RESULTS
    if facts.carried:
        return max(c.count_vectors(facts.target, 2 * most) for c in facts.carried)
    return 1 if facts.n_slow > 2 else most // 2 if facts.n_slow else most


def _fit(facts: KernelFacts, axis: UOp, amount: int) -> int:
    """Number of results per tile, at most `amount`, such that few are computed twice: the last tile
    overlaps its neighbor.

    The cost of a tile is its vectors plus the overhead of an iteration, which matters less where
    results are expensive.
    """
    size = exact_trips(axis)
    if not isinstance(size, int):
        return amount
    amounts = [
        n for n in (amount >> k for k in range(amount.bit_length())) if facts.lanes <= n <= size
    ]
    is_long = (
        facts.n_slow > 0
        or any(axis in r.node.ranges for r in facts.reductions)
        or any(a.stride(axis) is None for a in facts.accesses)
    )
    round_cost = constants.ROUND_COST / 2 if is_long else constants.ROUND_COST
    # The tiles of the only loop are shared by all threads, if each gets one.
    n_threads = facts.n_threads if len(facts.results) == 1 else 1

    def count_time(n: int) -> float:
        n_tiles = -(-size // n)
        n_rounds = -(-n_tiles // n_threads) if n_tiles >= n_threads else n_tiles
        return n_rounds * (n / facts.lanes + round_cost)

    return min(amounts, key=count_time, default=amount)


def _count_transposed(facts: KernelFacts, squares: Sequence[UOp]) -> int:
    """Number of rows and columns of a tile of a transposition: twice as many where bytes would not fill
    a vector, or where rows evict each other before all of a cache line is read.
    """
    most = 2 * constants.TRANSPOSED_TILE
    # Eight elements of 64 bits are a whole line.
    is_wide = facts.access_bytes == 1 or (
        facts.access_bytes < 8
        and any(has_conflicts(facts, a, side, most) for a in facts.accesses for side in squares)
    )
    return most if is_wide else constants.TRANSPOSED_TILE


def _list_square(facts: KernelFacts) -> tuple[UOp, ...]:
    """Axes along which a transposition reads and writes contiguously; empty for other kernels."""
    written = next((a for a in facts.results if facts.is_stored_along(a)), None)
    candidates = (
        a
        for a in facts.results
        if a is not written and any(n.stride(a) == 1 for n in facts.accesses)
    )
    read = next(candidates, None)
    return () if written is None or read is None else (read, written)


def _take(facts: KernelFacts, axis: UOp, amount: int, why: str) -> Question:
    """Propose to compute `amount` results along `axis` at a time, or the largest power of two that
    is allowed.
    """
    shortest = max(int(axis.stop.vmin), 1)
    if shortest < facts.lanes and not isinstance(exact_trips(axis), int):
        yield from _take_masked(facts, axis, amount, why)
    while amount > shortest:
        amount //= 2
    while amount > 1:
        is_split = _is_split_by_lines(facts, axis, amount)
        for op in (*((OptOp.ALIGN,) if is_split else ()), OptOp.UPCAST, OptOp.OVERLAP):
            yield Proposal(f"{why}, {amount} at a time", (Move(op, axis, amount),))
        if amount == facts.lanes:
            # A kernel that reads its own output must not compute results twice: mask the tail.
            yield from _mask(facts, axis, amount, why)
        amount //= 2
    yield Proposal(f"one at a time along {facts.name(axis)}: no other amount is allowed")


def _is_split_by_lines(facts: KernelFacts, axis: UOp, amount: int) -> bool:
    """Whether many stores of whole vectors along `axis` would write to two cache lines each, and aligned
    tiles are few more.
    """
    size, lanes = exact_trips(axis), facts.access_lanes
    return (
        isinstance(size, int)
        and facts.target.vector_bits >= constants.SPLIT_VECTOR_BITS
        and not facts.target.has_local
        and not facts.n_slow
        and not facts.carried
        and not any(axis in r.loops or axis in r.node.ranges for r in facts.reductions)
        and all(a.stride(axis) in (0, 1) for a in facts.accesses)
        and -(-(size + lanes - 1) // amount) * amount <= constants.ALIGNED_EXCESS * size
        and find_misalignment((a.node for a in facts.accesses if a.is_store), axis, facts.target)
        is not None
    )


def _take_masked(facts: KernelFacts, axis: UOp, amount: int, why: str) -> Question:
    """Propose to compute `amount` results at a time along an axis that may be shorter than a vector,
    with a masked tail.
    """
    while amount > facts.lanes and amount * 4 > max_trips(axis):
        amount //= 2
    if amount <= max_trips(axis):
        yield from _mask(facts, axis, amount, why)


def _mask(facts: KernelFacts, axis: UOp, amount: int, why: str) -> Question:
    if facts.target.has_masked_access:
        moves = (Move(OptOp.PADTO, axis, amount), Move(OptOp.UPCAST, axis, amount))
        yield Proposal(f"{why}, {amount} at a time, the tail masked", moves)


def _fill_rows(facts: KernelFacts, plan: _Plan) -> Iterator[Question]:
    """Vectorize the loops that fill private memory or a part of the results, unless their rows
    depend on the vectorized axis.
    """
    for nest in facts.rows:
        axis = _find_lane_axis(facts, nest.loops, nest.accesses)
        if axis is not None and plan.lane_axis not in nest.node.ranges:
            why = f"lanes along {facts.name(axis)} fill a row"
            amount = _fit(facts, axis, facts.lanes * _count_vectors(facts, axis))
            yield _take(facts, axis, amount, why)


def _take_reduced_lanes(facts: KernelFacts, plan: _Plan) -> Iterator[Question]:
    done: set[UOp] = set()
    for reduction in facts.reductions:
        if plan.lane_axis in reduction.node.ranges:
            continue
        loops = [r for r in reduction.loops if r.arg.kind is AxisType.REDUCE and r not in done]
        axis = _find_lane_axis(facts, loops, reduction.accesses)
        if axis is None:
            yield [Proposal("no lanes for a reduction: its reads are not close in memory")]
            continue
        done.add(axis)
        # Each result of a register tile has its own accumulators, which limits the vectors per sum;
        # this holds for later reductions of the kernel as well.
        is_tiled = bool(_list_tile_axes(facts, reduction, plan.lane_axis))
        n_vectors = (
            1 if is_tiled else max(constants.VECTORS_OF_TERMS // (2 if facts.n_slow else 1), 1)
        )
        amount = facts.lanes * n_vectors
        # At least two iterations, so that the tail is no longer than the main loop; a single vector
        # if need be.
        while amount > facts.lanes and amount * 2 > max_trips(axis):
            amount //= 2
        while amount > max_trips(axis):
            amount //= 2
        if amount > 1:
            yield _take_reduced(facts, axis, amount)


def _take_reduced(facts: KernelFacts, axis: UOp, amount: int) -> Question:
    why = f"lanes along {facts.name(axis)}, since no axis of the results can be vectorized"
    size = exact_trips(axis)
    is_even = not isinstance(size, int) or size % amount == 0
    # The tail is added up one by one: fewer vectors per iteration may shorten it.
    amounts = [
        n
        for n in (amount, amount // 2, amount // 4)
        if n == amount or (n >= facts.lanes and not is_even)
    ]
    candidates = [
        Proposal(f"{why}, {n} at a time", (Move(OptOp.UNROLL, axis, n),)) for n in amounts
    ]
    return Weighed(candidates) if len(candidates) > 1 else candidates


# --- register tiles


def _list_tile_axes(facts: KernelFacts, reduction: Nest, lane_axis: UOp | None) -> list[UOp]:
    """Axes of results that some load of the reduction does not depend on: a register tile along them
    shares that load.
    """
    operands = reduction.operands
    if len(operands) < 2:
        return []
    shared = [
        a
        for a in reduction.results
        if a is not lane_axis
        and not all(n.depends_on(a) for n in operands)
        and not reduction.is_chosen_by(a)
    ]
    # The axis of contiguous stores comes first: its tile can become lanes after the reduction. Then
    # axes whose tile shares a vector load rather than a scalar one.
    vectors = [n for n in operands if lane_axis is not None and n.depends_on(lane_axis)]
    return sorted(
        shared,
        key=lambda a: (
            not facts.is_stored_along(a),
            any(n.depends_on(a) for n in vectors),
            -int(a.vmax),
        ),
    )[:2]


def _take_tiles(facts: KernelFacts, plan: _Plan) -> Iterator[Question]:
    if plan.tiled is None:
        return
    n_accumulators = count_accumulators(facts.target)
    axes = _list_tile_axes(facts, plan.tiled, plan.lane_axis)
    lane_axis = plan.lane_axis if plan.lane_axis in plan.tiled.node.ranges else None
    if lane_axis is not None:
        if plan.panel is not None:
            n_free = count_tile_rows(facts.target, plan.panel.n_vectors)
        else:
            n_free = n_accumulators // constants.VECTORS_OF_TILES
            if is_streamed(facts, plan.tiled, lane_axis):
                n_free = min(n_free, constants.STREAMED_TILE)
            if axes and max_trips(axes[0]) > n_free:
                n_free = count_rows_in_cache(facts, plan.tiled, axes[0], n_free)
        amounts = [n_free, _count_more(axes, n_free)]
    else:
        amounts = [
            constants.FEW_RESULTS,
            max(n_accumulators // constants.FEW_RESULTS, _count_more(axes, n_accumulators)),
        ]
    for axis, amount in zip(axes, amounts, strict=False):
        if amount > 1:
            yield _take_tile(facts, axis, amount, may_overlap=lane_axis is not None)


def _count_more(axes: list[UOp], n_free: int) -> int:
    """Size of the register tile along a second axis, where the whole first axis leaves more than
    half of the registers free.
    """
    size = exact_trips(axes[0]) if len(axes) > 1 else n_free
    amount = n_free // size if isinstance(size, int) else 1
    # Only amounts that divide the axis, or a long axis: overlap costs more than the tile gains.
    return next(
        (
            n
            for n in range(amount, 1, -1)
            if max_trips(axes[1]) % n == 0 or max_trips(axes[1]) >= 8 * n
        ),
        1,
    )


def _take_tile(facts: KernelFacts, axis: UOp, amount: int, *, may_overlap: bool) -> Question:
    """Propose a register tile of `amount` results along `axis`, or of its largest divisor, which is
    preferred unless the last tile `may_overlap` and takes less time.
    """
    size = exact_trips(axis)
    why = f"results along {facts.name(axis)} share loads"
    full = [Proposal(f"{why}, all of them at a time", (Move(OptOp.UPCAST, axis, 0),))]
    # The smallest tile that gives the same number of tiles as `amount`.
    even = -(-size // -(-size // amount)) if isinstance(size, int) else amount
    overlapping = [
        Proposal(
            f"{why}, {even} at a time, the last tile overlaps", (Move(OptOp.OVERLAP, axis, even),)
        )
    ]
    if not isinstance(size, int):
        return chain(
            overlapping, _mask(facts, axis, amount, why) if max_size(size) >= amount else ()
        )
    if size <= amount:
        return full
    divisors = [n for n in range(amount, max(amount // 2, 2), -1) if size % n == 0]
    exact = [
        Proposal(f"{why}, {n} at a time", (Move(OptOp.UPCAST, axis, n),)) for n in divisors[:1]
    ]
    # A few results that are computed twice may cost less than a tile that fills fewer registers.
    time = {n: -(-size // n) * n * (1 + constants.TILE_COST / n) for n in (even, *divisors[:1])}
    is_shorter = not divisors or time[even] < time[divisors[0]]
    return [*overlapping, *exact] if is_shorter and may_overlap else [*exact, *overlapping]


# --- panels


def _pack_panel(facts: KernelFacts, plan: _Plan, scheduler: Scheduler) -> Iterator[Question]:
    """Pack in the loop over the panels; a single panel in the innermost loop that selects its operand,
    or, if there is none, in the outermost loop.
    """
    if plan.panel is None or plan.panel.is_packed:
        return
    axes, axis = scheduler.axes, plan.panel.axis
    panels = [r for r in axes if r.arg == axis.arg]
    chosen = {r.arg for r in facts.axes if plan.panel.operand.depends_on(r)}
    outer = [r for r in axes if r.arg.kind in (AxisType.THREAD, AxisType.LOOP)]
    selecting = [r for r in outer if r.arg in chosen]
    where = f"for each panel along {facts.name(axis)}" if panels else "once"
    why = f"packed {where}, an overhead of {100 * plan.panel.cost:.1f} % of the product's work"
    # A single panel without an enclosing loop is packed before all loops.
    yield [
        *(Proposal(why, (Move(OptOp.PACK, r),)) for r in (panels or selecting[-1:] or outer)[:1]),
        Proposal(why, (Opt(OptOp.PACK, None),)),
    ]
    yield from _pack_widened_rows(plan, outer)


def _pack_widened_rows(plan: _Plan, loops: Sequence[UOp]) -> Iterator[Question]:
    """Pack a tile of rows of the other operand if it is converted to a wider dtype: each element is
    then converted as part of a vector, and not alone.
    """
    if plan.tiled is None or plan.panel is None:
        return
    axis = plan.panel.axis
    rows = [n for n in plan.tiled.node.source.src if axis not in n.ranges and is_widened(n)]
    selecting = {r.arg for n in rows for r in n.ranges}
    inside = [r for r in loops if r.arg in selecting]
    if inside:
        yield [
            Proposal(
                "rows are converted to a wider dtype once for each panel",
                (Move(OptOp.PACK, inside[-1]),),
            )
        ]
