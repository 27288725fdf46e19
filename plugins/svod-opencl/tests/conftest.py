"""Where PoCL keeps what it compiles, before it is loaded."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

# A cache that outlives the run would hide what a driver compiles anew.
if "POCL_CACHE_DIR" not in os.environ:
    os.environ["POCL_CACHE_DIR"] = tempfile.mkdtemp(prefix="svod-pocl-")
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")


@pytest.fixture(scope="session")
def device() -> str:
    """The device under test."""
    return "OPENCL"


def pytest_report_header() -> str:
    return f"PoCL's cache: {Path(os.environ['POCL_CACHE_DIR'])}"
