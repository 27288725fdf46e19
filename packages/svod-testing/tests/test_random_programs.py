"""Generator of random programs: programs are valid, and wrong results are found and
shrunk.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from svod_dtype import DType
from svod_ir import Op, UOp
from svod_runtime.memory import live_ranges, planner
from svod_tensor import Tensor, clear_caches
from svod_testing.programs import (
    MODES,
    PREAMBLE,
    Program,
    Step,
    check_program,
    evaluate_program,
    generate,
    run_programs,
    shrink,
    write_program,
)
from svod_testing.programs.operations import OPERATIONS
from svod_testing.programs.runner import check_in_fork


def make(
    *steps: tuple[str, tuple[int, ...], dict[str, Any]], roots: tuple[int, ...] = ()
) -> Program:
    made = tuple(
        Step(name, operands, (n,), tuple(args.items()))
        for n, (name, operands, args) in enumerate(steps)
    )
    return Program(made, roots or (len(steps) - 1,))


ROWS = {"shape": (3, 4), "dtype": "float32", "low": 0, "high": 5, "seed": 1}


def test_a_seed_always_gives_the_same_program() -> None:
    assert [generate(seed) for seed in range(20)] == [generate(seed) for seed in range(20)]


def test_every_operation_is_drawn() -> None:
    drawn = Counter(step.operation for seed in range(2500) for step in generate(seed).steps)
    assert set(OPERATIONS) - set(drawn) == set()


def test_a_printed_program_runs_and_gives_its_reference_values() -> None:
    for seed in range(10):
        program = generate(seed)
        names: dict[str, Any] = {}
        exec(PREAMBLE + write_program(program), names)
        values = evaluate_program(program)
        shapes = [(tuple(x.shape), x.dtype.name) for x in names["results"]]
        assert shapes == [(values[v].shape, values[v].dtype) for v in program.roots], write_program(
            program
        )


@pytest.mark.parametrize("mode", [m for m in MODES if m != "c"])
def test_a_right_program_has_no_failure_in_any_mode(mode: str) -> None:
    program = make(
        ("input", (), ROWS),
        ("exp", (0,), {}),
        ("sum", (1,), {"axis": 1, "keepdims": True}),
        ("div", (1, 2), {}),
        roots=(3, 1),
    )
    assert check_program(program, mode) is None


def test_a_wrong_operation_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "flip", lambda self, axis: self)
    program = make(
        ("input", (), ROWS),
        ("exp", (0,), {}),
        ("flip", (1,), {"axis": 1}),
        ("neg", (2,), {}),
        ("sin", (1,), {}),
        roots=(3, 4, 1),
    )
    failure = check_program(program, "batch")
    assert failure is not None
    assert failure.kind == "wrong"
    shrunk = shrink(program, lambda p: check_program(p, "batch") is not None)
    assert [step.operation for step in shrunk.steps] == ["input", "flip"]
    assert np.prod(shrunk.steps[0].named["shape"]) == 2


def test_an_exception_is_a_failure_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Tensor) -> Tensor:
        raise RuntimeError(f"no sine of {self.shape}")

    monkeypatch.setattr(Tensor, "sin", fail)
    failure = check_program(make(("input", (), ROWS), ("sin", (0,), {})), "batch")
    assert failure is not None
    assert failure.kind.startswith("RuntimeError: no sine of (#, #)")


def start_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """A maximum begins at 0, which is wrong for negative numbers."""
    module = import_module("svod_schedule.lower.accumulate")
    right: Callable[[Op, DType], UOp] = module.identity_of
    monkeypatch.setattr(
        module,
        "identity_of",
        lambda op, dtype: UOp.const(dtype, 0) if op is Op.MAX else right(op, dtype),
    )


def merge_whatever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops are merged although their numbers are compared."""
    monkeypatch.setattr(
        import_module("svod_schedule.optimize.merge_loops"),
        "_used_outside_addresses",
        lambda _: (set(), {}),
    )


def reverse_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last axis of what is reshaped runs backwards."""
    module = import_module("svod_schedule.rangeify.analysis.coordinates")
    right: Callable[[Sequence[UOp], Sequence[Any]], UOp] = module.flatten_index

    def flatten(indices: Sequence[UOp], sizes: Sequence[Any]) -> UOp:
        return right(
            [*indices[:-1], UOp.const(indices[-1].dtype, sizes[-1] - 1) - indices[-1]], sizes
        )

    monkeypatch.setattr(module, "flatten_index", flatten)


def end_live_ranges_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is used again as soon as it is written."""

    def list_live_ranges(*arguments: Any) -> list[live_ranges.LiveRange]:
        found = live_ranges.list_live_ranges(*arguments)
        for life in found:
            del life.users[1:]
        return found

    monkeypatch.setattr(planner, "list_live_ranges", list_live_ranges)


@pytest.fixture
def cold_caches() -> Iterator[None]:
    clear_caches()
    yield
    clear_caches()


@pytest.mark.usefixtures("cold_caches")
@pytest.mark.parametrize(
    ("plant", "n_programs", "n_steps"),
    [
        (start_from_zero, 150, 4),
        (merge_whatever, 60, 4),
        (reverse_rows, 60, 4),
        (end_live_ranges_early, 30, 10),
    ],
)
def test_a_fault_of_the_compiler_is_found_and_shrunk(
    plant: Callable[[pytest.MonkeyPatch], None],
    n_programs: int,
    n_steps: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find(program: Program) -> str | None:
        clear_caches()
        failure = check_program(program, "batch")
        return None if failure is None else failure.kind

    plant(monkeypatch)
    programs = (generate(seed) for seed in range(n_programs))
    failing = next((p for p in programs if find(p) == "wrong"), None)
    assert failing is not None, "no program failed"
    shrunk = shrink(failing, lambda p: find(p) == "wrong", max_tries=150)
    assert find(shrunk) == "wrong"
    assert len(shrunk.steps) <= n_steps, write_program(shrunk)


def end_process(self: Tensor) -> Tensor:
    os.abort()


# Since Python 3.12 a fork beside threads warns.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_crash_is_a_failure_with_its_program_and_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "sin", end_process)
    failures = check_in_fork(make(("input", (), ROWS), ("sin", (0,), {})), ["batch", "each"], None)
    assert [(mode, kind) for mode, kind, _ in failures] == [("batch", "crash: exit code -6")]


def test_a_run_counts_its_programs_and_keeps_their_failures() -> None:
    report = run_programs(range(2), modes=["batch"], limit_seconds=1e-9, shrinks=False)
    assert report.n_programs == 2
    assert [(found.kind, found.seeds) for found in report.found.values()] == [("hang", [0, 1])]


def test_a_run_without_failures_has_no_findings() -> None:
    report = run_programs(range(4), modes=["prepare"])
    assert (report.n_programs, report.found) == (4, {})
