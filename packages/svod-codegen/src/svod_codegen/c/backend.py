"""Backend `CPU.c`: C, compiled by the system's compiler, linked and run like the code of `CPU.llvm`."""

from __future__ import annotations

from svod_codegen.c.compiler import CCompiler
from svod_codegen.c.gnu import GnuCRenderer
from svod_codegen.c.toolchain import get_toolchain, make_c_target
from svod_codegen.disk_store import get_disk_store
from svod_codegen.launcher import CPU_LAUNCHER, CpuProgram
from svod_codegen.llvm.target import host_target
from svod_codegen.options import CodegenOptions
from svod_device import Backend

__all__ = ["make_c_backend"]


def make_c_backend(device: str) -> Backend:
    """Factory of the entry point `CPU.c`.

    Raises:
        NoCompilerError: if the system has no C compiler.

    Example:
        >>> from svod_codegen.c import GnuCRenderer
        >>> from svod_codegen.c.backend import make_c_backend
        >>> backend = make_c_backend("CPU")
        >>> isinstance(backend.renderer, GnuCRenderer), backend.is_host_parallel_safe
        (True, True)
    """
    del device
    options = CodegenOptions.from_env()
    toolchain = get_toolchain(options.cc, contracts=options.contracts)
    target = make_c_target(host_target(), toolchain)
    return Backend(
        renderer=GnuCRenderer(target),
        compiler=CCompiler(toolchain, get_disk_store("objects")),
        loader=CpuProgram.load,
        target=target,
        launcher=CPU_LAUNCHER,
        is_host_parallel_safe=True,
    )
