"""Where PoCL keeps what it compiles, before it is loaded; and whether there is a driver to test with."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
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
    """Why nothing can be tested here; a driver that is installed and does not work is no reason."""
    try:
        version("pocl-binary-distribution")
    except PackageNotFoundError:
        import pyopencl

        try:
            pyopencl.get_platforms()
        except pyopencl.Error:
            return "no OpenCL driver here, and no wheel of PoCL for this system"
        return None
    return None if shutil.which("ld") else "PoCL links kernels with `ld`, which is not here: install binutils"
