"""Derivatives of random programs with loops are those of JAX, where it is installed (`tox run -e derivatives-jax`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from svod_ir import Op, UOp
from svod_ir.evaluate import evaluate
from svod_ir.testing import count_examples
from svod_tensor import Tensor, grad, jvp
from svod_tensor.testing.derivative_loop_libraries import JaxLoops, SvodLoops, run_loop_derivative_program
from svod_tensor.testing.derivative_loop_programs import LoopDerivativeProgram, draw_loop_derivative_program
from svod_tensor.testing.derivative_loop_shrinking import shrink_loop_derivative_program

# JAX compiles each program for one call.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
jax = pytest.importorskip("jax", reason="jax is not installed", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

GROUP = 10
PROGRAMS, COMPILED = count_examples(1000), count_examples(100)
"""How many programs are drawn, and how many are also compiled."""


@pytest.fixture(autouse=True)
def _in_float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def evaluate_all(tensors: Sequence[Tensor]) -> Sequence[np.ndarray]:
    """The values by the reference meaning of graphs, which compiles nothing; long rows are sorted by a function without one."""
    sink = UOp.sink(*(t.uop for t in tensors))
    if any(True for _ in sink.iter_ops(Op.CUSTOM_FUNCTION)):
        return compile_all(tensors)
    content = {node: Tensor.from_uop(node).numpy().reshape(-1).copy() for node in sink.iter_ops(Op.BUFFER)}
    return evaluate(sink, content)


def compile_all(tensors: Sequence[Tensor]) -> Sequence[np.ndarray]:
    return [t.numpy() for t in tensors]


def draw_direction(program: LoopDerivativeProgram) -> list[np.ndarray]:
    rng = np.random.default_rng(len(program.inputs))
    return [rng.normal(size=x.shape) for x in program.inputs]


def differentiate(program: LoopDerivativeProgram) -> list[Tensor]:
    """The value, its derivative along a direction, and the gradients where there is a reverse mode."""

    def f(*inputs: Tensor) -> Tensor:
        return run_loop_derivative_program(program, SvodLoops(), *inputs)

    args = tuple(map(Tensor, program.inputs))
    both = [*jvp(f, args, tuple(map(Tensor, draw_direction(program))))]
    return both if program.is_forward_only else [*both, *grad(f, tuple(range(len(args))))(*args)]


def differentiate_with_jax(program: LoopDerivativeProgram) -> Callable[..., list[Any]]:
    along, numbers = draw_direction(program), tuple(range(len(program.inputs)))

    def f(*inputs: Any) -> Any:
        return run_loop_derivative_program(program, JaxLoops(jax), *inputs)

    def run(*inputs: Any) -> list[Any]:
        if program.is_forward_only:
            return [*jax.jvp(f, inputs, tuple(map(jax.numpy.asarray, along)))]
        value, gradients = jax.value_and_grad(f, numbers)(*inputs)
        return [value, sum((g * v).sum() for g, v in zip(gradients, along, strict=True)), *gradients]

    return run


def agrees(program: LoopDerivativeProgram, compute: Callable[[Sequence[Tensor]], Sequence[np.ndarray]]) -> bool:
    """Whether all is what JAX compiles, or where that rounds a value in two ways what it takes step by step."""
    found, inputs = compute(differentiate(program)), [jax.numpy.asarray(x) for x in program.inputs]
    run = differentiate_with_jax(program)
    if _is_close(found, jax.jit(run)(*inputs)):
        return True
    with jax.disable_jit():
        return _is_close(found, run(*inputs))


def _is_close(found: Sequence[np.ndarray], expected: Sequence[Any]) -> bool:
    size = max(1.0, *(float(np.max(np.abs(e))) for e in expected))
    return all(
        np.allclose(np.reshape(ours, np.shape(theirs)), theirs, rtol=1e-6, atol=1e-8 * size, equal_nan=True)
        for ours, theirs in zip(found, expected, strict=True)
    )


def check(seed: int, compute: Callable[[Sequence[Tensor]], Sequence[np.ndarray]]) -> None:
    program = draw_loop_derivative_program(seed)
    if not agrees(program, compute):
        shrunk = shrink_loop_derivative_program(program, lambda p: not agrees(p, compute))
        pytest.fail(f"seed {seed}:\n{shrunk}\n{shrunk.inputs}")


@pytest.mark.parametrize("first", range(0, PROGRAMS, GROUP))
def test_derivatives_of_random_programs_with_loops(first: int) -> None:
    for seed in range(first, first + GROUP):
        check(seed, evaluate_all)


@pytest.mark.parametrize("seed", range(COMPILED))
def test_derivatives_of_compiled_programs_with_loops(seed: int) -> None:
    check(seed, compile_all)
