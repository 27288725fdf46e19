"""Times for which this process waits in collectives for others, while they are recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from mpi4py import MPI

    from svod_mpi._collectives import Group

__all__ = ["Wait", "record_waits", "time_waits", "wait_for_others"]


class Wait(NamedTuple):
    """Time from the start of a collective until all of its processes have started it."""

    start_ns: int
    elapsed_ns: int


_recorders: Final[list[list[Wait]]] = []


@contextmanager
def record_waits() -> Generator[list[Wait]]:
    """Record the waits in the block. All processes do this together."""
    waits: list[Wait] = []
    _recorders.append(waits)
    try:
        yield waits
    finally:
        _recorders.remove(waits)


def time_waits(
    function: Callable[..., None], find_group: Callable[[int], Group]
) -> Callable[..., None]:
    """The function of a collective, after a barrier of its processes where waits are recorded."""

    def call(out: Any, *arguments: Any) -> None:
        if _recorders:
            _, mask, *_ = (x for x in arguments if not isinstance(x, np.ndarray))
            wait_for_others(find_group(int(mask)).communicator)
        function(out, *arguments)

    return call


def wait_for_others(communicator: MPI.Intracomm) -> int:
    """Record the nanoseconds until all processes call this; nothing where waits are not recorded."""
    if not _recorders:
        return 0
    start = time.perf_counter_ns()
    communicator.Barrier()
    wait = Wait(start, time.perf_counter_ns() - start)
    for waits in _recorders:
        waits.append(wait)
    return wait.elapsed_ns
