"""Choice of the loop over results that is split over the threads of a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from svod_ir import AxisType, OptOp, UOp, exact_trips, max_trips
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.heuristics.facts import Access, KernelFacts
from svod_schedule.optimize.heuristics.panel import Panel
from svod_schedule.optimize.heuristics.proposals import Move, Proposal, Question
from svod_schedule.optimize.opts.scheduler import Scheduler

__all__ = ["take_threads"]


def take_threads(
    facts: KernelFacts, scheduler: Scheduler, panel: Panel | None = None
) -> Iterator[Question]:
    """Split the outermost loop whose iterations the threads share evenly, or else the one with which
    they repeat least. With a loop that does not select the `panel`, each thread packs all panels.
    """
    n = facts.target.cores
    if n < 2 or facts.target.has_local:
        return
    if facts.work < constants.MIN_THREADED_WORK:
        yield [
            Proposal(f"one thread: {facts.work} steps are less than {constants.MIN_THREADED_WORK}")
        ]
        return
    selecting = {r.arg for r in facts.axes if panel is not None and panel.operand.depends_on(r)}

    def count_overhead(r: UOp) -> float:
        copying = 0.0 if panel is None or r.arg in selecting else panel.cost * (n - 1)
        overhead = (
            _count_idle(r, n) + copying + _count_repeated(facts, r) + _count_waiting(facts, r)
        )
        return overhead if overhead > constants.MAX_IMBALANCE else 0.0

    # The sort is stable: among equal loops, the outermost one is first. A kernel that reads its own
    # output cannot be split with an overlap, but after its loop is padded.
    loops = [
        r
        for r in scheduler.axes
        if r.arg.kind is AxisType.LOOP and int(r.stop.vmin) >= n and _has_long_rows(facts, r)
    ]
    yield (
        Proposal(
            f"{n} threads along {facts.name(r)}, for {facts.work} steps",
            (*padding, Move(OptOp.THREAD, r, n)),
        )
        for r in sorted(loops, key=count_overhead)
        for padding in ((), (Move(OptOp.PADTO, r, n),))
    )


def _count_repeated(facts: KernelFacts, loop: UOp) -> float:
    """Count the steps of reductions that do not depend on `loop`, so that each thread computes them,
    relative to all steps.
    """
    axis = facts.find_axis(loop)
    repeated = sum(
        max_trips(*nest.node.ranges, *nest.loops)
        for nest in facts.reductions
        if axis not in nest.node.ranges
    )
    return (facts.target.cores - 1) * repeated / facts.n_steps


def _count_waiting(facts: KernelFacts, loop: UOp) -> float:
    """Estimate how long threads that share `loop` wait for the cache line at the end of each part of a
    row of results, relative to the work on the row.
    """
    if len(facts.results) == 1:
        return 0.0
    rows = (_count_row_bytes(facts, loop, a) for a in facts.accesses if a.is_store)
    n_steps = min((n for n in rows if n), default=inf) * facts.work / facts.n_results
    return constants.SHARED_LINE_COST * facts.target.cores / n_steps


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


def _count_idle(r: UOp, n_threads: int) -> float:
    """Count the iterations that are computed twice, or not at all, by `n_threads` parts of a loop of the
    same length, relative to the loop.
    """
    size = exact_trips(r)
    if not isinstance(size, int):
        size = max_trips(r) // n_threads * n_threads
    return -(-size // n_threads) * n_threads / size - 1
