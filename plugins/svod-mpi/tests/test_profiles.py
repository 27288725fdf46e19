"""Profiles of all ranks have one clock, and tell waiting from the exchange."""

from __future__ import annotations

import json
from pathlib import Path

from mpi import run_ranks


def test_ranks_that_wait_for_a_late_one_say_so(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    result = run_ranks(4, "profiled.py", str(path))
    assert result.returncode == 0, result.stderr
    *early, late = json.loads(result.stdout)
    assert all(rank["waiting_us"] > 50_000 > rank["other_us"] for rank in early)
    assert late["waiting_us"] < 50_000 < late["other_us"]
    # The exchange of a number takes no time, once all are there.
    assert max(rank["collectives_us"] for rank in (*early, late)) < 50_000

    events = json.loads(path.read_text())["traceEvents"]
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert [name.split(" on ")[0] for name in names] == [f"rank {n}" for n in range(4)]
    waits = [[e for e in events if e["name"] == "wait" and e["pid"] == n] for n in range(4)]
    assert {len(of_rank) for of_rank in waits} == {2}
    # All leave a barrier together, though their clocks differ by seconds.
    for same in zip(*waits, strict=True):
        ends = [e["ts"] + e["dur"] for e in same]
        assert max(ends) - min(ends) < 50_000
    collectives = [e for e in events if e["name"].endswith("reduce.add") and e["pid"] == 0]
    assert len(collectives) == 2
    assert all(e["ts"] >= 0 for e in events if "ts" in e)
