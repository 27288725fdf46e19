"""Random programs with loops agree with `jax.lax`, if jax is installed (`tox run -e loops-jax`).

The reference of svod's loops (`svod_testing.loop_programs`) is Python loops over numpy. Running the
same programs with jax's loops would show errors in that reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from svod_ir.testing import count_examples
from svod_testing.loop_programs import (
    OPERATIONS,
    Kind,
    LoopProgram,
    compile_line,
    evaluate_program,
    find_difference,
    generate,
    make_arrays,
    run_program,
    write_program,
)

jax = pytest.importorskip("jax")
jnp = jax.numpy

N_PROGRAMS = count_examples(1000)


class JaxLibrary:
    """Operations and loops of jax."""

    def __init__(self, variables: Mapping[str, int]) -> None:
        self._variables = variables

    def apply(
        self,
        operation: str,
        operands: Sequence[Any],
        args: Mapping[str, Any],
        kinds: Sequence[Kind],
    ) -> Any:
        names = ("a", "b", "c")[: len(operands)] + tuple(args)
        found = compile_line(OPERATIONS[operation].numpy, names, _namespace)(*operands, **args)
        return found.astype(kinds[0].dtype)

    def bind(self, name: str) -> Any:
        return self._variables[name]

    def to_counter(self, number: Any) -> Any:
        return jnp.asarray(number, jnp.int32)

    def scan(
        self, f: Callable[..., Any], init: Any, xs: Any, *, length: Any, reverse: bool, made: Any
    ) -> Any:
        return jax.lax.scan(f, init, xs, length, reverse)

    def fori_loop(self, lower: Any, upper: Any, f: Callable[..., Any], init: Any) -> Any:
        return jax.lax.fori_loop(jnp.int32(lower), jnp.asarray(upper, jnp.int32), f, init)

    def while_loop(self, cond: Callable[..., Any], f: Callable[..., Any], init: Any) -> Any:
        return jax.lax.while_loop(cond, f, init)

    def cond(self, pred: Any, f: Callable[..., Any], g: Callable[..., Any], *operands: Any) -> Any:
        return jax.lax.cond(pred, f, g, *operands)

    def switch(self, index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
        return jax.lax.switch(index, branches, *operands)


def _namespace() -> dict[str, Any]:
    def set_items(array: Any, index: Any, value: Any) -> Any:
        return array.at[index].set(value)

    return {"np": jnp, "set_items": set_items}


def _writes(program: LoopProgram) -> bool:
    """True if a program writes memory outside the loop body, which jax does not support."""
    return any(step.operation.startswith("write") for step in program.iter_steps())


def _compute(program: LoopProgram, version: int) -> list[Any]:
    library = JaxLibrary({name: given[2 + version] for name, given in program.variables.items()})
    numbers = [step.results[0] for step in program.inputs]

    def run(*arrays: Any) -> list[Any]:
        return run_program(program, library, dict(zip(numbers, arrays, strict=True)))

    arrays = make_arrays(program, version)
    return [np.asarray(r) for r in jax.jit(run)(*(arrays[v] for v in numbers))]


@pytest.mark.parametrize("part", range(10))
def test_programs_agree_with_jax(part: int) -> None:
    n_compared = 0
    with jax.enable_x64(True):
        for seed in range(part * N_PROGRAMS // 10, (part + 1) * N_PROGRAMS // 10):
            program = generate(seed)
            if _writes(program):
                continue
            for version in (0, 1):
                for found, expected in zip(
                    _compute(program, version), evaluate_program(program, version), strict=True
                ):
                    difference = find_difference(found, expected)
                    assert difference is None, (
                        f"seed {seed}: {difference}\n{write_program(program)}"
                    )
            n_compared += 1
    assert n_compared > 0.5 * N_PROGRAMS / 10
