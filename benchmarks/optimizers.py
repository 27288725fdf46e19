"""Measure optimizer steps over all parameters of a network, compared with torch and jax.

    python benchmarks/optimizers.py                 # every network and optimizer
    python benchmarks/optimizers.py --quick         # small networks, to check that results agree
    python benchmarks/optimizers.py transformer     # networks whose names begin so

Gradients are precomputed, so that only the step is measured. torch runs its fused and its `foreach`
optimizer, jax the same formulas under one `jit` with donated arguments. Measurements are
interleaved in one process, and the minimum counts. `GB/s` counts the minimum memory traffic of a
step: parameters and optimizer state are read and written, gradients read, once each. `first` is
svod's first step with its compilation, and `again` the time of a second capture with known kernels.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from measure import measure_in_turns, restart_with_threads
from report import describe_machine, format_machine, format_table, format_time, write_json

RATE = 1e-3
TOLERANCE = 1e-5
N_COMPARED = 3

Shapes = list[tuple[int, ...]]


def main() -> int:
    arguments = _parse_arguments()
    restart_with_threads(arguments.threads)
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    wrong: list[str] = []
    rows: list[dict[str, Any]] = []
    for name, shapes in iter_networks(is_quick=arguments.quick):
        if arguments.names and not any(map(name.startswith, arguments.names)):
            continue
        for optimizer in ("adamw", "sgd"):
            row = measure_optimizer(
                name, shapes, optimizer, 0.1 if arguments.quick else arguments.seconds, wrong
            )
            rows.append(row)
            print(_format_rows([row]), flush=True)
    print(f"\n{_format_rows(rows)}\n")
    print(
        write_json("optimizers", {"machine": machine, "threads": arguments.threads, "rows": rows})
    )
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


def iter_networks(*, is_quick: bool) -> list[tuple[str, Shapes]]:
    """Parameter shapes of a transformer with 6 layers, and of ResNet-18."""
    width, layers, channels = (32, 2, 8) if is_quick else (384, 6, 64)
    return [("transformer", _list_transformer(layers, width)), ("resnet18", _list_resnet(channels))]


def _list_transformer(n_layers: int, width: int) -> Shapes:
    layer: Shapes = [
        (width,),
        (width,),
        (3 * width, width),
        (3 * width,),
        (width, width),
        (width,),
        (width,),
        (width,),
        (4 * width, width),
        (4 * width,),
        (width, 4 * width),
        (width,),
    ]
    return [(256, width), (128, width), *layer * n_layers, (width,), (width,)]


def _list_resnet(channels: int) -> Shapes:
    shapes: Shapes = [(channels, 3, 3, 3), (channels,), (channels,)]
    before = channels
    for stage in range(4):
        after = channels << stage
        for block in range(2):
            shapes += [
                (after, before, 3, 3),
                (after,),
                (after,),
                (after, after, 3, 3),
                (after,),
                (after,),
            ]
            if block == 0 and stage > 0:
                shapes += [(after, before, 1, 1), (after,), (after,)]
            before = after
    return [*shapes, (10, before), (10,)]


def measure_optimizer(
    name: str, shapes: Shapes, optimizer: str, seconds: float, wrong: list[str]
) -> dict[str, Any]:
    """Measure a row: number of kernels, time of the first step, and minimum seconds of each
    library's steps.
    """
    import numpy as np

    random = np.random.default_rng(0)
    weights, gradients = (
        [random.standard_normal(s).astype(np.float32) for s in shapes] for _ in range(2)
    )
    n_elements = sum(math.prod(s) for s in shapes)
    moved = 4 * n_elements * (7 if optimizer == "adamw" else 5)
    row: dict[str, Any] = {
        "network": name,
        "optimizer": optimizer,
        "n_parameters": len(shapes),
        "n_elements": n_elements,
    }
    steps: dict[str, Callable[[], Any]] = {}
    results: dict[str, list[Any]] = {}
    for library, make in {
        "svod": _make_svod,
        "torch fused": _make_fused,
        "torch foreach": _make_foreach,
        "jax": _make_jax,
    }.items():
        runner = make(optimizer, [w.copy() for w in weights], gradients)
        if runner is None:
            continue
        step, read = runner
        start = perf_counter()
        step()
        row.setdefault("first", {})[library] = perf_counter() - start
        for _ in range(N_COMPARED - 1):
            step()
        steps[library], results[library] = step, [np.array(parameter) for parameter in read()]
        if library == "svod":
            row |= _describe_plan(step)
    for library, parameters in results.items():
        worst = max(
            float(np.abs(a - b).max()) for a, b in zip(parameters, results["svod"], strict=True)
        )
        if worst > TOLERANCE:
            wrong.append(f"{name}, {optimizer}: weights of {library} differ by {worst:.2g}")
    times = measure_in_turns(steps, seconds)
    return row | {"step": times, "gbps": moved / times["svod"] / 1e9}


def _make_svod(optimizer: str, weights: list[Any], gradients: list[Any]) -> Any:
    import svod_nn as nn
    from svod_tensor import Tensor, jit

    parameters = {str(n): Tensor(w).clone().realize() for n, w in enumerate(weights)}
    gradient_tensors = {str(n): Tensor(g).clone().realize() for n, g in enumerate(gradients)}
    svod_optimizer = (
        nn.AdamW(parameters, RATE)
        if optimizer == "adamw"
        else nn.SGD(parameters, RATE, momentum=0.9)
    )
    step = jit(lambda gradients: svod_optimizer.update(gradients))

    def run() -> None:
        step(gradient_tensors)

    run.captured = step  # type: ignore[attr-defined]
    return run, lambda: [p.numpy() for p in parameters.values()]


def _describe_plan(run: Any) -> dict[str, Any]:
    """Return the number of kernels in a step, the number of compiled kernels, and the time of a
    second capture.
    """
    (plan,) = run.captured.plans()
    n_runs, n_compiled = len(plan.kernels()), len({kernel.kernel for kernel in plan.kernels()})
    run.captured.clear()
    start = perf_counter()
    run()
    return {"n_runs": n_runs, "n_compiled": n_compiled, "again": perf_counter() - start}


def _make_fused(optimizer: str, weights: list[Any], gradients: list[Any]) -> Any:
    return _make_torch(optimizer, weights, gradients, {"fused": True})


def _make_foreach(optimizer: str, weights: list[Any], gradients: list[Any]) -> Any:
    return _make_torch(optimizer, weights, gradients, {"foreach": True})


def _make_torch(
    optimizer: str, weights: list[Any], gradients: list[Any], way: dict[str, bool]
) -> Any:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    parameters = [torch.nn.Parameter(torch.from_numpy(w)) for w in weights]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = torch.from_numpy(gradient.copy())
    torch_optimizer = (
        torch.optim.AdamW(parameters, RATE, **way)
        if optimizer == "adamw"
        else torch.optim.SGD(parameters, RATE, momentum=0.9, **way)
    )
    return torch_optimizer.step, lambda: [p.detach().numpy() for p in parameters]


def _make_jax(optimizer: str, weights: list[Any], gradients: list[Any]) -> Any:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None

    def adamw(state: Any, gradients: Any) -> Any:
        p, m, v, t = state
        t = t + 1
        m = [0.9 * a + 0.1 * g for a, g in zip(m, gradients, strict=True)]
        v = [0.999 * a + 0.001 * g * g for a, g in zip(v, gradients, strict=True)]
        rate, scale = RATE / (1 - 0.9**t), jax.lax.rsqrt(1 - 0.999**t)
        p = [
            x * (1 - RATE * 0.01) - rate * a / (jnp.sqrt(b) * scale + 1e-8)
            for x, a, b in zip(p, m, v, strict=True)
        ]
        return p, m, v, t

    def sgd(state: Any, gradients: Any) -> Any:
        p, m, t = state
        m = [0.9 * a + g for a, g in zip(m, gradients, strict=True)]
        return [x - RATE * a for x, a in zip(p, m, strict=True)], m, t

    def make_zeros() -> list[Any]:
        return [jnp.zeros(w.shape, w.dtype) for w in weights]

    step = jax.jit(adamw if optimizer == "adamw" else sgd, donate_argnums=0)
    averages = [make_zeros() for _ in range(2 if optimizer == "adamw" else 1)]
    state = ([jnp.array(w) for w in weights], *averages, jnp.float32(0))
    gradient_arrays = [jnp.array(g) for g in gradients]

    def run() -> None:
        nonlocal state
        state = jax.block_until_ready(step(state, gradient_arrays))

    return run, lambda: [jax.device_get(p) for p in state[0]]


def _format_rows(rows: Sequence[dict[str, Any]]) -> str:
    peers = ("torch fused", "torch foreach", "jax")
    head = [
        "network",
        "optimizer",
        "parameters",
        "elements",
        "runs",
        "kernels",
        "first",
        "again",
        "GB/s",
        "svod",
        *peers,
        *(f"{peer} / svod" for peer in peers),
    ]
    lines: list[list[str]] = []
    for row in rows:
        times: dict[str, float] = row["step"]
        lines.append(
            [
                row["network"],
                row["optimizer"],
                str(row["n_parameters"]),
                f"{row['n_elements'] / 1e6:.1f} M",
                str(row["n_runs"]),
                str(row["n_compiled"]),
                format_time(row["first"]["svod"]),
                format_time(row["again"]),
                f"{row['gbps']:.1f}",
                *(format_time(times.get(name)) for name in ("svod", *peers)),
                *(f"{times[peer] / times['svod']:.2f}" if peer in times else "-" for peer in peers),
            ]
        )
    return format_table(head, lines)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="prefixes of network names (default: all)")
    parser.add_argument("--quick", action="store_true", help="use small networks")
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds per row")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
