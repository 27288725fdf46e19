"""Measure svod beside numpy, and beside torch where it is installed.

    python benchmarks/run.py                    # every workload
    python benchmarks/run.py gemm512 softmax    # some
    python benchmarks/run.py --scale 4          # with small sizes, as a quick check

`first` is the first call: building the graph, compiling and running once, with no disk cache. `svod` is one execution
of the prepared plan; the others are one call. Each time is the least of several, and each result is compared with numpy's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from workloads import Workload, iter_workloads

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="workloads to run; all by default")
    parser.add_argument("--scale", type=int, default=1, help="divide the large sizes by this")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each measurement")
    parser.add_argument("--json", action="store_true", help="write the numbers to benchmarks/results/ too")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(f"import svod_tensor: {import_ms():.0f} ms")
    print(f"{'workload':<12} {'first':>9} {'svod':>9} {'numpy':>9} {'torch':>9}  {'numpy/svod':>10}  rate")
    # A cache left by an earlier run would hide what compiling costs.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SVOD_CACHE_DIR"] = folder
        for workload in iter_workloads(arguments.scale):
            if not arguments.names or workload.name in arguments.names:
                rows.append(measure(workload, arguments.seconds))
    if arguments.json:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / time.strftime("%Y%m%d-%H%M%S.json")
        path.write_text(json.dumps(rows, indent=1))
        print(path)
    return 1 if any(not row["agrees"] for row in rows) else 0


def measure(workload: Workload, seconds: float) -> dict[str, Any]:
    """Run one workload everywhere, print its row and return it."""
    expected = np.asarray(workload.numpy(*workload.inputs))
    row: dict[str, Any] = {"name": workload.name}
    row["first"], row["svod"], found = measure_svod(workload, seconds)
    row["numpy"] = least_seconds(lambda: workload.numpy(*workload.inputs), seconds)
    row["torch"] = measure_torch(workload, seconds)
    row["agrees"] = agrees(expected, found, workload.tolerance)
    print(format_row(row, workload), flush=True)
    return row


def measure_svod(workload: Workload, seconds: float) -> tuple[float, float, np.ndarray[Any, Any]]:
    """Seconds of the first call and of one execution of the plan, and the result."""
    from svod_tensor import Tensor

    tensors = [Tensor(array).realize() for array in workload.inputs]
    start = time.perf_counter()
    result = workload.svod(*tensors)
    plan = result.prepare()
    plan.execute()
    first = time.perf_counter() - start
    return first, least_seconds(plan.execute, seconds), np.asarray(result.numpy())


def measure_torch(workload: Workload, seconds: float) -> float | None:
    try:
        import torch
    except ImportError:
        return None
    if workload.torch is None:
        return None
    function, tensors = workload.torch, [torch.from_numpy(array) for array in workload.inputs]
    with torch.inference_mode():
        return least_seconds(lambda: function(*tensors), seconds)


def least_seconds(call: Callable[[], object], seconds: float) -> float:
    """The least time of one call, over about `seconds`; short calls are timed in batches."""
    call()
    start = time.perf_counter()
    call()
    once = max(time.perf_counter() - start, 1e-7)
    batch = max(1, int(2e-4 / once))
    best, end = once, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(batch):
            call()
        best = min(best, (time.perf_counter() - start) / batch)
    return best


def agrees(expected: np.ndarray[Any, Any], found: np.ndarray[Any, Any], tolerance: float) -> bool:
    scale = float(np.abs(expected).max()) or 1.0
    return expected.shape == found.shape and bool(np.allclose(expected, found, rtol=tolerance, atol=tolerance * scale))


def import_ms() -> float:
    """Milliseconds to import svod_tensor in a new process, beyond an empty one; the least of three."""

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    return 1e3 * (min(run("import svod_tensor") for _ in range(3)) - min(run("pass") for _ in range(3)))


def format_row(row: dict[str, Any], workload: Workload) -> str:
    rate = ""
    if workload.flops:
        rate = f"{workload.flops / row['svod'] / 1e9:.1f} GFLOP/s"
    elif workload.moved_bytes:
        rate = f"{workload.moved_bytes / row['svod'] / 1e9:.1f} GB/s"
    times = " ".join(format_time(row[key]) for key in ("first", "svod", "numpy", "torch"))
    verdict = "" if row["agrees"] else "  WRONG RESULT"
    return f"{row['name']:<12} {times}  {row['numpy'] / row['svod']:>9.2f}x  {rate}{verdict}"


def format_time(seconds: float | None) -> str:
    if seconds is None:
        return f"{'-':>9}"
    return f"{seconds * 1e6:>7.1f}us" if seconds < 1e-3 else f"{seconds * 1e3:>7.1f}ms"


if __name__ == "__main__":
    raise SystemExit(main())
