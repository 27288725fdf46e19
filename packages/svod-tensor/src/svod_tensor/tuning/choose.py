"""Choice of opts for the kernels of a plan: from earlier searches, or by a search now.

With the strategy `beam`, each new kernel is searched, the most expensive first; the plan's time is
divided among the remaining kernels. Within `search_at_end`, kernels wait for the end of the block,
so that the kernels of all plans are ranked together. Any other configuration uses earlier results,
unless that is disabled."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import ExitStack, closing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from svod_ir.forks import make_lock
from svod_tensor.errors import UnknownPlanError
from svod_tensor.tuning.records import find_record, make_record_key, reject_record
from svod_tensor.tuning.time_box import TimeBox
from svod_tensor.tuning.tuned import put_tuned

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from svod_device import Buffer, Device
    from svod_ir import Opt, UOp
    from svod_schedule import OptimizerConfig
    from svod_schedule.optimize.beam import Event
    from svod_schedule.optimize.candidates import Dropped
    from svod_schedule.pipeline import Context
    from svod_tensor.tuning.plan_uses import PlanUse
    from svod_tensor.tuning.records import Record
    from svod_tensor.tuning.workers import Compilers

__all__ = [
    "Observer",
    "Subject",
    "Tuned",
    "is_finished",
    "limit_searches",
    "observe",
    "search_all",
    "search_at_end",
]

_lock: Final = make_lock()
"""One search at a time: a concurrent one would disturb its timings."""

_observer: Final[ContextVar[Observer | None]] = ContextVar("observer", default=None)

_limit: Final[ContextVar[TimeBox | None]] = ContextVar("limit", default=None)
"""Time left for all searches of a context together."""

_Waiting: TypeAlias = "tuple[Subject, OptimizerConfig, int]"
"""A kernel to search, its configuration, and the index of its plan."""

_waiting: Final[ContextVar[list[_Waiting] | None]] = ContextVar("waiting", default=None)
"""Kernels to search at the end of a block; None outside of such a block."""

_SEARCH_SHARE: Final = 0.6
"""Share of a kernel's time for trying candidates, if the total is limited; the remainder is for
comparing and verifying the best ones.
"""

_TIME_EPSILON: Final = 1e-3

_MIN_SECONDS: Final = 0.5
"""Minimum time for which starting a process is worthwhile."""

_MIN_PREDICTED: Final = 1e-9
"""Minimum predicted time, so that each kernel gets a share."""

_WORK_PER_SECOND: Final = 1e10
"""Operations and bytes per second of a kernel for which the cost model has no prediction."""

_MAX_SHOWN: Final = 4


class _Pending(NamedTuple):
    """A kernel to search now: its position in the plan, and the predicted time of all its launches."""

    position: int
    subject: Subject
    key: str
    record: Record | None
    predicted_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """Result of the search for a kernel; times are None if they could not be measured.

    `was_known` is True if an earlier search had finished. `n_launches` is the number of launches in
    the plan, or in the whole run if kernels were searched at its end."""

    name: str
    device: str
    opts: tuple[Opt, ...]
    seconds: float | None
    heuristic_opts: tuple[Opt, ...]
    heuristic_seconds: float | None
    n_tried: int
    n_dropped: int
    spent_seconds: float
    was_known: bool
    wrong: tuple[tuple[Opt, ...], ...] = ()
    n_launches: int = 1


class Observer(Protocol):
    """Observer of searches."""

    def begin(self, n_kernels: int, seconds: float) -> None:
        """Called before `n_kernels` kernels of a plan are searched, within at most `seconds`."""
        ...

    def note(self, event: Event) -> None:
        """Called for each event of a search."""
        ...

    def end(self, tuned: Tuned) -> None:
        """Called when a kernel is done."""
        ...

    def skip(self, n_kernels: int) -> None:
        """Called if no time is left for `n_kernels` kernels of a plan."""
        ...


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel to search: the body of its CALL, its device, its buffers by slot, the number of its
    launches in a plan, and the use of that plan by a captured function.
    """

    ast: UOp
    device: Device
    context: Context
    buffers: Mapping[int, Buffer]
    n_launches: int = 1
    use: PlanUse | None = None


