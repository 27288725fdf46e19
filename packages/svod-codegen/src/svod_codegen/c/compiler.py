"""C text -> object code, with the system's compiler and the store of objects before it."""

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
"""Of what is done here besides the command of the toolchain; a change makes cached objects
unusable.
"""

_TIMEOUT_S: Final = 300.0
_MESSAGE: Final = re.compile(
    r"^<stdin>:(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$", re.MULTILINE
)


class CCompiler:
    """Compiles C for the host, unless the store has the object; every method may be called from
    several threads.
    """

    def __init__(self, toolchain: Toolchain, store: DiskStore) -> None:
        self.toolchain = toolchain
        self._store = store
        self._key_head = (f"abi {ABI_VERSION}", f"c {_STEPS_VERSION}", toolchain.identity)

    @property
    def cache_key(self) -> str:
        """Names the compiler, its version, its flags and the CPU."""
        return ";".join(self._key_head)

    def compile(self, spec: ProgramSpec) -> CompiledSpec:
        """The object code of a kernel.

        Raises:
            CompileError: The compiler rejects the source.
            CompilerCrashError, CompileTimeoutError: It does not end as it should.
        """
        return CompiledSpec.from_bytes(spec, self.compile_source(spec.source))

    def compile_source(self, source: str) -> bytes:
        """The object code of a translation unit."""
        key = make_key(*self._key_head, source)
        return get_object(self._store, key, lambda: _compile(self.toolchain, source))


def _compile(toolchain: Toolchain, source: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="svod-") as directory:
        target = Path(directory) / "kernel.o"
        command = (*toolchain.command, "-c", "-x", "c", "-", "-o", str(target))
        stderr = _run(command, source, source)
        if stderr is not None:
            raise _make_error(toolchain, stderr, source)
        code = target.read_bytes()
        missing = [
            name for name in list_undefined_symbols(code) if find_process_symbol(name) is None
        ]
        return _add_runtime(toolchain, target, source) if missing else code


def _add_runtime(toolchain: Toolchain, target: Path, source: str) -> bytes:
    """Join an object with the functions of the compiler's own library that it calls: arithmetic
    that the processor lacks.
    """
    compiler = toolchain.command[0]
    found = subprocess.run(
        [compiler, "-print-libgcc-file-name"], capture_output=True, text=True, check=False
    )
    joined = target.with_name("joined.o")
    command = (compiler, "-r", "-nostdlib", str(target), found.stdout.strip(), "-o", str(joined))
    # What does not work here shows when the object is loaded, with the names of what is missing.
    return target.read_bytes() if _run(command, "", source) is not None else joined.read_bytes()


def _run(command: Sequence[str], text: str, source: str) -> str | None:
    """What a command prints when it fails, None where it does not."""
    try:
        done = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise CompileTimeoutError(seconds=_TIMEOUT_S, source=source) from None
    stderr = done.stderr.decode(errors="replace")
    if done.returncode < 0:
        raise CompilerCrashError(exit_status=done.returncode, stderr=stderr, source=source)
    return stderr if done.returncode else None


def _make_error(toolchain: Toolchain, stderr: str, source: str) -> CompileError:
    """The first error that the compiler prints; the source stays in a file, to compile it again by
    hand.
    """
    handle, path = tempfile.mkstemp(prefix="svod-", suffix=".c")
    with os.fdopen(handle, "w") as file:
        file.write(source)
    found = _MESSAGE.search(stderr)
    lines = stderr.strip().splitlines()
    return CompileError(
        compiler=str(toolchain),
        message=found["text"] if found else lines[0] if lines else "it prints nothing",
        source=source,
        line=int(found["line"]) if found else None,
        command=(*toolchain.command, "-c", path),
        stderr=stderr,
    )
