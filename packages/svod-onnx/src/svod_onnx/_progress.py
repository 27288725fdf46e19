"""How far the compilation of kernels is: a bar by rich, where that is installed and somebody looks, or a line at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TextIO

__all__ = ["show_progress"]

_LOGGER: Final = logging.getLogger("svod.tensor")
_COMPILED: Final = "compile.kernel"
"""The event that is logged for each kernel that is compiled."""


class _Counter(logging.Handler):
    """Counts the kernels that are compiled."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        super().__init__(logging.INFO)
        self.n_compiled = 0
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "svod_event", None) == _COMPILED:
            self.n_compiled += 1
            self._tell(self.n_compiled)


@contextmanager
def show_progress(out: TextIO) -> Generator[None]:
    """Show on `out` how many kernels the block compiles; nothing where it compiles none."""
    with _showing_bar(out) as tell:
        counter = _Counter(tell)
        level = _LOGGER.level
        _LOGGER.addHandler(counter)
        _LOGGER.setLevel(min(_LOGGER.getEffectiveLevel(), logging.INFO))
        try:
            yield
        finally:
            _LOGGER.removeHandler(counter)
            _LOGGER.setLevel(level)
    if counter.n_compiled:
        out.write(f"{counter.n_compiled} kernel{'' if counter.n_compiled == 1 else 's'} compiled\n")


@contextmanager
def _showing_bar(out: TextIO) -> Generator[Callable[[int], None]]:
    """What is told how many kernels there are so far."""
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

        def tell(n_compiled: int) -> None:
            progress.update(task, description=f"compiling kernel {n_compiled}")

        yield tell


def _ignore(_n_compiled: int) -> None:
    """Nobody looks."""
