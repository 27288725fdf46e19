"""Simulation of a mesh: each rank is a fork of this process, which does the collectives itself.

Ranks are processes and not threads, since random numbers, settings and caches are those of a
process. This process sees what every rank waits for, so it knows at once, and not after a while,
that ranks will wait for each other for ever.
"""

from __future__ import annotations

import math
import multiprocessing
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from svod_ir import Mesh
from svod_tensor import register_custom_function
from svod_testing._simulated_collectives import COLLECTIVES, Array, Call, Results, list_partners

__all__ = ["simulate_mesh"]

_Result = TypeVar("_Result")


def simulate_mesh(
    sizes: Mapping[str, int], program: Callable[[Mesh], _Result], *, limit_s: float = 300.0
) -> list[_Result]:
    """Run `program` on each rank of a mesh, without a library for communication; return what each
    rank returned.

    Args:
        sizes: number of ranks along each named axis of the mesh.
        program: function of the mesh with the position of the rank. Its result must be picklable.
        limit_s: time that ranks may compute without any of them calling a collective.

    Raises:
        AssertionError: if ranks call different collectives, one ends or fails while others wait for
            it, or the time is over. The message says for each rank what it called last.

    Example:
        >>> from svod_tensor import Tensor
        >>> from svod_testing import simulate_mesh
        >>> def sum_rows(mesh):
        ...     x = Tensor([[1.0, 2.0], [3.0, 4.0]]).shard(mesh, {"data": 0})
        ...     return x.sum(0).tolist()
        >>> simulate_mesh({"data": 2}, sum_rows)
        [[4.0, 6.0], [4.0, 6.0]]
        >>> simulate_mesh({"data": 2}, lambda mesh: mesh.rank or sum_rows(mesh))
        Traceback (most recent call last):
            ...
        AssertionError: ranks wait for each other
        rank 0: waits in reduce.add of float32 as number 0, result (1, 2), after 0 calls
        rank 1: ended after 0 calls; it returned 1
    """
    names, numbers = tuple(sizes), tuple(sizes.values())
    transport = "simulated:" + ",".join(f"{name}={size}" for name, size in sizes.items())
    ranks: list[_Rank] = []
    try:
        for position in product(*map(range, numbers)):
            mesh = Mesh(names, numbers, position, transport=transport)
            ranks.append(_start(mesh, program, [rank.connection for rank in ranks]))
        _Simulation(ranks, limit_s).run()
        return [cast("_Result", rank.result) for rank in ranks]
    finally:
        for rank in ranks:
            rank.process.kill()
            rank.process.join()
            rank.connection.close()


class _End(NamedTuple):
    """The end of a rank: its result, or the traceback of its error."""

    result: object
    error: str | None = None


class _Rank:
    """A rank, as this process sees it.

    Attributes:
        call: the collective that it waits in, if any.
        n_calls: number of collectives that it has done.
        last: the last one of them.
    """

    def __init__(self, mesh: Mesh, process: BaseProcess, connection: Connection) -> None:
        self.mesh = mesh
        self.process = process
        self.connection = connection
        self.call: Call | None = None
        self.n_calls = 0
        self.last: Call | None = None
        self.has_ended = False
        self.result: object = None

    def describe(self) -> str:
        if self.call is not None:
            doing = f"waits in {self.call},"
        else:
            doing = "ended" if self.has_ended else "computes"
        last = "" if self.last is None else f", the last one {self.last}"
        text = f"rank {self.mesh.rank}: {doing} after {self.n_calls} calls{last}"
        return text if self.result is None else f"{text}; it returned {self.result!r}"


