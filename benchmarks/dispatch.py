"""Measure the overhead of a call with little work, in svod, numpy, torch and jax, on one thread.

    python benchmarks/dispatch.py
    python benchmarks/dispatch.py --seconds 1     # per table; the minimum counts

Every call adds tensors of 16 elements. Measurements are interleaved in one process. A library that
is not installed is skipped. `one add` is a single addition. `100 adds` are 100 dependent additions:
svod's plan and jit run 100 kernels, numpy and eager torch make 100 calls; torch.compile and jax.jit
fuse them into one kernel. `100 adds, unfused` prevents fusion: with an optimization barrier after
each addition in jax, with a custom operator that is opaque to torch.compile, and with eager jax.

`a new length` computes on tensors of 3,000 distinct lengths between 300 and 10,000 in random order:
`x + y * 2`, and `(x - mean) / (max - min)`. The medians are over as many lengths as fit the time;
svod computes all of them and prints the number of kernels that it compiled. `known sizes` is svod
with SVOD_VARY_SIZES=0. The rows with `dynamic_shapes` are calls of one plan for all lengths: 500
lengths for the first time, and then again. Kernels and objects on disk are not used.

The last tables have the cost of waking the threads for a kernel with parts after an idle gap, and
the processor time of an idle process after a kernel on several threads.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from measure import measure_in_turns
from report import describe_machine, format_machine, format_table, format_time, write_json

N_ELEMENTS = 16
N_ADDS = 100
N_LENGTHS = 3000
LENGTHS = range(300, 10_001)
GAPS = (0.001, 0.01, 0.1)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Calls = dict[str, Callable[[], object]]


def main() -> int:
    arguments = _parse_arguments()
    _restart_on_one_thread()
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    makers = (_make_svod_calls, _make_numpy_calls, _make_torch_calls, _make_jax_calls)
    report: dict[str, Mapping[str, float]] = {}
    tables = [maker() for maker in makers]
    for workload in ("one add", "100 adds", "100 adds, unfused"):
        calls: Calls = {
            name: call for table in tables for name, call in table.get(workload, {}).items()
        }
        report[workload] = measure_in_turns(calls, arguments.seconds)
        print(f"\n{_format_calls(workload, report[workload])}", flush=True)
    for name, compute in NEW_LENGTHS.items():
        report[f"new length: {name}"] = medians = measure_new_lengths(compute, arguments.seconds)
        print(f"\n{_format_new_lengths(name, medians)}", flush=True)
    report["wake"] = measure_waking()
    print(f"\n{_format_waking(report['wake'])}")
    report["idle"] = {"processor seconds in a second": measure_idle()}
    print(
        f"\nidle: {report['idle']['processor seconds in a second'] * 1e3:.2f} ms of processor time"
        " in a second"
    )
    print(write_json("dispatch", {"machine": machine, "seconds": report}))
    return 0


def _restart_on_one_thread() -> None:
    """Limit every library to one thread, before libraries read the variables.

    svod's second thread is only for `wake`.
    """
    limits = {
        **dict.fromkeys(THREADS, "1"),
        "SVOD_THREADS": "2",
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    }
    if any(os.environ.get(name) != value for name, value in limits.items()):
        limits["SVOD_CACHE_DIR"] = tempfile.mkdtemp(prefix="svod-dispatch-")
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **limits})


def _make_inputs() -> tuple[Any, Any]:
    return np.arange(N_ELEMENTS, dtype=np.float32), np.ones(N_ELEMENTS, np.float32)


def _make_svod_calls() -> dict[str, Calls]:
    from svod_tensor import Tensor, jit

    a, b = (Tensor(array).realize() for array in _make_inputs())

    def chain(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(N_ADDS):
            x = (x + y).contiguous()
        return x

    captured, captured_chain = jit(lambda x, y: x + y), jit(chain)
    one_add = {
        "svod plan": (a + b).prepare().execute,
        "svod jit": partial(captured, a, b),
        "svod realize": lambda: (a + b).realize(),
    }
    many = {
        "svod plan": chain(a, b).prepare().execute,
        "svod jit": partial(captured_chain, a, b),
        "svod realize": lambda: chain(a, b).realize(),
    }
    return {"one add": one_add, "100 adds": many, "100 adds, unfused": many}


def _make_numpy_calls() -> dict[str, Calls]:
    a, b = _make_inputs()
    many: Calls = {"numpy": partial(_repeat, np.add, a, b)}
    return {
        "one add": {"numpy": partial(np.add, a, b)},
        "100 adds": many,
        "100 adds, unfused": many,
    }


def _make_torch_calls() -> dict[str, Calls]:
    try:
        import torch
    except ImportError:
        print("without torch: it is not installed")
        return {}
    torch.set_num_threads(1)
    a, b = (torch.from_numpy(array) for array in _make_inputs())

    @torch.library.custom_op(
        "svod_benchmark::add", mutates_args=(), schema="(Tensor x, Tensor y) -> Tensor"
    )
    def opaque_add(x: Any, y: Any) -> Any:
        return x + y

    opaque_add.register_fake(lambda x, y: torch.empty_like(x))
    many: Calls = {"torch": partial(_repeat, torch.add, a, b)}
    calls: dict[str, Calls] = {
        "one add": {"torch": partial(torch.add, a, b)},
        "100 adds": many,
        "100 adds, unfused": dict(many),
    }
    try:
        compiled = torch.compile(torch.add)
        compiled_chain = torch.compile(partial(_repeat, torch.add))
        compiled_apart = torch.compile(partial(_repeat, opaque_add))
        for function in (compiled, compiled_chain, compiled_apart):
            function(a, b)
    except Exception as error:
        print(f"without torch.compile: {type(error).__name__}, {str(error).splitlines()[0]}")
        return calls
    calls["one add"]["torch.compile"] = partial(compiled, a, b)
    calls["100 adds"] = {**many, "torch.compile": partial(compiled_chain, a, b)}
    calls["100 adds, unfused"] = {**many, "torch.compile": partial(compiled_apart, a, b)}
    return calls


def _make_jax_calls() -> dict[str, Calls]:
    try:
        import jax
    except ImportError:
        print("without jax: it is not installed")
        return {}
    a, b = (jax.numpy.asarray(array) for array in _make_inputs())
    add, chain = jax.jit(jax.numpy.add), jax.jit(partial(_repeat, jax.numpy.add))
    apart = jax.jit(partial(_repeat, lambda x, y: jax.lax.optimization_barrier(x + y)))

    def trace_anew() -> object:
        return jax.jit(lambda x, y: x + y)(a, b).block_until_ready()

    return {
        "one add": {
            "jax.jit": lambda: add(a, b).block_until_ready(),
            "jax": lambda: (a + b).block_until_ready(),
            "jax.jit, traced anew": trace_anew,
        },
        "100 adds": {"jax.jit": lambda: chain(a, b).block_until_ready()},
        "100 adds, unfused": {
            "jax.jit": lambda: apart(a, b).block_until_ready(),
            "jax": lambda: _repeat(jax.numpy.add, a, b).block_until_ready(),
        },
    }


def _repeat(add: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    for _ in range(N_ADDS):
        x = add(x, y)
    return x


def _add(x: Any, y: Any) -> Any:
    return x + y * 2


def _scale(x: Any, _: Any) -> Any:
    return (x - x.mean()) / (x.max() - x.min())


NEW_LENGTHS: Mapping[str, Callable[[Any, Any], Any]] = {
    "x + y * 2": _add,
    "(x - mean) / (max - min)": _scale,
}


def measure_new_lengths(compute: Callable[[Any, Any], Any], seconds: float) -> dict[str, float]:
    """Median seconds of a computation on a new length by library, and the number of kernels that
    svod compiled.
    """
    from svod_tensor import PrepareConfig, Variable, caches, clear_caches, jit

    lengths = random.Random(1).sample(LENGTHS, N_LENGTHS)
    medians: dict[str, float] = {}
    clear_caches(disk=True)
    config = PrepareConfig(vary_sizes=True)
    medians["svod realize"] = _time_lengths(
        lambda x, y: compute(x, y).realize_with(config), _make_svod_pair, lengths
    )
    medians["kernels"] = caches()["kernel"].entries
    clear_caches(disk=True)
    known = PrepareConfig(vary_sizes=False)
    medians["svod realize, known sizes"] = _time_lengths(
        lambda x, y: compute(x, y).realize_with(known), _make_svod_pair, lengths, seconds
    )
    clear_caches(disk=True)
    size = Variable("size", 1, LENGTHS[-1])
    dynamic = jit(compute, dynamic_shapes={0: {0: size}, 1: {0: size}})
    dynamic(*_make_svod_pair(LENGTHS[0]))
    for name in ("a new length", "a known length"):
        # As many lengths as a function remembers.
        medians[f"svod jit, dynamic_shapes, {name}"] = _time_lengths(
            dynamic, _make_svod_pair, lengths[:500]
        )
    clear_caches(disk=True)
    # After several captures, a warning would suggest variables.
    medians["svod jit"] = _time_lengths(jit(compute), _make_svod_pair, lengths[:30], seconds)
    clear_caches(disk=True)
    medians["numpy"] = _time_lengths(compute, _make_arrays, lengths, seconds)
    try:
        import torch

        medians["torch"] = _time_lengths(
            compute, lambda n: tuple(map(torch.from_numpy, _make_arrays(n))), lengths, seconds
        )
    except ImportError:
        pass
    try:
        import jax

        pair = lambda n: tuple(map(jax.numpy.asarray, _make_arrays(n)))  # noqa: E731
        medians["jax"] = _time_lengths(
            lambda x, y: compute(x, y).block_until_ready(), pair, lengths, seconds
        )
        traced = jax.jit(compute)
        medians["jax.jit"] = _time_lengths(
            lambda x, y: traced(x, y).block_until_ready(), pair, lengths, seconds
        )
    except ImportError:
        pass
    return medians


def _time_lengths(
    compute: Callable[[Any, Any], Any],
    make: Callable[[int], Any],
    lengths: list[int],
    seconds: float = float("inf"),
) -> float:
    times: list[float] = []
    end = time.perf_counter() + seconds
    for n in lengths:
        pair = make(n)
        started = time.perf_counter()
        compute(*pair)
        times.append(time.perf_counter() - started)
        if time.perf_counter() > end:
            break
    return median(times)


def _make_arrays(n: int) -> tuple[Any, Any]:
    return np.arange(n, dtype=np.float32), np.ones(n, np.float32)


def _make_svod_pair(n: int) -> tuple[Any, ...]:
    from svod_tensor import Tensor

    return tuple(Tensor(array).realize() for array in _make_arrays(n))


def measure_waking(n: int = 15) -> dict[str, float]:
    """Median seconds of a kernel with one part and with two after idle gaps, and their difference.

    The parts do little work, so that the difference is the cost of the second thread.
    """
    from svod_tensor import Tensor

    a, b = (Tensor(array).realize() for array in _make_inputs())
    launch = _find_launch((a + b).prepare())
    medians: dict[str, float] = {}
    for gap in (0.0, *GAPS):
        times: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(n if gap else 20 * n):
            for n_parts, taken in times.items():
                time.sleep(gap)
                start = time.perf_counter()
                launch(n_parts)
                taken.append(time.perf_counter() - start)
        one_part, two_parts = (sorted(taken)[len(taken) // 2] for taken in times.values())
        name = f"{gap * 1e3:g} ms"
        medians |= {
            f"{name}: one part": one_part,
            f"{name}: two parts": two_parts,
            f"{name}: waking": two_parts - one_part,
        }
    return medians


def _find_launch(plan: Any) -> Callable[[int], None]:
    """Run the plan's only kernel in several parts; each part computes everything, with equal
    results.
    """
    from array import array

    (kernel,) = plan.kernels()
    addresses = array("Q", [buffer.address for buffer in kernel.buffers])
    values = array("q")
    program = kernel.kernel.program
    return lambda n_parts: program(addresses, values, (n_parts, 1, 1), None)


def measure_idle() -> float:
    """Processor seconds per idle second, after a kernel on two threads."""
    from svod_tensor import Tensor

    a, b = (Tensor(array).realize() for array in _make_inputs())
    launch = _find_launch((a + b).prepare())
    for _ in range(100):
        launch(2)
    time.sleep(0.01)
    before = time.process_time()
    time.sleep(1)
    return time.process_time() - before


def _format_calls(workload: str, times: Mapping[str, float]) -> str:
    rows = [
        [name, format_time(seconds), f"{seconds / times['svod plan']:.1f}"]
        for name, seconds in times.items()
    ]
    return format_table([workload, "time", "/ svod plan"], rows)


def _format_new_lengths(name: str, medians: Mapping[str, float]) -> str:
    times = {who: seconds for who, seconds in medians.items() if who != "kernels"}
    rows = [
        [who, format_time(seconds), f"{seconds / times['svod realize']:.2f}"]
        for who, seconds in times.items()
    ]
    table = format_table([f"a new length: {name}", "time", "/ svod realize"], rows)
    return f"{table}\n{medians['kernels']:.0f} kernels for {N_LENGTHS} lengths"


def _format_waking(times: Mapping[str, float]) -> str:
    rows = [
        [
            f"{gap * 1e3:g} ms",
            *(
                format_time(times[f"{gap * 1e3:g} ms: {what}"])
                for what in ("one part", "two parts", "waking")
            ),
        ]
        for gap in (0.0, *GAPS)
    ]
    return format_table(["after a gap of", "one part", "two parts", "difference"], rows)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each table")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
