"""Derivatives of random programs with loops agree with JAX, if installed (`tox run -e
derivatives-jax`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from svod_dtype import SvodError
from svod_ir import Op, UOp, loops as ir_loops
from svod_ir.evaluate import evaluate
from svod_ir.loops import COUNTER_PREFIX
from svod_ir.testing import count_examples
from svod_tensor import Tensor, grad, jit, jvp
from svod_tensor.loops import repeat
from svod_testing.derivatives.loop_libraries import JaxLoops, SvodLoops, run_loop_derivative_program
from svod_testing.derivatives.loop_programs import (
    ORDERS,
    LoopDerivativeProgram,
    draw_loop_derivative_program,
)
from svod_testing.derivatives.loop_shrinking import shrink_loop_derivative_program

# JAX compiles each program for one call.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)
jax = pytest.importorskip("jax", reason="jax is not installed", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

GROUP = 10
PROGRAMS, COMPILED = count_examples(1000), count_examples(100)
"""Number of random programs, and number of compiled programs."""

TWICE = count_examples(60)
"""Number of programs that are differentiated twice, in each order of the modes; a few of them three
times.
"""

FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
"""Seed of the programs."""

MAX_COLUMNS = 8
"""Maximum size of the input for second derivatives; if all inputs are larger, the smallest is used.
"""


@pytest.fixture(autouse=True)
def _in_float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def evaluate_all(tensors: Sequence[Tensor]) -> Sequence[np.ndarray]:
    """Evaluate tensors with the reference evaluator; a separate function sorts long rows."""
    sink = UOp.sink(*(t.uop for t in tensors))
    if any(True for _ in sink.iter_ops(Op.CUSTOM_FUNCTION)):
        return compile_all(tensors)
    content = {
        node: Tensor.from_uop(node).numpy().reshape(-1).copy() for node in sink.iter_ops(Op.BUFFER)
    }
    return [
        np.reshape(values, t.shape)
        for values, t in zip(evaluate(sink, content), tensors, strict=True)
    ]


def compile_all(tensors: Sequence[Tensor]) -> Sequence[np.ndarray]:
    return [t.numpy() for t in tensors]


def draw_direction(program: LoopDerivativeProgram) -> list[np.ndarray]:
    rng = np.random.default_rng(len(program.inputs))
    return [rng.normal(size=x.shape) for x in program.inputs]


def differentiate(program: LoopDerivativeProgram) -> list[Tensor]:
    """Value, its directional derivative, and the gradients if reverse mode applies."""

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
        return [
            value,
            sum((g * v).sum() for g, v in zip(gradients, along, strict=True)),
            *gradients,
        ]

    return run


def agrees(
    program: LoopDerivativeProgram, compute: Callable[[Sequence[Tensor]], Sequence[np.ndarray]]
) -> bool:
    """True if all values agree with compiled JAX or, if that rounds inconsistently, with JAX step
    by step.
    """
    found, inputs = compute(differentiate(program)), [jax.numpy.asarray(x) for x in program.inputs]
    run = differentiate_with_jax(program)
    if _is_close(found, jax.jit(run)(*inputs)):
        return True
    with jax.disable_jit():
        return _is_close(found, run(*inputs))


def _is_close(found: Sequence[np.ndarray], expected: Sequence[Any]) -> bool:
    size = max(1.0, *(float(np.max(np.abs(e))) for e in expected))
    return all(
        (np.shape(ours), ours.dtype) == (np.shape(theirs), theirs.dtype)
        and np.allclose(ours, theirs, rtol=1e-6, atol=1e-8 * size, equal_nan=True)
        for ours, theirs in zip(found, expected, strict=True)
    )


def check(seed: int, compute: Callable[[Sequence[Tensor]], Sequence[np.ndarray]]) -> None:
    program = draw_loop_derivative_program(seed)
    if not agrees(program, compute):
        shrunk = shrink_loop_derivative_program(program, lambda p: not agrees(p, compute))
        pytest.fail(f"seed {seed}:\n{shrunk}\n{shrunk.inputs}")


@pytest.mark.parametrize("first", range(0, PROGRAMS, GROUP))
def test_derivatives_of_random_programs_with_loops(first: int) -> None:
    for seed in range(FIRST_SEED + first, FIRST_SEED + first + GROUP):
        check(seed, evaluate_all)


@pytest.mark.parametrize("seed", range(COMPILED))
def test_derivatives_of_compiled_programs_with_loops(seed: int) -> None:
    check(FIRST_SEED + seed, compile_all)


def choose_input(program: LoopDerivativeProgram) -> int:
    sizes = [x.size for x in program.inputs]
    small = [n for n, size in enumerate(sizes) if size <= MAX_COLUMNS]
    return small[-1] if small else sizes.index(min(sizes))


def run_by_input(
    program: LoopDerivativeProgram, library: Any, to_array: Callable[[np.ndarray], Any]
) -> Callable[[Any], Any]:
    """Program as a function of one of its inputs."""
    number, inputs = choose_input(program), [*map(to_array, program.inputs)]

    def f(x: Any) -> Any:
        return run_loop_derivative_program(
            program, library, *inputs[:number], x, *inputs[number + 1 :]
        )

    return f


def differentiate_twice(
    program: LoopDerivativeProgram, order: tuple[str, str], *, is_captured: bool, is_third: bool
) -> list[Tensor]:
    """Matrix of second derivatives; with `is_third` also its derivative along a direction."""
    f = SvodLoops().hessian(run_by_input(program, SvodLoops(), Tensor), order)
    x = program.inputs[choose_input(program)]
    if is_third:
        return [*jvp(f, (Tensor(x),), (Tensor(np.cos(x)),))]
    return [(jit(f) if is_captured else f)(Tensor(x))]


def differentiate_twice_with_jax(
    program: LoopDerivativeProgram, *, is_third: bool
) -> Callable[[Any], list[Any]]:
    f = run_by_input(program, JaxLoops(jax), jax.numpy.asarray)
    matrix = jax.jacfwd(jax.jacfwd(f)) if program.is_forward_only else jax.hessian(f)
    along = np.cos(program.inputs[choose_input(program)])
    return lambda x: [*jax.jvp(matrix, (x,), (along,))] if is_third else [matrix(x)]


def find_differing_order(program: LoopDerivativeProgram, seed: int) -> tuple[str, str] | None:
    """Return the first order of the modes whose second derivatives differ from JAX."""
    is_third, x = seed % 5 == 0, jax.numpy.asarray(program.inputs[choose_input(program)])
    compute = evaluate_all if seed % 2 else compile_all
    run = differentiate_twice_with_jax(program, is_third=is_third)
    expected = jax.jit(run)(x)
    for order in (("forward", "forward"),) if program.is_forward_only else ORDERS:
        found = compute(
            differentiate_twice(program, order, is_captured=seed % 4 == 2, is_third=is_third)
        )
        if not _is_close(found, expected):
            with jax.disable_jit():
                if not _is_close(found, run(x)):
                    return order
    return None


def draw_small_program(seed: int) -> LoopDerivativeProgram:
    return draw_loop_derivative_program(seed, 2, max_depth=2, max_inner_steps=2)


@pytest.mark.parametrize("number", range(TWICE))
def test_second_derivatives_of_random_programs_with_loops(number: int) -> None:
    seed = FIRST_SEED + number
    program = draw_small_program(seed)
    order = find_differing_order(program, seed)
    if order is not None:
        shrunk = shrink_loop_derivative_program(
            program, lambda p: find_differing_order(p, seed) is not None
        )
        pytest.fail(
            f"seed {seed}, {' of '.join(order)}, by input"
            f" {choose_input(program)}:\n{shrunk}\n{shrunk.inputs}"
        )


def test_a_counter_that_two_loops_share_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counters are named by tracing depth, and enclosing loops do not rename them."""
    monkeypatch.setattr(
        repeat, "choose_counter", lambda body, first=0, scope=(): f"{COUNTER_PREFIX}{first}"
    )
    monkeypatch.setattr(ir_loops, "rename_inner_counters", lambda body, counter: body)
    monkeypatch.setattr(ir_loops, "list_bound_names", lambda graph: set())

    def fails(seed: int) -> bool:
        program = draw_small_program(seed)
        if program.is_forward_only:
            return False
        try:
            return find_differing_order(program, seed) is not None
        except (SvodError, KeyError):
            return True

    assert any(map(fails, range(40)))
