"""`Measurer`: how fast candidates are, and whether they compute the right thing.

A batch is compiled first, all of it, and then timed while nothing else of ours runs: in turn and
several times, so that whatever slows the machine for a while slows them all. The least time of each
counts."""

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
"""Kernels are launched so often without a pause that it takes this long: a clock tells no less."""

_MAX_LAUNCHES: Final = 100
_MIN_ROUNDS_SECONDS: Final = 2e-3
_MAX_ROUNDS: Final = 5
"""Fast kernels are timed more often than the configuration says: up to this factor, and for this
long.
"""

_GIVE_UP: Final = 3.0
"""What takes longer than the best by this factor is not timed again,"""

_GIVE_UP_COLD: Final = 10.0
"""or by this factor at its first run, while nothing is in the caches."""

_HANG_SECONDS: Final = 2.0
_HANG_FACTOR: Final = 20.0
_FIRST_SECONDS: Final = 60.0
_FIRST_PART: Final = 0.25
"""What runs longer than any of this never ends; the last two are for the first candidate, of which
nothing is known: it gets no more than a part of the search's time, so that others have their
turn."""

FINAL_SECONDS: Final = 10.0
_FINAL_RUNS: Final = 3
"""So long, and so many times as often, the best are compared at the end."""

VERIFY_SECONDS: Final = 30.0
"""So long the results of two kernels may take to compute and to compare."""


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
        """The fastest kernel so far, with its time: it is timed again with each batch, and tells
        how fast the machine is then.
        """

    def __call__(
        self, candidates: Sequence[Candidate], best_seconds: float | None, /
    ) -> list[Outcome]:
        dropped = self._compile(candidates)
        kernels = {c.key: self._compiled[c.key] for c in candidates if c.key not in dropped}
        race = _Race(self._runner, self._config.n_runs, self._box, best_seconds)
        if not kernels:
            found: dict[str, Outcome] = {}
        elif self._anchor is None or self._anchor[0] in kernels:
            found = race.run(kernels)
        else:
            found = _scale(
                race.run({self._anchor[0]: self._compiled[self._anchor[0]], **kernels}),
                self._anchor,
            )
        self._move_anchor(found)
        self._runner.forget(
            [c.key for c in candidates if self._anchor is None or c.key != self._anchor[0]]
        )
        return [dropped[c.key] if c.key in dropped else found[c.key] for c in candidates]

    def compare(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """The true times of a few candidates side by side, more often than in a search and also
        when its time is spent.
        """
        box = TimeBox(self._final_seconds)
        dropped = self._compile(candidates, box)
        race = _Race(self._runner, self._config.n_runs * _FINAL_RUNS, box, None, can_give_up=False)
        found = race.run({c.key: self._compiled[c.key] for c in candidates if c.key not in dropped})
        return [dropped[c.key] if c.key in dropped else found[c.key] for c in candidates]

    def verify(self, candidate: Candidate, reference: Candidate) -> Dropped | None:
        """Why a candidate must not be used: its results are not those of `reference`, or could not
        be compared; None if it may.
        """
        # The time of the search is spent by now; this much more is always given.
        dropped = self._compile([candidate, reference], TimeBox(VERIFY_SECONDS))
        if dropped:
            return next(iter(dropped.values()))
        kernels = self._compiled[candidate.key], self._compiled[reference.key]
        found = self._runner.compare(candidate.key, *kernels, VERIFY_SECONDS)
        if isinstance(found, Dropped):
            return found
        return Dropped(DropReason.WRONG, found) if found else None

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
        made = self._compilers.compile(
            [c.kernel for c in missing], self._config.compile_seconds, box or self._box
        )
        dropped: dict[str, Dropped] = {}
        for candidate, result in zip(missing, made, strict=True):
            if isinstance(result, Dropped):
                dropped[candidate.key] = result
            else:
                self._compiled[candidate.key] = result
        return dropped


def _scale(found: dict[str, Outcome], anchor: tuple[str, float]) -> dict[str, Outcome]:
    """Times as they would be on the machine as it was when the anchor took the time that is known
    of it.
    """
    key, seconds = anchor
    now = found.pop(key)
    if not isinstance(now, Timed):
        return found
    factor = seconds / now.seconds
    return {k: Timed(o.seconds * factor) if isinstance(o, Timed) else o for k, o in found.items()}


class _Race:
    """One batch of candidates against each other and against the best so far."""

    def __init__(
        self,
        runner: Runner,
        n_runs: int,
        box: TimeBox,
        best_seconds: float | None,
        *,
        can_give_up: bool = True,
    ) -> None:
        self._runner, self._n_runs, self._box, self._can_give_up = runner, n_runs, box, can_give_up
        self._best = best_seconds
        part = max(_FIRST_PART * box.remaining(), _HANG_SECONDS) if can_give_up else _FIRST_SECONDS
        self._first_seconds = min(part, _FIRST_SECONDS)
        self._kernels: dict[str, bytes] = {}
        self._least: dict[str, float] = {}
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
            for key in self._running():
                if n < self._n_runs or self._spent[key] < _MIN_ROUNDS_SECONDS:
                    self._take_sample(key)
            if n and self._can_give_up:
                self._give_up()
        return {key: self._outcomes.get(key) or Timed(self._least[key]) for key in kernels}

    def _running(self) -> list[str]:
        return [key for key in self._kernels if key not in self._outcomes]

    def _warm_up(self, key: str) -> None:
        if self._box.is_over():
            self._outcomes[key] = Dropped(DropReason.STOPPED)
            return
        seconds = self._time(key, 1)
        if seconds is None:
            return
        if (
            self._can_give_up
            and self._best is not None
            and seconds > _GIVE_UP_COLD * self._best + 1e-3
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
            self._least[key] = min(seconds, self._least.get(key, seconds))
            self._best = seconds if self._best is None else min(seconds, self._best)

    def _time(self, key: str, n_launches: int) -> float | None:
        limit = (
            self._first_seconds
            if self._best is None
            else max(_HANG_SECONDS, _HANG_FACTOR * self._best * n_launches)
        )
        found = self._runner.time(key, self._kernels[key], n_launches, limit)
        if isinstance(found, Dropped):
            self._outcomes[key] = found
            return None
        return found

    def _give_up(self) -> None:
        for key in self._running():
            if self._best is not None and self._least[key] > _GIVE_UP * self._best:
                self._outcomes[key] = Dropped(
                    DropReason.SLOW, f"{self._least[key] / self._best:.1f} times as slow"
                )
