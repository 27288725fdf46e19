"""Table of a profile report, as text and for the package `rich`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from svod_ir.origins import format_origins

if TYPE_CHECKING:
    from rich.table import Table

    from svod_runtime.profile.summary import KernelSummary


__all__ = ["Summarized", "align_rows", "make_rich_table", "make_rows"]

_HEADER: Final = (
    "kernel",
    "device",
    "calls",
    "us",
    "fastest",
    "time",
    "GFLOP/s",
    "GB/s",
    "limit",
    "scope",
    "from",
)
_FOLDED: Final = frozenset({"kernel", "scope", "from"})
_TEXT: Final = _FOLDED | {"device"}
_SCOPE_WIDTH: Final = 60
"""Maximum width of scopes in the text table: node names of imported models may have hundreds of
characters.
"""


class Summarized(Protocol):
    """Properties of a report that the table shows."""

    @property
    def n_runs(self) -> int: ...

    @property
    def n_launches(self) -> int: ...

    @property
    def transfer_times(self) -> Sequence[int]: ...

    @property
    def devices(self) -> Sequence[str]: ...

    @property
    def elapsed_ns(self) -> int: ...

    def summaries(self) -> Sequence[KernelSummary]: ...


def make_rows(report: Summarized, max_rows: int) -> list[Sequence[str]]:
    """Cells of the table: header, kernels and functions of an average run, omitted ones, copies, total.

    Empty columns are omitted. `limit` is the minimum time of the work divided by the measured time.
    """
    summaries = report.summaries()
    rows: list[Sequence[str]] = [_HEADER, *(_make_row(report, s) for s in summaries[:max_rows])]
    if len(summaries) > max_rows:
        omitted = summaries[max_rows:]
        rows.append(
            _make_sum(
                report,
                f"{len(omitted)} more",
                sum(s.n_launches for s in omitted),
                sum(s.elapsed_ns for s in omitted),
                "",
                "",
            )
        )
    elapsed, transfers = report.elapsed_ns, report.transfer_times
    if transfers:
        rows.append(_make_sum(report, "copies", len(transfers), sum(transfers), "", ""))
    rows.append(
        _make_sum(
            report,
            "all",
            sum(s.n_launches for s in summaries) + len(transfers),
            elapsed,
            _rate(sum(s.n_operations for s in summaries), elapsed),
            _rate(sum(s.n_bytes for s in summaries), elapsed),
        )
    )
    # A report without origins, scopes or several devices would have columns of blanks.
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    return list(zip(*columns, strict=True))


def align_rows(rows: Sequence[Sequence[str]]) -> str:
    """Align the columns: names left, numbers right, long scopes truncated."""
    columns = [
        [_cut(cell) for cell in c] if c[0] == "scope" else c for c in zip(*rows, strict=True)
    ]
    padded = [
        [cell.ljust(width) if column[0] in _TEXT else cell.rjust(width) for cell in column]
        for column in columns
        for width in [max(map(len, column))]
    ]
    return "\n".join("  ".join(row).rstrip() for row in zip(*padded, strict=True))


def _cut(scope: str) -> str:
    return scope if len(scope) <= _SCOPE_WIDTH else f"{scope[: _SCOPE_WIDTH - 3]}..."


def make_rich_table(report: Summarized, max_rows: int) -> Table:
    """Table for a terminal, with the same cells."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    header, *body, total = make_rows(report, max_rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=0)
    for title in header:
        # Narrow terminals fold names; a folded number would be misread.
        if title in _FOLDED:
            table.add_column(title, overflow="fold", min_width=8)
        else:
            table.add_column(title, justify="left" if title in _TEXT else "right", no_wrap=True)
    for row in body:
        table.add_row(*map(Text, row))
    table.add_section()
    table.add_row(*map(Text, total))
    return table


def _make_row(report: Summarized, s: KernelSummary) -> Sequence[str]:
    share = s.share_of_limit
    return (
        s.name,
        s.device if len(report.devices) > 1 else "",
        _count(s.n_launches / report.n_runs),
        _us(s.elapsed_ns / report.n_runs),
        # With one launch it equals the average.
        _us(s.fastest_ns) if s.n_launches > 1 else "",
        _percent(s.elapsed_ns, report.elapsed_ns),
        f"{s.gflops:.2f}",
        f"{s.gigabytes_per_second:.2f}",
        "" if share is None else f"{100 * share:.0f} %",
        s.scope,
        format_origins(s.origins),
    )


def _make_sum(
    report: Summarized, name: str, n_launches: int, elapsed_ns: int, gflops: str, gigabytes: str
) -> Sequence[str]:
    return (
        name,
        "",
        _count(n_launches / report.n_runs),
        _us(elapsed_ns / report.n_runs),
        "",
        _percent(elapsed_ns, report.elapsed_ns),
        gflops,
        gigabytes,
        "",
        "",
        "",
    )


def _rate(amount: int, elapsed_ns: int) -> str:
    return f"{amount / max(elapsed_ns, 1):.2f}"


def _count(average: float) -> str:
    return f"{average:g}"


def _us(elapsed_ns: float) -> str:
    return f"{elapsed_ns / 1e3:.2f}"


def _percent(amount: int, total: int) -> str:
    return f"{100 * amount / max(total, 1):.1f} %"
