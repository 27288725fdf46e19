"""Program of a benchmark with one call per library: its arguments, table and report."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from measure import measure_long, restart_with_threads
from report import describe_machine, format_machine, format_table, format_time, write_json

__all__ = ["Named", "run_benchmark"]

QUICK_SECONDS = 0.05


class Named(Protocol):
    """Workload of a benchmark."""

    @property
    def name(self) -> str: ...


W = TypeVar("W", bound=Named)


def run_benchmark(
    name: str,
    description: str,
    *,
    seconds: float,
    iter_workloads: Callable[[bool], Iterable[W]],
    make_calls: Callable[[W, list[str]], dict[str, Callable[[], object]]],
) -> int:
    """Measure workloads, print a table, write JSON, and return the exit status: 1 if a result is
    wrong.

    Args:
        name: name of the report.
        description: text of `--help`.
        seconds: default of `--seconds`, per workload.
        iter_workloads: iterator over workloads, small ones if its argument is true.
        make_calls: maker of a workload's calls, `svod` and others; it appends a line for each wrong
            result to its second argument.
    """
    arguments = _parse_arguments(description, seconds)
    restart_with_threads(arguments.threads)
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    rows: list[dict[str, Any]] = []
    wrong: list[str] = []
    lines: list[list[str]] = []
    for workload in iter_workloads(arguments.quick):
        if arguments.names and not any(map(workload.name.startswith, arguments.names)):
            continue
        times = measure_long(make_calls(workload, wrong), arguments.seconds)
        rows.append({"name": workload.name, **times})
        lines.append(_format(workload.name, times))
    print(f"\n{format_table(['workload', 'svod', 'others', 'best of others / svod'], lines)}\n")
    print(write_json(name, {"machine": machine, "workloads": rows}))
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


def _format(name: str, times: dict[str, float]) -> list[str]:
    peers = {side: spent for side, spent in times.items() if side != "svod"}
    listed = ", ".join(f"{side} {format_time(spent)}" for side, spent in peers.items()) or "-"
    return [
        name,
        format_time(times["svod"]),
        listed,
        f"{min(peers.values()) / times['svod']:.2f}" if peers else "-",
    ]


def _parse_arguments(description: str, seconds: float) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*", help="prefixes of workload names (default: all)")
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to check that results agree"
    )
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of every library"
    )
    parser.add_argument("--seconds", type=float, default=seconds, help="seconds per workload")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds = QUICK_SECONDS
    return arguments
