"""Choice of the loop over results that is split over the threads of a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from math import inf
from typing import NamedTuple

from svod_ir import AxisType, OptOp, UOp, exact_trips, max_trips
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.heuristics.facts import Access, KernelFacts, is_multiple
from svod_schedule.optimize.heuristics.panel import Panel
from svod_schedule.optimize.heuristics.proposals import Move, Proposal, Question
from svod_schedule.optimize.opts.scheduler import Scheduler

__all__ = ["take_threads"]


def take_threads(
    facts: KernelFacts, scheduler: Scheduler, panel: Panel | None = None, *, most: int | None = None
) -> Iterator[Question]:
    """Split the outermost loop that the threads share evenly, or else the one with which they repeat
    least. With a loop that does not select the `panel`, each part packs all panels.

    `most` is the maximum number of parts, by default `max_parts` of the target.
    """
    n = facts.target.cores
    if n < 2 or facts.target.has_local:
        return
    if facts.work < constants.MIN_THREADED_WORK:
        yield [
            Proposal(f"one thread: {facts.work} steps are less than {constants.MIN_THREADED_WORK}")
        ]
        return
    loops = [
        r
        for r in scheduler.axes
        if r.arg.kind is AxisType.LOOP and int(r.stop.vmin) >= n and _has_long_rows(facts, r)
    ]
    shares = (_divide(facts, r, panel, most or facts.target.max_parts) for r in loops)
    # The sort is stable: among equal loops, the outermost one is first.
    ordered = sorted(shares, key=lambda share: share.overhead)
    yield chain.from_iterable(_split(facts, share) for share in ordered)


class _Share(NamedTuple):
    """A loop in `n_parts`; the overhead is relative to all work, and 0 if it is negligible. `n_even` is
    the best number of parts that divides the loop, if there is one.
    """

    loop: UOp
    n_parts: int
    n_even: int | None
    overhead: float


def _split(facts: KernelFacts, share: _Share) -> Iterator[Proposal]:
    loop, n_parts, n_even, _ = share
    # A kernel that reads its own output cannot be split with an overlap, but evenly, or after its
    # loop is padded.
    splits = [(n_parts, [Move(OptOp.THREAD, loop, n_parts)])]
    if n_even is not None and n_even != n_parts:
        splits.append((n_even, [Move(OptOp.THREAD, loop, n_even)]))
    splits.append((n_parts, [Move(OptOp.PADTO, loop, n_parts), Move(OptOp.THREAD, loop, n_parts)]))
    for amount, moves in splits:
        why = f"{facts.target.cores} threads along {facts.name(loop)}"
        if amount != facts.target.cores:
            why += f" in {amount} parts"
        yield Proposal(f"{why}, for {facts.work} steps", tuple(moves))


def _divide(facts: KernelFacts, loop: UOp, panel: Panel | None, most: int) -> _Share:
    """Divide a loop into the number of parts with the least overhead."""
    n, size = facts.target.cores, exact_trips(loop)
    repeated = _count_repeated(facts, loop)
    axis = facts.find_axis(loop)
    if panel is not None and not (axis is not None and panel.operand.depends_on(axis)):
        repeated += panel.copying
    fetched = _count_fetched(facts, axis)
    waiting = _count_waiting(facts, loop)
    fitting = n
    # Each part of an update reads all indices.
    if isinstance(size, int) and not facts.updated:
        fitting = max(min(most, size, facts.work // constants.MIN_PART_WORK), n)

    def count_overhead(n_parts: int) -> float:
        return (
            _count_idle(loop, n_parts, n)
            + fetched
            + repeated * (n_parts - 1)
            + waiting * n_parts
            + constants.UNEVEN_COST * n * (1 / n_parts - 1 / most)
        )

    counts = range(n, fitting + 1)
    n_parts = min(counts, key=count_overhead)
    n_even = min((c for c in counts if is_multiple(loop, c)), default=None, key=count_overhead)
    overhead = count_overhead(n_parts)
    return _Share(loop, n_parts, n_even, overhead if overhead > constants.MAX_IMBALANCE else 0.0)


def _count_repeated(facts: KernelFacts, loop: UOp) -> float:
    """Count the steps of reductions that do not depend on `loop`, so that each part computes them,
    relative to all steps.
    """
    axis = facts.find_axis(loop)
    repeated = sum(
        max_trips(*nest.node.ranges, *nest.loops)
        for nest in facts.reductions
        if axis not in nest.node.ranges
    )
    return repeated / facts.n_steps


def _count_fetched(facts: KernelFacts, axis: UOp | None) -> float:
    """Estimate how long a thread that shares `axis` waits for the operands of products that all threads
    read, and that the caches of the others hold, relative to its share of the work.
    """
    shared = {
        a.node.memory.unordered: a.memory_bytes
        for nest in facts.reductions
        if len(nest.operands) > 1
        for a in nest.operands
        if axis is None or not a.depends_on(axis)
    }
    n_bytes = sum(shared.values())
    return constants.FETCHED_BYTE_COST * n_bytes * (facts.target.cores - 1) / facts.work


def _count_waiting(facts: KernelFacts, loop: UOp) -> float:
    """Estimate how long threads that share `loop` wait for the cache line at the end of a part of a row
    of results, relative to the work on the row.
    """
    if len(facts.results) == 1:
        return 0.0
    rows = (_count_row_bytes(facts, loop, a) for a in facts.accesses if a.is_store)
    n_steps = min((n for n in rows if n), default=inf) * facts.work / facts.n_results
    return constants.SHARED_LINE_COST / n_steps


def _has_long_rows(facts: KernelFacts, loop: UOp) -> bool:
    """Whether the threads that share `loop` would update long parts of each row, or separate rows."""
    rows = (n for n in (_count_row_bytes(facts, loop, a) for a in facts.updated) if n)
    return min(rows, default=inf) >= facts.target.cores * constants.MIN_UPDATED_BYTES


def _count_row_bytes(facts: KernelFacts, loop: UOp, access: Access) -> int:
    """Count the bytes of a row that is contiguous along `loop`; 0 if none is."""
    axis = facts.find_axis(loop)
    if axis is None or access.stride(axis) != 1:
        return 0
    return max_trips(axis) * access.node.dtype.itemsize


def _count_idle(r: UOp, n_parts: int, n_threads: int) -> float:
    """Estimate how long threads wait for the last of `n_parts` parts of a loop of the same length, or
    compute iterations that others compute too, relative to the time of the loop.
    """
    size = exact_trips(r)
    if not isinstance(size, int):
        size = max_trips(r) // n_parts * n_parts
    n_rounds = -(-n_parts // n_threads)
    return n_rounds * -(-size // n_parts) * n_threads / size - 1
