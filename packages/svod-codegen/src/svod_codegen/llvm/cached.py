"""Compiler with the cache of objects."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from svod_codegen._abi import ABI_VERSION
from svod_codegen._objects import get_object
from svod_codegen.disk_store import DiskStore, get_disk_store, make_key
from svod_codegen.llvm.compiler import COMPILER_FLAGS, compile_ir
from svod_codegen.llvm.target import host_key
from svod_device import CompiledSpec

if TYPE_CHECKING:
    from svod_device import ProgramSpec

__all__ = ["LlvmCompiler", "default_compiler"]


class LlvmCompiler:
    """Compiler of LLVM IR for the host, with a cache.

    It is thread-safe, and threads compile in parallel.
    """

    def __init__(self, store: DiskStore) -> None:
        self._store = store
        # Everything besides the source that determines the object: the launcher's conventions, the
        # passes, LLVM and the processor.
        self._key_head = (f"abi {ABI_VERSION}", COMPILER_FLAGS, host_key())

    @property
    def cache_key(self) -> str:
        """Identification of the compiler, its version, its flags and the CPU."""
        return ";".join(self._key_head)

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        """Compile a kernel to object code.

        Raises:
            CompileError: LLVM rejects the source.
        """
        return CompiledSpec.from_bytes(spec, self.compile_source(spec.source))

    def compile_source(self, source: str) -> bytes:
        """Compile a module to object code."""
        key = make_key(*self._key_head, source)
        return get_object(self._store, key, lambda: compile_ir(source))


@cache
def default_compiler() -> LlvmCompiler:
    """Return the process's compiler, with the store that the environment sets."""
    return LlvmCompiler(get_disk_store("objects"))
