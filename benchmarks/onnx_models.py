"""Measure real ONNX models beside onnxruntime, with its default options: all of its graph
optimisations.

    python benchmarks/onnx_models.py                          every model of `onnx_catalogue.py`
    python benchmarks/onnx_models.py --model nudenet magika   some
    python benchmarks/onnx_models.py --compare                the differences alone
    python benchmarks/onnx_models.py --threads 1              one thread, measured by its CPU time: for a busy machine

`svod` and `onnxruntime` are the medians of one run, from arrays of numpy to arrays of numpy, taken
in turns in one process; `ratio` is the second over the first: above 1, svod is faster. `cold` is to
import the library, load the model and run it once with empty caches, `warm` the same in the next
process, and `theirs` the same with onnxruntime; the memory is the most that such a process held.
`difference` is the largest one between the results, in parts of the largest of them."""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from measure import lead_in
from onnx_catalogue import FOLDER, Array, RealModel, fetch_model, get_models
from report import describe_machine, format_machine, format_table, format_time, write_json

HEAD = (
    "model",
    "svod",
    "onnxruntime",
    "ratio",
    "cold",
    "warm",
    "theirs",
    "memory",
    "theirs",
    "difference",
)
LEAST_ROUNDS = 5
MIB = 2**20

Run = Callable[[], dict[str, Any]]


def main() -> int:
    arguments = _parse_arguments()
    if arguments.child:
        task, name = arguments.child
        print(json.dumps(_TASKS[task](get_models([name])[0], arguments)))
        return 0
    if arguments.compare:
        return max(_compare(model, arguments) for model in get_models(arguments.model))
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    rows: list[dict[str, Any]] = []
    for model in get_models(arguments.model):
        rows.append({"model": model.name, "kind": model.kind, **_measure_apart(model, arguments)})
        print(
            format_table(HEAD, [_format_row(rows[-1])]).splitlines()[1], flush=True, file=sys.stderr
        )
    print(format_table(HEAD, map(_format_row, rows)))
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"geometric mean of {len(ratios)} ratios: {statistics.geometric_mean(ratios):.2f}")
    print(
        write_json("onnx-models", {"machine": machine, "threads": arguments.threads, "rows": rows})
    )
    return int(any("error" in row for row in rows))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", nargs="*", help="names of models (default: all)")
    parser.add_argument("--threads", type=int, default=2, help="of each library (default: 2)")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="for the runs of each model (default: 3)"
    )
    parser.add_argument(
        "--compare", action="store_true", help="compare the results, and measure nothing"
    )
    parser.add_argument(
        "--no-start", action="store_true", help="leave out load, first run and memory"
    )
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help=f"of the wheels (default: {FOLDER})"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure_apart(model: RealModel, arguments: argparse.Namespace) -> dict[str, Any]:
    """Each measurement in a process of its own; the last line of its errors where one fails."""
    fetch_model(model, arguments.folder)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        starts = (
            ()
            if arguments.no_start
            else (("cold", "svod"), ("warm", "svod"), ("theirs", "onnxruntime"))
        )
        try:
            for state, library in starts:
                found[state] = _run_child(f"start-{library}", model, arguments, cache)
            found |= _run_child("run", model, arguments, cache)
        except subprocess.CalledProcessError as error:
            found["error"] = (error.stderr.strip().splitlines() or ["no message"])[-1]
    return found


def _run_child(task: str, model: RealModel, arguments: argparse.Namespace, cache: str) -> Any:
    command = [
        sys.executable,
        __file__,
        "--child",
        task,
        model.name,
        "--folder",
        str(arguments.folder),
    ]
    command += ["--threads", str(arguments.threads), "--seconds", str(arguments.seconds)]
    environment = {**os.environ, "SVOD_CACHE_DIR": cache, "SVOD_THREADS": str(arguments.threads)}
    output = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout
    return json.loads(output.splitlines()[-1])


def _prepare_svod(path: Path, inputs: Mapping[str, Array], _n_threads: int) -> Run:
    import svod_onnx
    from svod_tensor import Tensor

    model = svod_onnx.load(path)

    def run() -> dict[str, Any]:
        results = model(**inputs)
        return {
            name: value.numpy() if isinstance(value, Tensor) else value
            for name, value in results.items()
        }

    return run


