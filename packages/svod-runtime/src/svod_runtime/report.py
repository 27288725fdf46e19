"""Reports of profiled executions: a table of text, JSON, and a trace for chrome://tracing or ui.perfetto.dev.

report = ProfileReport(plan.execute_profiled())
print(report.table())
report.write_trace("step.json")
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from svod_runtime.profile import KernelProfile

if TYPE_CHECKING:
    from os import PathLike

    from svod_ir.target import Target

__all__ = ["KernelSummary", "Limits", "ProfileReport"]


class Limits(NamedTuple):
    """What a device could do at best, each second."""

    operations: float
    n_bytes: float

    @staticmethod
    def of(target: Target) -> Limits:
        """The estimates of a target, with all its cores at work."""
        return Limits(target.peak_flops * target.cores, target.memory_bandwidth)


@dataclass(frozen=True, slots=True)
class KernelSummary:
    """All launches of one kernel together."""

    name: str
    device: str
    n_launches: int
    elapsed_ns: int
    fastest_ns: int
    n_operations: int
    n_bytes: int

    @property
    def gflops(self) -> float:
        """10^9 operations a second, on average."""
        return self.n_operations / max(self.elapsed_ns, 1)

    @property
    def gigabytes_per_second(self) -> float:
        return self.n_bytes / max(self.elapsed_ns, 1)

    def share_of(self, limits: Limits) -> float:
        """The time that the work takes at best over the time that it took."""
        best = max(self.n_operations / limits.operations, self.n_bytes / limits.n_bytes)
        return best * 1e9 / max(self.elapsed_ns, 1)


class ProfileReport:
    """Launches of kernels, one after the other, and what they add up to.

    Args:
        profiles: of one or more executions, in order.
        limits: for each device what it could do at best; devices without get no column for it.
    """

    def __init__(self, profiles: Iterable[KernelProfile], limits: Mapping[str, Limits] | None = None) -> None:
        self.profiles: Sequence[KernelProfile] = tuple(profiles)
        self.limits: Mapping[str, Limits] = dict(limits or {})

    @property
    def elapsed_ns(self) -> int:
        """The time of all kernels together."""
        return sum(p.elapsed_ns for p in self.profiles)

    def summaries(self) -> list[KernelSummary]:
        """One for each kernel of each device; the one that took longest first."""
        groups: dict[tuple[int, str], list[KernelProfile]] = {}
        for profile in self.profiles:
            groups.setdefault((id(profile.kernel), profile.device), []).append(profile)
        found = [_summarize(group) for group in groups.values()]
        return sorted(found, key=lambda s: s.elapsed_ns, reverse=True)

    def table(self, *, max_rows: int = 40) -> str:
        """Kernels as a table of text, with a last row for all of them."""
        summaries = self.summaries()
        rows = [_HEADER, *(self._row(s) for s in summaries[:max_rows])]
        if len(summaries) > max_rows:
            rest = sum(s.elapsed_ns for s in summaries[max_rows:])
            rows.append(
                [f"{len(summaries) - max_rows} more", "", "", _us(rest), _percent(rest, self.elapsed_ns), "", "", ""]
            )
        total = KernelSummary(
            "all", "", len(self.profiles), self.elapsed_ns, 0,
            sum(s.n_operations for s in summaries), sum(s.n_bytes for s in summaries),
        )  # fmt: skip
        rows.append(self._row(total))
        return _align(rows)

    def to_json(self) -> str:
        """Every launch, and every kernel's summary, as JSON."""
        launches = [
            {
                "name": p.name, "device": p.device, "buffers": p.n_buffers, "start_ns": p.start_ns,
                "elapsed_ns": p.elapsed_ns, "operations": p.n_operations, "bytes": p.n_bytes,
            }
            for p in self.profiles
        ]  # fmt: skip
        kernels = [
            {
                "name": s.name, "device": s.device, "launches": s.n_launches, "elapsed_ns": s.elapsed_ns,
                "fastest_ns": s.fastest_ns, "operations": s.n_operations, "bytes": s.n_bytes,
                "gflops": s.gflops, "gigabytes_per_second": s.gigabytes_per_second,
                "share_of_limit": s.share_of(self.limits[s.device]) if s.device in self.limits else None,
            }
            for s in self.summaries()
        ]  # fmt: skip
        return json.dumps({"elapsed_ns": self.elapsed_ns, "kernels": kernels, "launches": launches}, indent=1)

    def to_trace(self) -> str:
        """Every launch as an event of the Trace Event Format, one row for each device.

        Source: Trace Event Format (Google, 2016), section "Duration Events", phase X; times in microseconds.
        """
        devices = list(dict.fromkeys(p.device for p in self.profiles))
        origin = min((p.start_ns for p in self.profiles), default=0)
        titles = [
            {"name": "thread_name", "ph": "M", "pid": 0, "tid": number, "args": {"name": device}}
            for number, device in enumerate(devices)
        ]
        launches = [
            {
                "name": p.name, "ph": "X", "cat": "kernel", "pid": 0, "tid": devices.index(p.device),
                "ts": (p.start_ns - origin) / 1e3, "dur": p.elapsed_us,
                "args": {
                    "buffers": p.n_buffers, "operations": p.n_operations, "bytes": p.n_bytes,
                    "GFLOP/s": round(p.gflops, 3), "GB/s": round(p.gigabytes_per_second, 3),
                },
            }
            for p in self.profiles
        ]  # fmt: skip
        return json.dumps({"traceEvents": [*titles, *launches], "displayTimeUnit": "ns"})

    def write_trace(self, path: str | PathLike[str]) -> None:
        """Write `to_trace` to a file, to be opened in chrome://tracing or ui.perfetto.dev."""
        Path(path).write_text(self.to_trace())

    def _row(self, summary: KernelSummary) -> list[str]:
        limits = self.limits.get(summary.device)
        return [
            summary.name, summary.device, str(summary.n_launches), _us(summary.elapsed_ns),
            _percent(summary.elapsed_ns, self.elapsed_ns), f"{summary.gflops:.2f}", f"{summary.gigabytes_per_second:.2f}",
            "" if limits is None else f"{100 * summary.share_of(limits):.0f} %",
        ]  # fmt: skip


_HEADER = ["kernel", "device", "launches", "us", "time", "GFLOP/s", "GB/s", "of limit"]


def _summarize(group: Sequence[KernelProfile]) -> KernelSummary:
    times = [p.elapsed_ns for p in group]
    return KernelSummary(
        group[0].name, group[0].device, len(group), sum(times), min(times), sum(p.n_operations for p in group),
        sum(p.n_bytes for p in group),
    )  # fmt: skip


def _us(elapsed_ns: int) -> str:
    return f"{elapsed_ns / 1e3:.2f}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f} %"


def _align(rows: Sequence[Sequence[str]]) -> str:
    """Columns under each other: names to the left, numbers to the right; columns that only have a title are left out."""
    columns = [c for c in zip(*rows, strict=True) if any(c[1:])]
    padded = [
        [cell.ljust(width) if column[0] in ("kernel", "device") else cell.rjust(width) for cell in column]
        for column in columns
        for width in [max(map(len, column))]
    ]
    return "\n".join("  ".join(row).rstrip() for row in zip(*padded, strict=True))
