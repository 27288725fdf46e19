"""OpenCL C to the driver's binaries, which a later process loads without compiling."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, cast

import pyopencl as cl

from svod_codegen.errors import CompileError, LoadError
from svod_device import CompiledSpec, ProgramSpec
from svod_opencl.capabilities import has_exact_division
from svod_opencl.context import DeviceContext

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OpenCLCompiler", "build_binary"]

_LINE = re.compile(r"error[^\n]*?:(\d+):\d+:|:(\d+):\d+:[^\n]*error")


class OpenCLCompiler:
    """Compiles for one device. Equal keys (driver, device, options) give interchangeable binaries."""

    def __init__(self, context: DeviceContext) -> None:
        device = context.device
        self.context = context
        # The default mode contracts nothing by itself and keeps NaN, infinities and signed zeros.
        self.options = (
            "-cl-std=CL1.2",
            *(("-cl-fp32-correctly-rounded-divide-sqrt",) if has_exact_division(device) else ()),
        )
        parts = (
            device.platform.name,
            device.platform.version,
            device.name.strip(),
            device.version,
            device.driver_version,
        )
        self.cache_key = "; ".join((*parts, *self.options))

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        """Build the source for the device.

        Raises:
            CompileError: if the driver rejects it.
        """
        program = cl.Program(self.context.context, spec.source)
        try:
            _build(program, self.options)
        except cl.Error as error:
            message = str(error)
            line = _LINE.search(message)
            raise CompileError(
                compiler=self.context.device.platform.name,
                message=message,
                source=spec.source,
                line=int(line[1] or line[2]) if line else None,
            ) from error
        (binary,) = cast("list[bytes]", program.get_info(cl.program_info.BINARIES))
        return CompiledSpec.from_bytes(spec, binary)


def build_binary(context: DeviceContext, name: str, binary: bytes) -> cl.Program:
    """The program in a binary.

    Raises:
        LoadError: if the driver does not take it.
    """
    try:
        program = cl.Program(context.context, [context.device], [binary])
        _build(program, ())
    except cl.Error as error:
        raise LoadError(symbols=(name,), message=str(error)) from error
    return program


def _build(program: cl.Program, options: Sequence[str]) -> None:
    with warnings.catch_warnings():
        # Whatever a driver has to say of a program that it accepts.
        warnings.simplefilter("ignore", cl.CompilerWarning)
        # The caches of svod keep what is built.
        program.build(list(options), cache_dir=False)  # pyright: ignore[reportArgumentType]
