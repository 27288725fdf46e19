"""Measure ensembles of trees as ONNX models, compared with onnxruntime.

    python benchmarks/onnx_trees.py
    python benchmarks/onnx_trees.py --models forest-10x4 lightgbm --rows 1 10 --seconds 1

A forest is named by its trees and their depth; `full` has no limit of the depth. Models of xgboost
and lightgbm need onnxmltools, and are left out where it is missing.

Both libraries run with one thread, from numpy arrays to numpy arrays, interleaved in one process,
and the times are the minimum CPU time of a call. The calls cycle through different rows: with the
same rows in each call, a processor predicts the branches that they take. `first` is the time to
load the model and run it once. Results are compared.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
from collections.abc import Callable, Mapping
from time import perf_counter, process_time
from typing import Any

import numpy as np

from measure import restart_with_threads
from report import describe_machine, format_machine, format_table, format_time, write_json

N_FEATURES = 20
ROWS = (1, 10, 50, 1000, 10_000)
N_VARIED = 10_000
"""Number of rows that the calls of one measurement cycle through."""
LEAST_ROUNDS = 3
TOLERANCE = 1e-5

Array = np.ndarray[Any, Any]


def main() -> int:
    arguments = _parse_arguments()
    restart_with_threads(1)
    machine = describe_machine()
    print(format_machine(machine))
    results: list[dict[str, Any]] = []
    for name in arguments.models:
        measured = _measure_model(name, arguments.rows, arguments.seconds)
        results += measured
        table = [
            [
                f"{row['rows']:,}",
                *(format_time(row[column]) for column in ("svod", "onnxruntime")),
                f"{row['onnxruntime'] / row['svod']:.2f}",
                format_time(row["first"]),
                f"{row['difference']:.0e}",
            ]
            for row in measured
        ]
        head = [f"rows, by {name}", "svod", "onnxruntime", "ratio", "first", "difference"]
        print(format_table(head, table))
    print(write_json("onnx-trees", {"machine": machine, "results": results}))
    return int(any(row["difference"] > TOLERANCE for row in results))


def _measure_model(name: str, sizes: list[int], seconds: float) -> list[dict[str, Any]]:
    import onnxruntime

    model = MODELS[name]()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # Models of xgboost declare another shape than they return, which is a warning in each call.
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options)
    return [
        {"model": name, "rows": size, **_measure_size(model, session, size, seconds)}
        for size in sizes
    ]


def _measure_size(model: bytes, session: Any, size: int, seconds: float) -> dict[str, float]:
    import svod_onnx

    (input_name,) = (value.name for value in session.get_inputs())
    batches = _make_batches(size)
    started = perf_counter()
    compiled = svod_onnx.load(model)
    values = compiled(**{input_name: batches[0]})
    first = perf_counter() - started
    expected = session.run(None, {input_name: batches[0]})[-1]
    scores = np.asarray(list(values.values())[-1]).reshape(expected.shape)
    ours, theirs = itertools.cycle(batches), itertools.cycle(batches)
    times = _measure_cpu(
        {
            "svod": lambda: compiled(**{input_name: next(ours)}),
            "onnxruntime": lambda: session.run(None, {input_name: next(theirs)}),
        },
        seconds,
    )
    difference = float(np.abs(scores - expected).max() / max(np.abs(expected).max(), 1e-30))
    return {**times, "first": first, "difference": difference}


def _measure_cpu(calls: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Minimum CPU seconds of each call over interleaved rounds."""

    def measure(call: Callable[[], object], n_calls: int) -> float:
        started = process_time()
        for _ in range(n_calls):
            call()
        return (process_time() - started) / n_calls

    turn = seconds / len(calls) / LEAST_ROUNDS / 2
    counts: dict[str, int] = {}
    for name, call in calls.items():
        # The first calls of a size compile and fill caches.
        measure(call, 5)
        counts[name] = max(1, int(turn / max(measure(call, 2), 1e-7)))
    least = dict.fromkeys(calls, float("inf"))
    end, n_rounds = perf_counter() + seconds, 0
    while n_rounds < LEAST_ROUNDS or perf_counter() < end:
        for name, call in calls.items():
            least[name] = min(least[name], measure(call, counts[name]))
        n_rounds += 1
    return least


def _make_batches(size: int) -> list[Array]:
    generator = np.random.default_rng(1)
    n_batches = max(2, N_VARIED // size)
    return list(generator.normal(size=(n_batches, size, N_FEATURES)).astype(np.float32))


def _make_data(n_rows: int = 5000) -> tuple[Array, Array]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(n_rows, N_FEATURES)).astype(np.float32)
    y = x @ generator.normal(size=N_FEATURES) + x[:, 0] * x[:, 1]
    return x, (y + generator.normal(size=n_rows)).astype(np.float32)


def _make_classes(n_classes: int) -> tuple[Array, Array]:
    x, y = _make_data()
    return x, np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))


def _export(estimator: Any, x: Array, y: Array) -> bytes:
    from skl2onnx import to_onnx

    options = {"zipmap": False} if hasattr(estimator, "predict_proba") else None
    model = to_onnx(estimator.fit(x, y), x[:1], options=options)
    return model.SerializeToString()


def _make_forest(n_trees: int, depth: int | None) -> bytes:
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(n_trees, max_depth=depth, max_features=3, random_state=0)
    return _export(forest, *_make_data(5000 if depth is None else 20_000))


def _make_forest_classifier() -> bytes:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(100, max_depth=6, random_state=0)
    return _export(forest, *_make_classes(3))


def _make_boosted_classifier() -> bytes:
    from sklearn.ensemble import GradientBoostingClassifier

    boosted = GradientBoostingClassifier(n_estimators=40, max_depth=5, random_state=0)
    return _export(boosted, *_make_classes(3))


def _make_xgboost() -> bytes:
    import onnxmltools
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    estimator = xgboost.XGBRegressor(n_estimators=100, max_depth=6).fit(*_make_data())
    kind = [("x", FloatTensorType([None, N_FEATURES]))]
    return onnxmltools.convert_xgboost(estimator, initial_types=kind).SerializeToString()


def _make_lightgbm() -> bytes:
    import lightgbm
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    estimator = lightgbm.LGBMRegressor(n_estimators=100, verbose=-1).fit(*_make_data())
    kind = [("x", FloatTensorType([None, N_FEATURES]))]
    return onnxmltools.convert_lightgbm(estimator, initial_types=kind).SerializeToString()


MODELS: dict[str, Callable[[], bytes]] = {
    "forest-10x4": lambda: _make_forest(10, 4),
    "forest-100x6": lambda: _make_forest(100, 6),
    "forest-100x10": lambda: _make_forest(100, 10),
    "forest-500x8": lambda: _make_forest(500, 8),
    "forest-50xfull": lambda: _make_forest(50, None),
    "forest-3-classes": _make_forest_classifier,
    "boosted-3-classes": _make_boosted_classifier,
    "xgboost": _make_xgboost,
    "lightgbm": _make_lightgbm,
}
_OPTIONAL = ("xgboost", "lightgbm")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    found = [
        name
        for name in MODELS
        if name not in _OPTIONAL or all(map(importlib.util.find_spec, (name, "onnxmltools")))
    ]
    parser.add_argument("--models", nargs="+", choices=MODELS, default=found, metavar="MODEL")
    parser.add_argument("--rows", nargs="+", type=int, default=list(ROWS))
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each number of rows")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
