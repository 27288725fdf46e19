"""Tests of operations, captured functions, loops and derivatives on sharded tensors."""

from __future__ import annotations

import pytest

from mpi import run_ranks
from svod_ir.testing import count_examples


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4])
def test_operations_agree_with_numpy(n_ranks):
    result = run_ranks(n_ranks, "values.py")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("n_ranks", "language", "first"),
    [
        (4, "programs", 200),
        (4, "loops", 400),
        (2, "derivatives", 500),
        (3, "stencils", 600),
    ],
)
def test_random_programs_agree_with_one_process(n_ranks, language, first):
    # Many more run on simulated ranks, in the tests of svod-testing: these are for MPI itself.
    count = str(count_examples(8))
    result = run_ranks(n_ranks, "random_programs.py", language, str(first), count, timeout_s=600)
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
