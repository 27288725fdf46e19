"""Thousands of executions of random plans give the same bits, whatever else is going on.

`mixed_executions.py` runs in one process for each setting of threads, optimizer and disk caches,
and in each goes through the modes of the memory planner, donation, and the caches of schedules and
kernels. What must agree:

- In one process, and between processes that differ in caches only, every result, floats included:
  the kernels are the same, and neither where memory is nor which thread runs a kernel has a part in
  a value.
- Between processes with other threads or other `Opt`s, results of integers and booleans. Kernels
  differ there, and a sum of floats is added up in another order, so that its last bits may differ;
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
"""Nearly two thousand executions, or, where all are asked for, seven thousand."""

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
    """What the program prints with each of the settings, one after the other on one directory of
    caches.
    """
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
