"""Checked collectives: each is announced to the other processes before it is called.

Processes that run different programs would wait for each other for ever, or exchange the wrong
values. Here they raise an error that says what each of them calls, or who did not call within the
time limit.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from mpi4py import MPI

from svod_mpi.errors import MeshError

if TYPE_CHECKING:
    from collections.abc import Callable

    from svod_mpi._collectives import Group

__all__ = ["check_calls"]

# Halos are sent with tag 0.
_TAG: Final = 1
_POLL_S: Final = 2e-4


class _Announcement(NamedTuple):
    """A collective that a process is about to call."""

    rank: int
    name: str
    number: int
    dtype: str
    shape: tuple[int, ...]
    numbers: tuple[int, ...]

    def describe(self) -> str:
        return f"{self.name} of {self.dtype} {self.shape} as number {self.number}"

    def agrees_with(self, other: _Announcement) -> bool:
        """Whether both call one collective. Parts differ in shape, whole results do not."""
        is_whole = self.name.startswith("reduce.")
        return (self.name, self.number, self.dtype, self.numbers) == (
            other.name,
            other.number,
            other.dtype,
            other.numbers,
        ) and (self.shape == other.shape or not is_whole)


def check_calls(
    name: str, function: Callable[..., None], find_group: Callable[[int], Group], limit_s: float
) -> Callable[..., None]:
    """The collective `name`, announced before each call.

    Raises:
        MeshError: when it is called, if another process of the group calls another collective, or
            none within `limit_s` seconds.
    """

    def call(out: Any, *arguments: Any) -> None:
        number, mask, *numbers = (int(x) for x in arguments if not isinstance(x, np.ndarray))
        # A process that receives nothing writes a byte instead.
        first = next(x for x in (*arguments, out) if not isinstance(x, (int, float)))
        rank = MPI.COMM_WORLD.Get_rank()
        own = _Announcement(rank, name, number, str(first.dtype), out.shape, tuple(numbers))
        _agree(own, find_group(mask).communicator, limit_s)
        function(out, *arguments)

    return call


def _agree(own: _Announcement, comm: MPI.Intracomm, limit_s: float) -> None:
    others = [process for process in range(comm.Get_size()) if process != comm.Get_rank()]
    requests = [comm.isend(own, process, _TAG) for process in others]
    end = time.monotonic() + limit_s
    while others:
        arrived = [process for process in others if comm.iprobe(process, _TAG)]
        for process in arrived:
            other: _Announcement = comm.recv(source=process, tag=_TAG)
            if not own.agrees_with(other):
                raise MeshError(
                    operation=own.name,
                    problem=(
                        f"rank {own.rank} calls {own.describe()}, rank {other.rank} calls"
                        f" {other.describe()}"
                    ),
                    hint="all processes run one program: branch on values that all of them have",
                )
        others = [process for process in others if process not in arrived]
        if others and time.monotonic() > end:
            ranks = comm.Get_group().Translate_ranks(others, MPI.COMM_WORLD.Get_group())
            named = ", ".join(map(str, ranks))
            raise MeshError(
                operation=own.name,
                problem=f"rank {named} did not call {own.describe()} within {limit_s:g} s",
                hint="all processes run one program; a longer limit is timeout_s= of the mesh",
            )
        if others and not arrived:
            time.sleep(_POLL_S)
    MPI.Request.waitall(requests)
