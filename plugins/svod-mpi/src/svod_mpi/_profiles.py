"""Profiles of a plan in all processes: one table, and one trace with aligned clocks.

report = svod_mpi.profile(plan, mesh)
print(report)
report.save_trace("step.json")
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from svod_mpi._mesh import get_communicator
from svod_mpi._waits import Wait, record_waits

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from mpi4py import MPI

    import svod_ir
    from svod_runtime import ExecutionPlan, ProfileReport

__all__ = ["MeshReport", "RankProfile", "profile"]

_N_BARRIERS: Final = 25
"""Barriers whose ends align the clocks. The median drops those in which a process was interrupted."""
_HEADER: Final = ("rank", "host", "kernels", "collectives", "waiting", "other", "all us")


class RankProfile(NamedTuple):
    """Times of one process in an average run, in microseconds.

    Attributes:
        rank: number of the process on the mesh.
        host: name of its machine.
        kernels_us: time of kernels.
        collectives_us: time of collectives, once all processes have started them.
        waiting_us: time in collectives until the last process starts them.
        other_us: time of copies and other custom functions.
    """

    rank: int
    host: str
    kernels_us: float
    collectives_us: float
    waiting_us: float
    other_us: float

    @property
    def elapsed_us(self) -> float:
        """Time of a run."""
        return self.kernels_us + self.collectives_us + self.waiting_us + self.other_us


class _Measured(NamedTuple):
    """Times and events of one process; the events begin at `begin_ns` on the clock of the first."""

    profile: RankProfile
    begin_ns: int
    events: list[dict[str, Any]]


class MeshReport:
    """Profiles of a plan in all processes of a mesh, the same in each of them.

    Attributes:
        ranks: the times of each process.
        own: the report of this process, with all of its kernels and functions.
    """

    def __init__(self, own: ProfileReport, measured: Sequence[_Measured], rank: int) -> None:
        self.own = own
        self.ranks = tuple(m.profile for m in measured)
        self._measured, self._rank = measured, rank

    def __repr__(self) -> str:
        return f"<MeshReport of {len(self.ranks)} processes>"

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Format the times of each process in an average run as a text table."""
        rows = [
            _HEADER,
            *(
                (
                    str(r.rank),
                    r.host,
                    *(
                        f"{us:.2f}"
                        for us in (r.kernels_us, r.collectives_us, r.waiting_us, r.other_us)
                    ),
                    f"{r.elapsed_us:.2f}",
                )
                for r in self.ranks
            ),
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in rows
        )

    def to_trace(self) -> str:
        """Serialize the kernels, functions and waits of all processes in the Trace Event Format.

        Each process is a process of the trace, with a row for each device, and one for the time
        that it waits for others in collectives.

        Source: Trace Event Format (Google, 2016), sections "Duration Events" and "Metadata Events".
        """
        begin = min(m.begin_ns for m in self._measured)
        events: list[dict[str, Any]] = []
        for profile, its_begin, its_events in self._measured:
            name = f"rank {profile.rank} on {profile.host}"
            row = {"ph": "M", "pid": profile.rank}
            events.append({"name": "process_name", **row, "args": {"name": name}})
            events.append(
                {"name": "process_sort_index", **row, "args": {"sort_index": profile.rank}}
            )
            for event in its_events:
                moved = {**event, "pid": profile.rank}
                if "ts" in event:
                    moved["ts"] = event["ts"] + (its_begin - begin) / 1e3
                events.append(moved)
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write `to_trace` to a file for chrome://tracing or ui.perfetto.dev, in the first process.

        The other processes may call this too, and write nothing.
        """
        if self._rank == 0:
            Path(path).write_text(self.to_trace())


def profile(plan: ExecutionPlan, mesh: svod_ir.Mesh, *, n_runs: int = 5) -> MeshReport:
    """Profile a plan in all processes of a mesh at once. All of them call this.

    The plan runs once to warm up, then `n_runs` times, each kernel on its own. Collectives begin
    with a barrier of their processes, so that waiting for others is told apart from the exchange.

    Args:
        plan: the plan of this process, such as `x.prepare()`, or `f.plans()[0]` of a captured `f`.
        mesh: the processes.
        n_runs: number of profiled runs.

    Raises:
        ProfileError: if `n_runs` is less than 1.

    Example:
        >>> import svod_mpi
        >>> from svod_tensor import Tensor
        >>> mesh = svod_mpi.Mesh()
        >>> x = Tensor.ones((4, 4)).shard(mesh, {"data": 0})
        >>> report = svod_mpi.profile(x.sum().prepare(), mesh)
        >>> report.table().split()[:4], report.ranks[0].waiting_us
        (['rank', 'host', 'kernels', 'collectives'], 0.0)
    """
    communicator = get_communicator(mesh)
    offset = _measure_clock_offset(communicator)
    with record_waits() as waits:
        report = plan.profile(n_runs=n_runs)
    launches = [*report.profiles, *report.functions]
    begin = min((p.start_ns for p in launches), default=time.perf_counter_ns())
    # Those of the warm-up come before.
    waits = [wait for wait in waits if wait.start_ns >= begin]
    measured = _Measured(
        _sum_times(report, waits, mesh), begin - offset, _list_events(report, waits, begin)
    )
    return MeshReport(report, communicator.allgather(measured), mesh.rank)


def _measure_clock_offset(communicator: MPI.Intracomm) -> int:
    """Nanoseconds by which this process's clock is ahead of that of the first process."""
    ends: list[int] = []
    for _ in range(_N_BARRIERS):
        communicator.Barrier()
        ends.append(time.perf_counter_ns())
    first = communicator.bcast(ends)
    return int(median(own - other for own, other in zip(ends, first, strict=True)))


def _sum_times(report: ProfileReport, waits: Sequence[Wait], mesh: svod_ir.Mesh) -> RankProfile:
    prefix = f"{mesh.transport}."
    launches = [*report.profiles, *report.functions]
    collectives = sum(p.elapsed_ns for p in launches if p.name.startswith(prefix))
    kernels = sum(p.elapsed_ns for p in report.profiles if not p.name.startswith(prefix))
    waiting = sum(wait.elapsed_ns for wait in waits)
    other = report.elapsed_ns - kernels - collectives
    times = (kernels, collectives - waiting, waiting, other)
    return RankProfile(
        mesh.rank, socket.gethostname(), *(time_ns / 1e3 / report.n_runs for time_ns in times)
    )


def _list_events(report: ProfileReport, waits: Sequence[Wait], begin: int) -> list[dict[str, Any]]:
    """Events of this process, from `begin` on."""
    events: list[dict[str, Any]] = json.loads(report.to_trace())["traceEvents"]
    row = {"pid": 0, "tid": len(report.devices)}
    title = {"name": "waiting for other ranks"}
    return [
        *events,
        {"name": "thread_name", "ph": "M", **row, "args": title},
        *(
            {
                "name": "wait",
                "ph": "X",
                "cat": "wait",
                **row,
                "ts": (wait.start_ns - begin) / 1e3,
                "dur": wait.elapsed_ns / 1e3,
            }
            for wait in waits
        ),
    ]
