"""Measure programs with loops: svod compared with numpy and jax.lax, with a given number of
threads.

    python benchmarks/loops.py                      # all workloads, then compile times, then ways of repeating
    python benchmarks/loops.py --quick              # small sizes, to check that results agree
    python benchmarks/loops.py kalman lstm          # workloads whose names begin so
    python benchmarks/loops.py --only repeat        # one of the tables: workloads, compile, repeat

Every result is compared with numpy's in float64, and the script fails if one is wrong. jax runs
`lax.scan`, `lax.fori_loop` and `lax.while_loop` under `jax.jit`, svod its loops under `jit`. A
library that is not installed is skipped. Measurements are interleaved in one process, and the
minimum counts.
"""

from __future__ import annotations

import argparse
import os
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from loop_libraries import Jax, Library, Numpy, Svod
from loop_workloads import Workload, make_kalman, make_workloads, run_lorenz, run_tiny
from measure import measure_long, restart_with_threads
from report import describe_machine, format_machine, format_table, format_time, write_json

QUICK_SECONDS = 0.05

Calls = dict[str, Callable[[], object]]


def main() -> int:
    arguments = _parse_arguments()
    restart_with_threads(arguments.threads)
    libraries = _find_libraries()
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    report: dict[str, Any] = {"machine": machine}
    wrong: list[str] = []
    if arguments.only in ("workloads", ""):
        report["workloads"] = measure_workloads(libraries, arguments, wrong)
    if arguments.only in ("compile", ""):
        report["compile"] = measure_compiling(arguments.quick)
    if arguments.only in ("repeat", ""):
        report["repeat"] = measure_repeating(arguments.seconds, is_quick=arguments.quick)
    print(write_json("loops", report))
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


def measure_workloads(
    libraries: Sequence[Library], arguments: argparse.Namespace, wrong: list[str]
) -> list[dict[str, Any]]:
    names = [library.name for library in libraries]
    rows: list[dict[str, Any]] = []
    head = [
        "workload",
        "first",
        *names,
        "of an iteration",
        *(f"{name} / svod" for name in names if name != "svod"),
    ]
    lines: list[list[str]] = []
    for workload in make_workloads(is_quick=arguments.quick):
        if arguments.names and not any(map(workload.name.startswith, arguments.names)):
            continue
        row = measure_workload(workload, libraries, arguments.seconds, wrong)
        rows.append(row)
        per_step = row["svod"] / workload.n_steps if workload.n_steps and "svod" in row else None
        ratios = [
            row[name] / row["svod"] if "svod" in row and name in row else None
            for name in names
            if name != "svod"
        ]
        lines.append(
            [
                workload.name,
                format_time(row.get("first")),
                *(format_time(row.get(name)) for name in names),
                format_time(per_step),
                *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
            ]
        )
        print(format_table(head, lines[-1:]), flush=True)
    print(f"\n{format_table(head, lines)}\n")
    return rows


def measure_workload(
    workload: Workload, libraries: Sequence[Library], seconds: float, wrong: list[str]
) -> dict[str, Any]:
    """Run one workload in every library: its name, the seconds of svod's first call and of each
    library.
    """
    expected = _as_tuple(workload.run(Numpy(), *(_widen(a) for a in workload.inputs)))
    calls: Calls = {}
    row: dict[str, Any] = {"name": workload.name, "n_steps": workload.n_steps}
    for library in libraries:
        try:
            inputs = [library.array(array.copy()) for array in workload.inputs]
            call = partial(library.compile(partial(workload.run, library)), *inputs)
            start = perf_counter()
            results = _as_tuple(call())
            if library.name == "svod":
                row["first"] = perf_counter() - start
            results = tuple(library.read(f) for f in results)
        except Exception:
            traceback.print_exc(limit=-4)
            wrong.append(f"{workload.name}: {library.name} raised an error")
            continue
        for index, (value, exact) in enumerate(zip(results, expected, strict=True)):
            away = _measure_distance(value, exact, workload)
            if not away <= workload.tolerance:
                wrong.append(
                    f"{workload.name}: result {index} of {library.name} is {away:.2g} away from"
                    " that in float64"
                )
        calls[library.name] = call
    return row | measure_long(calls, seconds)


def _measure_distance(results: Any, exact: Any, workload: Workload) -> float:
    """Largest error of a result relative to float64, over the largest element."""
    if results.shape != exact.shape:
        return float("inf")
    if workload.name.startswith("mandelbrot"):
        # Points near the edge may leave an iteration earlier or later: one in a hundred does.
        return 100 * float((results != exact).mean())
    largest = float(np.abs(exact).max()) or 1.0
    return float(np.abs(results.astype(np.float64) - exact).max()) / largest


def _widen(array: Any) -> Any:
    return array.astype(np.float64) if array.dtype.kind == "f" else array.copy()


