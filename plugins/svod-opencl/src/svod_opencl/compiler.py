"""Compiler of OpenCL C to the driver's binaries, or to source for a driver with its own cache."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import cast

import pyopencl as cl
from pyopencl.characterize import has_src_build_cache

from svod_codegen import CompileError, LoadError
from svod_device import CompiledSpec, ProgramSpec
from svod_opencl.build import BuildFailure, build_program
from svod_opencl.capabilities import has_exact_division
from svod_opencl.context import DeviceContext
from svod_opencl.options import OpenCLOptions
from svod_opencl.program import OpenCLProgram

__all__ = ["OpenCLCompiler"]

MAX_BUILT = 64
"""Number of built programs that wait to be loaded: more than are compiled at once."""

_LINE = re.compile(r"error[^\n]*?:(\d+):\d+:|:(\d+):\d+:[^\n]*error")


class OpenCLCompiler:
    """Compiler for one device.

    Compilers with equal cache keys (driver, device, options) produce interchangeable binaries.
    """

    def __init__(self, context: DeviceContext) -> None:
        device = context.device
        options = OpenCLOptions.from_env()
        self.context = context
        # No fast-math option: the default mode keeps NaN, infinities and signed zeros.
        self.options = (
            "-cl-std=CL1.2",
            *(("-cl-fp32-correctly-rounded-divide-sqrt",) if has_exact_division(device) else ()),
            *options.build_options,
        )
        driver_and_device = (
            device.platform.name,
            device.platform.version,
            device.name.strip(),
            device.version,
            device.driver_version,
        )
        self.cache_key = "; ".join((*driver_and_device, *self.options))
        self.use_binaries = (
            not has_src_build_cache(device)
            if options.use_binaries is None
            else options.use_binaries
        )
        self._built: OrderedDict[str, cl.Program] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        """Build the source for the device.

        Raises:
            CompileError: if the driver rejects it.
        """
        # Also if the source is kept: an error is raised here and not at the load.
        program = self._build(spec.source)
        if not self.use_binaries:
            self._cache_program(spec.source, program)
            return CompiledSpec.from_source(spec)
        (binary,) = cast("list[bytes]", program.get_info(cl.program_info.BINARIES))
        return CompiledSpec.from_bytes(spec, binary)

    def load(self, compiled: CompiledSpec) -> OpenCLProgram:
        """Load the program of a compiled kernel.

        Raises:
            CompileError: if the driver rejects its source.
            LoadError: if the driver rejects its binary.
        """
        if compiled.source is None:
            program = self._build_binary(compiled.name, compiled.binary)
        else:
            # By source, since a compiled kernel that comes from the disk was not built in this
            # process.
            program = self._built.get(compiled.source) or self._build(compiled.source)
        return OpenCLProgram(self.context, compiled.name, program)

    def _build(self, source: str) -> cl.Program:
        try:
            return build_program(self.context.context, self.context.device, source, self.options)
        except BuildFailure as failure:
            message = str(failure)
            line = _LINE.search(message)
            raise CompileError(
                compiler=self.context.device.platform.name,
                message=message,
                source=source,
                line=int(line[1] or line[2]) if line else None,
            ) from failure

    def _build_binary(self, name: str, binary: bytes) -> cl.Program:
        try:
            # Without options: they are part of the binary, and of the key under which it was found.
            return build_program(self.context.context, self.context.device, binary)
        except BuildFailure as failure:
            raise LoadError(symbols=(name,), message=str(failure)) from failure

    def _cache_program(self, source: str, program: cl.Program) -> None:
        """Cache a built program for the loader, and evict the oldest."""
        with self._lock:
            self._built[source] = program
            while len(self._built) > MAX_BUILT:
                self._built.popitem(last=False)
