"""Candidates of a search and their outcomes: the interface between the search and the measurements.

The search has no clock and no device. It passes `Candidate`s to a `Measure` function, which returns
an `Outcome` for each.

Example:
    >>> from svod_dtype import float32, void
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> from svod_schedule.optimize.candidates import Candidate, DropReason, Dropped, Measure, Outcome, Timed, check_length
    >>> from svod_schedule.optimize.candidates import find_seconds, is_stopped, make_key, rank_candidates
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 64)) for slot in range(2))
    >>> i = UOp.range(64, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))

    A `Measure` with a table of times by opts, without an entry for the widest vectors:

    >>> from svod_ir import format_opts, parse_opts
    >>> from svod_schedule.optimize.apply_opts import apply_opts
    >>> def read_times(candidates, best_seconds) -> list[Outcome]:
    ...     times = {"": 9e-6, "UPCAST(0, 4)": 5e-6, "UPCAST(0, 8)": 4e-6}
    ...     texts = [format_opts(c.opts) for c in candidates]
    ...     return [Timed(times[t]) if t in times else Dropped(DropReason.STOPPED) for t in texts]
    >>> measure: Measure = read_times
    >>> candidates = []
    >>> for text in ("", "UPCAST(0, 4)", "UPCAST(0, 8)", "UPCAST(0, 16)"):
    ...     opts = parse_opts(text)
    ...     optimized = apply_opts(kernel, Target.generic(cores=1), opts)
    ...     candidates.append(Candidate(opts, optimized, make_key(optimized)))
    >>> outcomes = {c.key: outcome for c, outcome in zip(candidates, measure(candidates, None))}
    >>> [find_seconds(c, outcomes) for c in candidates]
    [9e-06, 5e-06, 4e-06, None]
    >>> [is_stopped(outcome) for outcome in outcomes.values()]
    [False, False, False, True]
    >>> [format_opts(c.opts) for c in rank_candidates(candidates, outcomes)]
    ['UPCAST(0, 8)', 'UPCAST(0, 4)', '']

    A candidate that is too long is dropped before it is measured:

    >>> check_length(kernel.toposort(), max_uops=10)
    Dropped(reason=<DropReason.UOPS: 'has too many uops'>, detail='11 > 10: 2 PARAM, 2 CONST, 2 INDEX, 1 RANGE, 1 MUL')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from svod_ir import KernelInfo, Op, Opt, UOp

__all__ = [
    "Candidate",
    "DropReason",
    "Dropped",
    "Measure",
    "Outcome",
    "Timed",
    "check_length",
    "find_seconds",
    "is_stopped",
    "make_key",
    "rank_candidates",
]


class DropReason(Enum):
    """Reason for dropping a candidate.

    The search finds the first four, the `Measure` function the others.
    """

    LIMIT = "exceeds a limit of the configuration"
    BLOAT = "computes much more than what it was made from"
    DUPLICATE = "is the kernel of other opts"
    PRUNED = "is expected to be slower than the others"
    UOPS = "has too many uops"
    COMPILE = "does not compile"
    COMPILE_TIMEOUT = "takes too long to compile"
    CRASH = "crashes"
    HANG = "does not end"
    RUN = "fails when it runs"
    SLOW = "is slower than what is known by so much that it was not timed to the end"
    WRONG = "computes something else"
    STOPPED = "was not measured, since time was up"

    # Members are singletons, and Enum's hash of the name is much slower.
    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate schedule: the optimized SINK and the opts that were applied.

    `predicted` is the time that the cost model predicts, in seconds.
    """

    opts: tuple[Opt, ...]
    kernel: UOp
    key: str
    predicted: float = 0.0


@dataclass(frozen=True, slots=True)
class Timed:
    """Outcome of a candidate with correct results: its minimum time over all runs."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Dropped:
    """Outcome of a candidate that cannot be chosen.

    Attributes:
        reason: why the candidate was dropped.
        detail: message for display, such as the compiler's.
    """

    reason: DropReason
    detail: str = ""


Outcome: TypeAlias = Timed | Dropped
"""Result of a measurement."""


class Measure(Protocol):
    """Function that times candidates: one outcome for each, in their order.

    Candidates of one call are compared with each other, so it is best to time them in turns: a slow
    phase of the machine then affects all of them. `best_seconds` is the minimum time of the search
    so far, or None: a candidate that takes several times as long may be abandoned. A candidate that
    is skipped because time is up is `Dropped(DropReason.STOPPED)`. The function does not raise if a
    candidate fails."""

    def __call__(
        self, candidates: Sequence[Candidate], best_seconds: float | None, /
    ) -> Sequence[Outcome]: ...


def is_stopped(outcome: Outcome) -> bool:
    """Whether a candidate was skipped because time was up, so that its time is unknown."""
    return isinstance(outcome, Dropped) and outcome.reason is DropReason.STOPPED


def find_seconds(candidate: Candidate, outcomes: Mapping[str, Outcome]) -> float | None:
    """Return the time of a candidate, or None if it was not timed."""
    outcome = outcomes.get(candidate.key)
    return outcome.seconds if isinstance(outcome, Timed) else None


def rank_candidates(
    candidates: Iterable[Candidate], outcomes: Mapping[str, Outcome]
) -> list[Candidate]:
    """Return the timed candidates, the fastest first."""
    timed = [
        # The key breaks ties, so that equal measurements give an equal order in every process.
        (seconds, c.key, c)
        for c in candidates
        if (seconds := find_seconds(c, outcomes)) is not None
    ]
    return [candidate for *_, candidate in sorted(timed, key=lambda entry: entry[:2])]


def make_key(kernel: UOp) -> str:
    """Hash an optimized kernel without its opts, its name and the ids of its loops: kernels of equal
    keys run the same code.
    """
    # Ids of loops depend on the order of the Opts that created them: two ways to one kernel would
    # have different keys.
    order = kernel.toposort()
    ranges = [n for n in order if n.op is Op.RANGE]
    renumbered = {r: r.with_arg(r.arg._replace(id=i)) for i, r in enumerate(ranges)}
    return kernel.substitute(renumbered).with_arg(KernelInfo()).content_hash


def check_length(linear: Sequence[UOp], max_uops: int) -> Dropped | None:
    """Return the outcome of a candidate whose linear program is longer than `max_uops`, with its
    most frequent ops; None if it is not longer.
    """
    if len(linear) <= max_uops:
        return None
    # The ops show the cause: unrolled loads, or masks, for instance.
    frequent = Counter(n.op.name for n in linear).most_common(5)
    return Dropped(
        DropReason.UOPS,
        f"{len(linear)} > {max_uops}: {', '.join(f'{n} {op}' for op, n in frequent)}",
    )
