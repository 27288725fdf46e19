"""Beam search: autotuning of a kernel's Opts by measurement.

The search starts from the unoptimized kernel and from the heuristics' choice. Each round generates
all candidates that are one change away from the best ones so far, and drops duplicates, candidates
that compute much more, and candidates that the cost model predicts to be slow. The remaining ones
are measured. The search ends when a round gains too little, when no candidate is left, or when the
caller stops it; the fastest candidate is the result.

There is no clock here: `measure` times candidates, and `should_stop` tells when time is up. With
`predict` as `measure` nothing is run, and the cost model chooses.

Example:
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> from svod_dtype import float32, void
    >>> from svod_schedule import OptimizerConfig
    >>> from svod_schedule.optimize.beam import predict, search
    >>> from svod_schedule.pipeline import Context
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 64)) for slot in range(2))
    >>> i = UOp.range(64, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))
    >>> config = OptimizerConfig(strategy="beam", width=2, max_measured=8)
    >>> result = search(kernel, Context(target=Target.generic(cores=1)), config, predict)
    >>> result.seconds <= result.heuristic_seconds
    True

    `report` is called with an event for each `Tried` candidate, and for each round:

    >>> from svod_schedule.optimize.beam import Event, Tried, format_event
    >>> events: list[Event] = []
    >>> _ = search(kernel, Context(target=Target.generic(cores=1)), config, predict, report=events.append)
    >>> isinstance(events[0], Tried), format_event(events[0])
    (True, '0.3 us (expected 0.3): UPCAST(0, 32)')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from svod_ir import AxisType, Opt, UOp, format_opts, max_trips
from svod_schedule.errors import OptError
from svod_schedule.optimize.candidates import (
    Candidate,
    Dropped,
    DropReason,
    Measure,
    Outcome,
    Timed,
    find_seconds,
    is_stopped,
    make_key,
    rank_candidates,
)
from svod_schedule.optimize.cost_model.expected_time import Cost, estimate_cost
from svod_schedule.optimize.heuristics.choose import choose
from svod_schedule.optimize.opts.actions import iter_neighbours
from svod_schedule.optimize.opts.scheduler import Scheduler
from svod_schedule.optimize.result import Round, SearchResult, StopReason
from svod_schedule.options import OptimizerConfig
from svod_schedule.pipeline import Context, run_pipeline

__all__ = ["Event", "Tried", "format_event", "predict", "search"]

_BATCH = 8
"""Number of candidates that are measured between two calls of `should_stop`. A larger batch overruns
the time limit by more; each batch also times the fastest kernel so far once more."""

_WORK_ITEM_AXES = frozenset({AxisType.LOCAL, AxisType.WARP, AxisType.GROUP_REDUCE})


@dataclass(frozen=True, slots=True)
class Tried:
    """Outcome of a candidate that was measured, or dropped for a limit."""

    candidate: Candidate
    outcome: Outcome


Event: TypeAlias = Tried | Round
"""What a search reports: a candidate, or the end of a round."""


def predict(candidates: Sequence[Candidate], _best_seconds: float | None = None) -> list[Outcome]:
    """A `Measure` that returns the cost model's predictions: for targets that are not available."""
    return [Timed(c.predicted) for c in candidates]


def format_event(event: Event) -> str:
    """Format an event as one line."""
    if isinstance(event, Round):
        best = "none timed" if event.best_seconds is None else f"{event.best_seconds * 1e6:.1f} us"
        opts = format_opts(event.best_opts) or "no opts"
        return f"round of {event.n_measured} out of {event.n_made}: {best} with {opts}"
    opts = format_opts(event.candidate.opts) or "no opts"
    if isinstance(event.outcome, Timed):
        return (
            f"{event.outcome.seconds * 1e6:.1f} us (expected"
            f" {event.candidate.predicted * 1e6:.1f}): {opts}"
        )
    detail = f" ({event.outcome.detail})" if event.outcome.detail else ""
    return f"dropped, {event.outcome.reason.value}{detail}: {opts}"


def search(
    kernel: UOp,
    context: Context,
    config: OptimizerConfig,
    measure: Measure,
    *,
    should_stop: Callable[[], bool] = lambda: False,
    report: Callable[[Event], None] = lambda _: None,
    known: Mapping[str, Outcome] | None = None,
) -> SearchResult:
    """Search for the fastest Opts of a kernel, by beam search.

    The search is deterministic: equal measurements give equal results.

    Args:
        kernel: the body of a CALL, as kernelize makes it.
        context: target and passes; `context.opts` is ignored.
        config: width, limits and patience of the search.
        measure: called with a batch of candidates; see `Measure`.
        should_stop: called often; after it returns True, the best candidates are compared once
            more, and the search ends.
        report: called with the outcome of each candidate, and after each round.
        known: outcomes of an earlier search; these candidates are not measured again.
    """
    return _Search(kernel, context, config, measure, should_stop, report, known or {}).run()


