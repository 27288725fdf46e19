"""Ctrl-C while memory is written that outlives an execution: it waits until all of it is
written.
"""

from __future__ import annotations

import _signal  # pyright: ignore[reportMissingModuleSource, reportMissingImports]
import threading
from collections.abc import Callable
from signal import SIGINT
from types import FrameType
from typing import Final, cast

__all__ = ["InterruptDelay"]

Handler = Callable[[int, FrameType | None], object]

# Those of `signal` make enumerations of what they return, which takes longer than a small plan.
_get_handler = cast("Callable[[int], object]", _signal.getsignal)  # pyright: ignore[reportUnknownMemberType]
_set_handler = cast("Callable[[int, Handler], object]", _signal.signal)  # pyright: ignore[reportUnknownMemberType]

_NOTE: Final = (
    "raised by the second Ctrl-C, in the middle of a plan: what it writes is of no whole execution"
)


class InterruptDelay:
    """A context in which Ctrl-C waits for the end, so that what is written inside is written as a
    whole or not at all.

    The first Ctrl-C is raised when the context is left; a second one is raised at once, and says
    so. The handler is the program's own in both cases: one that raises nothing goes on as it does
    elsewhere. Other threads than the main one are never interrupted, and inside another delay there
    is nothing to do.

    Example:
        >>> from signal import raise_signal, signal
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
        # None is a handler that Python knows nothing of; SIG_DFL ends the process, and SIG_IGN does
        # nothing.
        if callable(handler) and not isinstance(handler, _Waiting):
            self._handler = _Waiting(handler)
            _set_handler(SIGINT, self._handler)

    def __exit__(self, *_: object) -> None:
        waiting = self._handler
        if waiting is None:
            return
        # What ran inside may have set a handler of its own.
        if _get_handler(SIGINT) is waiting:
            _set_handler(SIGINT, waiting.handler)
        waiting.finish()


class _Waiting:
    """The handler of a delay.

    Attributes:
        handler: the program's own.
    """

    __slots__ = ("_came", "_frame", "handler")

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self._came = False
        self._frame: FrameType | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self._came:
            self._came, self._frame = True, frame
            return
        self._came = False
        try:
            self.handler(number, frame)
        except BaseException as error:
            error.add_note(_NOTE)
            raise

    def finish(self) -> None:
        """Call the program's handler if Ctrl-C came and was not raised."""
        if self._came:
            self._came, frame, self._frame = False, self._frame, None
            self.handler(SIGINT, frame)
