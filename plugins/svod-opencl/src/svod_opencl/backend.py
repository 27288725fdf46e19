"""The backend `OPENCL.c`: OpenCL C, compiled by the device's driver."""

from __future__ import annotations

from svod_device import Backend
from svod_opencl.capabilities import has_exact_division, make_target, max_vector_bytes
from svod_opencl.compiler import OpenCLCompiler
from svod_opencl.context import get_context
from svod_opencl.launcher import OpenCLBatchLauncher
from svod_opencl.renderer import OpenCLRenderer

__all__ = ["make_backend"]


def make_backend(device: str) -> Backend:
    """Return the backend of an OpenCL device: the factory of the entry point `OPENCL.c`."""
    context = get_context(device)
    target = make_target(context.device)
    compiler = OpenCLCompiler(context)
    return Backend(
        renderer=OpenCLRenderer(
            target,
            has_exact_division=has_exact_division(context.device),
            vector_bytes=max_vector_bytes(context.device),
        ),
        compiler=compiler,
        loader=compiler.load,
        target=target,
        launcher=OpenCLBatchLauncher(context),
    )
