"""Progress of a loop: a bar on a terminal, lines of text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TextIO, TypeVar

__all__ = ["Progress", "progress"]

T = TypeVar("T")

_N_LINES: Final = 10
"""Number of lines written for a loop of known length if the output is not a terminal."""


def progress(
    items: Iterable[T], total: int | None = None, *, text: str = "", file: TextIO | None = None
) -> Progress[T]:
    """Iterate over items and display the progress.

    Args:
        items: iterable of items.
        total: number of items; by default `len(items)` if it has a length.
        text: text before the bar.
        file: output file; by default the standard error. On a terminal, a bar is drawn with rich if
            it is installed (the extra `progress`). Elsewhere ten lines are written, or one for each
            power of two if the total is unknown.

    Returns:
        an iterable of the items, whose `show(loss=...)` displays values beside the bar.

    Example:
        >>> import sys
        >>> from svod_nn import progress
        >>> bar = progress(range(2), text="step", file=sys.stdout)
        >>> for n in bar:
        ...     bar.show(loss=1 / (n + 1))
        step 1/2 loss=1
        step 2/2 loss=0.5
    """
    return Progress(items, total, text=text, file=file)


class Progress(Generic[T]):
    """Iterable that displays its progress, the result of `progress`, which describes the arguments.

    Example:
        >>> import sys
        >>> from svod_nn import Progress
        >>> list(Progress("ab", file=sys.stdout))
        1/2
        2/2
        ['a', 'b']
        >>> for letter in (shown := Progress("ab", file=sys.stdout)):
        ...     shown.show(letter=letter)
        1/2 letter=a
        2/2 letter=b
    """

    def __init__(
        self,
        items: Iterable[T],
        total: int | None = None,
        *,
        text: str = "",
        file: TextIO | None = None,
    ) -> None:
        self._items, self._text, self._file = items, text, file or sys.stderr
        self._total = _find_length(items) if total is None else total
        self._values: dict[str, object] = {}

    def show(self, **values: object) -> None:
        """Set values to display; tensors are read only when they are written."""
        self._values.update(values)

    def __iter__(self) -> Iterator[T]:
        # A bar redraws its line, which fills a log file with control codes.
        bar = _find_bar(self._file, self._total, self._text) or _Lines(
            self._file, self._total, self._text
        )
        with bar:
            for n_done, item in enumerate(self._items, 1):
                yield item
                # After the body of the loop, so that only finished items count and values shown in
                # it belong to them.
                bar.advance(n_done, self._values)


class _Lines:
    """Progress as lines of text."""

    def __init__(self, file: TextIO, total: int | None, text: str) -> None:
        self._file, self._total, self._text = file, total, text

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def advance(self, n_done: int, values: dict[str, object]) -> None:
        total = self._total
        # One line for each tenth, or for each power of two.
        is_due = (
            not n_done & (n_done - 1)
            if total is None
            else n_done * _N_LINES // total > (n_done - 1) * _N_LINES // total
        )
        if is_due:
            count = str(n_done) if total is None else f"{n_done}/{total}"
            self._file.write(
                " ".join([*([self._text] if self._text else []), count, *_format(values)]) + "\n"
            )
            self._file.flush()


class _RichBar:
    """Progress bar of rich."""

    def __init__(self, file: TextIO, total: int | None, text: str) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress as RichProgress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        values = TextColumn("{task.fields[values]}")
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            values,
            console=Console(file=file),
        )
        self._task = self._bar.add_task(text, total=total, values="")

    def __enter__(self) -> None:
        self._bar.start()

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, n_done: int, values: dict[str, object]) -> None:
        self._bar.update(self._task, completed=n_done, values=" ".join(_format(values)))


def _find_bar(file: TextIO, total: int | None, text: str) -> _RichBar | None:
    """Return a bar; None if the file is not a terminal, or rich is not installed."""
    if not file.isatty():
        return None
    try:
        return _RichBar(file, total, text)
    except ImportError:
        return None


def _find_length(items: Iterable[object]) -> int | None:
    try:
        return len(items)  # pyright: ignore[reportArgumentType]
    except TypeError:
        return None


def _format(values: dict[str, object]) -> list[str]:
    return [f"{name}={_format_value(value)}" for name, value in values.items()]


def _format_value(value: object) -> str:
    try:
        return f"{float(value):.4g}"  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        return str(value)
