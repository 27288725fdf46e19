"""Where PoCL keeps what it compiles, before it is loaded; and whether there is a driver to test
with.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
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


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    reason = find_obstacle()
    if reason:
        for item in items:
            # Pytest hands over what other folders have, too.
            if item.path.is_relative_to(Path(__file__).parent):
                item.add_marker(pytest.mark.skip(reason=reason))


def find_obstacle() -> str | None:
    """Why nothing can be tested here: what svod says where no driver works."""
    from svod_opencl.context import get_context
    from svod_opencl.errors import NoDeviceError, NoPlatformError

    try:
        get_context("OPENCL")
    except (NoDeviceError, NoPlatformError) as error:
        return str(error)
    return None
