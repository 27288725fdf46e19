"""Second derivatives of random programs whose loops carry any shape and dtype are the same in every
order of forward and reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from svod_ir.derivatives import loops
from svod_ir.derivatives.new_loop import number_back
from svod_tensor import Tensor, grad, jacobian
from svod_testing.derivatives.carry_libraries import SvodCarries, run_carry_program
from svod_testing.derivatives.carry_programs import BODIES, CarryProgram, draw_carry_program
from svod_testing.derivatives.carry_shrinking import shrink_carry_program
from svod_testing.derivatives.loop_programs import DerivativeBlock

SEEDS = (0, 3, 5, 8)


def make_function(program: CarryProgram) -> Callable[[Tensor], Tensor]:
    return lambda x: run_carry_program(program, SvodCarries(), x)


def compute_forward(program: CarryProgram) -> np.ndarray:
    first = jacobian(make_function(program), mode="forward")
    return np.asarray(jacobian(first, mode="forward")(Tensor(program.input)).numpy())


def compute_reverse(program: CarryProgram) -> np.ndarray:
    first = grad(make_function(program))
    return np.asarray(jacobian(first, mode="reverse")(Tensor(program.input)).numpy())


def differ(program: CarryProgram) -> bool:
    """True if the second derivatives of both modes differ."""
    return not program.is_forward_only and are_different(
        program, compute_forward(program), compute_reverse(program)
    )


def differ_once(program: CarryProgram) -> bool:
    """True if the first derivatives of both modes differ."""
    f, x = make_function(program), Tensor(program.input)
    return not program.is_forward_only and are_different(
        program,
        np.asarray(jacobian(f, mode="forward")(x).numpy()),
        np.asarray(grad(f)(x).numpy()),
    )


def are_different(program: CarryProgram, forward: np.ndarray, reverse: np.ndarray) -> bool:
    dtypes = {kind.dtype for kind in program.kinds.values()}
    tolerance = 2e-3 if "float32" in dtypes else 1e-9
    return (forward.shape, forward.dtype) != (reverse.shape, reverse.dtype) or not np.allclose(
        forward, reverse, tolerance, tolerance * float(np.max(np.abs(forward), initial=1.0))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_both_modes_give_the_same_second_derivatives(seed: int) -> None:
    assert not differ(draw_carry_program(seed)), str(draw_carry_program(seed))


def count_steps(program: CarryProgram) -> int:
    """Number of steps that compute more than a constant or a conversion."""
    return sum(step.name not in ("const", "fit") for step in program.iter_steps())


def iter_nested(block: DerivativeBlock, depth: int = 0) -> Iterator[tuple[int, str]]:
    for step in block.steps:
        yield depth, step.name
        for inner in step.blocks:
            yield from iter_nested(inner, depth + (step.name in ("fori", "scan", "while")))


def test_every_step_is_sampled_with_every_kind_of_carry() -> None:
    programs = [draw_carry_program(seed) for seed in range(150)]
    nested = {item for program in programs for item in iter_nested(program.block)}
    assert {(1, name) for name in (*BODIES, "row", "put", "modulate", "where")} <= nested
    assert {(2, "row"), (2, "put")} <= nested
    looped = [s for p in programs for s in p.iter_steps() if s.name in ("fori", "scan", "while")]
    assert {(s.name, s.arguments["count"]) for s in looped} >= {
        (name, count) for name in ("fori", "scan") for count in range(4)
    }
    carried = {
        p.kinds[n] for p in programs for s in p.iter_steps() if s in looped for n in s.results
    }
    assert {kind.dtype for kind in carried} >= {
        "float32", "float64", "complex128", "int32", "int64", "bool",
    }  # fmt: skip
    assert {kind.dtype for kind in carried if kind.shape == ()} >= {"float64", "complex128"}
    assert any(0 in kind.shape for kind in carried)
    assert str(programs[0]) == str(draw_carry_program(0))


list_carried = loops._Reverse._list_carried

FAULTS: Mapping[str, tuple[Any, str, Any]] = {
    "the cotangents of later carries are dropped": (
        loops._Reverse,
        "_list_carried",
        lambda self: list_carried(self)[:1],
    ),
    "the reversed loop counts from one too high": (
        loops,
        "number_back",
        lambda sink, counter, last: number_back(sink, counter, last + 1),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_detected_and_its_program_is_shrunk(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    programs = sorted(map(draw_carry_program, range(60)), key=count_steps)
    shrunk = shrink_carry_program(next(filter(differ_once, programs)), differ_once)
    assert differ_once(shrunk)
    assert count_steps(shrunk) <= 6, str(shrunk)
