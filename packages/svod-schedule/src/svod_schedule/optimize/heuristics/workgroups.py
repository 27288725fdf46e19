"""Opts for GPUs, whose work-items run in lockstep.

The accesses of neighboring work-items have to be coalesced, since memory is transferred by the
line. So

- a product of two operands is computed in tiles: each work-item of a workgroup has a small tile,
  and reads its operands from shared memory, to which the workgroup copied them;
- a reduction along contiguous memory is shared by work-items, neighbors reading neighboring
  elements; their partial results are combined in shared memory;
- a reduction across memory, and elementwise kernels, assign neighboring results to neighboring
  work-items;
- a transposition is computed in square tiles, so that both sides use whole cache lines.

Axes that no suitable amount divides are padded and masked. A core that runs work-items sequentially
gains nothing from all this: such targets use the heuristics for vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from math import prod

from svod_ir import OptOp, SInt, UOp, exact_trips, max_trips
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.heuristics.facts import KernelFacts, Nest, is_multiple
from svod_schedule.optimize.heuristics.proposals import Move, Proposal, Question

__all__ = ["iter_questions"]


def iter_questions(facts: KernelFacts) -> Iterator[Question]:
    """Questions in order."""
    for reduction in facts.reductions if facts.target.has_shared else ():
        sides = _find_sides(facts, reduction)
        if sides is not None:
            yield from _take_product(facts, reduction, *sides)
            return
    if facts.reductions:
        # A reduction along contiguous memory is shared first: one work-item for each row would read
        # lines of which its neighbors use nothing.
        yield chain(
            _share_reduction(facts, facts.reductions[0]), _take_columns(facts, facts.reductions[0])
        )
    else:
        yield chain(_take_squares(facts), _take_elements(facts))


# --- products


def _find_sides(facts: KernelFacts, reduction: Nest) -> tuple[UOp, UOp] | None:
    """Find the row and the column axis of a product: the longest axes of the results that only one
    operand depends on. Results are contiguous along the columns.
    """
    operands = reduction.operands
    if len(operands) != 2 or reduction.n_iterations < constants.MIN_SIDE:
        return None
    sides: list[UOp] = []
    for own, opposite in (operands, operands[::-1]):
        axes = [
            r
            for r in facts.results
            if own.depends_on(r)
            and not opposite.depends_on(r)
            and max_trips(r) >= constants.MIN_SIDE
        ]
        stored = [r for r in axes if facts.is_stored_along(r)]
        if not axes:
            return None
        sides.append((stored or sorted(axes, key=max_trips))[-1])
    first, second = sides
    return (second, first) if facts.is_stored_along(first) else (first, second)


def _take_product(
    facts: KernelFacts, reduction: Nest, rows: UOp, columns: UOp
) -> Iterator[Question]:
    target = facts.target
    # A square workgroup: each operand's tile is read by as many work-items as possible.
    side = 1 << (min(constants.N_STEPS * target.lockstep, target.max_local).bit_length() - 1) // 2
    n_rows, n_columns = _choose_tile(facts, rows, columns, side)
    # Rows of one work-item are neighbors; of its columns only one vector is, so that the
    # work-items of a lockstep group store neighboring vectors.
    yield _take_side(facts, rows, side, n_rows, n_rows)
    yield _take_side(facts, columns, side, n_columns, min(n_columns, facts.access_lanes))
    longest = max(reduction.loops, key=max_trips)
    loops = [r for r in facts.axes if r in reduction.loops]
    yield (
        Proposal(
            f"{depth} steps along {facts.name(longest)} are copied to shared memory at a time",
            (Move(OptOp.UNROLL, longest, depth), Move(OptOp.PACK, loop)),
        )
        for depth in constants.DEPTHS
        if depth <= max_trips(longest)
        for loop in loops
    )


def _choose_tile(facts: KernelFacts, rows: UOp, columns: UOp, side: int) -> tuple[int, int]:
    """Choose the largest tile per work-item that leaves enough workgroups of `side` x `side`."""
    n_others = facts.n_results // (max_trips(rows) * max_trips(columns))
    for n_rows, n_columns in constants.TILES:
        n_tiles = -(-max_trips(rows) // (side * n_rows)) * -(
            -max_trips(columns) // (side * n_columns)
        )
        if n_tiles * n_others >= constants.N_GROUPS * facts.target.cores:
            return n_rows, n_columns
    return constants.TILES[-1]


def _take_side(
    facts: KernelFacts, axis: UOp, n_items: int, amount: int, n_neighbours: int
) -> Question:
    """Assign `amount` results along `axis` to each of `n_items` work-items, `n_neighbours` of them
    contiguous.
    """
    moves: list[Move] = []
    if not is_multiple(axis, n_items * amount):
        moves.append(Move(OptOp.PADTO, axis, n_items * amount))
    if n_neighbours > 1:
        moves.append(Move(OptOp.UPCAST, axis, n_neighbours))
    moves.append(Move(OptOp.LOCAL, axis, n_items))
    if amount > n_neighbours:
        moves.append(Move(OptOp.UPCAST, axis, amount // n_neighbours))
    return [
        Proposal(
            f"{n_items} work-items take {amount} result{'s' * (amount > 1)} each along"
            f" {facts.name(axis)}",
            tuple(moves),
        )
    ]


# --- reductions


def _share_reduction(facts: KernelFacts, reduction: Nest) -> Question:
    """Assign neighboring elements of a reduction along memory to neighboring work-items, as
    vectors where they divide the rows.
    """
    along = [
        r for r in reduction.loops if isinstance(exact_trips(r), int) and _moves_along(reduction, r)
    ]
    if not along or not facts.target.has_shared:
        return
    axis, lockstep, lanes = max(along, key=max_trips), facts.target.lockstep, facts.access_lanes
    while lanes > 1 and max_trips(axis) % (lanes * min(lockstep, max(max_trips(axis) // lanes, 1))):
        lanes //= 2
    n_steps = max_trips(axis) // lanes
    # At least two steps per work-item, or combining the partial results would dominate.
    most = min(constants.N_STEPS * lockstep, facts.target.max_local, max(n_steps // 2, 1))
    amount = _power_of_two_in(n_steps, most)
    moves: list[Move] = []
    # No suitable divisor: rounded up and masked, the reduction still uses whole lockstep groups.
    # Masked elements are read one by one, so vectors are given up.
    if amount < min(lockstep, most // 2):
        lanes, amount = 1, 1 << most.bit_length() - 1
        moves.append(Move(OptOp.PADTO, axis, amount))
    if lanes > 1:
        moves.append(Move(OptOp.UNROLL, axis, lanes))
    if amount > 1:
        moves.append(Move(OptOp.GROUP, axis, amount))
        why = f"{amount} work-items share {facts.name(axis)}, neighbours in memory"
        yield from _share_results(facts, _count_items(facts) // amount, why, moves)


def _take_columns(facts: KernelFacts, reduction: Nest) -> Question:
    """Assign neighboring results to work-items. If results are few, a lockstep group takes them,
    and further groups take parts of the reduction.
    """
    target = facts.target
    n_parts = (
        target.lockstep
        * target.cores
        * constants.N_GROUPS
        * constants.N_STEPS
        // max(facts.n_results, 1)
    )
    for axis in sorted(reduction.loops, key=max_trips, reverse=True) if n_parts > 1 else ():
        size = exact_trips(axis)
        amount = (
            _power_of_two_in(size, min(n_parts, constants.N_STEPS)) if isinstance(size, int) else 1
        )
        if amount > 1:
            why = (
                f"{facts.n_results} results are few: {amount} work-items share {facts.name(axis)}"
                " of each"
            )
            # A lockstep group still takes neighboring results, so that its reads are coalesced.
            shares = chain.from_iterable(_iter_shares(facts, target.lockstep, {}))
            yield Proposal(why, (*shares, Move(OptOp.GROUP, axis, amount)))
    yield from _share_results(
        facts, _count_items(facts), "neighbouring results go to neighbouring work-items"
    )


# --- elementwise


def _take_squares(facts: KernelFacts) -> Question:
    """Compute a transposition in square tiles, whose sides are the smallest memory transfer."""
    written = next((a for a in facts.results if facts.is_stored_along(a)), None)
    loads = [n for n in facts.accesses if not n.is_store]
    read = next(
        (
            a
            for a in facts.results
            if a is not written
            and written is not None
            and any(n.stride(a) == 1 and n.stride(written) not in (0, 1) for n in loads)
        ),
        None,
    )
    amount = min(constants.SEGMENT_BYTES // facts.access_bytes, 8)
    if (
        written is None
        or read is None
        or not (is_multiple(read, amount) and is_multiple(written, amount))
    ):
        return
    # Both sides get the square root of the work-items, since a product of the sides is a workgroup.
    most = 1 << (_count_items(facts).bit_length() - 1) // 2
    n_items = [(a, _power_of_two_in(max_trips(a) // amount, most)) for a in (read, written)]
    moves = [Move(OptOp.UPCAST, a, amount) for a in (read, written) if amount > 1]
    moves += [Move(OptOp.LOCAL, a, n) for a, n in n_items if n > 1]
    yield Proposal(
        f"squares of {amount} x {amount} of a transposition use whole lines of both sides",
        tuple(moves),
    )


def _take_elements(facts: KernelFacts) -> Question:
    why = "neighbouring results go to neighbouring work-items"
    axis, lanes = (
        next((a for a in reversed(facts.results) if facts.is_stored_along(a)), None),
        facts.access_lanes,
    )
    if axis is not None and lanes > 1 and is_multiple(axis, lanes):
        is_along = all(n.stride(axis) in (0, 1) for n in facts.accesses)
        if is_along and facts.n_results >= lanes * _count_items(facts):
            sizes = {axis: max_trips(axis) // lanes}
            why_vectors = f"{why}, {lanes} together along {facts.name(axis)}"
            yield from _share_results(
                facts, _count_items(facts), why_vectors, [Move(OptOp.UPCAST, axis, lanes)], sizes
            )
    yield from _share_results(facts, _count_items(facts), why)


# --- shared by the above


def _count_items(facts: KernelFacts) -> int:
    """Number of work-items of a workgroup, a power of two."""
    target = facts.target
    # Few results are spread over all cores before a workgroup gets more than one lockstep group.
    n_items = min(constants.N_STEPS * target.lockstep, facts.n_results // target.cores)
    return min(1 << max(n_items, target.lockstep).bit_length() - 1, target.max_local)


def _share_results(
    facts: KernelFacts,
    n_items: int,
    why: str,
    first: Iterable[Move] = (),
    sizes: Mapping[UOp, int] | None = None,
) -> Question:
    """Apply the `first` moves, then assign neighboring results to up to `n_items` work-items along
    the innermost loops; if that is not allowed, along fewer of them."""
    shares = list(_iter_shares(facts, n_items, sizes or {}))
    # Ends with no LOCAL at all: the first moves alone are better than no answer.
    for n in range(len(shares), -1, -1):
        total = prod(share[-1].amount or 1 for share in shares[:n])
        moves = (*first, *chain.from_iterable(shares[:n]))
        yield Proposal(f"{why}; {total} work-items take results" if total > 1 else why, moves)


def _iter_shares(
    facts: KernelFacts, n_left: int, sizes: Mapping[UOp, int]
) -> Iterator[tuple[Move, ...]]:
    """Moves that assign each loop to work-items, the innermost first; a long loop without a suitable
    divisor is masked.
    """
    for loop in reversed(facts.results):
        size: SInt = sizes.get(loop, exact_trips(loop))
        if n_left < 2:
            return
        padding: tuple[Move, ...] = ()
        if isinstance(size, int) and size <= n_left:
            amount = size
        else:
            amount = _power_of_two_in(size, n_left) if isinstance(size, int) else 1
            if amount < min(n_left, facts.target.lockstep):
                amount, padding = n_left, (Move(OptOp.PADTO, loop, n_left),)
        if amount > 1:
            yield (*padding, Move(OptOp.LOCAL, loop, amount))
            n_left //= amount


def _moves_along(reduction: Nest, axis: UOp) -> bool:
    """Whether all accesses that depend on `axis` are contiguous along it."""
    strides = [a.stride(axis) for a in reduction.accesses if a.depends_on(axis)]
    return bool(strides) and all(s in (1, -1) for s in strides)


def _power_of_two_in(size: int, most: int) -> int:
    """Return the largest power of two that divides `size` and is at most `most`."""
    amount = 1 << max(most, 1).bit_length() - 1
    while size % amount:
        amount //= 2
    return amount
