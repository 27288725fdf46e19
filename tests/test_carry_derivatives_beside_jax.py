"""Second derivatives of random programs whose loops carry any shape and dtype agree with JAX, if
installed (`tox run -e derivatives-jax`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from svod_ir import Op, UOp
from svod_ir.evaluate import evaluate
from svod_ir.testing import count_examples
from svod_tensor import Tensor, grad, jacobian, jit, jvp
from svod_testing.derivatives.carry_libraries import JaxCarries, SvodCarries, run_carry_program
from svod_testing.derivatives.carry_programs import CarryProgram, draw_carry_program
from svod_testing.derivatives.carry_shrinking import shrink_carry_program
from svod_testing.derivatives.loop_programs import ORDERS

# JAX compiles each program for one call.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)
jax = pytest.importorskip("jax", reason="jax is not installed", exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

GROUP = 5
PROGRAMS = count_examples(200)
FIRST_SEED = int(os.environ.get("FIRST_SEED", "0"))
"""Seed of the first program."""

TOLERANCES = {"float64": 1e-8, "float32": 2e-3}
"""Tolerance of derivatives, by the narrowest dtype of the program."""


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
    return [np.asarray(t.numpy()) for t in tensors]


def make_hessian(
    f: Callable[[Tensor], Tensor], order: tuple[str, str]
) -> Callable[[Tensor], Tensor]:
    outer, inner = order
    return jacobian(  # pyright: ignore[reportArgumentType]
        grad(f) if inner == "reverse" else jacobian(f, mode="forward"), mode=outer
    )


def find_differing_order(program: CarryProgram, seed: int) -> str | None:
    """Name what differs from JAX first: the value, a first derivative, or an order of modes."""
    is_forward_only, x = program.is_forward_only, Tensor(program.input)

    def f(x: Tensor) -> Tensor:
        return run_carry_program(program, SvodCarries(), x)

    def g(x: Any) -> Any:
        return run_carry_program(program, JaxCarries(jax), x)

    first = jax.jacfwd(g) if is_forward_only else jax.grad(g)
    second = jax.jacfwd(jax.jacfwd(g)) if is_forward_only else jax.hessian(g)

    def run(x: Any) -> list[Any]:
        return [g(x), first(x), second(x)]

    inputs = jax.numpy.asarray(program.input)
    expected = list(map(np.asarray, jax.jit(run)(inputs)))
    compute = evaluate_all if seed % 2 else compile_all
    wrap = jit if seed % 4 == 2 else lambda h: h
    direction = Tensor(np.ones_like(program.input))
    value, tangent, *gradient = compute(
        [*jvp(f, (x,), (direction,)), *([] if is_forward_only else [grad(f)(x)])]
    )
    found = {"value": (value, expected[0]), "forward": (tangent, expected[1].sum())}
    if gradient:
        found["reverse"] = (gradient[0], expected[1])
    for order in (("forward", "forward"),) if is_forward_only else ORDERS:
        (matrix,) = compute([wrap(make_hessian(f, order))(x)])
        found[" over ".join(order)] = (matrix, expected[2])
    is_narrow = any(kind.dtype == "float32" for kind in program.kinds.values())
    tolerance = TOLERANCES["float32" if is_narrow else "float64"]
    for name, (ours, theirs) in found.items():
        if not is_close(ours, theirs, tolerance):
            return f"{name}: {ours!r}, jax {theirs!r}"
    return None


def is_close(ours: np.ndarray, theirs: Any, tolerance: float) -> bool:
    size = float(np.max(np.abs(theirs), initial=1.0))
    return (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype) and np.allclose(
        ours, theirs, rtol=tolerance, atol=tolerance * size, equal_nan=True
    )


@pytest.mark.parametrize("first", range(0, PROGRAMS, GROUP))
def test_second_derivatives_of_programs_that_carry_any_kind(first: int) -> None:
    for seed in range(FIRST_SEED + first, FIRST_SEED + first + GROUP):
        program = draw_carry_program(seed)
        difference = find_differing_order(program, seed)
        if difference is not None:
            shrunk = shrink_carry_program(
                program, lambda p, seed=seed: find_differing_order(p, seed) is not None
            )
            pytest.fail(f"seed {seed}, {difference}:\n{shrunk}\n{shrunk.input!r}")
