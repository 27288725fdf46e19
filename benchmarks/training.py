"""Measure training steps (loss, gradient and optimizer) in svod, compared with torch and jax.

    python benchmarks/training.py                   # every network
    python benchmarks/training.py --quick           # small sizes, to check that losses agree
    python benchmarks/training.py mlp lstm          # networks whose names begin so
    python benchmarks/training.py --without torch.compile

Every library starts from the same weights and trains on the same batch. The losses of the first
steps must agree, or the script fails. torch runs eagerly and with `torch.compile`, both with fused
optimizers; jax and svod run a whole step under `jit`. Measurements are interleaved in one process,
and the minimum counts; `first` is the first step, including compilation.
"""

from __future__ import annotations

import argparse
import os
import traceback
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from measure import lead_in, restart_with_threads
from report import describe_machine, format_machine, format_table, format_time, write_json
from training_interface import Library, Network
from training_libraries import find_libraries
from training_models import iter_networks

SIDES = ("svod", "torch", "torch.compile", "jax")
N_COMPARED = 5
TOLERANCE = 2e-3
LEAST_ROUNDS = 3


def main() -> int:
    arguments = _parse_arguments()
    restart_with_threads(arguments.threads)
    libraries = find_libraries([side for side in SIDES if side not in arguments.without])
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    wrong: list[str] = []
    rows: list[dict[str, Any]] = []
    for network in iter_networks(is_quick=arguments.quick):
        if not arguments.names or any(map(network.name.startswith, arguments.names)):
            rows.append(
                measure_network(
                    network, libraries, 0.1 if arguments.quick else arguments.seconds, wrong
                )
            )
            print(_format_rows(rows[-1:], libraries), flush=True)
    print(f"\n{_format_rows(rows, libraries)}\n")
    print(write_json("training", {"machine": machine, "threads": arguments.threads, "rows": rows}))
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


def measure_network(
    network: Network, libraries: Sequence[Library], seconds: float, wrong: list[str]
) -> dict[str, Any]:
    """Train one network in every library.

    The row has the keys `name` and `flops`, and for each library the seconds of a step and of the
    first step, and the losses of the first steps.
    """
    row: dict[str, Any] = {"name": network.name, "flops": network.flops, "first": {}, "losses": {}}
    steps: dict[str, Callable[[], Any]] = {}
    for library in libraries:
        try:
            step = library.make_step(network)
            start = perf_counter()
            losses = [float(step())]
            row["first"][library.name] = perf_counter() - start
            losses += [float(step()) for _ in range(N_COMPARED - 1)]
        except Exception:
            traceback.print_exc(limit=-4)
            wrong.append(f"{network.name}: {library.name} raised an error")
            continue
        steps[library.name], row["losses"][library.name] = step, losses
    _compare_losses(network, row["losses"], wrong)
    return row | {"step": measure_steps(steps, seconds)}


def measure_steps(steps: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Minimum seconds of each step, over at least three interleaved rounds.

    Each turn opens with untimed steps, since threads of the previous library may still spin.
    """
    least = dict.fromkeys(steps, float("inf"))
    end, n_rounds = perf_counter() + seconds, 0
    while n_rounds < LEAST_ROUNDS or perf_counter() < end:
        for name, step in steps.items():
            lead_in(step)
            for _ in range(2):
                start = perf_counter()
                step()
                least[name] = min(least[name], perf_counter() - start)
        n_rounds += 1
    return least


def _compare_losses(network: Network, losses: dict[str, list[float]], wrong: list[str]) -> None:
    """Compare every library's losses with the losses of the first available peer."""
    peers = [name for name in losses if name != "svod"]
    for name in losses:
        if not peers or name == peers[0]:
            continue
        for n, (actual, expected) in enumerate(zip(losses[name], losses[peers[0]], strict=True)):
            if not abs(actual - expected) <= TOLERANCE * max(abs(expected), 0.1):
                wrong.append(
                    f"{network.name}: loss {n} is {actual:.6f} with {name}, {expected:.6f} with"
                    f" {peers[0]}"
                )
                break


def _format_rows(rows: Sequence[dict[str, Any]], libraries: Sequence[Library]) -> str:
    names = [library.name for library in libraries]
    peers = [name for name in names if name != "svod"]
    head = [
        "network",
        *(f"first {name}" for name in names),
        *names,
        *(f"{name} / svod" for name in peers),
        "best / svod",
    ]
    lines: list[list[str]] = []
    for row in rows:
        times: dict[str, float] = row["step"]
        ratios = [
            times[name] / times["svod"] if name in times and "svod" in times else None
            for name in peers
        ]
        known = [ratio for ratio in ratios if ratio is not None]
        lines.append(
            [
                row["name"],
                *(format_time(row["first"].get(name)) for name in names),
                *(format_time(times.get(name)) for name in names),
                *(
                    "-" if ratio is None else f"{ratio:.2f}"
                    for ratio in [*ratios, min(known) if known else None]
                ),
            ]
        )
    return format_table(head, lines)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="prefixes of network names (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes and short measurements")
    parser.add_argument("--without", nargs="*", choices=SIDES, default=(), help="libraries to skip")
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count() or 1,
        help="threads of every library (default: all cores)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=10.0,
        help="seconds per network, for all libraries together",
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
