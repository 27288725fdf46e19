"""Measure single kernels on a device with separate memory, compared with torch on CUDA if
installed.

    python benchmarks/gpu.py                             on OPENCL
    python benchmarks/gpu.py --search 20                 search for opts, 20 seconds per kernel

Times are measured by the device, the minimum of several runs. Every result is compared with numpy
in float64. `of peer` is torch's time over svod's. The rates count the operations and the minimum
number of bytes moved.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from report import describe_machine, format_machine, format_table, format_time, write_json
from svod_device import get_device
from svod_schedule import OptimizerConfig
from svod_tensor import PrepareConfig, Tensor

HEAD = ("kernel", "svod", "torch", "of peer", "GFLOP/s", "GB/s", "error", "kernels")
N_RUNS = 10


class Case(NamedTuple):
    name: str
    shapes: tuple[tuple[int, ...], ...]
    compute: Callable[..., Any]
    """Computation on operations that numpy, torch and svod share."""
    n_operations: int = 0
    n_bytes: int = 0
    dtype: str = "float32"


def _multiply(x: Any, y: Any) -> Any:
    return x @ y


def _softmax(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        powers = np.exp(x - x.max(-1, keepdims=True))
        return powers / powers.sum(-1, keepdims=True)
    return x.softmax(-1)


def _transpose(x: Any) -> Any:
    return x.T.copy() if isinstance(x, np.ndarray) else x.T.contiguous()


CASES = (
    *(
        Case(f"product {n}", ((n, n), (n, n)), _multiply, 2 * n**3, 12 * n * n)
        for n in (512, 1024, 2048, 4096)
    ),
    Case(
        "product 2048, float16", ((2048, 2048),) * 2, _multiply, 2 * 2048**3, 6 * 2048**2, "float16"
    ),
    Case("matrix by vector 4096", ((4096, 4096), (4096,)), _multiply, 2 * 4096**2, 4 * 4096**2),
    Case("sum of two, 16 M", ((1 << 24,),) * 2, lambda x, y: x + y, 1 << 24, 12 << 24),
    Case("sums of rows 8192 x 4096", ((8192, 4096),), lambda x: x.sum(1), 1 << 25, 4 << 25),
    Case("sums of columns 8192 x 4096", ((8192, 4096),), lambda x: x.sum(0), 1 << 25, 4 << 25),
    Case("sum of 16 M", ((1 << 24,),), lambda x: x.sum(), 1 << 24, 4 << 24),
    Case("softmax 4096 x 4096", ((4096, 4096),), _softmax, 5 << 24, 8 << 24),
    Case("transpose 4096 x 4096", ((4096, 4096),), _transpose, 0, 8 << 24),
)


class Found(NamedTuple):
    name: str
    svod: float
    torch: float | None
    gflops: float
    gigabytes: float
    error: float
    kernels: list[str]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="OPENCL", help="device name in svod (default: OPENCL)")
    parser.add_argument(
        "--search",
        type=float,
        default=0.0,
        help="seconds of search per kernel (default: no search)",
    )
    parser.add_argument("--only", default="", help="substring of the names of cases to run")
    arguments = parser.parse_args()
    machine = describe_machine() | {"device": get_device(arguments.device).backend.target.name}
    print(format_machine(machine))
    optimizer = OptimizerConfig()
    if arguments.search:
        optimizer = OptimizerConfig(strategy="beam", kernel_seconds=arguments.search)
    rows = [
        _measure(case, arguments.device, optimizer) for case in CASES if arguments.only in case.name
    ]
    print(format_table(HEAD, [_format(row) for row in rows]))
    print(
        write_json(
            "gpu",
            {
                "machine": machine,
                "arguments": vars(arguments),
                "rows": [f._asdict() for f in rows],
            },
        )
    )


def _measure(case: Case, device: str, optimizer: OptimizerConfig) -> Found:
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(shape, dtype=np.float32).astype(case.dtype) for shape in case.shapes
    ]
    y = case.compute(*(Tensor(a, device=device) for a in arrays))
    plan = y.prepare_with(PrepareConfig(optimizer=optimizer))
    plan.execute()
    runs = [plan.execute_profiled() for _ in range(N_RUNS)]
    seconds = min(sum(kernel.elapsed_ns for kernel in run) for run in runs) / 1e9
    right = np.asarray(case.compute(*(a.astype(np.float64) for a in arrays)))
    actual = case.compute(*(Tensor(a, device=device) for a in arrays)).numpy().astype(np.float64)
    error = float(np.abs(actual - right).max() / np.abs(right).max())
    torch_seconds = _measure_torch(case, arrays)
    rates = case.n_operations / seconds / 1e9, case.n_bytes / seconds / 1e9
    return Found(
        case.name, seconds, torch_seconds, *rates, error, [kernel.name for kernel in runs[0]]
    )


def _measure_torch(case: Case, arrays: list[np.ndarray]) -> float | None:
    """Minimum time of torch's kernels, measured by the device; None without CUDA."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    tensors = [torch.from_numpy(a).cuda() for a in arrays]
    times: list[float] = []
    for _ in range(N_RUNS + 3):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        case.compute(*tensors)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return min(times[3:])


def _format(rows: Found) -> tuple[str, ...]:
    peer = "" if rows.torch is None else f"{rows.torch / rows.svod:.2f}"
    rates = f"{rows.gflops:.0f}", f"{rows.gigabytes:.0f}"
    return (
        rows.name,
        format_time(rows.svod),
        format_time(rows.torch),
        peer,
        *rates,
        f"{rows.error:.0e}",
        " ".join(rows.kernels),
    )


if __name__ == "__main__":
    main()
