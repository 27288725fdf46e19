"""A temporary cache for PoCL, and a skip of all tests where no driver works."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

# Set before PoCL is loaded. A persistent cache would hide compilation errors of the driver.
if "POCL_CACHE_DIR" not in os.environ:
    os.environ["POCL_CACHE_DIR"] = tempfile.mkdtemp(prefix="svod-pocl-")
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")


@pytest.fixture(scope="session")
def device() -> str:
    """The device under test."""
    return "OPENCL"


def pytest_report_header() -> str:
    return f"PoCL's cache: {Path(os.environ['POCL_CACHE_DIR'])}"


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    reason = find_obstacle()
    if reason:
        for item in items:
            # Pytest passes the items of all collected folders.
            if item.path.is_relative_to(Path(__file__).parent):
                item.add_marker(pytest.mark.skip(reason=reason))


def find_obstacle() -> str | None:
    """Return the error of svod if no driver works, else None."""
    from svod_opencl.context import get_context
    from svod_opencl.errors import NoDeviceError, NoPlatformError

    try:
        get_context("OPENCL")
    except (NoDeviceError, NoPlatformError) as error:
        return str(error)
    return None
