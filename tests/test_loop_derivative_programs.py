"""Derivatives of random programs with loops and branches agree with finite differences, in both
modes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from svod_ir import Op, UOp
from svod_ir.derivatives import loops
from svod_ir.derivatives.rule import make_zeros
from svod_ir.evaluate import evaluate
from svod_tensor import Tensor, grad, jvp
from svod_testing.derivatives.loop_libraries import SvodLoops, run_loop_derivative_program
from svod_testing.derivatives.loop_programs import (
    LOOP_STEPS,
    LoopDerivativeProgram,
    draw_loop_derivative_program,
)
from svod_testing.derivatives.loop_shrinking import shrink_loop_derivative_program

STEP = 1e-6
SEEDS = (1, 4, 5, 7, 9, 11)


def compute(program: LoopDerivativeProgram, *inputs: Tensor) -> Tensor:
    return run_loop_derivative_program(program, SvodLoops(), *inputs)


def evaluate_all(*tensors: Tensor) -> list[np.ndarray]:
    """Evaluate tensors with the reference evaluator; a separate function sorts long rows."""
    sink = UOp.sink(*(t.uop for t in tensors))
    if any(True for _ in sink.iter_ops(Op.CUSTOM_FUNCTION)):
        return [t.numpy() for t in tensors]
    content = {
        node: Tensor.from_uop(node).numpy().reshape(-1).copy() for node in sink.iter_ops(Op.BUFFER)
    }
    return [
        np.reshape(found, t.shape)
        for found, t in zip(evaluate(sink, content), tensors, strict=True)
    ]


def take_both(program: LoopDerivativeProgram, along: Sequence[np.ndarray]) -> tuple[float, float]:
    """Directional derivative by forward mode and by the gradient."""
    args = tuple(map(Tensor, program.inputs))
    _, tangent = jvp(lambda *xs: compute(program, *xs), args, tuple(map(Tensor, along)))
    parts = grad(lambda *xs: compute(program, *xs), tuple(range(len(args))))(*args)
    forth, *back = evaluate_all(tangent, *parts)
    return float(forth), float(sum((p * v).sum() for p, v in zip(back, along, strict=True)))


def count_steps(program: LoopDerivativeProgram) -> int:
    return len([*program.iter_steps()])


def differ(program: LoopDerivativeProgram) -> bool:
    rng = np.random.default_rng(0)
    forth, back = take_both(program, [rng.normal(size=x.shape) for x in program.inputs])
    return back != pytest.approx(forth, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_modes_agree_with_differences(seed: int) -> None:
    program = draw_loop_derivative_program(seed, 3)
    rng = np.random.default_rng(seed)
    along = [rng.normal(size=x.shape) for x in program.inputs]
    ahead, behind = (
        compute(
            program,
            *(Tensor(x + sign * STEP * v) for x, v in zip(program.inputs, along, strict=True)),
        )
        for sign in (1, -1)
    )
    after, before = evaluate_all(ahead, behind)
    if program.is_forward_only:
        args = tuple(map(Tensor, program.inputs))
        tangent = jvp(lambda *xs: compute(program, *xs), args, tuple(map(Tensor, along)))[1]
        (forth,) = evaluate_all(tangent)
    else:
        forth, back = take_both(program, along)
        assert back == pytest.approx(forth, rel=1e-9, abs=1e-12), str(program)
    # Detached values are constants.
    if all(step.name != "detach" for step in program.iter_steps()):
        assert float(forth) == pytest.approx(
            float(after - before) / (2 * STEP), rel=1e-6, abs=1e-7
        ), str(program)


def test_every_step_is_sampled_and_loops_are_nested() -> None:
    programs = [draw_loop_derivative_program(seed) for seed in range(30)]
    assert {step.name for program in programs for step in program.iter_steps()} >= {*LOOP_STEPS}
    inner = {
        s.name for p in programs for step in p.iter_steps() for b in step.blocks for s in b.steps
    }
    assert {"scan", "fori", "cond", "switch", "checkpoint", "gradient"} <= inner
    assert str(programs[0]) == str(draw_loop_derivative_program(0))


def test_a_fault_in_a_loop_is_detected_and_its_program_is_shrunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Omit an iteration's contribution to the cotangent of values that all iterations read."""
    monkeypatch.setattr(
        loops._Reverse,
        "_accumulate",
        lambda self, number, value: self.new.carry(make_zeros(self.operands[number])),
    )
    monkeypatch.setattr(loops.StackedSums, "take", lambda self, value: None)
    programs = sorted(
        (draw_loop_derivative_program(seed, 3) for seed in range(40)), key=count_steps
    )
    failing = next(
        program for program in programs if not program.is_forward_only and differ(program)
    )
    shrunk = shrink_loop_derivative_program(failing, differ)
    assert differ(shrunk)
    assert count_steps(shrunk) <= 5, str(shrunk)
