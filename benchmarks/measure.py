"""Timing of several calls beside each other, on a machine that does other things too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter

__all__ = ["measure_in_turns"]

LEAST_ROUNDS = 3
LEAST_SECONDS = 1e-4
REPEATS = 3
LEAD_IN_SECONDS = 0.02


def measure_in_turns(calls: Mapping[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """The least seconds that each call took, over rounds in which each has its turn, for about `seconds` in all.

    A slow phase of the machine then hits all of them, and the least of many is what the call takes when nothing
    disturbs it. Each turn opens with calls that are not timed: the threads of the library before spin for some
    milliseconds, and the caches are full of its data.
    """
    n_calls = {name: _count_calls(call) for name, call in calls.items()}
    least = dict.fromkeys(calls, float("inf"))
    end = perf_counter() + seconds
    n_rounds = 0
    while n_rounds < LEAST_ROUNDS or perf_counter() < end:
        for name, call in calls.items():
            _lead_in(call)
            for _ in range(REPEATS):
                least[name] = min(least[name], _time_calls(call, n_calls[name]))
        n_rounds += 1
    return least


def _lead_in(call: Callable[[], object]) -> None:
    end = perf_counter() + LEAD_IN_SECONDS
    call()
    while perf_counter() < end:
        call()


def _count_calls(call: Callable[[], object]) -> int:
    """How many calls are timed together: short ones take less than the clock resolves."""
    call()
    once = min(_time_calls(call, 1) for _ in range(REPEATS))
    return max(1, int(LEAST_SECONDS / max(once, 1e-7)))


def _time_calls(call: Callable[[], object], n: int) -> float:
    start = perf_counter()
    for _ in range(n):
        call()
    return (perf_counter() - start) / n
