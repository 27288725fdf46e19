"""Reports of profiled executions: table, JSON, and a trace for chrome://tracing or ui.perfetto.dev.

report = plan.profile()                              # or ProfileReport(plan.execute_profiled())
print(report)
report.save_trace("step.json")
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from svod_ir.origins import Origin
from svod_runtime.profile.kernel_profile import FunctionProfile, KernelProfile
from svod_runtime.profile.limits import Limits, get_limits
from svod_runtime.profile.report_table import align_rows, make_rich_table, make_rows
from svod_runtime.profile.summary import KernelSummary, ScopeSummary, get_scope

if TYPE_CHECKING:
    from os import PathLike

    from rich.table import Table

__all__ = ["KernelSummary", "ProfileReport", "ScopeSummary"]


class ProfileReport:
    """Profile events of kernel launches in order, and their sums.

    Args:
        profiles: profile events of one or more executions, in order.
        limits: peak rates of each device; by default the estimates of the devices' targets.
        n_runs: number of executions; tables show their average.
        transfer_times: nanoseconds of each copy of these executions.
        functions: profile events of their custom functions, in order.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import svod_tensor as sv
        >>> from svod_runtime import ProfileReport
        >>> report = ProfileReport(sv.ones((64, 64)).sin().prepare().execute_profiled())
        >>> report.table().splitlines()[0].split()
        ['kernel', 'calls', 'us', 'time', 'GFLOP/s', 'GB/s', 'limit']
        >>> report.explain(max_rows=1).splitlines()[0] == report.summaries()[0].name
        True
        >>> folder = Path(tempfile.mkdtemp())
        >>> with (folder / "table.txt").open("w") as file:
        ...     report.show(file)
        >>> report.save_json(folder / "report.json")
        >>> report.save_trace(folder / "trace.json")  # for ui.perfetto.dev
        >>> sorted(path.name for path in folder.iterdir())
        ['report.json', 'table.txt', 'trace.json']
    """

    def __init__(
        self,
        profiles: Iterable[KernelProfile],
        limits: Mapping[str, Limits] | None = None,
        *,
        n_runs: int = 1,
        transfer_times: Sequence[int] = (),
        functions: Iterable[FunctionProfile] = (),
    ) -> None:
        self.profiles: Sequence[KernelProfile] = tuple(profiles)
        self.functions: Sequence[FunctionProfile] = tuple(functions)
        self.devices = tuple(dict.fromkeys(p.device for p in (*self.profiles, *self.functions)))
        self.limits: Mapping[str, Limits] = (
            get_limits(self.devices) if limits is None else dict(limits)
        )
        self.n_runs = n_runs
        self.transfer_times: Sequence[int] = tuple(transfer_times)

    def __repr__(self) -> str:
        return (
            f"<ProfileReport of {self.n_launches} launches in {self.n_runs} runs,"
            f" {self.elapsed_ns / 1e3:.2f} us>"
        )

    def __str__(self) -> str:
        return "\n\n".join(filter(None, (self.table(), self.explain())))

    def __rich__(self) -> Table:
        return make_rich_table(self, max_rows=40)

    @property
    def elapsed_ns(self) -> int:
        """Total time of all kernels, copies and custom functions."""
        measured = (*self.profiles, *self.functions)
        return sum(p.elapsed_ns for p in measured) + sum(self.transfer_times)

    @property
    def n_launches(self) -> int:
        """Total number of kernel launches."""
        return _count(self.profiles)

    def summaries(self) -> list[KernelSummary]:
        """Return a summary per kernel or custom function, and device, the slowest first."""
        groups: dict[tuple[int | str, str], list[KernelProfile | FunctionProfile]] = {}
        for profile in self.profiles:
            # By identity: kernels of equal names may have different sources.
            groups.setdefault((id(profile.kernel), profile.device), []).append(profile)
        for function in self.functions:
            groups.setdefault((function.name, function.device), []).append(function)
        summaries = [
            # No limits are known of what a function does.
            _summarize(group, self.limits.get(device) if isinstance(code, int) else None)
            for (code, device), group in groups.items()
        ]
        # The slowest first: these are worth a look, and a table may be cut off.
        return sorted(summaries, key=lambda s: s.elapsed_ns, reverse=True)

    def scopes(self) -> list[ScopeSummary]:
        """Return a summary per scope, the slowest first.

        A kernel from several scopes belongs to their common scope.
        """
        groups: dict[str, list[KernelProfile]] = {}
        for profile in self.profiles:
            groups.setdefault(get_scope(profile.origins), []).append(profile)
        summaries = [
            ScopeSummary(name, _count(group), *_add_up(group)) for name, group in groups.items()
        ]
        return sorted(summaries, key=lambda s: s.elapsed_ns, reverse=True)

    def table(self, *, max_rows: int = 40) -> str:
        """Format the kernels as a text table with a final row of totals."""
        return align_rows(make_rows(self, max_rows))

    def explain(self, *, max_rows: int = 40) -> str:
        """Reasons for the opts of the kernels in the table; empty if unknown."""
        summaries = (s for s in self.summaries()[:max_rows] if s.reasons)
        return "\n".join("\n    ".join([s.name, *s.reasons]) for s in summaries)

    def show(self, file: TextIO | None = None, *, max_rows: int = 40) -> None:
        """Print the table, with the package `rich` if it is installed, and the explanations."""
        out = file or sys.stdout
        # An optional dependency; the plain table has the same numbers.
        if find_spec("rich") is None:
            print(self.table(max_rows=max_rows), file=out)
        else:
            from rich.console import Console

            Console(file=out).print(make_rich_table(self, max_rows))
        if why := self.explain(max_rows=max_rows):
            print(f"\n{why}", file=out)

    def to_json(self) -> str:
        """Serialize every launch, and the summary of every kernel and custom function, as JSON."""
        launches = [
            {
                "name": p.name,
                "kind": "kernel" if isinstance(p, KernelProfile) else "function",
                "device": p.device,
                "buffers": p.n_buffers,
                "start_ns": p.start_ns,
                "elapsed_ns": p.elapsed_ns,
                "launches": p.n_launches,
                "operations": p.n_operations,
                "bytes": p.n_bytes,
                "origins": _to_dicts(p.origins),
            }
            for p in self._list_launches()
        ]
        kernels = [
            {
                "name": s.name,
                "device": s.device,
                "launches": s.n_launches,
                "elapsed_ns": s.elapsed_ns,
                "fastest_ns": s.fastest_ns,
                "operations": s.n_operations,
                "bytes": s.n_bytes,
                "gflops": s.gflops,
                "gigabytes_per_second": s.gigabytes_per_second,
                "share_of_limit": s.share_of_limit,
                "bound": s.bound or None,
                "scope": s.scope,
                "origins": _to_dicts(s.origins),
                "reasons": list(s.reasons),
            }
            for s in self.summaries()
        ]
        report = {
            "elapsed_ns": self.elapsed_ns,
            "runs": self.n_runs,
            "transfers_ns": sum(self.transfer_times),
            "kernels": kernels,
            "launches": launches,
        }
        return json.dumps(report, indent=1)

    def to_trace(self) -> str:
        """Serialize every launch as an event of the Trace Event Format, one row per device.

        Source: Trace Event Format (Google, 2016), section "Duration Events", phase X; times in
        microseconds.
        """
        devices = self.devices
        # The clock's zero is arbitrary, and viewers show the time from 0 on.
        measured = self._list_launches()
        begin = min((p.start_ns for p in measured), default=0)
        titles = [
            {"name": "thread_name", "ph": "M", "pid": 0, "tid": index, "args": {"name": device}}
            for index, device in enumerate(devices)
        ]
        launches = [
            {
                "name": p.name,
                "ph": "X",
                "cat": "kernel" if isinstance(p, KernelProfile) else "function",
                "pid": 0,
                "tid": devices.index(p.device),
                "ts": (p.start_ns - begin) / 1e3,
                "dur": p.elapsed_us,
                "args": {
                    "buffers": p.n_buffers,
                    "operations": p.n_operations,
                    "bytes": p.n_bytes,
                    **({"launches": p.n_launches} if p.n_launches > 1 else {}),
                    "GFLOP/s": round(p.gflops, 3),
                    "GB/s": round(p.gigabytes_per_second, 3),
                    **_name_lines(p.origins),
                },
            }
            for p in measured
        ]
        return json.dumps({"traceEvents": [*titles, *launches], "displayTimeUnit": "ns"})

    def save_trace(self, path: str | PathLike[str]) -> None:
        """Write `to_trace` to a file for chrome://tracing or ui.perfetto.dev."""
        Path(path).write_text(self.to_trace())

    def _list_launches(self) -> list[KernelProfile | FunctionProfile]:
        """Kernels and custom functions, in the order in which they ran."""
        # Stable: without times, kernels keep their order.
        return sorted((*self.profiles, *self.functions), key=lambda p: p.start_ns)

    def save_json(self, path: str | PathLike[str]) -> None:
        """Write `to_json` to a file."""
        Path(path).write_text(self.to_json())


