"""Tests of operations, captured functions, loops and derivatives on sharded tensors."""

from __future__ import annotations

import pytest

from mpi import run_ranks
from svod_ir.testing import count_examples


@pytest.mark.parametrize("n_ranks", [2, 4])
def test_operations_agree_with_numpy(n_ranks):
    # Two processes move everything between all layouts, which are many more on four.
    stride = 5 if n_ranks == 4 and count_examples(4) == 1 else 1
    result = run_ranks(n_ranks, "values.py", str(stride))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("n_ranks", "languages"),
    [
        (4, ["programs", "loops"]),
        (2, ["derivatives"]),
        (3, ["stencils"]),
    ],
)
def test_random_programs_agree_with_one_process(n_ranks, languages):
    # Many more run on simulated ranks, in the tests of svod-testing: these are for MPI itself.
    count = str(count_examples(8))
    result = run_ranks(n_ranks, "random_programs.py", "200", count, *languages, timeout_s=600)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("values", "rank 1 calls reduce.max of float32"),
        ("missing", "rank 1 did not call reduce.add of float32"),
    ],
)
def test_processes_that_run_different_programs_say_so(what, message):
    result = run_ranks(4, "mismatch.py", what)
    assert result.returncode != 0
    assert message in result.stderr
