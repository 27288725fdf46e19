"""What the tests of svod-tensor share."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from svod_codegen.disk_store import get_disk_store
from svod_codegen.kernel_store import get_kernel_store
from svod_device import clear

ENTRY_POINTS = """\
[svod.allocators]
ODD = odd_device:make_allocator
[svod.compilers]
ODD.llvm = odd_device:make_backend
[svod.interface]
version = svod_device.interface:v1
"""


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def own_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stores on disk that nobody else has: counting what others left there takes seconds."""
    monkeypatch.setenv("SVOD_CACHE_DIR", str(tmp_path / "stores"))
    forget_stores()
    yield
    monkeypatch.undo()
    forget_stores()


def forget_stores() -> None:
    get_disk_store.cache_clear()
    get_kernel_store.cache_clear()


class Plan(dict[str, str]):
    """What kernels of the device ODD do, by an opt that they have; each change is written to its
    file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.write()

    def __setitem__(self, key: str, value: str) -> None:
        super().__setitem__(key, value)
        self.write()

    def __ior__(self, other: object) -> Plan:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.update(other)
        self.write()
        return self

    def write(self) -> None:
        self.path.write_text(json.dumps(self))


@pytest.fixture
def odd_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plan]:
    """Installs the device ODD, for this process and for those that it starts."""
    site = tmp_path / "site"
    information = site / "odd_device-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-device\nVersion: 1\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    shutil.copy(Path(__file__).with_name("odd_device.py"), site)
    monkeypatch.setenv("ODD_PLAN", str(tmp_path / "plan.json"))
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()
    clear()
    yield Plan(tmp_path / "plan.json")
    monkeypatch.undo()
    clear()
