"""Measure families of workloads whose sizes are drawn: what does a shape take that nobody tuned
for?

    python benchmarks/families.py                            # fresh sizes, six of each family
    python benchmarks/families.py --seed 7                   # the sizes of a run before
    python benchmarks/families.py --seed 7 products einsum   # some families: their sizes are the same
    python benchmarks/families.py --rows 20 movement         # more of a family
    python benchmarks/families.py --quick                    # small sizes: do all of them still run and agree?

`plan` is one execution of a prepared plan, which has its memory, and `jit` a call of what `jit`
makes of the same function; torch runs eagerly, jax what `jax.jit` makes, and onnxruntime a model of
one node where there is one; each makes its result. Each time is the least of several, measured in
turns; rows below 0.9 are measured once more. Each result is compared with that of numpy in float64,
and the script fails where one is wrong. A ratio is the time of the best peer over that of ours:
above 1, svod is faster."""

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
    """Workloads of a family, made when their turn comes. A row depends on the seed, the family and
    its number alone.

    Args:
        family: a name of `FAMILIES`, whose makers take turns in a drawn order.
        seed: what everything is drawn from.
        n_rows: how many workloads.
        scale: what the bounds of sizes are divided by.
    """
    makers = FAMILIES[family]
    key = (seed, crc32(family.encode()))
    order = np.random.default_rng(key).permutation(len(makers))
    for number in range(n_rows):
        rng = np.random.default_rng((*key, number))
        yield makers[order[number % len(makers)]](Draw(rng, scale))


def measure_workload(workload: DrawnWorkload, seconds: float, without: Sequence[str] = ()) -> Row:
    """Run one workload everywhere; the row of the report.

    Keys: `name`, the seconds of each side that there is, `peer`, which is the fastest of the
    others, `ratio_plan` and `ratio_jit`, and `wrong`, which says of each side whose result does not
    agree with numpy's how far it is away."""
    expected = _as_tuple(workload.numpy(*(_widen(array) for array in workload.inputs)))
    wrong: list[str] = []
    calls, found = _start_svod(workload)
    with inference_mode() if "torch" not in without else nullcontext():
        for side, call in _make_peers(workload, expected[0], without).items():
            try:
                found[side] = call()
            except Exception as error:  # a peer may lack a dtype or a size
                print(
                    f"without {side}: {type(error).__name__}: {str(error).splitlines()[0]}",
                    file=sys.stderr,
                )
                continue
            calls[side] = call
        for side, results in found.items():
            away = _measure_distance(results, expected)
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
    """A plan and a captured function, and what they give at first; each has inputs of its own,
    which it may write to.
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
    found = {
        "plan": [_read(x) for x in planned],
        "jit": [_read(x) for x in _as_tuple(captured(*inputs))],
    }
    return {"plan": plan.execute, "jit": lambda: captured(*inputs)}, found


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
    """The elements in float64, which holds those of every dtype here."""
    if hasattr(value, "is_floating_point"):
        import torch

        return value.to(torch.float64).numpy()
    if type(value).__module__.startswith("svod"):
        return np.asarray(value.cast("float64").numpy())
    return np.asarray(value).astype(np.float64)


def _measure_distance(results: Any, expected: Sequence[Any]) -> float:
    """How far results are from those in float64: the largest difference relative to the largest
    number, of integers any difference.
    """
    worst = 0.0
    for found, exact in zip(map(_read, _as_tuple(results)), map(np.asarray, expected), strict=True):
        if found.shape != exact.shape:
            return float("inf")
        largest = float(np.abs(exact.astype(np.float64)).max(initial=0.0)) or 1.0
        away = float(np.abs(found - exact.astype(np.float64)).max(initial=0.0))
        worst = max(worst, away / largest if exact.dtype.kind == "f" or not away else float("inf"))
    return worst


def _compare(times: Mapping[str, float]) -> Row:
    """The fastest peer, and its time over each of ours; nothing without peers."""
    peers = {side: times[side] for side in PEERS if side in times}
    if not peers:
        return {}
    best = min(peers, key=lambda side: peers[side])
    return {"peer": best, **{f"ratio_{side}": peers[best] / times[side] for side in OURS}}


def summarize(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """A line for each family and one for all: how many rows, and of both ratios the geometric mean
    and the shares of slow rows.
    """
    families = list(dict.fromkeys(row["family"] for row in rows))
    found: list[Row] = []
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
        found.append(line)
    return found


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


def _format_number(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"families; all by default: {', '.join(FAMILIES)}")
    parser.add_argument(
        "--seed", type=int, help="what sizes are drawn from; another one each time by default"
    )
    parser.add_argument(
        "--rows", type=int, help="of each family; 6 by default, 0 for one of each of its kinds"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes and short measurements, two rows of each family",
    )
    parser.add_argument(
        "--without", nargs="*", choices=PEERS, default=[], help="peers to leave out"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="of every library; all cores by default",
    )
    parser.add_argument(
        "--seconds", type=float, default=0.8, help="for each row, for all sides together"
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
        # The run that starts again with other threads has this seed too.
        sys.argv += ["--seed", str(arguments.seed)]
    return arguments


if __name__ == "__main__":
    raise SystemExit(main())
