"""Result of a search, with a text form that can be stored on disk, read, and used to continue the
search.

Example:
    >>> from svod_ir import parse_opts
    >>> from svod_schedule.optimize.result import Round, SearchResult, StopReason, find_result
    >>> usual, best = parse_opts("UPCAST(0, 4)"), parse_opts("UPCAST(0, 8)")
    >>> result = SearchResult(
    ...     opts=best,
    ...     seconds=4e-6,
    ...     heuristic_opts=usual,
    ...     heuristic_seconds=5e-6,
    ...     unoptimized_seconds=9e-6,
    ...     stop=StopReason.STOPPED,
    ...     rounds=(Round(n_made=17, n_measured=8, best_opts=best, best_seconds=4e-6),),
    ... )
    >>> result.is_complete, result.stop.value
    (False, 'time was up')
    >>> find_result(result.to_text()) == result
    True
    >>> find_result("something else") is None
    True
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from svod_ir import Opt, ParseError, format_opts, parse_opts
from svod_schedule.optimize.candidates import Dropped, DropReason, Outcome, Timed

__all__ = ["Round", "SearchResult", "StopReason", "find_result"]

_VERSION: Final = 1
"""Raised with the text form: a result of another version is searched again."""


class StopReason(Enum):
    """Reason for the end of a search."""

    CONVERGED = "a round gained too little"
    EXHAUSTED = "nothing was left to try"
    ROUNDS = "the number of rounds was reached"
    STOPPED = "time was up"

    # Members are singletons, and Enum's hash of the name is much slower.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]


@dataclass(frozen=True, slots=True)
class Round:
    """One round: the number of generated and of measured candidates, and the best so far."""

    n_made: int
    n_measured: int
    best_opts: tuple[Opt, ...]
    best_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The best opts of a search, and its history.

    `seconds` is None if no candidate could be measured; `opts` are the heuristics' then. `outcomes`
    has the measurements by candidate key; a later search continues from them."""

    opts: tuple[Opt, ...]
    seconds: float | None
    heuristic_opts: tuple[Opt, ...]
    heuristic_seconds: float | None
    unoptimized_seconds: float | None
    stop: StopReason
    rounds: tuple[Round, ...] = ()
    n_dropped: Mapping[DropReason, int] = field(default_factory=dict[DropReason, int])
    outcomes: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome])

    @property
    def is_complete(self) -> bool:
        """Whether the search ended by itself, and not because time was up."""
        return self.stop is not StopReason.STOPPED

    def to_text(self) -> str:
        """Serialize the result as one line of JSON, which `find_result` reads back."""
        return json.dumps(
            {
                "version": _VERSION,
                "opts": format_opts(self.opts),
                "seconds": self.seconds,
                "heuristic_opts": format_opts(self.heuristic_opts),
                "heuristic_seconds": self.heuristic_seconds,
                "unoptimized_seconds": self.unoptimized_seconds,
                # Enums are stored by name: their values are texts for display, which may be
                # reworded.
                "stop": self.stop.name,
                "rounds": [
                    [r.n_made, r.n_measured, format_opts(r.best_opts), r.best_seconds]
                    for r in self.rounds
                ],
                "n_dropped": {reason.name: n for reason, n in self.n_dropped.items()},
                "outcomes": {
                    key: _outcome_to_json(outcome) for key, outcome in self.outcomes.items()
                },
            }
        )


def find_result(text: str) -> SearchResult | None:
    """Read a result that `to_text` wrote; None if the text is anything else, or of another version."""
    try:
        data = json.loads(text)
        if data["version"] != _VERSION:
            return None
        return SearchResult(
            opts=parse_opts(data["opts"]),
            seconds=_to_seconds(data["seconds"]),
            heuristic_opts=parse_opts(data["heuristic_opts"]),
            heuristic_seconds=_to_seconds(data["heuristic_seconds"]),
            unoptimized_seconds=_to_seconds(data["unoptimized_seconds"]),
            stop=StopReason[data["stop"]],
            rounds=tuple(
                Round(int(n_made), int(n_measured), parse_opts(opts), _to_seconds(seconds))
                for n_made, n_measured, opts, seconds in data["rounds"]
            ),
            n_dropped={DropReason[name]: int(n) for name, n in data["n_dropped"].items()},
            outcomes={
                str(key): _outcome_from_json(*entry) for key, entry in data["outcomes"].items()
            },
        )
    # The file may be cut off or edited: every surprise is a miss, and the kernel is searched again.
    except (ValueError, KeyError, TypeError, AttributeError, ParseError):
        return None


def _to_seconds(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, float):
        raise TypeError(value)
    return value


def _outcome_to_json(outcome: Outcome) -> list[object]:
    return (
        [outcome.seconds] if isinstance(outcome, Timed) else [outcome.reason.name, outcome.detail]
    )


def _outcome_from_json(first: float | str, detail: str = "") -> Outcome:
    return Dropped(DropReason[first], detail) if isinstance(first, str) else Timed(float(first))
