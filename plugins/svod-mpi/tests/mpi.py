"""Programs that tests run as several processes of MPI."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PROGRAMS", "find_mpiexec", "run_ranks", "start_ranks", "wait_for_end"]

PROGRAMS = Path(__file__).parent / "programs"


def find_mpiexec() -> str:
    """The launcher beside this interpreter, or on the path; skips the test if there is none."""
    if find_spec("mpi4py") is None:
        pytest.skip("mpi4py is not installed")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    mpiexec = shutil.which("mpiexec", path=path)
    if mpiexec is None:
        pytest.skip("mpiexec is not installed")
    return mpiexec


def start_ranks(
    n_ranks: int, program: str | Path, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start a program: a file of `programs`, or source text, in `n_ranks` processes."""
    source = PROGRAMS / program if str(program).endswith(".py") else None
    command = [sys.executable, *(["-c", str(program)] if source is None else [str(source)])]
    return subprocess.Popen(
        [find_mpiexec(), "-n", str(n_ranks), *command, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # One thread for each process, since all share the cores of one machine.
        env={**os.environ, "SVOD_THREADS": "1", **(env or {})},
        start_new_session=True,
    )


def wait_for_end(
    process: subprocess.Popen[str], *, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Wait for all processes of a program, and end them all if that takes too long."""
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"the processes did not end within {timeout_s} s\n{out}\n{err}")
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def run_ranks(
    n_ranks: int,
    program: str | Path,
    *arguments: str,
    timeout_s: float = 60,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program in `n_ranks` processes."""
    return wait_for_end(start_ranks(n_ranks, program, *arguments, env=env), timeout_s=timeout_s)