def _summarize(
    group: Sequence[KernelProfile | FunctionProfile], limits: Limits | None
) -> KernelSummary:
    bounds = [] if limits is None else [_get_bound(p, limits) for p in group]
    return KernelSummary(
        group[0].name,
        group[0].device,
        _count(group),
        sum(p.elapsed_ns for p in group),
        # A profile of a loop sums launches, but knows its fastest one.
        min(p.elapsed_ns if p.fastest_ns is None else p.fastest_ns for p in group),
        sum(p.n_operations for p in group),
        sum(p.n_bytes for p in group),
        tuple(dict.fromkeys(o for p in group for o in p.origins)),
        sum(1e9 * seconds for seconds, _ in bounds) if bounds else None,
        bounds[0][1] if bounds else "",
        group[0].reasons,
    )


def _count(group: Iterable[KernelProfile | FunctionProfile]) -> int:
    return sum(p.n_launches for p in group)


def _get_bound(profile: KernelProfile | FunctionProfile, limits: Limits) -> tuple[float, str]:
    """Minimum time in seconds of a profile's launches, and the limiting resource.

    The memory level depends on the bytes of one launch.
    """
    n = profile.n_launches
    # The bandwidth depends on the bytes of one launch, which may fit into a cache.
    seconds, bound = limits.get_bound(profile.n_operations // n, profile.n_bytes // n)
    return n * seconds, bound


def _add_up(group: Sequence[KernelProfile]) -> tuple[int, int, int]:
    return (
        sum(p.elapsed_ns for p in group),
        sum(p.n_operations for p in group),
        sum(p.n_bytes for p in group),
    )


def _to_dicts(origins: Iterable[Origin]) -> list[dict[str, object]]:
    return [dict(o._asdict()) for o in origins]


def _name_lines(origins: Sequence[Origin]) -> dict[str, object]:
    """Source lines and scope of a kernel in a trace."""
    if not origins:
        return {}
    scope = get_scope(origins)
    return {
        "from": [f"{o.file}:{o.line} {o.operation}" for o in origins],
        **({"scope": scope} if scope else {}),
    }
