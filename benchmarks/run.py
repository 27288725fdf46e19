"""Measure svod, compared with numpy, and with torch if it is installed.

    python benchmarks/run.py                     # every workload
    python benchmarks/run.py matmul512 softmax   # some
    python benchmarks/run.py --quick             # small sizes, a few seconds
    python benchmarks/run.py --threads 1         # one thread for each library: for a busy machine

`first` is the time to build the graph, compile and run once, with empty caches and the modules
imported. `svod` is one execution of the prepared plan with allocated memory; `numpy` and `torch`
are one call that allocates its result, `out` writes it to existing memory. Measurements are
interleaved, and the minimum counts; each result is compared with numpy's. The ratios are the peer's
better time over svod's: above 1, svod is faster.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from encoder import Array
from measure import measure_in_turns, restart_with_threads
from peers import Calls, inference_mode, make_numpy_calls, make_torch_calls
from report import describe_machine, format_machine, format_table, format_time, write_json
from workloads import Workload, iter_workloads

SIDES = ("svod", "numpy", "numpy out", "torch", "torch out")
BUSY = 0.5
HEAD = ("workload", "first", *SIDES, "/numpy", "/torch", "rate", "")


def main() -> int:
    arguments = _parse_arguments()
    if arguments.threads is not None:
        restart_with_threads(arguments.threads)
    rows: list[dict[str, Any]] = []
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    if float(machine["load_average"] or 0) > BUSY:
        print(
            "warning: the machine is busy; libraries that wait at barriers for all their threads"
            " look slow now"
        )
    # A cache of an earlier run would hide compile times.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SVOD_CACHE_DIR"] = folder
        _import_compiler()
        for workload in iter_workloads(is_quick=arguments.quick):
            if not arguments.names or workload.name in arguments.names:
                print(f"{workload.name} ...", end=" ", flush=True, file=sys.stderr)
                rows.append(
                    measure_workload(workload, 0.05 if arguments.quick else arguments.seconds)
                )
    print(file=sys.stderr)
    print(
        _format_ratios(rows) if arguments.markdown else format_table(HEAD, map(_format_row, rows))
    )
    path = write_json(
        "run",
        {
            "machine": machine,
            "is_quick": arguments.quick,
            "threads": arguments.threads,
            "rows": rows,
        },
    )
    print(path)
    _plot(rows, path.with_suffix(".png"))
    return 1 if any(row["wrong"] for row in rows) else 0


def measure_workload(workload: Workload, seconds: float) -> dict[str, Any]:
    """Run one workload in every library, and return the row of the report.

    Keys: `name`, `first`, the seconds of each available library, `ratio_numpy` and `ratio_torch`,
    `rate` with its unit, and `wrong`, the libraries whose result does not agree with numpy's.
    """
    expected = np.asarray(workload.numpy(*workload.inputs))
    first, plan, actual = _start_svod(workload)
    calls: Calls = {"svod": plan.execute, **make_numpy_calls(workload, expected)}
    with inference_mode():
        calls |= make_torch_calls(workload, expected)
        wrong = [
            name
            for name, call in calls.items()
            if name.startswith("torch") and not _agrees(workload, expected, call())
        ]
        times = measure_in_turns(calls, seconds)
    if not _agrees(workload, expected, actual):
        wrong.append("svod")
    row: dict[str, Any] = {
        "name": workload.name,
        "first": first,
        **times,
        "kernels": plan.num_kernels,
    }
    for peer in ("numpy", "torch"):
        known = [time for name, time in times.items() if name.startswith(peer)]
        row[f"ratio_{peer}"] = min(known) / times["svod"] if known else None
    return row | {"rate": _rate(workload, times["svod"]), "wrong": wrong}


def _import_compiler() -> None:
    """Compile a small program, so that no workload's first call includes imports."""
    from svod_tensor import Tensor

    (Tensor([1.0, 2.0]) * 3).realize()


def _start_svod(workload: Workload) -> tuple[float, Any, Array]:
    """Return the seconds of the first call, the plan, and the result."""
    from svod_tensor import Tensor

    tensors = [Tensor.from_numpy(array) for array in workload.inputs]
    start = perf_counter()
    result = workload.svod(*tensors)
    plan = result.prepare()
    plan.execute()
    return perf_counter() - start, plan, np.asarray(result.numpy())


def _agrees(workload: Workload, expected: Array, actual: Any) -> bool:
    actual = np.asarray(actual)
    scale = float(np.abs(expected).max()) or 1.0
    limit = workload.tolerance
    return expected.shape == actual.shape and bool(
        np.allclose(expected, actual, rtol=limit, atol=limit * scale)
    )


def _rate(workload: Workload, seconds: float) -> str:
    if workload.flops:
        return f"{workload.flops / seconds / 1e9:.1f} GFLOP/s"
    return f"{workload.moved_bytes / seconds / 1e9:.1f} GB/s" if workload.moved_bytes else ""


def _format_row(row: Mapping[str, Any]) -> list[str]:
    ratios = [_format_ratio(row[f"ratio_{peer}"]) for peer in ("numpy", "torch")]
    verdict = f"WRONG: {', '.join(row['wrong'])}" if row["wrong"] else ""
    return [
        row["name"],
        *(format_time(row.get(key)) for key in ("first", *SIDES)),
        *ratios,
        row["rate"],
        verdict,
    ]


def _format_ratios(rows: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| workload | numpy / svod | torch / svod | rate of svod |", "|---|--:|--:|--:|"]
    for row in rows:
        ratios = [_format_ratio(row[f"ratio_{peer}"]) for peer in ("numpy", "torch")]
        lines.append(f"| `{row['name']}` | {ratios[0]} | {ratios[1]} | {row['rate']} |")
    return "\n".join(lines)


def _format_ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def _plot(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    try:
        from plot import plot_ratios
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    plot_ratios(rows, path)
    print(path)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="workloads to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes and short measurements")
    parser.add_argument(
        "--markdown", action="store_true", help="print the ratios as a table for the README"
    )
    parser.add_argument("--threads", type=int, help="threads of every library (default: all cores)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        help="seconds per workload, for all libraries together",
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
