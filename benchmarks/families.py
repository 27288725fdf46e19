"""Measure families of workloads with random sizes, to find slow shapes that were never tuned.

    python benchmarks/families.py                            # new sizes, six workloads per family
    python benchmarks/families.py --seed 7                   # the sizes of an earlier run
    python benchmarks/families.py --seed 7 products einsum   # some families: their sizes are the same
    python benchmarks/families.py --rows 20 movement         # more workloads of a family
    python benchmarks/families.py --quick                    # small sizes, to check that results agree

`plan` is one execution of a prepared plan with allocated memory, and `jit` a call of the same
function under `jit`. torch runs eagerly, jax under `jax.jit`, and onnxruntime a model of one node
if there is one; each allocates its result. Measurements are interleaved, and the minimum counts;
rows below 0.9 are measured again. Each result is compared with numpy's in float64, and the script
fails if one is wrong. A ratio is the time of the fastest peer over svod's: above 1, svod is faster.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from math import exp, log
from typing import Any
from zlib import crc32

import numpy as np

from encoder import Array
from family_draws import Draw, DrawnWorkload, Maker
from family_elements import ELEMENT_FAMILIES
from family_positions import POSITION_FAMILIES
from family_products import PRODUCT_FAMILIES
from measure import measure_in_turns, restart_with_threads
from peers import Calls, inference_mode, make_jax_calls, make_onnxruntime_calls, make_torch_calls
from report import describe_machine, format_machine, format_table, format_time, write_json

__all__ = ["FAMILIES", "iter_family", "measure_workload", "summarize"]

FAMILIES: Mapping[str, Sequence[Maker]] = {
    **PRODUCT_FAMILIES,
    **ELEMENT_FAMILIES,
    **POSITION_FAMILIES,
}
OURS, PEERS = ("plan", "jit"), ("torch", "jax", "onnxruntime")
TOLERANCES = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
SLOW, CLIFF = 0.9, 0.75
N_WORST = 15
QUICK_SCALE, QUICK_SECONDS = 8, 0.02

Row = dict[str, Any]


def main() -> int:
    arguments = _parse_arguments()
    restart_with_threads(arguments.threads)
    machine = describe_machine()
    print(
        f"{format_machine(machine)}\nseed {arguments.seed}, {arguments.threads} threads", flush=True
    )
    rows: list[Row] = []
    for family in arguments.names or FAMILIES:
        n_rows = arguments.rows or len(FAMILIES[family])
        for workload in iter_family(
            family, arguments.seed, n_rows, QUICK_SCALE if arguments.quick else 1
        ):
            print(f"{family}: {workload.name}", file=sys.stderr, flush=True)
            rows.append(
                {
                    "family": family,
                    **measure_workload(workload, arguments.seconds, arguments.without),
                }
            )
    summaries = summarize(rows)
    print(f"\n{_format_rows(rows)}\n\n{_format_summaries(summaries)}\n\n{_format_worst(rows)}")
    settings = {
        key: getattr(arguments, key) for key in ("seed", "threads", "quick", "seconds", "without")
    }
    print(
        write_json(
            "families", {"machine": machine, **settings, "rows": rows, "summaries": summaries}
        )
    )
    wrong = [f"WRONG: {row['name']}: {line}" for row in rows for line in row["wrong"]]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def iter_family(family: str, seed: int, n_rows: int, scale: int = 1) -> Iterator[DrawnWorkload]:
    """Yield workloads of a family, created lazily.

    A row depends only on the seed, the family and its index.

    Args:
        family: a name of `FAMILIES`, whose makers take turns in random order.
        seed: seed of all random choices.
        n_rows: number of workloads.
        scale: divisor of the bounds of sizes.
    """
    makers = FAMILIES[family]
    key = (seed, crc32(family.encode()))
    order = np.random.default_rng(key).permutation(len(makers))
    for index in range(n_rows):
        rng = np.random.default_rng((*key, index))
        yield makers[order[index % len(makers)]](Draw(rng, scale))


def measure_workload(workload: DrawnWorkload, seconds: float, without: Sequence[str] = ()) -> Row:
    """Run one workload in every library, and return the row of the report.

    Keys: `name`, the seconds of each available library, `peer` (the fastest peer), `ratio_plan` and
    `ratio_jit`, and `wrong`, a message for each result that does not agree with numpy's.
    """
    expected = _as_tuple(workload.numpy(*(_widen(array) for array in workload.inputs)))
    wrong: list[str] = []
    calls, results = _start_svod(workload)
    with inference_mode() if "torch" not in without else nullcontext():
        for side, call in _make_peers(workload, expected[0], without).items():
            try:
                results[side] = call()
            except Exception as error:  # a peer may lack a dtype or a size
                print(
                    f"without {side}: {type(error).__name__}: {str(error).splitlines()[0]}",
                    file=sys.stderr,
                )
                continue
            calls[side] = call
        for side, result in results.items():
            away = _measure_distance(result, expected)
            if not away <= TOLERANCES[workload.dtype]:
                wrong.append(f"{side} is {away:.2g} away from float64")
        times = measure_in_turns(calls, seconds)
        if (
            _compare(times).get("ratio_plan", 1.0) < SLOW
            or _compare(times).get("ratio_jit", 1.0) < SLOW
        ):
            again = measure_in_turns(calls, seconds)
            times = {side: min(spent, again[side]) for side, spent in times.items()}
    return {"name": workload.name, **times, **_compare(times), "wrong": wrong}


def _start_svod(workload: DrawnWorkload) -> tuple[Calls, dict[str, Any]]:
    """Return calls of a plan and of a captured function, and their first results.

    Each has separate inputs, which it may overwrite.
    """
    from svod_tensor import Tensor, jit

    def make_inputs() -> list[Any]:
        tensors = [Tensor.from_numpy(array.copy()) for array in workload.inputs]
        tensors = [x.cast(workload.dtype) if x.dtype.is_float else x for x in tensors]
        return [x.realize() for x in tensors]

    planned = _as_tuple(workload.svod(*make_inputs()))
    plan = Tensor.prepare_batch(planned)
    plan.execute()
    captured, inputs = jit(workload.svod), make_inputs()
    results = {
        "plan": [_read(x) for x in planned],
        "jit": [_read(x) for x in _as_tuple(captured(*inputs))],
    }
    return {"plan": plan.execute, "jit": lambda: captured(*inputs)}, results


def _make_peers(workload: DrawnWorkload, expected: Array, without: Sequence[str]) -> Calls:
    copied = replace(workload, inputs=tuple(array.copy() for array in workload.inputs))
    calls: Calls = {}
    if "torch" not in without:
        calls |= make_torch_calls(copied, expected)
    if "jax" not in without:
        calls |= make_jax_calls(copied)
    if "onnxruntime" not in without:
        calls |= make_onnxruntime_calls(copied)
    return calls


def _widen(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _read(value: Any) -> Array:
    """Convert elements to float64, which represents every dtype here exactly."""
    if hasattr(value, "is_floating_point"):
        import torch

        return value.to(torch.float64).numpy()
    if type(value).__module__.startswith("svod"):
        return np.asarray(value.cast("float64").numpy())
    return np.asarray(value).astype(np.float64)


def _measure_distance(results: Any, expected: Sequence[Any]) -> float:
    """Largest error of results relative to float64, over the largest element.

    For integers, any difference counts.
    """
    worst = 0.0
    for result, exact in zip(
        map(_read, _as_tuple(results)), map(np.asarray, expected), strict=True
    ):
        if result.shape != exact.shape:
            return float("inf")
        largest = float(np.abs(exact.astype(np.float64)).max(initial=0.0)) or 1.0
        away = float(np.abs(result - exact.astype(np.float64)).max(initial=0.0))
        worst = max(worst, away / largest if exact.dtype.kind == "f" or not away else float("inf"))
    return worst


def _compare(times: Mapping[str, float]) -> Row:
    """Return the fastest peer, and the ratios of its time to svod's; empty without peers."""
    peers = {side: times[side] for side in PEERS if side in times}
    if not peers:
        return {}
    best = min(peers, key=lambda side: peers[side])
    return {"peer": best, **{f"ratio_{side}": peers[best] / times[side] for side in OURS}}


