"""The backend `CPU.llvm`: LLVM IR, compiled in the process, run by the native launcher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svod_codegen.launcher import CPU_LAUNCHER, CpuProgram
from svod_codegen.llvm.cached import default_compiler
from svod_codegen.llvm.renderer import render
from svod_codegen.llvm.target import host_target
from svod_device import Backend
from svod_ir import Target, UOp

__all__ = ["make_llvm_backend"]


def make_llvm_backend(device: str) -> Backend:
    """The factory behind the entry point `CPU.llvm`; every CPU device shares one compiler, one launcher and one thread pool."""
    del device
    target = host_target()
    return Backend(
        renderer=_LlvmRenderer(target),
        compiler=default_compiler(),
        loader=CpuProgram.load,
        target=target,
        launcher=CPU_LAUNCHER,
        is_host_parallel_safe=True,
    )


@dataclass(frozen=True, slots=True)
class _LlvmRenderer:
    """Writes kernels for one target."""

    target: Target

    def render(self, linear: Sequence[UOp], name: str) -> str:
        return render(tuple(linear), name, self.target)
