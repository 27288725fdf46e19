"""The device ODD: a CPU whose compiler and code misbehave as the opts of a kernel tell, by a plan
in a file.

The file `ODD_PLAN` maps names of opts to what the first kernel with such an opt does.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import time
from dataclasses import replace
from pathlib import Path

from svod_codegen.backend import make_llvm_backend
from svod_codegen.launcher import CpuProgram
from svod_device import Backend, CompiledSpec, HostAllocator, ProgramSpec

__all__ = ["make_allocator", "make_backend"]

_MARK = b"\nodd:"


class OddAllocator(HostAllocator):
    """Memory that, where `ODD_PROCESS` says so, one process alone may open; `ODD_IS_EXCLUSIVE` lets
    it say that.
    """

    def __init__(self, device: str) -> None:
        super().__init__(device)
        owner = os.environ.get("ODD_PROCESS", "")
        if owner and owner != str(os.getpid()):
            raise OSError(f"device ODD is open in process {owner}")
        self.is_exclusive = "ODD_IS_EXCLUSIVE" in os.environ


def make_allocator(device: str) -> OddAllocator:
    return OddAllocator(device)


def make_backend(device: str) -> Backend:
    backend = make_llvm_backend(device)
    return replace(backend, compiler=OddCompiler(backend.compiler), loader=load, launcher=None)


def read_plan() -> dict[str, str]:
    return json.loads(Path(os.environ["ODD_PLAN"]).read_text())


class OddCompiler:
    def __init__(self, inner: object) -> None:
        self.inner = inner
        self.cache_key = f"odd {inner.cache_key}"

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        names = [opt.op.value for opt in spec.ast.arg.applied_opts or ()]
        behaviour = next((b for name, b in read_plan().items() if name in names), "")
        match behaviour:
            case "compile: abort":
                os.abort()
            case "compile: endless":
                while True:
                    time.sleep(0.01)
            case "compile: eat memory":
                eaten = []
                while True:
                    eaten.append(mmap.mmap(-1, 1 << 30))
            case "compile: raise":
                raise ValueError("no such instruction")
            case _:
                compiled = self.inner.compile(spec)
                return replace(compiled, binary=compiled.binary + _MARK + behaviour.encode())


class OddProgram:
    def __init__(self, program: CpuProgram, behaviour: str) -> None:
        self.program, self.behaviour = program, behaviour
        self.name, self.entry = program.name, None

    def __call__(self, buffers, values, global_size, local_size=None) -> None:
        if self.behaviour != "run: nothing":
            self.program(buffers, values, global_size, local_size)
        match self.behaviour:
            case "run: crash":
                ctypes.string_at(0)
            case "run: endless":
                while True:
                    time.sleep(0.01)
            case "run: raise":
                raise OSError("the device is gone")
            case "run: wrong":
                ctypes.memset(buffers[0], 0, 4)
            case _:
                pass


def load(compiled: CompiledSpec) -> OddProgram:
    binary, _, behaviour = compiled.binary.partition(_MARK)
    return OddProgram(CpuProgram.load(replace(compiled, binary=binary)), behaviour.decode())
