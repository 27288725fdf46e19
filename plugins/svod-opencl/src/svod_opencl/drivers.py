"""Drivers of the system and of Python wheels, and a check that a device can run a kernel."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

import pyopencl as cl

from svod_opencl.build import BuildFailure, build_program, make_kernel

__all__ = ["find_fault", "is_pocl_before", "list_platforms"]

_WHEELS = {"intel-opencl-rt": "libintelocl.so"}
"""Distributions whose driver the OpenCL loader does not find, with the file name of the driver."""

_VENDORS = "OCL_ICD_VENDORS"
_SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")

_SOURCE = (
    "__kernel void svod_probe(__global int *out) { out[get_global_id(0)] = 3 *"
    " (int)get_global_id(0) + 1; }"
)


def list_platforms() -> list[cl.Platform]:
    """Return the platforms of all installed drivers.

    The OpenCL loader searches once per process, so later calls return the same platforms.
    """
    with _register_wheels():
        try:
            return cl.get_platforms()
        except cl.Error:
            # The loader raises an error where it finds no driver.
            return []


@contextmanager
def _register_wheels(system: Path = _SYSTEM_VENDORS) -> Generator[None, None, None]:
    """Make the loader find the drivers of wheels in addition to the drivers of the system.

    Does nothing if the user has set `OCL_ICD_VENDORS`.
    """
    drivers = [] if os.environ.get(_VENDORS) else list(_iter_wheels())
    if not drivers:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="svod-opencl-") as folder:
        for index, driver in enumerate(drivers):
            Path(folder, f"wheel-{index}.icd").write_text(f"{driver}\n")
        for path in system.glob("*.icd"):
            Path(folder, path.name).symlink_to(path)
        # The loader reads the C environment. `os.environ` stays as it is, so Python code and child
        # processes do not see the change.
        os.putenv(_VENDORS, folder)
        try:
            yield
        finally:
            os.unsetenv(_VENDORS)


def _iter_wheels() -> Iterator[Path]:
    for distribution, name in _WHEELS.items():
        try:
            drivers = [
                Path(str(path.locate())).resolve()
                for path in files(distribution) or ()
                if path.name == name
            ]
        except PackageNotFoundError:
            continue
        yield from (path for path in drivers if path.is_file())


def find_fault(device: cl.Device) -> str | None:
    """Return the reason why a device cannot run kernels, in the words of its driver.

    Builds and runs a small kernel. None if the result is right.
    """
    try:
        if not device.available:
            return "the driver says that it is not available"
        if not device.compiler_available:
            return "the driver has no compiler"
        if is_pocl_before(4, device.platform) and not shutil.which("ld"):
            # PoCL 3 ends the process where it does not find the linker.
            return "it links kernels with `ld`, which is not installed: install binutils"
        result = _run_probe(device)
    except BuildFailure as failure:
        return _get_error_line(str(failure))
    except cl.Error as error:
        return str(error)
    return None if result == [1, 4, 7, 10] else f"a kernel returned {result}, not [1, 4, 7, 10]"


def is_pocl_before(major: int, platform: cl.Platform) -> bool:
    """True if the platform is PoCL before the given major version."""
    version = re.search(r"PoCL (\d+)", platform.version)
    return version is not None and int(version[1]) < major


def _run_probe(device: cl.Device) -> Sequence[int]:
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = make_kernel(build_program(context, device, _SOURCE), "svod_probe")
    memory = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, 16)
    kernel.set_arg(0, memory)
    cl.enqueue_nd_range_kernel(queue, kernel, (4,), None)
    result = memoryview(bytearray(16))
    cl.enqueue_copy(queue, result, memory, is_blocking=True)
    return result.cast("i").tolist()


def _get_error_line(text: str) -> str:
    """Return the line of a compiler's output that states the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next(
        (line for line in lines if "error" in line.lower() and "clBuildProgram" not in line),
        lines[-1],
    )
