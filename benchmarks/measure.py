"""Interleaved timing of several calls on a machine with other load."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from time import perf_counter

__all__ = ["THREADS", "lead_in", "measure_in_turns", "measure_long", "restart_with_threads"]

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "SVOD_THREADS")

LEAST_ROUNDS = 3
LEAST_SECONDS = 1e-4
REPEATS = 3
LEAD_IN_SECONDS = 0.02


def restart_with_threads(n: int) -> None:
    """Limit every library to `n` threads.

    Libraries read the environment when they are loaded, so the process starts again.
    """
    limits = dict.fromkeys(THREADS, str(n))
    if n == 1:
        # jax uses one thread per core, or one thread.
        limits["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    if any(os.environ.get(name) != value for name, value in limits.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **limits})


def measure_in_turns(calls: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Minimum seconds of each call over interleaved rounds, for about `seconds` in total.

    Interleaving exposes all calls to a slow phase of the machine, and the minimum is the time
    without disturbance. Each turn opens with untimed calls: threads of the previous library spin
    for some milliseconds, and the caches hold its data.
    """
    n_calls = {name: _count_calls(call) for name, call in calls.items()}
    least = dict.fromkeys(calls, float("inf"))
    end = perf_counter() + seconds
    n_rounds = 0
    while n_rounds < LEAST_ROUNDS or perf_counter() < end:
        for name, call in calls.items():
            lead_in(call)
            for _ in range(REPEATS):
                least[name] = min(least[name], _time_calls(call, n_calls[name]))
        n_rounds += 1
    return least


def measure_long(calls: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Minimum seconds of each call over at least two interleaved rounds.

    `measure_in_turns` would repeat calls that take seconds ten times.
    """
    least = dict.fromkeys(calls, float("inf"))
    n_calls: dict[str, int] = {}
    for name, call in calls.items():
        call()
        n_calls[name] = max(1, int(1e-3 / max(_time_calls(call, 1), 1e-7)))
    end, n_rounds = perf_counter() + seconds, 0
    while n_rounds < 2 or perf_counter() < end:
        for name, call in calls.items():
            if least[name] < LEAD_IN_SECONDS:
                lead_in(call)
            least[name] = min(least[name], _time_calls(call, n_calls[name]))
        n_rounds += 1
    return least


def lead_in(call: Callable[[], object]) -> None:
    """Open a turn: call until the threads of the previous library have stopped spinning."""
    end = perf_counter() + LEAD_IN_SECONDS
    call()
    while perf_counter() < end:
        call()


def _count_calls(call: Callable[[], object]) -> int:
    """Number of calls timed together; a short call takes less than the clock's resolution."""
    call()
    once = min(_time_calls(call, 1) for _ in range(REPEATS))
    return max(1, int(LEAST_SECONDS / max(once, 1e-7)))


def _time_calls(call: Callable[[], object], n: int) -> float:
    start = perf_counter()
    for _ in range(n):
        call()
    return (perf_counter() - start) / n
