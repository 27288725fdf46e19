"""Compiling in a process of its own, for source that may crash or hang LLVM: candidates of a search.

    parent -> child:  length, source
    child -> parent:  status, length, object code or message of a `CompileError`

Lengths are 8 bytes, little-endian; the status is one byte. The child ends with its parent, whose end
of the pipe closes.  A child that dies, or is killed because it takes too long, is replaced by the next
compilation.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import threading
from typing import IO, TYPE_CHECKING, Final, NoReturn

from svod_codegen.errors import CompileError, CompilerCrashError, CompileTimeoutError

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["IsolatedCompiler", "serve"]

_DONE, _REJECTED = b"\0", b"\1"
_LENGTH_BYTES: Final = 8


class IsolatedCompiler:
    """Compiles LLVM IR for the host in a child process, each source within `timeout_s` seconds.

    The child starts with the first compilation. For one thread at a time; close it, or use it in a `with` statement.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._child: _Child | None = None

    def __enter__(self) -> IsolatedCompiler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def compile(self, source: str) -> bytes:
        """The object code of a module.

        Raises:
            CompileError: LLVM rejects the source.
            CompilerCrashError: LLVM ends its process.
            CompileTimeoutError: It takes too long; starting the child does not count.
        """
        if self._child is None:
            self._child = _Child()
        child, is_late = self._child, threading.Event()

        def stop() -> None:
            is_late.set()
            child.kill()

        timer = threading.Timer(self._timeout_s, stop)
        timer.start()
        try:
            return child.compile(source)
        except _ChildGoneError as gone:
            self._child = None
            if is_late.is_set():
                raise CompileTimeoutError(seconds=self._timeout_s, source=source) from None
            raise CompilerCrashError(exit_status=gone.status, stderr=gone.stderr, source=source) from None
        finally:
            timer.cancel()
            timer.join()
            if is_late.is_set() and self._child is not None:
                self.close()  # it was killed just after it had answered

    def close(self) -> None:
        """End the child."""
        if self._child is not None:
            self._child.kill()
            self._child.clean_up()
            self._child = None


class _ChildGoneError(Exception):
    """The child closed its pipe."""

    def __init__(self, status: int, stderr: str) -> None:
        self.status, self.stderr = status, stderr
        super().__init__(status)


class _Child:
    """A process that runs `serve`, ready to compile."""

    def __init__(self) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by clean_up()
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from svod_codegen.llvm.isolated import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        self._read(1)  # it has imported LLVM

    def compile(self, source: str) -> bytes:
        try:
            _write(self._to, source.encode())
        except OSError:
            self._fail()
        status = self._read(1)
        content = self._read(int.from_bytes(self._read(_LENGTH_BYTES), "little"))
        if status == _DONE:
            return content
        raise CompileError(compiler="LLVM", message=content.decode(), source=source)

    def kill(self) -> None:
        """End the process; any thread may do so, also while another one waits for an answer."""
        self._process.kill()

    def clean_up(self) -> tuple[int, str]:
        """Wait for the end of the process; its exit status, and what it printed."""
        status = self._process.wait()
        self._stderr.seek(0)
        stderr = self._stderr.read().decode(errors="replace")
        for file in (self._from, self._stderr):
            file.close()
        with contextlib.suppress(OSError):  # what was not sent cannot be flushed any more
            self._to.close()
        return status, stderr

    def _read(self, n_bytes: int) -> bytes:
        content = self._from.read(n_bytes)
        if len(content) < n_bytes:
            self._fail()
        return content

    def _fail(self) -> NoReturn:
        raise _ChildGoneError(*self.clean_up())


def serve() -> None:
    """The child's side: compile what comes in until the pipe closes."""
    from svod_codegen.llvm.compiler import compile_ir
    from svod_codegen.llvm.target import host_cpu

    source_pipe, result_pipe = sys.stdin.buffer, sys.stdout.buffer
    host_cpu()
    result_pipe.write(_DONE)
    result_pipe.flush()
    while len(length := source_pipe.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
        source = source_pipe.read(int.from_bytes(length, "little")).decode()
        try:
            status, content = _DONE, compile_ir(source)
        except CompileError as error:
            status, content = _REJECTED, error.message.encode()
        result_pipe.write(status)
        _write(result_pipe, content)


def _write(pipe: IO[bytes], content: bytes) -> None:
    pipe.write(len(content).to_bytes(_LENGTH_BYTES, "little"))
    pipe.write(content)
    pipe.flush()
