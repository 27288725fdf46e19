"""Each example prints the same numbers with one, two and four processes, up to rounding."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
# What each example prints; the waves are those of a loop of numpy, too.
EXPECTED = {
    "data_parallel": [0.4441, 0.1271, 0.0618, 0.0434, 0.9942],
    "random_numbers": [3.141973, 3.143353, 3.141753],
    "sharded_state": [0.3216, 0.2383, 0.1441, 0.3216, 0.2383, 0.1441],
    "shallow_water": [94.2475, 94.2475, 0.31404, 0.00008, 0.22791],
    "tensor_parallel": [1.9605, 1.5967, 1.2449],
}
NUMBER = re.compile(r"\d+\.\d+")
# All examples run in the same processes, since imports take most of the time.
RUN_ALL = """
import runpy, sys
from mpi4py import MPI
for path in sys.argv[1:]:
    if MPI.COMM_WORLD.Get_rank() == 0:
        print("--- example", flush=True)
    runpy.run_path(path, run_name="__main__")
"""

pytestmark = pytest.mark.skipif(shutil.which("mpiexec") is None, reason="mpiexec is not installed")


@cache
def run_examples(n_processes: int) -> dict[str, str]:
    """Run all examples, and return what each prints."""
    paths = [str(EXAMPLES / f"{name}.py") for name in EXPECTED]
    done = subprocess.run(
        ["mpiexec", "-n", str(n_processes), sys.executable, "-c", RUN_ALL, *paths],
        env={**os.environ, "SVOD_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _, *printed = done.stdout.split("--- example\n")
    return dict(zip(EXPECTED, printed, strict=True))


@pytest.mark.parametrize("n_processes", [1, 2, 4])
@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_does_not_depend_on_the_number_of_processes(name: str, n_processes: int) -> None:
    printed = [float(text) for text in NUMBER.findall(run_examples(n_processes)[name])]
    assert printed == pytest.approx(EXPECTED[name], rel=1e-3, abs=2e-5)


def test_every_example_is_run() -> None:
    assert sorted(EXPECTED) == sorted(path.stem for path in EXAMPLES.glob("*.py"))
