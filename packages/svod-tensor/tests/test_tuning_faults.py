"""Whole searches in processes of their own, of which compilers, candidates and signals break
something at random.

`SVOD_TEST_SEARCHES=100` runs as many as that.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are found in /proc"
)

N_SEARCHES = int(os.environ.get("SVOD_TEST_SEARCHES", "2"))
MARK = "SVOD_TEST_MARK"
FAR = 300.0

BEHAVIOURS = (
    "compile: abort",
    "compile: endless",
    "compile: eat memory",
    "compile: raise",
    "run: crash",
    "run: endless",
    "run: raise",
    "run: wrong",
)
OPTS = ("UPCAST", "OVERLAP", "UNROLL", "THREAD", "SWAP", "PACK")

SEARCH = """\
import signal, sys
import numpy as np
from svod_tensor import Tensor
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell turns off in the background
print("ready", flush=True)
rng = np.random.default_rng(int(sys.argv[1]))
x, y = rng.random((40, 96), np.float32), rng.random((96, 24), np.float32)
a, b = Tensor(x, device="ODD"), Tensor(y, device="ODD")
found, expected = {
    0: lambda: (a.sum(1), x.sum(1)),
    1: lambda: (a @ b, x @ y),
    2: lambda: (a.permute(1, 0) * 2 + 1, x.T * 2 + 1),
    3: lambda: (a.max(0), x.max(0)),
}[int(sys.argv[1]) % 4]()
np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4)
print("right", flush=True)
"""


def find_marked(mark: str) -> set[int]:
    """The processes that were started with this mark, and those that they started."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(int(entry.name))
    return found


def wait_for_nobody(mark: str) -> set[int]:
    end = time.monotonic() + FAR
    while (left := find_marked(mark)) and time.monotonic() < end:
        time.sleep(0.01)
    return left


class Searches:
    """Searches that share a cache, so that each goes on where the last one was stopped."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.mark, self.seed = uuid.uuid4().hex, seed
        self.environment = {
            **os.environ,
            MARK: self.mark,
            "SVOD_CACHE_DIR": str(folder),
            "SVOD_BEAM": "2",
            "BEAM_ROUNDS_MAX": "1",
            "BEAM_MEASURED_MAX": "8",
            "BEAM_RUNS": "1",
            "BEAM_TIMEOUT": "60",
            "BEAM_TIMEOUT_SEC": "5",
        }

    def run(self, number: int = 0, after: float = 0.0) -> tuple[int, str, str]:
        """The status and output of a search that gets the signal `number` so many seconds after its
        start.
        """
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SEARCH, str(self.seed)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as search:
            try:
                assert search.stdout is not None
                assert search.stdout.readline() == "ready\n"
                if number:
                    time.sleep(after)
                    search.send_signal(number)
                out, err = search.communicate(timeout=FAR)
            finally:
                search.kill()
        return search.returncode, out, err


@pytest.mark.parametrize("seed", range(N_SEARCHES))
def test_a_search_with_failures_gives_the_right_result_and_leaves_no_process(
    seed: int, odd_plan: dict[str, str], tmp_path: Path
) -> None:
    chance = random.Random(seed)
    odd_plan |= {opt: chance.choice(BEHAVIOURS) for opt in OPTS if chance.random() < 0.4}
    searches = Searches(tmp_path / "cache", seed)
    for number in chance.choices([signal.SIGINT, signal.SIGKILL], k=chance.randrange(3)):
        status, out, err = searches.run(number, after=chance.random() * 3)
        # A signal may also come when all is done.
        assert out == "right\n" or (status != 0 and not out), err
        assert status in (0, -number, 1), err
        assert "KeyboardInterrupt" in err or status != 1, err
        assert not wait_for_nobody(searches.mark)
    status, out, err = searches.run()
    assert (status, out) == (0, "right\n"), err
    assert not wait_for_nobody(searches.mark)


def test_candidates_that_hang_end_with_the_process_that_wanted_them(
    odd_plan: dict[str, str], tmp_path: Path
) -> None:
    odd_plan |= dict.fromkeys(OPTS, "compile: endless")
    searches = Searches(tmp_path / "cache", 0)
    searches.environment["BEAM_TIMEOUT_SEC"] = "1000"
    assert searches.run(signal.SIGKILL, after=2.0)[0] == -signal.SIGKILL
    assert not wait_for_nobody(searches.mark)
