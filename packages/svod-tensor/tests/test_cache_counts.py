from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import svod_tensor
from svod_tensor import PrepareConfig, Tensor, caches, clear_caches


@pytest.mark.usefixtures("own_stores")
def test_each_lookup_is_counted() -> None:
    clear_caches()
    assert all(c.entries == c.hits == c.misses == 0 for c in caches().values() if c.max_entries)
    (Tensor([1.0, 2.0]) * 3.25 + 1).realize()
    found = caches()
    assert (found["schedule"].entries, found["schedule"].misses) == (1, 1)
    assert (found["kernel"].entries, found["kernel"].misses) == (1, 1)
    assert found["stored_kernel"].hits + found["stored_kernel"].misses == 1
    (Tensor([5.0, 6.0]) * 3.25 + 1).realize()
    found = caches()
    assert (found["schedule"].entries, found["schedule"].hits) == (1, 1)
    # A plan that was made before brings its kernels along.
    assert (found["kernel"].entries, found["kernel"].hits) == (1, 0)
    (Tensor([7.0, 8.0]) * 3.25 + 1).realize_with(PrepareConfig(disable_schedule_cache=True))
    found = caches()
    assert (found["kernel"].entries, found["kernel"].hits) == (1, 1)
    assert found["schedule"].max_entries > 0
    assert found["kernel"].max_entries > 0
    assert found["object"].n_bytes <= found["object"].max_bytes


ON_DISK = """\
from svod_tensor import Tensor, caches, clear_caches

def compute(scale):
    assert (Tensor([1.0, 2.0]) * scale + 1).tolist() == [scale + 1, 2 * scale + 1]

def show(*names):
    for name in names:
        print(name, *caches()[name][:3])

clear_caches(disk=True)
compute(3.5)
show("stored_kernel", "kernel")
clear_caches()
show("stored_kernel", "kernel")
compute(3.5)
show("stored_kernel")
clear_caches(disk=True)
show("stored_kernel", "object", "kernel", "schedule")
assert all(counts.max_entries or counts.max_bytes for counts in caches().values())
"""


def test_caches_on_disk_are_counted_and_cleared_on_request(tmp_path: Path) -> None:
    environment = {**os.environ, "SVOD_CACHE_DIR": str(tmp_path), "SVOD_KERNEL_STORE": "1"}
    command = [sys.executable, "-c", ON_DISK]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "stored_kernel 1 0 1",
        "kernel 1 0 1",
        "stored_kernel 1 0 0",
        "kernel 0 0 0",
        "stored_kernel 1 1 0",
        "stored_kernel 0 0 0",
        "object 0 0 0",
        "kernel 0 0 0",
        "schedule 0 0 0",
    ]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.usefixtures("own_stores")
def test_clearing_keeps_plans_and_results() -> None:
    x = Tensor([1.0, 2.0]) + 0.125
    plan = x.prepare()
    clear_caches()
    plan.execute()
    assert x.tolist() == [1.125, 2.125]
    assert caches()["kernel"].entries == 0


def test_lazily_loaded_names_exist() -> None:
    assert [name for name in svod_tensor.__all__ if getattr(svod_tensor, name) is None] == [
        "newaxis"
    ]
