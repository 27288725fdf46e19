"""Progress of kernel compilation: a bar on a terminal if rich is installed, otherwise a line at the
end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TextIO

__all__ = ["show_progress"]

_LOGGER: Final = logging.getLogger("svod.tensor")
_COMPILED: Final = "compile.kernel"
"""Log event of a compiled kernel."""


class _Counter(logging.Handler):
    """Handler that counts compiled kernels."""

    def __init__(self, report: Callable[[int], None]) -> None:
        # A handler and not a callback: the compiler reports kernels as log events only.
        super().__init__(logging.INFO)
        self.n_compiled = 0
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "svod_event", None) == _COMPILED:
            self.n_compiled += 1
            self._report(self.n_compiled)


@contextmanager
def show_progress(out: TextIO) -> Generator[None]:
    """Show on `out` the number of kernels that the block compiles; print nothing if it compiles
    none.
    """
    with _show_bar(out) as report:
        counter = _Counter(report)
        level = _LOGGER.level
        _LOGGER.addHandler(counter)
        # The event has level INFO, which the default level would drop.
        _LOGGER.setLevel(min(_LOGGER.getEffectiveLevel(), logging.INFO))
        try:
            yield
        finally:
            _LOGGER.removeHandler(counter)
            _LOGGER.setLevel(level)
    if counter.n_compiled:
        out.write(f"{counter.n_compiled} kernel{'' if counter.n_compiled == 1 else 's'} compiled\n")


@contextmanager
def _show_bar(out: TextIO) -> Generator[Callable[[int], None]]:
    """Yield a function that reports the number of kernels so far."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError:
        yield _ignore
        return
    if not out.isatty():
        yield _ignore
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(file=out), transient=True) as progress:
        task = progress.add_task("compiling", total=None)

        def report(n_compiled: int) -> None:
            progress.update(task, description=f"compiling kernel {n_compiled}")

        yield report


def _ignore(_n_compiled: int) -> None:
    """Report to no one: there is no terminal, or rich is not installed."""
