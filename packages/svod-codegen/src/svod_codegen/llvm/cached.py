"""The compiler with the disk cache before it, and linking of what svod itself needs compiled."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from svod_codegen.llvm.compiler import COMPILER_FLAGS, compile_many
from svod_codegen.llvm.target import host_key
from svod_codegen.object_cache import ObjectCache, make_key
from svod_codegen.options import CodegenOptions
from svod_device.spec import CompiledSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from svod_device.spec import ProgramSpec

__all__ = ["ABI_VERSION", "LlvmCompiler", "default_compiler"]

ABI_VERSION: Final = 1
"""Of the convention between kernels and their callers; a change makes all cached objects unusable."""


class LlvmCompiler:
    """Compiles LLVM IR for the host, unless the disk cache has the object.

    Every method may be called from several threads; they compile at the same time.
    """

    def __init__(self, cache: ObjectCache | None, *, n_threads: int = 1) -> None:
        self._cache = cache
        self._n_threads = n_threads
        self._key_head = (f"abi {ABI_VERSION}", COMPILER_FLAGS, host_key())

    @property
    def cache_key(self) -> str:
        """Names the compiler, its version, its flags and the CPU."""
        return ";".join(self._key_head)

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        """The object code of a kernel.

        Raises:
            CompileError: LLVM rejects the source.
        """
        return CompiledSpec.from_bytes(spec, self.compile_source(spec.source))

    def compile_many(self, specs: Sequence[ProgramSpec]) -> list[CompiledSpec]:
        """The object code of several kernels, compiled on several threads; equal sources once.

        Raises:
            CompileError: LLVM rejects a source.
        """
        codes = self.compile_sources([spec.source for spec in specs])
        return [CompiledSpec.from_bytes(spec, code) for spec, code in zip(specs, codes, strict=True)]

    def compile_source(self, source: str) -> bytes:
        """The object code of a module."""
        return self.compile_sources((source,))[0]

    def compile_sources(self, sources: Sequence[str]) -> list[bytes]:
        """The object code of several modules, in order."""
        codes: dict[str, bytes] = {}
        missing: list[str] = []
        for source in dict.fromkeys(sources):
            code = self._find(source)
            if code is None:
                missing.append(source)
            else:
                codes[source] = code
        for source, code in zip(missing, compile_many(missing, n_threads=self._n_threads), strict=True):
            codes[source] = code
            if self._cache is not None:
                self._cache.put(self._make_key(source), code)
        return [codes[source] for source in sources]

    def _find(self, source: str) -> bytes | None:
        return None if self._cache is None else self._cache.get(self._make_key(source))

    def _make_key(self, source: str) -> str:
        return make_key(*self._key_head, source)


@cache
def default_compiler() -> LlvmCompiler:
    """The process's compiler, with the cache that the environment asks for."""
    options = CodegenOptions.from_env()
    return LlvmCompiler(ObjectCache.from_options(options, kind="objects"), n_threads=options.threads)
