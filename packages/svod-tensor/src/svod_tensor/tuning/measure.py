"""`Measurer`: times candidates and verifies their results.

A batch is first compiled as a whole and then timed while no other work of ours runs: in turn and
several times, so that a temporary slowdown of the machine affects all candidates alike. The minimum
time of each candidate counts."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

from svod_schedule.optimize.candidates import Candidate, Dropped, DropReason, Outcome, Timed
from svod_tensor.tuning.time_box import TimeBox

if TYPE_CHECKING:
    from collections.abc import Sequence

    from svod_schedule import OptimizerConfig
    from svod_tensor.tuning.workers import Compilers, Runner

__all__ = ["Measurer"]

_SAMPLE_SECONDS: Final = 200e-6
"""Duration of a sample: kernels are launched in batches of this length, below which a clock is too
coarse.
"""

_MAX_LAUNCHES: Final = 100
_MIN_ROUNDS_SECONDS: Final = 2e-3
_MAX_ROUNDS: Final = 5
"""Fast kernels are timed more often than the configuration says: up to this factor, or until they
have run for `_MIN_ROUNDS_SECONDS`.
"""

_SLOW_FACTOR: Final = 3.0
"""A candidate that is slower than the best by this factor is not timed again."""

_COLD_SLOW_FACTOR: Final = 10.0
"""The same for the first run, with cold caches."""

_HANG_SECONDS: Final = 2.0
_HANG_FACTOR: Final = 20.0
_FIRST_SECONDS: Final = 60.0
_FIRST_SHARE: Final = 0.25
"""A candidate that runs longer than these limits is taken to hang. The last two are for the first
candidate, whose time is unknown: it may use only a share of the search's time, so that others are
tried too.
"""

FINAL_SECONDS: Final = 10.0
_FINAL_RUNS: Final = 3
"""The best candidates are compared at the end for `FINAL_SECONDS`, with this factor of repetitions.
"""

VERIFY_SECONDS: Final = 30.0
"""Time limit for computing and comparing the results of two kernels."""


class Measurer:
    """A `svod_schedule.optimize.candidates.Measure` for the candidates of one kernel."""

    def __init__(
        self,
        compilers: Compilers,
        runner: Runner,
        config: OptimizerConfig,
        box: TimeBox,
        final_seconds: float = FINAL_SECONDS,
    ) -> None:
        self._compilers, self._runner, self._config, self._box = compilers, runner, config, box
        self._final_seconds = final_seconds
        self._compiled: dict[str, bytes] = {}
        self._anchor: tuple[str, float] | None = None
        """The fastest kernel so far, with its time. It is timed again with each batch, to calibrate
        the present speed of the machine.
        """

    def __call__(
        self, candidates: Sequence[Candidate], best_seconds: float | None, /
    ) -> list[Outcome]:
        dropped = self._compile(candidates)
        kernels = {c.key: self._compiled[c.key] for c in candidates if c.key not in dropped}
        race = _Batch(self._runner, self._config.n_runs, self._box, best_seconds)
        if not kernels:
            outcomes: dict[str, Outcome] = {}
        elif self._anchor is None or self._anchor[0] in kernels:
            outcomes = race.run(kernels)
        else:
            outcomes = _scale(
                race.run({self._anchor[0]: self._compiled[self._anchor[0]], **kernels}),
                self._anchor,
            )
        self._move_anchor(outcomes)
        self._runner.drop(
            [c.key for c in candidates if self._anchor is None or c.key != self._anchor[0]]
        )
        return [dropped[c.key] if c.key in dropped else outcomes[c.key] for c in candidates]

    def compare(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Accurate times of a few candidates, measured interleaved and more often than in a search,
        even after its time is used up.
        """
        box = TimeBox(self._final_seconds)
        dropped = self._compile(candidates, box)
        race = _Batch(self._runner, self._config.n_runs * _FINAL_RUNS, box, None, can_drop=False)
        outcomes = race.run(
            {c.key: self._compiled[c.key] for c in candidates if c.key not in dropped}
        )
        return [dropped[c.key] if c.key in dropped else outcomes[c.key] for c in candidates]

    def verify(self, candidate: Candidate, reference: Candidate) -> Dropped | None:
        """The reason not to use a candidate: its results differ from the results of `reference`, or
        could not be compared; None if it is correct.
        """
        # The search's time is used up by now; verification always gets extra time.
        dropped = self._compile([candidate, reference], TimeBox(VERIFY_SECONDS))
        if dropped:
            return next(iter(dropped.values()))
        kernels = self._compiled[candidate.key], self._compiled[reference.key]
        difference = self._runner.compare(candidate.key, *kernels, VERIFY_SECONDS)
        if isinstance(difference, Dropped):
            return difference
        return Dropped(DropReason.WRONG, difference) if difference else None

    def _move_anchor(self, found: dict[str, Outcome]) -> None:
        timed = [
            (key, outcome.seconds) for key, outcome in found.items() if isinstance(outcome, Timed)
        ]
        old = [] if self._anchor is None or self._anchor[0] in found else [self._anchor]
        self._anchor = min([*old, *timed], key=lambda entry: entry[1], default=self._anchor)

    def _compile(
        self, candidates: Sequence[Candidate], box: TimeBox | None = None
    ) -> dict[str, Dropped]:
        missing = [c for c in candidates if c.key not in self._compiled]
        results = self._compilers.compile(
            [c.kernel for c in missing], self._config.compile_seconds, box or self._box
        )
        dropped: dict[str, Dropped] = {}
        for candidate, result in zip(missing, results, strict=True):
            if isinstance(result, Dropped):
                dropped[candidate.key] = result
            else:
                self._compiled[candidate.key] = result
        return dropped


