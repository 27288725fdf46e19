"""Random programs over all operations, with numpy as their meaning: for tests of this compiler and of devices.

    python -m svod_tensor.testing.programs --programs 500 --seed 1

runs them in child processes, each in several modes (one by one, together, captured, without opts, with threads, ...), and
prints the shortest program that it finds for each kind of failure.

`generate` gives the program of a seed as data, `evaluate_program` its values, `check_program` what is wrong with its results
in a mode, and `shrink` a shorter program that fails in the same way.
"""

from __future__ import annotations

from svod_tensor.testing.programs.code import PREAMBLE, write_program
from svod_tensor.testing.programs.generate import generate
from svod_tensor.testing.programs.meaning import evaluate_program
from svod_tensor.testing.programs.modes import MODES, Failure, check_program
from svod_tensor.testing.programs.oracle import UnstableError, Value
from svod_tensor.testing.programs.program import Program, Step
from svod_tensor.testing.programs.runner import Found, Report, run_programs
from svod_tensor.testing.programs.shrink import shrink

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
