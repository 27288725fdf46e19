"""The program of a benchmark whose workloads are one call for each library: its arguments, its
table and its report.
"""

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
    """A workload."""

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
    """Measure workloads, print their times, write them as JSON, and say by the exit status whether
    all results are right.

    Args:
        name: of the report.
        description: for `--help`.
        seconds: for each workload, if `--seconds` does not say otherwise.
        iter_workloads: the workloads, small ones if its argument is true.
        make_calls: the calls of a workload, `svod` and others; a line for each wrong result goes
            into its second argument.
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
    others = {side: spent for side, spent in times.items() if side != "svod"}
    listed = ", ".join(f"{side} {format_time(spent)}" for side, spent in others.items()) or "-"
    return [
        name,
        format_time(times["svod"]),
        listed,
        f"{min(others.values()) / times['svod']:.2f}" if others else "-",
    ]


def _parse_arguments(description: str, seconds: float) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "names", nargs="*", help="the beginnings of names of workloads; all without any"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to see whether everything runs"
    )
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="of every library"
    )
    parser.add_argument("--seconds", type=float, default=seconds, help="for each workload")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds = QUICK_SECONDS
    return arguments
