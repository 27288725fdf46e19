"""Thousands of executions of random plans give the same bits in every mode.

`mixed_executions.py` runs in one process for each setting of threads, optimizer and disk caches,
and in each goes through the modes of the memory planner, donation, and the caches of schedules and
kernels. These results must agree:

- In one process, and between processes that differ only in caches, every result, including floats:
the kernels are the same, and neither memory addresses nor the thread of a kernel affect a value. -
Between processes with other threads or other `Opt`s, results of integers and booleans. Kernels
differ there, and sums of floats have another order, so that their last bits may differ;
`test_agreement` and `test_random_graphs` compare those within a tolerance.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from svod_ir.testing import count_examples

PROGRAM = Path(__file__).parent / "mixed_executions.py"
SEED = 0 if settings().derandomize else random.randrange(10**6)
N_PLANS = count_examples(12)
"""About two thousand executions, or seven thousand with the thorough profile."""

pytestmark = pytest.mark.xdist_group(
    "mixed executions"
)  # they share what a fixture takes long to compute

SETTINGS = {
    "all threads, cold caches": {"SVOD_KERNEL_STORE": "1"},
    "all threads, warm caches": {"SVOD_KERNEL_STORE": "1"},
    "all threads, no caches": {"SVOD_KERNEL_STORE": "0", "SVOD_OBJECT_CACHE": "0"},
    "one thread": {"SVOD_THREADS": "1"},
    "no opts": {"SVOD_NOOPT": "1"},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Output of the script with each setting, in sequential runs on one cache directory."""
    cache = str(tmp_path_factory.mktemp("cache"))
    return {name: run(cache, variables) for name, variables in SETTINGS.items()}


def run(cache: str, variables: dict[str, str]) -> list[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SVOD_")}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(SEED), str(N_PLANS)],
        env={**inherited, "SVOD_CACHE_DIR": cache, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_each_plan_is_executed_hundreds_of_times(results: dict[str, list[str]]) -> None:
    assert sum(int(lines[0]) for lines in results.values()) >= 550 * N_PLANS


def test_kernels_from_any_cache_give_the_same_bits(results: dict[str, list[str]]) -> None:
    cold, warm, without = (lines for name, lines in results.items() if "caches" in name)
    assert len(set(cold[1:])) > len(cold) // 2
    assert cold == warm == without, f"seed {SEED}"


def test_exact_results_depend_neither_on_threads_nor_on_opts(results: dict[str, list[str]]) -> None:
    exact = [[line.split()[0] for line in lines[1:]] for lines in results.values()]
    assert all(found == exact[0] for found in exact), f"seed {SEED}"
