"""Derivatives of every operation of `Tensor` agree with finite differences, or have a stated
reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from svod_ir import Op, UOp
from svod_ir.evaluate import evaluate
from svod_tensor import Tensor, grad, jvp, vjp
from svod_tensor.ops.core.table import TABLE
from svod_testing.derivatives.cases import CASES, NO_DERIVATIVE, Case, draw
from svod_testing.derivatives.programs import draw_derivative_program

STEP = 1e-6


def test_every_operation_has_a_case_or_a_reason() -> None:
    tried, refused = (
        {case.operation for case in CASES},
        {n for names in NO_DERIVATIVE.values() for n in names},
    )
    assert not tried & refused
    operation_of = {name: row.name for row in TABLE for name in (row.name, *row.also)}
    assert {row.name for row in TABLE} == {operation_of[name] for name in tried | refused}


def _number_cases() -> Iterator[object]:
    for number, case in enumerate(CASES):
        yield pytest.param(number, case, id=f"{case}-{number}")


@pytest.mark.parametrize(("number", "case"), [*_number_cases()])
def test_derivatives_agree_with_differences_and_in_both_modes(number: int, case: Case) -> None:
    rng = np.random.default_rng(number)
    given = draw(rng, case)
    along = [rng.normal(size=x.shape) for x in given]
    args, tangents = tuple(map(Tensor, given)), tuple(map(Tensor, along))
    value, tangent = jvp(case.call, args, tangents)
    cotangent = Tensor(np.asarray(rng.normal(size=value.shape)))
    same, pull = vjp(case.call, *args)
    parts = pull(cotangent)
    ahead, behind = (
        case.call(*(Tensor(x + sign * STEP * v) for x, v in zip(given, along, strict=True)))
        for sign in (1, -1)
    )
    Tensor.realize_batch([value, same, tangent, cotangent, ahead, behind, *parts])
    np.testing.assert_array_equal(value.numpy(), same.numpy())
    back = sum((p.numpy() * v).sum() for p, v in zip(parts, along, strict=True))
    tolerance = 1e-6 if case.operation == "cast" else 1e-9
    assert back == pytest.approx(
        (tangent.numpy() * cotangent.numpy()).sum(), rel=tolerance, abs=tolerance
    )
    # A cast is a step function, and detached values are constants.
    if case.operation not in ("cast", "detach"):
        difference = (ahead.numpy() - behind.numpy()) / (2 * STEP)
        np.testing.assert_allclose(tangent.numpy(), difference, rtol=1e-5, atol=1e-5)


def evaluate_all(*tensors: Tensor) -> list[np.ndarray]:
    """Evaluate tensors with the reference evaluator, which compiles nothing."""
    sink = UOp.sink(*(t.uop for t in tensors))
    content = {
        node: Tensor.from_uop(node).numpy().reshape(-1).copy() for node in sink.iter_ops(Op.BUFFER)
    }
    return [
        np.reshape(found, t.shape)
        for found, t in zip(evaluate(sink, content), tensors, strict=True)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_derivatives_of_random_programs_agree_with_differences_and_in_both_modes(seed: int) -> None:
    program = draw_derivative_program(seed)
    rng = np.random.default_rng(seed)
    along = [rng.normal(size=x.shape) for x in program.inputs]
    args = tuple(map(Tensor, program.inputs))
    _, tangent = jvp(program.compute, args, tuple(map(Tensor, along)))
    parts = grad(program.compute, tuple(range(len(args))))(*args)
    ahead, behind = (
        program.compute(
            *(Tensor(x + sign * STEP * v) for x, v in zip(program.inputs, along, strict=True))
        )
        for sign in (1, -1)
    )
    forth, after, before, *back = evaluate_all(tangent, ahead, behind, *parts)
    assert sum((p * v).sum() for p, v in zip(back, along, strict=True)) == pytest.approx(
        forth, rel=1e-9, abs=1e-12
    )
    # Detached values are constants.
    if all(step.name != "detach" for step in program.steps):
        assert forth == pytest.approx((after - before) / (2 * STEP), rel=1e-6, abs=1e-7)