def _as_tuple(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def measure_compiling(is_quick: bool) -> list[dict[str, Any]]:
    """Seconds of the first call, graph nodes and plan ops, for few and many iterations."""
    from svod_tensor import Tensor, jit
    from svod_tensor.engine.caches import KERNELS, SCHEDULES

    library, rng = Svod(), np.random.default_rng(3)
    (Tensor([1.0, 2.0]) * 3).realize()

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    makers: dict[str, Callable[[int], tuple[Callable[..., Any], Sequence[Any]]]] = {
        "ten tiny kernels": lambda n: (run_tiny(n, is_mixing=True), (normal(16), normal(16))),
        "Lorenz, 64 systems": lambda n: (run_lorenz(n), tuple(normal(64) for _ in range(3))),
        "Kalman filter": lambda n: (lambda w: (w.run, w.inputs))(make_kalman(n, normal)),
    }
    rows: list[dict[str, Any]] = []
    for name, make in makers.items():
        for n_steps in (10, 1000 if is_quick else 10_000):
            run, arrays = make(n_steps)
            tensors = [library.array(a) for a in arrays]
            SCHEDULES.clear()
            KERNELS.clear()
            results = _as_tuple(run(library, *tensors))
            n_nodes = len({node for result in results for node in result.uop.toposort()})
            step = jit(partial(run, library))
            start = perf_counter()
            step(*tensors)
            seconds = perf_counter() - start
            n_ops = len(step.plans()[0].prepared_ops)
            rows.append(
                {
                    "name": name,
                    "n_steps": n_steps,
                    "seconds": seconds,
                    "n_nodes": n_nodes,
                    "n_ops": n_ops,
                }
            )
    lines = [
        [
            r["name"],
            str(r["n_steps"]),
            format_time(r["seconds"]),
            str(r["n_nodes"]),
            str(r["n_ops"]),
        ]
        for r in rows
    ]
    print(
        f"\n{format_table(['program', 'iterations', 'first call', 'nodes', 'ops of the plan'], lines)}\n"
    )
    return rows


def measure_repeating(seconds: float, *, is_quick: bool) -> list[dict[str, Any]]:
    """Seconds per iteration for each way of repeating a step."""
    from svod_tensor import Tensor

    rng = np.random.default_rng(7)
    n_steps = 50 if is_quick else 1000
    rows: list[dict[str, Any]] = []

    def step_small(x: Tensor) -> Tensor:
        for _ in range(5):
            x = (x.flip(0) + 1.0).contiguous()
            x = (x * 0.5).contiguous()
        return x

    def step_product(x: Tensor) -> Tensor:
        return (x @ weights).tanh()

    def step_large(x: Tensor) -> Tensor:
        return x * 0.5 + 1.0

    weights = Tensor(rng.standard_normal((128, 128), dtype=np.float32) / 12).realize()
    cases: list[tuple[str, Callable[[Tensor], Tensor], tuple[int, ...], int]] = [
        ("ten tiny kernels", step_small, (16,), n_steps),
        ("product of 8x128 by 128x128, tanh", step_product, (8, 128), n_steps),
        ("1M elements, halved and raised", step_large, (1 << 20,), max(n_steps // 10, 5)),
    ]
    names: list[str] = []
    for title, step, shape, count in cases:
        first = rng.standard_normal(shape, dtype=np.float32)
        calls = _make_ways(step, first, count)
        times = {name: spent / count for name, spent in measure_long(calls, seconds).items()}
        rows.append({"step": title, "n_steps": count, **times})
        names = list(times)
    lines = [[name, *(format_time(row[name]) for row in rows)] for name in names]
    print(f"\n{format_table(['an iteration', *(row['step'] for row in rows)], lines)}\n")
    return rows


def _make_ways(step: Callable[[Any], Any], first: Any, n_steps: int) -> Calls:
    """Calls that repeat a step `count` times, one for each way."""
    from svod_tensor import Tensor, fori_loop, jit, scan

    start = Tensor(first).clone().realize()
    captured, donating = jit(step), jit(step, donate=(0,))

    def call_again() -> object:
        x = start
        for _ in range(n_steps):
            x = captured(x)
        return x

    def donate_again() -> object:
        x = captured(start)
        for _ in range(n_steps - 1):
            x = donating(x)
        return x

    state = Tensor(first).clone().realize()

    @jit
    def advance() -> None:
        state.assign(step(state))

    def assign_again() -> None:
        for _ in range(n_steps):
            advance()

    planned = Tensor(first).clone().realize()
    plan = planned.assign(step(planned)).prepare()

    def execute_again() -> None:
        for _ in range(n_steps):
            plan.execute()

    def build_again() -> object:
        x = start
        for _ in range(n_steps):
            x = step(x).realize()
        return x

    loop = jit(lambda x: fori_loop(0, n_steps, lambda _, x: step(x), x))
    stacking = jit(lambda x: scan(lambda x, _: (step(x), None), x, None, length=n_steps)[0])
    return {
        "step(x).realize() in Python": build_again,
        "x = step(x) with jit": call_again,
        "x = step(x) with jit, donated": donate_again,
        "state.assign(step(state)) with jit": assign_again,
        "the same as a prepared plan": execute_again,
        "fori_loop in one call": partial(loop, start),
        "scan in one call": partial(stacking, start),
    }


def _find_libraries() -> list[Library]:
    libraries: list[Library] = [Svod(), Numpy()]
    try:
        libraries.append(Jax())
    except ImportError:
        print("without jax: it is not installed")
    return libraries


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="prefixes of workload names (default: all)")
    parser.add_argument(
        "--only",
        choices=("workloads", "compile", "repeat"),
        default="",
        help="run only one of the tables",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument(
        "--threads",
        type=int,
        default=os.cpu_count() or 1,
        help="threads of every library (default: all cores)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        help="seconds per workload, for all libraries together",
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
