"""Delay of Ctrl-C while a plan writes memory that outlives the execution."""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingModuleSource, reportMissingImports]
import threading
from collections.abc import Callable
from signal import SIGINT
from types import FrameType
from typing import Final, cast

__all__ = ["InterruptDelay"]

Handler = Callable[[int, FrameType | None], object]

# The functions of `signal` convert their results to enumerations, which takes longer than a small
# plan. `_signal` has the same functions without the conversion.
_get_handler = cast("Callable[[int], object]", _signal.getsignal)  # pyright: ignore[reportUnknownMemberType]
_set_handler = cast("Callable[[int, Handler], object]", _signal.signal)  # pyright: ignore[reportUnknownMemberType]

_NOTE: Final = "raised by the second Ctrl-C, while a plan was running: its outputs are incomplete"


class InterruptDelay:
    """Context manager that delays Ctrl-C until its end, so that the writes inside are all or
    nothing.

    The first Ctrl-C is raised when the context exits; a second one is raised immediately, with a
    note. In both cases the program's own handler is called; if it raises nothing, execution
    continues as usual. Only the main thread is interrupted, so other threads and nested delays
    install no handler.

    Example:
        >>> from signal import SIGINT, raise_signal, signal
        >>> from svod_runtime import InterruptDelay
        >>> usual = signal(SIGINT, lambda *_: print("stopped"))
        >>> with InterruptDelay():
        ...     raise_signal(SIGINT)
        ...     print("all is written")
        all is written
        stopped
        >>> _ = signal(SIGINT, usual)
    """

    __slots__ = ("_handler",)

    def __init__(self) -> None:
        self._handler: _Waiting | None = None

    def __enter__(self) -> None:
        if threading.get_ident() != threading.main_thread().ident:
            return
        handler = _get_handler(SIGINT)
        # None means a handler that was not installed from Python. SIG_DFL ends the process and
        # SIG_IGN ignores the signal, so neither needs a delay.
        if callable(handler) and not isinstance(handler, _Waiting):
            self._handler = _Waiting(handler)
            _set_handler(SIGINT, self._handler)

    def __exit__(self, *_: object) -> None:
        waiting = self._handler
        if waiting is None:
            return
        # Code inside the context may have set its own handler, which stays.
        if _get_handler(SIGINT) is waiting:
            _set_handler(SIGINT, waiting.handler)
        waiting.finish()


class _Waiting:
    """Signal handler of a delay.

    Attributes:
        handler: the program's own handler.
    """

    __slots__ = ("_frame", "_is_pending", "handler")

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self._is_pending = False
        self._frame: FrameType | None = None

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        if not self._is_pending:
            self._is_pending, self._frame = True, frame
            return
        # Reset first, so that `finish` does not raise the same interrupt again.
        self._is_pending = False
        try:
            self.handler(signal_number, frame)
        except BaseException as error:
            error.add_note(_NOTE)
            raise

    def finish(self) -> None:
        """Call the program's handler if Ctrl-C was received and not raised."""
        if self._is_pending:
            self._is_pending, frame, self._frame = False, self._frame, None
            self.handler(SIGINT, frame)
