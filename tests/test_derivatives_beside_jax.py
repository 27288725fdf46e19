"""Derivatives of random programs agree with JAX, if installed (`tox run -e derivatives-jax`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from svod_ir import Op, UOp
from svod_ir.evaluate import evaluate
from svod_tensor import Tensor, grad
from svod_testing.derivatives.programs import FUNCTIONS, DerivativeProgram, draw_derivative_program

# JAX compiles each program for one call.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)
jax = pytest.importorskip("jax", reason="jax is not installed", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

PROGRAMS, GROUP, COMPILED = 2000, 20, 40
"""Number of random programs, number per test, and number of compiled programs."""


@pytest.fixture(autouse=True)
def _in_float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def differentiate(program: DerivativeProgram) -> list[Tensor]:
    return list(
        grad(program.compute, tuple(range(len(program.inputs))))(*map(Tensor, program.inputs))
    )


def check(program: DerivativeProgram, found: Sequence[np.ndarray]) -> None:
    """Compare gradients with compiled JAX, and where they differ, with JAX step by step.

    Compiled JAX may compute a value twice with different rounding, and so select a different
    element as the largest.
    """
    gradient = jax.grad(
        lambda *xs: program.compute_with_jax(jax, *xs), tuple(range(len(program.inputs)))
    )
    inputs = [jax.numpy.asarray(x) for x in program.inputs]
    shaped = [np.reshape(ours, x.shape) for ours, x in zip(found, inputs, strict=True)]
    compiled = jax.jit(gradient)(*inputs)
    if all(
        np.allclose(ours, theirs, rtol=1e-6, atol=1e-8)
        for ours, theirs in zip(shaped, compiled, strict=True)
    ):
        return
    for ours, theirs in zip(shaped, gradient(*inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def evaluate_all(tensors: Sequence[Tensor]) -> Sequence[np.ndarray]:
    """Evaluate tensors with the reference evaluator; a separate function sorts long rows."""
    sink = UOp.sink(*(t.uop for t in tensors))
    if any(True for _ in sink.iter_ops(Op.CUSTOM_FUNCTION)):
        return [t.numpy() for t in tensors]
    content = {
        node: Tensor.from_uop(node).numpy().reshape(-1).copy() for node in sink.iter_ops(Op.BUFFER)
    }
    return evaluate(sink, content)


@pytest.mark.parametrize("first", range(0, PROGRAMS, GROUP))
def test_derivatives_of_random_programs(first: int) -> None:
    for seed in range(first, first + GROUP):
        program = draw_derivative_program(seed)
        check(program, evaluate_all(differentiate(program)))


@pytest.mark.parametrize("seed", range(COMPILED))
def test_derivatives_of_compiled_programs(seed: int) -> None:
    program = draw_derivative_program(seed)
    check(program, [part.numpy() for part in differentiate(program)])


def test_every_function_is_sampled() -> None:
    drawn = {step.name for seed in range(400) for step in draw_derivative_program(seed).steps}
    assert drawn == set(FUNCTIONS)