def summarize(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Summarize each family and all families together.

    A summary has the number of rows, and for both ratios the geometric mean and the fraction of
    slow rows.
    """
    families = list(dict.fromkeys(row["family"] for row in rows))
    summaries: list[Row] = []
    for family in [*families, "all"]:
        line: Row = {"family": family}
        for side in OURS:
            ratios = [
                row[f"ratio_{side}"]
                for row in rows
                if family in (row["family"], "all") and "peer" in row
            ]
            if ratios:
                line |= {
                    "rows": len(ratios),
                    f"mean_{side}": exp(sum(map(log, ratios)) / len(ratios)),
                    f"slow_{side}": sum(ratio < SLOW for ratio in ratios) / len(ratios),
                    f"cliffs_{side}": sum(ratio < CLIFF for ratio in ratios) / len(ratios),
                }
        summaries.append(line)
    return summaries


def _format_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["workload", *OURS, *PEERS, *(f"best / {side}" for side in OURS)]
    lines = [
        [
            f"{row['family']}: {row['name']}",
            *(format_time(row.get(side)) for side in (*OURS, *PEERS)),
            *(_format_number(row.get(f"ratio_{side}")) for side in OURS),
        ]
        for row in rows
    ]
    return format_table(head, lines)


def _format_summaries(summaries: Sequence[Mapping[str, Any]]) -> str:
    head = ["family", "rows"]
    for side in OURS:
        head += [f"best / {side}", f"below {SLOW}", f"below {CLIFF}"]
    lines: list[list[str]] = []
    for line in summaries:
        cells = [line["family"], str(line.get("rows", 0))]
        for side in OURS:
            shares = (line.get(f"{kind}_{side}") for kind in ("slow", "cliffs"))
            cells += [
                _format_number(line.get(f"mean_{side}")),
                *("-" if s is None else f"{s:.0%}" for s in shares),
            ]
        lines.append(cells)
    return format_table(head, lines)


def _format_worst(rows: Sequence[Mapping[str, Any]]) -> str:
    compared = sorted((row for row in rows if "peer" in row), key=lambda row: row["ratio_plan"])
    lines = [
        [
            f"{row['family']}: {row['name']}",
            row["peer"],
            *(_format_number(row[f"ratio_{side}"]) for side in OURS),
        ]
        for row in compared[:N_WORST]
    ]
    return format_table(["the worst", "best peer", "/ plan", "/ jit"], lines)


def _format_number(index: float | None) -> str:
    return "-" if index is None else f"{index:.2f}"


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", help=f"families (default: all of {', '.join(FAMILIES)})"
    )
    parser.add_argument("--seed", type=int, help="seed of the sizes (default: random)")
    parser.add_argument(
        "--rows", type=int, help="workloads per family (default: 6; 0 for one of each kind)"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes and short measurements, two rows per family",
    )
    parser.add_argument("--without", nargs="*", choices=PEERS, default=[], help="peers to skip")
    parser.add_argument(
        "--threads",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="threads of every library (default: all cores)",
    )
    parser.add_argument(
        "--seconds", type=float, default=0.8, help="seconds per row, for all libraries together"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in FAMILIES]
    if unknown:
        parser.error(f"no families {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    if arguments.rows is None:
        arguments.rows = 2 if arguments.quick else 6
    if arguments.quick:
        arguments.seconds = QUICK_SECONDS
    if arguments.seed is None:
        arguments.seed = int(np.random.SeedSequence().generate_state(1)[0])
        # A run that starts again with other threads keeps this seed.
        sys.argv += ["--seed", str(arguments.seed)]
    return arguments


if __name__ == "__main__":
    raise SystemExit(main())