@contextmanager
def observe(observer: Observer) -> Generator[None]:
    """Report all searches of this context to `observer`."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


@contextmanager
def limit_searches(seconds: float) -> Generator[None]:
    """Limit all searches of this context, for all plans together, to about `seconds`."""
    token = _limit.set(TimeBox(seconds))
    try:
        yield
    finally:
        _limit.reset(token)


@contextmanager
def search_at_end(seconds: float | None, plan: str | None = None) -> Generator[None]:
    """Postpone all searches of this context to the end of the block, so that the most expensive
    kernels of all plans come first: a kernel counts as often as its captured function was called.
    With `plan`, only the kernels of the captured function of that name are searched.

    They then take about `seconds`, or for each plan as long as its configuration says. Until then
    the heuristics choose. After an exception nothing is searched, unless it is the exit of a
    successful script."""
    waiting: list[_Waiting] = []
    token, end = _waiting.set(waiting), None
    try:
        yield
    except SystemExit as ended:
        if ended.code:
            raise
        end = ended
    finally:
        _waiting.reset(token)
    if plan is not None:
        waiting = _select(waiting, plan)
    with nullcontext() if seconds is None else limit_searches(seconds):
        for config in {config: None for _, config, _ in waiting}:
            entries = [entry for entry in waiting if entry[1] == config]
            # Each plan contributes the time that it would have had by itself.
            n_plans = len({number for _, _, number in entries})
            search_all(_merge([subject for subject, _, _ in entries]), config, n_plans=n_plans)
    if end is not None:
        raise end


def _select(waiting: list[_Waiting], plan: str) -> list[_Waiting]:
    """The kernels of a captured function.

    Raises:
        UnknownPlanError: if no function of that name has a kernel to search.
    """
    names = dict.fromkeys(subject.use.name for subject, _, _ in waiting if subject.use is not None)
    if plan not in names:
        raise UnknownPlanError(name=plan, known=tuple(names))
    return [entry for entry in waiting if entry[0].use is not None and entry[0].use.name == plan]


def _merge(subjects: Sequence[Subject]) -> list[Subject]:
    """Each kernel once, with the launches of all calls of all plans."""
    merged: dict[tuple[str, Device], Subject] = {}
    for subject in subjects:
        if subject.use is not None:
            n_launches = subject.n_launches * subject.use.count_calls()
            subject = replace(subject, n_launches=n_launches)
        key = (subject.ast.content_hash, subject.device)
        known = merged.get(key)
        merged[key] = (
            subject
            if known is None
            else replace(known, n_launches=known.n_launches + subject.n_launches)
        )
    return list(merged.values())


def search_all(
    subjects: Sequence[Subject],
    config: OptimizerConfig,
    clock: Callable[[], float] = monotonic,
    *,
    n_plans: int = 1,
) -> list[tuple[Opt, ...] | None]:
    """The opts for each kernel of a plan, or of `n_plans` together, from an earlier search or one
    within `config.plan_seconds` for each plan; None if no time is left.
    """
    from svod_tensor.tuning.measure import FINAL_SECONDS
    from svod_tensor.tuning.workers import make_compilers

    with _lock, ExitStack() as stack:
        limit, waiting = _limit.get(), _waiting.get()
        plan_index = waiting[-1][2] + 1 if waiting else 0
        seconds = n_plans * config.plan_seconds
        box = TimeBox(seconds if limit is None else min(seconds, limit.remaining()), clock)
        opts_of: dict[int, tuple[Opt, ...]] = {}
        compilers: dict[Device, Compilers] = {}
        remaining: list[_Pending] = []
        unmeasured: dict[str, list[Record]] = {}
        for i, subject in enumerate(subjects):
            key = make_record_key(subject.ast.content_hash, subject.device, config)
            record = find_record(key) if config.use_cache else None
            if record is not None and is_finished(record, config):
                opts_of[i] = record.result.opts
                _report(subject, record, was_known=True)
            elif waiting is not None:
                # Do not keep the plan's memory alive until then: the buffers get random data.
                waiting.append((replace(subject, buffers={}), config, plan_index))
            else:
                seconds = max(_predict_seconds(subject, config), _MIN_PREDICTED)
                remaining.append(_Pending(i, subject, key, record, seconds))
        remaining.sort(key=lambda pending: -pending.predicted_seconds)
        # A total limit is shared in proportion to predicted times; a plan's limit evenly.
        weights = [1.0 if limit is None else p.predicted_seconds for p in remaining]
        if (
            remaining
            and box.remaining() >= _MIN_SECONDS
            and (observer := _observer.get()) is not None
        ):
            observer.begin(len(remaining), box.remaining())
        n_left_out = 0
        for n, (i, subject, key, record, _) in enumerate(remaining):
            # If the time is too short for all remaining kernels, the first ones still get the
            # minimum.
            share = max(
                box.remaining() * weights[n] / sum(weights[n:]), min(box.remaining(), _MIN_SECONDS)
            )
            seconds = min(_seconds_left(record, config), share)
            if seconds < _MIN_SECONDS:
                n_left_out += 1
                continue
            if subject.device not in compilers:
                created = make_compilers(subject.device, config)
                compilers[subject.device] = stack.enter_context(closing(created))
            final_seconds = (
                FINAL_SECONDS
                if limit is None
                else min(FINAL_SECONDS, (1 - _SEARCH_SHARE) * seconds)
            )
            kernel_box = TimeBox(seconds if limit is None else _SEARCH_SHARE * seconds, clock)
            searched = _search(
                subject, key, record, config, kernel_box, final_seconds, compilers[subject.device]
            )
            opts_of[i] = searched.result.opts
            if _is_unmeasured(searched):
                reject_record(key)  # nothing was learned: the next search tries again
                unmeasured.setdefault(subject.device.name, []).append(searched)
        if n_left_out and (observer := _observer.get()) is not None:
            observer.skip(n_left_out)
        for name, records in unmeasured.items():
            _warn(name, records)
        return [opts_of.get(i) for i in range(len(subjects))]


def is_finished(record: Record, config: OptimizerConfig) -> bool:
    """True if a search ended by itself, or has used all the time of a kernel."""
    return record.opts is not None and (
        record.result.is_complete or _seconds_left(record, config) < _TIME_EPSILON
    )


def _seconds_left(record: Record | None, config: OptimizerConfig) -> float:
    return max(config.kernel_seconds - (0.0 if record is None else record.spent_seconds), 0.0)


def _predict_seconds(subject: Subject, config: OptimizerConfig) -> float:
    """Time of all launches of a kernel with the heuristics' opts, by the cost model."""
    from svod_schedule.estimate import estimate_work
    from svod_schedule.optimize.beam import predict, search

    # A search that stops at once has tried only the heuristics' opts.
    result = search(subject.ast, subject.context, config, predict, should_stop=lambda: True)
    seconds = result.heuristic_seconds
    if seconds is None:
        # Beyond the search's limits, such as too many nodes.
        seconds = sum(estimate_work(subject.ast)) / _WORK_PER_SECOND
    return seconds * subject.n_launches


