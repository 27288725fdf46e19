"""Candidates that crash, hang, fail or compute something wrong are lost alone, in whatever process
they do so.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from svod_device import Device, get_device
from svod_ir import Op, UOp, parse_opts
from svod_ir.testing.programs import matmul, tensor
from svod_schedule.optimize.candidates import Dropped, DropReason
from svod_schedule.pipeline import Context, run_pipeline
from svod_tensor.tuning.buffer_data import describe_buffers, estimate_tolerance
from svod_tensor.tuning.time_box import TimeBox
from svod_tensor.tuning.workers import (
    Compilers,
    LocalCompilers,
    LocalRunner,
    ProcessCompilers,
    ProcessRunner,
    Runner,
    can_isolate,
)

UPCAST, UNROLL, THREAD = "UPCAST(0, 4)", "UNROLL(0, 4)", "THREAD(0, 2)"
FAR = 60.0


@pytest.fixture
def device(odd_plan: object) -> Device:
    return get_device("ODD")


@pytest.fixture(params=["process", "local"])
def compilers(request: pytest.FixtureRequest, device: Device) -> Iterator[Compilers]:
    made = (
        LocalCompilers(device, 3000)
        if request.param == "local"
        else ProcessCompilers(device, 3000, n_workers=2)
    )
    yield made
    made.close()


@pytest.fixture
def processes(device: Device) -> Iterator[ProcessCompilers]:
    made = ProcessCompilers(device, 3000, n_workers=1)
    yield made
    made.close()


@pytest.fixture
def body(device: Device) -> UOp:
    context = Context(target=device.target, device=device.name)
    graph = UOp.sink(matmul(tensor(1, 8, 12), tensor(2, 12, 16)))
    kernels = run_pipeline("kernelize", run_pipeline("rangeify", graph, context), context)
    return next(iter(kernels.iter_ops(Op.CALL))).src[0]


def optimize(body: UOp, device: Device, opts: str) -> UOp:
    return run_pipeline(
        "optimize", body, Context(target=device.target, device=device.name, opts=parse_opts(opts))
    )


def compile_all(
    compilers: Compilers, body: UOp, device: Device, *opts: str, seconds: float = FAR
) -> list[bytes | Dropped]:
    return compilers.compile([optimize(body, device, o) for o in opts], seconds, TimeBox(1000.0))


def test_devices_registered_by_a_program_are_searched_in_its_process(device: Device) -> None:
    assert can_isolate(device)
    assert can_isolate(get_device("CPU"))


@pytest.mark.parametrize(
    ("behaviour", "reason", "detail"),
    [
        ("compile: abort", DropReason.CRASH, "signal"),
        ("compile: eat memory", DropReason.COMPILE, "Cannot allocate memory"),
        ("compile: raise", DropReason.COMPILE, "no such instruction"),
    ],
)
def test_a_candidate_that_crashes_the_compiler_does_not_affect_others(
    processes: ProcessCompilers,
    body: UOp,
    device: Device,
    odd_plan: dict[str, str],
    behaviour: str,
    reason: DropReason,
    detail: str,
) -> None:
    odd_plan["UNROLL"] = behaviour
    good, bad, other = compile_all(processes, body, device, UPCAST, UNROLL, THREAD)
    assert isinstance(good, bytes)
    assert isinstance(other, bytes)
    assert isinstance(bad, Dropped)
    assert bad.reason is reason
    assert detail in bad.detail


def test_only_the_compile_phase_has_a_limit_which_ends_a_hang(
    processes: ProcessCompilers, body: UOp, device: Device, odd_plan: dict[str, str]
) -> None:
    odd_plan["UNROLL"] = "compile: endless"
    assert compile_all(processes, body, device, UNROLL, seconds=0.1) == [
        Dropped(DropReason.COMPILE_TIMEOUT, "more than 0.1 s")
    ]
    # The process is another one now; its start does not count.
    assert isinstance(compile_all(processes, body, device, UPCAST)[0], bytes)


def test_compilation_stops_at_the_deadline(compilers: Compilers, body: UOp, device: Device) -> None:
    kernels = [optimize(body, device, opts) for opts in (UPCAST, UNROLL)]
    assert compilers.compile(kernels, FAR, TimeBox(0.0)) == [Dropped(DropReason.STOPPED)] * 2


def test_a_compilation_interrupted_by_the_deadline_is_no_failure(
    processes: ProcessCompilers, body: UOp, device: Device, odd_plan: dict[str, str]
) -> None:
    odd_plan["UNROLL"] = "compile: endless"
    # The process has started by then.
    assert isinstance(compile_all(processes, body, device, UPCAST)[0], bytes)
    assert processes.compile([optimize(body, device, UNROLL)], FAR, TimeBox(0.1)) == [
        Dropped(DropReason.STOPPED)
    ]


def test_too_many_uops_are_dropped_with_the_most_frequent(body: UOp, device: Device) -> None:
    compilers = ProcessCompilers(device, 20, n_workers=1)
    (dropped,) = compile_all(compilers, body, device, UPCAST)
    compilers.close()
    assert isinstance(dropped, Dropped)
    assert dropped.reason is DropReason.UOPS
    assert "> 20: " in dropped.detail


def test_a_process_is_replaced_after_a_number_of_candidates(body: UOp, device: Device) -> None:
    compilers = ProcessCompilers(device, 3000, n_workers=1, max_tasks=1)
    started: list[int] = []
    start = compilers._start
    compilers._start = lambda: started.append(1) or start()
    assert all(
        isinstance(c, bytes) for c in compile_all(compilers, body, device, UPCAST, UNROLL, THREAD)
    )
    compilers.close()
    assert len(started) == 3


def make_runner(kind: str, device: Device, body: UOp) -> Runner:
    contents, tolerance = describe_buffers(body, {}), estimate_tolerance(body)
    if kind == "local":
        return LocalRunner(device, contents, tolerance)
    return ProcessRunner(device, contents, tolerance, FAR)


@pytest.mark.parametrize("kind", ["process", "local"])
def test_a_good_candidate_has_a_time_and_equal_results(
    body: UOp, device: Device, processes: ProcessCompilers, kind: str
) -> None:
    plain, good = compile_all(processes, body, device, "", UPCAST)
    assert isinstance(plain, bytes)
    assert isinstance(good, bytes)
    runner = make_runner(kind, device, body)
    seconds = runner.time("good", good, 3, FAR)
    assert isinstance(seconds, float)
    assert seconds > 0
    runner.drop(["good", "never seen"])
    assert runner.compare("good", good, plain, FAR) == ""
    runner.close()


@pytest.mark.parametrize(
    ("behaviour", "reason", "limit"),
    [
        ("run: crash", DropReason.CRASH, FAR),
        ("run: endless", DropReason.HANG, 0.1),
        ("run: raise", DropReason.RUN, FAR),
    ],
)
def test_a_candidate_that_crashes_its_process_does_not_affect_others(
    body: UOp,
    device: Device,
    processes: ProcessCompilers,
    odd_plan: dict[str, str],
    behaviour: str,
    reason: DropReason,
    limit: float,
) -> None:
    odd_plan["UNROLL"] = behaviour
    good, bad = compile_all(processes, body, device, UPCAST, UNROLL)
    assert isinstance(good, bytes)
    assert isinstance(bad, bytes)
    runner = make_runner("process", device, body)
    assert isinstance(runner.time("good", good, 1, FAR), float)
    dropped = runner.time("bad", bad, 1, limit)
    assert isinstance(dropped, Dropped)
    assert dropped.reason is reason
    assert isinstance(runner.time("good", good, 1, FAR), float)
    runner.close()


@pytest.mark.parametrize("kind", ["process", "local"])
def test_a_kernel_stays_loaded_until_its_key_is_removed(
    body: UOp, device: Device, processes: ProcessCompilers, odd_plan: dict[str, str], kind: str
) -> None:
    odd_plan["UNROLL"] = "run: raise"
    good, bad = compile_all(processes, body, device, UPCAST, UNROLL)
    assert isinstance(good, bytes)
    assert isinstance(bad, bytes)
    runner = make_runner(kind, device, body)
    assert isinstance(runner.time("key", good, 1, FAR), float)
    assert isinstance(runner.time("key", bad, 1, FAR), float)
    runner.drop(["key"])
    assert isinstance(runner.time("key", bad, 1, FAR), Dropped)
    runner.close()


@pytest.mark.parametrize("kind", ["process", "local"])
def test_wrong_results_are_detected_and_reported(
    body: UOp, device: Device, processes: ProcessCompilers, odd_plan: dict[str, str], kind: str
) -> None:
    odd_plan["UNROLL"] = "run: wrong"
    plain, bad = compile_all(processes, body, device, "", UNROLL)
    assert isinstance(plain, bytes)
    assert isinstance(bad, bytes)
    runner = make_runner(kind, device, body)
    difference = runner.compare("bad", bad, plain, FAR)
    runner.close()
    assert isinstance(difference, str)
    assert difference.startswith(
        "buffer 0: 1 of 128 elements differ, the first at 0: 0.0 instead of "
    )


def test_a_candidate_without_stores_does_not_pass_with_old_results(
    body: UOp, device: Device, odd_plan: dict[str, str]
) -> None:
    odd_plan["UNROLL"] = "run: nothing"
    plain, bad = compile_all(LocalCompilers(device, 3000), body, device, "", UNROLL)
    assert isinstance(plain, bytes)
    assert isinstance(bad, bytes)
    difference = make_runner("local", device, body).compare("bad", bad, plain, FAR)
    assert isinstance(difference, str)
    assert difference.startswith("buffer 0: 128 of 128 elements differ")


def test_errors_in_this_process_drop_the_candidate_too(
    body: UOp, device: Device, odd_plan: dict[str, str], processes: ProcessCompilers
) -> None:
    odd_plan |= {"UNROLL": "compile: raise", "UPCAST": "run: raise"}
    local = LocalCompilers(device, 3000)
    (failed,) = compile_all(local, body, device, UNROLL)
    assert failed == Dropped(DropReason.COMPILE, "ValueError: no such instruction")
    (bad,) = compile_all(local, body, device, UPCAST)
    assert isinstance(bad, bytes)
    runner = make_runner("local", device, body)
    assert runner.time("bad", bad, 1, FAR) == Dropped(DropReason.RUN, "OSError: the device is gone")
