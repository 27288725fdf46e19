"""Kernels on disk: a later process finds them, and only what they depend on decides."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from svod_codegen.disk_store import get_disk_store
from svod_codegen.kernel_store import get_kernel_store
from svod_device import CompiledSpec, ProgramSpec, get_device
from svod_ir import IROptions
from svod_ir.options import PassSelector
from svod_tensor import Tensor
from svod_tensor.engine import claims
from svod_tensor.engine.caches import KernelKey
from svod_tensor.engine.stored_kernels import find_stored_kernel, reject_stored_kernel, store_kernel

PROGRAM = """\
import numpy as np
from svod_tensor.engine import compute
from svod_tensor import Tensor
made = []
rangeify, render = compute.rangeify, compute.render
compute.rangeify = lambda *args: made.append(1) or rangeify(*args)
compute.render = lambda *args: made.append(1) or render(*args)
x = np.arange(12, dtype=np.float32).reshape(3, 4)
y = (Tensor(x) * 2 + 1).sum(1)
plan = y.prepare()
plan.execute()
np.testing.assert_array_equal(y.numpy(), (x * 2 + 1).sum(1))
assert all(kernel.source for kernel in plan.kernels())
assert all(profile.reasons for profile in plan.execute_profiled())
print(len(made))
"""


def count_rendered(cache: Path, program: str = PROGRAM, **environment: str) -> int:
    """The number that a program prints last in a process of its own: by default, how many kernels
    it renders.
    """
    env = {
        **os.environ,
        "SVOD_CACHE_DIR": str(cache),
        "SVOD_KERNEL_STORE": "1",
        "SVOD_THREADS": "2",
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


@pytest.fixture(scope="module")
def full_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("full") / "cache"
    assert count_rendered(cache) >= 1
    return cache


@pytest.fixture
def cache(full_cache: Path, tmp_path: Path) -> Path:
    """What an earlier process left."""
    return Path(shutil.copytree(full_cache, tmp_path / "cache"))


def test_the_second_process_renders_no_kernel(cache: Path):
    assert count_rendered(cache) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"SVOD_THREADS": "3"},
        {"SVOD_NOOPT": "1"},
        {"SVOD_KERNEL_STORE": "0"},
        {"SVOD_OBJECT_CACHE": "0"},
    ],
)
def test_another_setting_renders_again(cache: Path, change: dict[str, str]):
    assert count_rendered(cache, **change) >= 1


def test_checked_computations_run_the_passes(cache: Path):
    assert count_rendered(cache, SVOD_CHECK="1") >= 1


WATCHED = """
from svod_ir import count_matches
from svod_tensor import Tensor

with count_matches() as counts:
    assert (Tensor([[1.0, 2.0], [3.0, 4.0]]) * 2.0 + 1.0).T.sum().item() == 24.0
print(sum(counts.values()))
"""


def test_a_second_process_counts_the_matches_that_the_first_one_counts(tmp_path: Path):
    first, second = (count_rendered(tmp_path, WATCHED) for _ in range(2))
    assert first == second > 0


def test_a_damaged_entry_is_rebuilt(cache: Path):
    for path in (cache / "kernels").rglob("*.svo"):
        path.write_bytes(path.read_bytes()[:-1])
    assert count_rendered(cache) >= 1
    assert count_rendered(cache) == 0


@pytest.fixture
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SVOD_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SVOD_KERNEL_STORE", "1")
    for forget in (get_disk_store.cache_clear, get_kernel_store.cache_clear):
        forget()
    yield
    monkeypatch.undo()
    for forget in (get_disk_store.cache_clear, get_kernel_store.cache_clear):
        forget()


@pytest.mark.usefixtures("own_store")
def test_a_stored_kernel_is_used_until_rejected_except_under_observation(
    monkeypatch: pytest.MonkeyPatch,
):
    key, device = KernelKey("hash", "CPU", "compiler", "config"), get_device("CPU")
    spec = ProgramSpec("k", "source", "CPU", globals=(0,), outs=(0,), global_size=(1, 1, 1))
    assert find_stored_kernel(key, device, IROptions()) is None
    store_kernel(key, device, spec, CompiledSpec.from_bytes(spec, b"code"))
    found = find_stored_kernel(key, device, IROptions())
    assert found is not None
    assert (found.spec, found.compiled.binary) == (spec, b"code")
    some = PassSelector((("lower", "expand"),))
    for options in (IROptions(check=True), IROptions(dump=some), IROptions(stop_after=some)):
        assert find_stored_kernel(key, device, options) is None
    for field in ("ast_hash", "device", "compiler", "config"):
        assert find_stored_kernel(key._replace(**{field: "other"}), device, IROptions()) is None
    # What is on disk is for every opening of the device.
    assert find_stored_kernel(key._replace(opening=7), device, IROptions()) is not None
    with monkeypatch.context() as patch:
        # Other code of the compiler may make another kernel.
        patch.setattr(
            "svod_tensor.engine.stored_kernels.fingerprint_code",
            lambda package: f"another state of {package}",
        )
        assert find_stored_kernel(key, device, IROptions()) is None
    reject_stored_kernel(key, device)
    assert find_stored_kernel(key, device, IROptions()) is None


SHARING_PROGRAM = """\
import sys
import time
from pathlib import Path
import numpy as np
from svod_codegen.llvm import cached
from svod_tensor import Tensor, caches
compiled, compile_ir = [], cached.compile_ir
cached.compile_ir = lambda source: compiled.append(1) or compile_ir(source)
ready, n_processes = Path(sys.argv[1]), int(sys.argv[2])
(ready / sys.argv[3]).touch()
while len(list(ready.iterdir())) < n_processes:
    time.sleep(0.001)
x = np.arange(60, dtype=np.float32)
results = [(Tensor(x[: 4 * n]) * n).cumsum() for n in range(2, 14)]
Tensor.realize_batch(results)
for n, result in enumerate(results, 2):
    np.testing.assert_array_equal(result.numpy(), np.cumsum(x[: 4 * n] * n))
print(len(compiled), caches()["object"].entries)
"""


def test_processes_that_start_together_compile_each_kernel_once(tmp_path: Path):
    ready = tmp_path / "ready"
    ready.mkdir()
    env = {**os.environ, "SVOD_CACHE_DIR": str(tmp_path / "cache"), "SVOD_KERNEL_STORE": "1"}
    command = [sys.executable, "-c", SHARING_PROGRAM, str(ready), "3"]
    processes = [
        subprocess.Popen([*command, name], env=env, stdout=subprocess.PIPE, text=True)
        for name in "abc"
    ]
    outputs = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    n_compiled, n_objects = zip(*(map(int, output) for output in outputs), strict=True)
    assert n_objects == (13, 13, 13)  # with the launcher
    assert sum(n_compiled) == 13


def test_a_kernel_that_no_process_stores_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(claims, "claim_kernel", lambda _key, _device: False)
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal((Tensor(x) * 1.2578125).numpy(), x * np.float32(1.2578125))