def _search(
    subject: Subject,
    key: str,
    earlier: Record | None,
    config: OptimizerConfig,
    box: TimeBox,
    final_seconds: float,
    compilers: Compilers,
) -> Record:
    from svod_tensor.tuning.buffer_data import describe_buffers, estimate_tolerance
    from svod_tensor.tuning.measure import Measurer
    from svod_tensor.tuning.search_kernel import KernelSearch
    from svod_tensor.tuning.workers import make_runner

    observer = _observer.get()
    runner = make_runner(
        subject.device,
        describe_buffers(subject.ast, subject.buffers),
        estimate_tolerance(subject.ast),
        config,
    )
    try:
        measurer = Measurer(compilers, runner, config, box, final_seconds)
        report = _ignore if observer is None else observer.note
        search = KernelSearch(subject.ast, subject.context, config, key, measurer, box, report)
        record, wrong = search.run(earlier)
    finally:
        runner.close()
    put_tuned(subject.ast.content_hash, subject.device, record.result.opts)
    _report(subject, record, was_known=False, wrong=wrong)
    return record


def _list_failures(record: Record) -> list[Dropped]:
    """The candidates that were compiled or run, and failed."""
    from svod_schedule.optimize.candidates import Dropped, DropReason

    failing = (
        DropReason.COMPILE,
        DropReason.COMPILE_TIMEOUT,
        DropReason.CRASH,
        DropReason.HANG,
        DropReason.RUN,
    )
    return [
        o for o in record.result.outcomes.values() if isinstance(o, Dropped) and o.reason in failing
    ]


def _is_unmeasured(record: Record) -> bool:
    """True if every candidate of a search failed."""
    from svod_schedule.optimize.candidates import Timed

    is_timed = any(isinstance(outcome, Timed) for outcome in record.result.outcomes.values())
    return not is_timed and bool(_list_failures(record))


def _warn(device: str, records: Sequence[Record]) -> None:
    """Warn that no candidate could be measured, with the reasons. The heuristics' choice is used."""
    failures = [failure for record in records for failure in _list_failures(record)]
    reasons = Counter((failure.reason.value, failure.detail) for failure in failures)
    lines = [
        f"{n} x {reason}{f': {detail}' if detail else ''}"
        for (reason, detail), n in reasons.most_common(_MAX_SHOWN)
    ]
    names = ", ".join(record.name for record in records[:_MAX_SHOWN]) + (
        ", ..." if len(records) > _MAX_SHOWN else ""
    )
    warnings.warn(
        f"svod could measure no candidate for {names} on {device}; the opts that the heuristics"
        f" chose are kept. All {len(failures)} that were tried failed:\n"
        + "\n".join(lines)
        + "\nCandidates are tried in processes of their own; the plugin of a device that only one"
        " process may open has to say so (is_exclusive).",
        RuntimeWarning,
        stacklevel=2,
    )


def _ignore(_event: Event) -> None:
    """Ignore the event: there is no observer."""


def _report(
    subject: Subject, record: Record, *, was_known: bool, wrong: tuple[tuple[Opt, ...], ...] = ()
) -> None:
    observer = _observer.get()
    if observer is None:
        return
    from svod_schedule.optimize.candidates import Dropped

    result = record.result
    observer.end(
        Tuned(
            name=record.name,
            device=subject.device.name,
            opts=result.opts,
            seconds=result.seconds,
            heuristic_opts=result.heuristic_opts,
            heuristic_seconds=result.heuristic_seconds,
            n_tried=len(result.outcomes),
            n_dropped=sum(isinstance(o, Dropped) for o in result.outcomes.values()),
            spent_seconds=record.spent_seconds,
            was_known=was_known,
            wrong=wrong,
            n_launches=subject.n_launches,
        )
    )
