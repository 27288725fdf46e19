"""Programs that a driver builds, from source or from a binary of its own."""

from __future__ import annotations

from collections.abc import Sequence

import pyopencl as cl

__all__ = ["BuildFailure", "build_program"]


class BuildFailure(Exception):
    """A driver does not build a program; the message is what it says."""


def build_program(
    context: cl.Context, device: cl.Device, code: str | bytes, options: Sequence[str] = ()
) -> cl.Program:
    """Build the source, or the binary, for the one device of its context.

    This is `cl.Program(...).build()` without its warning of whatever a driver says about a program
    that it accepts. Filters of warnings belong to the process: changed around a build, they would
    change for other threads, or be changed by them.

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
        log = program.get_build_info(device, cl.program_build_info.LOG)
        raise BuildFailure(f"{error}\n\n{log}".strip()) from error
    return cl.Program(program)
