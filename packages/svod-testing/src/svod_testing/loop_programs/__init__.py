"""Random programs with loops, with Python loops over NumPy as reference, for tests of this compiler
and of devices.

    python -m svod_testing.loop_programs --programs 500 --seed 1

runs them in child processes, each in several modes (together, captured, in a plan that is executed
again, donated, sharded, without opts, with threads, ...), and prints the shortest program that it
finds for each kind of failure.

`generate` returns the program of a seed as data, `evaluate_program` its expected results,
`check_program` its failure in a mode, `shrink` a shorter program that fails in the same way, and
`run_program` its results with the loops of any library."""

from __future__ import annotations

from svod_testing.loop_programs.code import PREAMBLE, write_program
from svod_testing.loop_programs.generate import generate
from svod_testing.loop_programs.interpret import Library, run_program
from svod_testing.loop_programs.meaning import (
    Expected,
    NumpyLibrary,
    evaluate_program,
    find_difference,
    make_array,
    make_arrays,
)
from svod_testing.loop_programs.modes import MODES, check_program
from svod_testing.loop_programs.operations import OPERATIONS, compile_line
from svod_testing.loop_programs.program import Block, Kind, LoopProgram, LoopStep
from svod_testing.loop_programs.shrink import shrink
from svod_testing.programs.oracle import UnstableError

__all__ = [
    "MODES",
    "OPERATIONS",
    "PREAMBLE",
    "Block",
    "Expected",
    "Kind",
    "Library",
    "LoopProgram",
    "LoopStep",
    "NumpyLibrary",
    "UnstableError",
    "check_program",
    "compile_line",
    "evaluate_program",
    "find_difference",
    "generate",
    "make_array",
    "make_arrays",
    "run_program",
    "shrink",
    "write_program",
]
