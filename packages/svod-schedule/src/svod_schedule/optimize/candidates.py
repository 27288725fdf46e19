"""What a search proposes and what is found out about it: the border between the search and its
measurements.

The search knows no clock and no device. It hands `Candidate`s to a `Measure` function and gets an
`Outcome` for each.

Example:
    >>> from svod_dtype import float32, void
    >>> from svod_ir import AxisType, KernelInfo, Op, ParamArg, Target, UOp
    >>> out, x = (UOp(Op.PARAM, float32, (), ParamArg(slot, 64)) for slot in range(2))
    >>> i = UOp.range(64, 0, AxisType.LOOP)
    >>> kernel = UOp(Op.SINK, void, (out.index(i).store(x.index(i) * 2.0).end(i),), KernelInfo("double"))

    A `Measure` that looks times up, by the opts, and has none for the widest vectors:

    >>> from svod_ir import format_opts, parse_opts
    >>> from svod_schedule.optimize.apply_opts import apply_opts
    >>> def look_up(candidates, best_seconds):
    ...     times = {"": 9e-6, "UPCAST(0, 4)": 5e-6, "UPCAST(0, 8)": 4e-6}
    ...     texts = [format_opts(c.opts) for c in candidates]
    ...     return [Timed(times[t]) if t in times else Dropped(DropReason.STOPPED) for t in texts]
    >>> measure: Measure = look_up
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

    What is out before it is measured:

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
    """Why a candidate is no choice.

    The first four are found by the search, the others by who measures.
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

    __hash__ = object.__hash__  # pyright: ignore[reportAssignmentType]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel that could be the choice: the optimised SINK and the opts that made it.

    `predicted` is what the cost model expects, in seconds.
    """

    opts: tuple[Opt, ...]
    kernel: UOp
    key: str
    predicted: float = 0.0


@dataclass(frozen=True, slots=True)
class Timed:
    """A candidate runs right; its least time over all runs."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate is out; `detail` is for people."""

    reason: DropReason
    detail: str = ""


Outcome: TypeAlias = Timed | Dropped


class Measure(Protocol):
    """Finds out how fast candidates are: one outcome for each, in their order.

    Candidates of one call are compared with each other, so that it is best to time them in turns: a
    slow phase of the machine then hits all of them. `best_seconds` is the least time of the search
    so far, None where there is none: what takes several times as long may be given up. A candidate
    that was not looked at for want of time is `Dropped(DropReason.STOPPED)`. It raises nothing for
    what a candidate does."""

    def __call__(
        self, candidates: Sequence[Candidate], best_seconds: float | None, /
    ) -> Sequence[Outcome]: ...


def is_stopped(outcome: Outcome) -> bool:
    """Whether a candidate was not looked at for want of time, so that nothing is known of it."""
    return isinstance(outcome, Dropped) and outcome.reason is DropReason.STOPPED


def find_seconds(candidate: Candidate, outcomes: Mapping[str, Outcome]) -> float | None:
    """The time of a candidate, None where it was not timed."""
    outcome = outcomes.get(candidate.key)
    return outcome.seconds if isinstance(outcome, Timed) else None


def rank_candidates(
    candidates: Iterable[Candidate], outcomes: Mapping[str, Outcome]
) -> list[Candidate]:
    """Those that were timed, the fastest first."""
    timed = [
        (seconds, c.key, c)
        for c in candidates
        if (seconds := find_seconds(c, outcomes)) is not None
    ]
    return [candidate for *_, candidate in sorted(timed, key=lambda entry: entry[:2])]


def make_key(kernel: UOp) -> str:
    """Names an optimised kernel whatever its opts, its name and the numbers of its loops: equal
    keys compute the same in the same way.
    """
    order = kernel.toposort()
    ranges = [n for n in order if n.op is Op.RANGE]
    renumbered = {r: r.with_arg(r.arg._replace(id=i)) for i, r in enumerate(ranges)}
    return kernel.substitute(renumbered).with_arg(KernelInfo()).content_hash


def check_length(linear: Sequence[UOp], max_uops: int) -> Dropped | None:
    """What to say of a candidate whose linear program is longer than `max_uops`, with its most
    frequent ops; None if it is not.
    """
    if len(linear) <= max_uops:
        return None
    frequent = Counter(n.op.name for n in linear).most_common(5)
    return Dropped(
        DropReason.UOPS,
        f"{len(linear)} > {max_uops}: {', '.join(f'{n} {op}' for op, n in frequent)}",
    )