class _Search:
    def __init__(
        self,
        kernel: UOp,
        context: Context,
        config: OptimizerConfig,
        measure: Measure,
        should_stop: Callable[[], bool],
        report: Callable[[Event], None],
        known: Mapping[str, Outcome],
    ) -> None:
        self.target = context.target
        self.config = config
        self.measure = measure
        self.should_stop = should_stop
        self.report = report
        self.schedulers: dict[tuple[Opt, ...], Scheduler | None] = {}
        self.schedulers[()] = Scheduler(
            run_pipeline("optimize", kernel, context, until="apply-opts"), context.target
        )
        self.candidates: dict[str, Candidate] = {}
        self.costs: dict[str, Cost] = {}
        self.pool: dict[str, tuple[float, Candidate]] = {}
        """Candidates that are not measured yet, with the time that is predicted for them."""
        self.outcomes: dict[str, Outcome] = {}
        # A candidate that was skipped for lack of time is still unknown: this search may measure
        # it.
        self.known = {k: o for k, o in known.items() if not is_stopped(o)}
        self.expanded: set[str] = set()
        self.tried: set[tuple[Opt, ...]] = set()
        self.n_dropped: Counter[DropReason] = Counter()
        self.rounds: list[Round] = []

    def run(self) -> SearchResult:
        # The heuristics' choice is measured first: a search that is stopped at once returns it.
        heuristic = self._make_heuristic()
        unoptimized = self._make((), None) or heuristic
        self._measure([heuristic])
        if not self.should_stop():
            self._measure([unoptimized])
        stop = self._run_rounds([heuristic, unoptimized])
        # A stopped search too: no other measurement determines the gain.
        finalists = self._confirm(heuristic)
        best = self._choose(heuristic, finalists)
        self.n_dropped[DropReason.PRUNED] += len(self.pool)
        return SearchResult(
            opts=best.opts,
            seconds=self._seconds(best),
            heuristic_opts=heuristic.opts,
            heuristic_seconds=self._seconds(heuristic),
            unoptimized_seconds=self._seconds(unoptimized),
            stop=stop,
            rounds=tuple(self.rounds),
            n_dropped=dict(self.n_dropped),
            outcomes=dict(self.outcomes),
        )

    def _run_rounds(self, start: list[Candidate]) -> StopReason:
        beam = list(dict.fromkeys(start))
        while len(self.rounds) < self.config.max_rounds:
            previous_best = self._best_seconds()
            n_made = len(self.candidates)
            for candidate in beam:
                self._expand(candidate)
                if self.should_stop():
                    return StopReason.STOPPED
            chosen = self._take_promising()
            if not chosen:
                return StopReason.EXHAUSTED
            n_measured = self._measure(chosen)
            ranked = self._rank()
            best = ranked[0] if ranked else start[0]
            self.rounds.append(
                Round(len(self.candidates) - n_made, n_measured, best.opts, self._seconds(best))
            )
            self.report(self.rounds[-1])
            if self.should_stop():
                return StopReason.STOPPED
            current_best = self._best_seconds()
            if current_best is None or (
                previous_best is not None
                and current_best > previous_best * (1 - self.config.min_gain)
            ):
                return StopReason.CONVERGED
            # The neighbors of an expanded candidate were generated before: measured, or still in
            # the pool.
            beam = [c for c in ranked[: self.config.width] if c.key not in self.expanded]
        return StopReason.ROUNDS

    def _confirm(self, heuristic: Candidate) -> list[Candidate]:
        """Measure the best candidates once more, in one batch, and return them.

        The minimum of many noisy times is biased: the apparent winner may only have been lucky.
        """
        finalists = self._rank()[: self.config.width]
        if not finalists or finalists == [heuristic]:
            return finalists
        if not isinstance(self.outcomes.get(heuristic.key), Dropped):
            finalists = list(dict.fromkeys([*finalists, heuristic]))
        for candidate, outcome in zip(finalists, self.measure(finalists, None), strict=True):
            if not is_stopped(outcome):
                self._note(candidate, outcome)
        return finalists

    def _choose(self, heuristic: Candidate, finalists: list[Candidate]) -> Candidate:
        """Return the fastest finalist, or the heuristics' choice if the gain could be noise."""
        best = next((c for c in self._rank() if c in finalists), heuristic)
        seconds, default_seconds = self._seconds(best), self._seconds(heuristic)
        is_gain = default_seconds is None or (
            seconds is not None and seconds < default_seconds * (1 - self.config.min_gain)
        )
        # Of a gain within the noise, the heuristics' choice is kept: it is the same in the next
        # search.
        return best if is_gain else heuristic

    def _make_heuristic(self) -> Candidate:
        plain = self._scheduler_of(())
        assert plain is not None
        chosen = choose(plain.sink, self.target)
        self.schedulers[chosen.opts] = chosen.scheduler
        return self._add(chosen.scheduler, None)

    def _scheduler_of(self, opts: tuple[Opt, ...]) -> Scheduler | None:
        """Return the kernel with these opts, or None if one is not allowed. Common prefixes of
        sequences are applied once.
        """
        # A sequence that is not allowed is cached too, as None: many neighbors share its prefix.
        if opts not in self.schedulers:
            prefix = self._scheduler_of(opts[:-1])
            scheduler = None if prefix is None else prefix.copy()
            if scheduler is not None:
                try:
                    scheduler.apply_opt(opts[-1])
                except OptError:
                    scheduler = None
            self.schedulers[opts] = scheduler
        return self.schedulers[opts]

    def _expand(self, candidate: Candidate) -> None:
        """Generate all candidates that are one change away."""
        self.expanded.add(candidate.key)
        for opts in iter_neighbours(
            candidate.opts, self._scheduler_of, can_pad=self.config.can_pad
        ):
            if opts not in self.tried:
                if self.should_stop():
                    return
                self.tried.add(opts)
                self._make(opts, candidate)

    def _make(self, opts: tuple[Opt, ...], parent: Candidate | None) -> Candidate | None:
        scheduler = self._scheduler_of(opts)
        return None if scheduler is None else self._add(scheduler, parent)

    def _add(self, scheduler: Scheduler, parent: Candidate | None) -> Candidate:
        kernel = scheduler.finish()
        key = make_key(kernel)
        if key in self.candidates:
            self.n_dropped[DropReason.DUPLICATE] += 1
            return self.candidates[key]
        cost = estimate_cost(kernel, self.target)
        candidate = Candidate(tuple(scheduler.applied_opts), kernel, key, cost.seconds)
        self.candidates[key], self.costs[key] = candidate, cost
        # The start of the search has no parent and no limits: it is what the search falls back on.
        if parent is not None:
            dropped = self._check_limits(scheduler, cost) or self._check_bloat(
                cost, self.costs[parent.key]
            )
            if dropped is not None:
                self._note(candidate, dropped)
            else:
                # The cost model may be biased for this kernel: only the predicted gain over the
                # measured parent counts.
                measured = self._seconds(parent)
                scale = (
                    1.0 if measured is None or not parent.predicted else measured / parent.predicted
                )
                self.pool[key] = candidate.predicted * scale, candidate
        return candidate

    def _check_limits(self, scheduler: Scheduler, cost: Cost) -> Dropped | None:
        config = self.config
        if cost.n_taken > config.max_upcast:
            return Dropped(
                DropReason.LIMIT, f"{cost.n_taken} > {config.max_upcast} elements in one iteration"
            )
        n_work_items = max_trips(*(r for r in scheduler.axes if r.arg.kind in _WORK_ITEM_AXES))
        if n_work_items > config.max_local:
            return Dropped(
                DropReason.LIMIT, f"{n_work_items} > {config.max_local} work-items of a workgroup"
            )
        return None

    def _check_bloat(self, cost: Cost, parent: Cost) -> Dropped | None:
        limit = self.config.max_bloat
        if cost.n_operations > limit * parent.n_operations:
            return Dropped(
                DropReason.BLOAT,
                f"{cost.n_operations:.0f} operations instead of {parent.n_operations:.0f}",
            )
        return None

    def _take_promising(self) -> list[Candidate]:
        """Remove the candidates of the least predicted time from the pool."""
        # Of equal times the smaller key comes first, so that a search repeats with equal
        # measurements. Candidates that are not taken stay in the pool for later rounds.
        ranked = sorted(self.pool.values(), key=lambda entry: (entry[0], entry[1].key))
        chosen = [candidate for _, candidate in ranked[: self.config.max_measured]]
        for candidate in chosen:
            del self.pool[candidate.key]
        return chosen

    def _measure(self, candidates: list[Candidate]) -> int:
        """Measure candidates without a known outcome; return the number of new outcomes."""
        n_measured = 0
        for candidate in candidates:
            if candidate.key in self.known and candidate.key not in self.outcomes:
                self._note(candidate, self.known[candidate.key])
        missing = [c for c in candidates if c.key not in self.outcomes]
        # Callers have just asked whether time is up, so the first batch does not ask again.
        for start in range(0, len(missing), _BATCH):
            if start and self.should_stop():
                break
            batch = missing[start : start + _BATCH]
            for candidate, outcome in zip(
                batch, self.measure(batch, self._best_seconds()), strict=True
            ):
                self._note(candidate, outcome)
                n_measured += 1
        return n_measured

    def _note(self, candidate: Candidate, outcome: Outcome) -> None:
        if isinstance(outcome, Dropped):
            self.n_dropped[outcome.reason] += 1
        if not is_stopped(outcome):
            self.outcomes[candidate.key] = outcome
        self.report(Tried(candidate, outcome))

    def _seconds(self, candidate: Candidate) -> float | None:
        return find_seconds(candidate, self.outcomes)

    def _rank(self) -> list[Candidate]:
        return rank_candidates(self.candidates.values(), self.outcomes)

    def _best_seconds(self) -> float | None:
        times = [o.seconds for o in self.outcomes.values() if isinstance(o, Timed)]
        return min(times, default=None)
