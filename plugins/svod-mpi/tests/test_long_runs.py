"""A training and a simulation of many steps have the same numbers on any number of processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpi import run_ranks
from svod_ir.testing import count_examples


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the numbers of a training without a mesh."""
    path = tmp_path_factory.mktemp("training") / "expected.npz"
    result = run_ranks(1, "long_runs.py", str(path))
    assert result.returncode == 0, result.stderr
    return path


@pytest.mark.parametrize("n_ranks", [2, 4])
def test_many_steps_on_several_processes_agree_with_one(expected: Path, n_ranks: int) -> None:
    # On four processes, each way by itself takes as long as all else.
    effort = ["thorough"] if count_examples(4) > 1 else []
    result = run_ranks(n_ranks, "long_runs.py", str(expected), *effort, timeout_s=200)
    assert result.returncode == 0, result.stderr
