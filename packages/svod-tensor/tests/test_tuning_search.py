"""Searches of whole plans: what they find, keep, share and survive."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from svod_codegen.disk_store import get_disk_store
from svod_device import Device, clear, get_device
from svod_ir import Opt, OptOp, Target, UOp, format_opts, parse_opts
from svod_ir.testing.nodes import contiguous
from svod_runtime import ExecutionPlan, PreparedKernel
from svod_schedule import OptimizerConfig
from svod_schedule.estimate import estimate_work
from svod_schedule.optimize.beam import Event, Tried
from svod_schedule.optimize.candidates import Candidate, Dropped, DropReason, Outcome, Timed
from svod_schedule.optimize.result import SearchResult, StopReason
from svod_tensor import PrepareConfig, Tensor, caches, clear_caches, jit
from svod_tensor.engine.kernels import make_context
from svod_tensor.engine.uncached import make_schedule
from svod_tensor.errors import UnknownPlanError
from svod_tensor.options import using_optimizer
from svod_tensor.tuning import choose, tuned
from svod_tensor.tuning.choose import (
    Subject,
    Tuned,
    is_finished,
    limit_searches,
    observe,
    search_all,
    search_at_end,
)
from svod_tensor.tuning.measure import Measurer
from svod_tensor.tuning.records import (
    Record,
    find_record,
    make_record_key,
    reject_record,
    store_record,
)
from svod_tensor.tuning.search_kernel import KernelSearch
from svod_tensor.tuning.time_box import TimeBox

QUICK = OptimizerConfig(
    strategy="beam",
    width=2,
    max_rounds=1,
    max_measured=6,
    n_runs=1,
    kernel_seconds=300.0,
    plan_seconds=600.0,
)
SEARCHED = PrepareConfig(optimizer=QUICK, disable_schedule_cache=True)
PLAIN = PrepareConfig(disable_schedule_cache=True)


class Observer:
    def __init__(self) -> None:
        self.begun: list[int] = []
        self.tuned: list[Tuned] = []
        self.measured: list[str] = []
        self.left_out: list[int] = []

    def begin(self, n_kernels: int, seconds: float) -> None:
        self.begun.append(n_kernels)

    def note(self, event: Event) -> None:
        if isinstance(event, Tried) and not (
            isinstance(event.outcome, Dropped) and event.outcome.reason is DropReason.LIMIT
        ):
            self.measured.append(event.candidate.key)

    def end(self, tuned: Tuned) -> None:
        self.tuned.append(tuned)

    def skip(self, n_kernels: int) -> None:
        self.left_out.append(n_kernels)


@pytest.fixture(autouse=True)
def cleared_caches(own_stores: None) -> Iterator[None]:
    clear_caches()
    yield
    clear_caches()


def opts_of(plan: ExecutionPlan) -> str:
    """The opts of the only kernel."""
    (kernel,) = {op.kernel for op in plan.prepared_ops if isinstance(op, PreparedKernel)}
    assert kernel.spec.ast is not None
    return format_opts(kernel.spec.ast.arg.applied_opts or ())


def matmul() -> tuple[Tensor, np.ndarray]:
    x, y = (np.random.default_rng(i).random((24, 32), np.float32) for i in (1, 2))
    return Tensor(x) @ Tensor(y).permute(1, 0), x @ y.T


def run(config: PrepareConfig) -> tuple[Observer, str]:
    """Compute the product; the observer of its searches, and the opts of its kernel."""
    observer = Observer()
    with observe(observer):
        product, expected = matmul()
        plan = product.prepare_with(config)
    plan.execute()
    np.testing.assert_allclose(product.numpy(), expected, rtol=1e-5)
    return observer, opts_of(plan)


def test_a_search_finds_opts_for_the_kernel_and_the_next_search_measures_none() -> None:
    first, opts = run(SEARCHED)
    assert first.begun == [1]
    assert len(first.measured) > 2
    (found,) = first.tuned
    assert (found.was_known, format_opts(found.opts)) == (False, opts)
    assert found.seconds is not None
    clear_caches()
    second, again = run(SEARCHED)
    assert (second.begun, second.measured, again) == ([], [], opts)
    assert [t.was_known for t in second.tuned] == [True]
    assert caches()["search"].entries == 2
    assert caches()["search"].hits == 1


def test_a_process_without_a_disk_cache_remembers_its_searches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SVOD_OBJECT_CACHE", "0")
    get_disk_store.cache_clear()
    short = replace(SEARCHED, optimizer=replace(QUICK, max_measured=1))
    _, usual = run(PLAIN)
    first, opts = run(short)
    assert first.begun == [1] and first.measured
    second, again = run(short)
    assert (second.begun, second.measured, again) == ([], [], opts)
    assert [t.was_known for t in second.tuned] == [True]
    assert run(PLAIN)[1] == opts
    assert not Path(os.environ["SVOD_CACHE_DIR"], "searches").exists()
    clear_caches()
    assert run(PLAIN)[1] == usual


def test_a_finished_record_of_another_process_replaces_an_unfinished_one() -> None:
    key = make_record_key("kernel", get_device("CPU"), QUICK)
    begun, finished = Record("k", result(), 1.0), Record("k", result(), 2.0, ())
    store_record(key, finished)
    further = tuned.get_store().get(key)
    assert further is not None
    clear_caches(disk=True)
    store_record(key, begun)
    assert find_record(key) == begun
    tuned.get_store().put(key, further)
    assert find_record(key) == finished


def test_programs_without_search_use_stored_results_by_default() -> None:
    _, usual = run(PLAIN)
    assert not Path(os.environ["SVOD_CACHE_DIR"], "searches").exists()
    ast_hash, device = kernel_of(matmul()[0]).content_hash, get_device("CPU")
    tuned.put_tuned(ast_hash, device, (Opt(OptOp.UNROLL, 0, 4),))
    assert run(PLAIN)[1] == "UNROLL(0, 4)" != usual
    assert run(replace(PLAIN, use_tuned=False))[1] == usual
    assert run(replace(PLAIN, opts=()))[1] == ""
    clear_caches(disk=True)
    assert run(PLAIN)[1] == usual


def test_explicit_opts_are_used_without_a_search() -> None:
    observer, opts = run(replace(SEARCHED, opts=(Opt(OptOp.UNROLL, 0, 4),)))
    assert (observer.begun, observer.tuned, opts) == ([], [], "UNROLL(0, 4)")
    assert not Path(os.environ["SVOD_CACHE_DIR"], "searches").exists()


def test_opts_that_no_longer_apply_are_discarded() -> None:
    _, usual = run(PLAIN)
    ast_hash, device = kernel_of(matmul()[0]).content_hash, get_device("CPU")
    tuned.put_tuned(ast_hash, device, (Opt(OptOp.UPCAST, 7, 4),))
    assert run(PLAIN)[1] == usual
    assert tuned.find_tuned(ast_hash, device) is None


def test_an_interrupted_search_stores_its_results_and_is_resumed() -> None:
    class Impatient(Observer):
        def note(self, event: Event) -> None:
            super().note(event)
            if len(self.measured) == 4:
                raise KeyboardInterrupt

    impatient = Impatient()
    with observe(impatient), pytest.raises(KeyboardInterrupt):
        matmul()[0].prepare_with(SEARCHED)
    assert run(PLAIN)[1]
    key = make_record_key(kernel_of(matmul()[0]).content_hash, get_device("CPU"), QUICK)
    record = find_record(key)
    assert record is not None
    assert record.opts is None
    known = {k for k, o in record.result.outcomes.items() if isinstance(o, Timed)}
    assert known
    observer, _ = run(SEARCHED)
    assert not observer.tuned[0].was_known
    assert known <= set(observer.measured)


KILLED = """\
import os, signal, sys
import numpy as np
from svod_tensor import Tensor
from svod_tensor.tuning.choose import observe
from svod_tensor.tuning import measure
n_left = int(sys.argv[1])
original = measure.Measurer.__call__
def counted(self, candidates, best):
    global n_left
    found = original(self, candidates, best)
    print("measured", *(c.key for c in candidates), flush=True)
    n_left -= 1
    return found
