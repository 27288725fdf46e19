"""How times are taken, on a machine that exists in the test alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

from svod_device import Buffer, LaunchDims, ProgramSpec, Variable
from svod_dtype import DType, float16, float32, float64, int32
from svod_ir import Op, UOp
from svod_ir.testing.nodes import contiguous
from svod_ir.testing.programs import matmul, tensor
from svod_schedule import OptimizerConfig
from svod_schedule.optimize.candidates import Candidate, Dropped, DropReason, Outcome, Timed
from svod_schedule.pipeline import Context, run_pipeline
from svod_tensor import Tensor
from svod_tensor.engine.uncached import make_schedule
from svod_tensor.options import PrepareConfig
from svod_tensor.tuning.bench import describe_difference, fit_grid, middle_values
from svod_tensor.tuning.buffer_data import (
    BufferData,
    describe_buffers,
    estimate_tolerance,
    make_array,
)
from svod_tensor.tuning.measure import Measurer
from svod_tensor.tuning.time_box import TimeBox

CONFIG = OptimizerConfig(strategy="beam", n_runs=3)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Machine:
    """Compiles everything, and runs a kernel for as long as `seconds` says, times how slow the
    machine is just then.
    """

    def __init__(
        self,
        seconds: Mapping[str, float],
        clock: Clock,
        slowness: Callable[[float], float] = lambda _: 1.0,
    ) -> None:
        self.seconds, self.clock, self.slowness = seconds, clock, slowness
        self.runs: list[str] = []
        self.limits: list[float] = []
        self.forgotten: list[str] = []
        self.results: dict[str, str | Dropped] = {}
        self.compile_seconds = 0.0
        self.n_compiled = 0

    def compile(
        self, kernels: Sequence[UOp], seconds: float, box: TimeBox
    ) -> list[bytes | Dropped]:
        assert seconds == CONFIG.compile_seconds
        made: list[bytes | Dropped] = []
        for _ in kernels:
            made.append(Dropped(DropReason.STOPPED) if box.is_over() else b"code")
            self.n_compiled += 1
            self.clock.now += self.compile_seconds
        return made

    def time(self, key: str, kernel: bytes, n_launches: int, limit_s: float) -> float | Dropped:
        assert kernel == b"code"
        self.runs.append(key)
        self.limits.append(limit_s)
        taken = self.seconds[key] * self.slowness(self.clock.now)
        self.clock.now += taken * n_launches
        return (
            taken
            if taken * n_launches < limit_s
            else Dropped(DropReason.HANG, f"no end after {limit_s:.3g} s")
        )

    def compare(self, key: str, kernel: bytes, reference: bytes, limit_s: float) -> str | Dropped:
        return self.results.get(key, "")

    def drop(self, keys: Sequence[str]) -> None:
        self.forgotten += keys

    def close(self) -> None:
        pass


def candidates(*names: str) -> list[Candidate]:
    return [Candidate((), UOp.sink(), name) for name in names]


def measurer(machine: Machine, seconds: float = 1e6) -> Measurer:
    return Measurer(machine, machine, CONFIG, TimeBox(seconds, machine.clock))


def seconds_of(outcomes: Sequence[Outcome]) -> list[float]:
    assert all(isinstance(o, Timed) for o in outcomes)
    return [o.seconds for o in outcomes if isinstance(o, Timed)]


def test_a_budget_of_time_expires() -> None:
    clock = Clock()
    clock.now = 10.0
    box = TimeBox(5.0, clock)
    found = []
    for clock.now in (10.0, 12.0, 15.0, 16.0):
        found.append((box.elapsed(), box.remaining(), box.is_over()))
    assert found == [(0.0, 5.0, False), (2.0, 3.0, False), (5.0, 0.0, True), (6.0, 0.0, True)]


def test_candidates_of_a_batch_run_in_turn() -> None:
    machine = Machine({"a": 1.0, "b": 2.0}, Clock())
    assert seconds_of(measurer(machine)(candidates("a", "b"), None)) == [1.0, 2.0]
    assert machine.runs == ["a", "b"] * 4  # the first run of each warms up


def test_the_minimum_time_is_used() -> None:
    times = iter([3.0, 2.0, 1.25, 1.5])
    machine = Machine({"a": 1.0}, Clock(), slowness=lambda _: next(times))
    assert seconds_of(measurer(machine)(candidates("a"), None)) == [1.25]


def make_body(graph: UOp) -> UOp:
    kernels = run_pipeline(
        "kernelize", run_pipeline("rangeify", UOp.sink(graph), Context()), Context()
    )
    return next(iter(kernels.iter_ops(Op.CALL))).src[0]


def test_candidates_far_slower_than_the_best_are_abandoned_early() -> None:
    machine = Machine({"best": 1.0, "slow": 3.5, "hopeless": 15.0}, Clock())
    _, slow, hopeless = measurer(machine)(candidates("best", "slow", "hopeless"), 1.0)
    assert slow == Dropped(DropReason.SLOW, "3.5 times as slow")
    assert hopeless == Dropped(DropReason.SLOW, "15 times as slow at its first run")
    assert machine.runs.count("hopeless") == 1
    assert machine.runs.count("slow") == 3


def test_short_kernels_are_launched_repeatedly_for_the_clock_resolution() -> None:
    machine = Machine({"a": 2e-6}, Clock())
    measurer(machine)(candidates("a"), None)
    assert machine.clock.now == pytest.approx(2e-6 * (1 + 100 * 10))
    assert len(machine.runs) == 11


def test_the_time_limit_of_a_run_follows_the_best_time() -> None:
    machine = Machine({"best": 0.1, "endless": 1e9}, Clock())
    _, endless = measurer(machine)(candidates("best", "endless"), 0.1)
    assert endless == Dropped(DropReason.HANG, "no end after 2 s")


def test_the_first_candidate_leaves_time_for_the_others() -> None:
    machine = Machine({"endless": 1e9, "good": 1.0}, Clock())
    endless, good = measurer(machine, seconds=1e12)(candidates("endless", "good"), None)
    assert (endless, good) == (Dropped(DropReason.HANG, "no end after 60 s"), Timed(1.0))
    machine = Machine({"endless": 1e9}, Clock())
    assert measurer(machine, seconds=20.0)(candidates("endless"), None) == [
        Dropped(DropReason.HANG, "no end after 5 s")
    ]


def test_a_temporary_slowdown_of_the_machine_does_not_affect_the_choice() -> None:
    clock = Clock()
    machine = Machine({"a": 1.0, "b": 0.9}, clock, slowness=lambda now: 1.0 if now < 4.5 else 2.0)
    measure = measurer(machine)
    assert seconds_of(measure(candidates("a"), None)) == [1.0]
    clock.now = 5.0
    # b took 1.8 s, but the best took 2 s just then.
    assert seconds_of(measure(candidates("b"), 1.0)) == [pytest.approx(0.9)]


def test_only_the_best_candidate_of_a_batch_is_kept() -> None:
    machine = Machine({"a": 1.0, "b": 2.0, "c": 0.5, "d": 3.0}, Clock())
    measure = measurer(machine)
    measure(candidates("a", "b"), None)
    assert machine.forgotten == ["b"]
    measure(candidates("c", "d"), 1.0)
    assert machine.forgotten == ["b", "d"]


def test_interleaved_measurements_compare_true_times() -> None:
    clock = Clock()
    machine = Machine({"a": 1.0, "b": 1.2}, clock, slowness=lambda now: 1.0 if now < 100 else 2.0)
    measure = measurer(machine)
    measure(candidates("a", "b"), None)
    clock.now = 100.0
    assert seconds_of(measure(candidates("a", "b"), None)) == [2.0, 2.4]
    assert machine.n_compiled == 2


def test_measurement_stops_at_the_deadline() -> None:
    machine = Machine({"a": 1.0, "b": 1.0, "c": 1.0}, Clock())
    machine.compile_seconds = 2.0
    first, second, third = measurer(machine, 3.0)(candidates("a", "b", "c"), None)
    assert [first, second, third] == [Dropped(DropReason.STOPPED)] * 3
    assert machine.runs == []


def test_time_that_ends_during_a_batch_leaves_one_sample_of_each() -> None:
    machine = Machine({"a": 1.0, "b": 1.0}, Clock())
    assert seconds_of(measurer(machine, 2.5)(candidates("a", "b"), None)) == [1.0, 1.0]
    assert machine.runs == ["a", "b", "a", "b"]


def test_the_final_comparison_abandons_no_candidate_and_ignores_the_deadline() -> None:
    machine = Machine({"best": 1e-3, "slow": 1e-2}, Clock())
    assert seconds_of(measurer(machine, 0.0).compare(candidates("best", "slow"))) == [1e-3, 1e-2]
    assert machine.runs.count("slow") == 1 + CONFIG.n_runs * 3


def test_the_winner_is_compared_with_the_unoptimized_kernel() -> None:
    machine = Machine({}, Clock())
    machine.results = {"wrong": "buffer 0: 1 of 2", "crash": Dropped(DropReason.CRASH, "signal 11")}
    measure = measurer(machine, 0.0)  # also when the time of the search is spent
    good, wrong, crash, plain = candidates("good", "wrong", "crash", "plain")
    assert measure.verify(good, plain) is None
    assert measure.verify(wrong, plain) == Dropped(DropReason.WRONG, "buffer 0: 1 of 2")
    assert measure.verify(crash, plain) == Dropped(DropReason.CRASH, "signal 11")


def test_variables_are_measured_in_the_middle_of_their_bounds() -> None:
    variables = Variable("core_id", 0, 3), Variable("n", 1, 64), Variable("m", 3, 3)
    spec = ProgramSpec("k", "", "CPU", variables=variables, var_names=("n", "m"))
    assert middle_values(spec) == {"n": 32, "m": 3}


@pytest.mark.parametrize(
    ("grid", "fitted", "scale"),
    [
        ((65536, 1, 1), (65536, 1, 1), 1.0),
        ((65537, 1, 1), (32768, 1, 1), 65537 / 32768),
        ((1024, 1024, 3), (256, 128, 2), 1024 * 1024 * 3 / (256 * 128 * 2)),
    ],
)
def test_a_grid_is_halved_until_it_fits(
    grid: tuple[int, int, int], fitted: tuple[int, int, int], scale: float
) -> None:
    found, factor = fit_grid(LaunchDims(grid, (64, 1, 1)))
    assert found.global_size[0] * found.global_size[1] * found.global_size[2] <= 65536
    assert found.local_size == (64, 1, 1)
    assert factor == pytest.approx(
        np.prod(grid) / (found.global_size[0] * found.global_size[1] * found.global_size[2])
    )
    if grid[1] == 1:
        assert (found.global_size, factor) == (fitted, scale)
    # What has no workgroups runs whole.
    assert fit_grid(LaunchDims(grid, None)) == (LaunchDims(grid, None), 1.0)


def test_floats_may_differ_only_by_rounding() -> None:
    right = np.array([1.0, 100.0, np.nan, np.inf, -np.inf], np.float32)
    assert describe_difference(right, right + np.float32(1e-5), 1e-6) == ""
    assert "1 of 5 elements differ, the first at 1" in describe_difference(
        right, right * [1, 1.001, 1, 1, 1], 1e-6
    )
    for i, other in ((2, 0.0), (3, -np.inf), (3, 1e30), (4, np.nan), (0, np.nan)):
        wrong = right.copy()
        wrong[i] = other
        assert f"the first at {i}: " in describe_difference(right, wrong, 1e-6)


def test_integers_and_bools_must_be_equal() -> None:
    assert describe_difference(np.array([1, 2]), np.array([1, 2]), 0.5) == ""
    assert (
        describe_difference(np.array([1, 2]), np.array([1, 3]), 0.5)
        == "1 of 2 elements differ, the first at 1: 3 instead of 2"
    )
    assert describe_difference(np.array([True]), np.array([False]), 0.5).startswith("1 of 1")


def test_test_data_is_deterministic_and_has_no_zero_integers() -> None:
    for dtype in (float16, float32, float64, int32):
        content = BufferData(3, dtype.name, 1000)
        first, second = make_array(content), make_array(content)
        assert first.dtype == dtype.numpy
        assert (first == second).all()
        assert (first != 0).all()
    assert make_array(BufferData(0, "bool", 100)).dtype == bool
    assert len(make_array(BufferData(0, "float32", 0))) == 0


def test_the_tolerance_grows_with_the_root_of_the_number_of_terms() -> None:
    def tolerance_of(n: int, dtype: DType) -> float:
        return estimate_tolerance(
            make_body(matmul(tensor(1, 4, n, dtype=dtype), tensor(2, n, 4, dtype=dtype)))
        )

    assert tolerance_of(400, float32) / tolerance_of(100, float32) == pytest.approx(22 / 12)
    assert tolerance_of(100, int32) == 0
    assert 1e-2 < tolerance_of(4, float16) < 1e-1


def test_memory_with_data_is_copied() -> None:
    body = make_body(matmul(tensor(1, 8, 12), tensor(2, 12, 16)))
    buffer = Buffer.from_host(np.arange(96, dtype=np.float32).tobytes(), float32)
    contents = {c.slot: c for c in describe_buffers(body, {1: buffer})}
    assert (make_array(contents[1]) == np.arange(96)).all()
    assert contents[0].data is None
    assert contents[1].nbytes == 96 * 4


def test_indices_stay_within_bounds() -> None:
    table, rows = Tensor(np.ones((1000, 3), np.float32)), Tensor(np.array([5, 7, 900]))
    (item,) = make_schedule(UOp.sink(contiguous((table[rows] + 1).uop)), PrepareConfig()).items
    by_dtype = {c.dtype: c for c in describe_buffers(item.ast, {})}
    positions = make_array(by_dtype["int64"])
    assert by_dtype["int64"].n_values >= 512
    assert positions.min() >= 0
    assert positions.max() < 1000
