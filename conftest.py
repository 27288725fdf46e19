"""What all suites share: where the distribution under test brings `svod_ir` along, golden tests have their option and fixture."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from importlib.util import find_spec

import pytest

# A test that looks at a pass must see it run, not what an earlier run of the tests stored.
os.environ.setdefault("SVOD_KERNEL_STORE", "0")

# The tests of svod-dtype run without svod-ir.
pytest_plugins = ["svod_ir.testing.pytest_plugin"] if find_spec("svod_ir") else []


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Where all tests are asked to run with the C compiler of the system, and it has none, there is nothing to run."""
    names = ("cc", "gcc", "clang")
    if os.environ.get("SVOD_CPU_BACKEND") == "c" and not ("SVOD_CC" in os.environ or any(map(shutil.which, names))):
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no C compiler here: install gcc or clang"))
