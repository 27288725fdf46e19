"""Collectives of plans, as functions on numpy arrays over communicators of a mesh.

Each takes the output, the inputs, further arrays that only order the calls, and numbers: the number
of the call in its plan, a mask of the axes of the mesh, and what
`svod_schedule.rangeify.mesh.collectives` states for its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from svod_mpi._reductions import NAMES, get_operation, get_type, reduce_in_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpi4py import MPI
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["Group", "list_counts", "list_functions"]


class Group(NamedTuple):
    """The processes along some axes of a mesh, through this one.

    Attributes:
        communicator: of these processes alone, in the order of their positions.
        is_deterministic: whether sums are added in the order of the processes.
    """

    communicator: MPI.Intracomm
    is_deterministic: bool


class _Call(NamedTuple):
    out: Array
    arrays: Sequence[Array]
    group: Group
    numbers: Sequence[int]

    @property
    def position(self) -> int:
        """The position of this process among those of the group."""
        return self.group.communicator.Get_rank()

    @property
    def size(self) -> int:
        """The number of processes of the group."""
        return self.group.communicator.Get_size()


def list_functions(find_group: Callable[[int], Group]) -> dict[str, Callable[..., None]]:
    """The function of each collective by its name; `find_group` finds the processes by a mask."""
    functions: dict[str, Callable[[_Call], None]] = {
        **{f"reduce.{name}": _make_reduce(name) for name in NAMES},
        **{f"scatter.{name}": _make_scatter(name) for name in NAMES},
        "gather": _gather,
        "exchange": _exchange,
        "halo": _halo,
        "mirror": _mirror,
    }
    return {name: _on_arguments(run, find_group) for name, run in functions.items()}


def _on_arguments(
    run: Callable[[_Call], None], find_group: Callable[[int], Group]
) -> Callable[..., None]:
    def call(out: Array, *arguments: Array | int) -> None:
        arrays = [x for x in arguments if isinstance(x, np.ndarray)]
        _, mask, *numbers = (x for x in arguments if not isinstance(x, np.ndarray))
        run(_Call(out, arrays, find_group(int(mask)), numbers))

    return call


def _make_reduce(name: str) -> Callable[[_Call], None]:
    def reduce(call: _Call) -> None:
        x, out = call.arrays[0], call.out
        kind = get_type(x.dtype)
        comm = call.group.communicator
        if call.group.is_deterministic:
            parts = np.empty((call.size, *x.shape), x.dtype)
            comm.Allgather([x, kind], [parts, kind])
            reduce_in_order(name, parts, out)
        else:
            comm.Allreduce([x, kind], [out, kind], get_operation(name, x.dtype))

    return reduce


def _make_scatter(name: str) -> Callable[[_Call], None]:
    def scatter(call: _Call) -> None:
        x, out = call.arrays[0], call.out
        kind = get_type(x.dtype)
        comm = call.group.communicator
        counts = list_counts(call.numbers, x.size)
        if call.group.is_deterministic:
            parts = np.empty((call.size, *out.shape), x.dtype)
            comm.Alltoallv([x, counts, kind], [parts, [out.size] * call.size, kind])
            reduce_in_order(name, parts, out)
        else:
            comm.Reduce_scatter([x, kind], [out, kind], counts, get_operation(name, x.dtype))

    return scatter


def _gather(call: _Call) -> None:
    out, kind = call.out, get_type(call.out.dtype)
    counts = list_counts(call.numbers, out.size)
    own = call.arrays[0] if counts[call.position] else np.empty(0, out.dtype)
    call.group.communicator.Allgatherv([own, kind], [out, counts, kind])


def _exchange(call: _Call) -> None:
    x, out, kind = call.arrays[0], call.out, get_type(call.out.dtype)
    received, sent = call.numbers[: call.size], call.numbers[call.size :]
    call.group.communicator.Alltoallv(
        [x, list_counts(sent, x.size), kind], [out, list_counts(received, out.size), kind]
    )


def _halo(call: _Call) -> None:
    axis, *sizes = call.numbers
    old, new = _bounds(sizes[: call.size]), _bounds(sizes[call.size :])
    index, comm = call.position, call.group.communicator
    sent = [_overlap(old[index], other) for other in new]
    wanted = [_overlap(other, new[index]) for other in old]
    sent[index] = wanted[index] = (0, 0)
    # The first input holds what lower processes want, the next what higher ones do.
    sources = iter(call.arrays)
    requests: list[MPI.Request] = []
    keep: list[Array] = []
    for others in (range(index), range(index + 1, call.size)):
        parts = [(p, sent[p]) for p in others if sent[p][0] < sent[p][1]]
        if parts:
            source, first = next(sources), min(low for _, (low, _) in parts)
            for process, (low, high) in parts:
                data = np.ascontiguousarray(_slice(source, axis, low - first, high - first))
                keep.append(data)
                requests.append(comm.Isend([data, get_type(data.dtype)], process))
    received: list[tuple[Array, int]] = []
    position = 0
    for process, (low, high) in enumerate(wanted):
        if low < high:
            data = np.empty(_shape(call.out, axis, high - low), call.out.dtype)
            requests.append(comm.Irecv([data, get_type(data.dtype)], process))
            received.append((data, position))
            position += high - low
    _wait(requests)
    for data, begin in received:
        _slice(call.out, axis, begin, begin + data.shape[axis])[...] = data


def _mirror(call: _Call) -> None:
    x, kind = call.arrays[0], get_type(call.out.dtype)
    other = call.size - 1 - call.position
    call.group.communicator.Sendrecv([x, kind], other, 0, [call.out, kind], other, 0)


def _wait(requests: Sequence[MPI.Request]) -> None:
    for request in requests:
        request.Wait()


def list_counts(sizes: Sequence[int], n_elements: int) -> list[int]:
    """The number of elements in each part of an array, whose sizes along an axis are `sizes`."""
    return [size * n_elements // sum(sizes) for size in sizes]


def _bounds(sizes: Sequence[int]) -> list[tuple[int, int]]:
    ends = list(accumulate(sizes))
    return [(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    low = max(a[0], b[0])
    return low, max(low, min(a[1], b[1]))


def _slice(x: Array, axis: int, begin: int, end: int) -> Array:
    return x[(slice(None),) * axis + (slice(begin, end),)]


def _shape(like: Array, axis: int, size: int) -> tuple[int, ...]:
    return (*like.shape[:axis], size, *like.shape[axis + 1 :])
