"""Measure the gains of a search: the workloads' kernels with the heuristics' opts and with tuned
opts.

    python benchmarks/tune.py                      # all workloads, 20 s for each kernel: some ten minutes
    python benchmarks/tune.py matmul512 softmax    # some
    python benchmarks/tune.py --quick --seconds 5  # small sizes

In the table of kernels both times are from the last comparison of a search, interleaved; kernels
whose gain is less than 2 percent keep the heuristics' opts. `tried` counts candidates, `dropped`
the candidates that exceeded a limit, did not compile, or were stopped early. The table of workloads
times the whole plans afterwards, interleaved with numpy and torch; its ratios are the other time
over the time of the tuned plan.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from math import exp, log
from typing import Any

import numpy as np

from measure import measure_in_turns
from peers import Calls, inference_mode, make_numpy_calls, make_torch_calls
from report import describe_machine, format_machine, format_table, format_time, write_json
from svod_ir import format_opts
from svod_schedule import OptimizerConfig
from svod_tensor import PrepareConfig, Tensor
from svod_tensor.tuning.choose import Tuned, observe
from svod_tensor.tuning.progress import Lines
from workloads import Workload, iter_workloads

SKIPPED = (
    "dispatch",
    "dispatch100",
    "demo",
    "encoder4x32",
    "encoder8x128",
    "resnet18",
    "vad-chunk",
    "decode",
)
"""Skipped workloads: calls with little work, and models, whose kernels mostly occur elsewhere."""

PLANS_HEAD = ("workload", "heuristics", "searched", "/heuristics", "/numpy", "/torch")
HEAD = (
    "workload",
    "kernel",
    "heuristics",
    "searched",
    "gain",
    "tried",
    "dropped",
    "seconds",
    "opts",
)


def main() -> int:
    arguments = _parse_arguments()
    config = PrepareConfig(
        optimizer=OptimizerConfig(
            strategy="beam", width=arguments.width, kernel_seconds=arguments.seconds
        ),
        disable_schedule_cache=True,
    )
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    rows: list[dict[str, Any]] = []
    plans: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SVOD_CACHE_DIR"] = folder
        for workload in iter_workloads(is_quick=arguments.quick):
            if (
                workload.name in arguments.names
                if arguments.names
                else workload.name not in SKIPPED
            ):
                print(f"{workload.name} ...", flush=True, file=sys.stderr)
                rows += [
                    _make_row(workload.name, tuned) for tuned in search_workload(workload, config)
                ]
                plans.append(compare_plans(workload, 0.1 if arguments.quick else 2.0))
    print(format_table(HEAD, map(_format_row, rows)))
    print(format_table(PLANS_HEAD, map(_format_plans, plans)))
    gains = [
        row["heuristics"] / row["searched"] for row in rows if row["searched"] and row["heuristics"]
    ]
    if gains:
        print(
            f"geometric mean of {len(gains)} kernels: {exp(sum(map(log, gains)) / len(gains)):.2f}"
        )
    print(
        write_json(
            "tune",
            {
                "machine": machine,
                "is_quick": arguments.quick,
                "seconds": arguments.seconds,
                "rows": rows,
                "plans": plans,
            },
        )
    )
    return 0


def search_workload(workload: Workload, config: PrepareConfig) -> list[Tuned]:
    """Search opts for every new kernel of a workload."""
    observer = Lines(sys.stderr)
    with observe(observer):
        result = workload.svod(*map(Tensor, workload.inputs))
        (result if isinstance(result, Tensor) else result[0]).prepare_with(replace(config))
    return [tuned for tuned in observer.tuned if not tuned.was_known]


def compare_plans(workload: Workload, seconds: float) -> dict[str, Any]:
    """Seconds of the workload's plan with the heuristics' opts and with tuned opts, and of its
    peers.
    """
    calls: Calls = {
        "heuristics": _prepare(workload, use_cache=False),
        "searched": _prepare(workload, use_cache=True),
    }
    expected = np.asarray(workload.numpy(*workload.inputs))
    with inference_mode():
        times = measure_in_turns(
            calls | make_numpy_calls(workload, expected) | make_torch_calls(workload, expected),
            seconds,
        )
    return {"name": workload.name, **times}


def _prepare(workload: Workload, *, use_cache: bool) -> Callable[[], object]:
    optimizer = OptimizerConfig(strategy="heuristic", use_cache=use_cache)
    result = workload.svod(*map(Tensor, workload.inputs))
    plan = (result if isinstance(result, Tensor) else result[0]).prepare_with(
        PrepareConfig(optimizer=optimizer, disable_schedule_cache=True)
    )
    return plan.execute


def _format_plans(row: dict[str, Any]) -> list[str]:
    searched = row["searched"]
    ratios = [row["heuristics"] / searched]
    for peer in ("numpy", "torch"):
        ratios.append(
            min((t for name, t in row.items() if name.startswith(peer)), default=0) / searched
        )
    return [
        row["name"],
        *(format_time(row[k]) for k in ("heuristics", "searched")),
        *(f"{r:.2f}" if r else "-" for r in ratios),
    ]


def _make_row(workload: str, tuned: Tuned) -> dict[str, Any]:
    return {
        "workload": workload,
        "kernel": tuned.name,
        "heuristics": tuned.heuristic_seconds,
        "searched": tuned.seconds,
        "n_tried": tuned.n_tried,
        "n_dropped": tuned.n_dropped,
        "seconds": tuned.spent_seconds,
        "heuristic_opts": format_opts(tuned.heuristic_opts),
        "opts": format_opts(tuned.opts),
        "wrong": len(tuned.wrong),
    }


def _format_row(row: dict[str, Any]) -> list[str]:
    before, after = row["heuristics"], row["searched"]
    times = ["-" if t is None else format_time(t) for t in (before, after)]
    gain = f"{before / after:.2f}" if before and after else "-"
    opts = "as the heuristics" if row["opts"] == row["heuristic_opts"] else row["opts"] or "none"
    counts = str(row["n_tried"]), str(row["n_dropped"]), f"{row['seconds']:.0f}"
    return [row["workload"], row["kernel"], *times, gain, *counts, opts]


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the gains of a search.")
    parser.add_argument("names", nargs="*", help="workloads (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds per kernel")
    parser.add_argument(
        "--width", type=int, default=4, help="beam width: number of kernels kept per round"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
