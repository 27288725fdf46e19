"""Display of searches: a progress bar or lines while they run, and a table at the end."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from svod_ir import format_opts
from svod_schedule.optimize.beam import Tried
from svod_schedule.optimize.candidates import Timed

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from svod_schedule.optimize.beam import Event
    from svod_tensor.tuning.choose import Tuned

__all__ = [
    "Lines",
    "Observed",
    "RichBar",
    "format_run_gain",
    "format_seconds",
    "format_table",
    "make_observer",
]

_COLUMNS: Final = ("kernel", "before", "after", "gain", "tried", "dropped", "opts")


class Observed(Protocol):
    """An observer that collects results, and is entered while there is progress to show."""

    tuned: list[Tuned]

    def begin(self, n_kernels: int, seconds: float) -> None: ...
    def note(self, event: Event) -> None: ...
    def end(self, tuned: Tuned) -> None: ...
    def skip(self, n_kernels: int) -> None: ...
    def show(self) -> AbstractContextManager[object]: ...


class Lines:
    """One line for each finished kernel."""

    def __init__(self, out: TextIO) -> None:
        self.tuned: list[Tuned] = []
        self._out = out
        self._n_left = 0

    def show(self) -> AbstractContextManager[object]:
        """Lines need no preparation."""
        return nullcontext()

    def begin(self, n_kernels: int, seconds: float) -> None:
        """Write the number of kernels and the time limit."""
        self._n_left = n_kernels
        plural = "" if n_kernels == 1 else "s"
        self._out.write(f"searching {n_kernels} kernel{plural}, for {seconds:.0f} s at most\n")
        self._out.flush()

    def note(self, event: Event) -> None:
        """Ignore single candidates."""

    def end(self, tuned: Tuned) -> None:
        """Write the result for a kernel."""
        self.tuned.append(tuned)
        # Known kernels are not in the number that `begin` got.
        if not tuned.was_known:
            self._n_left -= 1
            self._out.write(
                f"{tuned.name}: {_format_gain(tuned)} in {tuned.spent_seconds:.1f} s,"
                f" {self._n_left} left\n"
            )
            self._out.flush()

    def skip(self, n_kernels: int) -> None:
        """Write the number of kernels that were not searched."""
        self._out.write(f"{_format_skipped(n_kernels)}\n")
        self._out.flush()


def _format_skipped(n_kernels: int) -> str:
    noun = "1 kernel" if n_kernels == 1 else f"{n_kernels} kernels"
    return f"no time is left for {noun}, which use the heuristics' choice: run again to continue"


class RichBar:
    """A progress bar over the kernels of a plan, with the best time so far."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self.tuned: list[Tuned] = []
        # Output of the script is printed above the bar, unless stdout is redirected.
        is_shown = sys.stdout.isatty()
        self._progress = Progress(
            *columns, console=Console(stderr=True), transient=True, redirect_stdout=is_shown
        )
        self._task = self._progress.add_task("", total=None, visible=False)
        self._n_tried = 0
        self._best: float | None = None

    def show(self) -> AbstractContextManager[object]:
        """Let the bar own the terminal; output of the script is printed above it."""
        return self._progress

    def begin(self, n_kernels: int, seconds: float) -> None:
        """Restart the bar."""
        del seconds
        self._progress.reset(self._task, total=n_kernels, visible=True, description="searching")
        self._reset()

    def note(self, event: Event) -> None:
        """Count a candidate."""
        if isinstance(event, Tried):
            self._n_tried += 1
            if isinstance(event.outcome, Timed):
                self._best = min(event.outcome.seconds, self._best or event.outcome.seconds)
            name = event.candidate.kernel.arg.name
            best = "" if self._best is None else f", {format_seconds(self._best)}"
            self._progress.update(self._task, description=f"{name}: {self._n_tried} tried{best}")

    def end(self, tuned: Tuned) -> None:
        """Advance the bar by one kernel."""
        self.tuned.append(tuned)
        if not tuned.was_known:
            self._progress.advance(self._task)
            self._reset()

    def skip(self, n_kernels: int) -> None:
        """Print above the bar how many kernels were not searched."""
        self._progress.console.print(_format_skipped(n_kernels))

    def _reset(self) -> None:
        self._n_tried, self._best = 0, None


def make_observer(out: TextIO) -> Observed:
    """A progress bar if `out` is a terminal and the package rich is installed, lines otherwise."""
    if out.isatty():
        try:
            return RichBar()
        # rich is an optional dependency.
        except ImportError:
            pass
    return Lines(out)


def format_seconds(seconds: float) -> str:
    """A time with three significant digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def format_table(tuned: list[Tuned]) -> str:
    """A table with a row for each kernel, the slowest first, and totals."""
    rows: list[tuple[str, ...]] = [_COLUMNS]
    for t in sorted(tuned, key=lambda t: -(t.heuristic_seconds or 0.0)):
        opts = (
            "as the heuristics chose"
            if t.opts == t.heuristic_opts
            else format_opts(t.opts) or "none"
        )
        rows.append(
            (
                t.name,
                *_format_times(t.heuristic_seconds, t.seconds),
                str(t.n_tried),
                str(t.n_dropped),
                opts,
            )
        )
    measured = [t for t in tuned if t.heuristic_seconds is not None and t.seconds is not None]
    totals = (
        sum(t.heuristic_seconds or 0.0 for t in measured),
        sum(t.seconds or 0.0 for t in measured),
    )
    n_tried, n_dropped = sum(t.n_tried for t in tuned), sum(t.n_dropped for t in tuned)
    rows.append(("total", *_format_times(*totals), str(n_tried), str(n_dropped), ""))
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS) - 1)]
    return "\n".join(_format_row(row, widths) for row in rows)


def format_run_gain(tuned: list[Tuned]) -> str | None:
    """A line with the gain of all launches together; None if each kernel was launched once."""
    measured = [
        (t.n_launches * t.heuristic_seconds, t.n_launches * t.seconds)
        for t in tuned
        if t.heuristic_seconds is not None and t.seconds is not None
    ]
    if not measured or all(t.n_launches == 1 for t in tuned):
        return None
    before, after, gain = _format_times(*map(sum, zip(*measured, strict=True)))
    n_launches = sum(t.n_launches for t in tuned)
    return f"all {n_launches} launches of this run: {before} before, {after} after, {gain}"


def _format_row(row: tuple[str, ...], widths: list[int]) -> str:
    name, *numbers, opts = row
    cells = [
        name.ljust(widths[0]),
        *(n.rjust(w) for n, w in zip(numbers, widths[1:], strict=True)),
        opts,
    ]
    return "  ".join(cells).rstrip()


def _format_times(before: float | None, after: float | None) -> tuple[str, str, str]:
    times = ["-" if t is None else format_seconds(t) for t in (before, after)]
    return times[0], times[1], f"{before / after:.2f}x" if before and after else "-"


def _format_gain(tuned: Tuned) -> str:
    before, after, gain = _format_times(tuned.heuristic_seconds, tuned.seconds)
    return f"{before} -> {after} ({gain})"