def _start(
    mesh: Mesh, program: Callable[[Mesh], object], connections: Sequence[Connection]
) -> _Rank:
    """Fork a rank after those at the other ends of `connections`."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_run_rank, args=(mesh, program, theirs, [*connections, ours]), daemon=True
    )
    process.start()
    # Ranks that start later must not keep it open, so that the end of this one is seen.
    theirs.close()
    return _Rank(mesh, process, cast("Connection", ours))


def _run_rank(
    mesh: Mesh,
    program: Callable[[Mesh], object],
    connection: Connection,
    inherited: Sequence[Connection],
) -> None:
    # Else no rank would see that the simulation was killed, and all would wait for ever.
    for other in inherited:
        other.close()
    for name in COLLECTIVES:
        function = partial(_call, name, connection)
        register_custom_function(f"{mesh.transport}.{name}", function)
    try:
        connection.send(_End(program(mesh)))
    except BaseException as error:
        connection.send(_End(None, "".join(traceback.format_exception(error))))


def _call(name: str, connection: Connection, out: Any, *arguments: Any) -> None:
    arrays = tuple(cast("Array", x) for x in arguments if isinstance(x, np.ndarray))
    number, mask, *numbers = (int(x) for x in arguments if not isinstance(x, np.ndarray))
    connection.send(Call(name, number, mask, tuple(numbers), arrays, out.shape))
    result = connection.recv()
    if result is not None:
        np.copyto(out, result.reshape(out.shape), casting="no")


class _Simulation:
    def __init__(self, ranks: Sequence[_Rank], limit_s: float) -> None:
        self.ranks = ranks
        self.limit_s = limit_s

    def run(self) -> None:
        """Receive calls and answer them until all ranks have ended.

        Raises:
            AssertionError: if a rank fails, ranks wait for each other, or the time is over.
        """
        while not all(rank.has_ended for rank in self.ranks):
            computing = [r for r in self.ranks if r.call is None and not r.has_ended]
            if not computing:
                raise self._fail("ranks wait for each other")
            ready = wait([rank.connection for rank in computing], self.limit_s)
            if not ready:
                raise self._fail(f"no rank called a collective within {self.limit_s:g} s")
            for rank in computing:
                if rank.connection in ready:
                    self._receive(rank)

    def _receive(self, rank: _Rank) -> None:
        try:
            message = rank.connection.recv()
        except EOFError:
            rank.process.join()
            code = rank.process.exitcode
            raise self._fail(f"rank {rank.mesh.rank} ended with exit code {code}") from None
        if isinstance(message, Call):
            rank.call = message
            self._answer(rank, message)
            return
        assert isinstance(message, _End)
        if message.error is not None:
            raise self._fail(f"rank {rank.mesh.rank} failed", message.error)
        rank.has_ended, rank.result = True, message.result

    def _answer(self, rank: _Rank, call: Call) -> None:
        """Do the collective if all ranks that take part in it have called it."""
        group = self._list_group(rank.mesh, call.mask)
        partners = list_partners(call, group.index(rank), len(group))
        calls = [member.call or call for member in group]
        members = [group[position] for position in sorted(partners)]
        if not all(member.call and member.call.agrees_with(call) for member in members):
            return
        try:
            results = _compute(call, calls, partners)
        except ValueError as error:
            raise self._fail(f"{call.name} has parts that do not match: {error}") from error
        for position in partners:
            member = group[position]
            member.call, member.last = None, calls[position]
            member.n_calls += 1
            member.connection.send(results[position])

    def _list_group(self, mesh: Mesh, mask: int) -> list[_Rank]:
        """The ranks that have the position of a rank along all axes that are not in the mask."""
        kept = [axis for axis in range(len(mesh.sizes)) if not mask >> axis & 1]
        return [
            rank
            for rank in self.ranks
            if all(rank.mesh.position[axis] == mesh.position[axis] for axis in kept)
        ]

    def _fail(self, problem: str, details: str = "") -> AssertionError:
        lines = [rank.describe() for rank in self.ranks]
        return AssertionError("\n".join([problem, *lines, *([details] if details else [])]))


def _compute(call: Call, calls: Sequence[Call], partners: set[int]) -> Results:
    """The results of the ranks at the positions of `partners`.

    Raises:
        ValueError: if the parts do not match, or a result has not the size of its rank's output.
    """
    present = [c if p in partners else call for p, c in enumerate(calls)]
    results = COLLECTIVES[call.name](present)
    for position in partners:
        result, shape = results[position], calls[position].shape
        if result is not None and result.size != math.prod(shape):
            raise ValueError(f"{result.shape} at position {position} instead of {shape}")
    return results
