"""Comparison of the speed and memory of a model with onnxruntime.

Each library runs in a process of its own, which this module is the entry point of, so that the peak
of the memory is that library's.
"""

from __future__ import annotations

import importlib
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Final

import numpy as np

from svod_onnx._progress import show_progress

__all__ = ["iter_rows", "measure"]

_LIBRARIES: Final = ("svod_onnx", "onnxruntime")
_SECONDS: Final = 1.0
_MIN_CALLS, _MAX_CALLS = 5, 10_000
_COLUMNS: Final = {
    "load": ("load", "ms"),
    "first": ("first call", "ms"),
    "call": ("call", "ms"),
    "memory": ("peak memory", "MiB"),
}


def iter_rows(path: str, arrays: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Lines of a table: time to load, time of the first call and median of the others, and the
    peak memory, without the memory of the imported library.
    """
    yield "".join([f"{'':14}", *(f"{title:>18}" for title, _ in _COLUMNS.values())])
    with TemporaryDirectory() as folder:
        feed = Path(folder) / "feed"
        feed.write_bytes(pickle.dumps(dict(arrays)))
        for library in _LIBRARIES:
            if find_spec(library) is None:
                yield f"{library:14}  not installed"
                continue
            process = subprocess.run(
                [sys.executable, "-m", __name__, library, path, str(feed)],
                stdout=subprocess.PIPE,
                check=False,
            )
            lines = process.stdout.decode().splitlines()
            if process.returncode or not lines:
                yield f"{library:14}  failed"
                continue
            values = json.loads(lines[-1])
            yield "".join(
                [
                    f"{library:14}",
                    *(
                        f"{f'{values[name]:,.3f} {unit}':>18}"
                        for name, (_, unit) in _COLUMNS.items()
                    ),
                ]
            )


def measure(
    library: Any, path: str, feed: Mapping[str, np.ndarray], seconds: float = _SECONDS
) -> dict[str, float]:
    """Times in ms and memory in MiB of a model.

    Args:
        library: module with onnxruntime's interface.
        path: path of the model.
        feed: inputs by name.
        seconds: approximate time of the calls after the first.
    """
    before = _read_memory("VmRSS")
    start = perf_counter()
    session = library.InferenceSession(path, providers=["CPUExecutionProvider"])
    loaded = perf_counter()
    session.run(None, feed)
    first = perf_counter()
    times: list[float] = []
    # A second call may compile too, and is not counted.
    session.run(None, feed)
    end = perf_counter() + seconds
    while len(times) < _MIN_CALLS or (perf_counter() < end and len(times) < _MAX_CALLS):
        called = perf_counter()
        session.run(None, feed)
        times.append(perf_counter() - called)
    return {
        "load": (loaded - start) * 1e3,
        "first": (first - loaded) * 1e3,
        "call": median(times) * 1e3,
        "memory": max(_read_memory("VmHWM") - before, 0.0),
    }


def _read_memory(field: str) -> float:
    """Memory of the process in MiB; a nan where the system has no /proc."""
    status = Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    line = next(line for line in status.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def _main(library: str, path: str, feed: str) -> None:
    arrays = pickle.loads(Path(feed).read_bytes())  # written by `iter_rows`
    module = importlib.import_module(library)
    with show_progress(sys.stderr):
        values = measure(module, path, arrays)
    sys.stdout.write(json.dumps(values) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
