"""A rank that fails ends all processes, with a message where Python can print one."""

from __future__ import annotations

import os
import random
import re
import signal
import time
from pathlib import Path

import pytest

from mpi import run_ranks, start_ranks, wait_for_end
from svod_ir.testing import count_examples


@pytest.mark.parametrize(
    ("way", "cause", "code"),
    [
        ("exception", "ValueError: bad batch", 1),
        ("thread", "ValueError: bad batch, in reader", 1),
        ("exit", "SystemExit: 3", 3),
        ("message", "SystemExit: no data", 1),
        ("builtin", "SystemExit: 4", 4),
        ("cleanup", "SystemExit: 3", 3),
        ("waiting thread", "SystemExit: 3", 3),
        ("interrupt", "KeyboardInterrupt", 1),
        ("finalizer", "KeyboardInterrupt", 1),
    ],
)
def test_a_rank_that_fails_says_why_and_ends_the_others(way: str, cause: str, code: int) -> None:
    result = run_ranks(2, "fail.py", way, timeout_s=20)
    assert result.returncode == code
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("svod_mpi: ")]
    assert re.fullmatch(rf"svod_mpi: rank 1 of 2 on \S+ failed: {cause}; all processes end", line)
    assert result.stderr.count("Traceback") == ("SystemExit" not in cause)
    assert ("cleaned up" in result.stdout) == (way == "cleanup")
    assert "done" not in result.stdout


def test_exceptions_and_exits_that_are_caught_end_nothing() -> None:
    result = run_ranks(2, "fail.py", "caught", timeout_s=20)
    assert result.returncode == 0, result.stderr
    # Lines of two processes may be joined.
    lines = re.findall(r"rank \d is done", result.stdout)
    assert sorted(lines) == ["rank 0 is done", "rank 1 is done"]
    assert result.stderr == "ValueError: only the child\n"


def test_one_process_keeps_its_hooks() -> None:
    program = (
        "import sys; before = sys.exit, sys.excepthook; import svod_mpi;"
        " print(before == (sys.exit, sys.excepthook))"
    )
    assert run_ranks(1, program).stdout == "True\n"


def test_a_rank_that_is_killed_at_any_moment_leaves_no_process_behind() -> None:
    moments = random.Random(0)
    names = ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGINT"]
    for index in range(count_examples(16)):
        name = names[index % len(names)]
        job = start_ranks(2, "train.py")
        assert job.stdout is not None
        processes = [int(job.stdout.readline().split()[1]) for _ in range(2)]
        memory = {path for process in processes for path in _list_shared_memory(process)}
        time.sleep(moments.uniform(0, 0.1))
        os.kill(moments.choice(processes), getattr(signal, name))
        result = wait_for_end(job, timeout_s=10)
        context = f"run {index}, {name}: {result.stderr}"
        # MPICH's launcher ends with the number of the signal, that of Open MPI as a shell does.
        number = getattr(signal, name)
        assert result.returncode in ([1] if name == "SIGINT" else [number, 128 + number]), context
        if name == "SIGINT":
            pattern = r"svod_mpi: rank \d of 2 on \S+ failed: KeyboardInterrupt; all processes end"
            assert re.search(pattern, result.stderr), context
        # The launcher may end a moment before the last of them.
        deadline = time.monotonic() + 5
        while any(map(_is_running, processes)):
            assert time.monotonic() < deadline, context
            time.sleep(0.02)
        assert not [path for path in memory if path.exists()], context


def _list_shared_memory(process: int) -> list[Path]:
    """Files in shared memory that a process has mapped, and that have a name."""
    maps = Path(f"/proc/{process}/maps").read_text()
    return [Path(p) for p in re.findall(r"/dev/shm/\S+$", maps, re.MULTILINE)]


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    # What remains of an ended process until its parent asks for it.
    return state not in "ZX"
