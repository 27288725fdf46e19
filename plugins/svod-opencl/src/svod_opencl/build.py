"""Building of OpenCL programs from source or from the driver's binary."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pyopencl as cl

from svod_ir.forks import hold_across_fork

__all__ = ["BuildFailure", "build_program", "make_kernel"]

_kernel_lock = hold_across_fork(threading.Lock())


class BuildFailure(Exception):
    """The driver's build failed; the message is the driver's build log."""


def build_program(
    context: cl.Context, device: cl.Device, code: str | bytes, options: Sequence[str] = ()
) -> cl.Program:
    """Build source code or a binary for the only device of a context.

    This is `cl.Program(...).build()` without its warning for a non-empty build log of a successful
    build. Warning filters are process-wide: changing them around a build would affect other
    threads.

    Raises:
        BuildFailure: if the driver rejects it.
    """
    internal = cl._cl._Program  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage, reportAttributeAccessIssue]
    try:
        program = (
            internal(context, code)
            if isinstance(code, str)
            else internal(context, [device], [code])
        )
    except cl.Error as error:
        raise BuildFailure(str(error)) from error
    try:
        program._build(" ".join(options).encode(), [device])
    except cl.Error as error:
        # The error has a code only; the log explains it.
        log = program.get_build_info(device, cl.program_build_info.LOG)
        raise BuildFailure(f"{error}\n\n{log}".strip()) from error
    return cl.Program(program)


def make_kernel(program: cl.Program, name: str) -> cl.Kernel:
    """Return a new kernel object with arguments of its own.

    pyopencl generates a Python function for each kernel, under a file name that it takes to be free:
    of two threads that generate one for equal kernels, the second one would warn.
    """
    with _kernel_lock:
        return cl.Kernel(program, name)
