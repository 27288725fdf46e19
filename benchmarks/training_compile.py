"""Measure compile times of the training steps of `training.py`, each in a new process.

    python benchmarks/training_compile.py                the transformer
    python benchmarks/training_compile.py mlp resnet18   other networks

`loss` is only the forward pass, `gradients` the loss with its gradients, and `step` adds the
optimizer. Each is the first call without the execution of the plan, which has separate columns:
`first run` is longer than `later run`, since the system maps new pages of memory. Cold runs have
empty disk caches, warm is the next process. `distinct` is the number of compiled kernels: equal
layers share kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from time import perf_counter
from typing import Any

from report import describe_machine, format_machine, format_table, format_time, write_json
from training_libraries import Svod
from training_models import iter_networks

PARTS = ("loss", "gradients", "step")
N_LATER_STEPS = 3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", default=["transformer"], help="networks (default: transformer)"
    )
    parser.add_argument(
        "--repeats",
        type=int,
        default=3,
        help="measurements; the minimum counts (default: 3)",
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(_measure(*arguments.child)))
        return 0
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    rows: list[dict[str, Any]] = []
    for network in arguments.names:
        rows += [
            {"network": network, "part": phase, **_measure_apart(phase, network, arguments.repeats)}
            for phase in PARTS
        ]
    times = ("cold", "warm", "first run", "later run")
    counts = ("kernels", "distinct")
    print(
        format_table(
            ["network", "", *times, *counts],
            [
                [
                    row["network"],
                    row["part"],
                    *(format_time(row[t]) if t in row else "" for t in times),
                    *(str(row[c]) for c in counts),
                ]
                for row in rows
            ],
        )
    )
    print(write_json("training-compile", {"machine": machine, "rows": rows}))
    return 0


def _measure_apart(phase: str, network: str, n_repeats: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for _ in range(n_repeats):
        with tempfile.TemporaryDirectory() as cache:
            for state in ("cold", "warm"):
                command = [sys.executable, __file__, "--child", phase, network]
                environment = {**os.environ, "SVOD_CACHE_DIR": cache}
                output = subprocess.run(
                    command, env=environment, check=True, capture_output=True, text=True
                ).stdout
                result = json.loads(output.splitlines()[-1])
                times = {state: result.pop("seconds"), **result.pop("runs", {})}
                row |= result | {
                    name: min(seconds, row.get(name, seconds)) for name, seconds in times.items()
                }
    return row


def _measure(phase: str, network_name: str) -> dict[str, Any]:
    network, svod = next(n for n in iter_networks() if n.name == network_name), Svod()
    if phase == "step":
        step, runs = svod.make_step(network), _time_executions()
        first, *_ = [_time(step) for _ in range(1 + N_LATER_STEPS)]
        times = {"first run": runs[0], "later run": min(runs[1:])}
        return {"seconds": first - runs[0], "runs": times, **_count_kernels(svod.step.plans()[0])}
    from svod_tensor import Tensor, value_and_grad

    weights = {name: Tensor(value).realize() for name, value in network.weights.items()}
    batch = [Tensor(value).realize() for value in network.batch]

    def find_loss(weights: dict[str, Tensor]) -> Tensor:
        return network.loss(svod, weights, *batch)

    start = perf_counter()
    if phase == "loss":
        results = [find_loss(weights)]
    else:
        loss, gradients = value_and_grad(find_loss)(weights)
        results = [loss, *gradients.values()]
    plan = Tensor.prepare_batch(results)
    return {"seconds": perf_counter() - start, **_count_kernels(plan)}


def _time(step: Any) -> float:
    start = perf_counter()
    step()
    return perf_counter() - start


def _time_executions() -> list[float]:
    """List to which each later execution of a plan appends its seconds."""
    from svod_runtime import ExecutionPlan

    seconds: list[float] = []
    execute_on = ExecutionPlan.execute_on

    def execute_timed(plan: ExecutionPlan, *args: Any, **keywords: Any) -> Any:
        start = perf_counter()
        result = execute_on(plan, *args, **keywords)
        seconds.append(perf_counter() - start)
        return result

    ExecutionPlan.execute_on = execute_timed
    return seconds


def _count_kernels(plan: Any) -> dict[str, int]:
    return {
        "kernels": plan.num_kernels,
        "distinct": len({kernel.name for kernel in plan.kernels()}),
    }


if __name__ == "__main__":
    raise SystemExit(main())
