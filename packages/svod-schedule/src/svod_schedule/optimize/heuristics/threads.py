"""Choice of the loop over results that is split over the threads of a CPU."""

from __future__ import annotations

from collections.abc import Iterator

from svod_ir import AxisType, OptOp, UOp, exact_trips, max_trips
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.heuristics.facts import KernelFacts
from svod_schedule.optimize.heuristics.proposals import Move, Proposal, Question
from svod_schedule.optimize.opts.scheduler import Scheduler

__all__ = ["take_threads"]


def take_threads(facts: KernelFacts, scheduler: Scheduler) -> Iterator[Question]:
    """Split the outermost loop that is divisible by the number of threads, or long enough for the
    imbalance not to matter.
    """
    n = facts.target.cores
    if n < 2 or facts.target.has_local:
        return
    if facts.work < constants.MIN_THREADED_WORK:
        yield [
            Proposal(f"one thread: {facts.work} steps are less than {constants.MIN_THREADED_WORK}")
        ]
        return
    # Loops that split evenly come first; the sort is stable, so outer ones precede inner ones.
    loops = [r for r in scheduler.axes if r.arg.kind is AxisType.LOOP and int(r.stop.vmin) >= n]
    # A kernel that reads its own output cannot be split with an overlap, but after its loop is padded.
    yield (
        Proposal(
            f"{n} threads along {facts.name(r)}, for {facts.work} steps",
            (*padding, Move(OptOp.THREAD, r, n)),
        )
        for r in sorted(loops, key=lambda r: not _splits_well(r, n))
        for padding in ((), (Move(OptOp.PADTO, r, n),))
    )


def _splits_well(r: UOp, n_parts: int) -> bool:
    size = exact_trips(r)
    return max_trips(r) >= 4 * n_parts or (isinstance(size, int) and size % n_parts == 0)
