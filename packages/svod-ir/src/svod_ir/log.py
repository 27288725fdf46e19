"""Loggers of svod: structlog's events over the stdlib loggers `svod.*`, silent unless configured.

Enable them as any stdlib logger: `logging.getLogger("svod").setLevel("DEBUG")` and a handler. The
level of the stdlib logger always decides. If the application has called `structlog.configure`, its
processors and its logger get the event, with the data as keys; otherwise the stdlib logger gets one
line of text.

Example:
    >>> from svod_ir.log import EventLogger, get_logger
    >>> logger = get_logger("svod.mine")
    >>> logger.info("mine.done", n_nodes=3)
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from structlog.typing import EventDict

__all__ = ["EventLogger", "get_logger"]

logging.getLogger("svod").addHandler(logging.NullHandler())


class EventLogger(Protocol):
    """The interface of a logger: an event's name, and its data as keywords.

    Example:
        >>> from svod_ir import get_logger
        >>> from svod_ir.log import EventLogger
        >>> def say_done(logger: EventLogger, n_nodes: int) -> None:
        ...     logger.debug("mine.done", n_nodes=n_nodes)
        >>> say_done(get_logger("mine"), 3)
        >>> get_logger("mine").warning("mine.slow", elapsed_us=3)
    """

    def debug(self, event: str, **data: object) -> None:
        """Log an event with its fields at level DEBUG."""
        ...

    def info(self, event: str, **data: object) -> None:
        """Log an event with its fields at level INFO."""
        ...

    def warning(self, event: str, **data: object) -> None:
        """Log an event with its fields at level WARNING."""
        ...


class _LazyLogger:
    """Logger that checks the level first, so that structlog is imported only if an event is
    written.
    """

    def __init__(self, name: str) -> None:
        self._stdlib = logging.getLogger(name)
        self._name = name

    def debug(self, event: str, **data: object) -> None:
        if self._stdlib.isEnabledFor(logging.DEBUG):
            _choose(self._name).debug(event, **data)

    def info(self, event: str, **data: object) -> None:
        if self._stdlib.isEnabledFor(logging.INFO):
            _choose(self._name).info(event, **data)

    def warning(self, event: str, **data: object) -> None:
        if self._stdlib.isEnabledFor(logging.WARNING):
            _choose(self._name).warning(event, **data)


@cache
def get_logger(name: str) -> EventLogger:
    """The logger `svod.<name>`; a name that begins with `svod` is used unchanged."""
    return _LazyLogger(name if name.split(".")[0] == "svod" else f"svod.{name}")


def _choose(name: str) -> EventLogger:
    import structlog

    # Asked for each event: the application may configure structlog after svod was imported.
    return structlog.get_logger(name) if structlog.is_configured() else _bind(name)


@cache
def _bind(name: str) -> EventLogger:
    import structlog

    # The processors are passed here, since an unconfigured structlog prints to the standard output.
    return structlog.wrap_logger(
        logging.getLogger(name),
        processors=[_render],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _render(
    _logger: object, _method: str, event: EventDict
) -> tuple[tuple[str], dict[str, object]]:
    name = str(event.pop("event", ""))
    text = " ".join([name, *(f"{key}={value}" for key, value in event.items())])
    # `extra` keeps the data for handlers that write structured records.
    return (text,), {"extra": {"svod_event": name, "svod_data": dict(event)}}
