"""Errors of svod-codegen.

UserError
└── NoCompilerError (LookupError)     a backend that needs a C compiler, on a system that has none
InternalError
├── RenderError (ValueError)          a node that has no rendering
├── CompileError (RuntimeError)       source text that the compiler rejects
├── CompilerCrashError (RuntimeError) source text that ends the compiler's process
├── CompileTimeoutError (TimeoutError)
└── LoadError (RuntimeError)          object code that cannot be linked into the process
    └── MissingSymbolError            it calls undefined functions
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from svod_dtype import InternalError, UserError

__all__ = [
    "CompileError",
    "CompileTimeoutError",
    "CompilerCrashError",
    "LoadError",
    "MissingSymbolError",
    "NoCompilerError",
    "RenderError",
]


class NoCompilerError(UserError, LookupError):
    """No working C compiler; `tried` has the reason for each compiler that was tried."""

    def __init__(self, *, wanted: str | None, tried: Sequence[str]) -> None:
        self.wanted, self.tried = wanted, tuple(tried)
        super().__init__(
            (
                "no C compiler works here"
                if wanted is None
                else f"the C compiler {wanted!r} does not work"
            ),
            notes=self.tried,
            hint=(
                "install gcc or clang, or set SVOD_CC to the path of one; SVOD_CPU_BACKEND=llvm"
                " needs none"
            ),
        )


class RenderError(InternalError, ValueError):
    """A node that a renderer does not support: lowering should have replaced it, or the linear list
    is malformed.
    """

    def __init__(self, *, problem: str, node: object) -> None:
        self.problem, self.node = problem, node
        super().__init__(f"{node} {problem}")


class CompileError(InternalError, RuntimeError):
    """Source text that the compiler rejects.

    `line` is 1-based, or None if the compiler does not report one. If the compiler is a program,
    `command` compiles the source again, and `stderr` is its output."""

    def __init__(
        self,
        *,
        compiler: str,
        message: str,
        source: str,
        line: int | None = None,
        command: Sequence[str] = (),
        stderr: str = "",
    ) -> None:
        self.compiler, self.message, self.source, self.line = compiler, message, source, line
        self.command, self.stderr = tuple(command), stderr
        notes = () if line is None else _excerpt(source, line)
        hint = f"for the full output, run: {shlex.join(command)}" if command else None
        super().__init__(f"{compiler} rejects generated code: {message}", notes=notes, hint=hint)


class CompilerCrashError(InternalError, RuntimeError):
    """Source text that made the compiler end its process: LLVM aborts if it cannot select an
    instruction.
    """

    def __init__(self, *, exit_status: int, stderr: str, source: str) -> None:
        self.exit_status, self.stderr, self.source = exit_status, stderr, source
        lines = [line for line in stderr.splitlines() if line.strip()]
        reason = next(
            (line for line in lines if "ERROR" in line), lines[0] if lines else "it printed nothing"
        )
        super().__init__(f"the compiler ended with status {exit_status}: {reason}")


class CompileTimeoutError(InternalError, TimeoutError):
    """A compilation that exceeded its time limit and was stopped."""

    def __init__(self, *, seconds: float, source: str) -> None:
        self.seconds, self.source = seconds, source
        super().__init__(f"compiling {len(source)} characters took more than {seconds:g} s")


class LoadError(InternalError, RuntimeError):
    """Object code that cannot be linked into the process."""

    def __init__(self, *, symbols: tuple[str, ...], message: str) -> None:
        self.symbols, self.message = symbols, message
        super().__init__(f"cannot load {', '.join(symbols) or 'object code'}: {message}")


class MissingSymbolError(LoadError):
    """Object code that calls functions which neither the process nor svod's runtime library has."""

    def __init__(self, *, symbols: tuple[str, ...], missing: tuple[str, ...]) -> None:
        self.missing = missing
        super().__init__(symbols=symbols, message=f"undefined symbols: {', '.join(missing)}")


def _excerpt(source: str, line: int) -> tuple[str, ...]:
    """Return the line with two lines of context before and after it, numbered."""
    lines = source.splitlines()
    first = max(0, line - 3)
    return tuple(
        f"{line_number:5d} | {text}"
        for line_number, text in enumerate(lines[first : line + 2], first + 1)
    )
