"""Measure real ONNX models, compared with onnxruntime with all of its graph optimizations.

    python benchmarks/onnx_models.py                          every model of `onnx_catalogue.py`
    python benchmarks/onnx_models.py --model nudenet magika   some
    python benchmarks/onnx_models.py --compare                only compare the results
    python benchmarks/onnx_models.py --threads 1              one thread, measured by CPU time: for a busy machine

`svod` and `onnxruntime` are the median times of one run, from numpy arrays to numpy arrays,
interleaved in one process; with one thread they are the least CPU times. `ratio` is onnxruntime's
time over svod's: above 1, svod is faster. If the model has symbolic dimensions, that is the ratio for
the first of its sizes; `third` is the ratio for the third, `sampled` for a size that is sampled with
a seed, and `new` the time of the first run with that size, after runs with the three others. Models
with constant weights are only compared.
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
from functools import partial
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
    "third",
    "sampled",
    "new",
    "cold",
    "warm",
    "theirs",
    "memory",
    "theirs",
    "difference",
)
LEAST_ROUNDS = 5
_SIZES = ("first", "second", "third", "sampled")
MIB = 2**20

Results = dict[str, Any]
Run = Callable[[Mapping[str, Array]], Results]


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
        if not model.is_timed:
            continue
        rows.append({"model": model.name, "kind": model.kind, **_measure_apart(model, arguments)})
        print(
            format_table(HEAD, [_format_row(rows[-1])]).splitlines()[1], flush=True, file=sys.stderr
        )
    print(format_table(HEAD, map(_format_row, rows)))
    for label in ("first", "third", "sampled"):
        ratios = [row[label]["ratio"] for row in rows if label in row]
        if ratios:
            mean = statistics.geometric_mean(ratios)
            print(f"geometric mean of {len(ratios)} ratios, {label} size: {mean:.2f}")
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


def _prepare_svod(path: Path, _n_threads: int) -> Run:
    import svod_onnx
    from svod_tensor import Tensor

    model = svod_onnx.load(path)

    def run(inputs: Mapping[str, Array]) -> Results:
        results = model(**inputs)
        return {
            name: value.numpy() if isinstance(value, Tensor) else value
            for name, value in results.items()
        }

    return run


def _prepare_onnxruntime(path: Path, n_threads: int) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = n_threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, dict(inputs)), strict=True))


def _start(prepare: Callable[[Path, int], Run]) -> Callable[..., dict[str, float]]:
    def measure(model: RealModel, arguments: argparse.Namespace) -> dict[str, float]:
        path, inputs = fetch_model(model, arguments.folder), model.make_inputs()
        start = perf_counter()
        prepare(path, arguments.threads)(inputs)
        seconds = perf_counter() - start
        return {
            "seconds": seconds,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

    return measure


def _measure_runs(model: RealModel, arguments: argparse.Namespace) -> dict[str, Any]:
    path = fetch_model(model, arguments.folder)
    ours = _prepare_svod(path, arguments.threads)
    theirs = _prepare_onnxruntime(path, arguments.threads)
    labels = dict(zip(_SIZES, _list_sizes(model), strict=False))
    measurements: dict[str, Any] = {"difference": 0.0, "tolerance": model.tolerance}
    inputs = {label: model.make_inputs(size) for label, size in labels.items()}
    for feed in inputs.values():
        start = perf_counter()
        actual = ours(feed)
        seconds = perf_counter() - start
        measurements["difference"] = max(
            measurements["difference"], find_difference(actual, theirs(feed))
        )
    if model.sizes:
        measurements |= {"sizes": labels, "new": seconds}
    for label in labels.keys() & {"first", "third", "sampled"}:
        measurements[label] = _measure_turns(ours, theirs, inputs[label], arguments)
    return measurements


def _measure_turns(
    ours: Run, theirs: Run, inputs: Mapping[str, Array], arguments: argparse.Namespace
) -> dict[str, float]:
    sides = {"svod": partial(ours, inputs), "onnxruntime": partial(theirs, inputs)}
    times = _time_in_turns(sides, arguments.seconds, arguments.threads)
    return {**times, "ratio": times["onnxruntime"] / times["svod"]}


def _list_sizes(model: RealModel) -> list[int | None]:
    return [*model.sizes, model.sample_size()] if model.sizes else [None]


def find_difference(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> float:
    """Largest difference between two sets of results, relative to the largest element.

    Infinite if shapes or dtypes differ, or if any integer differs.
    """
    largest = 0.0
    for name, value in expected.items():
        ours, theirs = _to_array(actual[name]), _to_array(value)
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


def _to_array(value: Any) -> Array:
    """Return the array of a result. The rows of a sequence of maps are the values of the maps."""
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return np.array([list(row.values()) for row in value])
    return np.asarray(value)


def _compare(model: RealModel, arguments: argparse.Namespace) -> int:
    """Print the difference to onnxruntime's results, or the error; return 1 if it is too large."""
    path = fetch_model(model, arguments.folder)
    theirs = _prepare_onnxruntime(path, arguments.threads)
    differences: list[float] = []
    try:
        ours = _prepare_svod(path, arguments.threads)
        for size in _list_sizes(model):
            inputs = model.make_inputs(size)
            differences.append(find_difference(ours(inputs), theirs(inputs)))
    except Exception as error:
        print(f"{model.name}: {type(error).__name__}: {error}", flush=True)
        return 1
    is_wrong = not max(differences) <= model.tolerance
    values = " ".join(f"{difference:.1e}" for difference in differences)
    print(
        f"{model.name}: {values}{f' WRONG: above {model.tolerance:g}' if is_wrong else ''}",
        flush=True,
    )
    return int(is_wrong)


def _time_in_turns(
    sides: Mapping[str, Callable[[], Results]], seconds: float, n_threads: int
) -> dict[str, float]:
    """Median seconds of each run, or least CPU seconds with one thread.

    Each turn opens with untimed runs, since the caches hold the other library's data and its
    threads may still spin.
    """
    clock = time.thread_time if n_threads == 1 else perf_counter
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
    summarize = min if n_threads == 1 else statistics.median
    return {name: summarize(samples) for name, samples in times.items()}


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
        return (row["model"], *["-"] * 6, *seconds, *memory, row["error"][:80])
    difference = f"{row['difference']:.1e}" + (
        " WRONG" if row["difference"] > row["tolerance"] else ""
    )
    runs = (format_time(row["first"]["svod"]), format_time(row["first"]["onnxruntime"]))
    ratios = [
        f"{row[label]['ratio']:.2f}" if label in row else "-"
        for label in ("first", "third", "sampled")
    ]
    new = format_time(row.get("new"))
    return (row["model"], *runs, *ratios, new, *seconds, *memory, difference)


if __name__ == "__main__":
    sys.exit(main())
