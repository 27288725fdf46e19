"""Questions about a kernel, and proposals of Opts that answer them.

A heuristic reads a kernel's facts and asks questions; a `Question` is a list of `Proposal`s, the
preferred one first, each with its reason. The first proposal of which the kernel and the target
allow all moves is applied. Where measurements showed the cost model to be better than a constant,
it chooses the preferred proposal (`Weighed`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from svod_ir import Opt, OptOp, UOp, format_opts
from svod_schedule.optimize.heuristics import constants
from svod_schedule.optimize.opts.scheduler import Scheduler

__all__ = ["Move", "Proposal", "Question", "Reason", "Weighed", "answer"]

_REDUCED = (OptOp.UNROLL, OptOp.GROUP, OptOp.GROUPTOP)


class Move(NamedTuple):
    """An Opt that refers to a loop by its RANGE instead of an index, which earlier Opts shift;
    `other` is the second loop of a SWAP.
    """

    op: OptOp
    axis: UOp
    amount: int | None = None
    other: UOp | None = None

    def find_opt(self, scheduler: Scheduler) -> Opt | None:
        """Return the Opt for the scheduler's present kernel; None if a loop no longer exists."""
        axes = [r.arg for r in (scheduler.reduced_axes if self.op in _REDUCED else scheduler.axes)]
        if self.axis.arg not in axes or (self.other is not None and self.other.arg not in axes):
            return None
        return Opt(
            self.op,
            axes.index(self.axis.arg),
            self.amount if self.other is None else axes.index(self.other.arg),
        )


class Proposal(NamedTuple):
    """Moves that are applied together, with the reason for them; no moves leave the kernel
    unchanged.
    """

    reason: str
    moves: tuple[Move | Opt, ...] = ()


@dataclass(frozen=True, slots=True)
class Weighed:
    """Proposals of which the first is preferred unless the cost model predicts a much shorter time
    for another.
    """

    proposals: Sequence[Proposal]

    def __iter__(self) -> Iterator[Proposal]:
        return iter(self.proposals)

    def list_best_first(self, scheduler: Scheduler) -> list[Proposal]:
        """Return the allowed proposals, the best one first."""
        # Imported late: few kernels need the cost model.
        from svod_schedule.optimize.cost_model.expected_time import estimate_cost

        # Graphs are shared by copies, so a trial costs only the Opts that it applies.
        trials = [(proposal, scheduler.copy()) for proposal in self.proposals]
        allowed = [(c, trial) for c, trial in trials if _try_moves(trial, c.moves) is not None]
        seconds = [estimate_cost(trial.sink, trial.target).seconds for _, trial in allowed]
        proposals = [c for c, _ in allowed]
        least = min(seconds, default=0.0)
        # The cost model misjudges times by more than a small gain, so a tie keeps the constant's
        # choice.
        if not seconds or least > seconds[0] * (1 - constants.MIN_EXPECTED_GAIN):
            return proposals
        best, saved = proposals[seconds.index(least)], 1 - least / seconds[0]
        return [
            best._replace(reason=f"{best.reason}, which should save {saved:.0%} of the time"),
            *proposals,
        ]


Question: TypeAlias = Iterable[Proposal]


class Reason(NamedTuple):
    """Explanation of some Opts of a kernel or, with no opts, of the absence of a kind of Opt."""

    text: str
    opts: tuple[Opt, ...] = ()

    def __str__(self) -> str:
        return f"{format_opts(self.opts)}: {self.text}" if self.opts else self.text


def answer(scheduler: Scheduler, questions: Iterable[Question]) -> Iterator[Reason]:
    """Apply the first allowed proposal of each question, and yield its reason."""
    for question in questions:
        for proposal in (
            question.list_best_first(scheduler) if isinstance(question, Weighed) else question
        ):
            opts = _try_moves(scheduler, proposal.moves)
            if opts is not None:
                yield Reason(proposal.reason, opts)
                break


def _try_moves(scheduler: Scheduler, moves: tuple[Move | Opt, ...]) -> tuple[Opt, ...] | None:
    """Apply all moves and return them as Opts; None, with the scheduler unchanged, if one of them is
    not allowed.
    """
    # All moves or none: a PADTO without the UPCAST after it would only add masks.
    before = scheduler.copy()
    for move in moves:
        opt = move.find_opt(scheduler) if isinstance(move, Move) else move
        if opt is None or not scheduler.try_opt(opt):
            scheduler.restore(before)
            return None
    return tuple(scheduler.applied_opts[len(before.applied_opts) :])
