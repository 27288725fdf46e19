"""Search for one kernel: from stored records to verified opts."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

from svod_ir import Opt, format_opts, print_graph
from svod_schedule.optimize.beam import Event, Tried, format_event, search
from svod_schedule.optimize.candidates import (
    Candidate,
    Dropped,
    DropReason,
    Outcome,
    Timed,
    find_seconds,
    is_stopped,
    make_key,
    rank_candidates,
)
from svod_schedule.optimize.result import SearchResult, StopReason
from svod_schedule.steps import optimize
from svod_tensor.tuning.records import Record, store_record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from svod_ir import UOp
    from svod_schedule import OptimizerConfig
    from svod_schedule.pipeline import Context
    from svod_tensor.tuning.measure import Measurer
    from svod_tensor.tuning.time_box import TimeBox

__all__ = ["KernelSearch"]

_SHOWN_LINES: Final = 80

Opts: TypeAlias = tuple[Opt, ...]


class KernelSearch:
    """Search for the opts of one kernel.

    Args:
        kernel: the body of a CALL.
        key: key of its record.
        box: remaining time of the search.
        report: called with each event of the search.
    """

    def __init__(
        self,
        kernel: UOp,
        context: Context,
        config: OptimizerConfig,
        key: str,
        measurer: Measurer,
        box: TimeBox,
        report: Callable[[Event], None],
    ) -> None:
        self._kernel, self._context, self._config, self._key = kernel, context, config, key
        self._measurer, self._box, self._report = measurer, box, report
        self._candidates: dict[str, Candidate] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._spent_before = 0.0

    def run(self, earlier: Record | None) -> tuple[Record, tuple[Opts, ...]]:
        """Run the search, or resume it from `earlier`; return the stored record and the opts that
        proved to be wrong.
        """
        if earlier is not None:
            # Candidates that were measured before are not compiled again.
            self._outcomes.update(earlier.result.outcomes)
            self._spent_before = earlier.spent_seconds
        result = search(
            self._kernel,
            self._context,
            self._config,
            self._measure,
            should_stop=self._box.is_over,
            report=self._note,
            known=dict(self._outcomes),
        )
        spent = self._spent_before + self._box.elapsed()
        opts, wrong = self._choose(result)
        chosen, heuristic = self._make_candidate(opts), self._make_candidate(result.heuristic_opts)
        result = replace(
            result,
            opts=opts,
            seconds=self._seconds(chosen),
            heuristic_seconds=self._seconds(heuristic),
            outcomes=dict(self._outcomes),
        )
        record = Record(chosen.kernel.arg.name, result, spent, opts)
        store_record(self._key, record)
        return record, wrong

    def _measure(
        self, candidates: Sequence[Candidate], best_seconds: float | None, /
    ) -> Sequence[Outcome]:
        outcomes = self._measurer(candidates, best_seconds)
        for candidate, outcome in zip(candidates, outcomes, strict=True):
            self._keep(candidate, outcome)
        self._store_state()
        return outcomes

    def _note(self, event: Event) -> None:
        if isinstance(event, Tried):
            self._keep(event.candidate, event.outcome)
            if (
                self._config.log_drops
                and isinstance(event.outcome, Dropped)
                and not is_stopped(event.outcome)
            ):
                sys.stderr.write(f"{event.candidate.kernel.arg.name}: {format_event(event)}\n")
        self._report(event)

    def _keep(self, candidate: Candidate, outcome: Outcome) -> None:
        self._candidates.setdefault(candidate.key, candidate)
        # A candidate for which no time was left has no result: the next search tries it.
        if not is_stopped(outcome):
            self._outcomes[candidate.key] = outcome

    def _store_state(self) -> None:
        """Store the present state, in case the process ends."""
        heuristic = next(iter(self._candidates.values()))  # the first that is measured
        ranked = self._rank()
        best = ranked[0] if ranked else heuristic
        state = SearchResult(
            opts=best.opts,
            seconds=self._seconds(best),
            heuristic_opts=heuristic.opts,
            heuristic_seconds=self._seconds(heuristic),
            unoptimized_seconds=None,
            stop=StopReason.STOPPED,
            outcomes=dict(self._outcomes),
        )
        spent = self._spent_before + self._box.elapsed()
        store_record(self._key, Record(heuristic.kernel.arg.name, state, spent))

    def _rank(self) -> list[Candidate]:
        return rank_candidates(self._candidates.values(), self._outcomes)

    def _seconds(self, candidate: Candidate) -> float | None:
        return find_seconds(candidate, self._outcomes)

    def _make_candidate(self, opts: Opts) -> Candidate:
        kernel = optimize(self._kernel, replace(self._context, opts=opts)).sink
        return Candidate(opts, kernel, make_key(kernel))

    def _choose(self, result: SearchResult) -> tuple[Opts, tuple[Opts, ...]]:
        """The fastest opts with correct results, and the opts with wrong results."""
        unoptimized, heuristic = (
            self._make_candidate(()),
            self._make_candidate(result.heuristic_opts),
        )
        # The plainest kernel, which no opt can have made wrong.
        reference = unoptimized if self._can_run(unoptimized) else heuristic
        wrong: list[Opts] = []
        candidates = self._list_faster(heuristic)
        if not (self._was_dropped(heuristic) and self._has_run(unoptimized)):
            # The last resort is verified as well.
            candidates.append(heuristic)
        for candidate in candidates:
            if candidate.key == reference.key:
                return candidate.opts, tuple(wrong)
            outcome = self._measurer.verify(candidate, reference)
            if (
                outcome is not None
                and outcome.reason is DropReason.HANG
                and reference is unoptimized
            ):
                # The candidate was timed before, so the kernel without opts must be the slow one.
                reference = heuristic
                outcome = (
                    None
                    if candidate.key == heuristic.key
                    else self._measurer.verify(candidate, reference)
                )
            if outcome is None:
                return candidate.opts, tuple(wrong)
            self._outcomes[candidate.key] = outcome
            if outcome.reason is DropReason.WRONG:
                wrong.append(candidate.opts)
                self._warn(candidate, outcome)
        # A kernel that ran is preferred to a choice that was not verified.
        is_better_without = heuristic.opts in wrong or self._has_run(unoptimized)
        return () if is_better_without else heuristic.opts, tuple(wrong)

    def _list_faster(self, heuristic: Candidate) -> list[Candidate]:
        """The candidates that are faster than the heuristics' choice by more than noise, the
        fastest first.
        """
        # Timed again and interleaved, since times of different batches are not accurate to
        # `min_gain`.
        finalists = self._rank()[: self._config.width]
        if not [c for c in finalists if c.key != heuristic.key]:
            return []
        if not self._was_dropped(heuristic):
            finalists = list({c.key: c for c in (*finalists, heuristic)}.values())
        for candidate, outcome in zip(finalists, self._measurer.compare(finalists), strict=True):
            self._keep(candidate, outcome)
        usual = self._seconds(heuristic)
        limit = inf if usual is None else usual * (1 - self._config.min_gain)
        return [
            c
            for c in self._rank()
            if c in finalists and c.key != heuristic.key and (self._seconds(c) or inf) < limit
        ]

    def _was_dropped(self, candidate: Candidate) -> bool:
        return isinstance(self._outcomes.get(candidate.key), Dropped)

    def _has_run(self, candidate: Candidate) -> bool:
        outcome = self._outcomes.get(candidate.key)
        return isinstance(outcome, Timed) or (
            isinstance(outcome, Dropped) and outcome.reason is DropReason.SLOW
        )

    def _can_run(self, unoptimized: Candidate) -> bool:
        outcome = self._outcomes.get(unoptimized.key)
        return not isinstance(outcome, Dropped) or outcome.reason in (
            DropReason.SLOW,
            DropReason.HANG,
        )

    def _warn(self, candidate: Candidate, outcome: Dropped) -> None:
        text = print_graph(self._kernel, limit=_SHOWN_LINES)
        warnings.warn(
            "svod left out opts that change the result of a kernel, which is a bug of svod or of"
            " the device's plugin. Please report it with this text.\nopts:"
            f" {format_opts(candidate.opts)}\ndevice: {self._context.device},"
            f" {self._context.target.name}\n{outcome.detail}\n{text}",
            RuntimeWarning,
            stacklevel=2,
        )
