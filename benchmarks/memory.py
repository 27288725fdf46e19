"""Measure the memory of a forward pass: the same transformer in svod, torch and numpy.

    python benchmarks/memory.py                   12 layers of width 768, 12 heads, batch 8 of 128 positions
    python benchmarks/memory.py --quick           2 layers

Each library runs in a separate process. The figures are resident memory as reported by Linux (VmRSS
and its peak, VmHWM), in MiB: with the library imported, with the weights, and at the peak of three
forward passes, which is also shown as the growth over the weights. The weights are the same numpy
arrays, which svod and torch use without a copy. Cold runs have empty disk caches, so that the
growth includes LLVM and compilation; warm is the next process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from encoder import iter_layers, make_weights, numpy_layer, svod_layer, torch_layer
from report import describe_machine, format_machine, format_table, write_json

__all__ = ["main"]

BATCH, LENGTH, WIDTH, N_HEADS = 8, 128, 768, 12
N_PASSES = 3
MIB = 1 << 20


class Result(NamedTuple):
    """Memory of one process in bytes.

    Attributes:
        imported: resident memory with the library, before the weights.
        loaded: resident memory with the weights and the input.
        peak: maximum during the computation.
        planned: intermediates, if the library reports them.
        total: sum of the output's elements, to compare.
    """

    imported: int
    loaded: int
    peak: int
    planned: int
    total: float


def read_status(name: str) -> int:
    """Read a size from /proc/self/status, in bytes."""
    match = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert match is not None
    return 1024 * int(match.group(1))


def reset_peak() -> None:
    """Reset the peak to the current resident memory."""
    Path("/proc/self/clear_refs").write_text("5")


def make_svod(weights: Sequence[Any], x: Any) -> Callable[[], tuple[Any, int]]:
    from svod_tensor import Tensor

    def forward() -> tuple[Any, int]:
        hidden = Tensor.from_numpy(x)
        for layer in iter_layers(tuple(map(Tensor.from_numpy, weights))):
            hidden = svod_layer(hidden, layer, N_HEADS)
        plan = hidden.prepare()
        for _ in range(N_PASSES):
            plan.execute()
        return hidden.numpy(), plan.memory_report.bytes_after

    return forward


def make_torch(weights: Sequence[Any], x: Any) -> Callable[[], tuple[Any, int]]:
    import torch

    def forward() -> tuple[Any, int]:
        with torch.inference_mode():
            for _ in range(N_PASSES):
                hidden = torch.from_numpy(x)
                for layer in iter_layers(tuple(map(torch.from_numpy, weights))):
                    hidden = torch_layer(hidden, layer, N_HEADS)
        return hidden.numpy(), 0

    return forward


def make_numpy(weights: Sequence[Any], x: Any) -> Callable[[], tuple[Any, int]]:
    def forward() -> tuple[Any, int]:
        for _ in range(N_PASSES):
            hidden = x
            for layer in iter_layers(tuple(weights)):
                hidden = numpy_layer(hidden, layer, N_HEADS)
        return hidden, 0

    return forward


LIBRARIES = {"svod": make_svod, "torch": make_torch, "numpy": make_numpy}


def measure(library: str, n_layers: int) -> Result:
    """Measure the memory of this process, which has done nothing yet."""
    import_module({"svod": "svod_tensor"}.get(library, library))
    imported = read_status("VmRSS")
    weights = make_weights(n_layers, WIDTH, 4 * WIDTH)
    x = np.random.default_rng(1).standard_normal((BATCH, LENGTH, WIDTH), dtype=np.float32)
    forward = LIBRARIES[library](weights, x)
    loaded = read_status("VmRSS")
    reset_peak()
    result, planned = forward()
    return Result(imported, loaded, read_status("VmHWM"), planned, float(np.abs(result).sum()))


def measure_apart(library: str, n_layers: int, cache: str) -> Result:
    """Run `measure` in a new process."""
    command = [sys.executable, __file__, "--child", library, "--layers", str(n_layers)]
    environment = {**os.environ, "SVOD_CACHE_DIR": cache}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return Result(*json.loads(done.stdout))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every installed library and print a table."""
    parser = argparse.ArgumentParser(
        description="Measure the memory of a transformer's forward pass."
    )
    parser.add_argument("--layers", type=int, default=12, help="number of layers (default: 12)")
    parser.add_argument("--quick", action="store_true", help="use two layers")
    parser.add_argument("--child", choices=LIBRARIES, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(json.dumps(measure(options.child, options.layers)))
        return 0
    n_layers = 2 if options.quick else options.layers
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    with tempfile.TemporaryDirectory() as cache:
        # The second svod process loads its kernels from disk.
        names = ["svod, cold", "svod, warm", *(["torch"] if find_spec("torch") else []), "numpy"]
        results = {name: measure_apart(name.split(",")[0], n_layers, cache) for name in names}
    totals = [result.total for result in results.values()]
    if max(totals) - min(totals) > 1e-3 * max(totals):
        print(f"error: the results differ: {totals}")
        return 1
    print(format_results(results))
    print(
        write_json(
            "memory",
            {
                "machine": machine,
                "layers": n_layers,
                "results": {n: r._asdict() for n, r in results.items()},
            },
        )
    )
    return 0


def format_results(results: Mapping[str, Result]) -> str:
    rows = [["", "imported", "with weights", "peak", "growth", "intermediates"]]
    for name, r in results.items():
        sizes = [r.imported, r.loaded, r.peak, r.peak - r.loaded]
        rows.append(
            [
                name,
                *(f"{size / MIB:.1f}" for size in sizes),
                f"{r.planned / MIB:.1f}" if r.planned else "",
            ]
        )
    return format_table(rows[0], rows[1:])


if __name__ == "__main__":
    raise SystemExit(main())
