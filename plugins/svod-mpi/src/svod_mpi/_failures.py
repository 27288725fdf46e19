"""End of all processes when one of them fails.

A process that ends by an exception leaves the others waiting in a collective, since MPI ends with
all of its processes. So an exception that nobody catches, and a nonzero exit, call `MPI_Abort`.

SIGTERM keeps its default action: a handler in Python would not run before the collective returns.
The signal ends the process at once, and `mpiexec` ends the others, as for SIGKILL and a crash.
"""

from __future__ import annotations

import _thread
import builtins
import os
import signal
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mpi4py import MPI

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["install_hooks"]

_PAUSE_S: Final = 0.25
"""Time for the launcher to forward the message. MPICH's lost one in ten without a pause."""
_DELAY_S: Final = 0.01
"""Time for a hook to return."""
_installed: Final[list[int]] = []
"""The number of the process that installed the hooks; children of a fork are not ranks."""


def install_hooks() -> None:
    """Abort all processes on an exception that nobody catches, and on a nonzero exit.

    The hooks that were there still run, and print the traceback. Nothing changes if there is one
    process.
    """
    if _installed or MPI.COMM_WORLD.Get_size() == 1:
        return
    _installed.append(os.getpid())
    previous, previous_of_threads = sys.excepthook, threading.excepthook
    previous_of_ignored = sys.unraisablehook

    def handle(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        previous(kind, error, traceback)
        # At a prompt, an exception does not end the process.
        if not _is_interactive():
            _abort(_describe(kind, error), 1)

    def handle_in_thread(arguments: threading.ExceptHookArgs) -> None:
        # Threads that call sys.exit end without an error.
        if issubclass(arguments.exc_type, SystemExit):
            return
        previous_of_threads(arguments)
        thread = "a thread" if arguments.thread is None else arguments.thread.name
        _abort(f"{_describe(arguments.exc_type, arguments.exc_value)}, in {thread}", 1)

    def handle_ignored(arguments: sys.UnraisableHookArgs) -> None:
        if not issubclass(arguments.exc_type, KeyboardInterrupt):
            previous_of_ignored(arguments)
            return
        # Python ignores an interrupt in a finalizer. A thread sends it again once this hook has
        # returned: sent here, it would be ignored again.
        _thread.start_new_thread(_interrupt_later, ())

    sys.excepthook, threading.excepthook = handle, handle_in_thread
    sys.unraisablehook = handle_ignored
    sys.exit = _exit
    for name in ("exit", "quit"):
        # A prompt's own functions also close its input.
        if hasattr(builtins, name) and not _is_interactive():
            setattr(builtins, name, _exit)


def _interrupt_later() -> None:
    time.sleep(_DELAY_S)
    os.kill(os.getpid(), signal.SIGINT)


class _Exit(SystemExit):
    """SystemExit whose status tells when the interpreter reads it because nobody caught the exit.

    By the time that atexit functions run, the status is no longer known, and threads that wait in a
    collective would have been joined.
    """

    @property
    def code(self) -> Any:
        status: Any = self.args[0] if self.args else None
        # Whoever catches the exit reads the status from a frame; the interpreter has none left.
        is_uncaught = sys._getframe().f_back is None  # pyright: ignore[reportPrivateUsage]
        if is_uncaught and status not in (None, 0) and not _is_interactive():
            is_byte = isinstance(status, int) and 0 < status < 256
            _abort(f"SystemExit: {status}", int(status) if is_byte else 1)
        return status

    @code.setter
    def code(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, value: Any
    ) -> None:
        self.args = (value,)


# Tracebacks and messages show the type's name.
_Exit.__name__ = _Exit.__qualname__ = "SystemExit"
_Exit.__module__ = "builtins"


def _exit(status: Any = None, /) -> NoReturn:
    """Exit the interpreter by raising SystemExit(status), as `sys.exit` does."""
    raise _Exit() if status is None else _Exit(status)


def _is_interactive() -> bool:
    """Whether there is a prompt, or will be one after the program."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def _describe(kind: type[BaseException], error: BaseException | None) -> str:
    lines = str(error).strip().splitlines() if error is not None else []
    return f"{kind.__name__}: {lines[0]}" if lines else kind.__name__


def _abort(cause: str, status: int) -> None:
    is_running = MPI.Is_initialized() and not MPI.Is_finalized()
    if os.getpid() not in _installed or not is_running:
        return
    world = MPI.COMM_WORLD
    line = (
        f"svod_mpi: rank {world.Get_rank()} of {world.Get_size()} on {socket.gethostname()} failed:"
        f" {cause}; all processes end\n"
    )
    for stream, text in ((sys.stdout, ""), (sys.stderr, line)):
        try:
            # In one piece, since all processes write to one terminal.
            stream.write(text)
            stream.flush()
        # A closed stream, or none, must not keep the others waiting.
        except (AttributeError, OSError, ValueError):
            continue
    try:
        # A launcher drops what it has not read when the abort reaches it.
        time.sleep(_PAUSE_S)
    finally:
        # Also if the user presses Ctrl-C a second time.
        world.Abort(status)
