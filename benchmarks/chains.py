"""Measure a step whose calls take the results of the previous call, in svod, numpy and jax.

    python benchmarks/chains.py
    python benchmarks/chains.py --seconds 1     # per table; the minimum counts

A step runs 13 kernels over tensors of 16 elements, spread over 1 or 8 tensors, on one thread.
Measurements are interleaved in one process. `same` calls the captured function with the same
tensors each time, `chain` with the results of the last call; `donated` donates these, and `in
place` assigns to the arguments. `plan` runs only the kernels, on fixed buffers. numpy makes two
calls for each kernel. An optimization barrier keeps jax's operations separate (XLA may drop it on
the CPU). jax is skipped if it is not installed.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from measure import measure_in_turns
from report import describe_machine, format_machine, format_table, format_time, write_json

N_ELEMENTS = 16
N_KERNELS = 13
N_TENSORS = (1, 8)
ALONE = {
    **dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "SVOD_THREADS"), "1"
    ),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}

State = tuple[Any, ...]
Calls = dict[str, Callable[[], object]]


def main() -> int:
    arguments = _parse_arguments()
    if any(os.environ.get(name) != value for name, value in ALONE.items()):
        # Libraries read the number of threads when they are loaded.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ALONE})
    machine = describe_machine()
    print(format_machine(machine), flush=True)
    report: dict[str, Mapping[str, float]] = {}
    for n in N_TENSORS:
        calls = {**_make_svod_calls(n), **_make_numpy_calls(n), **_make_jax_calls(n)}
        name = f"{n} tensor{'s' if n > 1 else ''}"
        report[name] = measure_in_turns(calls, arguments.seconds)
        print(f"\n{_format(name, report[name])}", flush=True)
    print(write_json("chains", {"machine": machine, "seconds": report}))
    return 0


def take_step(state: State, operand: Any, apply: Callable[[Any, Any], Any]) -> State:
    """State after 13 operations, applied to its tensors in turn."""
    tensors = list(state)
    for index in range(N_KERNELS):
        position = index % len(tensors)
        tensors[position] = apply(tensors[position], operand)
    return tuple(tensors)


def _make_inputs(n: int) -> tuple[list[Any], Any]:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(N_ELEMENTS).astype(np.float32) for _ in range(n + 1)]
    return arrays[:n], arrays[n]


class Chain:
    """Call a step with the results of its previous call."""

    def __init__(self, step: Callable[..., State], state: State, operand: Any) -> None:
        self.step, self.state, self.operand = step, state, operand

    def __call__(self) -> None:
        self.state = self.step(self.state, self.operand)


def _make_svod_calls(n: int) -> Calls:
    from svod_tensor import Tensor, jit

    arrays, array = _make_inputs(n)

    def make() -> State:
        return tuple(Tensor(a).clone().realize() for a in arrays)

    def apply(x: Tensor, y: Tensor) -> Tensor:
        return (x * 0.5 + y).contiguous()

    def step(state: State, y: Tensor) -> State:
        return take_step(state, y, apply)

    def assign(state: State, y: Tensor) -> None:
        for x, new in zip(state, take_step(state, y, apply), strict=True):
            x.assign(new)

    operand = Tensor(array).clone().realize()
    same, in_place, plain = make(), make(), jit(step)
    chain, donated = Chain(plain, make(), operand), Chain(jit(step, donate=0), make(), operand)
    write = jit(assign)
    calls: Calls = {
        "svod plan": Tensor.prepare_batch(step(make(), operand)).execute,
        "svod jit, same": lambda: plain(same, operand),
        "svod jit, chain": chain,
        "svod jit, donated": donated,
        "svod jit, in place": lambda: write(in_place, operand),
    }
    expected: State = tuple(arrays)
    for _ in range(3):
        expected = take_step(expected, array, lambda x, y: x * np.float32(0.5) + y)
        for name in ("svod jit, chain", "svod jit, donated", "svod jit, in place"):
            calls[name]()
    for state in (chain.state, donated.state, in_place):
        for actual, right in zip(state, expected, strict=True):
            np.testing.assert_allclose(actual.numpy(), right, rtol=1e-6)
    return calls


def _make_numpy_calls(n: int) -> Calls:
    arrays, array = _make_inputs(n)
    half = np.float32(0.5)
    return {
        "numpy": Chain(
            lambda state, y: take_step(state, y, lambda a, b: a * half + b), tuple(arrays), array
        )
    }


def _make_jax_calls(n: int) -> Calls:
    try:
        import jax
    except ImportError:
        print("without jax: it is not installed")
        return {}
    arrays, array = _make_inputs(n)
    state, operand = tuple(map(jax.numpy.asarray, arrays)), jax.numpy.asarray(array)

    def step(state: State, y: Any) -> State:
        return take_step(state, y, lambda a, b: jax.lax.optimization_barrier(a * 0.5 + b))

    plain, donating = jax.jit(step), jax.jit(step, donate_argnums=0)
    copies = tuple(jax.numpy.array(x) for x in state)

    def finish(chain: Chain) -> Callable[[], object]:
        def call() -> None:
            chain()
            jax.block_until_ready(chain.state)

        return call

    return {
        "jax.jit, same": lambda: jax.block_until_ready(plain(state, operand)),
        "jax.jit, chain": finish(Chain(plain, state, operand)),
        "jax.jit, donated": finish(Chain(donating, copies, operand)),
    }


def _format(name: str, times: Mapping[str, float]) -> str:
    same = times["svod jit, same"]
    rows = [
        [call, format_time(seconds), f"{seconds / same:.2f}"] for call, seconds in times.items()
    ]
    return format_table([name, "time of a step", "/ svod jit, same"], rows)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each table")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
