"""Kernels on disk: a later process finds them, and only what they depend on decides."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import numpy as np
import svod_tensor.prepare as prepare
from svod_tensor import Tensor
rendered = []
render = prepare.render_kernel
prepare.render_kernel = lambda *args: rendered.append(1) or render(*args)
x = np.arange(12, dtype=np.float32).reshape(3, 4)
y = (Tensor(x) * 2 + 1).sum(1)
plan = y.prepare()
plan.execute()
np.testing.assert_array_equal(y.numpy(), (x * 2 + 1).sum(1))
assert all(kernel.source for kernel in plan.kernels())
print(len(rendered))
"""


def count_rendered(cache: Path, program: str = PROGRAM, **environment: str) -> int:
    env = {**os.environ, "SVOD_CACHE_DIR": str(cache), "SVOD_KERNEL_STORE": "1", "SVOD_THREADS": "2", **environment}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
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


def test_the_second_process_renders_nothing(cache: Path):
    assert count_rendered(cache) == 0


@pytest.mark.parametrize(
    "change", [{"SVOD_THREADS": "3"}, {"SVOD_NOOPT": "1"}, {"SVOD_KERNEL_STORE": "0"}, {"SVOD_OBJECT_CACHE": "0"}]
)
def test_another_setting_renders_again(cache: Path, change: dict[str, str]):
    assert count_rendered(cache, **change) >= 1


def test_whoever_checks_the_passes_sees_them_run(cache: Path):
    assert count_rendered(cache, SVOD_CHECK="1") >= 1


def test_a_damaged_entry_is_made_again(cache: Path):
    for path in (cache / "kernels").rglob("*.svo"):
        path.write_bytes(path.read_bytes()[:-1])
    assert count_rendered(cache) >= 1
    assert count_rendered(cache) == 0
