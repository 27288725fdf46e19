"""Drivers: those of the system, those that came as wheels, and which of their devices run a
kernel.
"""

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

from svod_opencl.build import BuildFailure, build_program

__all__ = ["find_fault", "is_pocl_before", "list_platforms"]

_WHEELS = {"intel-opencl-rt": "libintelocl.so"}
"""Distributions with a driver that the loader of drivers does not find by itself, and the driver's
file.
"""

_VENDORS = "OCL_ICD_VENDORS"
_SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")

_SOURCE = (
    "__kernel void svod_probe(__global int *out) { out[get_global_id(0)] = 3 *"
    " (int)get_global_id(0) + 1; }"
)


def list_platforms() -> list[cl.Platform]:
    """The platforms of all drivers that are installed.

    The loader of drivers looks for them once in a process, so that what the first call finds stays.
    """
    with _wheels_listed():
        try:
            return cl.get_platforms()
        except cl.Error:
            # What the loader says where it finds no driver.
            return []


@contextmanager
def _wheels_listed(system: Path = _SYSTEM_VENDORS) -> Generator[None, None, None]:
    """Have the loader find the drivers of wheels beside those of the system; where a user says what
    it reads, that holds.
    """
    drivers = [] if os.environ.get(_VENDORS) else list(_iter_wheels())
    if not drivers:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="svod-opencl-") as folder:
        for number, driver in enumerate(drivers):
            Path(folder, f"wheel-{number}.icd").write_text(f"{driver}\n")
        for path in system.glob("*.icd"):
            Path(folder, path.name).symlink_to(path)
        # The loader asks its own C library. What Python code reads, and hands to processes, stays
        # as it is.
        os.putenv(_VENDORS, folder)
        try:
            yield
        finally:
            os.unsetenv(_VENDORS)


def _iter_wheels() -> Iterator[Path]:
    for distribution, name in _WHEELS.items():
        try:
            found = [
                Path(str(path.locate())).resolve()
                for path in files(distribution) or ()
                if path.name == name
            ]
        except PackageNotFoundError:
            continue
        yield from (path for path in found if path.is_file())


def find_fault(device: cl.Device) -> str | None:
    """Why a device runs no kernels, as its driver says it; None if it has built one, run it, and
    the result is right.
    """
    try:
        if not device.available:
            return "the driver says that it is not available"
        if not device.compiler_available:
            return "the driver has no compiler"
        if is_pocl_before(4, device.platform) and not shutil.which("ld"):
            # It would end the process.
            return "it links kernels with `ld`, which is not here: install binutils"
        found = _run_probe(device)
    except BuildFailure as failure:
        return _last_line(str(failure))
    except cl.Error as error:
        return str(error)
    return None if found == [1, 4, 7, 10] else f"a kernel gave {found} instead of [1, 4, 7, 10]"


def is_pocl_before(major: int, platform: cl.Platform) -> bool:
    """Whether the platform is PoCL of an earlier version."""
    version = re.search(r"PoCL (\d+)", platform.version)
    return version is not None and int(version[1]) < major


def _run_probe(device: cl.Device) -> Sequence[int]:
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(build_program(context, device, _SOURCE), "svod_probe")
    memory = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, 16)
    kernel.set_arg(0, memory)
    cl.enqueue_nd_range_kernel(queue, kernel, (4,), None)
    result = memoryview(bytearray(16))
    cl.enqueue_copy(queue, result, memory, is_blocking=True)
    return result.cast("i").tolist()


def _last_line(text: str) -> str:
    """The line of a compiler's output that says what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next(
        (line for line in lines if "error" in line.lower() and "clBuildProgram" not in line),
        lines[-1],
    )