def stop(self, candidates, best):
    if n_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return counted(self, candidates, best)
measure.Measurer.__call__ = stop
x = np.random.default_rng(0).random((12, 24), np.float32)
y = Tensor(x).softmax(-1).numpy()
e = np.exp(x - x.max(1, keepdims=True))
np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
"""


def test_a_search_is_resumed_after_its_process_was_killed_and_then_not_repeated() -> None:
    def measured_by(n: int) -> tuple[int, list[str]]:
        env = {
            **os.environ,
            "SVOD_BEAM": "2",
            "BEAM_ROUNDS_MAX": "1",
            "BEAM_MEASURED_MAX": "12",
            "BEAM_RUNS": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(n)],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.split()

    status, before = measured_by(3)
    assert status == -9
    status, after = measured_by(-1)
    assert status == 0
    assert len(before) > 3
    # The first process measured three batches; only the finalists of the second stand among them.
    assert len(set(before) & set(after)) <= 1 + 3
    assert measured_by(-1) == (0, [])


def test_opts_with_wrong_results_are_rejected_with_a_report(
    odd_plan: dict[str, str],
) -> None:
    odd_plan |= {"UPCAST": "run: wrong", "OVERLAP": "run: wrong", "UNROLL": "run: wrong"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        observer, opts = run_odd()
    assert not {"UPCAST", "OVERLAP", "UNROLL"} & {opt.op.value for opt in parse_opts(opts)}
    (found,) = observer.tuned
    assert found.wrong
    report = str(next(w.message for w in caught if "Please report" in str(w.message)))
    assert f"opts: {format_opts(found.wrong[0])}" in report
    assert "device: ODD" in report
    assert "elements differ" in report
    assert "STORE" in report


def test_a_search_whose_candidates_all_fail_has_no_opts(odd_plan: dict[str, str]) -> None:
    odd_plan |= {
        "UPCAST": "run: raise",
        "OVERLAP": "run: raise",
        "UNROLL": "run: raise",
        "THREAD": "run: wrong",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run_odd()[1] == ""


def test_a_search_survives_candidates_that_crash_hang_and_fail(
    odd_plan: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    odd_plan |= {
        "SWAP": "compile: abort",
        "OVERLAP": "compile: raise",
        "UNROLL": "run: crash",
        "THREAD": "run: raise",
    }
    config = replace(QUICK, max_measured=10, log_drops=True)
    observer, _ = run_odd(replace(SEARCHED, optimizer=config))
    (found,) = observer.tuned
    assert found.n_dropped > 0
    printed = capfd.readouterr().err
    assert "dropped, crashes (" in printed
    assert "dropped, does not compile (ValueError: no such instruction): " in printed


class FailingMeasurer:
    """No candidate runs."""

    def __init__(self, reason: DropReason) -> None:
        self.reason = reason

    def __call__(
        self, candidates: Sequence[Candidate], _best_seconds: float | None, /
    ) -> list[Outcome]:
        return [Dropped(self.reason, "as planned") for _ in candidates]

    def compare(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        return self(candidates, None)

    def verify(self, _candidate: Candidate, _reference: Candidate) -> Dropped | None:
        return None


@pytest.mark.parametrize(
    ("log_drops", "reason", "n_lines"),
    [(True, DropReason.CRASH, 2), (False, DropReason.CRASH, 0), (True, DropReason.STOPPED, 0)],
)
def test_a_line_for_each_rejected_candidate_is_printed_on_request(
    log_drops: bool, reason: DropReason, n_lines: int, capsys: pytest.CaptureFixture[str]
) -> None:
    config, kernel, measurer = (
        replace(QUICK, max_rounds=0, log_drops=log_drops),
        subject(8),
        FailingMeasurer(reason),
    )
    search = KernelSearch(
        kernel.ast,
        kernel.context,
        config,
        "key",
        cast("Measurer", measurer),
        TimeBox(9.0, lambda: 0.0),
        lambda _: None,
    )
    record, wrong = search.run(None)
    assert (record.result.seconds, wrong) == (None, ())
    assert len(record.result.outcomes) == (2 if reason is DropReason.CRASH else 0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == n_lines
    assert all(": dropped, crashes (as planned): " in line for line in lines)


def run_odd(config: PrepareConfig = SEARCHED) -> tuple[Observer, str]:
    observer = Observer()
    x = np.random.default_rng(1).random((128, 512), np.float32)
    with observe(observer):
        product = Tensor(x, device="ODD").sum(1)
        plan = product.prepare_with(config)
    return observer, opts_of(plan)


def kernel_of(tensor: Tensor) -> UOp:
    (item,) = make_schedule(UOp.sink(contiguous(tensor.uop)), PLAIN).items
    return item.ast


def subject(n: int) -> Subject:
    device = get_device("CPU")
    return Subject(
        kernel_of(Tensor(np.ones((n, 8), np.float32)).sum(1)),
        device,
        make_context(device, SEARCHED),
        {},
    )


def result(stop: StopReason = StopReason.CONVERGED) -> SearchResult:
    return SearchResult(
        opts=(),
        seconds=1.0,
        heuristic_opts=(),
        heuristic_seconds=1.0,
        unoptimized_seconds=None,
        stop=stop,
        outcomes={"a": Timed(1.0)},
    )


def test_the_budget_of_a_plan_is_divided_among_remaining_kernels_by_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, given = [0.0], list[tuple[int, float]]()
    taken = iter([5.0, 30.0, 100.0])

    def search(
        subject: Subject,
        key: str,
        earlier: object,
        config: OptimizerConfig,
        box: TimeBox,
        _final: float,
        _compilers: object,
    ) -> Record:
        given.append((subject.n_launches, box.remaining()))
        now[0] += min(next(taken), box.remaining())
        return Record("k", replace(result(), opts=(Opt(OptOp.NOLOCALS),)), 1.0)

    monkeypatch.setattr(choose, "_search", search)
    config = replace(QUICK, kernel_seconds=40.0, plan_seconds=75.0)
    subjects = [replace(subject(n), n_launches=n) for n in (8, 32, 16)]
    assert search_all(subjects, config, lambda: now[0]) == [(Opt(OptOp.NOLOCALS),)] * 3
    assert given == [(32, 25.0), (16, 35.0), (8, 40.0)]


def test_kernels_with_the_longest_predicted_time_are_searched_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The product has more operations and bytes, the sine takes more time.
    product = Tensor(np.ones(200_000, np.float32)) * 2
    sine = Tensor(np.ones(150_000, np.float32)).sin()
    device, searched = get_device("CPU"), list[UOp]()

    def search(kernel: Subject, *_: object) -> Record:
        searched.append(kernel.ast)
        return Record("k", replace(result(), opts=(Opt(OptOp.NOLOCALS),)), 1.0)

    monkeypatch.setattr(choose, "_search", search)
    subjects = [
        Subject(kernel_of(tensor), device, make_context(device, SEARCHED), {})
        for tensor in (product, sine)
    ]
    assert sum(estimate_work(subjects[0].ast)) > sum(estimate_work(subjects[1].ast))
    search_all(subjects, replace(QUICK, use_cache=False))
    assert searched == [subjects[1].ast, subjects[0].ast]


def test_at_the_end_of_a_block_the_kernels_of_all_plans_share_the_time_by_their_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[tuple[int, float]] = []

    def search(
        kernel: Subject,
        _key: str,
        _earlier: object,
        config: OptimizerConfig,
        box: TimeBox,
        *_: object,
    ) -> Record:
        assert not kernel.buffers
        searched.append((kernel.n_launches, box.remaining() / choose._SEARCH_SHARE))
        return Record("k", replace(result(), opts=(Opt(OptOp.NOLOCALS),)), 1.0)

    monkeypatch.setattr(choose, "_search", search)
    with search_at_end(60.0):
        assert search_all([subject(8)], QUICK) == [None]
        assert search_all([subject(8), replace(subject(64), n_launches=4)], QUICK) == [None, None]
        assert searched == []
    assert [n_launches for n_launches, _ in searched] == [4, 2]
    assert 40 < searched[0][1] < 60


def test_a_kernel_counts_as_often_as_its_captured_function_was_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[tuple[str | None, int]] = []

    def search(kernel: Subject, *_: object) -> Record:
        searched.append((kernel.use and kernel.use.name, kernel.n_launches))
        return Record("k", replace(result(), opts=(Opt(OptOp.NOLOCALS),)), 1.0)

    monkeypatch.setattr(choose, "_search", search)

    def run_program() -> None:
        # Of odd sizes: no earlier test has compiled these kernels.
        with using_optimizer(QUICK):
            (
                Tensor(np.ones((311, 97), np.float32)) @ Tensor(np.ones((97, 83), np.float32))
            ).realize()
            decode, start = jit(lambda x: x * 3), jit(lambda x: x * 5)
            decode.function.__qualname__, start.function.__qualname__ = "decode", "start"
            x = Tensor(np.ones(2003, np.float32)).realize()
            start(x).realize()
            for _ in range(40):
                decode(x).realize()

    with search_at_end(60.0):
        run_program()
    assert searched[0] == (None, 1)  # its work is more than 40 times 2003
    assert searched[1:] == [("decode", 40), ("start", 1)]
    searched.clear()
    clear_caches()
    with search_at_end(60.0, "decode"):
        run_program()
    assert searched == [("decode", 40)]
    clear_caches()
    with pytest.raises(UnknownPlanError, match=r"no captured function .decoed. .* start, decode"):  # noqa: SIM117
        with search_at_end(60.0, "decoed"):
            run_program()


def test_a_failed_block_leaves_no_pending_search(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []
    monkeypatch.setattr(choose, "_search", lambda *given: searched.append(given))
    for failure in (ValueError(), SystemExit(1), KeyboardInterrupt()):
        with pytest.raises(type(failure)), search_at_end(60.0):
            search_all([subject(8)], QUICK)
            raise failure
    assert searched == []


def test_kernels_beyond_the_budget_use_the_heuristics() -> None:
    observer = Observer()
    with observe(observer):
        assert search_all([subject(8)], replace(QUICK, plan_seconds=0.1)) == [None]
    assert observer.tuned == []
    assert (observer.begun, observer.left_out) == ([], [1])
    with observe(observer), limit_searches(0.1):
        assert search_all([subject(8), subject(16)], QUICK) == [None, None]
    assert (observer.begun, observer.left_out) == ([], [1, 2])
    _, opts = run(replace(SEARCHED, optimizer=replace(QUICK, kernel_seconds=0.0)))
    assert opts == run(PLAIN)[1]


def test_without_worker_processes_the_heuristics_choose(
    odd_plan: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "svod_tensor.tuning.workers.make_child_environment", lambda **_: {"PYTHONPATH": "/nowhere"}
    )
    config = replace(SEARCHED, optimizer=replace(QUICK, max_measured=1))
    with pytest.warns(
        RuntimeWarning, match=r"could measure no candidate for r_.* on ODD; the opts"
    ) as caught:
        observer, opts = run_odd(config)
    assert " x does not compile: KeyError: 'ODD_PLAN'" in str(caught[0].message)
    assert observer.tuned[0].seconds is None
    assert opts == run_odd(PLAIN)[1] != ""


def test_a_device_that_only_one_process_may_open_is_searched_in_this_one(
    odd_plan: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODD_PROCESS", str(os.getpid()))
    short = replace(SEARCHED, optimizer=replace(QUICK, max_measured=1))
    with pytest.warns(RuntimeWarning, match="device ODD is open in process") as caught:
        observer, _ = run_odd(short)
    assert "could measure no candidate" in str(caught[0].message)
    assert observer.tuned[0].seconds is None
    clear_caches(disk=True)
    clear()
    monkeypatch.setenv("ODD_IS_EXCLUSIVE", "1")
    observer, _ = run_odd(short)
    assert observer.tuned[0].seconds is not None
    assert observer.tuned[0].n_dropped < observer.tuned[0].n_tried


def test_a_search_that_used_its_budget_is_finished_and_an_interrupted_one_resumes() -> None:
    assert is_finished(Record("k", result(), 1.0, ()), QUICK)
    assert not is_finished(Record("k", result(), 1.0), QUICK)
    stopped = Record("k", result(StopReason.STOPPED), QUICK.kernel_seconds, ())
    assert is_finished(stopped, QUICK)
    assert not is_finished(replace(stopped, spent_seconds=1.0), QUICK)


def test_the_more_complete_of_two_records_is_used() -> None:
    def show(spent: float, *, is_done: bool) -> Record:
        return Record("r", result(), spent, () if is_done else None)

    for here, there, is_taken in (
        (show(2.0, is_done=False), show(3.0, is_done=False), True),
        (show(2.0, is_done=False), show(1.0, is_done=False), False),
        (show(2.0, is_done=False), show(1.0, is_done=True), True),
        (show(2.0, is_done=True), show(3.0, is_done=True), False),
    ):
        store_record("key", here)
        # Another process stores without this one's knowing.
        tuned.get_store().put("key", there.to_text().encode())
        assert find_record("key") == (there if is_taken else here)
    reject_record("key")
    assert find_record("key") is None
    store_record("key", here)
    tuned.get_store().remove("key")
    assert find_record("key") == here


@pytest.mark.parametrize("use_cache", [True, False])
def test_finished_searches_are_repeated_only_on_request(
    monkeypatch: pytest.MonkeyPatch, use_cache: bool
) -> None:
    searched: list[Subject] = []

    def search(subject: Subject, *_: object) -> Record:
        searched.append(subject)
        return Record(
            "r", replace(result(), opts=(Opt(OptOp.NOLOCALS),)), 1.0, (Opt(OptOp.NOLOCALS),)
        )

    class Begun(Observer):
        def begin(self, n_kernels: int, seconds: float) -> None:
            super().begin(n_kernels, seconds)
            assert seconds == 75.0

    monkeypatch.setattr(choose, "_search", search)
    config = replace(QUICK, plan_seconds=75.0, use_cache=use_cache)
    subjects, observer = [subject(8), subject(16)], Begun()
    found = replace(result(), opts=(Opt(OptOp.UNROLL, 0, 4),))
    store_record(
        make_record_key(subjects[0].ast.content_hash, subjects[0].device, config),
        Record("r", found, 1.0, ()),
    )
    with observe(observer):
        opts = search_all(subjects, config, lambda: 0.0)
    assert opts == [found.opts if use_cache else (Opt(OptOp.NOLOCALS),), (Opt(OptOp.NOLOCALS),)]
    assert len(searched) == (1 if use_cache else 2)
    assert observer.begun == [len(searched)]
    assert [t.was_known for t in observer.tuned] == [True] * use_cache
    # Who observes nothing is told nothing.
    assert search_all(subjects[:1], replace(config, use_cache=True)) == [found.opts]


@dataclass(frozen=True)
class Machine:
    """As much of a device as searches are named by."""

    base_key: str
    cache_key: str
    target: Target

    @property
    def compiler(self) -> Machine:
        return self


def test_results_are_keyed_by_kernel_device_kind_compiler_and_target() -> None:
    one = Machine("ONE", "one", Target.generic())
    machines = [
        one,
        replace(one, base_key="TWO"),
        replace(one, cache_key="two"),
        replace(one, target=Target.generic(cores=3)),
    ]
    places = [("kernel", m) for m in machines] + [("other kernel", one)]
    opts = [(Opt(OptOp.UNROLL, 0, n),) for n in range(2, 7)]
    for (ast_hash, machine), found in zip(places, opts, strict=True):
        tuned.put_tuned(ast_hash, cast("Device", machine), found)
    assert [tuned.find_tuned(ast_hash, cast("Device", m)) for ast_hash, m in places] == opts
    tuned.clear()  # what is remembered, so that the disk is asked
    assert [tuned.find_tuned(ast_hash, cast("Device", m)) for ast_hash, m in places] == opts
    tuned.reject_tuned("kernel", cast("Device", one))
    tuned.clear()
    assert [tuned.find_tuned(ast_hash, cast("Device", m)) for ast_hash, m in places] == [
        None,
        *opts[1:],
    ]
    keys = {make_record_key(ast_hash, cast("Device", m), QUICK) for ast_hash, m in places}
    assert len(keys) == len(places)


def test_a_record_is_read_back_and_an_invalid_one_is_removed() -> None:
    device = get_device("CPU")
    key = make_record_key("kernel", device, QUICK)
    assert find_record(key) is None
    record = Record("r_8", result(), 1.5, parse_opts("UPCAST(0, 4)"))
    store_record(key, record)
    assert find_record(key) == record
    clear_caches()
    assert find_record(key) == record
    clear_caches()
    tuned.get_store().put(key, b"{}")
    assert find_record(key) is None
    assert tuned.get_store().counts().entries == 0
    assert make_record_key("kernel", device, replace(QUICK, width=3)) != key
    assert make_record_key("kernel", device, replace(QUICK, log_drops=True)) == key