def _scale(found: dict[str, Outcome], anchor: tuple[str, float]) -> dict[str, Outcome]:
    """Times scaled to the machine's speed when the anchor was first timed."""
    key, seconds = anchor
    now = found.pop(key)
    if not isinstance(now, Timed):
        return found
    factor = seconds / now.seconds
    return {k: Timed(o.seconds * factor) if isinstance(o, Timed) else o for k, o in found.items()}


class _Batch:
    """One batch of candidates, timed in turn with the best so far."""

    def __init__(
        self,
        runner: Runner,
        n_runs: int,
        box: TimeBox,
        best_seconds: float | None,
        *,
        can_drop: bool = True,
    ) -> None:
        self._runner, self._n_runs, self._box, self._can_drop = runner, n_runs, box, can_drop
        self._best = best_seconds
        first_seconds = (
            max(_FIRST_SHARE * box.remaining(), _HANG_SECONDS) if can_drop else _FIRST_SECONDS
        )
        self._first_seconds = min(first_seconds, _FIRST_SECONDS)
        self._kernels: dict[str, bytes] = {}
        self._min_seconds_of: dict[str, float] = {}
        self._n_launches: dict[str, int] = {}
        self._spent: dict[str, float] = {}
        self._outcomes: dict[str, Outcome] = {}

    def run(self, kernels: dict[str, bytes]) -> dict[str, Outcome]:
        self._kernels = kernels
        for key in kernels:
            self._warm_up(key)
        for n in range(self._n_runs * _MAX_ROUNDS):
            if n and self._box.is_over():
                break
            for key in self._list_running():
                if n < self._n_runs or self._spent[key] < _MIN_ROUNDS_SECONDS:
                    self._take_sample(key)
            if n and self._can_drop:
                self._drop_slow()
        return {key: self._outcomes.get(key) or Timed(self._min_seconds_of[key]) for key in kernels}

    def _list_running(self) -> list[str]:
        return [key for key in self._kernels if key not in self._outcomes]

    def _warm_up(self, key: str) -> None:
        if self._box.is_over():
            self._outcomes[key] = Dropped(DropReason.STOPPED)
            return
        seconds = self._time(key, 1)
        if seconds is None:
            return
        if (
            self._can_drop
            and self._best is not None
            and seconds > _COLD_SLOW_FACTOR * self._best + 1e-3
        ):
            self._outcomes[key] = Dropped(
                DropReason.SLOW, f"{seconds / self._best:.0f} times as slow at its first run"
            )
            return
        self._n_launches[key] = max(
            1, min(_MAX_LAUNCHES, ceil(_SAMPLE_SECONDS / max(seconds, 1e-9)))
        )

    def _take_sample(self, key: str) -> None:
        n = self._n_launches[key]
        seconds = self._time(key, n)
        if seconds is not None:
            self._spent[key] = self._spent.get(key, 0.0) + seconds * n
            self._min_seconds_of[key] = min(seconds, self._min_seconds_of.get(key, seconds))
            self._best = seconds if self._best is None else min(seconds, self._best)

    def _time(self, key: str, n_launches: int) -> float | None:
        limit = (
            self._first_seconds
            if self._best is None
            else max(_HANG_SECONDS, _HANG_FACTOR * self._best * n_launches)
        )
        seconds = self._runner.time(key, self._kernels[key], n_launches, limit)
        if isinstance(seconds, Dropped):
            self._outcomes[key] = seconds
            return None
        return seconds

    def _drop_slow(self) -> None:
        for key in self._list_running():
            if self._best is not None and self._min_seconds_of[key] > _SLOW_FACTOR * self._best:
                self._outcomes[key] = Dropped(
                    DropReason.SLOW, f"{self._min_seconds_of[key] / self._best:.1f} times as slow"
                )