def _prepare_onnxruntime(path: Path, inputs: Mapping[str, Array], n_threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda: dict(zip(names, session.run(None, dict(inputs)), strict=True))


def _start(
    prepare: Callable[[Path, Mapping[str, Array], int], Run],
) -> Callable[..., dict[str, float]]:
    def measure(model: RealModel, arguments: argparse.Namespace) -> dict[str, float]:
        path, inputs = fetch_model(model, arguments.folder), model.make_inputs()
        start = perf_counter()
        prepare(path, inputs, arguments.threads)()
        seconds = perf_counter() - start
        return {
            "seconds": seconds,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

    return measure


def _measure_runs(model: RealModel, arguments: argparse.Namespace) -> dict[str, Any]:
    path, inputs = fetch_model(model, arguments.folder), model.make_inputs()
    sides = {
        "svod": _prepare_svod(path, inputs, arguments.threads),
        "onnxruntime": _prepare_onnxruntime(path, inputs, arguments.threads),
    }
    difference = find_difference(sides["svod"](), sides["onnxruntime"]())
    times = _time_in_turns(
        sides, arguments.seconds, time.thread_time if arguments.threads == 1 else perf_counter
    )
    ratio = times["onnxruntime"] / times["svod"]
    return {**times, "ratio": ratio, "difference": difference, "tolerance": model.tolerance}


def find_difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> float:
    """The largest difference between two sets of results, in parts of the largest element; infinite
    where they are not alike.

    Integers that differ are counted as infinitely different.
    """
    largest = 0.0
    for name, theirs in wanted.items():
        ours = np.asarray(found[name])
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return float("inf")
        if not np.issubdtype(theirs.dtype, np.floating):
            largest = max(largest, 0.0 if np.array_equal(ours, theirs) else float("inf"))
        elif theirs.size:
            one, other = ours.astype(np.float64), theirs.astype(np.float64)
            if not np.array_equal(np.isfinite(one), np.isfinite(other)):
                return float("inf")
            gap = np.abs(np.where(np.isfinite(one), one - other, 0)).max()
            largest = max(
                largest, gap / max(np.abs(np.where(np.isfinite(other), other, 0)).max(), 1e-6)
            )
    return float(largest)


def _compare(model: RealModel, arguments: argparse.Namespace) -> int:
    """Print how far the results are from onnxruntime's, or why there are none; 1 where that is too
    far.
    """
    path, inputs = fetch_model(model, arguments.folder), model.make_inputs()
    wanted = _prepare_onnxruntime(path, inputs, arguments.threads)()
    try:
        found = _prepare_svod(path, inputs, arguments.threads)()
    except Exception as error:
        print(f"{model.name}: {type(error).__name__}: {error}", flush=True)
        return 1
    difference = find_difference(found, wanted)
    is_wrong = not difference <= model.tolerance
    print(
        f"{model.name}: {difference:.1e}{f' WRONG: above {model.tolerance:g}' if is_wrong else ''}",
        flush=True,
    )
    return int(is_wrong)


def _time_in_turns(
    sides: Mapping[str, Run], seconds: float, clock: Callable[[], float]
) -> dict[str, float]:
    """The median seconds of each run.

    Each turn is opened by runs that are not timed, since the other's data fill the caches and its
    threads may still spin."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    end, n_rounds = perf_counter() + seconds, 0
    while n_rounds < LEAST_ROUNDS or perf_counter() < end:
        for name, run in sides.items():
            lead_in(run)
            for _ in range(3):
                start = clock()
                run()
                times[name].append(clock() - start)
        n_rounds += 1
    return {name: statistics.median(found) for name, found in times.items()}


_TASKS = {
    "start-svod": _start(_prepare_svod),
    "start-onnxruntime": _start(_prepare_onnxruntime),
    "run": _measure_runs,
}


def _format_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    starts = [row.get(state) for state in ("cold", "warm", "theirs")]
    seconds = [format_time(start and start["seconds"]) for start in starts]
    memory = [f"{start['peak_bytes'] / MIB:.0f} MiB" if start else "-" for start in starts[1:]]
    if "error" in row:
        return (row["model"], "-", "-", "-", *seconds, *memory, row["error"][:80])
    difference = f"{row['difference']:.1e}" + (
        " WRONG" if row["difference"] > row["tolerance"] else ""
    )
    runs = (format_time(row["svod"]), format_time(row["onnxruntime"]), f"{row['ratio']:.2f}")
    return (row["model"], *runs, *seconds, *memory, difference)


if __name__ == "__main__":
    sys.exit(main())
