"""Measure the memory of the training steps of `training.py`, each library in a new process.

    python benchmarks/training_memory.py                 the transformer, with and without recomputation of its layers
    python benchmarks/training_memory.py mlp resnet18    other networks

The figures are resident memory as reported by Linux, in MiB: with the library imported, with the
weights and the optimizer's state, at the peak of the first step (including compilation), and at the
peak of the later steps, which is also shown as the growth over the library alone. svod runs twice:
first with empty disk caches, then with the caches of the first run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from memory import MIB, read_status, reset_peak
from report import describe_machine, format_machine, format_table, write_json
from training_libraries import Svod, find_libraries
from training_models import iter_networks

MODULES = {"svod": "svod_tensor", "torch": "torch", "torch.compile": "torch", "jax": "jax.numpy"}
N_LATER_STEPS = 3


class Result(NamedTuple):
    """Memory of one process in bytes.

    Attributes:
        imported: resident memory with the library and the arrays of the network.
        loaded: resident memory with the weights and the optimizer's state.
        first: maximum during the first step.
        later: maximum during later steps.
        planned: intermediates, if the library reports them.
    """

    imported: int
    loaded: int
    first: int
    later: int
    planned: int


def measure(library_name: str, network_name: str) -> Result:
    """Measure the memory of this process, which has done nothing yet."""
    network = next(n for n in iter_networks() if n.name == network_name)
    import_module(MODULES[library_name])
    (library,) = find_libraries([library_name])
    imported = read_status("VmRSS")
    step = library.make_step(network)
    loaded = read_status("VmRSS")
    reset_peak()
    step()
    first = read_status("VmHWM")
    step()
    reset_peak()
    for _ in range(N_LATER_STEPS):
        step()
    planned = library.step.plans()[0].memory_report.bytes_after if isinstance(library, Svod) else 0
    return Result(imported, loaded, first, read_status("VmHWM"), planned)


def measure_apart(library: str, network: str, cache: str) -> Result | None:
    """Run `measure` in a new process; None if it fails, as without the library."""
    command = [sys.executable, __file__, "--child", library, network]
    environment = {**os.environ, "SVOD_CACHE_DIR": cache}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"without {library}: {done.stderr.strip().splitlines()[-1:]}")
        return None
    return Result(*json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the memory of training steps.")
    parser.add_argument(
        "names",
        nargs="*",
        default=["transformer", "transformer, recomputed"],
        help="networks (default: the transformer, with and without recomputation of its layers)",
    )
    parser.add_argument(
        "--without", nargs="*", default=(), choices=MODULES, help="libraries to skip"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(*arguments.child)))
        return 0
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    by_network: dict[str, dict[str, Result]] = {}
    for network in arguments.names:
        with tempfile.TemporaryDirectory() as cache:
            sides = {
                "svod": "svod",
                "svod, warm": "svod",
                **{name: name for name in MODULES if name != "svod"},
            }
            results = {
                title: measure_apart(name, network, cache)
                for title, name in sides.items()
                if name not in arguments.without
            }
        by_network[network] = {
            title: result for title, result in results.items() if result is not None
        }
        print(f"\n{network}\n{format_results(by_network[network])}", flush=True)
    report = {
        network: {title: r._asdict() for title, r in results.items()}
        for network, results in by_network.items()
    }
    print(write_json("training-memory", {"machine": machine, "results": report}))
    return 0


def format_results(results: Mapping[str, Result]) -> str:
    rows = [
        ["", "imported", "with weights", "first step", "later steps", "growth", "intermediates"]
    ]
    for title, r in results.items():
        sizes = [r.imported, r.loaded, r.first, r.later, r.later - r.imported]
        rows.append(
            [
                title,
                *(f"{size / MIB:.1f}" for size in sizes),
                f"{r.planned / MIB:.1f}" if r.planned else "",
            ]
        )
    return format_table(rows[0], rows[1:])


if __name__ == "__main__":
    raise SystemExit(main())
