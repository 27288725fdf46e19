"""Reference values of all steps of a program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svod_testing.programs.operations import OPERATIONS, make_data
from svod_testing.programs.oracle import Value, evaluate_step
from svod_testing.programs.program import Program

__all__ = ["evaluate_program", "make_arrays"]


def evaluate_program(program: Program, seed: int = 0) -> dict[int, Value]:
    """Return every value of a program, with the input data of this seed.

    Raises:
        UnstableError: if the program is ill-conditioned with this data, or undefined.
    """
    values: dict[int, Value] = {}
    for step in program.steps:
        operands = [values[v] for v in step.operands]
        results = evaluate_step(OPERATIONS[step.operation], step, operands, seed)
        values.update(zip(step.results, results, strict=True))
    return values


def make_arrays(program: Program, seed: int = 0) -> Mapping[int, Any]:
    """Return the data of the inputs, in their dtypes."""
    return {s.results[0]: make_data(**s.named, shift=seed) for s in program.inputs}
