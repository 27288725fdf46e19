"""Compilation of C to object code, by the system's compiler, with the cache of objects."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from svod_codegen._abi import ABI_VERSION
from svod_codegen._elf import find_process_symbol, list_undefined_symbols
from svod_codegen._objects import get_object
from svod_codegen.disk_store import make_key
from svod_codegen.errors import CompileError, CompilerCrashError, CompileTimeoutError
from svod_device import CompiledSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from svod_codegen.c.toolchain import Toolchain
    from svod_codegen.disk_store import DiskStore
    from svod_device import ProgramSpec

__all__ = ["CCompiler"]

_STEPS_VERSION: Final = 1
"""Version of the steps of this module besides the toolchain's command, part of the cache keys."""

# Far above the time of any kernel: only a compiler that hangs takes so long.
_TIMEOUT_S: Final = 300.0
_MESSAGE: Final = re.compile(
    r"^<stdin>:(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$", re.MULTILINE
)


class CCompiler:
    """Compiler of C for the host, with a cache; thread-safe."""

    def __init__(self, toolchain: Toolchain, store: DiskStore) -> None:
        self.toolchain = toolchain
        self._store = store
        self._key_head = (f"abi {ABI_VERSION}", f"c {_STEPS_VERSION}", toolchain.identity)

    @property
    def cache_key(self) -> str:
        """Identification of the compiler, its version, its flags and the CPU."""
        return ";".join(self._key_head)

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        """Compile a kernel to object code.

        Raises:
            CompileError: The compiler rejects the source.
            CompilerCrashError: The compiler crashes.
            CompileTimeoutError: The compiler takes too long.
        """
        return CompiledSpec.from_bytes(spec, self.compile_source(spec.source))

    def compile_source(self, source: str) -> bytes:
        """Compile a translation unit to object code."""
        key = make_key(*self._key_head, source)
        return get_object(self._store, key, lambda: _compile(self.toolchain, source))


def _compile(toolchain: Toolchain, source: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="svod-") as directory:
        target = Path(directory) / "kernel.o"
        # Through a pipe, not a file: messages then name <stdin>, and so do not differ with the
        # folder.
        command = (*toolchain.command, "-c", "-x", "c", "-", "-o", str(target))
        stderr = _run(command, source, source)
        if stderr is not None:
            raise _make_error(toolchain, stderr, source)
        code = target.read_bytes()
        # A second run of the driver takes as long as the compilation, and few kernels need it.
        missing = [
            name for name in list_undefined_symbols(code) if find_process_symbol(name) is None
        ]
        return _add_runtime(toolchain, target, source) if missing else code


def _add_runtime(toolchain: Toolchain, target: Path, source: str) -> bytes:
    """Link an object with the functions of libgcc that it calls, for arithmetic that the processor
    lacks.
    """
    compiler = toolchain.command[0]
    located = subprocess.run(
        [compiler, "-print-libgcc-file-name"], capture_output=True, text=True, check=False
    )
    joined = target.with_name("joined.o")
    command = (compiler, "-r", "-nostdlib", str(target), located.stdout.strip(), "-o", str(joined))
    # On failure the object is kept as it is: loading it reports the undefined symbols.
    return target.read_bytes() if _run(command, "", source) is not None else joined.read_bytes()


def _run(command: Sequence[str], text: str, source: str) -> str | None:
    """Run a command; return its stderr if it fails, and None if it succeeds."""
    try:
        finished = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CompileTimeoutError(seconds=_TIMEOUT_S, source=source) from None
    stderr = finished.stderr.decode(errors="replace")
    if finished.returncode < 0:
        raise CompilerCrashError(exit_status=finished.returncode, stderr=stderr, source=source)
    return stderr if finished.returncode else None


def _make_error(toolchain: Toolchain, stderr: str, source: str) -> CompileError:
    """Make the exception from the compiler's first error message; the source is kept in a file, so
    that the user can compile it again.
    """
    handle, path = tempfile.mkstemp(prefix="svod-", suffix=".c")
    with os.fdopen(handle, "w") as file:
        file.write(source)
    match = _MESSAGE.search(stderr)
    lines = stderr.strip().splitlines()
    return CompileError(
        compiler=str(toolchain),
        # Messages may be translated: then the first line is all that is known.
        message=match["text"] if match else lines[0] if lines else "no error message",
        source=source,
        line=int(match["line"]) if match else None,
        command=(*toolchain.command, "-c", path),
        stderr=stderr,
    )
