"""Entry point of the heuristics: the Opts of a kernel, with a reason for each.

`choose` collects the facts of a kernel and answers the questions of its target's heuristics:
`workgroups.py` where work-items run in lockstep; `core_tiles.py` for a product that is faster on a
tensor core; `vectors.py` for all other kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from svod_ir import Opt, Target, UOp
from svod_schedule.optimize.heuristics import vectors, workgroups
from svod_schedule.optimize.heuristics.core_tiles import find_core_choice, iter_core_questions
from svod_schedule.optimize.heuristics.facts import KernelFacts, make_facts
from svod_schedule.optimize.heuristics.proposals import Question, Reason, answer
from svod_schedule.optimize.opts.scheduler import Scheduler

__all__ = ["Chosen", "choose"]


class Chosen(NamedTuple):
    """Choice of the heuristics.

    `scheduler` has the kernel with the opts applied, `reasons` explain the opts.
    """

    scheduler: Scheduler
    reasons: tuple[Reason, ...]

    @property
    def opts(self) -> tuple[Opt, ...]:
        return tuple(self.scheduler.applied_opts)


def choose(kernel: UOp, target: Target) -> Chosen:
    """Choose Opts for a kernel without any, as the passes before `apply-opts` leave it."""
    scheduler = Scheduler(kernel, target)
    return Chosen(
        scheduler, tuple(answer(scheduler, _iter_questions(make_facts(kernel, target), scheduler)))
    )


def _iter_questions(facts: KernelFacts, scheduler: Scheduler) -> Iterator[Question]:
    if facts.target.has_local and facts.target.lockstep > 1:
        yield from workgroups.iter_questions(facts)
        return
    core = find_core_choice(facts)
    if core is not None:
        # The target may refuse TC, e.g. for its limits: the product then falls back to vectors.
        yield [core.proposal]
        if scheduler.applied_opts:
            yield from iter_core_questions(facts, core, scheduler)
            return
    yield from vectors.iter_questions(facts, scheduler)
