"""The search under measures of its own making: what it finds, what it survives, and when it
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from svod_ir import (
    AxisType,
    KernelInfo,
    Op,
    Opt,
    OptOp,
    Target,
    UOp,
    format_opts,
    make_concat,
    make_expand,
    make_permute,
)
from svod_ir.testing import assert_same, count_examples
from svod_ir.testing.programs import matmul, reduce, softmax, tensor
from svod_schedule.linearize import linearize
from svod_schedule.optimize.beam import Event, Tried, format_event, predict, search
from svod_schedule.optimize.candidates import (
    Candidate,
    Dropped,
    DropReason,
    Outcome,
    Timed,
    check_length,
    make_key,
)
from svod_schedule.optimize.cost_model.expected_time import estimate_cost
from svod_schedule.optimize.opts.actions import iter_neighbours
from svod_schedule.optimize.result import Round, StopReason, find_result
from svod_schedule.options import OptimizerConfig
from svod_schedule.pipeline import Context, run_pipeline

TARGET = replace(Target.generic(cores=4), has_fma=True)
CONTEXT = Context(target=TARGET)
GPU = replace(TARGET, has_local=True, has_shared=True, shared_bytes=4096, max_local=64)
SMALL = OptimizerConfig(strategy="beam", width=2, max_measured=6, max_rounds=3)

FAILURES = (DropReason.CRASH, DropReason.COMPILE_TIMEOUT, DropReason.UOPS)

MakeKernel = Callable[[UOp], UOp]


class Noisy:
    """Believes the cost model but for a factor that depends on the candidate and a seed, and fails
    for some.
    """

    def __init__(self, seed: int = 0, noise: float = 1.0, failing: float = 0.0) -> None:
        self.seed, self.noise, self.failing = seed, noise, failing
        self.measured: list[str] = []
        self.best: list[float | None] = []

    def __call__(
        self, candidates: Sequence[Candidate], best_seconds: float | None, /
    ) -> list[Outcome]:
        self.measured += [c.key for c in candidates]
        self.best.append(best_seconds)
        return [self.outcome(c) for c in candidates]

    def outcome(self, candidate: Candidate) -> Outcome:
        random = Random(f"{self.seed} {candidate.key}")
        if random.random() < self.failing:
            return Dropped(random.choice(FAILURES), "as planned")
        return Timed(candidate.predicted * (1 + self.noise * random.random()))


GRAPHS: dict[str, Callable[[], UOp]] = {
    "matmul": lambda: matmul(tensor(1, 48, 40), tensor(2, 40, 64)),
    "softmax": lambda: softmax(tensor(1, 24, 48)),
    "sum of rows": lambda: reduce(tensor(1, 40, 100), 1),
    "sum of columns": lambda: reduce(tensor(1, 100, 40), 0),
    "elementwise": lambda: tensor(1, 60, 20) * tensor(2, 60, 20) + 1,
    "transposed copy": lambda: make_permute(tensor(1, 24, 32), (1, 0)),
}


@pytest.fixture(params=GRAPHS)
def body(request: pytest.FixtureRequest, make_kernel: MakeKernel) -> UOp:
    return make_kernel(GRAPHS[request.param]())


@pytest.fixture
def product(make_kernel: MakeKernel) -> UOp:
    return make_kernel(GRAPHS["matmul"]())


def optimize(kernel: UOp, opts: tuple[Opt, ...]) -> UOp:
    return run_pipeline("optimize", kernel, replace(CONTEXT, opts=opts))


def test_the_result_is_never_slower_than_the_heuristics_or_no_opts(body: UOp) -> None:
    for seed in range(3):
        result = search(body, CONTEXT, SMALL, Noisy(seed))
        assert result.seconds is not None
        assert result.heuristic_seconds is not None
        assert result.unoptimized_seconds is not None
        assert result.seconds <= result.heuristic_seconds
        assert result.heuristic_opts == run_pipeline("optimize", body, CONTEXT).arg.applied_opts


def test_a_search_finds_better_opts_than_a_bad_start(product: UOp) -> None:
    result = search(product, CONTEXT, SMALL, predict)
    assert result.seconds is not None
    assert result.unoptimized_seconds is not None
    assert result.seconds < result.unoptimized_seconds / 4


def test_the_opts_that_were_found_make_the_kernel_that_was_measured(body: UOp) -> None:
    seen: dict[tuple[Opt, ...], UOp] = {}

    def note(candidates: Sequence[Candidate], _: float | None) -> Sequence[Outcome]:
        seen.update((c.opts, c.kernel) for c in candidates)
        return predict(candidates)

    search(body, CONTEXT, SMALL, note)
    assert len(seen) > 2
    for opts, kernel in seen.items():
        assert optimize(body, opts) is kernel


def test_the_same_measurements_give_the_same_result(body: UOp) -> None:
    first, second = (search(body, CONTEXT, SMALL, Noisy(5, failing=0.2)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("n", range(0, 80, 9))
def test_a_search_can_be_stopped_at_any_time(product: UOp, n: int) -> None:
    answers = iter([False] * n)
    measure = Noisy(1)
    result = search(product, CONTEXT, SMALL, measure, should_stop=lambda: next(answers, True))
    assert result.stop is StopReason.STOPPED
    assert not result.is_complete
    times = [o.seconds for o in result.outcomes.values() if isinstance(o, Timed)]
    assert result.seconds is not None
    assert result.heuristic_seconds is not None
    assert result.seconds in (min(times), result.heuristic_seconds)
    assert optimize(product, result.opts)


def test_a_search_of_which_all_candidates_fail_chooses_as_the_heuristics_do(body: UOp) -> None:
    result = search(body, CONTEXT, SMALL, Noisy(failing=1.0))
    assert result.opts == result.heuristic_opts
    assert result.seconds is None
    failed = [
        o for o in result.outcomes.values() if isinstance(o, Dropped) and o.reason in FAILURES
    ]
    assert {o.detail for o in failed} == {"as planned"}
    # The last comparison repeats nothing where there is nothing to compare.
    assert sum(result.n_dropped.get(r, 0) for r in FAILURES) == len(failed)


def test_a_choice_of_the_heuristics_that_failed_is_not_measured_again(product: UOp) -> None:
    noisy = Noisy(3)
    usual = search(product, CONTEXT, SMALL, noisy).heuristic_opts
    asked: list[tuple[Opt, ...]] = []

    def measure(candidates: Sequence[Candidate], best_seconds: float | None) -> Sequence[Outcome]:
        asked.extend(c.opts for c in candidates)
        found = noisy(candidates, best_seconds)
        failed = Dropped(DropReason.HANG, "no end")
        return [failed if c.opts == usual else o for c, o in zip(candidates, found, strict=True)]

    result = search(product, CONTEXT, SMALL, measure)
    assert asked.count(usual) == 1
    assert result.opts != usual
    assert result.heuristic_seconds is None


def test_a_failing_candidate_drops_only_itself(product: UOp) -> None:
    result = search(product, CONTEXT, SMALL, Noisy(3, failing=0.5))
    assert any(isinstance(o, Dropped) for o in result.outcomes.values())
    assert any(isinstance(o, Timed) for o in result.outcomes.values())
    assert result.seconds is not None


def test_known_outcomes_are_not_measured_again(product: UOp) -> None:
    first = Noisy(2, failing=0.1)
    whole = search(product, CONTEXT, SMALL, first)
    again = Noisy(2, failing=0.1)
    resumed = search(product, CONTEXT, SMALL, again, known=whole.outcomes)
    assert resumed.opts == whole.opts
    # What is left is the comparison at the end.
    assert len(again.measured) <= SMALL.width + 1
    calls = iter([False] * 20)
    half = search(
        product, CONTEXT, SMALL, Noisy(2, failing=0.1), should_stop=lambda: next(calls, True)
    )
    rest = Noisy(2, failing=0.1)
    assert search(product, CONTEXT, SMALL, rest, known=half.outcomes).opts == whole.opts
    assert not set(rest.measured[: -SMALL.width - 1]) & set(half.outcomes)


def test_a_stopped_measurement_is_not_remembered(product: UOp) -> None:
    def give_up(candidates: Sequence[Candidate], _: float | None) -> Sequence[Outcome]:
        return [Dropped(DropReason.STOPPED)] * len(candidates)

    result = search(product, CONTEXT, SMALL, give_up)
    assert not [o for o in result.outcomes.values() if o == Dropped(DropReason.STOPPED)]
    assert result.n_dropped[DropReason.STOPPED] > 0


def test_a_known_outcome_of_a_stopped_measurement_is_ignored(product: UOp) -> None:
    whole = search(product, CONTEXT, SMALL, Noisy(2))
    events: list[Event] = []
    known = dict.fromkeys(whole.outcomes, Dropped(DropReason.STOPPED))
    result = search(product, CONTEXT, SMALL, Noisy(2), report=events.append, known=known)
    assert (result.opts, result.n_dropped) == (whole.opts, whole.n_dropped)
    tried = [e.outcome for e in events if isinstance(e, Tried)]
    assert Dropped(DropReason.STOPPED) not in tried


def test_a_stopped_last_comparison_keeps_the_times_of_its_candidates(product: UOp) -> None:
    def measure(candidates: Sequence[Candidate], best: float | None) -> Sequence[Outcome]:
        is_last = best is None and len(candidates) > 1
        return [Dropped(DropReason.STOPPED)] * len(candidates) if is_last else predict(candidates)

    result, whole = (search(product, CONTEXT, SMALL, m) for m in (measure, predict))
    assert (result.opts, result.seconds) == (whole.opts, whole.seconds)
    assert result.n_dropped == whole.n_dropped


def test_no_kernel_is_measured_twice_but_for_the_last_comparison(body: UOp) -> None:
    measure = Noisy(4)
    search(body, CONTEXT, SMALL, measure)
    first = measure.measured[: -SMALL.width - 1]
    assert len(first) == len(set(first))


def test_measure_is_called_with_the_best_time_so_far(product: UOp) -> None:
    measure = Noisy(6)
    search(product, CONTEXT, SMALL, measure)
    assert measure.best[0] is None
    told = [b for b in measure.best[1:-1] if b is not None]
    assert told == sorted(told, reverse=True)


def count_members(kernel: UOp) -> int:
    kinds = (AxisType.LOCAL, AxisType.WARP, AxisType.GROUP_REDUCE)
    return prod(int(r.vmax) + 1 for r in kernel.iter_ops(Op.RANGE) if r.arg[1] in kinds)


def count_taken(kernel: UOp) -> int:
    return estimate_cost(kernel, TARGET).n_taken


class Notes:
    """Keeps what a search reports, and what it has measured."""

    def __init__(self) -> None:
        self.dropped: list[Tried] = []
        self.measured: list[Candidate] = []

    def __call__(
        self, candidates: Sequence[Candidate], best_seconds: float | None, /
    ) -> list[Outcome]:
        self.measured += candidates
        return predict(candidates, best_seconds)

    def report(self, event: Event) -> None:
        if isinstance(event, Tried) and isinstance(event.outcome, Dropped):
            self.dropped.append(event)


@pytest.mark.parametrize(
    ("target", "field", "limit", "count"),
    [(TARGET, "max_upcast", 8, count_taken), (GPU, "max_local", 8, count_members)],
)
def test_limits_keep_candidates_from_being_measured(
    make_kernel: MakeKernel, target: Target, field: str, limit: int, count: Callable[[UOp], int]
) -> None:
    notes, kernel = Notes(), make_kernel(GRAPHS["matmul"]())
    config = replace(SMALL, max_measured=200, max_rounds=1, max_bloat=100.0)
    config = replace(config, **{"max_upcast": 1 << 20, "max_local": 1 << 20, field: limit})
    result = search(kernel, Context(target=target), config, notes, report=notes.report)
    assert result.n_dropped[DropReason.LIMIT] == len(notes.dropped) > 0
    assert all(count(tried.candidate.kernel) > limit for tried in notes.dropped)
    # Where the search begins is measured whatever it is.
    start = [candidate.key for candidate in notes.measured[:2]]
    tried = {c.key: c.kernel for c in notes.measured if c.key not in start}
    assert max(count(kernel) for kernel in tried.values()) == limit
    assert len(tried) + len(notes.dropped) == result.rounds[0].n_made


def test_a_candidate_that_computes_much_more_than_its_parent_is_not_measured(
    make_kernel: MakeKernel,
) -> None:
    def operations(kernel: UOp) -> float:
        return estimate_cost(kernel, TARGET).n_operations

    kernel = make_kernel(GRAPHS["elementwise"]())
    start = operations(optimize(kernel, ()))
    for limit in (1.0, 1.1):
        notes = Notes()
        config = replace(SMALL, max_measured=200, max_rounds=1, max_upcast=1 << 20, max_bloat=limit)
        result = search(kernel, CONTEXT, config, notes, report=notes.report)
        usual = operations(optimize(kernel, result.heuristic_opts))
        assert result.n_dropped[DropReason.BLOAT] == len(notes.dropped) > 0
        assert all(
            operations(tried.candidate.kernel) > limit * min(start, usual)
            for tried in notes.dropped
        )
        assert all(
            operations(candidate.kernel) <= limit * max(start, usual)
            for candidate in notes.measured
        )
    notes = Notes()
    search(kernel, CONTEXT, replace(config, max_bloat=100.0), notes, report=notes.report)
    assert notes.dropped == []
    assert any(
        operations(candidate.kernel) > 1.1 * max(start, usual) for candidate in notes.measured
    )


def test_duplicates_of_candidates_are_dropped(make_kernel: MakeKernel) -> None:
    notes = Notes()
    kernel = make_kernel(GRAPHS["sum of rows"]())
    result = search(kernel, CONTEXT, replace(SMALL, max_upcast=16), notes, report=notes.report)
    assert result.n_dropped[DropReason.DUPLICATE] > 0
    for keys in (
        [tried.candidate.key for tried in notes.dropped],
        [c.key for c in notes.measured[: -SMALL.width - 1]],
    ):
        assert len(keys) == len(set(keys)) > 0
    # None of them takes the place of a kernel that is new.
    assert [r.n_measured for r in result.rounds] == [SMALL.max_measured] * SMALL.max_rounds
    # What is neither measured nor dropped for a limit was not promising enough.
    n_made = 2 + sum(r.n_made for r in result.rounds)
    assert n_made == len(result.outcomes) + result.n_dropped[DropReason.PRUNED]


def test_an_expanded_kernel_is_not_expanded_again(
    product: UOp, monkeypatch: pytest.MonkeyPatch
) -> None:
    expanded: list[tuple[Opt, ...]] = []

    def note(opts: tuple[Opt, ...], *rest: object, **options: object) -> Iterator[tuple[Opt, ...]]:
        expanded.append(opts)
        return iter_neighbours(opts, *rest, **options)  # pyright: ignore[reportArgumentType]

    def measure(candidates: Sequence[Candidate], _: float | None) -> Sequence[Outcome]:
        return [Timed(1.0) for _ in candidates]

    monkeypatch.setattr("svod_schedule.optimize.beam.iter_neighbours", note)
    search(product, CONTEXT, replace(SMALL, min_gain=0.0, width=3), measure)
    assert len(expanded) == len(set(expanded)) > 2


@pytest.mark.parametrize("slow", ["the heuristics' kernel", "the kernel as it is"])
def test_the_predicted_time_is_scaled_by_the_measured_time_of_the_parent(
    product: UOp, slow: str
) -> None:
    batches: list[list[Candidate]] = []

    def measure(candidates: Sequence[Candidate], _: float | None) -> Sequence[Outcome]:
        batches.append(list(candidates))
        is_plain = len(candidates) == 1 and not candidates[0].opts
        factor = (
            1000.0 if len(candidates) == 1 and is_plain == (slow == "the kernel as it is") else 1.0
        )
        return [Timed(c.predicted * factor) for c in candidates]

    search(product, CONTEXT, replace(SMALL, max_rounds=1), measure)
    (heuristic,), (plain,), made, _ = batches
    assert (len(heuristic.opts) > 2, plain.opts) == (True, ())
    assert {len(c.opts) <= 1 for c in made} == {slow == "the heuristics' kernel"}


def test_a_search_asks_whether_to_stop_between_batches(product: UOp) -> None:
    measured: list[int] = []

    def measure(candidates: Sequence[Candidate], _: float | None) -> Sequence[Outcome]:
        measured.append(len(candidates))
        return predict(candidates)

    result = search(
        product,
        CONTEXT,
        replace(SMALL, max_measured=40),
        measure,
        should_stop=lambda: sum(measured) > 2,
    )
    # A batch is not interrupted, and the comparison at the end takes place.
    assert measured == [1, 1, 8, SMALL.width + 1]
    assert result.stop is StopReason.STOPPED
    assert result.rounds[0].n_measured == 8


def test_a_stopped_search_compares_its_best_candidates_with_the_heuristics(product: UOp) -> None:
    batches: list[list[Candidate]] = []

    def measure(candidates: Sequence[Candidate], _: float | None) -> Sequence[Outcome]:
        batches.append(list(candidates))
        # The candidates of the first round are lucky: compared again, they are slower.
        seconds = {1: 2.0, 2: 4.0, 3: 1.0}.get(len(batches))
        return [
            Timed(seconds or (2.0 if c == batches[0][0] else 3.0 + n))
            for n, c in enumerate(candidates)
        ]

    result = search(product, CONTEXT, SMALL, measure, should_stop=lambda: len(batches) > 2)
    assert result.stop is StopReason.STOPPED
    assert batches[0][0] in batches[-1]
    assert (result.opts, result.seconds) == (result.heuristic_opts, 2.0)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_round_expands_the_best_candidates_up_to_the_beam_width(
    product: UOp, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expanded: list[tuple[Opt, ...]] = []

    def note(opts: tuple[Opt, ...], *rest: object, **options: object) -> Iterator[tuple[Opt, ...]]:
        expanded.append(opts)
        return iter_neighbours(opts, *rest, **options)  # pyright: ignore[reportArgumentType]

    def fastest(outcomes: Mapping[str, Outcome]) -> set[str]:
        times = {k: o.seconds for k, o in outcomes.items() if isinstance(o, Timed)}
        return set(sorted(times, key=lambda key: (times[key], key))[:width])

    monkeypatch.setattr("svod_schedule.optimize.beam.iter_neighbours", note)
    outcomes, batches = dict[str, Outcome](), list[list[str]]()

    def measure(candidates: Sequence[Candidate], best_seconds: float | None) -> Sequence[Outcome]:
        # What is tried later is faster, so that no round goes on from what an earlier one went on
        # from.
        batches.append([c.key for c in candidates])
        found = [Timed(1.0 / (len(outcomes) + n + 1)) for n in range(len(candidates))]
        outcomes.update(zip(batches[-1], found, strict=True))
        return found

    ends: list[tuple[int, set[str]]] = []

    def report(event: Event) -> None:
        if isinstance(event, Round):
            ends.append((len(expanded), fastest(outcomes)))

    search(product, CONTEXT, replace(SMALL, width=width), measure, report=report)
    assert len(ends) == SMALL.max_rounds
    for (start, best), (end, _) in pairwise(ends):
        assert {make_key(optimize(product, opts)) for opts in expanded[start:end]} == best
        assert len(best) == width
    # The last comparison is of the best of all, and the heuristics' choice.
    assert set(batches[-1]) == ends[-1][1] | set(batches[0])


def test_another_round_follows_only_if_the_last_one_gained(product: UOp) -> None:
    result = search(product, CONTEXT, replace(SMALL, min_gain=10.0), predict)
    assert len(result.rounds) == 1
    assert result.stop is StopReason.CONVERGED
    assert search(product, CONTEXT, replace(SMALL, max_rounds=0), predict).stop is StopReason.ROUNDS


def test_the_fastest_of_all_is_the_result(product: UOp) -> None:
    times: dict[str, tuple[float, tuple[Opt, ...]]] = {}

    def measure(candidates: Sequence[Candidate], _: float | None) -> Sequence[Outcome]:
        for c in candidates:
            # What is measured first, the heuristics' choice, is slow.
            times.setdefault(c.key, (c.predicted * (1 if times else 1000), c.opts))
        return [Timed(times[c.key][0]) for c in candidates]

    result = search(product, CONTEXT, SMALL, measure)
    assert (result.seconds, result.opts) == min(times.values(), key=lambda entry: entry[0])
    assert (result.heuristic_seconds, result.heuristic_opts) == next(iter(times.values()))
    assert result.opts != result.heuristic_opts
    assert (result.rounds[-1].best_seconds, result.rounds[-1].best_opts) == (
        result.seconds,
        result.opts,
    )


def test_a_gain_within_noise_is_ignored(product: UOp) -> None:
    result = search(product, CONTEXT, replace(SMALL, min_gain=0.99), Noisy(1))
    assert result.opts == result.heuristic_opts


def test_a_candidate_outside_the_last_comparison_does_not_win_it(product: UOp) -> None:
    last: list[str] = []

    def measure(candidates: Sequence[Candidate], best_seconds: float | None) -> Sequence[Outcome]:
        again = [Timed(c.predicted * 100) for c in candidates if c.key in seen]
        seen.update(c.key for c in candidates)
        last[:] = [c.key for c in candidates]
        return again or [Timed(c.predicted) for c in candidates]

    seen: set[str] = set()
    result = search(product, CONTEXT, replace(SMALL, min_gain=0.0), measure)
    assert make_key(optimize(product, result.opts)) in last
    assert result.seconds == min(
        o.seconds for k, o in result.outcomes.items() if k in last and isinstance(o, Timed)
    )


def test_a_kernel_without_applicable_opts_is_unchanged(make_kernel: MakeKernel) -> None:
    single = make_kernel(tensor(1, 1) + 1)
    result = search(single, CONTEXT, SMALL, predict)
    assert (result.opts, result.stop) == ((), StopReason.EXHAUSTED)


def test_events_are_reported_immediately(product: UOp) -> None:
    events: list[Event] = []
    result = search(product, CONTEXT, SMALL, Noisy(5, failing=0.5), report=events.append)
    assert [e for e in events if isinstance(e, Round)] == list(result.rounds)
    lines = [format_event(e) for e in events]
    assert any(line.startswith("dropped, crashes (as planned): ") for line in lines)
    assert any("us (expected" in line for line in lines)
    assert any(line.endswith(format_opts(result.heuristic_opts)) for line in lines)
    assert any(line.endswith(": no opts") for line in lines)
    assert lines[-1 - SMALL.width - 1].startswith("round of ") or any(
        line.startswith("round of ")
        and line.endswith(f"us with {format_opts(result.rounds[-1].best_opts)}")
        for line in lines
    )
    assert any(line.startswith("round of ") for line in lines)
    assert not [line for line in lines if "\n" in line]


def test_a_result_is_read_back_from_its_text(product: UOp) -> None:
    result = search(product, CONTEXT, SMALL, Noisy(3, failing=0.3))
    assert find_result(result.to_text()) == result
    assert "\n" not in result.to_text()
    nothing = search(product, CONTEXT, SMALL, Noisy(failing=1.0))
    assert find_result(nothing.to_text()) == nothing


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "7",
        '{"version": 0}',
        '{"version": 1}',
        '{"version": 1, "opts": "UPCAST(", "seconds": 1}',
    ],
)
def test_other_text_is_no_result(text: str) -> None:
    assert find_result(text) is None


def test_a_result_of_another_version_or_with_damage_is_no_result(product: UOp) -> None:
    text = search(product, CONTEXT, SMALL, predict).to_text()
    assert find_result(text.replace('"version": 1', '"version": 99')) is None
    assert (
        find_result(
            text.replace("CONVERGED", "TIRED")
            .replace("EXHAUSTED", "TIRED")
            .replace("ROUNDS", "TIRED")
        )
        is None
    )
    assert find_result(text[: len(text) // 2]) is None


def test_keys_of_kernels_depend_on_the_kernel_and_not_on_its_opts(
    make_kernel: MakeKernel,
) -> None:
    kernel = make_kernel(tensor(1, 24, 32) * make_permute(tensor(2, 32, 24), (1, 0)))
    rows_first = optimize(kernel, (Opt(OptOp.UPCAST, 0, 4), Opt(OptOp.UPCAST, 1, 8)))
    columns_first = optimize(kernel, (Opt(OptOp.UPCAST, 1, 8), Opt(OptOp.UPCAST, 0, 4)))
    assert rows_first is not columns_first
    assert make_key(rows_first) == make_key(columns_first)
    assert make_key(rows_first) != make_key(optimize(kernel, (Opt(OptOp.UPCAST, 0, 4),)))
    assert make_key(rows_first.with_arg(KernelInfo("other"))) == make_key(rows_first)
    # Two loops of one length are two loops.
    column, row = (8, 1), (1, 8)
    sums = [
        make_kernel(
            make_expand(tensor(1, *first), (8, 8)) + make_expand(tensor(2, *second), (8, 8))
        )
        for first, second in ((column, row), (row, column))
    ]
    assert len({make_key(optimize(body, ())) for body in sums}) == 2


def test_a_program_that_is_too_long_is_dropped_with_its_most_frequent_ops(product: UOp) -> None:
    linear = linearize(run_pipeline("lower", optimize(product, ()), CONTEXT))
    assert check_length(linear, len(linear)) is None
    dropped = check_length(linear, len(linear) - 1)
    assert dropped is not None
    assert dropped.reason is DropReason.UOPS
    n_consts = sum(n.op is Op.CONST for n in linear)
    assert dropped.detail.startswith(f"{len(linear)} > {len(linear) - 1}: ")
    assert f"{n_consts} CONST" in dropped.detail


SMALL_GRAPHS: dict[str, Callable[[], UOp]] = {
    "matmul": lambda: matmul(tensor(1, 6, 10), tensor(2, 10, 16)),
    "softmax": lambda: softmax(tensor(1, 5, 24)),
    "sum of rows": lambda: reduce(tensor(1, 7, 24), 1),
    "concatenation": lambda: make_concat([tensor(1, 6, 17), tensor(2, 6, 20)], axis=1),
    "elementwise": lambda: tensor(1, 6, 20) * tensor(2, 6, 20) + 1,
}


@settings(
    max_examples=count_examples(5),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.sampled_from(sorted(SMALL_GRAPHS)), st.integers(0, 1 << 20))
def test_all_candidates_of_a_search_have_equal_results(
    make_kernel: MakeKernel, name: str, seed: int
) -> None:
    kernel = make_kernel(SMALL_GRAPHS[name]())
    tried: list[UOp] = []

    def note(candidates: Sequence[Candidate], best: float | None) -> Sequence[Outcome]:
        tried.extend(c.kernel for c in candidates)
        return Noisy(seed, 8.0)(candidates, best)

    search(kernel, CONTEXT, replace(SMALL, max_measured=3, max_rounds=3, min_gain=0.0), note)
    for optimized in Random(seed).sample(tried, min(len(tried), 3)):
        assert_same(kernel, linearize(run_pipeline("lower", optimized, CONTEXT)))
