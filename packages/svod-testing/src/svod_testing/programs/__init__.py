"""Random programs over all operations, with NumPy as reference, for tests of this compiler and of
devices.

    python -m svod_testing.programs --programs 500 --seed 1

runs them in child processes, each in several modes (one by one, together, captured, without opts,
with threads, ...), and prints the shortest program that it finds for each kind of failure.

`generate` returns the program of a seed as data, `evaluate_program` its expected values,
`check_program` its failure in a mode, and `shrink` a shorter program that fails in the same way.

Example:
    >>> from svod_testing.programs import Program, Step, check_program, evaluate_program, generate, write_program
    >>> full = Step("full", operands=(), results=(0,), args=(("shape", (2,)), ("c", 9.0)))
    >>> root = Step("sqrt", operands=(0,), results=(1,))
    >>> program = Program((full, root, Step("neg", operands=(1,), results=(2,))), roots=(1,))
    >>> print(write_program(program.without_dead_steps()))
    x0 = Tensor.full((2,), 9.0)
    x1 = x0.abs().sqrt()
    results = [x1]
    >>> evaluate_program(program)[1].array.tolist()
    [3.0, 3.0]
    >>> check_program(program, "batch") is None
    True
    >>> drawn = generate(seed=3)
    >>> drawn == generate(seed=3), len(drawn.without_dead_steps().renumbered().steps) <= len(drawn.steps)
    (True, True)

    A program fails if any mode computes something else; it is a script with these imports:

    >>> from svod_testing.programs import MODES, PREAMBLE
    >>> [mode for mode in MODES if "jit" in mode and check_program(program, mode) is not None]
    []
    >>> exec(PREAMBLE + write_program(program), names := {})
    >>> names["results"][0].tolist()
    [3.0, 3.0]
"""

from __future__ import annotations

from svod_testing.programs.code import PREAMBLE, write_program
from svod_testing.programs.generate import generate
from svod_testing.programs.meaning import evaluate_program
from svod_testing.programs.modes import MODES, Failure, check_program
from svod_testing.programs.oracle import UnstableError, Value
from svod_testing.programs.program import Program, Step
from svod_testing.programs.runner import Found, Report, run_programs
from svod_testing.programs.shrink import shrink

__all__ = [
    "MODES",
    "PREAMBLE",
    "Failure",
    "Found",
    "Program",
    "Report",
    "Step",
    "UnstableError",
    "Value",
    "check_program",
    "evaluate_program",
    "generate",
    "run_programs",
    "shrink",
    "write_program",
]
