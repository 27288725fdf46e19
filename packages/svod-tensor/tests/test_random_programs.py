"""The generator of random programs: what it draws means something, and what is wrong is found and shrunk."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from svod_tensor import Tensor
from svod_tensor.testing.programs import (
    MODES,
    PREAMBLE,
    Program,
    Step,
    check_program,
    evaluate_program,
    generate,
    shrink,
    write_program,
)
from svod_tensor.testing.programs.operations import OPERATIONS


def make(*steps: tuple[str, tuple[int, ...], dict[str, Any]], roots: tuple[int, ...] = ()) -> Program:
    made = tuple(Step(name, operands, (n,), tuple(args.items())) for n, (name, operands, args) in enumerate(steps))
    return Program(made, roots or (len(steps) - 1,))


ROWS = {"shape": (3, 4), "dtype": "float32", "low": 0, "high": 5, "seed": 1}


def test_a_seed_always_gives_the_same_program() -> None:
    assert [generate(seed) for seed in range(20)] == [generate(seed) for seed in range(20)]


def test_every_operation_is_drawn() -> None:
    drawn = Counter(step.operation for seed in range(1500) for step in generate(seed).steps)
    assert set(OPERATIONS) - set(drawn) == set()


def test_a_printed_program_runs_and_gives_what_it_means() -> None:
    for seed in range(10):
        program = generate(seed)
        names: dict[str, Any] = {}
        exec(PREAMBLE + write_program(program), names)
        values = evaluate_program(program)
        shapes = [(tuple(x.shape), x.dtype.name) for x in names["results"]]
        assert shapes == [(values[v].shape, values[v].dtype) for v in program.roots], write_program(program)


@pytest.mark.parametrize("mode", [m for m in MODES if m != "c"])
def test_a_right_program_has_no_failure_in_any_mode(mode: str) -> None:
    program = make(
        ("input", (), ROWS), ("exp", (0,), {}), ("sum", (1,), {"axis": 1, "keepdims": True}), ("div", (1, 2), {}),
        roots=(3, 1),
    )  # fmt: skip
    assert check_program(program, mode) is None


def test_a_wrong_operation_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "flip", lambda self, axis: self)
    program = make(
        ("input", (), ROWS), ("exp", (0,), {}), ("flip", (1,), {"axis": 1}), ("neg", (2,), {}), ("sin", (1,), {}),
        roots=(3, 4, 1),
    )  # fmt: skip
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
